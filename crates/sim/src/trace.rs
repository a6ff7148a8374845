//! A run's events, as one number and as the last steps of it.

use std::collections::VecDeque;
use std::fmt;

use dhow_bundle::Instant;

use crate::queue::MachineIndex;

/// Steps that are remembered.
const RECENT_MAX: usize = 4096;

/// An event that a node was told, or a fault that befell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The node started; the amount is how many bundles it found.
    Started,
    /// The node's process was killed.
    Killed,
    /// Its power failed.
    PowerFailed,
    /// Its timer rang.
    Timer,
    /// A connection stands.
    Connected,
    /// A dial did not succeed.
    DialFailed,
    /// A connection is gone.
    Disconnected,
    /// Octets came from a neighbour; the amount is how many.
    Octets,
    /// Octets came from an application; the amount is how many.
    Application,
    /// The store answered; the amount is a bundle's key.
    Stored,
    /// The store read; the amount is how many octets.
    Read,
    /// The network changed.
    Network,
    /// Nothing leads to a link's neighbour any more.
    CarrierLost,
    /// Something does again.
    CarrierFound,
    /// A path was looked at.
    Path,
    /// An octet of its disk rots; the amount is where.
    Rotted,
    /// The machine's disk is full.
    Full,
    /// Its disk is not full any more.
    Emptied,
    /// The store is to try again what its disk refused.
    Retried,
    /// Its clock jumps; the amount is what it shows then, milliseconds.
    ClockStepped,
    /// A datagram came from a neighbour; the amount is its octets.
    Datagram,
    /// Datagrams have left; the amount is how many.
    Left,
}

impl What {
    const fn word(self) -> &'static str {
        match self {
            Self::Started => "starts with bundles:",
            Self::Killed => "is killed",
            Self::PowerFailed => "loses power",
            Self::Timer => "timer",
            Self::Connected => "connected, stream",
            Self::DialFailed => "dial failed, link",
            Self::Disconnected => "disconnected, stream",
            Self::Octets => "octets from a neighbour:",
            Self::Application => "octets from an application:",
            Self::Stored => "store answers for bundle",
            Self::Read => "store reads octets:",
            Self::Network => "network changed",
            Self::CarrierLost => "no carrier, link",
            Self::CarrierFound => "carrier is back, link",
            Self::Path => "path looked at, stream",
            Self::Rotted => "disk rots at octet",
            Self::Full => "disk is full",
            Self::Emptied => "disk has room again",
            Self::Retried => "store tries again",
            Self::ClockStepped => "clock jumps to",
            Self::Datagram => "datagram from a neighbour:",
            Self::Left => "datagrams have left:",
        }
    }

    const fn code(self) -> u64 {
        match self {
            Self::Started => 1,
            Self::Killed => 2,
            Self::PowerFailed => 3,
            Self::Timer => 4,
            Self::Connected => 5,
            Self::DialFailed => 6,
            Self::Disconnected => 7,
            Self::Octets => 8,
            Self::Application => 9,
            Self::Stored => 10,
            Self::Read => 11,
            Self::Network => 12,
            Self::Path => 13,
            Self::Rotted => 14,
            Self::Full => 15,
            Self::Emptied => 16,
            Self::Retried => 17,
            Self::ClockStepped => 18,
            Self::CarrierLost => 19,
            Self::CarrierFound => 20,
            Self::Datagram => 21,
            Self::Left => 22,
        }
    }
}

/// One thing that happened to one node.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The time.
    pub at: Instant,
    /// The machine to which it happened.
    pub machine: MachineIndex,
    /// The event or fault.
    pub what: What,
    /// The number of octets or bundles, or the one of a stream, link or bundle: as `what` says.
    pub amount: u64,
}

impl fmt::Display for Step {
    /// `3.250000000 s: octets from a neighbour: 77`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.at.as_nanos();
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        write!(f, "{seconds}.{rest:09} s: {}", self.what.word())?;
        match self.what {
            What::Killed
            | What::PowerFailed
            | What::Timer
            | What::Network
            | What::Full
            | What::Emptied
            | What::Retried => Ok(()),
            _ => write!(f, " {}", self.amount),
        }
    }
}

/// All that happened in a world: a hash of everything, and the last steps.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    steps: u64,
    recent: VecDeque<Step>,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            steps: 0,
            recent: VecDeque::new(),
        }
    }
}

impl Trace {
    /// Something happened.
    pub fn add(&mut self, step: Step, octets: &[u8]) {
        self.steps += 1;
        self.mix(step.at.as_nanos());
        self.mix((u64::from(step.machine.0) << 8) | step.what.code());
        self.mix(step.amount);
        let (words, rest) = octets.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        for octet in rest {
            self.mix(u64::from(*octet));
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(step);
    }

    const fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash ^= self.hash >> 29;
    }

    /// The number that two runs share only when the same happened in both.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The number of steps so far.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The last thing that happened.
    #[must_use]
    pub fn newest(&self) -> Option<Step> {
        self.recent.back().copied()
    }

    /// The last things that happened to some nodes, oldest first, at most `most`.
    #[must_use]
    pub fn last(&self, machines: &[MachineIndex], most: usize) -> Vec<Step> {
        let concerned = self.recent.iter().rev();
        let mut steps: Vec<Step> = concerned
            .filter(|step| machines.contains(&step.machine))
            .take(most)
            .copied()
            .collect();
        steps.reverse();
        steps
    }
}
