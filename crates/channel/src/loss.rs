//! Random events of packets, drawn from a seed: losses, duplicates, reordering and jitter.

use core::time::Duration;

use crate::profile::{BILLION, Loss, Part};

/// Draws by xorshift64*, the same on every machine.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
    /// Whether times are bad: with losses in bursts, all is lost.
    bad: bool,
}

impl Dice {
    /// The draws that a seed gives.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // The generator has one state that it never leaves: 0.
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { state, bad: false }
    }

    /// True if the next packet is lost.
    pub fn loses(&mut self, loss: Loss) -> bool {
        match loss {
            Loss::None => false,
            Loss::Independent { per_billion } => self.happens(per_billion),
            Loss::Bursts {
                worsens_per_billion,
                mends_per_billion,
            } => {
                let changes = match self.bad {
                    true => mends_per_billion,
                    false => worsens_per_billion,
                };
                self.bad ^= self.happens(changes);
                self.bad
            }
        }
    }

    /// So much time has passed that a burst is over.
    pub const fn mend(&mut self) {
        self.bad = false;
    }

    /// The jitter of the next packet: uniform from 0 to `most`.
    pub fn jitter(&mut self, most: Duration) -> Duration {
        if most.is_zero() {
            return Duration::ZERO;
        }
        let part = (u128::from(self.draw()) * most.as_nanos()) >> 48;
        Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// True if the next packet belongs to this part of all packets; nothing is drawn if the part is none.
    pub fn picks(&mut self, part: Part) -> bool {
        part != Part::NONE && self.happens(part.per_billion())
    }

    fn happens(&mut self, per_billion: u32) -> bool {
        self.draw() % u64::from(BILLION) < u64::from(per_billion)
    }

    const fn draw(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
}
