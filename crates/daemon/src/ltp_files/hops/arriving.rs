//! Blocks that come.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_link::LinkCommand;
use dhow_link::ltp::{EndReport, EndToEnd, MAX_END_REPORT_OCTETS, Status};
use dhow_link::stream::RefuseReason;

use super::super::arriving::{ArrivingFile, UnnamedFile};
use super::super::finishing::Job;
use super::super::neighbour::Neighbour;
use super::super::peer::Incoming;
use super::block::{Block, Fate};
use super::spool::{self, Trailer};
use super::station::Station;
use super::telling::Tale;
use super::{Hop, Told, What, Work};

/// The life of a block for this hop alone, which has none: it ends when nothing more comes.
const NO_LIFE: Duration = Duration::from_secs(1 << 32);

/// Transfers that are known to be here, at most.
const MAX_SEEN: usize = 65_536;

/// The longest life, seconds: longer ones are taken for this.
const MAX_LIFE_S: u64 = 1 << 32;

impl Station<'_> {
    /// Octets of a block came that were not there before.
    pub(super) fn take(&mut self, of: Incoming, offset: u64, octets: Bytes, now: Now) {
        let length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        let number = match self.by_incoming.get(&of) {
            Some(number) => *number,
            None => match self.begin(of, now) {
                Some(number) => number,
                None => return self.refuse(of, RefuseReason::NoResources),
            },
        };
        if self.used.saturating_add(length) > self.settings.disk_octets {
            self.tell(number, What::Refused);
            return self.stop(number, RefuseReason::NoResources);
        }
        let Some(block) = self.blocks.get_mut(&number) else {
            return;
        };
        let Some(file) = &mut block.file else {
            return;
        };
        if file.is_written() {
            self.gathered.push(number);
        }
        let taken = file.take(offset, octets);
        block.came.add(offset, length);
        self.used += length;
        self.last = now.monotonic;
        let is_addressed = block.fate != Fate::Unknown;
        let has_start = block.came.prefix() > 0;
        if let Err(error) = taken {
            return self.disk_failed(number, &error);
        }
        self.know_ends(number);
        if !is_addressed && has_start {
            self.address(number);
        }
        self.look_at_size(number);
    }

    /// A block that is larger than those that are taken is given up, once it is known who is to be told.
    fn look_at_size(&mut self, number: u64) {
        let (Some(block), largest) = (self.blocks.get(&number), self.settings.largest) else {
            return;
        };
        let is_addressed = block.fate != Fate::Unknown;
        if block.came.octets() <= largest && (block.came.end() <= largest || !is_addressed) {
            return;
        }
        match block.end_to_end.is_some() {
            true => self.give_up(number, Status::TooLarge),
            false => {
                let why = format!("it has more than {largest} octets (--largest)");
                self.tell(number, What::Lost(why));
                self.stop(number, RefuseReason::Unknown);
            }
        }
    }

    /// A block comes; `None` when there is no room for it.
    fn begin(&mut self, of: Incoming, now: Now) -> Option<u64> {
        let is_full = self.blocks.len() >= self.settings.blocks || self.strangers_are_full(of);
        if self.ending.is_some() {
            return None;
        }
        if is_full && !self.make_room_for_block(of) {
            let (engine, count) = (of.peer.engine, self.blocks.len());
            self.note_once_a_while(now, || {
                format!("there is no room for a block of engine {engine}: {count} blocks are here")
            });
            return None;
        }
        let neighbour = self.neighbours.get_mut(&of.peer)?;
        let session = neighbour.engine.incoming_block(of.transfer)?.session;
        let name = format!("ltp-{}-{session}", of.peer.engine);
        let file = match UnnamedFile::create(&self.settings.directory, &name) {
            Ok(file) => ArrivingFile::new(file),
            Err(error) => {
                self.watch.hear(Told::Note(format!("no file: {error}")));
                return None;
            }
        };
        neighbour.blocks += 1;
        let mut block = Block::new(now.monotonic, now.monotonic + NO_LIFE);
        block.file = Some(file);
        block.inward = Some((of, session));
        let number = self.add(block);
        self.by_incoming.insert(of, number);
        Some(number)
    }

    /// Whether this is a block of a neighbour that no route of a relay names, and those have half of all blocks already.
    fn strangers_are_full(&self, of: Incoming) -> bool {
        let is_stranger = |it: &Neighbour| !it.is_fixed;
        let blocks = |it: &Neighbour| it.blocks;
        let strangers = self.neighbours.values().filter(|it| is_stranger(it));
        matches!(self.settings.work, Work::Relay(_))
            && self.neighbours.get(&of.peer).is_some_and(is_stranger)
            && strangers.map(blocks).sum::<usize>() >= self.settings.blocks.div_ceil(2)
    }

    /// Ask the engine for the ends of a block.
    fn know_ends(&mut self, number: u64) {
        let Some(block) = self.blocks.get_mut(&number) else {
            return;
        };
        let Some((of, _)) = block.inward else {
            return;
        };
        let neighbour = self.neighbours.get(&of.peer);
        if let Some(told) = neighbour.and_then(|it| it.engine.incoming_block(of.transfer)) {
            block.know(&told);
        }
    }

    /// The start of a block is there: it says where it goes.
    fn address(&mut self, number: u64) {
        let Some(block) = self.blocks.get_mut(&number) else {
            return;
        };
        let Some((of, _)) = block.inward else {
            return;
        };
        let Some(neighbour) = self.neighbours.get(&of.peer) else {
            return;
        };
        let hop = Hop {
            engine: of.peer.engine,
            address: neighbour.to,
        };
        let told = neighbour.engine.incoming_block(of.transfer);
        let Some(end_to_end) = told.and_then(|it| it.end_to_end) else {
            // A block for this hop alone is a file for a station that takes files, and nothing for others.
            if matches!(self.settings.work, Work::Receive { .. }) {
                block.fate = Fate::Keep;
            } else {
                let why = "it names no engine that it is for".to_owned();
                self.tell(number, What::Lost(why));
                self.stop(number, RefuseReason::NotAcceptable);
            }
            return;
        };
        block.end_to_end = Some(end_to_end);
        let life = Duration::from_secs(end_to_end.life_s.min(MAX_LIFE_S));
        block.deadline = block.began + life;
        let source = end_to_end.source.engine;
        self.learn_way_back(&end_to_end, hop, number);
        self.tell(number, What::Coming);
        let fate = match self.fate_of(&end_to_end) {
            Ok(fate) => fate,
            Err(status) => return self.give_up(number, status),
        };
        if fate == Fate::Keep
            && let Some((_, octets)) = self.seen.get(&(source, end_to_end.transfer)).copied()
        {
            // The session goes on in silence, so that its sender hears what it waits for.
            self.tell(number, What::Again);
            self.stop(number, RefuseReason::Completed);
            return self.report_complete(end_to_end, octets);
        }
        if let Some(block) = self.blocks.get_mut(&number) {
            block.fate = fate;
        }
        if fate == Fate::PassOn && self.cuts_through() {
            self.start(number);
        }
    }

    /// A block came from a neighbour: its source is there.
    fn learn_way_back(&mut self, of: &EndToEnd, hop: Hop, number: u64) {
        if of.source.engine == self.settings.engine {
            return;
        }
        match self.ways.learn(of, hop) {
            Ok(None) => {}
            Ok(Some(file)) => self.finisher.begin(Job::Sync(number, file)),
            Err(error) => {
                let now = self.clock.now();
                self.note_once_a_while(now, || {
                    format!("the way back to a source is not kept over a restart: {error}")
                });
            }
        }
    }

    /// The fate of a block that says this.
    fn fate_of(&self, of: &EndToEnd) -> Result<Fate, Status> {
        if of.destination.engine == self.settings.engine {
            return match &self.settings.work {
                _ if of.is_report => Ok(Fate::Report),
                _ if of.life_s == 0 => Err(Status::Expired),
                Work::Receive { .. } => Ok(Fate::Keep),
                Work::Relay(_) | Work::Send(_) => Err(Status::NoRoute),
            };
        }
        // A hop takes a second at least from the life.
        if of.life_s <= 1 {
            return Err(Status::Expired);
        }
        let is_relay = matches!(self.settings.work, Work::Relay(_));
        match is_relay && of.hops > 1 && self.route(of).is_some() {
            true => Ok(Fate::PassOn),
            false => Err(Status::NoRoute),
        }
    }

    /// Write what came in this turn, and pass it on.
    pub(super) fn write(&mut self) {
        for number in std::mem::take(&mut self.gathered) {
            let file = self.blocks.get_mut(&number).and_then(|it| it.file.as_mut());
            match file.map(ArrivingFile::write) {
                Some(Err(error)) => self.disk_failed(number, &error),
                Some(Ok(())) => self.supply(number),
                None => {}
            }
        }
    }

    /// All of a block is there.
    pub(super) fn complete(&mut self, of: Incoming) {
        let Some(number) = self.by_incoming.get(&of).copied() else {
            return;
        };
        self.know_ends(number);
        match self.make_durable(number, of) {
            Ok(()) => self.supply(number),
            Err(error) => self.disk_failed(number, &error),
        }
    }

    fn make_durable(&mut self, number: u64, of: Incoming) -> io::Result<()> {
        let expires_ms = self.expires_ms(number);
        let Some(block) = self.blocks.get_mut(&number) else {
            return Ok(());
        };
        let Some(mut file) = block.file.take() else {
            return Ok(());
        };
        file.write()?;
        let length = block.came.octets();
        let name = match (block.fate, &block.end_to_end) {
            (Fate::Report, _) => return self.hear_report(number, of, &file),
            (Fate::PassOn, Some(end_to_end)) => {
                let red = block.ends.red.unwrap_or(0);
                let trailer = Trailer::new(end_to_end, red, length, expires_ms);
                file.take(length, trailer.octets()?.into())?;
                file.write()?;
                spool::name(end_to_end)
            }
            (_, Some(it)) => format!("ltp-{}-{}", it.source.engine, it.transfer),
            (_, None) => {
                let session = block.inward.as_ref().map_or(0, |(_, session)| *session);
                format!("ltp-{}-{session}", of.peer.engine)
            }
        };
        let job = Job::Finish(number, file.into_unnamed(), name);
        self.finisher.begin(job);
        Ok(())
    }

    /// When the life of a block ends, milliseconds since 1970.
    pub(super) fn expires_ms(&self, number: u64) -> u64 {
        let now = self.clock.now();
        let left = self.blocks.get(&number).map(|it| it.deadline);
        let left = left.map_or(Duration::ZERO, |at| at.since(now.monotonic));
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let now = now.dtn.as_unix_millis().unwrap_or(0);
        now.saturating_add(left)
    }

    /// A report for this engine is whole.
    fn hear_report(&mut self, number: u64, of: Incoming, file: &ArrivingFile) -> io::Result<()> {
        let octets = self.blocks.get(&number).map_or(0, |it| it.came.octets());
        let mut block = Vec::new();
        if octets <= MAX_END_REPORT_OCTETS {
            block.resize(usize::try_from(octets).unwrap_or(0), 0);
            file.file().read_exact_at(&mut block, 0)?;
        }
        match EndReport::decode(&block) {
            Some(report) => {
                let by = self.blocks.get(&number).and_then(|it| it.end_to_end);
                self.reported(by.map(|of| of.source.engine), &report);
                self.tell(number, What::Reported(report));
            }
            None => self.tell(number, What::Lost("it is no report".to_owned())),
        }
        let transfer = of.transfer;
        self.command(of.peer, LinkCommand::Acknowledge { transfer, octets });
        self.detach_inward(number);
        self.remove(number);
        Ok(())
    }

    /// A block is durable under a name, or not: its sender may know.
    pub(super) fn named(&mut self, number: u64, named: io::Result<PathBuf>) {
        let Some(block) = self.blocks.get(&number) else {
            // It was given up meanwhile, or is a report that has left.
            return self.remove_file(named.ok());
        };
        if block.octets.is_some() {
            return self.report_kept(number, named);
        }
        let Some((of, _)) = block.inward else {
            return self.remove_file(named.ok());
        };
        let path = match named {
            Ok(path) => path,
            Err(error) => return self.disk_failed(number, &error),
        };
        let Some(block) = self.blocks.get_mut(&number) else {
            return;
        };
        block.path = Some(path.clone());
        let (fate, end_to_end, deadline) = (block.fate, block.end_to_end, block.deadline);
        let (transfer, octets) = (of.transfer, block.came.octets());
        self.command(of.peer, LinkCommand::Acknowledge { transfer, octets });
        if fate == Fate::PassOn {
            self.tell(number, What::Stored);
            self.detach_inward(number);
            return self.after_stored(number);
        }
        if end_to_end.is_some_and(|of| self.seen.contains_key(&(of.source.engine, of.transfer))) {
            // It came in two sessions at a time.
            self.remove_file(Some(path));
            self.tell(number, What::Again);
            self.detach_inward(number);
            self.remove(number);
            return;
        }
        self.received += 1;
        self.tell(number, What::Received(path));
        self.detach_inward(number);
        self.remove(number);
        if let Some(of) = end_to_end {
            if self.seen.len() >= MAX_SEEN
                && let Some(oldest) = self.seen.iter().min_by_key(|(_, it)| it.0)
            {
                let oldest = *oldest.0;
                self.seen.remove(&oldest);
            }
            let name = (of.source.engine, of.transfer);
            self.seen.insert(name, (deadline, octets));
            self.report_complete(of, octets);
        }
    }

    fn report_complete(&mut self, of: EndToEnd, octets: u64) {
        self.report(Tale {
            of,
            status: Status::Complete,
            claims: vec![(0, octets)],
            given_up: None,
            after: Duration::ZERO,
        });
    }

    /// The neighbour gave a block up, or green octets of it are lost.
    pub(super) fn abandoned(&mut self, of: Incoming, refused: Option<RefuseReason>) {
        let Some(number) = self.by_incoming.get(&of).copied() else {
            return;
        };
        let why = match refused {
            None => "nothing more came in time",
            Some(RefuseReason::NoResources) => "the session was cancelled (SYS_CNCLD)",
            Some(RefuseReason::Retransmit) => "the session was cancelled (RLEXC or RXMTCYCEXC)",
            Some(_) => "the session was cancelled (USR_CNCLD)",
        };
        self.know_ends(number);
        self.tell(number, What::Lost(why.to_owned()));
        let partial = self.blocks.get(&number).and_then(|block| {
            let is_red_here = |red| refused.is_none() && block.came.prefix() >= red;
            let of = block
                .end_to_end
                .filter(|_| block.ends.red.is_some_and(is_red_here));
            of.map(|of| (of, block.came.claims()))
        });
        self.detach_inward(number);
        self.stop(number, RefuseReason::NoResources);
        if let Some((of, claims)) = partial {
            self.report(Tale {
                of,
                status: Status::Partial,
                claims,
                given_up: None,
                after: Duration::ZERO,
            });
        }
    }

    /// The disk does not take a block.
    fn disk_failed(&mut self, number: u64, error: &io::Error) {
        let what = format!("a block cannot be written: {error}");
        self.watch.hear(Told::Note(what));
        self.tell(number, What::Refused);
        self.stop(number, RefuseReason::NoResources);
    }
}
