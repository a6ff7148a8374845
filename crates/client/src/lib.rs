//! A blocking client of a node's application API: AAP 2.0 with Dhow's extension fields.
//!
//! A connection either sends or receives. [`Client::connect`] greets the node, then [`Client::sender`]
//! or [`Client::receiver`] says which. Payloads stream from a [`Read`](std::io::Read) and to one;
//! none needs to be in memory. Nothing here reconnects: [`Error::is_lost`] says when to.
//!
//! This room never knows how a node works inside; it shares only the node's message types. Start
//! reading at [`Client`], then [`Sender`] and [`Receiver`]; [`folder`] and [`chunk`] have the payloads of files that are kept in step and of ordered octets. [`ferry`] is for programs that carry bundles themselves.
//!
//! ```no_run
//! use std::fs::File;
//! use std::time::Duration;
//!
//! use dhow_client::{Address, Client, Registration, SendHead};
//!
//! let address: Address = "dhow.sock".parse()?;
//! let registration = Registration::new("ipn:2.42".parse()?);
//!
//! // Send a file, however long, and hear under which creation timestamp it is stored.
//! let mut sender = Client::connect(&address)?.sender(&registration)?;
//! let file = File::open("photo.jpg")?;
//! let length = file.metadata()?.len();
//! let head = SendHead::to("ipn:4.42".parse()?).with_lifetime(Duration::from_secs(3600));
//! sender.send(&head, file, length)?;
//! while let Some(answer) = sender.next_answer(None)? {
//!     let created = answer.outcome?;
//!     println!("{} {}", created.source, created.creation.sequence);
//! }
//!
//! // Take what arrives; confirm it once it is safe.
//! let mut receiver = Client::connect(&address)?.receiver(&registration)?;
//! while let Some(mut delivery) = receiver.next_delivery(Some(Duration::from_secs(60)))? {
//!     let mut out = File::create("arrived")?;
//!     std::io::copy(&mut delivery, &mut out)?;
//!     out.sync_all()?;
//!     delivery.confirm()?;
//! }
//! receiver.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
pub mod chunk;
mod client;
mod connection;
mod delivery;
mod error;
pub mod ferry;
pub mod folder;
mod receiver;
mod registration;
mod request;
mod sender;
mod stream;

pub use address::{Address, AddressError};
pub use client::Client;
pub use delivery::{Delivery, Receipt};
pub use dhow_node::api::seam::{DeliveryFailureAction, DeliveryHead};
pub use error::{Error, Refusal};
pub use receiver::Receiver;
pub use registration::Registration;
pub use request::SendHead;
pub use sender::{Answer, Created, Sender, Ticket};
