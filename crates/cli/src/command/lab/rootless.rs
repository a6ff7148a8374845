//! Labs of users without root: the same command once more, inside namespaces in which that user is.
//!
//! A user namespace gives the rights over networks, a mount namespace a `/run` of its own, and a process namespace ends all that is in it
//! with its first process, the command inside. That has a pipe from the one outside: what ends the one outside ends the lab, also `kill -9`.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use rustix::process::geteuid;
use signal_hook::consts::SIGTERM;

use crate::failure::{EXIT_INTERRUPTED, Ending, Failure};
use crate::interrupt;

/// Tells the command inside where it is.
const INSIDE: &str = "DHOW_LAB_INSIDE";

/// The namespaces, as options of `unshare`. All that runs in them ends with the process that made them.
const NAMESPACES: [&str; 8] = [
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// The directory that is covered, since the names of network namespaces are there and only root may add some.
const COVERED: &str = "/run";

/// Commands of a shell before it becomes the command inside.
const SETTLE: &str = "mount -t tmpfs tmpfs /run && exec \"$@\"";

/// The time from one look at the command inside to the next.
const LOOK: Duration = Duration::from_millis(20);

/// Runs this command inside, for users without root; nothing where it can go on as it is. The paths are those that it reads and writes.
///
/// # Errors
/// When this machine does not let users do that.
pub fn move_inside(paths: &[&Path]) -> Result<Option<Ending>, Failure> {
    if geteuid().is_root() {
        // The first process of its namespace, and no program that it runs, is the one that was moved.
        if std::process::id() == 1 && std::env::var_os(INSIDE).is_some() {
            follow_outside();
        }
        return Ok(None);
    }
    if let Some(path) = paths.iter().find(|path| is_covered(path)) {
        let what = format!(
            "cannot run a lab without root: {} is in {COVERED}",
            path.display()
        );
        return Err(Failure::refused(what).with_hint("a lab of a user has a /run of its own"));
    }
    probe()?;
    interrupt::allow_longer();
    let failed =
        |error: io::Error| Failure::refused(format!("cannot run a lab without root: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = inside(program.as_os_str());
    let spawned = command
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .stdin(Stdio::piped())
        // Signals of the terminal come to this process, and are passed on once.
        .process_group(0)
        .spawn();
    accompany(spawned.map_err(failed)?).map(Some)
}

/// Waits for the command inside, and ends as it does.
fn accompany(mut child: Child) -> Result<Ending, Failure> {
    let failed =
        |error: io::Error| Failure::refused(format!("cannot wait for the lab inside: {error}"));
    let mut pipe = child.stdin.take();
    let mut asked = false;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return match (code, status.signal()) {
                (None, Some(signal)) if !asked => Err(killed(signal)),
                _ => Ok(Ending::AsInside(code.unwrap_or(EXIT_INTERRUPTED))),
            };
        }
        if interrupt::is_requested() && !asked {
            asked = true;
            // It may have ended just now. Were the pipe closed, it would end at once.
            let _ = pipe.as_mut().map(|pipe| pipe.write_all(b"e"));
        }
        thread::sleep(LOOK);
    }
}

/// A command inside that a signal ended for which nobody here asked.
fn killed(signal: i32) -> Failure {
    let name = signal_hook::low_level::signal_name(signal);
    let name = name.map_or_else(|| signal.to_string(), str::to_owned);
    let failure = Failure::refused(format!("the lab inside was ended by signal {name}"));
    failure.with_hint(
        "the kernel does so where memory is short; --resume goes on with what is in --out",
    )
}

/// Ends as the one outside does: in order when that asks for it, and at once when that is no more.
fn follow_outside() {
    static BEGUN: Once = Once::new();
    let follow = || {
        let mut asked = [0];
        while let Ok(1..) = io::stdin().read(&mut asked) {
            let _ = signal_hook::low_level::raise(SIGTERM);
        }
        std::process::exit(EXIT_INTERRUPTED.into());
    };
    BEGUN.call_once(|| drop(thread::spawn(follow)));
}

/// A command inside, whose words follow.
fn inside(program: &OsStr) -> Command {
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).args(["sh", "-c", SETTLE, "sh"]);
    command.arg(program);
    command
}

/// Looks whether users may do that here.
fn probe() -> Result<(), Failure> {
    let looked = inside(OsStr::new("true")).stdin(Stdio::null()).output();
    let said = match looked {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let what = "cannot run a lab without root: there is no program 'unshare'";
            return Err(Failure::refused(what).with_hint("apt-get install util-linux"));
        }
        Err(error) => error.to_string(),
    };
    let what = format!("a lab needs root, or namespaces for users, and there are none: {said}");
    Err(Failure::refused(what).with_hint("sudo dhow lab …"))
}

/// Whether a path, or where it will be, is not to be seen inside.
fn is_covered(path: &Path) -> bool {
    let there = path
        .ancestors()
        .find_map(|part| match part.as_os_str().is_empty() {
            true => fs::canonicalize(".").ok(),
            false => fs::canonicalize(part).ok(),
        });
    there.is_some_and(|there| there.starts_with(COVERED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_that_was_killed_is_a_failure_and_not_the_wish_of_who_started_it() {
        let end = |script: &str| {
            let child = Command::new("sh").args(["-c", script]).spawn();
            accompany(child.unwrap())
        };
        let killed = end("kill -9 $$").expect_err("it was killed").to_string();
        assert!(killed.contains("SIGKILL"), "{killed}");
        assert!(matches!(end("exit 3"), Ok(Ending::AsInside(3))));
    }
}
