//! Blocks of LTP that come in, as the bundles that are in them.

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::v7::framing::Framing;
use dhow_link::stream::TransferId;

use crate::adjacencies::blocks::Length;
use crate::adjacencies::early::Run;
use crate::adjacencies::session_id::SessionId;
use crate::node::Node;
use crate::reception::{Ends, Reception};

impl Node {
    /// Octets of an incoming transfer, which may be a block of several bundles.
    pub(crate) fn receive_transfer(
        &mut self,
        now: Now,
        session: SessionId,
        transfer: TransferId,
        octets: Bytes,
        ends: Ends,
    ) {
        match self.adjacencies.blocks_mut(session) {
            Some(blocks) => {
                if ends.start {
                    blocks.begin(transfer);
                }
                self.receive_block(now, session, transfer, octets, ends.end);
            }
            None => self.receive(now, session, transfer, octets, ends),
        }
    }

    fn receive_block(
        &mut self,
        now: Now,
        session: SessionId,
        block: TransferId,
        mut octets: Bytes,
        is_end: bool,
    ) {
        let Some(neighbour) = self.adjacencies.neighbour(session) else {
            return;
        };
        let reading = neighbour.reading();
        while let Some(blocks) = self.adjacencies.blocks_mut(session) {
            let mut reader = self.held.take_reader();
            let portion = blocks.portion(block, &mut octets, is_end, |octets| {
                match reader.read(octets, reading) {
                    Ok(true) if !reader.header().has_open_end() => {
                        Length::Octets(reader.header().total_octets())
                    }
                    Ok(false) => Length::Unknown,
                    Ok(true) => Length::Rest,
                    // The reception says what is wrong with it.
                    Err(_) => match Framing::of(octets) {
                        Framing::Octets(length) => Length::Octets(length),
                        Framing::Incomplete => Length::Unknown,
                        Framing::Unknown => Length::Unreadable,
                    },
                }
            });
            reader.release();
            self.held.give_reader_back(reader);
            let Some(it) = portion else {
                break;
            };
            let ends = Ends {
                start: it.start,
                end: it.end,
                length: None,
            };
            self.receive(now, session, it.bundle, it.octets, ends);
        }
        if is_end {
            self.adjacencies
                .converse(&mut self.attention, session, |link| {
                    link.end_block(now, block);
                });
        }
    }

    /// Early octets of blocks that take much memory go to the store, at their place in the bundle that comes: those of its payload,
    /// since the node reads all else.
    pub(crate) fn place_early(&mut self, session: SessionId) {
        let neighbour = self.adjacencies.neighbour_mut(session);
        if let Some(link) = neighbour.and_then(|it| it.session.datagrams()) {
            link.crowd();
        }
        while let Some(neighbour) = self.adjacencies.neighbour_mut(session)
            && let Some(link) = neighbour.session.datagrams()
            && link.is_crowded()
            && (link.is_pressed()
                || (self.held.backlog()).has_room(session.stream(), self.config.store_queue_octets))
        {
            let Some((block, Some((bundle, start)))) = link.take_crowded() else {
                continue;
            };
            let Some(Reception::Payload(incoming)) = neighbour.receptions.get(&bundle) else {
                continue;
            };
            let key = incoming.key;
            let arrived = incoming
                .received
                .saturating_add(link.early_octets_of(block));
            if !incoming.verifier.joins()
                || self.held.reactive().contains_key(&key)
                || self.held.reserve(&self.config, key, arrived).is_err()
            {
                continue;
            }
            let end = start.saturating_add(incoming.payload_end());
            let start = match planted(Mutant::EarlyOctetsMisplaced) {
                true => start.saturating_add(u64::from(incoming.header.header_octets())),
                false => start,
            };
            for (at, octets) in link.place(block, end) {
                let at = at.saturating_sub(start);
                self.held.append_at(&mut self.outbox, key, at, octets);
            }
        }
    }

    /// The next octets of a block are in the store.
    pub(crate) fn receive_placed(&mut self, session: SessionId, block: TransferId, run: Run) {
        let blocks = self.adjacencies.blocks_mut(session);
        let bundle = blocks.and_then(|blocks| blocks.pass(block, run.octets));
        let neighbour = self.adjacencies.neighbour_mut(session);
        if let (Some(bundle), Some(neighbour)) = (bundle, neighbour)
            && let Some(Reception::Payload(incoming)) = neighbour.receptions.get_mut(&bundle)
        {
            self.held.append_gathered(&mut self.outbox, incoming);
            incoming.pass(run);
        }
    }

    /// The rest of a transfer will not come.
    pub(crate) fn abandon_transfer(
        &mut self,
        now: Now,
        session: SessionId,
        transfer: TransferId,
        refused: Option<dhow_link::stream::RefuseReason>,
    ) {
        let bundle = match self.adjacencies.blocks_mut(session) {
            Some(blocks) => blocks.abandon(transfer),
            None => Some(transfer),
        };
        if let Some(bundle) = bundle {
            self.abandon_reception(now, session, bundle, refused);
        }
    }
}
