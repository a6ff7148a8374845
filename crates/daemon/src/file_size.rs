//! The limit of a file's size: a store's log is one file.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The log could become larger than files may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("files may have {allowed} octets, and the store's log becomes as large as {needed}")]
pub struct TooSmallFiles {
    /// Octets that the system lets a file of this process have.
    pub allowed: u64,
    /// Octets of the log.
    pub needed: u64,
}

impl TooSmallFiles {
    /// The hint for people.
    pub const HINT: &str =
        "raise the limit of a file's size (ulimit -f), or lower quota in [store]";
}

/// Allow a file to have so many octets, as far as the system lets this process.
///
/// # Errors
/// The system does not.
pub fn allow(needed: u64) -> Result<(), TooSmallFiles> {
    let limits = getrlimit(Resource::Fsize);
    // `None` is no limit.
    let Some(mut allowed) = limits.current else {
        return Ok(());
    };
    let raised = Rlimit {
        current: limits.maximum,
        maximum: limits.maximum,
    };
    if allowed < needed && setrlimit(Resource::Fsize, raised).is_ok() {
        allowed = limits.maximum.unwrap_or(u64::MAX);
    }
    match allowed < needed {
        true => Err(TooSmallFiles { allowed, needed }),
        false => Ok(()),
    }
}
