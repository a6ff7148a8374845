//! Two nodes and their contacts, as a plan says them.

use std::collections::BTreeMap;
use std::time::Duration;

use dhow_document::contact_plan::Plan;

/// The beginning and the end.
pub(super) type Window = (Duration, Duration);

/// Pairs of nodes, the lower one first.
pub(super) type Pairs = BTreeMap<(u32, u32), Pair>;

/// The pairs that have contacts.
pub(super) fn pairs_of(plan: &Plan) -> Pairs {
    let between = |from: u32, to: u32| (from.min(to), from.max(to));
    let mut pairs = Pairs::new();
    for contact in &plan.contacts {
        let pair = pairs.entry(between(contact.from, contact.to)).or_default();
        let window = (contact.start, contact.end);
        pair.contacts.push(window);
        pair.said.extend(contact.rate.map(|rate| Said {
            line: contact.line,
            window,
            ascends: contact.from < contact.to,
            rate,
        }));
    }
    for range in &plan.ranges {
        if let Some(pair) = pairs.get_mut(&between(range.from, range.to)) {
            pair.ranges.push((range.start, range.end, range.delay));
        }
    }
    for pair in pairs.values_mut() {
        pair.contacts = united(std::mem::take(&mut pair.contacts));
    }
    pairs
}

/// A plan's words about one pair of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pair {
    /// Beginnings and ends.
    pub(super) contacts: Vec<Window>,
    /// Contacts that each are of one direction and a rate.
    pub(super) said: Vec<Said>,
    /// The beginning and end of a time, and the light time from one to the other in it.
    pub(super) ranges: Vec<(Duration, Duration, Duration)>,
}

/// A contact of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The line that says it, from 1.
    pub(super) line: usize,
    /// The beginning and the end.
    pub(super) window: Window,
    /// Whether it is from the lower node to the higher.
    pub(super) ascends: bool,
    /// Octets a second, at least 1.
    pub(super) rate: u64,
}

impl Pair {
    /// The rate of its contacts, octets a second, 0 where the plan says none.
    ///
    /// # Errors
    /// The first two contacts whose rates differ.
    pub(super) fn rate(&self) -> Result<u64, (Said, Said)> {
        let Some(first) = self.said.first() else {
            return Ok(0);
        };
        match self.said.iter().find(|said| said.rate != first.rate) {
            Some(other) => Err((*first, *other)),
            None => Ok(first.rate),
        }
    }

    /// The lines of contacts that the other direction has not, or not as long.
    pub(super) fn one_way(&self) -> impl Iterator<Item = usize> {
        let ways = [false, true].map(|ascends| {
            let said = self.said.iter().filter(|said| said.ascends == ascends);
            united(said.map(|said| said.window).collect())
        });
        let is_answered = move |said: &Said| {
            let [down, up] = &ways;
            let back = if said.ascends { down } else { up };
            let (start, end) = said.window;
            let behind = back.partition_point(|(begins, _)| *begins <= start);
            let around = behind.checked_sub(1).and_then(|place| back.get(place));
            around.is_some_and(|(_, ends)| *ends >= end)
        };
        let said = self.said.iter().filter(move |said| !is_answered(said));
        said.map(|said| said.line)
    }
}

/// The same times, in order and apart from each other.
fn united(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_unstable();
    let mut apart: Vec<Window> = Vec::with_capacity(windows.len());
    for (start, end) in windows {
        match apart.last_mut() {
            Some((_, last)) if *last >= start => *last = end.max(*last),
            _ => apart.push((start, end)),
        }
    }
    apart
}
