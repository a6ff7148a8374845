//! Bundles that come in from neighbours: from the octets of a transfer to a committed bundle
//! (RFC 9171 5.6).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::cmp::Ordering;

use bytes::{Bytes, BytesMut};
use dhow_bundle::crc::{crc32c, joined_crc32c};
use dhow_bundle::storage::{BundleKey, Piece, StoreCommand};
use dhow_bundle::v6::trailer::MAX_TRAILER_OCTETS;
use dhow_bundle::{Header, NodeId, Now, PayloadVerifier, Refusal};
use dhow_link::stream::{LinkCommand, RefuseReason, TransferId};

use crate::adjacencies::early::Run;
use crate::adjacencies::session_id::SessionId;
use crate::admission::Admission;
use crate::driver::Occurrence;
use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::held::arrivals::Origin;
use crate::node::Node;

/// Segments with fewer octets are gathered before the store gets them: a command for each would cost more
/// than the copy, and would let a peer that sends single octets fill the memory with commands.
const SMALL_OCTETS: usize = 512;

/// Octets gathered of small segments, at most.
const GATHERED_OCTETS: usize = 4096;

/// Of so many octets at least, the store gets the checksum that was computed as they passed. To put it together with others
/// takes about as long as to compute that of so many.
pub(crate) const SUMMED_OCTETS: usize = 8 * 1024;

/// The state of a transfer.
pub(crate) enum Reception {
    /// The header blocks are not complete.
    Header {
        octets: BytesMut,
        /// Octets at which reading is tried again.
        wanted: usize,
        announced: Option<u64>,
    },
    /// The payload is coming in.
    Payload(Box<Incoming>),
    /// Octets that still come are not wanted. With `taken`, the whole is acknowledged at its end all the same:
    /// the bundle is known, or was accepted and deleted.
    Discard { octets: u64, taken: bool },
}

impl Reception {
    /// The bundle whose payload is coming in.
    pub(crate) fn incoming(&self) -> Option<&Incoming> {
        match self {
            Self::Payload(incoming) => Some(incoming),
            Self::Header { .. } | Self::Discard { .. } => None,
        }
    }
}

/// A bundle whose payload is coming in.
pub(crate) struct Incoming {
    pub(crate) key: BundleKey,
    pub(crate) header: Header,
    pub(crate) verifier: PayloadVerifier,
    /// Octets of the transfer.
    pub(crate) received: u64,
    trailer: BytesMut,
    /// Octets of small segments that the store has not got.
    gathered: BytesMut,
}

/// The place of a piece in its transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) start: bool,
    pub(crate) end: bool,
    /// Octets of the whole transfer, where the peer said so.
    pub(crate) length: Option<u64>,
}

/// Why an incoming bundle is refused.
pub(crate) struct Refused {
    pub(crate) reason: RefuseReason,
    pub(crate) why: String,
    /// Whether only another copy is in its way, and its router makes copies.
    is_double: bool,
}

impl Refused {
    pub(crate) fn new(reason: RefuseReason, why: impl Into<String>) -> Self {
        Self {
            reason,
            why: why.into(),
            is_double: false,
        }
    }

    /// The refusal of a bundle for another copy, which has this key: with a router that makes copies that is usual.
    pub(crate) fn for_copy(
        (held, key): (&Held, BundleKey),
        forwarding: &Forwarding,
        reason: RefuseReason,
        why: impl Into<String>,
    ) -> Self {
        Self {
            is_double: forwarding.is_routed(held, key),
            ..Self::new(reason, why)
        }
    }

    /// The occurrence of which the operator is told.
    pub(crate) fn occurrence(self, from: NodeId) -> Occurrence {
        Occurrence::RefusedIncoming {
            from,
            reason: self.reason,
            why: self.why,
            is_double: self.is_double,
        }
    }

    pub(crate) fn not_acceptable(why: impl ToString) -> Self {
        Self::new(RefuseReason::NotAcceptable, why.to_string())
    }

    /// The bundle breaks a rule.
    fn breaks(refusal: Refusal) -> Self {
        Self::not_acceptable(format!("{refusal} ({})", refusal.section()))
    }
}

fn goes_on() -> Refused {
    Refused::not_acceptable("octets follow the end of the bundle (RFC 9171 4.1)")
}

fn ends_early() -> Refused {
    Refused::not_acceptable("the bundle ends before its payload block does (RFC 9171 4.1)")
}

impl Node {
    /// Octets of an incoming transfer.
    pub(crate) fn receive(
        &mut self,
        now: Now,
        session: SessionId,
        transfer: TransferId,
        octets: Bytes,
        ends: Ends,
    ) {
        if ends.start && ends.end {
            self.hear_of_sent(now, &octets);
        }
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return;
        };
        let reception = if ends.start {
            Reception::Header {
                octets: BytesMut::new(),
                wanted: 0,
                announced: ends.length,
            }
        } else {
            match neighbour.receptions.remove(&transfer) {
                Some(reception) => reception,
                None => return,
            }
        };
        let next = match reception {
            Reception::Header {
                octets: mut before,
                wanted,
                announced,
            } if !ends.end && before.len().saturating_add(octets.len()) < wanted => {
                before.extend_from_slice(&octets);
                Ok(Some(Reception::Header {
                    octets: before,
                    wanted,
                    announced,
                }))
            }
            Reception::Header {
                octets: before,
                announced,
                ..
            } => self.receive_header(
                now,
                (session, transfer),
                (before, announced),
                octets,
                ends.end,
            ),
            Reception::Payload(incoming) => self.receive_payload(now, incoming, octets, ends.end),
            Reception::Discard {
                octets: before,
                taken,
            } => {
                let arrived = u64::try_from(octets.len()).unwrap_or(u64::MAX);
                Ok(Some(Reception::Discard {
                    octets: before.saturating_add(arrived),
                    taken,
                }))
            }
        };
        match next {
            Ok(Some(Reception::Discard { octets, taken })) if ends.end => {
                if taken {
                    self.adjacencies.command(
                        &mut self.attention,
                        now,
                        session,
                        LinkCommand::Acknowledge { transfer, octets },
                    );
                }
            }
            Ok(Some(reception)) => {
                if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
                    neighbour.receptions.insert(transfer, reception);
                }
            }
            Ok(None) => {}
            Err(refused) => self.refuse(now, session, transfer, refused),
        }
    }

    fn receive_header(
        &mut self,
        now: Now,
        (session, transfer): (SessionId, TransferId),
        (mut before, announced): (BytesMut, Option<u64>),
        octets: Bytes,
        end: bool,
    ) -> Result<Option<Reception>, Refused> {
        let octets = if before.is_empty() {
            octets
        } else {
            // Header blocks cut by a segment boundary are the one thing that is copied.
            before.extend_from_slice(&octets);
            before.clone().freeze()
        };
        let reading = self
            .adjacencies
            .neighbour(session)
            .map(|neighbour| neighbour.reading())
            .unwrap_or_default();
        let mut reader = self.held.take_reader();
        let next = match reader.read(&octets, reading) {
            Ok(true) => {
                let place = (session, transfer);
                self.receive_behind(now, place, reader.header(), announced, (octets, end))
            }
            Ok(false) if end => Err(Refused::not_acceptable(
                "the bundle ends within its header blocks (RFC 9171 4.1)",
            )),
            Ok(false) => {
                if before.is_empty() {
                    before.extend_from_slice(&octets);
                }
                // Read again only when twice as much is there: segments of one octet must not make each
                // octet be read as often as there are segments.
                Ok(Some(Reception::Header {
                    wanted: before.len().saturating_mul(2),
                    octets: before,
                    announced,
                }))
            }
            Err(refusal) => Err(Refused::breaks(refusal)),
        };
        reader.release();
        self.held.give_reader_back(reader);
        next
    }

    /// The header of a bundle is here, at the beginning of `octets`, which may be the whole.
    fn receive_behind(
        &mut self,
        now: Now,
        (session, transfer): (SessionId, TransferId),
        header: &Header,
        announced: Option<u64>,
        (octets, end): (Bytes, bool),
    ) -> Result<Option<Reception>, Refused> {
        // RFC 9174 5.2.5.1: the announced length is the length of the bundle.
        let is_wrong = |length: u64| match header.has_open_end() {
            true => length <= header.total_octets(),
            false => length != header.total_octets(),
        };
        if announced.is_some_and(is_wrong) {
            return Err(Refused::not_acceptable(match session.is_tunnel() {
                true => "the record that it came in is longer or shorter",
                false => "the announced transfer length is not the bundle's (RFC 9174 5.2.5.1)",
            }));
        }
        let depth = self.depth_in_carriers((session, transfer), header)?;
        let arrived = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        match self.admit(now, session, header)? {
            Admission::Known if end => Ok(Some(Reception::Discard {
                octets: arrived,
                taken: true,
            })),
            Admission::Known => Err(Refused::new(RefuseReason::Completed, "")),
            Admission::Delete => Ok(Some(Reception::Discard {
                octets: arrived,
                taken: true,
            })),
            Admission::New(key) => {
                let origin = Origin::Neighbour { session, transfer };
                self.held.begin_arrival(key, origin);
                self.held.set_depth(key, depth);
                if end {
                    self.receive_whole(now, key, header, octets)?;
                    return Ok(None);
                }
                if self.keeps_parts(&header.primary.destination) {
                    let from = (session, transfer);
                    self.held
                        .begin_reactive(&self.adjacencies, now, key, from, header);
                }
                self.held.begin_reservation(&self.config, key);
                let incoming = Incoming {
                    key,
                    verifier: PayloadVerifier::new(header),
                    header: header.clone(),
                    received: 0,
                    trailer: BytesMut::new(),
                    gathered: BytesMut::new(),
                };
                let mut next = self.receive_payload(now, Box::new(incoming), octets, end)?;
                if let Some(Reception::Payload(incoming)) = &mut next {
                    self.forwarding.begin_cut_through(
                        &mut self.held,
                        &mut self.adjacencies,
                        &mut self.outbox,
                        now,
                        incoming,
                    );
                }
                Ok(next)
            }
        }
    }

    /// A bundle that came in one piece, as most small ones do: nothing of it is to be kept for later.
    fn receive_whole(
        &mut self,
        now: Now,
        key: BundleKey,
        header: &Header,
        octets: Bytes,
    ) -> Result<(), Refused> {
        let arrived = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        let outcome = match arrived.cmp(&header.total_octets()) {
            Ordering::Less => Err(ends_early()),
            Ordering::Equal => header.check_body(&octets).map_err(Refused::breaks),
            Ordering::Greater if header.has_open_end() => {
                let checked = header.check_body(&octets).map_err(Refused::breaks);
                checked.and_then(|()| self.held.lengthen(&self.config, key, arrived))
            }
            Ordering::Greater => Err(goes_on()),
        };
        if let Err(refused) = outcome {
            // Octets that it announced and did not bring take no room while it is deleted.
            self.held.begin_reservation(&self.config, key);
            self.abandon(now, key);
            return Err(refused);
        }
        self.end_rivals(now, key);
        let ahead = self
            .forwarding
            .may_go_before_sync(&self.held, key, header)
            .then(|| octets.clone());
        self.held
            .append(&mut self.outbox, key, Piece::Octets(octets));
        self.held
            .commit(&mut self.adjacencies, &mut self.outbox, key);
        if let Some(octets) = ahead {
            self.go_before_sync(now, key, header, &octets);
        }
        Ok(())
    }

    fn receive_payload(
        &mut self,
        now: Now,
        mut incoming: Box<Incoming>,
        octets: Bytes,
        end: bool,
    ) -> Result<Option<Reception>, Refused> {
        let key = incoming.key;
        let begins = incoming.received == 0;
        let outcome = incoming.take(&octets, end).and_then(|taken| {
            let received = incoming.received;
            self.held.reserve(&self.config, key, received)?;
            if taken.is_whole {
                self.held.lengthen(&self.config, key, received)?;
            }
            Ok(taken)
        });
        if let Ok(taken) = &outcome {
            let mut octets = octets;
            let mut crc = taken.behind_header;
            let header_octets = incoming.header.octets.len().min(octets.len());
            if begins && !end && !octets.is_empty() && self.held.reactive().contains_key(&key) {
                // Parts have another header, and all that follows it in common.
                let header = octets.split_to(header_octets);
                self.held
                    .append(&mut self.outbox, key, Piece::Octets(header));
                self.outbox.store(StoreCommand::Divide { key });
            } else if begins {
                let (header, behind) = octets.split_at(header_octets);
                let length = u64::try_from(behind.len()).unwrap_or(u64::MAX);
                crc = crc.map(|crc| joined_crc32c(crc32c(header), crc, length));
            }
            let [before, next] = incoming.gather(octets, end);
            if let Some(octets) = before {
                self.held
                    .append(&mut self.outbox, key, Piece::Octets(octets));
            }
            if let Some(octets) = next {
                self.held
                    .append_summed(&mut self.outbox, key, Piece::Octets(octets), crc);
            }
        }
        match outcome.map(|taken| taken.is_whole) {
            Ok(false) => Ok(Some(Reception::Payload(incoming))),
            Ok(true) => {
                self.end_rivals(now, key);
                self.held
                    .commit(&mut self.adjacencies, &mut self.outbox, key);
                Ok(None)
            }
            Err(refused) => {
                self.held.retract(key);
                self.abandon(now, key);
                Err(refused)
            }
        }
    }
}

impl Incoming {
    /// All that the store has not got of what came.
    pub(crate) fn take_gathered(&mut self) -> Option<Bytes> {
        Some(self.gathered.split().freeze()).filter(|octets| !octets.is_empty())
    }

    /// The place behind the payload, or that of the last octet of all where nothing follows the payload.
    pub(crate) fn payload_end(&self) -> u64 {
        let header_octets = u64::from(self.header.header_octets());
        let end = header_octets.saturating_add(self.header.payload_octets());
        end.min(self.header.total_octets().saturating_sub(1))
    }

    /// The next octets of the payload are in the store.
    pub(crate) fn pass(&mut self, run: Run) {
        self.received = self.received.saturating_add(run.octets);
        self.verifier.join(run.crc32c, run.octets);
    }

    /// The pieces for the store now, in order: small segments wait for more.
    fn gather(&mut self, octets: Bytes, end: bool) -> [Option<Bytes>; 2] {
        let is_kept = octets.len() < SMALL_OCTETS && !(end && self.gathered.is_empty());
        let next = match is_kept {
            true => {
                self.gathered.extend_from_slice(&octets);
                None
            }
            false => Some(octets).filter(|octets| !octets.is_empty()),
        };
        let is_due = end || next.is_some() || self.gathered.len() >= GATHERED_OCTETS;
        let before = if is_due { self.take_gathered() } else { None };
        [before, next]
    }

    /// Octets of the bundle, at most: a trailer of unknown length has a bound.
    fn octets_max(&self) -> u64 {
        let open = match self.header.has_open_end() {
            true => u64::try_from(MAX_TRAILER_OCTETS).unwrap_or(u64::MAX),
            false => 0,
        };
        self.header.total_octets().saturating_add(open)
    }

    /// Account for octets.
    fn take(&mut self, octets: &Bytes, end: bool) -> Result<Taken, Refused> {
        let mut rest = &octets[..];
        let header_octets = u64::from(self.header.header_octets());
        let payload_end = header_octets.saturating_add(self.header.payload_octets());
        let mut position = self.received;
        self.received = self
            .received
            .saturating_add(u64::try_from(rest.len()).unwrap_or(u64::MAX));
        if self.received > self.octets_max() {
            return Err(goes_on());
        }
        let is_summed = rest.len() >= SUMMED_OCTETS;
        let mut behind_header = None;
        for (bound, part) in [
            (header_octets, Place::Header),
            (payload_end, Place::Payload),
            (u64::MAX, Place::Trailer),
        ] {
            let wanted = usize::try_from(bound.saturating_sub(position)).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(wanted.min(rest.len()));
            match part {
                Place::Header => {}
                Place::Payload if is_summed => behind_header = self.verifier.update_with_own(now),
                Place::Payload => self.verifier.update(now),
                Place::Trailer => {
                    self.trailer.extend_from_slice(now);
                    let length = u64::try_from(now.len()).unwrap_or(u64::MAX);
                    behind_header =
                        behind_header.map(|crc| joined_crc32c(crc, crc32c(now), length));
                }
            }
            position = position.saturating_add(u64::try_from(now.len()).unwrap_or(u64::MAX));
            rest = later;
        }
        let taken = |is_whole| Taken {
            is_whole,
            behind_header,
        };
        if !end {
            return Ok(taken(false));
        }
        if self.received < self.header.total_octets() {
            return Err(ends_early());
        }
        self.verifier
            .clone()
            .finish(&self.trailer)
            .map_err(Refused::breaks)?;
        Ok(taken(true))
    }
}

/// Octets that were accounted for.
struct Taken {
    /// Whether the bundle is whole and correct.
    is_whole: bool,
    /// The CRC-32C of those that do not belong to the header, where it is known.
    behind_header: Option<u32>,
}

enum Place {
    Header,
    Payload,
    Trailer,
}
