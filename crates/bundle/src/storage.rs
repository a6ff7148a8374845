//! The interface between a node and its store: commands down, events up, both in batches.
//!
//! A node never touches a disk. It names each stored bundle by a [`BundleKey`] of its own choosing,
//! sends [`StoreCommand`]s and is told by [`StoreEvent`]s what has become durable. A driver carries
//! both (a thread and two channels in the daemon, the event queue in a simulator).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use bytes::Bytes;

use crate::eid::EndpointId;
use crate::id::BundleId;
use crate::priority::Priority;
use crate::time::DtnTime;
use crate::version::Version;

/// Identities of removed bundles that a node and its store remember where nobody says how many.
pub const REMOVED_BOUND: usize = 100_000;

/// Octets of a note beside a bundle, at most.
pub const NOTE_OCTETS: usize = 1024;

/// A stored bundle's place in the node's and the store's tables: small, dense, chosen by the node, free
/// for use again once the store has answered [`StoreEvent::Deleted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleKey(pub u32);

/// A range of octets in the store's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Offset in the log, octets.
    pub offset: u64,
    /// Length in octets.
    pub length: u64,
}

/// Octets in memory or in the store's log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// Octets in memory, shared and never copied.
    Octets(Bytes),
    /// Octets that the store holds; readable at any time until their bundle is deleted (or, after
    /// [`StoreEvent::Relocated`], until [`StoreCommand::Released`]).
    Extent(Extent),
}

impl Piece {
    /// Length in octets.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Octets(octets) => u64::try_from(octets.len()).unwrap_or(u64::MAX),
            Self::Extent(extent) => extent.length,
        }
    }
}

/// The places of a stored bundle's octets, in order. Most bundles have one extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Extents {
    /// The bundle lies in one piece.
    One(Extent),
    /// The bundle was written in several pieces.
    Many(Box<[Extent]>),
}

impl Extents {
    /// The extents in the order of the bundle's octets.
    #[must_use]
    pub fn as_slice(&self) -> &[Extent] {
        match self {
            Self::One(extent) => core::slice::from_ref(extent),
            Self::Many(extents) => extents,
        }
    }

    /// Octets in all extents together.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.as_slice()
            .iter()
            .fold(0, |sum, extent| sum.saturating_add(extent.length))
    }

    /// The part as by [`Self::slice`]; of one extent that is one, and nothing is allocated.
    #[must_use]
    pub fn part(&self, start: u64, length: u64) -> Self {
        match self {
            Self::One(extent) if start < extent.length && length > 0 => {
                let left = extent.length - start;
                Self::One(Extent {
                    offset: extent.offset.saturating_add(start),
                    length: length.min(left),
                })
            }
            _ => Self::Many(self.slice(start, length).into()),
        }
    }

    /// The extents that hold `length` octets from `start` of the bundle, clipped to its end.
    #[must_use]
    pub fn slice(&self, start: u64, length: u64) -> Vec<Extent> {
        let end = start.saturating_add(length);
        let mut position = 0_u64;
        let mut slices = Vec::new();
        for extent in self.as_slice() {
            let next = position.saturating_add(extent.length);
            let from = start.max(position);
            let to = end.min(next);
            if from < to {
                slices.push(Extent {
                    offset: extent.offset + (from - position),
                    length: to - from,
                });
            }
            position = next;
        }
        slices
    }
}

impl AsRef<[Extent]> for Extents {
    fn as_ref(&self) -> &[Extent] {
        self.as_slice()
    }
}

impl core::ops::Deref for Extents {
    type Target = [Extent];

    fn deref(&self) -> &[Extent] {
        self.as_slice()
    }
}

/// The record that the store keeps of a bundle beside its octets: enough for a node to know, after a restart and
/// without reading the octets, what to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBundle {
    /// Identity in the network.
    pub id: BundleId,
    /// Destination endpoint.
    pub destination: EndpointId,
    /// Report-to endpoint; most often the source.
    pub report_to: EndpointId,
    /// Bundle protocol version of the octets (7).
    pub version: u8,
    /// Bundle processing control flags (RFC 9171 4.2.3).
    pub flags: u64,
    /// Lifetime in milliseconds from creation (RFC 9171 4.3.1).
    pub lifetime_ms: u64,
    /// The bundle's age in milliseconds when it was received (0 at its source).
    pub age_at_reception_ms: u64,
    /// The wall clock when it was received; unknown without an accurate clock.
    pub received: DtnTime,
    /// Octets from the start of the bundle to the first octet of its payload.
    pub header_octets: u32,
    /// Octets of payload.
    pub payload_octets: u64,
    /// Octets of the whole application data unit, of a fragment; 0 otherwise.
    pub total_adu_octets: u64,
    /// The neighbour that it came from, if it came from one.
    pub previous: Option<EndpointId>,
    /// Whether its report-to endpoint reads aggregated reports (docs/aggregated-reports.md).
    pub reads_aggregated_reports: bool,
    /// The order in which it leaves.
    pub priority: Priority,
    /// The state of the bundle that changes while it is held, as its node writes it: at most [`NOTE_OCTETS`]. [`StoreCommand::Note`]
    /// replaces it.
    pub note: Bytes,
}

impl StoredBundle {
    /// The priority, where the flags do not say it.
    #[must_use]
    pub fn priority_beyond_flags(&self) -> Option<Priority> {
        let version = Version::of_number(self.version).unwrap_or_default();
        (self.priority != Priority::of_flags(version, self.flags)).then_some(self.priority)
    }
}

/// Digests of recordings hold it: fields that came later count where they are not empty, the mark as the bit of the flags that it was.
impl Hash for StoredBundle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mark = u64::from(self.reads_aggregated_reports) << 63;
        self.id.hash(state);
        self.destination.hash(state);
        self.report_to.hash(state);
        self.version.hash(state);
        (self.flags | mark).hash(state);
        self.lifetime_ms.hash(state);
        self.age_at_reception_ms.hash(state);
        self.received.hash(state);
        self.header_octets.hash(state);
        self.payload_octets.hash(state);
        self.total_adu_octets.hash(state);
        self.previous.hash(state);
        if !self.note.is_empty() {
            self.note.hash(state);
        }
        if let Some(priority) = self.priority_beyond_flags() {
            priority.hash(state);
        }
    }
}

/// A request of a node to its store. Commands take effect in the order in which they are given; the
/// events that answer them come once their effect is durable.
#[derive(Clone, Debug, Hash)]
pub enum StoreCommand {
    /// Add octets to the end of a bundle that is arriving. The first `Append` of a key begins it.
    Append {
        /// The bundle.
        key: BundleKey,
        /// The piece that comes next: octets, or a copy of octets that the store already has.
        octets: Piece,
        /// The CRC-32C of these octets, where somebody has computed it already: the store then need not read them for theirs.
        crc: Option<u32>,
    },
    /// Tell by `Written` where the octets of an arriving bundle lie as soon as they can be read.
    Watch {
        /// The bundle.
        key: BundleKey,
    },
    /// The octets so far of an arriving bundle are its header: all that follow can be shared.
    Divide {
        /// The bundle.
        key: BundleKey,
    },
    /// Add to a bundle that is arriving what another one has behind its division, without copying it. Both
    /// may go on, and either may be removed.
    Share {
        /// The bundle that gets octets.
        key: BundleKey,
        /// The arriving bundle that has them.
        from: BundleKey,
    },
    /// The bundle is whole: keep it. Answered by `Stored`.
    Commit {
        /// The bundle.
        key: BundleKey,
        /// The record to keep of it.
        bundle: Box<StoredBundle>,
    },
    /// Forget a bundle that was never committed. Answered by `Deleted`.
    Abandon {
        /// The bundle.
        key: BundleKey,
    },
    /// Remove a committed bundle, or one that the store has refused and whose identity is to be remembered all the same. Answered by
    /// `Deleted`.
    Delete {
        /// The bundle.
        key: BundleKey,
        /// Remember its identity until this DTN time, so that a copy that comes late is known for one.
        remember: Option<(BundleId, DtnTime)>,
    },
    /// No creation timestamp up to this one will be given out again, also after a restart.
    /// Answered by `Reserved`.
    Reserve {
        /// Highest creation time reserved.
        time: DtnTime,
        /// Highest sequence number reserved for bundles without a creation time.
        sequence: u64,
    },
    /// Read a committed bundle's octets and compare them with their checksums. Answered by `Verified` or
    /// `Corrupt`; not at all when the disk could not be read.
    Verify {
        /// The bundle.
        key: BundleKey,
    },
    /// The node no longer reads a bundle's octets at the places it had before `Relocated`.
    Released {
        /// The bundle.
        key: BundleKey,
    },
    // Later ones follow, since digests of recordings count a command's place.
    /// Add octets at their position in a bundle that is arriving, before or behind a gap. Octets that are there already are left
    /// out. There may be [`GAPS`], and none when it is committed.
    AppendAt {
        /// The bundle.
        key: BundleKey,
        /// The position of the first of these octets in the bundle.
        at: u64,
        /// The octets.
        octets: Bytes,
    },
    /// Replace the note beside a committed bundle. Answered by `Noted`, unless the bundle is deleted before.
    Note {
        /// The bundle.
        key: BundleKey,
        /// The note, at most [`NOTE_OCTETS`].
        note: Bytes,
    },
}

/// Gaps in one arriving bundle, at most: of a path that has 460 MB on their way and loses one datagram of 1,400 octets in twenty.
pub const GAPS: usize = 16_384;

impl StoreCommand {
    /// Octets of a bundle that it brings, or has copied.
    #[must_use]
    pub fn octets(&self) -> u64 {
        match self {
            Self::Append { octets, .. } => octets.length(),
            Self::AppendAt { octets, .. } => u64::try_from(octets.len()).unwrap_or(u64::MAX),
            _ => 0,
        }
    }
}

/// The medium that bundles are stored in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Medium {
    /// A disk.
    #[default]
    Disk,
    /// Memory.
    Memory,
}

/// The reason for which the store could not carry out a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreRefusal {
    /// No free segment is left (or the disk is full).
    Full,
    /// The disk refused to read, write or sync.
    Disk,
    /// Octets are missing between others, or there are more gaps than a store keeps.
    Gaps,
}

/// A message of the store to its node, in the order of the commands.
#[derive(Clone, Debug)]
pub enum StoreEvent {
    /// The first `octets` octets of an arriving bundle, none of them missing, are durable (each batch tells of the newest state).
    Durable {
        /// The bundle.
        key: BundleKey,
        /// Octets durable so far.
        octets: u64,
    },
    /// As `Durable`, of an arriving bundle with gaps: its first `octets` octets are durable, and so many as `behind` of those behind gaps.
    DurableParts {
        /// The bundle.
        key: BundleKey,
        /// Octets before the first gap that are durable.
        octets: u64,
        /// Octets behind it that are.
        behind: u64,
    },
    /// More octets of an arriving bundle that is watched lie here: readable, not durable. Octets that are written
    /// with the commit are told of by `Stored` alone.
    Written {
        /// The bundle.
        key: BundleKey,
        /// The places that follow those told before.
        extents: Vec<Extent>,
    },
    /// A commit is durable.
    Stored {
        /// The bundle.
        key: BundleKey,
        /// The places of its octets.
        extents: Extents,
    },
    /// A deletion (or abandonment) is durable; the key is free.
    Deleted {
        /// The bundle.
        key: BundleKey,
    },
    /// A note is durable, or the one before it still stands.
    Noted {
        /// The bundle.
        key: BundleKey,
        /// Why it was not written. After [`StoreRefusal::Disk`] a crash may leave either note.
        refusal: Option<StoreRefusal>,
    },
    /// A reservation is durable.
    Reserved {
        /// The DTN time asked for.
        time: DtnTime,
        /// The sequence number asked for.
        sequence: u64,
    },
    /// A bundle's octets now lie elsewhere; answer with `Released` when no reader uses the old places.
    Relocated {
        /// The bundle.
        key: BundleKey,
        /// The new places.
        extents: Extents,
    },
    /// A bundle that was arriving could not be kept, and nothing of it is left. Later commands for the key
    /// are dropped (a `Commit` is answered by `Refused` again) until the node has sent `Abandon`;
    /// the key is free once `Deleted` has answered that.
    Refused {
        /// The bundle.
        key: BundleKey,
        /// The reason.
        refusal: StoreRefusal,
    },
    /// A stored bundle's octets are what was written.
    Verified {
        /// The bundle.
        key: BundleKey,
    },
    /// A stored bundle's octets no longer match their checksum: it is in quarantine and must not be
    /// sent or delivered.
    Corrupt {
        /// The bundle.
        key: BundleKey,
    },
    /// From now on there is room for about so many octets of bundles, those that are stored included. Before the first of these
    /// events there is room for the quota.
    Capacity {
        /// Octets; the quota where there is room for more.
        octets: u64,
        /// The medium that has no more room.
        medium: Medium,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_slices_are() {
        let extent = |offset, length| Extent { offset, length };
        let one = Extents::One(extent(100, 10));
        let many = Extents::Many([extent(100, 4), extent(7, 1), extent(300, 5)].into());
        for extents in [one, many, Extents::Many(Box::default())] {
            for start in 0..12 {
                for length in [0, 1, 3, 6, 10, u64::MAX] {
                    let part = extents.part(start, length);
                    assert_eq!(part.as_slice(), extents.slice(start, length));
                }
            }
        }
    }
}
