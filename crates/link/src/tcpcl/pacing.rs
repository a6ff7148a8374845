//! The length of segments to send: as much as leaves in a tenth of a second, so that a slow link's end costs little that was not acknowledged
//! yet, and neither an acknowledgment nor a small bundle waits long for a segment's end.

use core::time::Duration;

use dhow_bundle::Instant;

/// Octets of the first segments, while nothing is known of the link.
const START_OCTETS: u64 = 16 * 1024;

/// The shortest: heads of messages should be little beside it.
const LEAST_OCTETS: u64 = 4 * 1024;

/// The time that a segment may take.
const SEGMENT_TIME: Duration = Duration::from_millis(100);

/// The rate is measured for so long at least.
const MEASURED_TIME: Duration = Duration::from_millis(10);

/// The length of segments, by what the peer acknowledges.
#[derive(Debug)]
pub(super) struct SegmentLength {
    octets: u64,
    most: u64,
    /// The beginning of the measurement; none while nothing is under way.
    since: Option<Instant>,
    /// Octets that were acknowledged since.
    acknowledged: u64,
}

impl SegmentLength {
    /// A length of at most so many octets.
    pub(super) const fn new(most: u64) -> Self {
        let octets = if most < START_OCTETS {
            most
        } else {
            START_OCTETS
        };
        Self {
            octets,
            most,
            since: None,
            acknowledged: 0,
        }
    }

    /// No length at all.
    pub(super) const fn unbounded() -> Self {
        Self {
            octets: u64::MAX,
            ..Self::new(u64::MAX)
        }
    }

    /// Octets of the next segment, at most.
    pub(super) const fn octets(&self) -> u64 {
        self.octets
    }

    /// The peer takes no longer ones.
    pub(super) fn limit(&mut self, most: u64) {
        self.most = self.most.min(most);
        self.octets = self.octets.min(self.most);
    }

    /// A mistake: a segment is one octet longer than the peer takes.
    pub(super) const fn exceed(&mut self) {
        self.most = self.most.saturating_add(1);
        self.octets = self.most;
    }

    /// A segment begins to leave.
    pub(super) fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Nothing is under way any more.
    pub(super) const fn rest(&mut self) {
        self.since = None;
        self.acknowledged = 0;
    }

    /// The peer has so many more octets.
    pub(super) fn acknowledge(&mut self, now: Instant, octets: u64) {
        self.acknowledged = self.acknowledged.saturating_add(octets);
        let Some(since) = self.since else { return };
        let took = now.since(since);
        if took < MEASURED_TIME || self.acknowledged < self.octets {
            return;
        }
        let scaled = u128::from(self.acknowledged) * SEGMENT_TIME.as_nanos();
        let fitting = u64::try_from(scaled / took.as_nanos().max(1)).unwrap_or(u64::MAX);
        // One measurement may be of acknowledgments that came late, or all at once.
        let near = fitting.clamp(self.octets / 2, self.octets.saturating_mul(2));
        self.octets = near.max(LEAST_OCTETS).min(self.most);
        self.since = Some(now);
        self.acknowledged = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length after ten seconds on a link of so many octets a second, whose acknowledgments come late.
    fn settled(rate: u64, late: Duration) -> u64 {
        let mut length = SegmentLength::new(256 * 1024);
        let mut now = Instant::START;
        length.begin(now);
        now = now + late;
        let end = now + Duration::from_secs(10);
        while now < end {
            let octets = length.octets();
            now = now + Duration::from_nanos(octets * 1_000_000_000 / rate);
            length.acknowledge(now, octets);
        }
        length.octets()
    }

    #[test]
    fn a_segment_takes_a_tenth_of_a_second_of_any_link() {
        for late in [Duration::ZERO, Duration::from_secs(1)] {
            assert_eq!(settled(8_000, late), LEAST_OCTETS);
            let slow = settled(250_000, late);
            assert!((20_000..30_000).contains(&slow), "{slow}");
            assert_eq!(settled(125_000_000, late), 256 * 1024);
        }
    }

    #[test]
    fn what_an_application_sends_now_and_then_shortens_nothing() {
        let mut length = SegmentLength::new(256 * 1024);
        for second in 0..100 {
            let now = Instant::START + Duration::from_secs(second);
            length.begin(now);
            length.acknowledge(now + Duration::from_millis(20), 100);
            length.rest();
        }
        assert_eq!(length.octets(), START_OCTETS);
    }
}
