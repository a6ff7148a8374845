//! A receiver's account of the packets of a flow: their number, their delay, and the number missing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::recent::Recent;

/// Flows that are told apart; packets of further ones count as strangers.
const FLOWS_MAX: usize = 4_096;

/// The packets that arrived of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Packets, each number once.
    pub packets: u64,
    /// Octets of their payloads.
    pub octets: u64,
    /// Packets that are missing: numbers that were passed over and have not come since.
    pub lost: u64,
    /// Packets that came after one with a higher number.
    pub out_of_order: u64,
    /// Packets that came again: their numbers came before, or are [`super::RECENT_NUMBERS`] and more behind. Nothing else counts them.
    pub duplicates: u64,
    /// When the first came, nanoseconds since 1970.
    pub first_ns: u64,
    /// When the last came, nanoseconds since 1970.
    pub last_ns: u64,
    /// The jitter of packets (RFC 3550 6.4.1), nanoseconds; zero if packets do not say when they were sent.
    pub jitter_ns: f64,
    /// The time for which packets were on the way by both clocks; none if they do not say when they were sent.
    pub delay: Option<Delay>,
    first: u64,
    recent: Recent,
    last_transit_ns: Option<i128>,
}

/// The time for which packets were on the way, nanoseconds: by the receiver's clock less the sender's, which may be
/// negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The shortest.
    pub least_ns: i128,
    /// The longest.
    pub most_ns: i128,
    sum_ns: i128,
    count: u32,
}

impl Delay {
    /// The mean.
    #[must_use]
    pub fn mean_ns(&self) -> i128 {
        self.sum_ns / i128::from(self.count.max(1))
    }
}

impl Flow {
    /// A flow whose first packet has this number.
    #[must_use]
    pub const fn from_number(first: u64) -> Self {
        Self {
            packets: 0,
            octets: 0,
            lost: 0,
            out_of_order: 0,
            duplicates: 0,
            first_ns: 0,
            last_ns: 0,
            jitter_ns: 0.0,
            delay: None,
            first,
            recent: Recent::from_number(first),
            last_transit_ns: None,
        }
    }

    /// A packet came, of this number; when it was sent where it says so.
    pub fn count(&mut self, number: u64, octets: u64, at_ns: u64, sent_ns: Option<u64>) {
        if number >= self.recent.next() {
            self.lost += self.recent.pass_to(number);
            self.recent.take(number);
        } else if self.recent.take(number) {
            self.out_of_order += 1;
            // It was passed over, unless it is before the first that was expected.
            self.lost -= u64::from(number >= self.first);
        } else {
            self.duplicates += 1;
            return;
        }
        if self.packets == 0 {
            self.first_ns = at_ns;
        }
        self.packets += 1;
        self.octets += octets;
        self.last_ns = at_ns;
        if let Some(sent_ns) = sent_ns {
            self.time(i128::from(at_ns) - i128::from(sent_ns));
        }
    }

    /// The sender says which number it would have given next: those up to it that have not come are lost.
    pub fn end(&mut self, next: u64) {
        self.lost += self.recent.pass_to(next);
    }

    /// The number whose last 32 bits these are, where numbers begin anew after the last one of 32 bits.
    #[must_use]
    pub fn whole_number(&self, low: u32) -> u64 {
        self.recent.nearest(low)
    }

    /// Packets that were sent, as far as those that came and the sender tell.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.packets + self.lost
    }

    /// The time from the first packet to the last.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.last_ns.saturating_sub(self.first_ns))
    }

    fn time(&mut self, transit_ns: i128) {
        if let Some(last) = self.last_transit_ns.replace(transit_ns) {
            // RFC 3550 6.4.1: J += (|D| - J) / 16
            self.jitter_ns += (nanos_to_f64(transit_ns - last).abs() - self.jitter_ns) / 16.0;
        }
        let delay = self.delay.get_or_insert(Delay {
            least_ns: transit_ns,
            most_ns: transit_ns,
            sum_ns: 0,
            count: 0,
        });
        delay.least_ns = delay.least_ns.min(transit_ns);
        delay.most_ns = delay.most_ns.max(transit_ns);
        if let Some(count) = delay.count.checked_add(1) {
            delay.count = count;
            delay.sum_ns += transit_ns;
        }
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "differences of times are far below 2^53 ns"
)]
const fn nanos_to_f64(nanos: i128) -> f64 {
    nanos as f64
}

/// All flows that come to one receiver.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    flows: BTreeMap<(u64, SocketAddr), Flow>,
    /// Packets that are none of ours, or of a flow too many.
    pub strangers: u64,
}

impl Tally {
    /// The flow of this name and origin, from now on counted from the number 1; none where there are too many already.
    pub fn flow(&mut self, flow: u64, from: SocketAddr) -> Option<&mut Flow> {
        let is_full = self.flows.len() >= FLOWS_MAX;
        if is_full && !self.flows.contains_key(&(flow, from)) {
            return None;
        }
        let found = self.flows.entry((flow, from));
        Some(found.or_insert_with(|| Flow::from_number(1)))
    }

    /// Flows with their names and origins, in the order of these.
    pub fn flows(&self) -> impl Iterator<Item = (u64, SocketAddr, &Flow)> {
        self.flows
            .iter()
            .map(|((flow, from), counted)| (*flow, *from, counted))
    }

    /// Packets of all flows.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.flows.values().map(|flow| flow.packets).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_missing_are_lost_until_they_come() {
        let mut flow = Flow::from_number(1);
        for (at_ns, number) in (1..).zip([2, 3, 6, 5, 6, 5, 2]) {
            flow.count(number, 100, at_ns, None);
        }
        // 1 and 4 never came; 6, 5 and 2 came twice.
        assert_eq!((flow.packets, flow.lost, flow.out_of_order), (4, 2, 1));
        assert_eq!((flow.duplicates, flow.sent(), flow.octets), (3, 6, 400));
        assert_eq!((flow.first_ns, flow.last_ns), (1, 4));
        // The sender had given nine numbers, and says so again.
        flow.end(10);
        flow.end(10);
        flow.end(2);
        assert_eq!((flow.packets, flow.lost, flow.sent()), (4, 5, 9));
        // Packets that the sender said that it gave may still come.
        flow.count(9, 100, 9, None);
        assert_eq!((flow.packets, flow.lost, flow.duplicates), (5, 4, 3));
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        // RFC 3550 6.4.1: a sixteenth of what the difference of two transit times differs from the mean so far.
        let mut flow = Flow::from_number(1);
        for (number, sent, at) in [(1, 0, 1_000), (2, 100, 1_260), (3, 200, 1_200)] {
            flow.count(number, 1, at, Some(sent));
        }
        let after_two = 160.0 / 16.0;
        assert!((flow.jitter_ns - (after_two + (160.0 - after_two) / 16.0)).abs() < 1e-9);
        let delay = flow.delay.unwrap();
        assert_eq!(
            (delay.least_ns, delay.mean_ns(), delay.most_ns),
            (1_000, 1_053, 1_160)
        );
    }

    #[test]
    fn a_flow_too_many_is_a_stranger() {
        let mut tally = Tally::default();
        let from = SocketAddr::from(([127, 0, 0, 1], 9));
        for flow in 0..FLOWS_MAX {
            assert!(tally.flow(u64::try_from(flow).unwrap(), from).is_some());
        }
        assert!(tally.flow(u64::MAX, from).is_none());
        assert!(tally.flow(0, from).is_some());
    }
}
