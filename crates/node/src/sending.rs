//! Bundles that go out to neighbours (RFC 9171 5.4): chosen in order, re-encoded for the next hop, and
//! let go only when the neighbour has acknowledged them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::v7::forward::UnsupportedBlocks;
use dhow_bundle::{BundleFlags, FragmentRange, Header, HopEdit, Instant, Now, Reading};
use dhow_link::stream::{LinkCommand, RefuseReason, TransferId};

use crate::bundles::Removal;
use crate::checksums::Ending;
use crate::copies::CopyEnd;
use crate::door::{Occurrence, StreamId, Telling, Ticket};
use crate::neighbour::Neighbour;
use crate::node::Node;
use crate::passing::Pass;
use crate::queues::{Choice, QueueId};
use crate::recovery::READ_WHOLE_OCTETS;
use crate::reports::ReportKind;
use crate::routing::Hop;

/// How long a bundle rests that a neighbour found not acceptable.
pub(crate) const NOT_ACCEPTABLE_REST: Duration = Duration::from_secs(60);

/// How long a bundle rests that a neighbour wants again, or could not say why not.
pub(crate) const RETRANSMIT_REST: Duration = Duration::from_secs(1);

/// What a session is sending.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) key: BundleKey,
    /// Octets by which the window is charged.
    pub(crate) octets: u64,
    /// This is only a fragment of it.
    pub(crate) fragment: bool,
    /// Its payload begins behind so many octets of the bundle's.
    pub(crate) start: u64,
    /// Octets of its header as it is sent.
    pub(crate) header_octets: u64,
    /// When it began.
    pub(crate) begun: Instant,
}

/// Octets that were asked for from the store.
#[derive(Debug)]
pub(crate) enum PendingRead {
    /// The header blocks (or the whole) of a bundle to send.
    Send { stream: StreamId, key: BundleKey },
    /// The payload of one fragment to send.
    Fragment {
        stream: StreamId,
        key: BundleKey,
        range: FragmentRange,
    },
    /// The header blocks of a bundle to echo.
    Echo { key: BundleKey },
    /// The head of the payload of a bundle for the perf service, which was durable then.
    Perf { key: BundleKey, at: Instant },
}

/// A bundle that a session is cutting into fragments.
#[derive(Debug)]
pub(crate) struct Split {
    pub(crate) key: BundleKey,
    /// Payload octets of one fragment.
    pub(crate) piece_octets: u64,
    /// First payload octet that is not yet under way.
    pub(crate) next: u64,
}

/// What has become of a bundle that is cut into fragments.
#[derive(Debug)]
pub(crate) struct SplitBundle {
    pub(crate) header: Box<Header>,
    /// Fragments read for or given to the session and not yet answered.
    pub(crate) outstanding: u64,
    /// No more fragments will be made.
    pub(crate) complete: bool,
    /// A fragment failed: the bundle stays here.
    pub(crate) failed: Option<Option<RefuseReason>>,
}

impl Node {
    /// Give a session what it has room for.
    pub(crate) fn serve(&mut self, now: Now, stream: StreamId) {
        let mut last: Option<Choice> = None;
        self.finish_probe(now, stream);
        if let Some(neighbour) = self.adjacencies.neighbours.get_mut(&stream) {
            neighbour.try_again(now.monotonic);
            if neighbour.is_to_be_cleared(now.monotonic) {
                self.clear_the_way(now, stream);
            }
        }
        loop {
            let Some(neighbour) = self.adjacencies.neighbours.get(&stream) else {
                return;
            };
            if let Some(key) = neighbour.passing {
                return self.look_after_queue(now, stream, key);
            }
            if !neighbour.has_room(now.monotonic) {
                return self.note_full(now, stream);
            }
            if !self.outbox.has_turn_left() {
                self.adjacencies.to_serve.insert(stream);
                return;
            }
            if !neighbour.splits.is_empty() {
                self.send_fragment(stream);
                continue;
            }
            last = match last.and_then(|last| self.follow(stream, &last)) {
                None => {
                    let (choice, stale) = self.weigh(stream);
                    self.forwarding.queues.refresh(stale);
                    choice
                }
                following => following,
            };
            let copy = self.next_copy(now, stream, last.as_ref());
            let Some(key) = copy.or(last.map(|choice| choice.key)) else {
                if self.clear_the_way(now, stream) {
                    continue;
                }
                return;
            };
            if self.has_expired(now, key) {
                continue;
            }
            match copy {
                Some(_) => self.take_copy(stream, key),
                None => self.dequeue(key),
            }
            if self.held.is_doubtful(key) {
                self.verify_for(now, stream, key);
                if !self.held.may_verify(key) {
                    return;
                }
                continue;
            }
            self.charge(stream, key);
            self.watch_paths(now);
            let Some(entry) = self.held.bundles.entry(key) else {
                return;
            };
            let wanted = if entry.octets <= READ_WHOLE_OCTETS {
                entry.octets
            } else {
                u64::from(entry.header_octets)
            };
            let extents = entry.extents.part(0, wanted);
            self.held
                .read(&mut self.outbox, PendingRead::Send { stream, key }, extents);
        }
    }

    /// A session has no room for another bundle.
    fn note_full(&mut self, now: Now, stream: StreamId) {
        let neighbour = self.adjacencies.neighbours.get_mut(&stream);
        if let Some(at) = neighbour.and_then(|it| it.note_full(now.monotonic)) {
            self.adjacencies.pauses.insert((at, stream));
        }
    }

    /// The next bundle for a session.
    pub(crate) fn choose(&self, stream: StreamId) -> Option<Choice> {
        self.weigh(stream).0
    }

    /// The next bundle for a session, and the queues that are to be listed anew.
    fn weigh(&self, stream: StreamId) -> (Option<Choice>, Vec<QueueId>) {
        let Some(neighbour) = self.adjacencies.neighbours.get(&stream) else {
            return (None, Vec::new());
        };
        let best = |hops: &[Hop]| hops.iter().position(|hop| self.is_up(hop));
        if neighbour.ceiling_octets().is_some() {
            let (choice, stale) = self.forwarding.queues.next(&neighbour.hops, best, |key| {
                self.is_below(neighbour, key) && self.may_go(neighbour, key)
            });
            if choice.is_some() {
                return (choice, stale);
            }
        }
        self.forwarding
            .queues
            .next(&neighbour.hops, best, |key| self.may_go(neighbour, key))
    }

    /// Whether a bundle is smaller than what the neighbour refused for lack of room.
    fn is_below(&self, neighbour: &Neighbour, key: BundleKey) -> bool {
        let octets = self.held.bundles.entry(key).map_or(0, |entry| entry.octets);
        neighbour
            .ceiling_octets()
            .is_none_or(|ceiling| octets < ceiling)
    }

    /// What follows the bundle that was chosen for a session last, while nothing else has happened.
    fn follow(&self, stream: StreamId, last: &Choice) -> Option<Choice> {
        let following = self.forwarding.queues.following(last)?;
        let neighbour = self.adjacencies.neighbours.get(&stream)?;
        let goes = self.is_below(neighbour, following.key) && self.may_go(neighbour, following.key);
        goes.then_some(following)
    }

    pub(crate) fn may_go(&self, neighbour: &Neighbour, key: BundleKey) -> bool {
        self.held.bundles.entry(key).is_some_and(|entry| {
            let fits = entry.octets <= neighbour.transfer_mru() || !must_not_fragment(entry.flags);
            // A bundle never goes back to the neighbour that it came from: that one would take it for a
            // copy of what it has got rid of.
            let is_back = entry.previous.is_some() && entry.previous == neighbour.peer;
            let may_pass = !is_back || planted(Mutant::SentBack);
            fits && may_pass && !self.has_left(neighbour.link, key)
        })
    }

    /// True when a session over this hop can take bundles, now or soon.
    pub(crate) fn is_up(&self, hop: &Hop) -> bool {
        self.sessions_over(hop).next().is_some()
    }

    /// The sessions over a hop that can take bundles, now or soon.
    pub(crate) fn sessions_over<'a>(
        &'a self,
        hop: &Hop,
    ) -> impl Iterator<Item = &'a Neighbour> + use<'a> {
        let (link, peer) = match hop {
            Hop::Link(link) => (self.link(*link), None),
            Hop::Peer(peer) => (None, self.adjacencies.peers.get(peer)),
        };
        let streams = link.into_iter().flat_map(|link| &link.streams);
        let streams = streams.chain(peer.into_iter().flatten());
        let sessions =
            streams.filter_map(|stream| self.adjacencies.neighbours.get(stream).map(Box::as_ref));
        sessions.filter(|it| it.parameters.is_some() && !it.ending)
    }

    pub(crate) fn charge(&mut self, stream: StreamId, key: BundleKey) {
        let octets = self.held.bundles.entry(key).map_or(0, |entry| entry.octets);
        if let Some(neighbour) = self.adjacencies.neighbours.get_mut(&stream) {
            neighbour.in_flight += 1;
            neighbour.in_flight_octets = neighbour.in_flight_octets.saturating_add(octets);
        }
    }

    pub(crate) fn discharge(&mut self, stream: StreamId, octets: u64) {
        if let Some(neighbour) = self.adjacencies.neighbours.get_mut(&stream) {
            if !planted(Mutant::WindowLeaks) {
                neighbour.in_flight = neighbour.in_flight.saturating_sub(1);
            }
            neighbour.in_flight_octets = neighbour.in_flight_octets.saturating_sub(octets);
            self.adjacencies.to_serve.insert(stream);
        }
    }

    /// Octets that were asked for are here.
    pub(crate) fn handle_read(&mut self, now: Now, ticket: Ticket, octets: Option<Bytes>) {
        let Some(pending) = self.held.reads.remove(ticket.0) else {
            return;
        };
        match (pending, octets) {
            (PendingRead::Send { stream, key }, Some(octets)) => {
                self.send(now, stream, key, octets)
            }
            (PendingRead::Fragment { stream, key, range }, Some(octets)) => {
                self.transmit_fragment(now, stream, key, range, octets);
            }
            (PendingRead::Echo { key }, Some(octets)) => self.reply(now, key, octets),
            (PendingRead::Perf { key, at }, Some(octets)) => self.measured(now, key, at, &octets),
            (PendingRead::Send { stream, key }, None) => {
                let octets = self.held.bundles.entry(key).map_or(0, |entry| entry.octets);
                self.discharge(stream, octets);
                self.give_back(now, stream, key, Some(RETRANSMIT_REST));
            }
            (PendingRead::Fragment { stream, key, range }, None) => {
                self.discharge(stream, range.length);
                self.settle_fragment(now, stream, key, Some(None));
            }
            (PendingRead::Echo { key } | PendingRead::Perf { key, .. }, None) => {
                self.rest(now, key, RETRANSMIT_REST);
            }
        }
    }

    /// A bundle's first octets are here: re-encode its header blocks and open the transfer.
    fn send(&mut self, now: Now, stream: StreamId, key: BundleKey, octets: Bytes) {
        let Some(entry) = self.held.bundles.entry(key) else {
            return;
        };
        let length = entry.octets;
        if self
            .adjacencies
            .neighbours
            .get(&stream)
            .is_none_or(|it| it.ending)
        {
            self.discharge(stream, length);
            self.give_back(now, stream, key, None);
            return;
        }
        // What was accepted on reception is read again as leniently as it may have been then.
        let whole = u64::try_from(octets.len()).unwrap_or(0) == length;
        let mut reader = self.forwarding.headers_out.take().unwrap_or_default();
        let is_read = reader.read(&octets, Reading::Lenient) == Ok(true);
        if is_read && (!whole || reader.header().check_body(&octets).is_ok()) {
            self.send_behind(now, (stream, key), reader.header(), &octets);
        } else {
            self.discharge(stream, length);
            if self.copy_over(now, stream, key, CopyEnd::Returned(RETRANSMIT_REST)) {
                self.enqueue(key);
            }
            self.corrupt(now, key);
        }
        reader.release();
        self.forwarding.headers_out = Some(reader);
    }

    /// The header of a bundle to send is read, at the beginning of `octets`, which may be the whole.
    fn send_behind(
        &mut self,
        now: Now,
        (stream, key): (StreamId, BundleKey),
        header: &Header,
        octets: &Bytes,
    ) {
        let (Some(entry), Some(neighbour)) = (
            self.held.bundles.entry(key),
            self.adjacencies.neighbours.get(&stream),
        ) else {
            return;
        };
        let length = entry.octets;
        let whole = u64::try_from(octets.len()).unwrap_or(0) == length;
        let is_to_be_asked = neighbour.is_to_be_asked();
        let limit = neighbour.policy.fragment_octets;
        let mru = neighbour.transfer_mru();
        let (head, total) = self.forwarded_head(now, stream, key, header);
        let payload = header.payload_octets();
        let resumes = self.handed_to(stream, key).is_some();
        let too_large = total > mru || limit.is_some_and(|limit| payload > limit) || resumes;
        if too_large && payload > 1 && !must_not_fragment(header.primary.flags.bits()) {
            if self.held.is_stale(now, key) {
                // A fragment has a checksum of its own: it would be right for octets that are not.
                self.discharge(stream, length);
                return self.verify_for(now, stream, key);
            }
            let overhead = total.saturating_sub(payload);
            self.outbox.counters.resumed += u64::from(resumes);
            let header = Box::new(header.clone());
            self.begin_split(now, stream, key, header, overhead);
            return;
        }
        if total > mru {
            // It must not be fragmented, and its header grew past what the peer takes.
            self.discharge(stream, length);
            if self.forwarding.copies.router(key).is_some() {
                return self.copy_back(now, stream, key, CopyEnd::Barred);
            }
            match planted(Mutant::GrowthIgnored) {
                true => drop(self.rest(now, key, NOT_ACCEPTABLE_REST)),
                false => self.divert(now, key, total),
            }
            return;
        }
        let outgoing = Outgoing {
            key,
            octets: length,
            fragment: false,
            start: 0,
            header_octets: u64::try_from(head.len()).unwrap_or(u64::MAX),
            begun: now.monotonic,
        };
        let head = Piece::Octets(head);
        let ending = self.ending(stream, header);
        if whole {
            let body = octets.slice(header.octets.len().min(octets.len())..);
            let [body, end] = ending.of_octets(body, payload).map(Piece::Octets);
            self.transmit(now, stream, outgoing, total, [head, body, end]);
        } else if ending == Ending::Bare && self.held.is_stale(now, key) {
            // The peer has no checksum to compare it with.
            self.discharge(stream, length);
            self.verify_for(now, stream, key);
        } else if let Some(entry) = self.held.bundles.entry(key) {
            let from = u64::from(header.header_octets());
            let body = ending.of_extents(&entry.extents, from, from.saturating_add(payload));
            if is_to_be_asked {
                return self.probe(now, stream, (outgoing, total), head, body);
            }
            let pieces = core::iter::once(head).chain(body);
            self.transmit(now, stream, outgoing, total, pieces);
        }
    }

    /// A bundle's header for the next hop, and octets of the bundle with it.
    pub(crate) fn forwarded_head(
        &mut self,
        now: Now,
        stream: StreamId,
        key: BundleKey,
        header: &Header,
    ) -> (Bytes, u64) {
        let edit = self.hop_edit(now, stream, (key, header), None);
        self.forwarding.heads.forwarded(header, &edit)
    }

    /// What changes in a bundle's header blocks at this hop.
    pub(crate) fn hop_edit(
        &self,
        now: Now,
        stream: StreamId,
        (key, header): (BundleKey, &Header),
        fragment: Option<FragmentRange>,
    ) -> HopEdit {
        let entry = self.held.bundles.entry(key);
        let held = entry.map_or(Duration::ZERO, |entry| now.monotonic - entry.received);
        let held_ms = u64::try_from(held.as_millis()).unwrap_or(u64::MAX);
        let received = entry.is_some_and(|entry| entry.previous.is_some());
        let count = header.hop_count().map_or(0, |hops| hops.count);
        let behind = entry.and_then(|entry| entry.hops).map_or(0, u64::from);
        HopEdit {
            previous_node: Some(self.local.node_id().clone()),
            // RFC 9171 5.4 step 4: the age grows by the time since the bundle was received, in this run
            // of the node and in earlier ones.
            age_increase_ms: held_ms.saturating_add(entry.map_or(0, |entry| entry.held_ms)),
            // RFC 9171 4.4.3: it is zero at first, and counts how often a bundle was sent before, or a copy that ended here.
            hop_increment: match received || behind > 0 {
                true => behind.saturating_sub(count) + 1,
                false => 0,
            },
            unsupported: if received {
                UnsupportedBlocks::Discard
            } else {
                UnsupportedBlocks::Keep
            },
            fragment,
            payload_crc: self.payload_crc(stream),
        }
    }

    /// Open a transfer and supply all of it.
    pub(crate) fn transmit(
        &mut self,
        now: Now,
        stream: StreamId,
        outgoing: Outgoing,
        length: u64,
        pieces: impl IntoIterator<Item = Piece>,
    ) -> Option<TransferId> {
        let transfer = self.open_transfer(now, stream, outgoing, length)?;
        let neighbour = self.adjacencies.neighbours.get_mut(&stream)?;
        for octets in pieces {
            neighbour.command(now, LinkCommand::Supply { transfer, octets });
        }
        self.flush(stream);
        Some(transfer)
    }

    /// Open a transfer of so many octets, which are to follow.
    pub(crate) fn open_transfer(
        &mut self,
        now: Now,
        stream: StreamId,
        outgoing: Outgoing,
        length: u64,
    ) -> Option<TransferId> {
        let neighbour = self.adjacencies.neighbours.get_mut(&stream)?;
        let transfer = TransferId(neighbour.next_transfer);
        neighbour.next_transfer += if planted(Mutant::TransferNumbersSkip) {
            2
        } else {
            1
        };
        neighbour.window.sent(now.monotonic, outgoing.octets);
        neighbour.opened(transfer, outgoing);
        neighbour.command(now, LinkCommand::Transmit { transfer, length });
        Some(transfer)
    }

    /// A neighbour has taken a transfer, or it has left over a link on which nobody says more.
    pub(crate) fn transmitted(&mut self, now: Now, stream: StreamId, transfer: TransferId) {
        let Some(neighbour) = self.adjacencies.neighbours.get_mut(&stream) else {
            return;
        };
        let Some(outgoing) = neighbour.closed(transfer) else {
            return;
        };
        neighbour.probe_over(now.monotonic, transfer, false);
        let (begun, octets) = (outgoing.begun, outgoing.octets);
        neighbour.window.answered(now.monotonic, begun, octets);
        neighbour.bundles_sent += 1;
        neighbour.octets_sent += outgoing.octets;
        let was_tried = neighbour.trial.is_some_and(|trial| trial.bundles == 1);
        neighbour.has_taken(outgoing.octets);
        if was_tried {
            self.try_others(stream);
        }
        if let Some(link) = self
            .adjacencies
            .neighbours
            .get(&stream)
            .and_then(|it| it.link)
            && let Some(link) = self.link_mut(link)
        {
            link.works();
        }
        self.discharge(stream, outgoing.octets);
        self.tell_transfer(now, stream, &outgoing);
        if outgoing.fragment {
            if !self.keeps_sent(stream) {
                self.handed_over(stream, outgoing.key, outgoing.start, outgoing.octets);
            }
            self.settle_fragment(now, stream, outgoing.key, None);
        } else if !self.pass_over(now, stream, outgoing.key, Pass::Taken(stream)) {
            self.forwarded(now, stream, outgoing.key);
            self.pay(now, outgoing.key);
        }
    }

    fn tell_transfer(&mut self, now: Now, stream: StreamId, outgoing: &Outgoing) {
        if self.outbox.telling != Telling::Everything {
            return;
        }
        let entry = self.held.bundles.entry(outgoing.key);
        let id = entry.and_then(|entry| self.told(entry));
        let peer = self
            .adjacencies
            .neighbours
            .get(&stream)
            .and_then(|it| it.peer_id());
        let took = now.monotonic.since(outgoing.begun);
        if let Some((id, to)) = id.zip(peer.cloned()) {
            self.occurred(Occurrence::Transferred {
                id,
                to,
                octets: outgoing.octets,
                took_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
            });
        }
    }

    /// RFC 9171 5.4 step 5: the next hop has the bundle, or it has left for there.
    pub(crate) fn forwarded(&mut self, now: Now, stream: StreamId, key: BundleKey) {
        let Some(entry) = self.held.bundles.entry(key) else {
            return;
        };
        let subject = self.reported(entry, ReportKind::Forwarded);
        let (id, octets) = (self.told(entry), entry.octets);
        self.outbox.counters.forwarded += 1;
        self.outbox.counters.forwarded_octets += octets;
        if let Some(subject) = subject.filter(|_| !planted(Mutant::ForwardingNotReported)) {
            self.report(now, &subject, ReportKind::Forwarded, 0);
        }
        let peer = self
            .adjacencies
            .neighbours
            .get(&stream)
            .and_then(|it| it.peer_id());
        if let Some((id, to)) = id.zip(peer.cloned()) {
            self.occurred(Occurrence::Forwarded { id, to, octets });
        }
        match self.forwarding.copies.router(key) {
            Some(_) => self.copy_given(now, stream, key),
            None if self.keeps_sent(stream) => self.stay(now, stream, key),
            None => self.delete(now, key, Removal::Forwarded, None),
        }
    }
}

/// RFC 9171 4.2.3: the bundle must not be fragmented.
pub(crate) fn must_not_fragment(flags: u64) -> bool {
    BundleFlags::from_bits(flags).contains(BundleFlags::MUST_NOT_FRAGMENT)
}
