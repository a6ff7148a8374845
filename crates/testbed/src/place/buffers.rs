//! The octets that TCP may have under way in a lab's namespaces: as many as its links move in a round trip, if the system allows fewer.

use std::fs;

use super::layout::Layout;
use crate::failure::LabError;
use crate::namespace;

/// Least, usual and most octets of a connection's buffers.
const KEYS: [&str; 2] = ["/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"];

/// Round trips at the rate for which buffers have room: one is under way, the emulator's queue holds another, and the kernel counts twice
/// what packets take.
const ROUND_TRIPS: u64 = 4;

/// Octets of a buffer, at most.
const OCTETS_MAX: u64 = 1 << 30;

/// Lets connections of each host have under way what its links move.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn set(layout: &Layout) -> Result<(), LabError> {
    let mut wanted = vec![0; layout.hosts.len()];
    for link in &layout.links {
        let octets = link.flight_octets.saturating_mul(ROUND_TRIPS);
        for end in &link.ends {
            if let Some(wanted) = wanted.get_mut(end.host) {
                *wanted = octets.min(OCTETS_MAX).max(*wanted);
            }
        }
    }
    for (host, wanted) in layout.hosts.iter().zip(wanted) {
        let set = namespace::within(&host.namespace, || {
            KEYS.iter().try_for_each(|key| {
                let now = fs::read_to_string(key)?;
                let larger = larger(&now, wanted);
                larger.map_or(Ok(()), |text| fs::write(key, text))
            })
        });
        set.map_err(|error| LabError::io("cannot set TCP's buffers", &error))?;
    }
    Ok(())
}

/// The kernel's three numbers with a larger last one; nothing where that is large enough.
fn larger(now: &str, wanted: u64) -> Option<String> {
    let numbers: Vec<u64> = now
        .split_whitespace()
        .map_while(|it| it.parse().ok())
        .collect();
    let [least, usual, most] = numbers.as_slice() else {
        return None;
    };
    (*most < wanted).then(|| format!("{least} {usual} {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_only_grow() {
        let now = "4096\t131072\t6291456\n";
        assert_eq!(larger(now, 6_291_456), None);
        assert_eq!(
            larger(now, 100_000_000).as_deref(),
            Some("4096 131072 100000000")
        );
        assert_eq!(larger("", 1), None);
    }
}
