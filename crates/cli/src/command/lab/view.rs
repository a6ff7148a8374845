//! A run as it goes on, on a terminal: nodes, links, payloads, and how long all will take. It is drawn anew in its place, and gone at the end.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::io;
use std::time::{Duration, Instant};

use dhow_testbed::run::Standing;
use rustix::termios::tcgetwinsize;

use crate::output::stderr_is_watched;
use crate::progress::Progress;
use crate::quantity;

/// The time from one drawing to the next.
const REDRAW: Duration = Duration::from_millis(500);

/// The size of a terminal that does not tell its own: columns and lines.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Lines that are neither of a node nor of a link: two at the head, two that tell of more, and the one for the cursor.
const OTHER_LINES: usize = 5;

/// Columns of a name, at most.
const NAME_COLUMNS: usize = 24;

/// The place of a run among all.
#[derive(Clone, Debug)]
pub struct Series {
    /// The study that is run, and the number of the run among how many.
    pub what: String,
    /// Runs that are over, and how long they took.
    pub over: (usize, Duration),
    /// Runs that come after this.
    pub left: usize,
}

/// A run on a terminal.
#[derive(Debug)]
pub struct View {
    series: Series,
    /// When the run ends at the latest.
    end: Duration,
    nodes: Vec<String>,
    links: Vec<String>,
    drawing: Progress,
    before: RefCell<Option<(Instant, Standing, Rates)>>,
}

/// Rates since the look before.
#[derive(Clone, Debug, Default)]
struct Rates {
    /// Parts of a core for each node, thousandths.
    cores: Vec<u64>,
    /// The octets of each link in each direction, and the time that they took.
    octets: Vec<[u64; 2]>,
    time: Duration,
}

impl View {
    /// The view of a run with nodes and links of these names, where a person watches and wants no plain text.
    pub fn new(
        series: Series,
        end: Duration,
        nodes: Vec<String>,
        links: Vec<String>,
    ) -> Option<Self> {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        (stderr_is_watched() && !is_dumb && !is_set("NO_COLOR")).then(|| Self {
            series,
            end,
            nodes,
            links,
            drawing: Progress::lines(),
            before: RefCell::new(None),
        })
    }

    /// Draws how far it is, where it is time to.
    pub fn look(&self, standing: &Standing) {
        let mut before = self.before.borrow_mut();
        if before
            .as_ref()
            .is_some_and(|(drawn, ..)| drawn.elapsed() < REDRAW)
        {
            return;
        }
        let rates = match &*before {
            // No sample since then, so none are known anew.
            Some((_, old, rates)) if old.sampled == standing.sampled => rates.clone(),
            Some((_, old, _)) => Rates::between(old, standing),
            None => Rates::default(),
        };
        let size = tcgetwinsize(io::stderr()).ok();
        let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let size = size.filter(|(columns, lines)| *columns > 0 && *lines > 0);
        let lines = self.lines(standing, &rates, size.unwrap_or(USUAL_SIZE));
        self.drawing.words_now(lines.join("\n"));
        *before = Some((Instant::now(), standing.clone(), rates));
    }

    /// Takes it away.
    pub fn finish(&self) {
        self.drawing.finish();
    }

    /// The lines to show, none as wide as the terminal, and fewer than it has.
    fn lines(
        &self,
        now: &Standing,
        rates: &Rates,
        (columns, lines): (usize, usize),
    ) -> Vec<String> {
        let left = self.end.saturating_sub(now.time);
        let mut shown = vec![
            format!(
                "{}  {}, at most {} left{}",
                self.series.what,
                span(now.time),
                span(left),
                match self.series.left {
                    0 => String::new(),
                    _ => format!("; all in some {}", span(self.eta(now.time))),
                }
            ),
            format!(
                "{}{} payloads delivered, {}, {}",
                quantity::thousands(now.delivered),
                now.total.map_or_else(String::new, |total| format!(
                    " of {}",
                    quantity::thousands(total)
                )),
                quantity::size(now.delivered_octets),
                quantity::bit_rate(now.delivered_octets, now.time),
            ),
        ];
        let room = lines.saturating_sub(OTHER_LINES);
        // Links get what nodes leave, and half at least.
        let for_nodes = self
            .nodes
            .len()
            .min(room - (room / 2).min(self.links.len()));
        let nodes = self.nodes.iter().enumerate().map(|(place, name)| {
            let core = rates.cores.get(place).copied().unwrap_or(0);
            let is_up = now.nodes.get(place).copied().unwrap_or(false);
            let text = format!("{:>5}.{} % of a core", core / 10, core % 10);
            ((is_up, core), row(name, is_up, &text))
        });
        shown.extend(first(nodes.collect(), for_nodes, "nodes"));
        let links = self.links.iter().enumerate().map(|(place, name)| {
            let [forward, back] = rates.octets.get(place).copied().unwrap_or_default();
            let is_up = now.links.get(place).copied().unwrap_or(false);
            let [there, here] =
                [forward, back].map(|octets| quantity::bit_rate(octets, rates.time));
            let text = format!("{there:>14} →{here:>14} ←");
            (
                (is_up, forward.saturating_add(back)),
                row(name, is_up, &text),
            )
        });
        shown.extend(first(links.collect(), room - for_nodes, "links"));
        let cut = |line: String| line.chars().take(columns.saturating_sub(1)).collect();
        shown
            .into_iter()
            .take(lines.saturating_sub(1))
            .map(cut)
            .collect()
    }

    /// An estimate of the time that all runs still take: as long for each as those that are over took.
    fn eta(&self, now: Duration) -> Duration {
        let (over, took) = self.series.over;
        let count = |runs: usize| u32::try_from(runs).unwrap_or(u32::MAX);
        let each = took.checked_div(count(over)).unwrap_or(self.end);
        let others = each.saturating_mul(count(self.series.left));
        each.saturating_sub(now).saturating_add(others)
    }
}

impl Rates {
    fn between(old: &Standing, new: &Standing) -> Self {
        let time = new.sampled.saturating_sub(old.sampled);
        let cores = new.busy.iter().zip(&old.busy);
        let octets = new.octets.iter().zip(&old.octets);
        Self {
            cores: cores
                .map(|(new, old)| thousandths(new.saturating_sub(*old), time))
                .collect(),
            octets: octets
                .map(|(new, old)| {
                    [0, 1].map(|way: usize| {
                        let at = |octets: &[u64; 2]| octets.get(way).copied().unwrap_or(0);
                        at(new).saturating_sub(at(old))
                    })
                })
                .collect(),
            time,
        }
    }
}

fn thousandths(part: Duration, whole: Duration) -> u64 {
    let thousandths = (part.as_nanos() * 1000).checked_div(whole.as_nanos());
    u64::try_from(thousandths.unwrap_or(0)).unwrap_or(u64::MAX)
}

fn span(time: Duration) -> String {
    quantity::span(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn row(name: &str, is_up: bool, text: &str) -> String {
    let name: String = name.chars().take(NAME_COLUMNS).collect();
    let state = if is_up { "up" } else { "down" };
    format!("  {name:NAME_COLUMNS$} {state:4} {text}")
}

/// So many rows in their order: where there is no room for all, those in which most goes on. The number of rows left out is told.
fn first<T: Ord>(rows: Vec<(T, String)>, room: usize, noun: &str) -> Vec<String> {
    let more = rows.len().saturating_sub(room);
    let mut rows: Vec<_> = rows.into_iter().enumerate().collect();
    rows.sort_by(|(_, (one, _)), (_, (other, _))| Reverse(one).cmp(&Reverse(other)));
    rows.truncate(room);
    rows.sort_by_key(|(place, _)| *place);
    let shown = rows.into_iter().map(|(_, (_, row))| row);
    let told = (more > 0).then(|| format!("  and {more} more {noun}"));
    shown.chain(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(nodes: usize, links: usize) -> View {
        let names =
            |count: usize, letter: &str| (1..=count).map(|it| format!("{letter}{it}")).collect();
        View {
            series: Series {
                what: "study run 2 of 5".to_owned(),
                over: (1, Duration::from_secs(40)),
                left: 3,
            },
            end: Duration::from_secs(60),
            nodes: names(nodes, "node"),
            links: names(links, "link"),
            drawing: Progress::lines(),
            before: RefCell::new(None),
        }
    }

    fn standing(nodes: usize, links: usize, seconds: u64) -> Standing {
        let time = Duration::from_secs(seconds);
        Standing {
            time,
            sampled: time,
            nodes: vec![true; nodes],
            links: (0..links).map(|link| link % 2 == 0).collect(),
            busy: (0..nodes).map(|_| time / 8).collect(),
            octets: vec![[seconds * 125_000, 0]; links],
            delivered: 1_204,
            delivered_octets: 2_408_000,
            total: Some(5_000),
            apis: Vec::new(),
        }
    }

    #[test]
    fn a_view_tells_of_nodes_links_payloads_and_time() {
        let (view, old, new) = (view(1, 2), standing(1, 2, 10), standing(1, 2, 20));
        let lines = view.lines(&new, &Rates::between(&old, &new), (100, 24));
        assert_eq!(
            lines,
            [
                "study run 2 of 5  20 s, at most 40 s left; all in some 2 min 20 s",
                "1,204 of 5,000 payloads delivered, 2.4 MB, 963.20 kbit/s",
                "  node1                    up      12.5 % of a core",
                "  link1                    up      1.00 Mbit/s →       0 bit/s ←",
                "  link2                    down    1.00 Mbit/s →       0 bit/s ←",
            ]
        );
    }

    #[test]
    fn a_view_stays_within_its_terminal() {
        let new = standing(100, 99, 20);
        for size in [(1, 1), (20, 4), (40, 10), (80, 24), (300, 400)] {
            let lines =
                view(100, 99).lines(&new, &Rates::between(&standing(100, 99, 10), &new), size);
            assert!(lines.len() < size.1.max(2), "{} of {size:?}", lines.len());
            assert!(
                lines
                    .iter()
                    .all(|line| line.chars().count() < size.0.max(1)),
                "{size:?}"
            );
        }
        let lines = view(100, 99).lines(&new, &Rates::default(), (80, 24));
        let told: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains(" more "))
            .collect();
        assert_eq!(told, ["  and 90 more nodes", "  and 90 more links"]);
    }
}
