//! The progress of a run: a view of all, a bar, or a line a second.

use std::cell::Cell;
use std::time::{Duration, Instant};

use dhow_testbed::run::Standing;

use super::view::View;
use crate::output;
use crate::progress::Progress;
use crate::quantity;

/// The interval between lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// The form of the progress.
#[derive(Debug)]
pub enum How {
    /// A line a second, also where nobody watches.
    Lines,
    /// A bar, where somebody watches.
    Bar,
    /// A view of all.
    View(Box<View>),
}

#[derive(Debug)]
enum Shown {
    Lines,
    Bar(Progress),
    View(Box<View>),
}

/// Tells how far a run is.
#[derive(Debug)]
pub struct Watch {
    what: String,
    end: Duration,
    shown: Shown,
    begun: Instant,
    told: Cell<Option<Instant>>,
    /// Nodes and links that there are to be.
    of: (usize, usize),
}

impl Watch {
    /// The watch of a run, which ends at a time at the latest.
    pub fn new(what: String, end: Duration, of: (usize, usize), how: How) -> Self {
        Self {
            shown: match how {
                How::Lines => Shown::Lines,
                How::View(view) => Shown::View(view),
                How::Bar => Shown::Bar(Progress::stretch(milliseconds(end), what.clone())),
            },
            what,
            end,
            begun: Instant::now(),
            told: Cell::new(None),
            of,
        }
    }

    /// Tells how far it is, where it is time to.
    pub fn look(&self, standing: &Standing) {
        match &self.shown {
            Shown::View(view) => return view.look(standing),
            Shown::Bar(bar) => {
                return bar.say(milliseconds(standing.time), self.words(standing));
            }
            Shown::Lines => {}
        }
        let is_due = (self.told.get()).is_none_or(|told| told.elapsed() >= LINE_EVERY);
        if is_due {
            self.told.set(Some(Instant::now()));
            let left = self.end.saturating_sub(standing.time);
            let left = quantity::span(milliseconds(left));
            let words = self.words(standing);
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
            count(&standing.nodes),
            count(&standing.links),
            quantity::thousands(standing.delivered),
            quantity::rate(standing.delivered_octets, self.begun.elapsed()),
        )
    }

    /// Takes away what is drawn.
    pub fn finish(&self) {
        match &self.shown {
            Shown::View(view) => view.finish(),
            Shown::Bar(bar) => bar.finish(),
            Shown::Lines => {}
        }
    }
}

fn count(all: &[bool]) -> usize {
    all.iter().filter(|is_so| **is_so).count()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
