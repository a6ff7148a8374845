//! The whole program, run and watched: commands, snapshots, and nodes that are always ended.
#![allow(dead_code, reason = "each test program uses a part of this")]

pub mod node;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The command `dhow` with nothing of the surroundings that could change what it says.
pub fn dhow(arguments: &[&str]) -> Command {
    dhow_under(&[], arguments)
}

/// The same, run by another program, such as `prlimit`.
pub fn dhow_under(program: &[&str], arguments: &[&str]) -> Command {
    let words = [program, &[env!("CARGO_BIN_EXE_dhow")], arguments].concat();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .env_clear()
        .env("NO_COLOR", "1")
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null());
    command
}

/// The output of a command and its exit code.
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("the command ended by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs a command to its end.
pub fn run(arguments: &[&str]) -> Said {
    dhow(arguments).output().unwrap().into()
}

/// Runs a command to its end in a directory.
pub fn run_in(directory: &Path, arguments: &[&str]) -> Said {
    dhow(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
        .into()
}

/// Compares a text with the snapshot `tests/snapshots/NAME`; with the environment variable
/// `UPDATE_SNAPSHOTS` set, writes it instead.
pub fn assert_snapshot(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if expected == text {
        return;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), text.lines().collect());
    let mut difference = String::new();
    for number in 0..old.len().max(new.len()) {
        match (old.get(number), new.get(number)) {
            (Some(before), Some(after)) if before == after => {}
            (before, after) => {
                for (sign, line) in [('-', before), ('+', after)] {
                    difference.extend(line.map(|line| format!("{:4} {sign} {line}\n", number + 1)));
                }
            }
        }
    }
    panic!(
        "{name} differs from its snapshot (UPDATE_SNAPSHOTS=1 accepts the new text):\n{difference}"
    );
}
