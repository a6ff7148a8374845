//! Blocks that leave for their next hops.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Piece};
use dhow_link::ltp::{EndToEnd, Ends, Onward, Status};
use dhow_link::stream::{RefuseReason, TransferId};
use dhow_link::{DatagramLink as _, LinkCommand};

use super::super::leaving::{Unreadable, base};
use super::super::peer::PeerId;
use super::super::why::{Counterpart, Why};
use super::block::{Block, Fate, Outward};
use super::spool;
use super::station::Station;
use super::telling::{MAX_REPORTS, Tale};
use super::{Hop, Told, What, Work};

/// The time after which a block leaves again whose session failed.
const AGAIN: Duration = Duration::from_secs(1);

impl Station<'_> {
    /// The next hop of a block; reports find back whence blocks of their destination came.
    pub(super) fn route(&self, of: &EndToEnd) -> Option<Hop> {
        let to = of.destination.engine;
        let named = self.settings.routes.get(&to).copied();
        let is_receiver = matches!(self.settings.work, Work::Receive { .. });
        // A receiver has no other route than the one for its reports.
        let first = self.settings.default.filter(|_| is_receiver);
        let back = self.ways.to(to).filter(|_| of.is_report);
        named.or(first).or(back).or(self.settings.default)
    }

    /// Open the session of a block with its next hop.
    pub(super) fn start(&mut self, number: u64) {
        let now = self.clock.now();
        let (used, blocks) = (self.used, self.blocks.len());
        let Some(block) = self.blocks.get(&number) else {
            return;
        };
        let Some(mut of) = block.end_to_end.filter(|_| block.outward.is_none()) else {
            return;
        };
        let (ends, is_own) = (block.ends, block.is_own());
        let left = block.deadline.since(now.monotonic);
        if is_own {
            of.life_s = left.as_secs().saturating_add(1).min(of.life_s).max(1);
        } else {
            of.life_s = left.as_secs().min(of.life_s.saturating_sub(1));
            of.hops = of.hops.saturating_sub(1);
            let is_half = |part: u64, whole: u64| part > whole / 2;
            of.is_congested |=
                is_half(used, self.settings.disk_octets) || blocks > self.settings.blocks / 2;
        }
        if of.life_s == 0 {
            return self.give_up(number, Status::Expired);
        }
        let Some(hop) = self.route(&of) else {
            return self.give_up(number, Status::NoRoute);
        };
        let again = now.monotonic + AGAIN;
        let peer = self.meet(hop, now);
        if let Err(error) = self.open_file(number) {
            return self.unreadable(number, error.into());
        }
        let Some(block) = self.blocks.get_mut(&number) else {
            return;
        };
        let Some((peer, neighbour)) = peer.and_then(|id| Some((id, self.neighbours.get_mut(&id)?)))
        else {
            block.again = Some(again);
            return;
        };
        let transfer = TransferId(self.next_transfer);
        self.next_transfer += 1;
        let onward = Onward {
            end_to_end: of,
            ends,
        };
        neighbour.engine.pass_on(now, transfer, &onward);
        neighbour.blocks += 1;
        let session = neighbour.engine.progress(transfer).map(|it| it.session);
        block.outward = Some(Outward {
            peer,
            transfer,
            session: session.unwrap_or(0),
            supplied: 0,
            ends,
        });
        self.by_outgoing.insert((peer, transfer), number);
        self.begun(number, session);
        self.tell(number, What::Leaving);
        self.supply(number);
    }

    /// The file of a block, for the octets that leave.
    fn open_file(&mut self, number: u64) -> io::Result<()> {
        let block = self.blocks.get(&number);
        // The octets of a report are in memory.
        let Some(block) = block.filter(|it| it.octets.is_none()) else {
            return Ok(());
        };
        if let Some(file) = &block.file {
            let file = file.file().try_clone()?;
            self.leaving.add(number, file, 0);
        } else if let Some(path) = block.path.as_ref().filter(|_| !self.leaving.has(number)) {
            let file = std::fs::File::open(path)?;
            self.leaving.add(number, file, 0);
        }
        Ok(())
    }

    /// Give a block's session the octets that may leave.
    pub(super) fn supply(&mut self, number: u64) {
        let now = self.clock.now();
        let Some(block) = self.blocks.get_mut(&number) else {
            return;
        };
        let limit = block.may_leave();
        let Some(outward) = &mut block.outward else {
            return;
        };
        let (peer, transfer) = (outward.peer, outward.transfer);
        let from = outward.supplied;
        let Some(neighbour) = self.neighbours.get_mut(&peer) else {
            return;
        };
        if outward.ends != block.ends {
            outward.ends = block.ends;
            neighbour.engine.end_onward(now, transfer, block.ends);
        }
        if limit <= from {
            return;
        }
        outward.supplied = limit;
        let length = limit - from;
        let octets = match &block.octets {
            Some(octets) => Piece::Octets(part(octets, from, limit)),
            None => Piece::Extent(Extent {
                offset: base(number) + from,
                length,
            }),
        };
        neighbour
            .engine
            .handle_command(now, LinkCommand::Supply { transfer, octets });
    }

    /// The next hop has a block, or its last green octet has left.
    pub(super) fn passed(&mut self, peer: PeerId, transfer: TransferId, is_acknowledged: bool) {
        let Some(number) = self.by_outgoing.get(&(peer, transfer)).copied() else {
            return;
        };
        let Some(block) = self.blocks.get_mut(&number) else {
            return;
        };
        let is_all_red = block.ends.red == block.ends.length;
        if is_all_red && !is_acknowledged {
            return;
        }
        block.is_passed = true;
        self.tell(number, What::Passed);
        self.detach_outward(number);
        self.hop_done(number);
        self.after_stored(number);
    }

    /// A block is durable here, or has left: it leaves, or is let go where nobody needs it any more.
    pub(super) fn after_stored(&mut self, number: u64) {
        let Some(block) = self.blocks.get(&number) else {
            return;
        };
        if block.inward.is_some() {
            return;
        }
        if !block.is_passed {
            if block.outward.is_none() && block.again.is_none() {
                self.start(number);
            }
            return;
        }
        self.forget(number);
    }

    /// Nobody needs a block any more.
    pub(super) fn forget(&mut self, number: u64) {
        if let Some(block) = self.remove(number) {
            self.remove_file(block.path);
            self.remove_file(block.given_up);
        }
    }

    /// A file is of no use to anybody, if there is one.
    pub(super) fn remove_file(&mut self, path: Option<PathBuf>) {
        if let Some(path) = path
            && let Err(error) = std::fs::remove_file(&path)
        {
            // It is found again after a restart, and expires.
            let what = format!("cannot remove {}: {error}", path.display());
            self.watch.hear(Told::Note(what));
        }
    }

    /// The session of a block with its next hop failed.
    pub(super) fn failed(
        &mut self,
        peer: PeerId,
        transfer: TransferId,
        refused: Option<RefuseReason>,
    ) {
        let Some(number) = self.by_outgoing.get(&(peer, transfer)).copied() else {
            return;
        };
        if self.ending.is_some() {
            self.detach_outward(number);
            return;
        }
        let why = Why::of(Counterpart::NextHop, refused);
        if let Some(refused) = refused.filter(|_| self.is_order(number)) {
            return self.order_failed(number, refused, why);
        }
        match refused {
            Some(RefuseReason::NotAcceptable) => self.give_up(number, Status::NoRoute),
            None | Some(RefuseReason::Retransmit | RefuseReason::NoResources) => {
                self.tell(number, What::Retried(why));
                self.detach_outward(number);
                let again = self.clock.now().monotonic + AGAIN;
                if let Some(block) = self.blocks.get_mut(&number) {
                    block.had_no_room |= refused == Some(RefuseReason::NoResources);
                    block.again = Some(again);
                }
            }
            Some(_) => {
                self.tell(number, What::Lost(why.to_string()));
                self.detach_outward(number);
                // The next hop has told the source why, if it can. The source hears of this station only where its block is
                // acknowledged here, and later: else the neighbour that it comes from hears of it.
                let is_here = (self.blocks.get(&number)).is_some_and(|it| it.inward.is_none());
                match is_here {
                    true => self.drop_and_tell(number, Status::GivenUp, self.linger()),
                    false => self.stop(number, RefuseReason::Unknown),
                }
            }
        }
    }

    /// A block is not passed on: its neighbours and its source are told.
    pub(super) fn give_up(&mut self, number: u64, status: Status) {
        if self.order_expired(number) {
            return;
        }
        self.tell(number, What::Dropped(status));
        self.drop_and_tell(number, status, Duration::ZERO);
    }

    /// End the sessions of a block, tell its source why after a while, and remove it from the disk.
    fn drop_and_tell(&mut self, number: u64, status: Status, after: Duration) {
        let Some(block) = self.blocks.get_mut(&number) else {
            return;
        };
        let (of, given_up) = (block.end_to_end, block.path.take());
        // Of a report, which nobody reports on.
        let before = block.given_up.take();
        let claims = block.came.claims();
        self.remove_file(before);
        self.stop(number, RefuseReason::Unknown);
        match of {
            Some(of) => self.report(Tale {
                of,
                status,
                claims,
                given_up,
                after,
            }),
            None => self.remove_file(given_up),
        }
    }

    /// The file of a block cannot be read.
    pub(super) fn unreadable(&mut self, number: u64, why: Unreadable) {
        if !self.is_order(number) {
            let what = format!("a block cannot be read, and is given up: {why}");
            self.watch.hear(Told::Note(what));
            // Where it still comes, the neighbour that it comes from tries again later.
            let is_here = (self.blocks.get(&number)).is_some_and(|it| it.inward.is_none());
            return match is_here {
                true => self.give_up(number, Status::GivenUp),
                false => self.stop(number, RefuseReason::NoResources),
            };
        }
        let now = self.clock.now();
        let outward = self.blocks.get(&number).and_then(|block| block.outward);
        if let Some(outward) = outward
            && let Some(neighbour) = self.neighbours.get_mut(&outward.peer)
        {
            neighbour.engine.cancel_onward(now, outward.transfer);
        }
        self.order_failed(number, RefuseReason::NoResources, why.into());
    }

    /// Blocks that were durable here when it ended leave again, and so do its reports.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        let most = self.settings.blocks.saturating_add(MAX_REPORTS);
        let now = self.clock.now();
        let (mut blocks, mut passed_over) = (0, 0_u64);
        for it in spool::find(&self.settings.directory, most)? {
            let octets = it.own_report(self.settings.engine)?;
            if octets.is_none() && blocks >= self.settings.blocks {
                passed_over += 1;
                continue;
            }
            let wall = now.dtn.as_unix_millis().unwrap_or(0);
            let left = Duration::from_millis(it.trailer.expires_ms.saturating_sub(wall));
            let mut block = Block::new(now.monotonic, now.monotonic + left);
            // A second is taken from it when it leaves.
            let life_s = left.as_secs().saturating_add(1);
            block.end_to_end = Some(it.trailer.end_to_end(life_s));
            block.fate = Fate::PassOn;
            block.came.add(0, it.trailer.length);
            block.ends = Ends {
                red: Some(it.trailer.red),
                length: Some(it.trailer.length),
            };
            block.path = Some(it.path);
            block.octets = octets;
            if block.octets.is_none() {
                blocks += 1;
                self.used = self.used.saturating_add(it.trailer.length);
            }
            let number = self.add(block);
            self.tell(number, What::Resumed);
            self.start(number);
        }
        if passed_over > 0 {
            let what = format!(
                "{passed_over} blocks of the directory stay there: --blocks says how many leave"
            );
            self.watch.hear(Told::Note(what));
        }
        Ok(())
    }
}

/// Octets of a block.
fn part(octets: &Bytes, from: u64, to: u64) -> Bytes {
    let index = |at: u64| usize::try_from(at).map_or(octets.len(), |at| at.min(octets.len()));
    octets.slice(index(from)..index(to))
}
