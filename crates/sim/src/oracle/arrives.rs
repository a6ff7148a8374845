//! Once nothing fails any more, everything that can be delivered is.

use std::time::Duration;

use dhow_bundle::Instant;

use crate::ledger::{Ledger, UnitName};

/// Payloads that were accepted in the last part of a run, one of so many, may rightly be on their way at its end.
const LAST_PART: u32 = 20;

/// Payloads that were accepted, are still of use, have not rotted, were not lost by a link that promises nothing, and have not been delivered, at the end of
/// a run that expects all to be.
#[must_use]
pub fn overdue(ledger: &Ledger, now: Instant, tolerance: Duration) -> Vec<UnitName> {
    let run = now.since(Instant::START);
    let last = Instant::START + run.saturating_sub(run / LAST_PART);
    let late = ledger.units().filter(|(_, unit)| {
        let is_gone = |bundle| ledger.gone_of(bundle).is_some_and(|it| !it.lost.is_empty());
        let is_excused = unit
            .bundle
            .is_some_and(|bundle| ledger.record(bundle).rotten || is_gone(bundle));
        let is_wanted =
            unit.accepted.is_some_and(|at| at < last) && unit.delivered.is_none() && !is_excused;
        is_wanted && now + tolerance < unit.expires()
    });
    late.map(|(name, _)| name).collect()
}
