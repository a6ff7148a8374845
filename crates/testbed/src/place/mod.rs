//! Where a scenario runs: a network namespace for each host, links between them, a network for control beside.
//!
//! [`Layout`] says what there is to be, as a value; [`Network`] makes it; [`State`] is what a file says of it while it is
//! there, so that [`clear`](clear::clear) removes all of it whatever became of whoever made it.

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
pub use device::Counters;
pub use group::{Group, Groups};
pub(crate) use layout::makes;
pub use layout::{COLLECTOR_PORT, End, HostPlace, LINK_MTU_OCTETS, Layout, LinkPlace, Made};
pub use network::{CONTROL_INTERFACE, Network};
pub use state::{LinkState, NodeState, State, state_directory};
