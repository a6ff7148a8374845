//! Network namespaces by name, as `ip netns` keeps them, and work that is done in one.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The directory of network namespaces.
const NAMESPACES: &str = "/run/netns";

/// The file that stands for a namespace.
#[must_use]
pub fn path_of(name: &str) -> PathBuf {
    Path::new(NAMESPACES).join(name)
}

/// Does something in a namespace: sockets and programs that it makes stay there.
///
/// # Errors
/// When the namespace is not there or may not be entered, and where the work fails.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    // A thread enters by itself: one that then ends leaves this process where it was.
    let done = thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter(name)?;
            work()
        });
        inside.join()
    });
    match done {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Moves the calling thread into a namespace, for good.
///
/// # Errors
/// When the namespace is not there or may not be entered.
pub fn enter(name: &str) -> io::Result<()> {
    let file = File::open(path_of(name))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// The processes in a namespace; none where it is not there.
#[must_use]
pub fn processes(name: &str) -> Vec<i32> {
    let Ok(file) = fs::metadata(path_of(name)) else {
        return Vec::new();
    };
    let wanted = format!("net:[{}]", file.ino());
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let found = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let id = entry.file_name().to_str()?.parse().ok()?;
        let there = fs::read_link(entry.path().join("ns/net")).ok()?;
        (there.to_str() == Some(&wanted)).then_some(id)
    });
    found.collect()
}
