//! One direction of a link as a value: its effect on packets, in any kind of time.
//!
//! This room knows rate (one, or a [trace] of it), propagation delay, loss, duplicates, reordering, a bounded queue and whether there is a contact;
//! it never knows an interface, a clock or what is in a packet. Emulators drive it with sockets and the system's clock,
//! simulators with events. Start reading at [`profile`] (what a link is like), then [`channel`] (the machine).
//!
//! ```
//! use core::time::Duration;
//! use bytes::Bytes;
//! use dhow_bundle::Instant;
//! use dhow_channel::{Channel, Profile, Rate};
//!
//! let profile = Profile::new(Rate::from_octets_per_s(1_000)?, Duration::from_millis(20));
//! let mut channel = Channel::new(profile, 1);
//! channel.handle_packet(Instant::START, Bytes::from_static(b"ten octets"));
//! let arrival = Instant::START + Duration::from_millis(10 + 20);
//! assert_eq!(channel.poll_timeout(), Some(arrival));
//! assert_eq!(channel.poll_packet(arrival).as_deref(), Some(&b"ten octets"[..]));
//! # Ok::<(), dhow_channel::ProfileError>(())
//! ```
#![no_std]

extern crate alloc;

pub mod channel;
mod delay;
mod line;
mod loss;
pub mod profile;
pub mod trace;

pub use channel::{Channel, Counters};
pub use delay::Delay;
pub use line::Line;
pub use loss::Dice;
pub use profile::{Loss, Part, Profile, ProfileError, Rate, Reordering};
pub use trace::{RateTrace, TraceError};
