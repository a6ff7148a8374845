//! The next segment of an outgoing session: RFC 5326 4.1 and 6.13.

use super::config::Config;
use super::segment::{DataHead, DataKind, Serials};
use super::session_out::SessionOut;
use super::wire::{data_head_octets, length_of};

/// Discretionary checkpoints of a session that wait for their reports, at most.
const MAX_DISCRETIONARY: usize = 256;

/// The next segment of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) head: DataHead,
    pub(super) cause: Cause,
}

/// The reason for which it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cause {
    /// The octets were not sent before.
    First,
    /// A report said that it is missing, so many retransmission cycles after it was sent first.
    Report { cycle: u32 },
    /// A checkpoint was not answered in time, or this is its copy.
    Timer,
}

impl SessionOut {
    /// The next segment with octets that were not sent yet, if they are there.
    pub(super) fn plan_first(&self, config: &Config, size: u64) -> Option<Plan> {
        let offset = self.sent;
        if !self.state.is_sending() || offset >= self.length {
            return None;
        }
        // RFC 5326 4.1: a segment must hold only red octets or only green ones.
        let head = match self.red.checked_sub(offset) {
            None | Some(0) => self.plan_green(config, size),
            Some(left) => self.plan_red(config, size, left),
        };
        (head.end() <= self.supplied()).then_some(Plan {
            head,
            cause: Cause::First,
        })
    }

    fn plan_green(&self, config: &Config, size: u64) -> DataHead {
        let left = self.length.saturating_sub(self.sent);
        let length = left.min(self.segment_room(config, size, self.sent, None));
        let kind = if length == left {
            DataKind::BlockGreenEnd
        } else {
            DataKind::Green
        };
        self.head(config, kind, self.sent, length, None)
    }

    fn plan_red(&self, config: &Config, size: u64, left: u64) -> DataHead {
        let offset = self.sent;
        // RFC 5326 3.2.1: a checkpoint that no report asked for must have a report serial number of zero.
        let serials = Serials {
            checkpoint: self.checkpoints.next_serial(),
            report: 0,
        };
        let (length, is_last) = self.cut(config, size, (offset, left), serials);
        if is_last {
            // RFC 5326 4.1: the last segment with red octets must be the end of the red part; 3.1.2: and a checkpoint.
            let kind = if self.red == self.length {
                DataKind::BlockRedEnd
            } else {
                DataKind::RedEnd
            };
            return self.head(config, kind, offset, length, Some(serials));
        }
        let every = config.checkpoint_octets;
        let since = offset
            .saturating_add(length)
            .saturating_sub(self.checkpointed);
        if every > 0 && since >= every && self.checkpoints.len() < MAX_DISCRETIONARY {
            let room = self.segment_room(config, size, offset, Some(serials));
            let length = room.min(left.saturating_sub(1)).max(1);
            return self.head(
                config,
                DataKind::RedCheckpoint,
                offset,
                length,
                Some(serials),
            );
        }
        self.head(config, DataKind::Red, offset, length, None)
    }

    /// The next segment with octets that were sent before: a checkpoint that nobody answered, or octets that a report
    /// said are missing.
    pub(super) fn plan_again(&self, config: &Config, size: u64) -> Option<Plan> {
        if !self.state.is_sending() {
            return None;
        }
        if let Some(mut head) = self.checkpoints.next_again() {
            // A path that takes less than it did takes the end of the segment: the report tells of the rest.
            let room = self.segment_room(config, size, head.offset, head.serials);
            let beyond = head.length.saturating_sub(room);
            head.offset = head.offset.saturating_add(beyond);
            head.length = head.length.saturating_sub(beyond);
            return Some(Plan {
                head,
                cause: Cause::Timer,
            });
        }
        let missing = self.rounds.next()?;
        let (offset, left) = (missing.start, missing.end.saturating_sub(missing.start));
        // RFC 5326 3.2.1: the serial number must be that of the report which asked for the octets.
        let serials = Serials {
            checkpoint: self.checkpoints.next_serial(),
            report: missing.report,
        };
        // RFC 5326 6.13: the last segment of the retransmission, and only that, must be a checkpoint.
        let (length, is_last) = if missing.is_last {
            self.cut(config, size, (offset, left), serials)
        } else {
            (
                left.min(self.segment_room(config, size, offset, None)),
                false,
            )
        };
        let (kind, serials) = if is_last {
            (DataKind::RedCheckpoint, Some(serials))
        } else {
            (DataKind::Red, None)
        };
        let cause = Cause::Report {
            cycle: missing.cycle,
        };
        let head = self.head(config, kind, offset, length, serials);
        Some(Plan { head, cause })
    }

    /// The length of the next segment of `left` octets whose last segment is a checkpoint, and whether it is that.
    fn cut(
        &self,
        config: &Config,
        size: u64,
        (offset, left): (u64, u64),
        serials: Serials,
    ) -> (u64, bool) {
        if left <= self.segment_room(config, size, offset, Some(serials)) {
            return (left, true);
        }
        let room = self.segment_room(config, size, offset, None);
        // Something is left for the checkpoint, whose head is longer.
        (room.min(left.saturating_sub(1)).max(1), false)
    }

    /// Octets of the block in a segment of up to `size` octets.
    fn segment_room(
        &self,
        config: &Config,
        size: u64,
        offset: u64,
        serials: Option<Serials>,
    ) -> u64 {
        let head = data_head_octets(self.id, config.service, offset, size, serials);
        let extensions = length_of(self.extensions_at(offset));
        size.saturating_sub(head).saturating_sub(extensions).max(1)
    }

    fn head(
        &self,
        config: &Config,
        kind: DataKind,
        offset: u64,
        length: u64,
        serials: Option<Serials>,
    ) -> DataHead {
        DataHead {
            session: self.id,
            kind,
            service: config.service,
            offset,
            length,
            serials,
        }
    }
}
