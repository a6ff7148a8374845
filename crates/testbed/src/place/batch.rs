//! `ip`, `tc` and `nft`, each told many things at once.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use crate::failure::LabError;
use crate::namespace;

/// Lines for a program that reads them from its standard input, in a namespace or here.
///
/// # Errors
/// The words of the program on its standard error.
pub(crate) fn tell(
    program: &str,
    words: &[&str],
    lines: &str,
    namespace: Option<&str>,
) -> Result<(), LabError> {
    if lines.is_empty() {
        return Ok(());
    }
    let run = || -> io::Result<std::process::Output> {
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // A program that has ended says why by itself.
            let _ = input.write_all(lines.as_bytes());
        }
        child.wait_with_output()
    };
    let ran = match namespace {
        Some(name) => namespace::within(name, run),
        None => run(),
    };
    let output = ran.map_err(|error| LabError::io(format!("cannot run {program}"), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let place = namespace.map_or_else(String::new, |name| format!(" in {name}"));
    Err(LabError::new(format!("{program}{place}: {}", said.trim())))
}

/// The standard output of a program in a namespace.
///
/// # Errors
/// When it cannot be run, or fails.
pub(crate) fn ask(program: &str, words: &[&str], namespace: &str) -> Result<String, LabError> {
    let run = || {
        Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .output()
    };
    let output = namespace::within(namespace, run)
        .map_err(|error| LabError::io(format!("cannot run {program}"), &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(LabError::new(format!(
            "{program} in {namespace}: {}",
            said.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lines for `ip`.
pub(crate) fn ip(lines: &str, namespace: Option<&str>) -> Result<(), LabError> {
    tell("ip", &["-batch", "-"], lines, namespace)
}
