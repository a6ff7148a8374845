//! The store: commands in, events out after the sync that makes them true.

use std::collections::BTreeMap;
use std::sync::Arc;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, REMOVED_BOUND, StoreCommand, StoreEvent};
use dhow_bundle::{BundleId, DtnTime};

use crate::arriving::{Arriving, Opening, Portion};
use crate::checkpoint::Progress;
use crate::closing::ClosingNote;
use crate::compaction::Compaction;
use crate::disk::{Disk, DiskError};
use crate::error::{OpenError, Trouble};
use crate::log::Log;
use crate::note::Replacing;
use crate::preparation::Prepared;
use crate::reader::StoreReader;
use crate::record::{Kind, Place};
use crate::recovery::{self, Recovered};
use crate::removal::Deletions;
use crate::removed::Removed;
use crate::segment::Reference;
use crate::slot::Slots;
use crate::superblock::{CheckpointPlace, segment_octets_allowed};
use crate::wire::{Envelope, put_varint};

/// When an event is given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// After the octets have been synced: they survive a power failure.
    #[default]
    Sync,
    /// After the octets were handed to the system: they survive the process.
    Os,
    /// At once, and payloads have no checksum; meant for a [`crate::MemoryDisk`], where nothing survives the process.
    Memory,
}

/// The layout and the bounds of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Octets of a segment of a new log: a multiple of 4096 from 65536 to 1073741824. An existing log keeps its own.
    pub segment_octets: u32,
    /// Octets of bundles that the node admits. The log takes up to a quarter more, and what is set aside (docs/store-format.md 7).
    pub quota_octets: u64,
    /// When events are given out.
    pub durability: Durability,
    /// Identifiers of removed bundles that are remembered at most. A checkpoint carries them, so they also take
    /// at most half a segment.
    pub removed_bound: usize,
    /// Octets of memory that opening may take for what it reads, and that remembered identifiers may take, each.
    pub memory_octets: u64,
    /// Octets of segments that [`Store::prepare`] has written before they are used; fewer than a segment: none.
    pub prepared_octets: u64,
    /// Random octets for a new log: they keep a record inside a bundle from being taken for one of the log.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_octets: 64 * 1024 * 1024,
            quota_octets: 10 * 1024 * 1024 * 1024,
            durability: Durability::Sync,
            removed_bound: REMOVED_BOUND,
            memory_octets: 64 * 1024 * 1024,
            prepared_octets: 0,
            seed: 0,
        }
    }
}

/// Counts of what a store has done and holds; all since it was opened but for the first four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Committed bundles.
    pub bundles: u64,
    /// Octets of the log that have their room on the disk.
    pub log_octets: u64,
    /// Octets of segments in which new records may be written without making the log longer.
    pub free_octets: u64,
    /// Remembered identifiers.
    pub remembered: u64,
    /// Remembered identifiers that were dropped before they expired.
    pub remembered_dropped: u64,
    /// Syncs.
    pub syncs: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bundles moved to empty a segment.
    pub moved: u64,
    /// Bundles found damaged.
    pub corrupt: u64,
    /// Times that a write or a sync failed.
    pub failures: u64,
}

/// A durable bundle store on a disk.
pub struct Store {
    pub(crate) log: Log,
    pub(crate) options: Options,
    pub(crate) slots: Slots,
    pub(crate) arriving: BTreeMap<BundleKey, Arriving>,
    /// The bundle that the last command was about: most come whole, and never enter the map.
    pub(crate) current: Option<(BundleKey, Arriving)>,
    /// Bundles refused while they were arriving, until the node has abandoned them.
    pub(crate) refused: BTreeMap<BundleKey, dhow_bundle::storage::StoreRefusal>,
    pub(crate) deletions: Deletions,
    /// References that deletions will let go of once they are durable.
    pub(crate) releases: Vec<Reference>,
    /// Former places of moved bundles, until the node has released them.
    pub(crate) moved: BTreeMap<BundleKey, Vec<Reference>>,
    /// Commit records that took the place of others and are not durable.
    pub(crate) replacing: Vec<Replacing>,
    pub(crate) quarantined: std::collections::BTreeSet<BundleKey>,
    pub(crate) compaction: Option<Compaction>,
    pub(crate) removed: Removed,
    pub(crate) reserved: (DtnTime, u64),
    pub(crate) next_arrival: u64,
    /// Events about what was written, whether it is durable or not.
    pub(crate) written: Vec<StoreEvent>,
    /// Events that the next sync makes true.
    pub(crate) waiting: Vec<StoreEvent>,
    /// Bundles of which the node was told that they are kept, before they are durable.
    pub(crate) unsynced: Vec<BundleKey>,
    /// Events that are true.
    pub(crate) ready: Vec<StoreEvent>,
    pub(crate) durable: Place,
    pub(crate) marked: Place,
    pub(crate) checkpoint: CheckpointPlace,
    pub(crate) last_number: u64,
    pub(crate) checkpoint_octets: u64,
    pub(crate) progress: Progress,
    /// A checkpoint that the superblock may name since a write of it that is not known to be durable.
    pub(crate) naming: Option<CheckpointPlace>,
    pub(crate) prepared: Prepared,
    /// Segments that turned out not to be worth emptying, with their live octets then: looked at again when these are others.
    pub(crate) stuck: BTreeMap<u32, u64>,
    /// Whether something has gone since a segment to empty was last looked for.
    pub(crate) is_changed: bool,
    /// Whether a bundle was refused for lack of room since a segment was last begun for one.
    pub(crate) is_wanting: bool,
    /// Batches since then in which nothing could be emptied.
    pub(crate) waited: u32,
    /// Segments begun since the last checkpoint.
    pub(crate) begun: u32,
    /// Whether the log could not be made longer when that was last wanted.
    pub(crate) cramped: bool,
    pub(crate) failure: Option<DiskError>,
    /// Octets of the log that the disk had room for, and of bundles in it, when that was told last.
    pub(crate) told_capacity: Option<(u64, u64)>,
    pub(crate) body: Vec<u8>,
    pub(crate) envelope: Envelope,
    /// An empty list of pieces with room, for the next bundle that arrives.
    pub(crate) spare: Vec<Portion>,
    pub(crate) counts: Statistics,
}

impl Store {
    /// Opens the store on a disk and makes one on an empty disk. When the disk does not let it begin a segment, the store is open for
    /// reading and refuses what comes until it can ([`Store::failure`]).
    ///
    /// # Errors
    /// The disk does not hold a store that this program can read, or cannot be read.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<(Self, Recovered), OpenError> {
        if !segment_octets_allowed(options.segment_octets) {
            return Err(OpenError::SegmentSize {
                octets: options.segment_octets,
            });
        }
        let (image, recovered) = recovery::recover(&disk, &options)?;
        let mut store = Self {
            log: Log::new(
                disk,
                image.layout,
                image.segments,
                image.last_generation,
                options.durability,
            ),
            slots: image.slots,
            arriving: BTreeMap::new(),
            current: None,
            refused: BTreeMap::new(),
            deletions: Deletions::default(),
            releases: Vec::new(),
            moved: BTreeMap::new(),
            replacing: Vec::new(),
            quarantined: std::collections::BTreeSet::new(),
            compaction: None,
            removed: image.removed,
            reserved: image.reserved,
            next_arrival: image.next_arrival,
            written: Vec::new(),
            waiting: Vec::new(),
            unsynced: Vec::new(),
            ready: Vec::new(),
            durable: Place {
                generation: image.last_generation,
                offset: u32::MAX,
            },
            marked: Place::default(),
            checkpoint: image.checkpoint,
            last_number: image.checkpoint.number,
            checkpoint_octets: 0,
            progress: Progress::Idle,
            naming: None,
            prepared: Prepared::default(),
            stuck: BTreeMap::new(),
            is_changed: true,
            is_wanting: false,
            waited: 0,
            begun: 0,
            cramped: false,
            failure: None,
            told_capacity: None,
            body: Vec::new(),
            envelope: Envelope::default(),
            spare: Vec::new(),
            counts: Statistics::default(),
            options,
        };
        store.log.confirm_room();
        store.restart();
        Ok((store, recovered))
    }

    /// Takes a batch of commands and writes what they say, without a sync. Their events come from [`Store::commit`].
    pub fn handle(&mut self, commands: impl IntoIterator<Item = StoreCommand>) {
        if self.failure.is_some() {
            self.restart();
        }
        let mut marked = false;
        for command in commands {
            // A mark is a record that needs a sync: it goes with commands that need one anyway.
            let writes = !matches!(
                command,
                StoreCommand::Verify { .. } | StoreCommand::Released { .. }
            );
            if writes && !std::mem::replace(&mut marked, true) {
                self.run(Self::write_mark);
            }
            match command {
                StoreCommand::Append { key, octets, crc } => self.handle_append(key, octets, crc),
                StoreCommand::AppendAt { key, at, octets } => {
                    self.handle_append_at(key, at, octets);
                }
                StoreCommand::Watch { key } => self.handle_watch(key),
                StoreCommand::Divide { key } => self.handle_divide(key),
                StoreCommand::Share { key, from } => self.handle_share(key, from),
                StoreCommand::Commit { key, bundle } => self.handle_commit(key, &bundle),
                StoreCommand::Abandon { key } => self.handle_abandon(key),
                StoreCommand::Delete { key, remember } => self.handle_delete(key, remember),
                StoreCommand::Note { key, note } => self.handle_note(key, &note),
                StoreCommand::Reserve { time, sequence } => self.handle_reserve(time, sequence),
                StoreCommand::Verify { key } => self.handle_verify(key),
                StoreCommand::Released { key } => self.handle_released(key),
            }
        }
        self.finish_arrivals();
        self.run(Self::write_deletions);
        self.run(Self::upkeep);
        self.run(|store| store.log.flush());
        self.log.forget_emptied();
        if self.failure.is_none() {
            self.tell_written();
        }
    }

    /// Adds what need not wait for [`Store::commit`] to `out`: where octets lie that somebody watches.
    pub fn written(&mut self, out: &mut Vec<StoreEvent>) {
        out.append(&mut self.written);
        if planted(Mutant::DurableBeforeSync) {
            pass_on(&mut self.waiting, out);
        }
    }

    /// Makes durable what was written, by one sync, and adds the events of it to `out`, in the order of the commands.
    pub fn commit(&mut self, out: &mut Vec<StoreEvent>) {
        self.sync();
        self.settle(out);
    }

    /// The first half of [`Store::commit`]: one sync. A driver whose sync takes virtual time calls the halves apart.
    pub fn sync(&mut self) {
        if self.failure.is_some() {
            self.restart();
        } else if self.log.place() != self.durable
            || !self.releases.is_empty()
            || self.progress != Progress::Idle
        {
            match planted(Mutant::FewOctetsNotSynced) && self.waiting.len() < 2 {
                true => pass_on(&mut self.waiting, &mut self.ready),
                false => self.run(Self::sync_once),
            }
        } else {
            pass_on(&mut self.waiting, &mut self.ready);
        }
    }

    /// The second half of [`Store::commit`]: adds the events that are true to `out`.
    pub fn settle(&mut self, out: &mut Vec<StoreEvent>) {
        out.append(&mut self.written);
        pass_on(&mut self.ready, out);
    }

    /// Whether some command waits for a sync.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        !self.written.is_empty() || !self.waiting.is_empty() || !self.ready.is_empty()
    }

    /// Writes everything out, syncs, and notes how far the log reaches and how many bundles it holds, so that later damage
    /// to the last records is told from a torn write, and their loss is noticed.
    pub fn close(mut self, out: &mut Vec<StoreEvent>) {
        self.handle([]);
        self.commit(out);
        self.run(Self::write_mark);
        self.run(Self::write_closing_note);
    }

    fn write_closing_note(&mut self) -> Result<(), Trouble> {
        self.log.flush()?;
        if self.options.durability == Durability::Memory {
            return Ok(());
        }
        while self.progress != Progress::Idle {
            self.sync_once()?;
        }
        let layout = self.log.layout;
        if let Some(segment) = self.log.segment() {
            let note = ClosingNote {
                checkpoint: self.checkpoint.number,
                end: self.log.place(),
                segment,
                bundles: crate::wire::length(self.slots.len()),
            };
            // The note speaks of what is durable.
            self.log.disk.sync()?;
            note.write(&layout, &*self.log.disk)?;
            self.log.disk.sync()?;
        }
        Ok(())
    }

    /// Why the store refuses everything at present; `None` when it works.
    #[must_use]
    pub fn failure(&self) -> Option<&DiskError> {
        self.failure.as_ref()
    }

    /// Octets of a segment: what the log was made with, whatever the options say.
    #[must_use]
    pub fn segment_octets(&self) -> u32 {
        self.log.layout.segment_octets
    }

    /// Reads stored octets from any thread.
    #[must_use]
    pub fn reader(&self) -> StoreReader {
        StoreReader::new(Arc::clone(&self.log.disk))
    }

    /// Forgets remembered identifiers that have expired.
    pub fn forget_expired(&mut self, now: DtnTime) {
        if now.is_known() {
            self.removed.prune(now);
        }
    }

    /// The remembered identifiers with their expiries, oldest first.
    #[must_use]
    pub fn remembered(&self) -> Vec<(BundleId, DtnTime)> {
        self.removed.list()
    }

    /// Counts of what the store has done and holds.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        use crate::wire::length;
        Statistics {
            bundles: length(self.slots.len()),
            log_octets: self.log.layout.position(0, 0) + self.log.segments.allocated(),
            free_octets: self.log.segments.free_octets(),
            remembered: length(self.removed.len()),
            remembered_dropped: self.removed.dropped,
            ..self.counts
        }
    }

    /// Octets of memory that the tables of bundles take.
    #[must_use]
    pub fn table_octets(&self) -> usize {
        let segments: usize = self
            .log
            .segments
            .iter()
            .map(|(_, segment)| segment.memory_octets())
            .sum();
        self.slots.memory_octets() + segments
    }

    /// Does something that the disk may refuse, and gives up what is not durable when it does.
    pub(crate) fn run(&mut self, action: impl FnOnce(&mut Self) -> Result<(), Trouble>) {
        if self.failure.is_some() {
            return;
        }
        match action(self) {
            Ok(()) => {}
            Err(Trouble::Full) => self.fail(self.no_room()),
            Err(Trouble::Disk(error)) => self.fail(error),
        }
    }

    fn write_mark(&mut self) -> Result<(), Trouble> {
        if self.options.durability != Durability::Sync || self.marked == self.durable {
            return Ok(());
        }
        let mut body = Vec::new();
        put_varint(&mut body, self.durable.generation);
        put_varint(&mut body, u64::from(self.durable.offset));
        // A mark is not worth a segment of the reserve.
        if self.log.fits(0, crate::wire::length(body.len())) {
            self.marked = self.durable;
            self.log.append(Kind::Mark, &[], &body)?;
        }
        Ok(())
    }

    fn handle_reserve(&mut self, time: DtnTime, sequence: u64) {
        self.reserved = (self.reserved.0.max(time), self.reserved.1.max(sequence));
        self.waiting.push(StoreEvent::Reserved { time, sequence });
        let (time, sequence) = self.reserved;
        if planted(Mutant::ReservationNotWritten) {
            return;
        }
        self.run(|store| {
            let mut body = Vec::new();
            put_varint(&mut body, time.as_millis());
            put_varint(&mut body, sequence);
            store.write_upkeep(Kind::Reserve, &body)
        });
    }

    /// The bundle of a key that is arriving, from where it is kept.
    pub(crate) fn take_arriving(&mut self, key: BundleKey) -> Option<Arriving> {
        match self.current.take() {
            Some((current, arriving)) if current == key => Some(arriving),
            other => {
                self.current = other;
                self.arriving.remove(&key)
            }
        }
    }

    /// Whether commands for the key's bundle are dropped.
    pub(crate) fn opening(&self, key: BundleKey) -> Opening {
        if self.refused.contains_key(&key) {
            Opening::Refused
        } else if self.slots.has(key) {
            Opening::Stored
        } else {
            Opening::Open
        }
    }
}

/// Moves events to the end of others; as a whole where there are none.
pub(crate) fn pass_on(events: &mut Vec<StoreEvent>, out: &mut Vec<StoreEvent>) {
    if out.is_empty() {
        std::mem::swap(events, out);
    } else {
        out.append(events);
    }
}
