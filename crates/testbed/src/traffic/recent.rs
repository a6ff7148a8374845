//! The numbers of a flow that came last, so that a packet that comes again is known.

/// The distance behind the next number to which numbers are remembered, a bit for each: 8 KiB a flow, a second of 65,536 packets. Behind it nobody
/// knows whether a number came before.
pub const RECENT_NUMBERS: u64 = 65_536;

/// Bits of a word.
const WORD_BITS: u64 = 64;

/// Numbers up to the next one, and which of the last [`RECENT_NUMBERS`] of them came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recent {
    next: u64,
    /// The bit of a number is at its place modulo [`RECENT_NUMBERS`]; none before the first number came.
    words: Vec<u64>,
}

impl Recent {
    /// None came, and this is the first that is expected.
    pub const fn from_number(first: u64) -> Self {
        Self {
            next: first,
            words: Vec::new(),
        }
    }

    /// The number behind the highest that came or was passed over.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The number whose last 32 bits these are, of all such the nearest to the next one.
    pub fn nearest(&self, low: u32) -> u64 {
        let next_low = u32::try_from(self.next & u64::from(u32::MAX)).unwrap_or_default();
        let ahead = i64::from(low.wrapping_sub(next_low).cast_signed());
        let nearest = self.next.checked_add_signed(ahead);
        nearest.unwrap_or_else(|| u64::from(low))
    }

    /// A number came: whether it may be the first time. Of numbers that are no longer remembered it is not.
    pub fn take(&mut self, number: u64) -> bool {
        self.pass_to(number.saturating_add(1));
        if self.next - number > RECENT_NUMBERS {
            return false;
        }
        let (word, bit) = Self::place(number);
        let Some(word) = self.words.get_mut(word) else {
            return false;
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Numbers before this one are passed over, where it is ahead: how many.
    pub fn pass_to(&mut self, next: u64) -> u64 {
        let words = usize::try_from(RECENT_NUMBERS / WORD_BITS).unwrap_or_default();
        self.words.resize(words, 0);
        let passed = next.saturating_sub(self.next);
        if passed >= RECENT_NUMBERS {
            self.words.fill(0);
        } else {
            for number in self.next..next {
                let (word, bit) = Self::place(number);
                if let Some(word) = self.words.get_mut(word) {
                    *word &= !bit;
                }
            }
        }
        self.next = self.next.max(next);
        passed
    }

    fn place(number: u64) -> (usize, u64) {
        let place = number % RECENT_NUMBERS;
        let word = usize::try_from(place / WORD_BITS).unwrap_or_default();
        (word, 1 << (place % WORD_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once_as_long_as_it_is_remembered() {
        let mut recent = Recent::from_number(1);
        assert!(recent.take(1) && recent.take(5) && recent.take(3));
        assert!(!recent.take(1) && !recent.take(5) && !recent.take(3));
        // The oldest that is remembered, and the one before it.
        assert_eq!(recent.pass_to(RECENT_NUMBERS + 3), RECENT_NUMBERS - 3);
        assert!(!recent.take(3) && recent.take(4) && !recent.take(2));
        assert_eq!(recent.next(), RECENT_NUMBERS + 3);
        // All are forgotten where more are passed over than are remembered; places are taken anew.
        assert!(recent.take(9 * RECENT_NUMBERS + 3));
        assert!(recent.take(9 * RECENT_NUMBERS + 2) && recent.take(8 * RECENT_NUMBERS + 4));
        assert!(!recent.take(8 * RECENT_NUMBERS + 3));
    }

    #[test]
    fn numbers_of_32_bits_go_on_where_they_begin_anew() {
        let mut recent = Recent::from_number(1);
        assert_eq!(
            (recent.nearest(1), recent.nearest(u32::MAX)),
            (1, u32::MAX.into())
        );
        recent.take(u32::MAX.into());
        assert_eq!(recent.nearest(0), 1 << 32);
        recent.take(1 << 32);
        assert_eq!(recent.nearest(u32::MAX - 1), u64::from(u32::MAX) - 1);
    }
}
