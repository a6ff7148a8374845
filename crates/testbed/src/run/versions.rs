//! Which programs a study uses beside dhow, where they are, and what they say of their version.

use std::collections::BTreeMap;
use std::env;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Programs that say their version and do nothing else: their name, and what is asked.
const KNOWN: [(&str, &[&str]); 24] = [
    ("bash", &["bash", "--version"]),
    ("curl", &["curl", "--version"]),
    ("dumpcap", &["dumpcap", "--version"]),
    ("ip", &["ip", "-V"]),
    ("iperf", &["iperf", "--version"]),
    ("iperf3", &["iperf3", "--version"]),
    ("lftp", &["lftp", "--version"]),
    ("ncat", &["ncat", "--version"]),
    ("netperf", &["netperf", "-V"]),
    ("nft", &["nft", "--version"]),
    ("perf", &["perf", "--version"]),
    ("perl", &["perl", "--version"]),
    ("ping", &["ping", "-V"]),
    ("python3", &["python3", "--version"]),
    ("rsync", &["rsync", "--version"]),
    ("ruby", &["ruby", "--version"]),
    ("scp", &["ssh", "-V"]),
    ("sftp", &["ssh", "-V"]),
    ("socat", &["socat", "-V"]),
    ("ssh", &["ssh", "-V"]),
    ("tc", &["tc", "-V"]),
    ("tcpdump", &["tcpdump", "--version"]),
    ("tshark", &["tshark", "--version"]),
    ("wget", &["wget", "--version"]),
];

/// How long a program may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Octets of an answer that are read.
const ANSWER_OCTETS_MAX: u64 = 4 << 10;

/// Programs that the lab itself uses, where they are there: what makes its networks.
const OWN: [&str; 3] = ["ip", "tc", "nft"];

/// What is known of the programs of `commands`, each the words of one, and of those that a lab uses: by name the path and, of those that
/// can safely be asked, the version. A program that another one of the words starts is found where it is known.
pub fn programs<'a>(commands: impl IntoIterator<Item = &'a [String]>, more: &[&str]) -> Value {
    let mut found: BTreeMap<String, Value> = BTreeMap::new();
    let mut add = |word: &str| {
        if word != "dhow" && !found.contains_key(word) {
            let told = describe(word);
            found.insert(word.to_owned(), told);
        }
    };
    for own in OWN.iter().chain(more).filter(|it| on_the_way(it).is_some()) {
        add(own);
    }
    for words in commands {
        let Some((first, others)) = words.split_first() else {
            continue;
        };
        add(first);
        let others = others.iter().flat_map(|word| word.split_whitespace());
        others
            .filter(|word| question(word).is_some())
            .for_each(&mut add);
    }
    json!(found)
}

fn describe(word: &str) -> Value {
    let path = on_the_way(word);
    let answer = path.as_ref().and_then(|_| answer(question(word)?));
    json!({"path": path.map(|path| path.display().to_string()), "version": answer})
}

/// What a program is asked for its version, where that is safe.
fn question(word: &str) -> Option<&'static [&'static str]> {
    let name = Path::new(word).file_name()?.to_str()?;
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    known.map(|(_, question)| *question)
}

/// Where a program is, as a shell looks for it.
fn on_the_way(word: &str) -> Option<PathBuf> {
    if word.contains('/') {
        return Path::new(word).canonicalize().ok();
    }
    let ways = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&ways).map(|way| way.join(word));
    places.find(|place| place.is_file())
}

/// The first line that a program says, on either of its outputs.
fn answer(question: &[&str]) -> Option<String> {
    let (program, words) = question.split_first()?;
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let end = Instant::now() + PATIENCE;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
        thread::sleep(Duration::from_millis(2));
    }
    // One that has ended is not there to be killed.
    let _ = child.kill();
    let _ = child.wait();
    let mut said = String::new();
    let outputs = child
        .stdout
        .take()
        .map(|it| it.take(ANSWER_OCTETS_MAX).read_to_string(&mut said));
    let errors = child
        .stderr
        .take()
        .map(|it| it.take(ANSWER_OCTETS_MAX).read_to_string(&mut said));
    // What is no text is no version.
    outputs?.ok().and(errors?.ok())?;
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    line.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_with_what_they_say_of_themselves() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let inner = vec![
            "sh".to_owned(),
            "-c".to_owned(),
            "exec bash -c true".to_owned(),
        ];
        let commands = [words("dhow otg"), words("no-such-program 1"), inner];
        let told = programs(commands.iter().map(Vec::as_slice), &[]);
        assert!(told.get("dhow").is_none());
        assert_eq!(
            told["no-such-program"],
            json!({"path": null, "version": null})
        );
        assert!(told["sh"]["path"].is_string() && told["sh"]["version"].is_null());
        let bash = told["bash"]["version"].as_str().unwrap();
        assert!(bash.contains("bash"), "{bash}");
    }
}
