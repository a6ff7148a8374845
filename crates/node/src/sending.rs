//! Bundles that go out to neighbours (RFC 9171 5.4): chosen in order, re-encoded for the next hop, and
//! let go only when the neighbour has acknowledged them.

use alloc::boxed::Box;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{BundleFlags, FragmentRange, Header, Instant, Now, Priority, Reading};
use dhow_link::stream::TransferId;

use crate::adjacencies::session_id::SessionId;
use crate::detours::{CLEARED_BOUND, CLEARING_PAUSE};
use crate::driver::Ticket;
use crate::forwarding::before_sync::UNSYNCED_OCTETS;
use crate::forwarding::copies::CopyEnd;
use crate::forwarding::queues::Choice;
use crate::held::bundles::Entry;
use crate::node::Node;

/// The time after which a bundle that a neighbour found not acceptable is tried again.
pub(crate) const NOT_ACCEPTABLE_RETRY: Duration = Duration::from_secs(60);

/// The time after which a bundle is tried again that a neighbour wants again, or did not say why it refused.
pub(crate) const RETRANSMIT_RETRY: Duration = Duration::from_secs(1);

/// The bundle or fragment that a session is sending.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) key: BundleKey,
    /// Octets by which the window is charged.
    pub(crate) octets: u64,
    /// Whether this is only a fragment of the bundle.
    pub(crate) fragment: bool,
    /// Its payload begins behind so many octets of the bundle's.
    pub(crate) start: u64,
    /// Octets of its header as it is sent.
    pub(crate) header_octets: u64,
    /// Of `octets`, those that leave from where they are stored: they take no memory until the peer has them.
    pub(crate) stored_octets: u64,
    /// When it began.
    pub(crate) begun: Instant,
}

/// Octets that were asked for from the store.
#[derive(Debug)]
pub(crate) enum PendingRead {
    /// The header blocks (or the whole) of a bundle to send.
    Send {
        session: SessionId,
        key: BundleKey,
        priority: Priority,
    },
    /// The payload of one fragment to send.
    Fragment {
        session: SessionId,
        key: BundleKey,
        range: FragmentRange,
    },
    /// The header blocks of a bundle to echo.
    Echo { key: BundleKey },
    /// The head of the payload of a bundle for the perf service, which was durable then.
    Perf { key: BundleKey, at: Instant },
    /// The payload of an advert.
    Advert { key: BundleKey },
    /// An administrative record of version 6.
    Record { key: BundleKey },
    /// The payload of a bundle that came through a tunnel: its first octets, or the next of the bundle in it that a transfer brings.
    Encapsulating {
        session: SessionId,
        key: BundleKey,
        transfer: Option<TransferId>,
    },
}

impl Node {
    /// Give a session the bundles that it has room for.
    pub(crate) fn serve(&mut self, now: Now, session: SessionId) {
        let mut last: Option<Choice> = None;
        let mut cleared = 0_u32;
        self.adjacencies
            .finish_probe(&mut self.outbox, now, session);
        if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
            neighbour.try_again(now.monotonic);
            if neighbour.is_to_be_cleared(now.monotonic) {
                self.clear_the_way(now, session);
            }
        }
        loop {
            let Some(neighbour) = self.adjacencies.neighbour(session) else {
                return;
            };
            let passing = neighbour.cut_through;
            if let Some(key) = passing.filter(|_| !neighbour.session.interleaves()) {
                return self.forwarding.look_after_queue(
                    &self.held,
                    &mut self.adjacencies,
                    &mut self.attention,
                    now,
                    session,
                    key,
                );
            }
            let has_room = neighbour.has_room(now.monotonic);
            let begun = neighbour.splits.front().map(|split| split.key);
            let is_preempted = (!has_room || begun.is_some())
                && self.is_preempted(now, session, (has_room, begun));
            if !has_room && !is_preempted {
                return self.adjacencies.note_full(now, session);
            }
            if !self.outbox.has_turn_left() {
                self.adjacencies.serve(session);
                return;
            }
            if let Some(begun) = begun.filter(|_| !is_preempted) {
                if self.waits_for_reads(session, begun) {
                    return;
                }
                self.forwarding.send_fragment(
                    &mut self.held,
                    &mut self.adjacencies,
                    &mut self.outbox,
                    session,
                );
                continue;
            }
            last = match last.and_then(|last| {
                self.forwarding
                    .follow(&self.held, &self.adjacencies, session, &last)
            }) {
                None => {
                    let (choice, stale) =
                        self.forwarding
                            .weigh(&self.held, &self.adjacencies, session);
                    self.forwarding.refresh(&self.held, stale);
                    choice
                }
                following => following,
            };
            let copy = self.forwarding.next_copy(
                &self.held,
                &mut self.adjacencies,
                now,
                session,
                last.as_ref(),
            );
            let Some(key) = copy.or(last.map(|choice| choice.key)) else {
                if !self.clear_the_way(now, session) {
                    return;
                }
                cleared += 1;
                if cleared >= CLEARED_BOUND {
                    self.adjacencies
                        .pause(session, now.monotonic + CLEARING_PAUSE);
                    return;
                }
                continue;
            };
            if self.has_expired(now, key) {
                continue;
            }
            if self.waits_for_reads(session, key) {
                return;
            }
            match copy {
                Some(_) => self.forwarding.take_copy(
                    &mut self.held,
                    &self.adjacencies,
                    &mut self.outbox,
                    session,
                    key,
                ),
                None => self
                    .forwarding
                    .dequeue(&mut self.held, &mut self.outbox, key),
            }
            if self.held.is_doubtful(key) {
                self.verify_for(now, session, key);
                if !self.held.may_verify(key) {
                    return;
                }
                continue;
            }
            self.adjacencies.charge(&self.held, session, key);
            self.adjacencies
                .note_attempt(&self.held, now.monotonic, session, key);
            self.adjacencies.watch_paths(now);
            let Some(entry) = self.held.entry(key) else {
                return;
            };
            let (extents, priority) = (self.held.blocks_to_read(entry), entry.priority());
            if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
                neighbour.reads.begin(priority);
            }
            let read = PendingRead::Send {
                session,
                key,
                priority,
            };
            self.held.read(&mut self.outbox, read, extents);
        }
    }

    /// Whether a bundle that waits goes before what has begun: an expedited one that is small, where there is a little room
    /// left for such alone, or one of a greater priority than the bundle of which fragments are being sent.
    fn is_preempted(
        &self,
        now: Now,
        session: SessionId,
        (has_room, begun): (bool, Option<BundleKey>),
    ) -> bool {
        if !self.forwarding.queues().holds_expedited() {
            return false;
        }
        let choice = self
            .forwarding
            .choose(&self.held, &self.adjacencies, session);
        let first = choice.and_then(|choice| self.held.entry(choice.key));
        let begun = begun.and_then(|key| self.held.entry(key));
        let neighbour = self.adjacencies.neighbour(session);
        first.is_some_and(|first| {
            let is_small = first.octets() <= UNSYNCED_OCTETS;
            let fits = has_room
                || is_small && neighbour.is_some_and(|it| it.has_room_ahead(now.monotonic));
            let is_before = begun.is_none_or(|begun| begun.priority() < first.priority());
            first.priority() > Priority::Normal && fits && is_before
        })
    }

    /// Whether a bundle waits until the header blocks of others are read that go before it.
    fn waits_for_reads(&mut self, session: SessionId, key: BundleKey) -> bool {
        let priority = self.held.entry(key).map(Entry::priority);
        let neighbour = self.adjacencies.neighbour_mut(session);
        (neighbour.zip(priority)).is_some_and(|(it, priority)| it.reads.hold_back(priority))
    }

    /// The header blocks of a bundle for a session are read, or cannot be.
    fn end_read_for(&mut self, session: SessionId, priority: Priority) {
        let neighbour = self.adjacencies.neighbour_mut(session);
        if neighbour.is_some_and(|it| it.reads.end(priority)) {
            self.adjacencies.serve(session);
        }
    }

    /// Octets that were asked for are here.
    pub(crate) fn handle_read(&mut self, now: Now, ticket: Ticket, octets: Option<Bytes>) {
        let Some(pending) = self.held.end_read(ticket.0) else {
            return;
        };
        if let PendingRead::Send {
            session, priority, ..
        } = pending
        {
            self.end_read_for(session, priority);
        }
        match (pending, octets) {
            (PendingRead::Send { session, key, .. }, Some(octets)) => {
                self.send(now, session, key, octets)
            }
            (
                PendingRead::Fragment {
                    session,
                    key,
                    range,
                },
                Some(octets),
            ) => {
                self.transmit_fragment(now, session, key, range, octets);
            }
            (PendingRead::Echo { key }, Some(octets)) => {
                if !self.reply(now, key, octets) {
                    self.retry_after(now, key, RETRANSMIT_RETRY);
                    self.corrupt(now, key);
                }
            }
            (PendingRead::Perf { key, at }, Some(octets)) => self.measured(now, key, at, &octets),
            (PendingRead::Advert { key }, Some(octets)) => self.hear(now, key, &octets),
            (PendingRead::Record { key }, Some(octets)) => self.hear_record(now, key, &octets),
            (
                PendingRead::Encapsulating {
                    session,
                    key,
                    transfer,
                },
                octets,
            ) => self.hear_encapsulating(now, (session, key), transfer, octets),
            (PendingRead::Send { session, key, .. }, None) => {
                let octets = self.held.entry(key).map_or(0, |entry| entry.octets());
                self.adjacencies.discharge(session, octets);
                self.give_back(now, session, key, Some(RETRANSMIT_RETRY));
            }
            (
                PendingRead::Fragment {
                    session,
                    key,
                    range,
                },
                None,
            ) => {
                self.adjacencies.discharge(session, range.length);
                self.settle_fragment(now, session, key, Some(None));
            }
            (
                PendingRead::Echo { key }
                | PendingRead::Perf { key, .. }
                | PendingRead::Advert { key }
                | PendingRead::Record { key },
                None,
            ) => {
                self.retry_after(now, key, RETRANSMIT_RETRY);
            }
        }
    }

    /// A bundle's first octets are here: re-encode its header blocks and open the transfer.
    fn send(&mut self, now: Now, session: SessionId, key: BundleKey, octets: Bytes) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let length = entry.octets();
        if self
            .adjacencies
            .neighbour(session)
            .is_none_or(|it| it.ending)
        {
            self.adjacencies.discharge(session, length);
            self.give_back(now, session, key, None);
            return;
        }
        // A bundle that was accepted on reception is read again as leniently as it may have been then.
        let whole = u64::try_from(octets.len()).unwrap_or(0) == length;
        let mut reader = self.forwarding.take_reader();
        let is_read = reader.read(&octets, Reading::Lenient) == Ok(true)
            && reader.read_trailer(&octets, whole).is_ok();
        if is_read && (!whole || reader.header().check_body(&octets).is_ok()) {
            self.send_behind(now, (session, key), reader.header(), &octets);
        } else {
            self.adjacencies.discharge(session, length);
            if self
                .forwarding
                .copy_over(now, session, key, CopyEnd::Returned(RETRANSMIT_RETRY))
            {
                self.forwarding.enqueue(
                    &mut self.held,
                    &mut self.adjacencies,
                    &mut self.delivery,
                    &mut self.outbox,
                    key,
                );
            }
            self.corrupt(now, key);
        }
        self.forwarding.give_reader_back(reader);
    }

    /// The header of a bundle to send is read, at the beginning of `octets`, which may be the whole.
    fn send_behind(
        &mut self,
        now: Now,
        (session, key): (SessionId, BundleKey),
        header: &Header,
        octets: &Bytes,
    ) {
        let (Some(entry), Some(neighbour)) =
            (self.held.entry(key), self.adjacencies.neighbour(session))
        else {
            return;
        };
        let length = entry.octets();
        let whole = u64::try_from(octets.len()).unwrap_or(0) == length;
        let is_to_be_asked = neighbour.is_to_be_asked();
        let limit = neighbour.policy.fragment_octets;
        let mru = neighbour.transfer_mru();
        let place = (key, header);
        let mut edit = (self.held).hop_edit(&self.adjacencies, now, session, place, None);
        edit.permits = (self.forwarding).permits(&self.adjacencies, session, key);
        let leaving =
            (self.forwarding).leaving(&self.adjacencies, session, (header, octets), &edit);
        let leaving = match leaving {
            Ok(leaving) => leaving,
            Err(why) => {
                self.adjacencies.discharge(session, length);
                return self.cannot_cross(now, session, key, &why);
            }
        };
        let total = leaving.total;
        let payload = header.payload_octets();
        let resumes = self
            .forwarding
            .acknowledged_by(&self.adjacencies, session, key)
            .is_some();
        let too_large = total > mru || limit.is_some_and(|limit| payload > limit) || resumes;
        if too_large && leaving.may_be_cut(header) {
            if self.held.is_stale(now, key) {
                // A fragment has a checksum of its own: it would be right for octets that are not.
                self.adjacencies.discharge(session, length);
                return self.verify_for(now, session, key);
            }
            let overhead = total.saturating_sub(payload);
            self.outbox.counters.resumed += u64::from(resumes);
            let header = Box::new(header.clone());
            self.begin_split(now, session, key, header, overhead);
            return;
        }
        if total > mru {
            // It must not be fragmented, and its header grew past what the peer takes.
            self.adjacencies.discharge(session, length);
            if self.forwarding.copies().router(key).is_some() {
                return self.copy_back(now, session, key, CopyEnd::Barred);
            }
            match planted(Mutant::GrowthIgnored) {
                true => drop(self.retry_after(now, key, NOT_ACCEPTABLE_RETRY)),
                false => self.divert(now, key, total, None),
            }
            return;
        }
        if leaving.needs_verification(header, whole) && self.held.is_stale(now, key) {
            // The peer has no checksum to compare it with.
            self.adjacencies.discharge(session, length);
            return self.verify_for(now, session, key);
        }
        self.held.custody_mut().value_mut().handle_leaving(key);
        let outgoing = Outgoing {
            key,
            octets: length,
            fragment: false,
            start: leaving.start(),
            header_octets: u64::try_from(leaving.head.len()).unwrap_or(u64::MAX),
            stored_octets: if whole { 0 } else { length },
            begun: now.monotonic,
        };
        let head = Piece::Octets(leaving.head.clone());
        if whole {
            let [body, end] = leaving.body(header, octets).map(Piece::Octets);
            self.adjacencies.transmit(
                &mut self.outbox,
                now,
                session,
                outgoing,
                total,
                [head, body, end],
            );
        } else if let Some(entry) = self.held.entry(key) {
            let from = u64::from(header.header_octets());
            let body =
                (leaving.ending).of_extents(&entry.extents(), from, from.saturating_add(payload));
            if is_to_be_asked {
                return self.adjacencies.probe(
                    &mut self.outbox,
                    now,
                    session,
                    (outgoing, total),
                    head,
                    body,
                );
            }
            let pieces = core::iter::once(head).chain(body);
            self.adjacencies
                .transmit(&mut self.outbox, now, session, outgoing, total, pieces);
        }
    }
}

/// RFC 9171 4.2.3, RFC 5050 4.2: the bundle must not be fragmented.
pub(crate) fn must_not_fragment(flags: u64) -> bool {
    BundleFlags::from_bits(flags).contains(BundleFlags::MUST_NOT_FRAGMENT)
}

/// RFC 9171 4.2.3, RFC 5050 4.2: the payload is an administrative record.
pub(crate) fn is_record(flags: u64) -> bool {
    BundleFlags::from_bits(flags).contains(BundleFlags::ADMINISTRATIVE_RECORD)
}
