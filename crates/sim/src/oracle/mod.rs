//! The rules that hold in every run, a file each.
//!
//! An oracle is told what passes between nodes, stores and applications, or looks at the world, and says what is wrong as
//! a sentence. It knows nothing of how a node works.

mod airtime;
mod arrives;
mod custody;
mod energy;
mod kept;
mod ltp;
mod noted;
mod once;
mod onlooker;
mod pace;
mod precedence;
mod referee;
mod spread;
mod unaltered;
mod voyage;
mod watch;
mod within;
mod witness;

use dhow_bundle::Instant;

use crate::queue::MachineIndex;

pub use airtime::{Airtime, Burst};
pub use arrives::overdue;
pub use custody::{Custodies, Told};
pub use energy::Energy;
pub use kept::{Fact, Given, Hit, Kept, Losses, Lost, Room};
pub use ltp::Observer;
pub use once::redelivered;
pub use onlooker::Onlooker;
pub use precedence::{Leaving, Precedence, Waiting};
pub use referee::{Blocked, Foul, Referee, Seen};
pub use spread::{Rule, Spreads};
pub use unaltered::altered;
pub use voyage::{Moment, Parcel, Sending, Voyages, Wrong};
pub use watch::Watch;
pub use within::{beyond, crowded, overfull};
pub use witness::Witness;

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The oracle that found it.
    pub oracle: &'static str,
    /// The time at which it was seen.
    pub at: Instant,
    /// The violation, as a sentence.
    pub sentence: String,
    /// The machines concerned.
    pub machines: Vec<MachineIndex>,
}
