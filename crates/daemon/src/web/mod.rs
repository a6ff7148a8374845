//! HTTP to browsers and programs, whatever the resources are: the operator's interface, HTTP for applications, and the page of a lab.
//!
//! Start at [`Served`], a thread that answers; [`receive`] takes connections as [`Terms`] say, and [`Callers`] which of them gives way to a new one.
//! This room never knows a node.

mod callers;
mod conversation;
mod file;
mod hosts;
mod pieces;
mod reach;
mod thread;
mod unread;

pub use callers::{Callers, Kept};
pub use conversation::{Terms, receive, receive_all};
pub use file::{File, Kind};
pub use hosts::Hosts;
pub use pieces::{Pieces, Rest};
pub use reach::reach;
pub use thread::Served;
