//! Which resource a run had none left of.

use dhow_page::escaped;

use super::told::Told;
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
            // Without payloads it is not known when a processor was to be busy.
            Limited::Processor => (
                busy(told, &capacity.name).filter(|_| usable > 0.0),
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
        Some((part, what)) if follows_trace(told) => format!(
            "not known, as a link follows a trace: most used of others was {what} ({:.0} %)",
            part * 100.0
        ),
        Some((part, what)) => format!("none: most used was {what} ({:.0} %)", part * 100.0),
    }
}

/// Whether there is a link of which no capacity is told.
fn follows_trace(told: &Told) -> bool {
    let known = |link: &str| told.capacities.iter().any(|it| it.name == link);
    told.links.iter().any(|it| !known(&it.link))
}

/// Octets that went over a link, in the direction in which more did.
fn carried(told: &Told, link: &str) -> Option<f64> {
    let sample = told.links.iter().find(|it| it.link == link)?;
    Some(float(sample.octets_forward.max(sample.octets_back)))
}

/// Cores that a node used in the mean while its payloads could pass.
fn busy(told: &Told, node: &str) -> Option<f64> {
    let found = told.days.iter().find(|day| day.node == node);
    found.map(|day| day.busy)
}
