//! The results of runs: a directory with tables, one of each kind, and a directory for each run.
//!
//! Start at [`Results`]; a [`Run`] is a line of all runs, [`Row`]s are those of one run's tables, [`Conditions`] what it ran under.

mod conditions;
mod cost;
mod directory;
mod rows;
mod run;
pub(crate) mod table;

pub use conditions::{Conditions, Ran, Still};
pub use cost::{Cost, Used};
pub(crate) use directory::{PROFILE, not_there};
pub use directory::{Results, ResultsError};
pub(crate) use rows::last_of;
pub use rows::{
    Capacity, Contact, FIRST_OCTET, Figure, Limited, LinkSample, Payload, Resource, Row,
};
pub use run::{Backend, Point, Run, Status};
