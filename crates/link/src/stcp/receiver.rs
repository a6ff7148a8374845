//! Bundles from the peer: the side that accepted.

use bytes::Bytes;

use super::Framing;
use super::wire::{Decoder, Item, WireFault};
use crate::stream::{LinkEvent, TransferId};
use crate::tcpcl::event::Events;

/// Incoming bundles. They are numbered from 0, since the wire numbers none.
#[derive(Debug)]
pub(super) struct Receiver {
    decoder: Decoder,
    current: Option<Current>,
    /// The number of the next bundle.
    next: u64,
}

/// The bundle that is arriving.
#[derive(Debug)]
struct Current {
    transfer: TransferId,
    /// Octets of the whole.
    length: u64,
    /// Whether the node has been told of the bundle.
    is_begun: bool,
    /// Whether the node does not want it: the octets that still come are skipped.
    is_refused: bool,
}

/// The progress that octets made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The chunk is used up.
    Done,
    /// A bundle has begun, or goes on.
    Bundle,
    /// A bundle is complete.
    Complete,
    /// A keep-alive came.
    Keepalive,
}

impl Receiver {
    pub(super) fn new(framing: Framing, longest: u64) -> Self {
        Self {
            decoder: Decoder::new(framing, longest),
            current: None,
            next: 0,
        }
    }

    /// A bundle has begun to come.
    pub(super) const fn is_arriving(&self) -> bool {
        self.current.is_some()
    }

    /// Read the next item of a chunk.
    pub(super) fn read(
        &mut self,
        chunk: &mut Bytes,
        events: &mut Events,
    ) -> Result<Progress, WireFault> {
        match self.decoder.next(chunk)? {
            None => Ok(Progress::Done),
            Some(Item::Head(0)) => Ok(Progress::Keepalive),
            Some(Item::Head(length)) => {
                let transfer = TransferId(self.next);
                self.next = self.next.saturating_add(1);
                self.current = Some(Current {
                    transfer,
                    length,
                    is_begun: false,
                    is_refused: false,
                });
                Ok(Progress::Bundle)
            }
            Some(Item::Octets { octets, last }) => {
                self.take(octets, last, events);
                Ok(match last {
                    true => Progress::Complete,
                    false => Progress::Bundle,
                })
            }
        }
    }

    fn take(&mut self, octets: Bytes, end: bool, events: &mut Events) {
        let Some(current) = &mut self.current else {
            return;
        };
        let start = !core::mem::replace(&mut current.is_begun, true);
        if !current.is_refused {
            events.push(LinkEvent::Segment {
                transfer: current.transfer,
                octets,
                start,
                end,
                length: start.then_some(current.length),
            });
        }
        if end {
            self.current = None;
        }
    }

    /// The node does not want a bundle. The peer has sent it in any case: nobody is told.
    pub(super) fn refuse(&mut self, transfer: TransferId) {
        let current = self.current.as_mut();
        if let Some(current) = current.filter(|it| it.transfer == transfer) {
            current.is_refused = true;
        }
    }

    /// The stream is over: the rule that this breaks where it is not between two bundles.
    pub(super) const fn end(&self) -> Option<WireFault> {
        self.decoder.end()
    }

    /// The session is over: tell the node of the bundle that will not be completed.
    pub(super) fn close(&mut self, events: &mut Events) {
        if let Some(current) = self.current.take()
            && current.is_begun
            && !current.is_refused
        {
            events.push(LinkEvent::Abandoned {
                transfer: current.transfer,
                refused: None,
            });
        }
    }
}
