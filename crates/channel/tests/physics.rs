//! A channel does to packets what its profile says, whatever comes and whenever.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    missing_docs,
    reason = "a test says what is wrong by failing"
)]

use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::Instant;
use dhow_channel::channel::Contact;
use dhow_channel::{Channel, Counters, Line, Loss, Part, Profile, ProfileError, Rate, RateTrace};
use proptest::prelude::*;

const NANOS_PER_S: u128 = 1_000_000_000;

/// A packet that carries its own number.
fn packet(number: usize, octets: usize) -> Bytes {
    let mut packet = vec![0; octets.max(8)];
    packet[..8].copy_from_slice(&number.to_be_bytes());
    packet.into()
}

fn number(packet: &Bytes) -> usize {
    usize::from_be_bytes(packet[..8].try_into().unwrap())
}

fn rate(octets_per_s: u64) -> Rate {
    Rate::from_octets_per_s(octets_per_s).unwrap()
}

fn percent(packets: u32) -> Part {
    Part::of_billion(packets * 10_000_000).unwrap()
}

/// Packets sent at the near end, in order: nanoseconds since the packet before, and octets.
type Traffic = Vec<(u64, usize)>;

fn traffic() -> impl Strategy<Value = Traffic> {
    prop::collection::vec((0..3_000_000_u64, 8..3_000_usize), 1..200)
}

fn profiles() -> impl Strategy<Value = Profile> {
    (1_000..2_000_000_000_u64, 0..500_u64, 1_500..400_000_u64).prop_map(|(octets, delay, queue)| {
        Profile::new(rate(octets), Duration::from_millis(delay)).with_queue_octets(queue)
    })
}

/// One arrival: when, and the packet.
type Arrival = (Instant, Bytes);

/// Carries the traffic across, looking at the channel exactly when it asks for it.
fn carry(channel: &mut Channel, traffic: &Traffic) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let mut now = Instant::START;
    for (place, &(pause, octets)) in traffic.iter().enumerate() {
        let next = now + Duration::from_nanos(pause);
        drain(channel, Some(next), &mut arrivals);
        now = next;
        channel.handle_packet(now, packet(place, octets));
    }
    drain(channel, None, &mut arrivals);
    arrivals
}

/// Everything that arrives until then, or at all.
fn drain(channel: &mut Channel, until: Option<Instant>, arrivals: &mut Vec<Arrival>) {
    while let Some(at) = channel.poll_timeout() {
        if until.is_some_and(|until| at > until) {
            return;
        }
        // A packet lost on the way gives nothing at its time; the next look finds another time.
        while let Some(packet) = channel.poll_packet(at) {
            arrivals.push((at, packet));
        }
    }
}

/// When each packet has left, by looking at one moment after the other.
fn plain(moments: &[u32], sent: &[(u64, u64)]) -> Vec<u64> {
    let period = u64::from(*moments.last().unwrap());
    let mut left = Vec::new();
    let mut waiting: Vec<(u64, u64)> = sent.to_vec();
    for round in 0.. {
        for moment in moments {
            let now = (round * period + u64::from(*moment)) * 1_000_000;
            let mut budget = 1504;
            while budget > 0 && waiting.first().is_some_and(|(at, _)| *at <= now) {
                let octets = budget.min(waiting[0].1);
                budget -= octets;
                waiting[0].1 -= octets;
                if waiting[0].1 == 0 {
                    waiting.remove(0);
                    left.push(now);
                }
            }
        }
        if waiting.is_empty() {
            break;
        }
    }
    left
}

fn traces() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0..60_u32, 1..40).prop_map(|mut moments| {
        moments.sort_unstable();
        *moments.last_mut().unwrap() += 1;
        moments
    })
}

proptest! {
    #[test]
    fn packets_leave_when_a_trace_of_the_rate_lets_them(
        moments in traces(),
        // Times of whole milliseconds are those of moments, which must not be missed.
        traffic in prop::collection::vec((0..90_u64, 0..3_u64, 1..5_000_u64), 1..100),
    ) {
        let mut now = 0;
        let sent: Vec<(u64, u64)> = traffic.iter().map(|(half_ms, nanos, octets)| {
            now += half_ms * 500_000 + nanos;
            (now, *octets)
        }).collect();
        let mut line = Line::traced(RateTrace::new(moments.clone()).unwrap());
        let left: Vec<u64> = sent.iter()
            .map(|(at, octets)| line.transmit(Instant::from_nanos(*at), *octets).as_nanos())
            .collect();
        prop_assert_eq!(left, plain(&moments, &sent));
    }

    #[test]
    fn packets_arrive_in_the_order_in_which_they_came(profile in profiles(), traffic in traffic()) {
        let profile = profile
            .with_jitter(Duration::from_millis(5))
            .with_duplicates(percent(30));
        let arrivals = carry(&mut Channel::new(profile, 1), &traffic);
        let numbers: Vec<usize> = arrivals.iter().map(|(_, packet)| number(packet)).collect();
        prop_assert!(numbers.is_sorted());
        prop_assert!(arrivals.iter().map(|(at, _)| at).is_sorted());
    }

    #[test]
    fn no_window_of_time_passes_more_than_the_rate_and_one_packet(
        profile in profiles(), traffic in traffic(),
    ) {
        let arrivals = carry(&mut Channel::new(profile, 1), &traffic);
        for (first, (from, _)) in arrivals.iter().enumerate() {
            let mut octets = 0_u128;
            for (to, packet) in &arrivals[first + 1..] {
                octets += packet.len() as u128;
                // A nanosecond is the finest that instants can tell.
                let nanos = to.since(*from).as_nanos() + 1;
                let allowed = u128::from(profile.rate.octets_per_s()) * nanos;
                prop_assert!(octets * NANOS_PER_S <= allowed, "{octets} octets in {nanos} ns");
            }
        }
    }

    #[test]
    fn a_packet_that_found_nothing_before_it_arrives_after_its_own_time_and_the_delay(
        profile in profiles(), octets in 8..100_000_usize, at in 0..u64::from(u32::MAX),
    ) {
        let mut channel = Channel::new(profile, 1);
        let start = Instant::from_nanos(at);
        channel.handle_packet(start, packet(0, octets));
        let leaving = (octets as u128 * NANOS_PER_S).div_ceil(u128::from(profile.rate.octets_per_s()));
        let arrival = start + Duration::from_nanos(leaving as u64) + profile.delay;
        prop_assert_eq!(channel.poll_timeout(), Some(arrival));
        prop_assert_eq!(channel.poll_packet(Instant::from_nanos(arrival.as_nanos() - 1)), None);
        prop_assert!(channel.poll_packet(arrival).is_some());
    }

    #[test]
    fn the_queue_holds_no_more_than_its_limit_and_every_packet_is_accounted_for(
        profile in profiles(), traffic in traffic(),
    ) {
        let mut channel = Channel::new(profile, 1);
        let (mut now, mut largest) = (Instant::START, 0);
        for (place, &(pause, octets)) in traffic.iter().enumerate() {
            now = now + Duration::from_nanos(pause / 50);
            channel.handle_packet(now, packet(place, octets));
            // An empty queue takes one packet of any length, and holds it while others come.
            largest = largest.max(octets.max(8) as u64);
            prop_assert!(channel.waiting_octets() <= profile.queue_octets.max(largest));
        }
        let mut arrivals = Vec::new();
        drain(&mut channel, None, &mut arrivals);
        let counters = channel.counters();
        prop_assert_eq!(counters.delivered as usize, arrivals.len());
        prop_assert_eq!((counters.delivered + counters.overflowed) as usize, traffic.len());
        prop_assert_eq!(channel.waiting_octets(), 0);
    }

    #[test]
    fn how_often_the_channel_is_looked_at_changes_nothing_but_when_a_packet_is_seen(
        profile in profiles(), traffic in traffic(), seed in any::<u64>(),
    ) {
        let profile = profile
            .with_loss(Loss::independent(100_000_000).unwrap())
            .with_jitter(Duration::from_millis(5))
            .with_duplicates(percent(30))
            .with_reordering(percent(20), Duration::from_millis(3));
        let mut seldom = Channel::new(profile, seed);
        let mut now = Instant::START;
        for (place, &(pause, octets)) in traffic.iter().enumerate() {
            now = now + Duration::from_nanos(pause);
            seldom.handle_packet(now, packet(place, octets));
        }
        let end = now + Duration::from_secs(10_000);
        let late: Vec<Bytes> = std::iter::from_fn(|| seldom.poll_packet(end)).collect();
        let arrivals = carry(&mut Channel::new(profile, seed), &traffic);
        prop_assert_eq!(late, arrivals.into_iter().map(|(_, packet)| packet).collect::<Vec<_>>());
    }

    #[test]
    fn a_packet_arrives_once_or_twice_each_time_in_its_time_or_held_up(
        profile in profiles(), traffic in traffic(), seed in any::<u64>(),
    ) {
        let mut plain = vec![None; traffic.len()];
        for (at, packet) in carry(&mut Channel::new(profile, seed), &traffic) {
            plain[number(&packet)] = Some(at);
        }
        let by = Duration::from_micros(1_700);
        let profile = profile.with_duplicates(percent(30)).with_reordering(percent(20), by);
        let mut channel = Channel::new(profile, seed);
        let (mut times, mut held_up) = (vec![0_u64; traffic.len()], 0);
        for (at, packet) in carry(&mut channel, &traffic) {
            let place = number(&packet);
            times[place] += 1;
            let expected = plain[place].unwrap();
            prop_assert!(at == expected || at == expected + by, "{place}");
            held_up += u64::from(at > expected);
        }
        // The queue has let in the same packets, however they then travel.
        for (times, plain) in times.iter().zip(&plain) {
            prop_assert!((1..=2).contains(times) || (*times == 0 && plain.is_none()));
        }
        let counters = channel.counters();
        prop_assert_eq!(counters.reordered, held_up);
        let twice = times.iter().filter(|times| **times == 2).count();
        prop_assert_eq!(counters.duplicated as usize, twice);
        prop_assert_eq!(counters.delivered, times.iter().sum::<u64>());
    }

    #[test]
    fn the_same_seed_loses_the_same_packets(traffic in traffic(), seed in any::<u64>()) {
        let loss = Loss::independent(300_000_000).unwrap();
        let profile = Profile::new(rate(1_000_000_000), Duration::from_millis(1)).with_loss(loss);
        let first = carry(&mut Channel::new(profile, seed), &traffic);
        let second = carry(&mut Channel::new(profile, seed), &traffic);
        prop_assert_eq!(first, second);
    }
}

#[test]
fn the_rate_is_met_to_the_nanosecond_over_many_packets() {
    // A third of a nanosecond is left over at every octet.
    let profile = Profile::new(rate(3_000_000), Duration::ZERO).with_queue_octets(1 << 30);
    let mut channel = Channel::new(profile, 1);
    for place in 0..100_000 {
        channel.handle_packet(Instant::START, packet(place, 10));
    }
    let mut arrivals = Vec::new();
    drain(&mut channel, None, &mut arrivals);
    let last = arrivals.last().unwrap().0;
    // 1,000,000 octets at 3,000,000 a second, rounded up.
    assert_eq!(last.as_nanos(), 333_333_334);
}

#[test]
fn what_left_is_told_apart_from_what_was_cut_or_met_nobody() {
    // Each packet takes a millisecond to leave, and a second to arrive.
    let profile = Profile::new(rate(1_000_000), Duration::from_secs(1));
    let mut channel = Channel::new(profile, 1);
    for place in 0..5 {
        channel.handle_packet(Instant::START, packet(place, 1_000));
    }
    let end = Instant::START + Duration::from_micros(2_500);
    channel.handle_contact(end, Contact::Down);
    let counters = channel.counters();
    assert_eq!(
        (counters.left, counters.left_octets, counters.cut),
        (2, 2_000, 3)
    );
    let arrival = end + Duration::from_secs(1);
    let first = channel.poll_packet(arrival).unwrap();
    channel.handle_refusal(&first);
    assert!(channel.poll_packet(arrival).is_some());
    let counters = channel.counters();
    assert_eq!((counters.delivered, counters.delivered_octets), (1, 1_000));
    assert_eq!((counters.left, counters.cut), (2, 4));
}

#[test]
fn packets_are_lost_as_often_as_the_profile_says() {
    let loss = Loss::independent(10_000_000).unwrap();
    let profile = Profile::new(rate(1_000_000_000), Duration::ZERO)
        .with_queue_octets(u64::MAX)
        .with_loss(loss);
    let mut channel = Channel::new(profile, 42);
    let traffic: Traffic = (0..100_000).map(|_| (10, 8)).collect();
    carry(&mut channel, &traffic);
    let Counters {
        lost, delivered, ..
    } = channel.counters();
    assert_eq!(lost + delivered, 100_000);
    // Five standard deviations of a binomial distribution about 1,000.
    assert!((843..=1_157).contains(&lost), "{lost} of 100,000 at 1 %");
}

#[test]
fn packets_are_doubled_and_held_up_as_often_as_the_profile_says() {
    let profile = Profile::new(rate(1_000_000_000), Duration::ZERO)
        .with_queue_octets(u64::MAX)
        .with_duplicates(percent(1))
        .with_reordering(percent(2), Duration::from_micros(50));
    let mut channel = Channel::new(profile, 42);
    let traffic: Traffic = (0..100_000).map(|_| (10, 8)).collect();
    carry(&mut channel, &traffic);
    let counters = channel.counters();
    assert_eq!(counters.delivered, 100_000 + counters.duplicated);
    // Five standard deviations of binomial distributions about 1,000 and 2,020.
    let Counters {
        duplicated,
        reordered,
        ..
    } = counters;
    assert!((843..=1_157).contains(&duplicated), "{duplicated} at 1 %");
    assert!((1_798..=2_242).contains(&reordered), "{reordered} at 2 %");
}

#[test]
fn what_is_held_up_is_overtaken_by_what_comes_meanwhile() {
    let mut overtaken = 0;
    for seed in 0..100 {
        // Each takes a millisecond to leave.
        let profile = Profile::new(rate(1_000_000), Duration::from_millis(20))
            .with_reordering(percent(50), Duration::from_micros(1_500));
        let traffic: Traffic = vec![(0, 1_000); 3];
        let mut channel = Channel::new(profile, seed);
        let arrivals = carry(&mut channel, &traffic);
        let order: Vec<usize> = arrivals.iter().map(|(_, packet)| number(packet)).collect();
        // Not by the one after the next: that is two milliseconds behind.
        let possible = [[0, 1, 2], [1, 0, 2], [0, 2, 1]];
        assert!(
            possible.iter().any(|possible| order == possible),
            "{order:?}"
        );
        overtaken += u32::from(!order.is_sorted());
    }
    // Half of all have a packet that is held up before one that is not.
    assert!((25..=75).contains(&overtaken), "{overtaken} of 100");
}

#[test]
fn what_has_left_outlives_the_contact_and_what_waits_does_not() {
    let profile = Profile::new(rate(1_000), Duration::from_secs(5));
    let mut channel = Channel::new(profile, 1);
    for place in 0..3 {
        channel.handle_packet(Instant::START, packet(place, 1_000));
    }
    let cut = Instant::START + Duration::from_millis(1_500);
    channel.handle_contact(cut, Contact::Down);
    channel.handle_packet(cut, packet(3, 8));
    let mut arrivals = Vec::new();
    drain(&mut channel, None, &mut arrivals);
    let [(at, first)] = arrivals.as_slice() else {
        panic!("one packet had left: {arrivals:?}");
    };
    assert_eq!((at.as_nanos(), number(first)), (6_000_000_000, 0));
    assert_eq!(channel.counters().cut, 3);
    assert_eq!(channel.waiting_octets(), 0);

    let back = Instant::START + Duration::from_secs(10);
    channel.handle_contact(back, Contact::Up);
    channel.handle_packet(back, packet(4, 1_000));
    assert_eq!(channel.poll_timeout(), Some(back + Duration::from_secs(6)));
}

#[test]
fn a_packet_larger_than_the_queue_crosses_alone() {
    let profile = Profile::new(rate(1_000_000), Duration::ZERO).with_queue_octets(100);
    let mut channel = Channel::new(profile, 1);
    channel.handle_packet(Instant::START, packet(0, 1_000));
    channel.handle_packet(Instant::START, packet(1, 8));
    let mut arrivals = Vec::new();
    drain(&mut channel, None, &mut arrivals);
    assert_eq!(arrivals.len(), 1);
    assert_eq!(channel.counters().overflowed, 1);
}

#[test]
fn empty_packets_do_not_escape_the_bounds() {
    let profile = Profile::new(rate(1_000), Duration::ZERO).with_queue_octets(10);
    let mut channel = Channel::new(profile, 1);
    for _ in 0..1_000 {
        channel.handle_packet(Instant::START, Bytes::new());
    }
    assert_eq!(channel.waiting_octets(), 10);
    assert_eq!(channel.counters().overflowed, 990);
}

#[test]
fn what_is_no_profile_is_refused() {
    assert_eq!(Rate::from_octets_per_s(0), Err(ProfileError::NoRate));
    assert_eq!(Loss::independent(0), Ok(Loss::None));
    assert_eq!(
        Loss::independent(1_000_000_001),
        Err(ProfileError::MoreThanAll(1_000_000_001))
    );
    assert_eq!(
        Part::of_billion(1_000_000_001),
        Err(ProfileError::MoreThanAll(1_000_000_001))
    );
}

/// Lengths of runs of packets that arrive (false) or are lost (true), of a million packets.
fn runs(loss: Loss) -> Vec<(bool, u32)> {
    let mut dice = dhow_channel::Dice::new(7);
    let mut runs: Vec<(bool, u32)> = Vec::new();
    for _ in 0..1_000_000 {
        let is_lost = dice.loses(loss);
        match runs.last_mut() {
            Some((same, count)) if *same == is_lost => *count += 1,
            _ => runs.push((is_lost, 1)),
        }
    }
    runs
}

#[test]
fn losses_in_bursts_are_as_many_and_as_long_as_they_are_to_be() {
    for (per_billion, mean) in [(10_000_000, 5), (200_000_000, 50), (500_000_000, 2)] {
        let runs = runs(Loss::bursts(per_billion, mean).unwrap());
        let bursts: Vec<u32> = runs.iter().filter(|run| run.0).map(|run| run.1).collect();
        let lost: u32 = bursts.iter().sum();
        let expected = per_billion / 1_000;
        assert!(lost.abs_diff(expected) < expected / 10, "{lost} {expected}");
        let length = 100 * lost / u32::try_from(bursts.len()).unwrap();
        assert!(length.abs_diff(100 * mean) < 10 * mean, "{length} {mean}");
    }
    assert_eq!(Loss::bursts(5, 1), Loss::independent(5));
    let error = Loss::bursts(900_000_000, 2).unwrap_err().to_string();
    assert!(error.contains("bursts of more than 2"), "{error}");
}

#[test]
fn packets_that_are_late_stay_in_order_and_within_the_jitter() {
    let jitter = Duration::from_millis(10);
    let rate = Rate::from_octets_per_s(1_000_000).unwrap();
    let delay = Duration::from_millis(20);
    let mut channel = Channel::new(Profile::new(rate, delay).with_jitter(jitter), 3);
    let mut late = Vec::new();
    for number in 0..200_u8 {
        let sent = Instant::START + Duration::from_millis(100) * u32::from(number);
        channel.handle_packet(sent, Bytes::copy_from_slice(&[number; 1_000]));
        // It leaves after a millisecond.
        assert!(
            channel
                .poll_packet(sent + Duration::from_millis(1))
                .is_none()
        );
        let at = channel.poll_timeout().unwrap();
        assert_eq!(channel.poll_packet(at).unwrap()[0], number);
        late.push(at.since(sent) - delay - Duration::from_millis(1));
    }
    assert!(late.iter().all(|late| *late <= jitter));
    assert!(late.iter().any(|late| *late < jitter / 10));
    assert!(late.iter().any(|late| *late > jitter * 9 / 10));
}

#[test]
fn a_trace_begins_when_it_is_told_to_and_goes_on_while_there_is_no_contact() {
    let trace = RateTrace::new(vec![100, 200]).unwrap();
    let profile = Profile::new(trace.mean(), Duration::ZERO);
    let mut channel = Channel::new(profile, 1).with_trace(trace);
    let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    channel.handle_start(ms(50), ms(50));
    channel.handle_packet(ms(50), packet(0, 1504));
    channel.handle_packet(ms(50), packet(1, 1504));
    assert_eq!(channel.poll_timeout(), Some(ms(150)));
    assert!(channel.poll_packet(ms(150)).is_some());
    // A packet that is cut off leaves its later moment to others, but no moment that is over.
    channel.handle_contact(ms(160), Contact::Down);
    channel.handle_contact(ms(170), Contact::Up);
    for number in 2..4 {
        channel.handle_packet(ms(180), packet(number, 1504));
    }
    for at in [250, 350] {
        assert_eq!(channel.poll_timeout(), Some(ms(at)));
        assert!(channel.poll_packet(ms(at)).is_some());
    }
    assert_eq!(channel.counters().cut, 1);
}

#[test]
fn what_waits_when_a_trace_begins_leaves_by_the_trace_from_then_on() {
    let trace = RateTrace::new(vec![1, 500, 501]).unwrap();
    let profile = Profile::new(trace.mean(), Duration::ZERO);
    let mut channel = Channel::new(profile, 1).with_trace(trace);
    let ms = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    // The second waits in a gap that the beginning ends; the third comes later, and leaves later.
    for number in 0..2 {
        channel.handle_packet(ms(0), packet(number, 1504));
    }
    channel.handle_start(ms(100), ms(100));
    channel.handle_packet(ms(100), packet(2, 1504));
    for (number, at) in [(0, 100), (1, 101), (2, 600)] {
        let arrived = channel.poll_timeout().map(|_| channel.poll_packet(ms(at)));
        assert_eq!(arrived.flatten().as_ref().map(crate::number), Some(number));
        assert_eq!(channel.poll_packet(ms(at)), None, "a burst at {at} ms");
    }
    // A rate that never changes has no beginning.
    let mut even = Channel::new(Profile::new(rate(1_000), Duration::ZERO), 1);
    even.handle_packet(ms(0), packet(0, 1_000));
    even.handle_start(ms(500), ms(500));
    assert_eq!(even.poll_timeout(), Some(ms(1_000)));
}
