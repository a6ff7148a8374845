//! The reports that sources get.

use bytes::Bytes;
use dhow_link::ltp::{EndReport, EndToEnd, Ends, Service, Status};
use std::time::Duration;

use super::block::{Block, Fate};
use super::station::Station;

/// The life of a report at least, seconds.
const REPORT_LIFE_S: u64 = 3_600;

/// Hops that a report may make.
const REPORT_HOPS: u8 = 64;

/// Reports that wait at a time, at most.
const MAX_REPORTS: usize = 4_096;

impl Station<'_> {
    /// Tell the source of a block its fate, if the source wants to know. There are no reports of reports.
    pub(super) fn report(&mut self, of: &EndToEnd, status: Status, claims: Vec<(u64, u64)>) {
        let waiting = self.blocks.values().filter(|it| it.octets.is_some());
        if !of.wants_report || of.is_report || waiting.count() >= MAX_REPORTS {
            return;
        }
        let report = EndReport {
            transfer: of.transfer,
            status,
            claims,
        };
        let octets = Bytes::from(report.encode());
        let length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        let end_to_end = EndToEnd {
            source: Service {
                engine: self.settings.engine,
                service: self.settings.way.service,
            },
            destination: of.source,
            transfer: self.own_transfer(),
            length: Some(length),
            life_s: of.life_s.max(REPORT_LIFE_S),
            hops: REPORT_HOPS,
            wants_report: false,
            is_report: true,
            is_congested: false,
        };
        let now = self.clock.now().monotonic;
        let life = Duration::from_secs(end_to_end.life_s.min(1 << 32));
        let mut block = Block::new(now, now + life);
        block.end_to_end = Some(end_to_end);
        block.fate = Fate::PassOn;
        block.octets = Some(octets);
        block.came.add(0, length);
        block.ends = Ends {
            red: Some(length),
            length: Some(length),
        };
        let number = self.add(block);
        self.start(number);
    }

    /// A number for a transfer of this engine. The time is in it, so that none comes twice after a restart.
    fn own_transfer(&mut self) -> u64 {
        let now = self.clock.now().dtn.as_unix_millis().unwrap_or(0);
        let number = (now << 20) | (self.next_transfer & 0xf_ffff);
        self.next_transfer += 1;
        number
    }
}
