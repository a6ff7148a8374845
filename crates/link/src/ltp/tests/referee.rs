//! A referee that reads both directions of the traffic and knows the standard, but no engine.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;

use super::super::segment::*;
use super::super::wire::Packet;
use crate::datagram::span::Spans;

/// The segments that passed in each session, by its originator and number.
#[derive(Debug, Default)]
pub(super) struct Referee {
    sessions: BTreeMap<SessionId, Session>,
    pub(super) counts: Counts,
}

/// Segments that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) data: usize,
    pub(super) octets: u64,
    pub(super) checkpoints: usize,
    pub(super) reports: usize,
    pub(super) unasked: usize,
    pub(super) cancels: usize,
}

#[derive(Debug, Default)]
struct Session {
    /// Octets that the sender sent, and that arrived.
    sent: Spans,
    arrived: Spans,
    /// The greatest upper bound of red segments that arrived.
    red_arrived: u64,
    red_end: Option<u64>,
    length: Option<u64>,
    last_red: Option<u64>,
    first_green: Option<u64>,
    checkpoints: BTreeMap<u64, DataHead>,
    checkpoints_arrived: BTreeSet<u64>,
    reports: BTreeMap<u64, Report>,
    /// Reports that arrived and must be acknowledged, and acknowledgments that were sent.
    report_arrivals: usize,
    reports_arrived: BTreeSet<u64>,
    report_acks: usize,
    acked: BTreeSet<u64>,
    /// Reports whose acknowledgment arrived.
    acks_arrived: BTreeSet<u64>,
    cancels: BTreeMap<Party, Cancels>,
}

#[derive(Debug, Default)]
struct Cancels {
    reason: Option<Reason>,
    arrivals: usize,
    acks: usize,
}

impl Session {
    /// The party has cancelled, or has acknowledged that the other has.
    fn is_over_for(&self, party: Party) -> bool {
        self.cancels.iter().any(|(by, cancels)| {
            if *by == party {
                cancels.reason.is_some()
            } else {
                cancels.acks > 0
            }
        })
    }
}

/// The only segment of a datagram: engines send one in each.
pub(super) fn segment_of(datagram: &[u8]) -> Segment {
    let datagram = Bytes::copy_from_slice(datagram);
    let mut packet = Packet::new(&datagram);
    let segment = packet
        .next()
        .expect("a segment")
        .expect("a good one")
        .segment;
    assert!(packet.next().is_none(), "one segment a datagram");
    segment
}

impl Referee {
    /// A datagram has left.
    pub(super) fn sent(&mut self, datagram: &[u8]) {
        let segment = segment_of(datagram);
        let session = self.sessions.entry(segment.session()).or_default();
        let counts = &mut self.counts;
        match segment {
            Segment::Data(data) => {
                assert!(!session.is_over_for(Party::Sender), "data after the end");
                counts.data += 1;
                counts.octets += data.head.length;
                counts.checkpoints += usize::from(data.head.serials.is_some());
                session.data_sent(&data.head);
            }
            Segment::Report(_, report) => {
                assert!(
                    !session.is_over_for(Party::Receiver),
                    "a report after the end"
                );
                counts.reports += 1;
                counts.unasked += usize::from(report.checkpoint == 0);
                // RFC 5326 6.14.
                let is_over = session.acks_arrived.contains(&report.serial);
                assert!(!is_over, "a report after its acknowledgment");
                session.report_sent(report);
            }
            Segment::ReportAck(_, serial) => {
                // RFC 5326 6.13.
                assert!(session.reports_arrived.contains(&serial), "it came");
                session.report_acks += 1;
                session.acked.insert(serial);
            }
            Segment::Cancel(_, by, reason) => {
                counts.cancels += 1;
                let known = session.cancels.entry(by).or_default();
                // RFC 5326 6.16: the same reason again.
                assert!(known.reason.is_none_or(|known| known == reason));
                known.reason = Some(reason);
            }
            Segment::CancelAck(_, by) => {
                let cancels = session.cancels.entry(by).or_default();
                cancels.acks += 1;
                // RFC 5326 6.17: one for each cancellation that came.
                assert!(cancels.acks <= cancels.arrivals);
            }
        }
    }

    /// A datagram has arrived.
    pub(super) fn arrived(&mut self, datagram: &[u8]) {
        let segment = segment_of(datagram);
        let session = self.sessions.entry(segment.session()).or_default();
        match segment {
            Segment::Data(data) => {
                session.arrived.add(data.head.offset, data.head.end());
                if data.head.kind.is_red() {
                    session.red_arrived = session.red_arrived.max(data.head.end());
                }
                if let Some(serials) = data.head.serials {
                    session.checkpoints_arrived.insert(serials.checkpoint);
                }
            }
            Segment::Report(_, report) => {
                session.report_arrivals += 1;
                session.reports_arrived.insert(report.serial);
            }
            Segment::Cancel(_, by, _) => {
                session.cancels.entry(by).or_default().arrivals += 1;
            }
            Segment::ReportAck(_, serial) => {
                session.acks_arrived.insert(serial);
            }
            Segment::CancelAck(..) => {}
        }
    }

    /// Nothing passes any more: whatever had to be answered was.
    pub(super) fn end(&self) {
        for (id, session) in &self.sessions {
            // RFC 5326 6.13: a report must be acknowledged, each time.
            assert_eq!(session.report_acks, session.report_arrivals, "{id:?}");
            for (by, cancels) in &session.cancels {
                assert_eq!(cancels.acks, cancels.arrivals, "{id:?} {by:?}");
            }
        }
    }

    /// Sessions in which the party cancelled, with the reason.
    pub(super) fn cancelled(&self, by: Party) -> Vec<Reason> {
        let all = self.sessions.values();
        all.filter_map(|session| session.cancels.get(&by)?.reason)
            .collect()
    }
}

impl Session {
    fn data_sent(&mut self, head: &DataHead) {
        // RFC 5326 4.1: red octets are a prefix.
        if head.kind.is_red() {
            assert!(self.first_green.is_none_or(|green| head.end() <= green));
            self.last_red = self.last_red.max(Some(head.offset));
        } else {
            assert!(self.last_red.is_none_or(|red| head.offset > red));
            assert!(self.red_end.is_none_or(|red_end| head.offset >= red_end));
            self.first_green = Some(self.first_green.unwrap_or(head.offset).min(head.offset));
            // Green octets are never sent again (2).
            assert!(!self.sent.within(head.offset, head.end()).any(|_| true));
        }
        if head.kind.is_red_end() {
            assert_eq!(*self.red_end.get_or_insert(head.end()), head.end());
        }
        if head.kind.is_block_end() {
            assert_eq!(*self.length.get_or_insert(head.end()), head.end());
        }
        assert!(self.length.is_none_or(|length| head.end() <= length));
        self.sent.add(head.offset, head.end());
        if let Some(serials) = head.serials {
            self.checkpoint_sent(head, serials);
        }
    }

    /// RFC 5326 3.2.1.
    fn checkpoint_sent(&mut self, head: &DataHead, serials: Serials) {
        match self.checkpoints.get(&serials.checkpoint) {
            Some(before) => {
                let same = (before.kind, before.end(), before.serials);
                assert_eq!((head.kind, head.end(), head.serials), same);
                assert!(head.offset >= before.offset);
            }
            None => {
                let last = self.checkpoints.last_key_value();
                assert!(last.is_none_or(|(last, _)| last + 1 == serials.checkpoint));
                self.checkpoints.insert(serials.checkpoint, *head);
            }
        }
        assert!(serials.report == 0 || self.reports_arrived.contains(&serials.report));
    }

    /// RFC 5326 3.2.2 and 6.11.
    fn report_sent(&mut self, report: Report) {
        if let Some(before) = self.reports.get(&report.serial) {
            return assert_eq!(*before, report, "a report is retransmitted as it was");
        }
        assert!(!report.claims.is_empty());
        for (start, end) in &report.claims {
            assert!(
                self.arrived.has_all(*start, *end),
                "a claim of what never came"
            );
        }
        let last = self.reports.last_key_value();
        assert!(last.is_none_or(|(last, _)| last + 1 == report.serial));
        if report.checkpoint == 0 {
            // It may have been queued when the end of the red part came, of which a report is asked for.
            let is_before = self.red_end.is_none_or(|red_end| report.upper < red_end);
            assert!(is_before && report.upper <= self.red_arrived);
        } else {
            assert!(self.checkpoints_arrived.contains(&report.checkpoint));
            let checkpoint = self.checkpoints[&report.checkpoint];
            // Or all of the red part, when that is there.
            let is_whole = report.lower == 0 && report.claims == [(0, report.upper)];
            assert!(
                report.upper <= checkpoint.end() || is_whole && self.red_end == Some(report.upper)
            );
        }
        if self.reports.is_empty() {
            assert_eq!(report.lower, 0, "the first report begins at the start");
        }
        self.reports.insert(report.serial, report);
    }
}
