//! Tells the program of which commit it is made, where its source is a working copy of git.

use std::path::Path;
use std::process::Command;

fn main() {
    // The workspace is looked at as a whole, since all of it is in the program.
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let root = crates.and_then(Path::parent);
    println!("cargo::rerun-if-changed=..");
    let commit = root.and_then(|root| {
        // A source within somebody else's repository has no commit of its own.
        let top = git(root, &["rev-parse", "--show-toplevel"])?;
        if Path::new(&top).canonicalize().ok() != root.canonicalize().ok() {
            return None;
        }
        let log = git(root, &["rev-parse", "--git-path", "logs/HEAD"])?;
        println!("cargo::rerun-if-changed={}", root.join(log).display());
        let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
        let changed = git(
            root,
            &["status", "--porcelain", "--", "crates", "Cargo.lock"],
        )?;
        let mark = if changed.is_empty() { "" } else { "+" };
        Some(format!("{commit}{mark}"))
    });
    let commit = commit.as_deref().unwrap_or("unknown");
    println!("cargo::rustc-env=DHOW_COMMIT={commit}");
}

/// The output of a git command, if there is a git and the command succeeds.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(words).output();
    let output = output.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}
