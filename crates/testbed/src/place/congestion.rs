//! The congestion control of TCP in a lab's namespaces.

use std::fs;

use crate::failure::LabError;
use crate::namespace;

/// The congestion control that a namespace's connections begin with.
const USED: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The congestion controls that the kernel has.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The congestion controls that namespaces other than the system's own may use.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Refuses one that namespaces of this kernel cannot use.
///
/// # Errors
/// The kernel does not have it, or keeps it to the system's own namespace.
pub fn check(wanted: Option<&str>) -> Result<(), LabError> {
    let Some(wanted) = wanted else { return Ok(()) };
    let read = |path| {
        fs::read_to_string(path)
            .map_err(|error| LabError::io(format!("cannot read {path}"), &error))
    };
    check_among(wanted, &read(AVAILABLE)?, &read(ALLOWED)?)
}

fn check_among(wanted: &str, available: &str, allowed: &str) -> Result<(), LabError> {
    let has = |list: &str| list.split_whitespace().any(|name| name == wanted);
    if has(allowed) {
        return Ok(());
    }
    let allowed = allowed.split_whitespace().collect::<Vec<_>>().join(" ");
    if has(available) {
        let what = format!("the kernel keeps the congestion control '{wanted}' from namespaces");
        let hint = format!(
            "they may use: {allowed}; as root: sysctl net.ipv4.tcp_allowed_congestion_control='{allowed} {wanted}'"
        );
        return Err(LabError::new(what).with_hint(hint));
    }
    let what = format!("the kernel has no congestion control '{wanted}'");
    let hint = format!(
        "namespaces may use: {allowed}; others are modules of the kernel (modprobe tcp_{wanted})"
    );
    Err(LabError::new(what).with_hint(hint))
}

/// Connections that are made in a namespace from now on use this one.
///
/// # Errors
/// When the kernel refuses.
pub fn set(namespace: &str, wanted: &str) -> Result<(), LabError> {
    let failed = |error| {
        LabError::io(
            format!("cannot set the congestion control '{wanted}'"),
            &error,
        )
    };
    namespace::within(namespace, || fs::write(USED, wanted)).map_err(failed)
}

/// The congestion control that connections of a namespace begin with; empty where the kernel does not tell.
#[must_use]
pub fn used(namespace: &str) -> String {
    let told = namespace::within(namespace, || fs::read_to_string(USED));
    told.map(|told| told.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_namespaces_may_use_is_taken() {
        let (available, allowed) = ("reno bbr cubic\n", "reno bbr\n");
        assert_eq!(check_among("bbr", available, allowed), Ok(()));
        let kept = check_among("cubic", available, allowed).unwrap_err();
        assert!(kept.what.contains("keeps"), "{kept}");
        let hint = kept.hint.unwrap();
        assert!(hint.contains("='reno bbr cubic'"), "{hint}");
        for unknown in ["vegas", "bb", "reno bbr", ""] {
            let refused = check_among(unknown, available, allowed).unwrap_err();
            assert!(refused.what.contains("has no"), "{refused}");
            assert!(refused.hint.unwrap().contains("may use: reno bbr;"));
        }
    }
}
