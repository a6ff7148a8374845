//! Octets that passed a link of the kernel in one direction: those that left its end, but for those that the ends of contacts took.

use super::device::Counters;

/// Packets that the ends of contacts took of one direction. Packets that waited go with an interface that goes down; rules drop those that leave the
/// queue after them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// Packets that waited when an interface went down; the kernel counts them nowhere.
    waited: u64,
    /// Packets and octets that left while rules dropped all.
    dropped: (u64, u64),
    /// The counters when the rules came into force; none while there are none.
    since: Option<Counters>,
}

impl Taken {
    /// So many packets wait at an interface that goes down.
    pub(super) const fn wait(&mut self, packets: u64) {
        self.waited += packets;
    }

    /// From now on rules drop what leaves.
    pub(super) fn begin_dropping(&mut self, sent: Counters) {
        self.since.get_or_insert(sent);
    }

    /// Rules drop nothing any more.
    pub(super) fn end_dropping(&mut self, sent: Counters) {
        self.dropped = self.all_dropped(sent);
        self.since = None;
    }

    /// The part that passed of all that left by now, and the number of packets that contacts that ended took.
    pub(super) fn passed(&self, sent: Counters) -> (Counters, u64) {
        let (packets, octets) = self.all_dropped(sent);
        let passed = Counters {
            sent_packets: sent.sent_packets.saturating_sub(packets),
            sent_octets: sent.sent_octets.saturating_sub(octets),
            ..sent
        };
        (passed, self.waited + packets)
    }

    fn all_dropped(&self, sent: Counters) -> (u64, u64) {
        let since = self.since.unwrap_or(sent);
        (
            self.dropped.0 + sent.sent_packets.saturating_sub(since.sent_packets),
            self.dropped.1 + sent.sent_octets.saturating_sub(since.sent_octets),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leaves_outside_of_contacts_is_taken() {
        let sent = |packets| Counters {
            sent_packets: packets,
            sent_octets: packets * 10,
            ..Counters::default()
        };
        let told = |taken: &Taken, packets| {
            let (passed, lost) = taken.passed(sent(packets));
            (passed.sent_packets, passed.sent_octets, lost)
        };
        let mut taken = Taken::default();
        assert_eq!(told(&taken, 5), (5, 50, 0));
        taken.begin_dropping(sent(5));
        assert_eq!(told(&taken, 8), (5, 50, 3));
        taken.end_dropping(sent(9));
        assert_eq!(told(&taken, 12), (8, 80, 4));
        taken.begin_dropping(sent(12));
        taken.wait(2);
        assert_eq!(told(&taken, 13), (8, 80, 7));
    }
}
