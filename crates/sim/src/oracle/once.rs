//! Nothing is delivered again to an application that has confirmed it.

use crate::ledger::{Confirmation, Unit};

/// Whether a delivery in this life of the node is one too many: the application has confirmed the payload to
/// this life of the node, or the confirmation is durable.
#[must_use]
pub fn redelivered(unit: &Unit, life: u32) -> bool {
    match unit.confirmation {
        Confirmation::None => false,
        Confirmation::Given(earlier) => earlier == life,
        Confirmation::Durable => true,
    }
}
