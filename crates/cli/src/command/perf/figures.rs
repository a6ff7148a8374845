//! The output of `dhow perf`: a line for each interval, and the summary.

use std::time::Duration;

use serde::Serialize;

use crate::failure::Failure;
use crate::measurement::received::Totals;
use crate::measurement::{Flight, Plan};
use crate::output::{self, Form};
use crate::quantity;

/// Why a measurement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All that was sent is told of.
    Complete,
    /// Nothing came any more.
    Silent,
    /// The user ended it.
    Interrupted,
    /// Sending failed.
    Failed,
}

/// An interval, as `--json` shows it; the names are a contract.
#[derive(Debug, Serialize)]
struct Interval {
    event: &'static str,
    from_s: f64,
    to_s: f64,
    received: u64,
    bundles_per_s: f64,
    mbit_per_s: f64,
    delay_ms: Option<f64>,
    outstanding: u64,
}

/// The summary, as `--json` shows it; the names are a contract.
#[derive(Debug, Serialize)]
struct Summary {
    event: &'static str,
    ended: Ended,
    destination: String,
    size_octets: u64,
    streams: u16,
    sent: u64,
    sent_s: f64,
    resent: u64,
    received: u64,
    repeated: u64,
    uncertain: u64,
    lost: u64,
    loss_percent: f64,
    octets: u64,
    received_s: f64,
    bundles_per_s: f64,
    mbit_per_s: f64,
    delay_min_ms: Option<i64>,
    delay_mean_ms: Option<f64>,
    delay_max_ms: Option<i64>,
    service_restarts: usize,
}

/// Prints figures.
#[derive(Debug)]
pub struct Figures {
    form: Form,
    destination: String,
    size: u64,
    streams: u16,
    before: Totals,
    from: Duration,
    is_headed: bool,
}

impl Figures {
    /// The figures of a measurement that begins.
    pub fn new(form: Form, plan: &Plan) -> Self {
        Self {
            form,
            destination: plan.service.to_string(),
            size: plan.size,
            streams: plan.streams,
            before: Totals::default(),
            from: Duration::ZERO,
            is_headed: false,
        }
    }

    /// Prints the figures of the bundles that came since the interval before.
    pub fn interval(&mut self, flight: &Flight) -> Result<(), Failure> {
        let (now, to) = (flight.totals(), flight.elapsed());
        let interval = interval(&self.before, &now, self.from, to, flight.outstanding());
        self.before = now;
        self.from = to;
        if self.form == Form::Json {
            return output::json(&interval);
        }
        if !std::mem::replace(&mut self.is_headed, true) {
            output::line("       seconds   bundles/s      Mbit/s    delay ms  outstanding")?;
        }
        output::line(&interval.text())
    }

    /// All figures of a measurement that has ended.
    pub fn summary(&self, flight: &Flight, ended: Ended) -> Result<(), Failure> {
        let totals = flight.totals();
        let sent = flight.accepted();
        let lost = sent.saturating_sub(totals.bundles);
        let mean = mean(totals.delays.sum_ms, totals.delays.count);
        let is_timed = totals.delays.count > 0;
        let summary = Summary {
            event: "summary",
            ended,
            destination: self.destination.clone(),
            size_octets: self.size,
            streams: self.streams,
            sent,
            sent_s: rounded(flight.sending_time().as_secs_f64(), 3),
            resent: flight.resent(),
            received: totals.bundles,
            repeated: totals.repeated,
            uncertain: totals.uncertain,
            lost,
            loss_percent: rounded(share(lost, sent), 3),
            octets: totals.octets,
            received_s: rounded(totals.span.as_secs_f64(), 6),
            bundles_per_s: rounded(per_second(totals.bundles, totals.span), 1),
            mbit_per_s: rounded(per_second(totals.octets, totals.span) * 8e-6, 3),
            delay_min_ms: is_timed.then_some(totals.delays.min_ms),
            delay_mean_ms: mean,
            delay_max_ms: is_timed.then_some(totals.delays.max_ms),
            service_restarts: flight.received().restarts(),
        };
        match self.form {
            Form::Json => output::json(&summary),
            Form::Text => output::text(&summary.text()),
        }
    }
}

/// The figures of the bundles that came between two looks at the totals; rates are by the receiver's clock.
fn interval(
    before: &Totals,
    now: &Totals,
    from: Duration,
    to: Duration,
    outstanding: u64,
) -> Interval {
    let span = now.span.saturating_sub(before.span);
    let bundles = now.bundles.saturating_sub(before.bundles);
    let octets = now.octets.saturating_sub(before.octets);
    let delays = now.delays.count.saturating_sub(before.delays.count);
    let delay_ms = now.delays.sum_ms.saturating_sub(before.delays.sum_ms);
    Interval {
        event: "interval",
        from_s: rounded(from.as_secs_f64(), 1),
        to_s: rounded(to.as_secs_f64(), 1),
        received: bundles,
        bundles_per_s: rounded(per_second(bundles, span), 1),
        mbit_per_s: rounded(per_second(octets, span) * 8e-6, 3),
        delay_ms: mean(delay_ms, delays),
        outstanding,
    }
}

impl Interval {
    fn text(&self) -> String {
        let delay = self
            .delay_ms
            .filter(|ms| *ms >= 0.0)
            .map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"));
        format!(
            "{:>14} {:>11.0} {:>11.2} {delay:>11} {:>12}",
            format!("{:.1} to {:.1}", self.from_s, self.to_s),
            self.bundles_per_s,
            self.mbit_per_s,
            quantity::thousands(self.outstanding),
        )
    }
}

impl Summary {
    fn text(&self) -> String {
        let named = |number: u64, name: &str| match number {
            0 => String::new(),
            number => format!(", {} {name}", quantity::thousands(number)),
        };
        let mut text = format!(
            "{} bundles of {} sent to {} in {:.1} s, {} received{}{}{}, {} lost ({} %)\n",
            quantity::thousands(self.sent),
            quantity::size(self.size_octets),
            self.destination,
            self.sent_s,
            quantity::thousands(self.received),
            named(self.repeated, "twice"),
            named(self.uncertain, "perhaps twice"),
            named(self.resent, "sent again"),
            quantity::thousands(self.lost),
            self.loss_percent,
        );
        if self.received > 0 {
            text.push_str(&format!(
                "goodput {:.0} bundles/s, {:.2} Mbit/s over {:.3} s of the receiver\n",
                self.bundles_per_s, self.mbit_per_s, self.received_s
            ));
        }
        if let (Some(min), Some(mean), Some(max)) =
            (self.delay_min_ms, self.delay_mean_ms, self.delay_max_ms)
        {
            if min < 0 {
                text.push_str("delay unknown: the clocks of the two nodes differ\n");
            } else {
                text.push_str(&format!("delay min/mean/max = {min}/{mean:.1}/{max} ms\n"));
            }
        }
        if self.service_restarts > 0 {
            text.push_str(&format!(
                "the service's node was started again {} times\n",
                self.service_restarts
            ));
        }
        text
    }
}

fn per_second(number: u64, span: Duration) -> f64 {
    let seconds = span.as_secs_f64();
    if seconds > 0.0 {
        float(number) / seconds
    } else {
        0.0
    }
}

/// Percent.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * float(part) / float(whole)
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "delays of 2^53 ms are those of nobody's bundles"
)]
fn mean(sum: i64, count: u64) -> Option<f64> {
    (count > 0).then(|| rounded(sum as f64 / float(count), 3))
}

fn rounded(number: f64, digits: i32) -> f64 {
    let factor = 10_f64.powi(digits);
    (number * factor).round() / factor
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "shown with some digits"
)]
const fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use dhow_node::perf::wire::Delays;

    use super::*;

    fn totals(bundles: u64, span_ms: u64, sum_ms: i64) -> Totals {
        Totals {
            bundles,
            octets: bundles * 1_000,
            span: Duration::from_millis(span_ms),
            delays: Delays {
                count: bundles,
                min_ms: 1,
                max_ms: 9,
                sum_ms,
            },
            ..Totals::default()
        }
    }

    #[test]
    fn an_interval_counts_by_the_receivers_clock() {
        let (before, now) = (totals(1_000, 100, 5_000), totals(3_000, 600, 9_000));
        let (from, to) = (Duration::from_secs(1), Duration::from_secs(2));
        let interval = interval(&before, &now, from, to, 4_321);
        assert_eq!(
            interval.text(),
            "    1.0 to 2.0        4000       32.00         2.0        4,321"
        );
        assert_eq!(
            serde_json::to_string(&interval).unwrap(),
            r#"{"event":"interval","from_s":1.0,"to_s":2.0,"received":2000,"bundles_per_s":4000.0,"mbit_per_s":32.0,"delay_ms":2.0,"outstanding":4321}"#
        );
    }

    #[test]
    fn an_interval_without_news_has_no_rate_and_no_delay() {
        let now = totals(5, 10, 5);
        let interval = interval(&now, &now, Duration::ZERO, Duration::from_secs(1), 0);
        assert_eq!(
            interval.text(),
            "    0.0 to 1.0           0        0.00           -            0"
        );
    }

    #[test]
    fn a_summary_says_what_was_lost_and_what_came_twice() {
        let summary = Summary {
            event: "summary",
            ended: Ended::Silent,
            destination: "ipn:4.5201".into(),
            size_octets: 1_000,
            streams: 1,
            sent: 2_000,
            sent_s: 1.0,
            resent: 7,
            received: 1_900,
            repeated: 3,
            uncertain: 0,
            lost: 100,
            loss_percent: 5.0,
            octets: 1_900_000,
            received_s: 0.95,
            bundles_per_s: 2_000.0,
            mbit_per_s: 16.0,
            delay_min_ms: Some(1),
            delay_mean_ms: Some(2.5),
            delay_max_ms: Some(9),
            service_restarts: 1,
        };
        assert_eq!(
            summary.text(),
            "2,000 bundles of 1.0 kB sent to ipn:4.5201 in 1.0 s, 1,900 received, 3 twice, 7 sent again, 100 lost (5 %)\n\
             goodput 2000 bundles/s, 16.00 Mbit/s over 0.950 s of the receiver\n\
             delay min/mean/max = 1/2.5/9 ms\n\
             the service's node was started again 1 times\n"
        );
    }
}
