//! [`Refused`]: the reason for which a beacon does not lead to a neighbour, and counts of beacons.

/// Why a beacon is of no use. Each has its name in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refused {
    /// The beacon could not be read.
    Malformed,
    /// The beacon is one of this node's, or of somebody who takes its name.
    Own,
    /// Policy does not name its node.
    NotAccepted,
    /// The beacon has no service of the convergence layer that is asked for.
    NoService,
    /// Its services are at addresses where nobody is: multicast, broadcast, zeros, or a loopback address from elsewhere.
    Address,
    /// A session at its address was with somebody else, a while ago.
    Identity,
    /// No more neighbours may be known, of its sender or at all.
    TooMany,
    /// No more neighbours may become known in this second.
    TooFast,
}

impl Refused {
    /// All values.
    pub const ALL: [Self; 8] = [
        Self::Malformed,
        Self::Own,
        Self::NotAccepted,
        Self::NoService,
        Self::Address,
        Self::Identity,
        Self::TooMany,
        Self::TooFast,
    ];

    /// The value's name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Own => "own",
            Self::NotAccepted => "not_accepted",
            Self::NoService => "no_service",
            Self::Address => "address",
            Self::Identity => "identity",
            Self::TooMany => "too_many",
            Self::TooFast => "too_fast",
        }
    }

    /// Its place among all.
    const fn at(self) -> usize {
        match self {
            Self::Malformed => 0,
            Self::Own => 1,
            Self::NotAccepted => 2,
            Self::NoService => 3,
            Self::Address => 4,
            Self::Identity => 5,
            Self::TooMany => 6,
            Self::TooFast => 7,
        }
    }
}

/// Counts of beacons since the node's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeaconCounts {
    /// Beacons given to be sent.
    pub sent: u64,
    /// Datagrams that came, beacons or not.
    pub heard: u64,
    /// Neighbours that were found.
    pub found: u64,
    /// Neighbours that were lost.
    pub lost: u64,
    refused: [u64; Refused::ALL.len()],
}

impl BeaconCounts {
    /// Beacons that were of no use for this reason.
    #[must_use]
    pub fn refused(&self, reason: Refused) -> u64 {
        self.refused.get(reason.at()).copied().unwrap_or_default()
    }

    pub(crate) fn refuse(&mut self, reason: Refused) {
        if let Some(count) = self.refused.get_mut(reason.at()) {
            *count += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.heard += other.heard;
        self.found += other.found;
        self.lost += other.lost;
        for (sum, count) in self.refused.iter_mut().zip(other.refused) {
            *sum += count;
        }
    }
}
