//! Nothing is delivered again to an application that has confirmed it, for as long as it is of use.

use std::time::Duration;

use dhow_bundle::Instant;

use crate::ledger::{Confirmation, Unit};

/// Whether a delivery in this life of the node is one too many: the application has confirmed the payload to
/// this life of the node, or the confirmation is durable. Once a bundle has expired nobody need know it again: a copy may
/// come from a node without a clock, which does not know how long it had it. `tolerance` is how far clocks may be apart.
#[must_use]
pub fn redelivered(unit: &Unit, life: u32, (now, tolerance): (Instant, Duration)) -> bool {
    let confirmed = match unit.confirmation {
        Confirmation::None => false,
        Confirmation::Given(earlier, _) => earlier == life,
        Confirmation::Durable => true,
    };
    confirmed && now + tolerance < unit.expires()
}
