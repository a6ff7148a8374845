//! Creation timestamps: a bundle is the same bundle in both versions, whichever gateway it crossed.
//!
//! Sequence numbers of version 6 count within a second, those of version 7 within a millisecond. A sequence number of version 6 is split: its
//! remainder by 1000 becomes the millisecond, its quotient the sequence number of version 7. No two timestamps become one, and all that translate come back.

use super::untranslatable::Untranslatable;
use crate::id::CreationTimestamp;
use crate::time::DtnTime;
use crate::v6::CreationTime;

/// Milliseconds of a second.
pub(super) const MS_PER_SECOND: u64 = 1_000;

/// The creation timestamp of version 7 (RFC 9171 4.2.7) of one of version 6 (RFC 5050 4.5.1): milliseconds `seconds * 1000 + sequence mod 1000`,
/// sequence number `sequence div 1000`; without a clock the sequence number as it is.
///
/// ```
/// use dhow_bundle::{CreationTimestamp, DtnTime, gateway::identity, v6::CreationTime};
/// let old = CreationTime { seconds: 848_000_000, sequence: 7_042 };
/// let new = CreationTimestamp { time: DtnTime::from_millis(848_000_000_042), sequence: 7 };
/// assert_eq!(identity::to_v7(old)?, new);
/// assert_eq!(identity::to_v6(new)?, old);
/// # Ok::<(), dhow_bundle::gateway::Untranslatable>(())
/// ```
///
/// # Errors
/// [`Untranslatable::CreationTime`] beyond 2^64-1 milliseconds.
pub fn to_v7(creation: CreationTime) -> Result<CreationTimestamp, Untranslatable> {
    let CreationTime { seconds, sequence } = creation;
    if seconds == 0 {
        return Ok(CreationTimestamp {
            time: DtnTime::UNKNOWN,
            sequence,
        });
    }
    let time_ms = seconds
        .checked_mul(MS_PER_SECOND)
        .and_then(|ms| ms.checked_add(sequence % MS_PER_SECOND))
        .ok_or(Untranslatable::CreationTime { seconds })?;
    Ok(CreationTimestamp {
        time: DtnTime::from_millis(time_ms),
        sequence: sequence / MS_PER_SECOND,
    })
}

/// The creation timestamp of version 6 of one of version 7: what [`to_v7`] makes the same timestamp of again.
///
/// # Errors
/// [`Untranslatable::FirstSecond`] for milliseconds 1 to 999, [`Untranslatable::SequenceNumber`] beyond 2^64-1.
pub fn to_v6(creation: CreationTimestamp) -> Result<CreationTime, Untranslatable> {
    let CreationTimestamp { time, sequence } = creation;
    let time_ms = time.as_millis();
    if time_ms == 0 {
        return Ok(CreationTime {
            seconds: 0,
            sequence,
        });
    }
    if time_ms < MS_PER_SECOND {
        return Err(Untranslatable::FirstSecond { time_ms });
    }
    let whole = sequence
        .checked_mul(MS_PER_SECOND)
        .and_then(|whole| whole.checked_add(time_ms % MS_PER_SECOND))
        .ok_or(Untranslatable::SequenceNumber { sequence })?;
    Ok(CreationTime {
        seconds: time_ms / MS_PER_SECOND,
        sequence: whole,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v6(seconds: u64, sequence: u64) -> CreationTime {
        CreationTime { seconds, sequence }
    }

    fn v7(time_ms: u64, sequence: u64) -> CreationTimestamp {
        CreationTimestamp {
            time: DtnTime::from_millis(time_ms),
            sequence,
        }
    }

    #[test]
    fn timestamps_at_every_edge_have_one_partner_each() {
        let most_ms = u64::MAX / 1000 * 1000;
        let pairs = [
            (v6(0, 0), v7(0, 0)),
            (v6(0, u64::MAX), v7(0, u64::MAX)),
            (v6(1, 0), v7(1000, 0)),
            (v6(1, 999), v7(1999, 0)),
            (v6(1, 1000), v7(1000, 1)),
            // 2^64-1 is 615 more than thousands.
            (v6(1, u64::MAX), v7(1615, u64::MAX / 1000)),
            (v6(u64::MAX / 1000, 0), v7(most_ms, 0)),
            (v6(u64::MAX / 1000, 615), v7(u64::MAX, 0)),
        ];
        for (old, new) in pairs {
            assert_eq!(to_v7(old), Ok(new));
            assert_eq!(to_v6(new), Ok(old));
        }
    }

    #[test]
    fn a_timestamp_without_a_partner_is_refused_with_its_value() {
        for time_ms in [1, 999] {
            let refused = to_v6(v7(time_ms, 0));
            assert_eq!(refused, Err(Untranslatable::FirstSecond { time_ms }));
        }
        let seconds = u64::MAX / 1000;
        let refused = Err(Untranslatable::CreationTime { seconds });
        assert_eq!(to_v7(v6(seconds, 616)), refused);
        let seconds = seconds + 1;
        let refused = Err(Untranslatable::CreationTime { seconds });
        assert_eq!(to_v7(v6(seconds, 0)), refused);
        let sequence = u64::MAX / 1000;
        let refused = Err(Untranslatable::SequenceNumber { sequence });
        assert_eq!(to_v6(v7(1616, sequence)), refused);
        let sequence = u64::MAX;
        let refused = Err(Untranslatable::SequenceNumber { sequence });
        assert_eq!(to_v6(v7(1000, sequence)), refused);
    }

    fn number() -> impl Strategy<Value = u64> {
        let near = |edge: u64| (0_u64..2_000).prop_map(move |by| edge.saturating_add(by));
        prop_oneof![
            any::<u64>(),
            near(0),
            near(848_000_000),
            near(848_000_000_000),
            near(u64::MAX / 1000 - 1_000),
            near(u64::MAX - 1_999),
        ]
    }

    proptest! {
        #[test]
        fn a_timestamp_that_translates_comes_back(first in number(), second in number()) {
            if let Ok(new) = to_v7(v6(first, second)) {
                prop_assert_eq!(to_v6(new), Ok(v6(first, second)));
            }
            if let Ok(old) = to_v6(v7(first, second)) {
                prop_assert_eq!(to_v7(old), Ok(v7(first, second)));
            }
        }
    }
}
