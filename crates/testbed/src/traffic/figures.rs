//! Figures that a sender or receiver tells the testbed at its end.

use std::time::Duration;

use super::sender::Sent;
use super::tally::{Delay, Flow};
use crate::number::float;
use crate::yardstick::Figure;

/// Counts of one end of a flow of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    /// Octets of payload.
    pub octets: u64,
    /// Octets of them that were acknowledged; none where all that there are count.
    pub acknowledged: Option<u64>,
    /// Packets that left, or arrived; none of a connection's octets.
    pub packets: Option<u64>,
    /// The time in which they did.
    pub elapsed: Duration,
    /// Counts of a receiver alone.
    pub arrived: Option<Arrived>,
}

/// Times of packets on their way, as a receiver knows them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrived {
    /// Packets that are missing.
    pub lost: u64,
    /// Packets that came again; none where nobody says it.
    pub duplicates: Option<u64>,
    /// The change of the time between packets on the way (RFC 3550 6.4.1), nanoseconds.
    pub jitter_ns: f64,
    /// The time for which packets were on the way; none where they do not say when they were sent.
    pub delay: Option<Delay>,
}

impl From<&Flow> for Account {
    fn from(flow: &Flow) -> Self {
        Self {
            octets: flow.octets,
            acknowledged: None,
            packets: Some(flow.packets),
            elapsed: flow.elapsed(),
            arrived: Some(Arrived {
                lost: flow.lost,
                duplicates: Some(flow.duplicates),
                jitter_ns: flow.jitter_ns,
                delay: flow.delay,
            }),
        }
    }
}

impl From<&Sent> for Account {
    fn from(sent: &Sent) -> Self {
        Self {
            octets: sent.octets,
            acknowledged: sent.acknowledged,
            packets: Some(sent.packets),
            elapsed: sent.elapsed,
            arrived: None,
        }
    }
}

impl Account {
    /// `rate` in bit/s of payload, over a connection of what was acknowledged, `octets`, `packets`; and at a receiver of datagrams `lost`, a share of 1, `duplicates`, `jitter` and, where packets say when they were sent, `delay`,
    /// `delay_least` and `delay_most` in seconds.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        let figure = |name: &str, value: f64, unit: &str| Figure {
            figure: name.to_owned(),
            value,
            unit: unit.to_owned(),
        };
        let mut figures = vec![
            Figure::rate(
                "rate",
                self.acknowledged.unwrap_or(self.octets),
                self.elapsed.as_secs_f64(),
            ),
            figure("octets", float(self.octets), "octets"),
        ];
        let packets = self.packets.map(float);
        figures.extend(packets.map(|packets| figure("packets", packets, "packets")));
        let Some((arrived, packets)) = self.arrived.zip(packets) else {
            return figures;
        };
        let sent = (packets + float(arrived.lost)).max(1.0);
        figures.push(figure("lost", float(arrived.lost) / sent, "share"));
        let again = arrived.duplicates.map(float);
        figures.extend(again.map(|again| figure("duplicates", again, "packets")));
        // Of packets that do not say when they were sent it is not known.
        if let Some(delay) = arrived.delay {
            figures.push(figure("jitter", arrived.jitter_ns / 1e9, "s"));
            figures.push(figure("delay", seconds(delay.mean_ns()), "s"));
            figures.push(figure("delay_least", seconds(delay.least_ns), "s"));
            figures.push(figure("delay_most", seconds(delay.most_ns), "s"));
        }
        figures
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "a figure keeps nanoseconds for times of days"
)]
fn seconds(nanos: i128) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(account: &Account) -> Vec<(String, f64)> {
        let figures = account.figures().into_iter();
        figures.map(|it| (it.figure, it.value)).collect()
    }

    #[test]
    fn a_receiver_tells_rate_loss_jitter_and_delay() {
        let mut flow = Flow::from_number(1);
        for (number, sent_ns, at_ns) in [
            (1, 0, 2_000_000),
            (3, 500_000_000, 502_000_000),
            (3, 500_000_000, 503_000_000),
        ] {
            flow.count(number, 1_000, at_ns, Some(sent_ns));
        }
        let expected = [
            ("rate", 32_000.0),
            ("octets", 2_000.0),
            ("packets", 2.0),
            ("lost", 1.0 / 3.0),
            ("duplicates", 1.0),
            ("jitter", 0.0),
            ("delay", 0.002),
            ("delay_least", 0.002),
            ("delay_most", 0.002),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(told(&Account::from(&flow)), expected);
    }

    #[test]
    fn packets_that_do_not_say_when_they_were_sent_have_neither_delay_nor_jitter() {
        let mut flow = Flow::from_number(1);
        flow.count(1, 1_000, 0, None);
        flow.count(2, 1_000, 1_000_000_000, None);
        let names: Vec<String> = told(&Account::from(&flow))
            .into_iter()
            .map(|it| it.0)
            .collect();
        assert_eq!(names, ["rate", "octets", "packets", "lost", "duplicates"]);
        let sent = Sent {
            packets: 2,
            octets: 2_000,
            elapsed: Duration::from_secs(1),
            ..Sent::default()
        };
        let rate = |value| ("rate".to_owned(), value);
        assert_eq!(told(&Account::from(&sent))[0], rate(16_000.0));
        let sent = Sent {
            acknowledged: Some(500),
            ..sent
        };
        assert_eq!(told(&Account::from(&sent))[0], rate(4_000.0));
    }
}
