//! Beacons at the mercy of arbitrary octets: what fuzzing calls, and the replay of its corpus.
//!
//! Everything here panics when a decoder breaks its word; it is no part of the interface.

use alloc::vec::Vec;

use super::{Beacon, BeaconRefusal, Format, Heard, Hearing, Host, MAX_SERVICES, ServiceProtocol};

/// Reads octets as a datagram on a port of either kind, and what was read again from what is written of it; how many of the two were beacons.
#[must_use]
pub fn check_beacon(octets: &[u8]) -> usize {
    let heard =
        [Hearing::Ipnd, Hearing::IpndAndDtn2].map(|hearing| Beacon::decode(octets, hearing));
    heard.iter().filter(|heard| check(heard)).count()
}

fn check(heard: &Result<Heard, BeaconRefusal>) -> bool {
    let Ok(Heard { format, beacon, .. }) = heard else {
        return false;
    };
    assert!(
        beacon.services.len() <= MAX_SERVICES,
        "services are bounded"
    );
    let has_port = beacon.services.iter().all(|service| service.port != 0);
    assert!(has_port, "a service has a port");
    let mut written = Vec::new();
    beacon.encode(*format, &mut written);
    let hearing = match format {
        Format::Dtn2 => Hearing::IpndAndDtn2,
        _ => Hearing::Ipnd,
    };
    // A beacon that was read may have been longer than one that is written, never shorter by more than its names.
    match Beacon::decode(&written, hearing) {
        Ok(again) => assert_eq!(
            (again.format, &again.beacon, again.is_cut),
            (*format, beacon, false),
            "it reads what it writes"
        ),
        Err(refusal) => assert_eq!(refusal, BeaconRefusal::TooLong, "it reads what it writes"),
    }
    true
}

/// Whether a format has a form for a service.
#[must_use]
pub fn has_form(format: Format, protocol: ServiceProtocol, host: &Host) -> bool {
    match format {
        Format::Cbor => *host == Host::Sender,
        Format::Dtn2 => protocol != ServiceProtocol::Mtcp && !matches!(host, Host::Name(_)),
        Format::Ipnd4 | Format::Ipnd2 | Format::Ipnd1 => protocol != ServiceProtocol::Mtcp,
    }
}
