//! Reception reports: RFC 5326 6.11.

use alloc::vec::Vec;

use super::segment::{Report, SessionId};
use super::wire::{claim_octets, report_head_octets};
use crate::datagram::span::Spans;

/// The scope of a report, and its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The checkpoint that it answers; zero where nobody asked.
    pub(super) checkpoint: u64,
    pub(super) lower: u64,
    pub(super) upper: u64,
}

/// The report segments, of at most `room` octets each, that tell of all that has come within an answer's scope. Serial
/// numbers begin at `serial`. None where nothing has come: a report must have a claim (RFC 5326 3.2.2).
pub(super) fn reports(
    session: SessionId,
    received: &Spans,
    answer: Answer,
    mut serial: u64,
    room: u64,
) -> Vec<Report> {
    let mut all = Vec::new();
    let Answer {
        checkpoint,
        lower,
        upper,
    } = answer;
    // RFC 5326 6.11: the lower bound of the first segment must be the report's.
    let mut report = Report {
        serial,
        checkpoint,
        upper,
        lower,
        claims: Vec::new(),
    };
    let mut octets = report_head_octets(session, &report, room);
    for claim in received.within(lower, upper) {
        let more = claim_octets(report.lower, claim);
        if octets.saturating_add(more) > room && !report.claims.is_empty() {
            let end = report.claims.last().map_or(lower, |(_, end)| *end);
            serial = serial.saturating_add(1);
            let next = Report {
                serial,
                checkpoint,
                upper,
                lower: end,
                claims: Vec::new(),
            };
            octets = report_head_octets(session, &next, room);
            report.upper = end;
            all.push(core::mem::replace(&mut report, next));
        }
        octets = octets.saturating_add(claim_octets(report.lower, claim));
        report.claims.push(claim);
    }
    if !report.claims.is_empty() {
        // RFC 5326 6.11: the upper bound of the last segment must be the report's.
        all.push(report);
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::wire::{Envelope, write_report};
    use super::*;

    const SESSION: SessionId = SessionId {
        originator: 1 << 40,
        number: 77,
    };

    proptest! {
        /// Segments follow each other without a gap between scopes, fit, and claim all that has come and nothing else.
        #[test]
        fn segments_of_a_report_tell_of_its_scope_and_fit(
            steps in proptest::collection::vec((1_u64..3_000, 1_u64..3_000), 0..200),
            scope in (0_u64..100_000, 1_u64..400_000),
            room in 80_u64..400,
        ) {
            let mut received = Spans::default();
            let mut at = 0;
            for (gap, length) in steps {
                received.add(at + gap, at + gap + length);
                at += gap + length;
            }
            let answer = Answer { checkpoint: 9, lower: scope.0, upper: scope.0 + scope.1 };
            let all = reports(SESSION, &received, answer, 5, room);
            let expected: Vec<_> = received.within(answer.lower, answer.upper).collect();
            let claimed: Vec<_> = all.iter().flat_map(|report| report.claims.clone()).collect();
            prop_assert_eq!(&claimed, &expected);
            if let (Some(first), Some(last)) = (all.first(), all.last()) {
                prop_assert_eq!((first.lower, last.upper), (answer.lower, answer.upper));
            }
            for (serial, report) in (5..).zip(&all) {
                let mut out = Vec::new();
                write_report(&mut out, SESSION, report, (&Envelope::default()).into());
                prop_assert!(u64::try_from(out.len()).unwrap() <= room);
                prop_assert_eq!(report.serial, serial);
            }
            for pair in all.windows(2) {
                prop_assert_eq!(pair[0].upper, pair[1].lower);
            }
        }
    }
}
