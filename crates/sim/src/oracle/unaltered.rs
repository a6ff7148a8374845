//! Nothing is delivered altered.

use crate::ledger::Ledger;
use crate::payload::Payloads;

/// The difference between a delivered payload and the one that was sent, if there is one.
#[must_use]
pub fn altered(ledger: &Ledger, payloads: &Payloads, found: &[u8]) -> Option<String> {
    let Some(name) = Payloads::name(found) else {
        return Some(format!(
            "{} octets were delivered that nobody sent",
            found.len()
        ));
    };
    let Some(unit) = ledger.unit(name) else {
        return Some(format!(
            "payload {} of traffic {} was delivered and never sent",
            name.number + 1,
            name.traffic + 1
        ));
    };
    let at = payloads.difference(name, unit.octets, found)?;
    Some(format!(
        "payload {} of traffic {} was delivered altered from octet {at} on",
        name.number + 1,
        name.traffic + 1
    ))
}
