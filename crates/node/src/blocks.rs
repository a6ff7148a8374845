//! Blocks of LTP that come in, as the bundles that are in them.

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_link::stream::TransferId;

use crate::adjacencies::blocks::Length;
use crate::adjacencies::session_id::SessionId;
use crate::node::Node;
use crate::reception::Ends;

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
                    // The reception says what is wrong with it.
                    Ok(true) | Err(_) => Length::Rest,
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
