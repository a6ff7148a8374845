//! How far a run is, for whoever waits: a bar, or a line a second.

use std::cell::Cell;
use std::time::{Duration, Instant};

use dhow_testbed::run::Standing;

use crate::output;
use crate::progress::Progress;
use crate::quantity;

/// How often progress is told in lines.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Tells how far a run is.
#[derive(Debug)]
pub struct Watch {
    what: String,
    end: Duration,
    in_lines: bool,
    bar: Progress,
    begun: Instant,
    told: Cell<Option<Instant>>,
    /// Nodes and links that there are to be.
    of: (usize, usize),
}

impl Watch {
    /// Of a run, which ends at a time at the latest.
    pub fn new(what: String, end: Duration, of: (usize, usize), in_lines: bool) -> Self {
        Self {
            bar: Progress::stretch(milliseconds(end), what.clone()),
            what,
            end,
            in_lines,
            begun: Instant::now(),
            told: Cell::new(None),
            of,
        }
    }

    /// Tells how far it is, where it is time to.
    pub fn look(&self, standing: &Standing) {
        let words = self.words(standing);
        if !self.in_lines {
            self.bar.say(milliseconds(standing.time), words);
            return;
        }
        let is_due = (self.told.get()).is_none_or(|told| told.elapsed() >= LINE_EVERY);
        if is_due {
            self.told.set(Some(Instant::now()));
            let left = self.end.saturating_sub(standing.time);
            let left = quantity::span(milliseconds(left));
            output::talk(&format!("{}: {words}, at most {left} left", self.what));
        }
    }

    fn words(&self, standing: &Standing) -> String {
        let (nodes, links) = self.of;
        let total = match standing.total {
            Some(total) => format!(" of {}", quantity::thousands(total)),
            None => String::new(),
        };
        format!(
            "{}, {} of {nodes} nodes, {} of {links} links, {}{total} payloads delivered, {}",
            quantity::span(milliseconds(standing.time)),
            standing.nodes,
            standing.links,
            quantity::thousands(standing.delivered),
            quantity::rate(standing.delivered_octets, self.begun.elapsed()),
        )
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish();
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
