//! The carrier of a sender's packets.

use std::io;

use super::header::HEADER_OCTETS;

/// Packets that are given to a carrier at once, at most: enough that the system calls cost less than the packets, few enough
/// that the time in each is that at which it leaves.
pub const BATCH_PACKETS: usize = 32;

/// A packet: a header, and zeros up to its length.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The octets with which it begins; a packet that is shorter has only the first of these.
    pub header: [u8; HEADER_OCTETS],
    /// Octets in all.
    pub octets: usize,
}

impl Packet {
    /// The part of the header that it has.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        let length = self.octets.min(HEADER_OCTETS);
        self.header.get(..length).unwrap_or_default()
    }

    /// The number of zeros after the header.
    #[must_use]
    pub const fn zeros(&self) -> usize {
        self.octets.saturating_sub(HEADER_OCTETS)
    }
}

/// The fate of packets that were given to a carrier, from the first on; the others were not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// So many left.
    pub left: usize,
    /// So many after these could not: there is no way now. They are gone.
    pub failed: usize,
    /// So many that left earlier met nobody, which was told only now.
    pub refused: usize,
}

/// The end of a carrier's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All that left is away.
    Whole,
    /// A part of the packet that left last stays here, or it met nobody.
    Cut,
}

/// A carrier of packets.
pub trait Carrier {
    /// Takes as many packets as it has room for. None is the answer after about a tenth of a second without room.
    ///
    /// # Errors
    /// When it will never take any more.
    fn send(&mut self, packets: &[Packet]) -> io::Result<Outcome>;

    /// Nothing more comes. Waits about a second at most until all that left is away.
    ///
    /// # Errors
    /// When the rest will never leave.
    fn finish(&mut self) -> io::Result<Ending> {
        Ok(Ending::Whole)
    }

    /// The number of octets that left and are not acknowledged; none where nobody acknowledges any.
    fn unacknowledged(&mut self) -> Option<u64> {
        None
    }
}

/// Takes everything and carries it nowhere.
#[derive(Clone, Copy, Debug)]
pub struct Null;

impl Carrier for Null {
    fn send(&mut self, packets: &[Packet]) -> io::Result<Outcome> {
        Ok(Outcome {
            left: packets.len(),
            ..Outcome::default()
        })
    }
}
