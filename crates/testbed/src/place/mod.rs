//! The place in which a scenario runs: a network namespace for each host, links between them, and a control network beside
//! them.
//!
//! [`Layout`] is the plan of it, as a value; [`Network`] makes it; [`State`] is the file that names its parts while it is
//! there, so that [`clear`](clear::clear) removes all of it whatever became of the process that made it.

mod accounting;
mod batch;
mod buffers;
pub mod clear;
pub mod congestion;
pub mod detour;
mod device;
mod group;
mod layout;
pub mod needs;
mod network;
mod passed;
mod reset;
mod state;
mod switch;

pub(crate) use accounting::Accounting;
pub use device::{Counters, Sent};
pub use group::{Group, Groups};
pub(crate) use layout::makes;
pub use layout::{COLLECTOR_PORT, End, HostPlace, LINK_MTU_OCTETS, Layout, LinkPlace, Made};
pub use network::{CONTROL_INTERFACE, Network};
pub(crate) use state::api_of;
pub use state::{LinkState, NodeState, State, state_directory};
