//! Which packets are lost: drawn from a seed, one draw a packet.

use crate::profile::{BILLION, Loss};

/// Draws by xorshift64*, the same on every machine.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    pub const fn new(seed: u64) -> Self {
        // The generator has one state that it never leaves: 0.
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { state }
    }

    /// Whether the next packet is lost.
    pub fn loses(&mut self, loss: Loss) -> bool {
        match loss {
            Loss::None => false,
            Loss::Independent { per_billion } => {
                self.draw() % u64::from(BILLION) < u64::from(per_billion)
            }
        }
    }

    const fn draw(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
}
