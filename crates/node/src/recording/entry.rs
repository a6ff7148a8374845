//! The entries of a recording, one after the other.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_bundle::cbor::{BREAK, Reader, write_array, write_indefinite_array, write_unsigned};

use super::item::{Item, ItemError, choice};
use super::omission::Runs;
use crate::config::Config;
use crate::driver::{Event, StreamId, Telling, Ticket};

/// Calls of `poll` that one entry stands for, at most.
pub const CALLS_MAX: u64 = 1 << 16;

/// Whether a recording has the octets of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// All octets as they came.
    Whole,
    /// Zeros stand for payloads.
    Without,
}

/// Why a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The node ended.
    Node,
    /// The recording had the size that it may have; the node went on.
    Limit,
}

/// One thing that a recording says. The first is `Start`; `Time` holds until the next.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A node was made.
    Start {
        /// The program and its version: `dhow 0.1.0`.
        program: String,
        /// The octets that are left out.
        content: Content,
        /// The occurrences that the node tells.
        telling: Telling,
        /// Its configuration, with its seed.
        config: Box<Config>,
    },
    /// The time that the clocks show from now on.
    Time {
        /// The time by both clocks.
        now: Now,
    },
    /// `Node::handle`.
    Event {
        /// An event that a driver tells its node.
        event: Event,
    },
    /// `Node::handle_timeout`.
    Timeout,
    /// `Node::poll`, some times.
    Polled {
        /// The number of calls; at most [`CALLS_MAX`].
        calls: u64,
        /// Actions that came.
        actions: u64,
        /// The digest of all that has come so far.
        digest: u64,
    },
    /// `Node::poll_octets`.
    Written {
        /// The stream.
        stream: StreamId,
        /// The number of octets that were wanted.
        limit: u64,
        /// Octets that the list held before.
        held: u64,
        /// Octets that came.
        octets: u64,
        /// The digest of all that has come so far.
        digest: u64,
    },
    /// `Node::poll_datagrams`.
    Given {
        /// The conversation's stream.
        stream: StreamId,
        /// The largest number of datagrams that was wanted.
        limit: usize,
        /// Octets in them, at most.
        limit_octets: u64,
        /// Datagrams that came.
        datagrams: usize,
        /// Octets in the datagrams.
        octets: u64,
        /// The digest of all that has come so far.
        digest: u64,
    },
    /// Nothing follows.
    End {
        /// The reason.
        finish: Finish,
    },
}

/// Code of [`Entry::Event`].
const EVENT: u64 = 2;

/// Code of [`Event::Read`].
const READ: u64 = 3;

/// Code of [`Event::Octets`].
const OCTETS: u64 = 5;

/// Code of [`Event::Datagrams`].
const DATAGRAMS: u64 = 16;

choice!(Content { 0 => Whole {}, 1 => Without {} });
choice!(Finish { 0 => Node {}, 1 => Limit {} });
choice!(Entry {
    0 => Start { program: program, content: content, telling: telling, config: config },
    1 => Time { now: now },
    2 => Event { event: event },
    3 => Timeout {},
    4 => Polled { calls: calls, actions: actions, digest: digest },
    5 => Written { stream: stream, limit: limit, held: held, octets: octets, digest: digest },
    6 => End { finish: finish },
    7 => Given { stream: stream, limit: limit, limit_octets: limit_octets, datagrams: datagrams, octets: octets, digest: digest },
});

impl Entry {
    /// Appends an entry about an event, as [`Entry::Event`] is written, to `out`.
    pub(super) fn write_event(out: &mut Vec<u8>, event: &Event) {
        write_indefinite_array(out);
        write_unsigned(out, EVENT);
        event.write(out);
        out.push(BREAK);
    }

    /// As `write_event` for octets that came on a stream, of which some are left out.
    pub(super) fn write_octets(out: &mut Vec<u8>, stream: StreamId, runs: &mut Runs) {
        write_indefinite_array(out);
        write_unsigned(out, EVENT);
        write_indefinite_array(out);
        write_unsigned(out, OCTETS);
        stream.write(out);
        runs.write(out);
        out.extend_from_slice(&[BREAK, BREAK]);
    }

    /// As `write_event` for datagrams of which some octets are left out: `next` finds those of one after the other.
    pub(super) fn write_datagrams(
        out: &mut Vec<u8>,
        stream: StreamId,
        datagrams: &[Bytes],
        runs: &mut Runs,
        mut next: impl FnMut(&Bytes, &mut Runs),
    ) {
        write_indefinite_array(out);
        write_unsigned(out, EVENT);
        write_indefinite_array(out);
        write_unsigned(out, DATAGRAMS);
        stream.write(out);
        write_array(out, u64::try_from(datagrams.len()).unwrap_or(u64::MAX));
        for datagram in datagrams {
            next(datagram, runs);
            runs.write(out);
        }
        out.extend_from_slice(&[BREAK, BREAK]);
    }

    /// As `write_event` for octets that were read, of which some are left out.
    pub(super) fn write_read(out: &mut Vec<u8>, ticket: Ticket, runs: &mut Runs) {
        write_indefinite_array(out);
        write_unsigned(out, EVENT);
        write_indefinite_array(out);
        write_unsigned(out, READ);
        ticket.write(out);
        write_array(out, 1);
        runs.write(out);
        out.extend_from_slice(&[BREAK, BREAK]);
    }

    /// Takes the next entry of a frame's content; `None` at its end.
    ///
    /// # Errors
    /// The item is no entry.
    pub fn next(reader: &mut Reader<'_>) -> Result<Option<Self>, ItemError> {
        if reader.is_empty() {
            return Ok(None);
        }
        Self::read(reader).map(Some)
    }
}
