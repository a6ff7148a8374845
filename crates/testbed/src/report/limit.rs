//! Which resource a run had none left of.

use dhow_page::escaped;

use super::measure::Told;
use crate::number::float;
use crate::results::Limited;

/// A resource of which so much was used was the limit.
const FULL: f64 = 0.85;

/// What limited a run, in a few words.
pub(crate) fn limit(told: &Told) -> String {
    let usable = told.usable_s();
    let mut most: Option<(f64, String)> = None;
    for capacity in &told.capacities {
        let name = escaped(&capacity.name);
        let (used, what) = match capacity.resource {
            Limited::Link => (
                carried(told, &capacity.name)
                    .filter(|_| usable > 0.0)
                    .map(|octets| octets / usable),
                format!("link {name}"),
            ),
            Limited::Processor => (
                busy_cores(told, &capacity.name),
                format!("processor of {name}"),
            ),
        };
        let Some(part) = used.map(|used| used / capacity.amount) else {
            continue;
        };
        if most.as_ref().is_none_or(|(highest, _)| part > *highest) {
            most = Some((part, what));
        }
    }
    match most {
        None => "–".to_owned(),
        Some((part, what)) if part >= FULL => format!("{what} ({:.0} %)", part * 100.0),
        Some((part, what)) => format!("none: most used was {what} ({:.0} %)", part * 100.0),
    }
}

/// Octets that went over a link, in the direction in which more did.
fn carried(told: &Told, link: &str) -> Option<f64> {
    let samples = told.links.iter().filter(|it| it.link == link);
    let last = samples.max_by(|one, other| one.time_s.total_cmp(&other.time_s))?;
    Some(float(last.octets_forward.max(last.octets_back)))
}

/// Cores that a node used in the mean while its payloads could pass.
fn busy_cores(told: &Told, node: &str) -> Option<f64> {
    let (start, end) = told.window();
    let samples: Vec<_> = told
        .resources
        .iter()
        .filter(|it| it.node == node && it.time_s >= start && it.time_s <= end)
        .collect();
    let (first, last) = (samples.first()?, samples.last()?);
    let time = last.time_s - first.time_s;
    let used = (last.user_s + last.system_s) - (first.user_s + first.system_s);
    (time > 0.0).then(|| used / time)
}

impl Told {
    /// From when the first payload could pass to when the last could, or was there: seconds.
    #[must_use]
    pub fn window(&self) -> (f64, f64) {
        let last = self.payloads.iter().filter_map(|it| it.delivered_s);
        let last = last.fold(0.0, f64::max);
        let starts = self.planned().map(|it| it.start_s);
        let ends = self.planned().map(|it| it.end_s);
        let (start, end) = (
            starts.fold(f64::INFINITY, f64::min),
            ends.fold(0.0, f64::max),
        );
        if start.is_finite() {
            return (start, end.min(last.max(start + 0.5)));
        }
        let sent = self.payloads.iter().map(|it| it.sent_s);
        let sent = sent.fold(f64::INFINITY, f64::min);
        (if sent.is_finite() { sent } else { 0.0 }, last)
    }
}
