//! The reports that sources get.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use dhow_link::ltp::{EndReport, EndToEnd, Ends, Service, Status};

use super::super::arriving::{ArrivingFile, UnnamedFile};
use super::super::finishing::Job;
use super::block::{Block, Fate};
use super::spool::{self, Trailer};
use super::station::Station;
use super::{Told, Work};

/// The life of a report at least, seconds.
const REPORT_LIFE_S: u64 = 3_600;

/// Hops that a report may make.
const REPORT_HOPS: u8 = 64;

/// Reports that wait at a time, at most.
pub(super) const MAX_REPORTS: usize = 4_096;

/// Octets of all reports that wait, about: in memory, and at a relay on its disk too.
const MAX_REPORTS_OCTETS: usize = 64 << 20;

/// The fate of a block, for its source.
pub(super) struct Tale {
    pub(super) of: EndToEnd,
    pub(super) status: Status,
    /// Offset and length of each part that came.
    pub(super) claims: Vec<(u64, u64)>,
    /// The file of the block, which nobody needs once this is told.
    pub(super) given_up: Option<PathBuf>,
    /// The time after which it is told: others may know better.
    pub(super) after: Duration,
}

impl Station<'_> {
    /// Tell the source of a block its fate, if the source wants to know. There are no reports of reports.
    pub(super) fn report(&mut self, tale: Tale) {
        let of = tale.of;
        let waiting = self.blocks.values().filter_map(|it| it.octets.as_ref());
        let (count, octets) = waiting.fold((0, 0), |(count, octets), it| {
            (count + 1, it.len().saturating_add(octets))
        });
        let has_room = count < MAX_REPORTS && octets < MAX_REPORTS_OCTETS;
        if !of.wants_report || of.is_report || !has_room {
            if of.wants_report && !has_room {
                let now = self.clock.now();
                self.note_once_a_while(now, || {
                    format!("{count} reports wait for their next hops: no more are made")
                });
            }
            return self.remove_file(tale.given_up);
        }
        let report = EndReport {
            transfer: of.transfer,
            status: tale.status,
            claims: tale.claims,
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
        block.octets = Some(octets.clone());
        block.given_up = tale.given_up;
        block.came.add(0, length);
        block.ends = Ends {
            red: Some(length),
            length: Some(length),
        };
        let is_later = !tale.after.is_zero();
        block.again = is_later.then_some(now + tale.after);
        let number = self.add(block);
        if matches!(self.settings.work, Work::Relay(_)) {
            if let Err(error) = self.keep_report(number, &end_to_end, octets) {
                self.report_kept(number, Err(error));
            }
        } else {
            self.let_go_of_given_up(number);
        }
        if !is_later {
            self.start(number);
        }
    }

    /// Have a report of a relay made durable among its blocks: it leaves from there after a restart.
    fn keep_report(&mut self, number: u64, of: &EndToEnd, octets: Bytes) -> io::Result<()> {
        let length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        let (name, expires_ms) = (spool::name(of), self.expires_ms(number));
        let trailer = Trailer::new(of, length, length, expires_ms);
        let mut file = ArrivingFile::new(UnnamedFile::create(&self.settings.directory, &name)?);
        file.take(0, octets)?;
        file.take(length, trailer.octets()?.into())?;
        file.write()?;
        let job = Job::Finish(number, file.into_unnamed(), name);
        self.finisher.begin(job);
        Ok(())
    }

    /// A report is durable, or not.
    pub(super) fn report_kept(&mut self, number: u64, kept: io::Result<PathBuf>) {
        match kept {
            Ok(path) => {
                if let Some(block) = self.blocks.get_mut(&number) {
                    block.path = Some(path);
                }
                self.let_go_of_given_up(number);
            }
            // The file of the block that it reports on stays until the report has left: from that it would be made again.
            Err(error) => self.watch.hear(Told::Note(format!(
                "a report cannot be written, and is made again only where its block is durable: {error}"
            ))),
        }
    }

    fn let_go_of_given_up(&mut self, number: u64) {
        let block = self.blocks.get_mut(&number);
        let path = block.and_then(|it| it.given_up.take());
        self.remove_file(path);
    }

    /// A number for a transfer of this engine. The time is in it, so that none comes twice after a restart.
    fn own_transfer(&mut self) -> u64 {
        let now = self.clock.now().dtn.as_unix_millis().unwrap_or(0);
        let number = (now << 20) | (self.next_transfer & 0xf_ffff);
        self.next_transfer += 1;
        number
    }
}
