//! Rate control.

use proptest::prelude::*;

use super::*;
use crate::datagram::pacing::Bucket;

#[test]
fn datagrams_wait_for_the_bucket() {
    let config = Config {
        mtu: 1_000,
        rate: Rate {
            octets_per_s: 2_000,
            burst_octets: 2_500,
        },
        ..Config::default()
    };
    let mut sender = Conversation::new(config, 0, at(0));
    for transfer in 0..5 {
        transmit(&mut sender, at(0), transfer, &bundle(0, 1_000));
    }
    assert_eq!(drain(&mut sender, at(0)).len(), 2);
    assert_eq!(sender.poll_timeout(), Some(at(250).monotonic));
    assert!(drain(&mut sender, at(249)).is_empty());
    assert_eq!(sender.poll_timeout(), Some(at(250).monotonic));
    sender.handle_timeout(at(250));
    assert_eq!(sender.poll_timeout(), None);
    assert_eq!(drain(&mut sender, at(250)).len(), 1);
    assert_eq!(sender.poll_timeout(), Some(at(750).monotonic));
    assert_eq!(drain(&mut sender, at(10_000)).len(), 2);
    assert_eq!(sender.poll_timeout(), None);
}

#[test]
fn a_burst_is_at_least_one_datagram_and_a_rate_of_nothing_sends_no_second() {
    let rate = Rate {
        octets_per_s: 0,
        burst_octets: 0,
    };
    let config = Config {
        rate,
        ..Config::default()
    };
    let mut sender = Conversation::new(config, 0, at(0));
    transmit(&mut sender, at(0), 0, &bundle(0, 3_000));
    assert_eq!(drain(&mut sender, at(0)).len(), 1);
    assert_eq!(sender.poll_timeout(), None);
    assert!(drain(&mut sender, at(1 << 40)).is_empty());
}

proptest! {
    /// In no interval more passes than the burst and what the rate gives in it; and what is promised for an instant
    /// passes then, and not a nanosecond before.
    #[test]
    fn the_bucket_is_never_exceeded(
        octets_per_s in prop_oneof![0_u64..5_000, any::<u64>()],
        burst_octets in 0_u64..5_000,
        steps in proptest::collection::vec((0_u64..2_000_000_000, 1_u64..1_500), 1..60),
    ) {
        let rate = Rate { octets_per_s, burst_octets };
        let mut now = Instant::START;
        let mut bucket = Bucket::new(rate, 1_232, now);
        let burst = u128::from(burst_octets.max(1_232));
        let mut passed: Vec<(Instant, u64)> = Vec::new();
        for (wait, octets) in steps {
            now = now + Duration::from_nanos(wait);
            match bucket.take(now, octets) {
                Ok(()) => passed.push((now, octets)),
                Err(Some(filled)) => {
                    prop_assert!(filled > now);
                    let before = Instant::from_nanos(filled.as_nanos() - 1);
                    prop_assert!(before <= now || bucket.take(before, octets).is_err());
                    prop_assert_eq!(bucket.take(filled, octets), Ok(()));
                    passed.push((filled, octets));
                    now = filled;
                }
                Err(None) => {
                    prop_assert!(octets_per_s == 0 || u128::from(octets) > burst);
                }
            }
        }
        for (place, (from, _)) in passed.iter().enumerate() {
            let mut sum = 0;
            for (to, octets) in &passed[place..] {
                sum += u128::from(*octets);
                let nanos = to.since(*from).as_nanos();
                prop_assert!(sum * 1_000_000_000 <= burst * 1_000_000_000 + nanos * u128::from(octets_per_s));
            }
        }
    }
}
