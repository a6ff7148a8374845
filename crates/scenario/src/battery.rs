//! Batteries of hosts: their energy, and the power that takes it.

use std::time::Duration;

use dhow_document::quantity::{QuantityError, parse_energy, parse_power};
use dhow_document::{Document, Entries, FileError};

/// A battery of a host, full at the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Battery {
    /// Its energy: picojoules.
    pub energy_pj: u64,
    /// The power of looking for others, all the time: microwatts.
    pub scan_uw: u64,
    /// The power while its radios send, beside that: microwatts.
    pub send_uw: u64,
    /// The power while they receive: microwatts.
    pub receive_uw: u64,
    /// After which time it is full again, and each time after that.
    pub recharge: Option<Duration>,
}

/// Reads that of a group; none where it names none.
pub(crate) fn read(
    document: &Document<'_>,
    entries: &Entries,
) -> Result<Option<Battery>, FileError> {
    let quantity = |key: &str, example: &str, parse: fn(&str) -> Result<u64, QuantityError>| {
        let Some(text) = entries.text(key) else {
            return Ok(0);
        };
        parse(text).map_err(|error| {
            let what = format!("'{key}' cannot be so much: {error}");
            let fault = document.fault_of(entries, key, what);
            fault.with_hint(format!("for example: {key} = \"{example}\""))
        })
    };
    let battery = Battery {
        energy_pj: quantity("battery", "5000J", parse_energy)?,
        scan_uw: quantity("scan_power", "10mW", parse_power)?,
        send_uw: quantity("send_power", "500mW", parse_power)?,
        receive_uw: quantity("receive_power", "400mW", parse_power)?,
        recharge: entries.duration_if_set("recharge"),
    };
    if battery
        .recharge
        .is_some_and(|it| it < Duration::from_secs(1))
    {
        let what = "'recharge' is at least 1s";
        return Err(document.fault_of(entries, "recharge", what));
    }
    if entries.has("battery") {
        return Ok(Some(battery));
    }
    let others = ["scan_power", "send_power", "receive_power", "recharge"];
    match others.into_iter().find(|key| entries.has(key)) {
        Some(key) => {
            let what = format!("'{key}' is of a host with a battery");
            let fault = document.fault_of(entries, key, what);
            Err(fault.with_hint("for example: battery = \"5000J\""))
        }
        None => Ok(None),
    }
}
