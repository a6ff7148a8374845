//! Losses: parts that were once durable and are not there when a store is opened (docs/store-format.md 9).

use dhow_bundle::BundleId;

use crate::wire::length;

/// Places of damage that are told of one by one, at most: an operator reads them, and a disk can have millions.
pub const LOST_PLACES_MAX: usize = 256;

/// The loss of parts that were once durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Bundles that are lost.
    pub bundles: u64,
    /// The certainty of that number.
    pub count: Count,
    /// The places of the damage, with the bundles that it hit, at most [`LOST_PLACES_MAX`] of them.
    pub places: Vec<LostPlace>,
    /// Places of damage that [`Loss::places`] had no room for.
    pub places_unlisted: u64,
    /// The log ends before a place that it had reached durably.
    pub early_end: Option<EarlyEnd>,
}

/// The certainty of a number of lost bundles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// So many.
    #[default]
    Exact,
    /// Not fewer: what cannot be read may have held more of them, or have told of their removal.
    AtLeast,
}

/// One place of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPlace {
    /// The bundle, when its commit record can be read.
    pub id: Option<BundleId>,
    /// The first octet of the damaged record or stretch, from the log's start.
    pub position: u64,
    /// The damage there.
    pub cause: Cause,
}

/// The damage at a place of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A bundle's commit record fails its checksum.
    Commit,
    /// A bundle's commit record is whole, but octets that it names are not in the log.
    Octets,
    /// A record of deletions or of a reservation fails its checksum: what it said is forgotten.
    Record,
    /// No record can be recognised from here to the next valid one, or to the segment's end.
    Stretch,
    /// The segment that was written before the one here is gone.
    Segment,
}

impl Cause {
    /// The damage, in a few words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Commit => "a bundle's commit record is damaged",
            Self::Octets => "octets of the bundle are gone",
            Self::Record => "a record of deletions or of a reservation is damaged",
            Self::Stretch => "nothing is recognisable",
            Self::Segment => "the segment written before is gone",
        }
    }

    /// Whether what is lost here may have told of the removal of a bundle.
    const fn forgets(self) -> bool {
        matches!(self, Self::Record | Self::Stretch | Self::Segment)
    }
}

/// A log that ends too early, in octets from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyEnd {
    /// End of the last record that can be read.
    pub found: u64,
    /// The place that the log is known to have reached.
    pub expected: u64,
}

impl Loss {
    /// Whether nothing is known to be lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bundles == 0
            && self.places.is_empty()
            && self.places_unlisted == 0
            && self.early_end.is_none()
    }

    /// Notes a place; without room for it, counts it.
    pub(crate) fn add(&mut self, place: LostPlace) {
        match place.cause {
            Cause::Commit | Cause::Octets => self.bundles += 1,
            Cause::Record | Cause::Stretch | Cause::Segment => {}
        }
        if place.cause.forgets() {
            self.count = Count::AtLeast;
        }
        if self.places.len() < LOST_PLACES_MAX {
            self.places.push(place);
        } else {
            self.places_unlisted += 1;
        }
    }

    /// Holds the number of bundles that are there against the one that a closed log says.
    pub(crate) fn compare(&mut self, noted: u64, recovered: usize) {
        let short = noted.saturating_sub(length(recovered));
        // A damaged commit record may be that of a moved bundle whose former place is still there.
        self.bundles = match self.count {
            Count::Exact => short,
            Count::AtLeast => short.max(self.bundles),
        };
    }
}
