//! How many files the process may have open: connections are files, and many systems allow 1024 unasked.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allow `wanted` open files where the system lets this process; tells when that is not so.
pub fn allow(wanted: u64) {
    let limits = getrlimit(Resource::Nofile);
    // `None` is no limit.
    if limits.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let most = limits.maximum.unwrap_or(wanted).min(wanted);
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(most),
            maximum: limits.maximum,
        },
    );
    if raised.is_err() || most < wanted {
        tracing::warn!(
            allowed = most,
            wanted,
            "few open files are allowed: connections may be turned away (see ulimit -n)"
        );
    }
}
