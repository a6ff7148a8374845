//! Blocks of LTP over several hops, without bundles: a profile of our own (docs/ltp.md).
//!
//! A [`station`](mod@station) is an engine with neighbours. The same one sends files to a far engine, passes blocks on, and takes
//! those that are for it; [`Work`] says which. Each `neighbour` has an engine of LTP for both directions. A [`block`] that comes is
//! written to a file, from which its octets leave for the next hop while others still come ([`onward`]); [`spool`] finds those files
//! again after a restart. [`arriving`] addresses blocks, [`strangers`] says which neighbour makes room, [`telling`] makes the reports that sources get, and [`ways`] knows where these go.

mod arriving;
mod block;
mod onward;
mod orders;
mod spool;
mod station;
mod strangers;
mod telling;
mod ways;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dhow_link::ltp::{EndReport, EndToEnd, Red, Status};

pub use self::station::run;
use super::Way;
use super::why::Why;
use crate::datagrams::seal::SegmentKey;

/// Octets of a datagram that has room for all extensions.
pub const LEAST_MTU_OCTETS: u64 = 256;

/// A neighbour: its engine, and where it hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The engine ID.
    pub engine: u64,
    /// The address.
    pub address: SocketAddr,
}

/// A file for a far engine.
#[derive(Clone, Debug)]
pub struct Order {
    /// The file.
    pub path: PathBuf,
    /// The part of it that is acknowledged.
    pub red: Red,
    /// The part of its block for all hops.
    pub end_to_end: EndToEnd,
}

/// When a block may leave for its next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// While it still comes.
    CutThrough,
    /// When it is whole and durable.
    StoreAndForward,
}

/// The work of a station.
#[derive(Clone, Debug)]
pub enum Work {
    /// Pass blocks on.
    Relay(Passing),
    /// Take blocks for this engine, until so many came, or nothing came for so long.
    Receive {
        /// Files after which it is over.
        count: Option<u64>,
        /// Time without octets after which it is over.
        timeout: Option<Duration>,
    },
    /// Send files.
    Send(Vec<Order>),
}

/// The wishes for a station.
#[derive(Debug)]
pub struct Settings {
    /// The address to hear at.
    pub listen: SocketAddr,
    /// The engine ID here.
    pub engine: u64,
    /// The work.
    pub work: Work,
    /// Next hops, by the engine that a block is for.
    pub routes: BTreeMap<u64, Hop>,
    /// The next hop to all other engines.
    pub default: Option<Hop>,
    /// The directory of files.
    pub directory: PathBuf,
    /// Blocks that are here at a time, at most.
    pub blocks: usize,
    /// Octets of all blocks that are here, at most.
    pub disk_octets: u64,
    /// Octets of the largest block that is taken.
    pub largest: u64,
    /// The way to all neighbours.
    pub way: Way,
    /// The key of all segments.
    pub key: Option<Arc<SegmentKey>>,
    /// Hard to guess.
    pub seed: u64,
}

/// A block, as far as it is known here.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its part for all hops; `None` of a block for this hop alone.
    pub end_to_end: Option<EndToEnd>,
    /// The neighbour's engine.
    pub neighbour: u64,
    /// The number of the session with the neighbour.
    pub session: u64,
    /// Octets that are here.
    pub octets: u64,
    /// Time since the first octets.
    pub time: Duration,
}

/// Something that happened to a block.
#[derive(Debug)]
pub enum What {
    /// The block begins to come.
    Coming,
    /// The block is whole and durable here.
    Stored,
    /// The block was found after a restart.
    Resumed,
    /// The block begins to leave.
    Leaving,
    /// The next hop has it; where a part is green: it has left.
    Passed,
    /// The block is for this engine, whole, and durable under this name.
    Received(PathBuf),
    /// The block is for this engine, and was here before.
    Again,
    /// The block is lost: the inward session was cancelled, or nothing more came.
    Lost(String),
    /// Its session with the next hop failed; it leaves again.
    Retried(Why),
    /// The block is not passed on, and its source is told so.
    Dropped(Status),
    /// A report for this engine.
    Reported(EndReport),
    /// The block is refused: the limits of blocks or octets are reached.
    Refused,
}

/// The end of a file that was sent.
#[derive(Debug)]
pub struct Outcome {
    /// Its place among the files.
    pub number: usize,
    /// Octets of the block.
    pub octets: u64,
    /// The session with the next hop.
    pub session: Option<u64>,
    /// Time until the next hop had the block.
    pub hop: Option<Duration>,
    /// The report of the destination, or of a hop on the way, and when it came.
    pub end: Option<(EndReport, Duration)>,
    /// The reason for which it failed.
    pub failure: Option<Why>,
}

/// News of a station.
#[derive(Debug)]
pub enum Told {
    /// The station hears at this address.
    Listening(SocketAddr),
    /// Something happened to a block.
    Block(About, What),
    /// A file that was sent is over.
    Ended(Outcome),
    /// Octets that were sent and octets that the next hop claims, of all files that are sent.
    Progress(u64, u64),
    /// Something is odd.
    Note(String),
}

/// Someone who is told.
pub trait Watch {
    /// True once it is to end.
    fn is_over(&self) -> bool;
    /// Take news.
    fn hear(&mut self, told: Told);
}

/// The end of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All of its work is done.
    Done,
    /// Some of its work failed.
    Failed,
    /// Nothing came for too long.
    Silence,
    /// The relay was told to end.
    Stopped,
}
