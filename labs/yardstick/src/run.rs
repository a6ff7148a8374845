//! One measurement: both sides as processes of their own.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use clap::ValueEnum as _;
use serde::{Deserialize, Serialize};

use crate::Run;
use crate::failure::Failure;
use crate::log::Mode;
use crate::receiver::Received;
use crate::sender::Sent;

/// The result of one measurement.
#[derive(Debug, Serialize)]
pub struct Measured {
    mode: Mode,
    size_octets: u32,
    flush_delay_ms: u64,
    window_octets: u64,
    /// Frames kept and acknowledged.
    frames: u64,
    /// Octets of the stream, headers included.
    octets: u64,
    /// From the sender's first octet to its last acknowledgment.
    seconds: f64,
    frames_per_s: f64,
    /// Of payload.
    goodput_mbit_s: f64,
    sender_cpu_s: f64,
    receiver_cpu_s: f64,
    commits: u64,
    flushes: u64,
}

/// A process that does not outlive this one's interest in it.
struct Side {
    name: &'static str,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Side {
    fn start(name: &'static str, words: &[String]) -> Result<Self, Failure> {
        let wrong = |error| Failure::Start(name, error);
        let program = std::env::current_exe().map_err(wrong)?;
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(wrong)?;
        let output = child
            .stdout
            .take()
            .ok_or_else(|| wrong(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self {
            name,
            child,
            output: BufReader::new(output),
        })
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(Failure::Process(self.name)),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(Failure::Start(self.name, error)),
        }
    }

    fn end<T: for<'a> Deserialize<'a>>(mut self) -> Result<T, Failure> {
        let mut text = String::new();
        let name = self.name;
        self.output
            .read_to_string(&mut text)
            .map_err(|error| Failure::Start(name, error))?;
        let status = self
            .child
            .wait()
            .map_err(|error| Failure::Start(name, error))?;
        serde_json::from_str(&text)
            .ok()
            .filter(|_| status.success())
            .ok_or(Failure::Process(name))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory of this measurement alone, gone with the value.
struct Room(PathBuf);

impl Room {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("dhow-yardstick-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| Failure::Log(path.clone(), error))?;
        Ok(Self(path))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs both sides to their end.
///
/// # Errors
/// One of them failed.
pub fn run(words: &Run) -> Result<Measured, Failure> {
    match &words.dir {
        Some(directory) => measure(words, directory),
        None => measure(words, &Room::new()?.0),
    }
}

fn measure(words: &Run, directory: &Path) -> Result<Measured, Failure> {
    let mode = words
        .shared
        .mode
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned());
    let file = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let shared = [
        format!("--mode={mode}"),
        format!("--log-mib={}", words.shared.log_mib),
    ];
    let mut receive = vec![
        "receive".to_owned(),
        format!("--log={}", file("received.log")),
    ];
    receive.push(format!("--flush-delay={}", words.keeping.flush_delay));
    receive.push(format!("--queue-mib={}", words.keeping.queue_mib));
    receive.extend(shared.clone());
    let mut receiver = Side::start("receiver", &receive)?;
    let mut send = vec![
        "send".to_owned(),
        receiver.line()?,
        format!("--log={}", file("sent.log")),
    ];
    send.push(format!("--size={}", words.load.size));
    send.push(format!("--count={}", words.load.count));
    send.push(format!("--window-mib={}", words.load.window_mib));
    send.extend(shared);
    let sent: Sent = Side::start("sender", &send)?.end()?;
    let received: Received = receiver.end()?;
    if (received.octets, received.frames) != (sent.octets, words.load.count) {
        return Err(Failure::Process("receiver"));
    }
    let rate = words.load.count.to_string().parse().unwrap_or(0.0) / sent.seconds;
    Ok(Measured {
        mode: words.shared.mode,
        size_octets: words.load.size,
        flush_delay_ms: words.keeping.flush_delay,
        window_octets: words.load.window_mib * crate::MIB,
        frames: sent.frames,
        octets: sent.octets,
        seconds: sent.seconds,
        frames_per_s: rate,
        goodput_mbit_s: rate * f64::from(words.load.size) * 8.0 / 1e6,
        sender_cpu_s: sent.cpu_s,
        receiver_cpu_s: received.cpu_s,
        commits: received.commits,
        flushes: received.flushes,
    })
}
