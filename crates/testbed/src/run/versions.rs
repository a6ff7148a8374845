//! The programs that a study uses beside dhow, with their paths and versions.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::needs::found;

/// Programs that say their version and do nothing else: their name, and the arguments.
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

/// The longest time for a program to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Octets of an answer that are read.
const ANSWER_OCTETS_MAX: u64 = 4 << 10;

/// Programs that the lab itself uses, where they are there: what makes its networks.
const OWN: [&str; 3] = ["ip", "tc", "nft"];

/// The paths and versions, by name, of the programs of `commands`, each the words of one, and of those that a lab uses; a version only
/// of those that can safely be asked. A program that another one of the words starts is found if it is known.
pub fn programs<'a>(commands: impl IntoIterator<Item = &'a [String]>, more: &[&str]) -> Value {
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    let mut add = |word: &str| {
        if word != "dhow" && !known.contains_key(word) {
            let told = describe(word);
            known.insert(word.to_owned(), told);
        }
    };
    for own in OWN.iter().chain(more).filter(|it| found(it).is_some()) {
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
    json!(known)
}

fn describe(word: &str) -> Value {
    let path = found(word);
    let answer = path.as_ref().and_then(|path| {
        let (asked, words) = question(word)?.split_first()?;
        if path.ends_with(asked) {
            return answer(path, words);
        }
        // A version that another program tells (of scp: ssh) is known only of a program that was found by its name.
        let other = found(asked).filter(|_| !word.contains('/'));
        answer(&other?, words)
    });
    json!({"path": path.map(|path| path.display().to_string()), "version": answer})
}

/// The option that asks a program for its version, if that is safe.
fn question(word: &str) -> Option<&'static [&'static str]> {
    let name = Path::new(word).file_name()?.to_str()?;
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    known.map(|(_, question)| *question)
}

/// The first line that a program says, on either of its outputs.
fn answer(program: &Path, words: &[&str]) -> Option<String> {
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
    // Output that is no text is no version.
    outputs?.ok().and(errors?.ok())?;
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    line.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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

    #[test]
    fn the_program_that_a_way_names_is_asked_and_not_one_of_its_name() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("bash");
        symlink(found("echo").unwrap(), &path).unwrap();
        let path = path.display().to_string();
        let told = describe(&path);
        assert_eq!(told["path"], json!(path));
        assert_ne!(told["version"], describe("bash")["version"]);
        assert!(told["version"].is_string(), "{told}");
        // A program has a directory of its own, so the program here is not the one that it would start.
        let nothing = json!({"path": null, "version": null});
        assert_eq!(describe("src/../Cargo.toml"), nothing);
    }
}
