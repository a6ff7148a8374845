//! A client that is held at its end, alone in its process, as the processor's time is that of all its threads.
#![allow(clippy::unwrap_used, reason = "tests say what fails by failing")]

use std::net::TcpListener;
use std::time::Duration;

use dhow_measure::{Client, Column, Point, Settings, Target, Type};

static SENT: Point = Point {
    name: "sent",
    about: "a datagram was sent",
    columns: &[Column::new("number", Type::Uint64, "", "its number")],
};

/// Processor time of this process, in ticks of 10 ms.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    let words: Vec<&str> = after_name.split_whitespace().collect();
    // User and system time are fields 14 and 15 of proc_pid_stat(5); the name is the second.
    [11, 12]
        .map(|at| words.get(at).unwrap().parse::<u64>().unwrap())
        .iter()
        .sum()
}

#[test]
fn who_waits_for_a_collectors_word_leaves_the_processor_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::Tcp(listener.local_addr().unwrap().to_string());
    let settings = Settings::new(target, "run", "alpha", "otg")
        .with_spool(directory.path().to_path_buf(), 1 << 20);
    let client = Client::connect(settings).unwrap();
    client.stream(&SENT).unwrap().inject(&[1_u64.into()]);
    // One that says nothing, as those of OML: rows are held for a second.
    let collector = listener.accept().unwrap();
    let before = ticks();
    client.close_within(Duration::from_millis(800));
    assert!(ticks() - before < 20, "{} ticks", ticks() - before);
    drop(collector);
}
