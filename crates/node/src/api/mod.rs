//! The application API: AAP 2.0 as a machine.
//!
//! This room never knows a socket, a store or other connections: octets go in and come out, and
//! the node hears and answers through the seam. Start reading at [`seam`] (what a session tells its
//! node and is told), then [`session`] (the machine), then [`wire`] (the messages) and [`frame`] (how
//! they lie in the stream). `docs/aap2-dhow.proto` is the same schema for other languages.

mod delivery;
pub mod encoding;
mod fault;
pub mod frame;
mod incoming;
mod keepalive;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod registration;
mod request;
pub mod seam;
pub mod session;
pub mod wire;

pub use session::ClientSession;
