//! Files as blocks of LTP, without bundles and without a node: one file is one block (docs/ltp.md).
//!
//! [`mod@sender`] sends files to one engine and [`mod@receiver`] takes what engines send; both run on the caller's thread, which their
//! [`socket`] makes wait. [`leaving`] reads the files that are sent, a batch of datagrams at a time, and a [`neighbour`] is the engine that they leave for. [`arriving`] writes those that
//! come, at the offsets of their segments, and [`finishing`] makes them durable and names them, on a thread of its own. [`share`] says which
//! engine or file makes room where there are too many. [`refusals`] and [`unheard`] have the words about datagrams that the system does not send, and about
//! those that are not authentic; [`why`] has the reasons for which a file fails that is sent.
//!
//! [`hops`] has engines that pass blocks on to far ones.
//!
//! Nothing here knows a segment: the engines are in `dhow_link::ltp`.

mod arriving;
mod finishing;
pub mod hops;
mod leaving;
mod neighbour;
mod peer;
pub mod receiver;
mod refusals;
pub mod sender;
mod share;
mod socket;
mod unheard;
pub mod why;

use std::time::Duration;

use dhow_link::datagram::Rate;
use dhow_link::ltp::{Config, MAX_BLOCK_OCTETS, MAX_MTU};

/// The client service of plain files: the first number for private use (RFC 7116 3.1.3).
pub const PLAIN_FILES: u64 = 1 << 14;

/// Largest file, octets.
pub const MAX_FILE_OCTETS: u64 = MAX_BLOCK_OCTETS;

/// The time between two looks at the caller's wish to end, at most.
const LOOK: Duration = Duration::from_millis(100);

/// The time that cancellations may take to leave and to be acknowledged, once the caller wants the end.
const LAST_WORDS: Duration = Duration::from_millis(1_500);

/// The time without an answer after which a sender gives up near the Earth.
const PATIENCE: Duration = Duration::from_secs(64);

/// Times that checkpoints are sent, near the Earth and far from it.
const TRANSMISSIONS: (u32, u32) = (64, 16);

/// Gaps of a block: as many as a loss of one in fifty leaves in two round trips of four minutes each at 100 Mbit/s.
const GAPS: usize = 65_536;

/// Reports in a session: those of a year of gaps, one each round trip, are less.
const REPORTS: u32 = 1 << 24;

/// Retransmission cycles that follow each other: more than a loss of one in two makes likely.
const CYCLES: u32 = 256;

/// The part of a round trip in which gaps are gathered before they are reported.
const REORDERING_PART: u32 = 64;

/// The wishes for both ends of a path.
#[derive(Clone, Debug)]
pub struct Way {
    /// Octets of UDP payload in a second.
    pub octets_per_s: u64,
    /// Octets of UDP payload in a datagram, at most.
    pub mtu_octets: u64,
    /// One-way light time.
    pub light_time: Duration,
    /// The client service.
    pub service: u64,
    /// Time that a session may be silent.
    pub silence: Duration,
    /// Octets of the cookie that is begun in each session; 0 for none.
    pub cookie_octets: u64,
}

impl Way {
    /// The settings of an engine.
    fn config(&self) -> Config {
        let usual = Config::default();
        let round_trip = self.light_time.saturating_mul(2);
        let wait = round_trip.saturating_add(usual.margin);
        let times = PATIENCE.as_millis() / wait.as_millis().max(1);
        let (near, far) = TRANSMISSIONS;
        Config {
            service: self.service,
            mtu: self.mtu_octets,
            // Receivers of files report gaps unasked, and ION cancels a session with a checkpoint before the end of its red part.
            checkpoint_octets: 0,
            rate: self.rate(),
            light_time: self.light_time,
            reordering: usual.reordering.max(round_trip / REORDERING_PART),
            transfer_mru: MAX_FILE_OCTETS,
            reassembly_octets: u64::MAX,
            gaps: GAPS,
            ranges: 2 * GAPS,
            transmissions: u32::try_from(times).unwrap_or(near).clamp(far, near),
            reports: REPORTS,
            cycles: CYCLES,
            idle_timeout: self.silence,
            cookie_octets: self.cookie_octets,
            ..usual
        }
    }

    /// The rate; at once may leave the octets of the time that a machine may be late.
    fn rate(&self) -> Rate {
        let rate = Rate {
            octets_per_s: self.octets_per_s,
            burst_octets: MAX_MTU.max(self.octets_per_s / 250),
        };
        rate.smooth()
    }

    /// The time between two batches: many datagrams in each, and little at once for the path's queues.
    fn pace(&self) -> Duration {
        let nanos = MAX_MTU.saturating_mul(1_000_000_000) / self.octets_per_s.max(1);
        Duration::from_nanos(nanos).min(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::Now;
    use dhow_bundle::storage::Piece;
    use dhow_link::datagram::Limit;
    use dhow_link::ltp::Engine;
    use dhow_link::stream::{LinkCommand, TransferId};
    use dhow_link::{Batch, DatagramLink as _};

    use super::*;

    /// Octets of a block of a megabyte that leave before any time has passed.
    fn at_once(octets_per_s: u64) -> u64 {
        let way = Way {
            octets_per_s,
            mtu_octets: 1_400,
            light_time: Duration::from_millis(50),
            service: PLAIN_FILES,
            silence: Duration::from_mins(10),
            cookie_octets: 0,
        };
        let (now, transfer, length) = (Now::default(), TransferId(0), 1 << 20);
        let mut engine = Engine::new(way.config(), 1, now);
        engine.handle_command(now, LinkCommand::Transmit { transfer, length });
        let octets = Piece::Octets(vec![0; 1 << 20].into());
        engine.handle_command(now, LinkCommand::Supply { transfer, octets });
        let (mut out, all) = (Batch::new(), usize::MAX);
        let limit = Limit {
            datagrams: all,
            octets: u64::MAX,
        };
        engine.poll_datagrams(now, limit, &mut out);
        out.octets()
    }

    #[test]
    fn no_more_leaves_at_once_than_in_a_tenth_of_a_second_unless_a_datagram_has_more() {
        assert!((1..=1_400).contains(&at_once(125)), "1 kbit/s");
        assert!((11_000..=12_500).contains(&at_once(125_000)), "1 Mbit/s");
        assert!((64_000..=65_507).contains(&at_once(1_250_000)), "10 Mbit/s");
        assert!(
            (490_000..=500_000).contains(&at_once(125_000_000)),
            "1 Gbit/s"
        );
    }
}
