//! Round-trip times counted up: loss, smallest, mean, largest, standard deviation.

use std::time::Duration;

use serde::Serialize;

/// Statistics of the pings that were sent and of their answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    sent: u64,
    received: u64,
    repeated: u64,
    smallest_ms: f64,
    largest_ms: f64,
    mean_ms: f64,
    /// Sum of squared distances from the mean (Welford's way: exact also when all are far from zero).
    squares: f64,
}

/// The summary as `--json` shows it. Times are null when nothing came back.
#[derive(Debug, Serialize)]
pub struct Summary {
    sent: u64,
    received: u64,
    repeated: u64,
    loss_percent: f64,
    min_ms: Option<f64>,
    mean_ms: Option<f64>,
    max_ms: Option<f64>,
    sd_ms: Option<f64>,
}

impl Statistics {
    /// Counts a request that was sent.
    pub const fn sent(&mut self) {
        self.sent += 1;
    }

    /// Counts an answer.
    pub fn received(&mut self, round_trip: Duration) {
        let ms = round_trip.as_secs_f64() * 1000.0;
        self.smallest_ms = if self.received == 0 {
            ms
        } else {
            self.smallest_ms.min(ms)
        };
        self.largest_ms = self.largest_ms.max(ms);
        self.received += 1;
        let distance = ms - self.mean_ms;
        self.mean_ms += distance / count(self.received);
        self.squares += distance * (ms - self.mean_ms);
    }

    /// Counts an answer that had come before.
    pub const fn repeated(&mut self) {
        self.repeated += 1;
    }

    /// True when at least one came back.
    pub const fn any_received(&self) -> bool {
        self.received > 0
    }

    /// True when as many came back as were sent.
    pub const fn all_received(&self) -> bool {
        self.received == self.sent
    }

    /// All figures.
    pub fn summary(&self) -> Summary {
        let time = |ms: f64| self.any_received().then(|| (ms * 1000.0).round() / 1000.0);
        let loss = if self.sent == 0 {
            0.0
        } else {
            100.0 * (1.0 - count(self.received) / count(self.sent))
        };
        Summary {
            sent: self.sent,
            received: self.received,
            repeated: self.repeated,
            loss_percent: (loss * 10.0).round() / 10.0,
            min_ms: time(self.smallest_ms),
            mean_ms: time(self.mean_ms),
            max_ms: time(self.largest_ms),
            sd_ms: time(if self.received == 0 {
                0.0
            } else {
                (self.squares / count(self.received)).sqrt()
            }),
        }
    }
}

impl Summary {
    /// Two lines in the manner of ping(8).
    pub fn text(&self) -> String {
        let repeated = if self.repeated == 0 {
            String::new()
        } else {
            format!(", {} repeated", self.repeated)
        };
        let mut text = format!(
            "{} sent, {} received{repeated}, {} % lost\n",
            self.sent, self.received, self.loss_percent
        );
        if let (Some(min), Some(mean), Some(max), Some(sd)) =
            (self.min_ms, self.mean_ms, self.max_ms, self.sd_ms)
        {
            text.push_str(&format!(
                "rtt min/mean/max/sd = {min:.3}/{mean:.3}/{max:.3}/{sd:.3} ms\n"
            ));
        }
        text
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "nobody sends 2^53 pings"
)]
const fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_known_series() {
        let mut statistics = Statistics::default();
        for ms in [2, 4, 4, 4, 5, 5, 7, 9] {
            statistics.sent();
            statistics.received(Duration::from_millis(ms));
        }
        statistics.sent();
        statistics.sent();
        statistics.repeated();
        assert_eq!(
            statistics.summary().text(),
            "10 sent, 8 received, 1 repeated, 20 % lost\nrtt min/mean/max/sd = 2.000/5.000/9.000/2.000 ms\n"
        );
        assert!(!statistics.all_received());
    }

    #[test]
    fn without_answers_there_are_no_times() {
        let mut statistics = Statistics::default();
        statistics.sent();
        assert_eq!(
            statistics.summary().text(),
            "1 sent, 0 received, 100 % lost\n"
        );
        assert_eq!(
            serde_json::to_value(statistics.summary()).unwrap()["min_ms"],
            serde_json::Value::Null
        );
        assert_eq!(
            Statistics::default().summary().text(),
            "0 sent, 0 received, 0 % lost\n"
        );
    }
}
