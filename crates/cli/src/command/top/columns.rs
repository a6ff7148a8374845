//! The columns of each table: headings, widths, and which of them a width has room for.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use alphanumeric_sort::compare_str as by_name;

use super::reading::{Contact, Destination, Link};
use crate::quantity;

/// A column: its heading, its least width, and its rank, by which columns are left out where there is no room (highest first).
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub heading: &'static str,
    pub width: u16,
    rank: u8,
    /// Whether the column takes the width that is left.
    pub grows: bool,
    pub right: bool,
}

const fn column(heading: &'static str, width: u16, rank: u8) -> Column {
    Column {
        heading,
        width,
        rank,
        grows: false,
        right: false,
    }
}

const fn growing(heading: &'static str, width: u16, rank: u8) -> Column {
    Column {
        grows: true,
        ..column(heading, width, rank)
    }
}

const fn figure(heading: &'static str, width: u16, rank: u8) -> Column {
    Column {
        right: true,
        ..column(heading, width, rank)
    }
}

pub const LINKS: [Column; 9] = [
    growing("LINK", 10, 0),
    column("STATE", 9, 1),
    column("PEER", 14, 5),
    figure("IN", 14, 3),
    figure("OUT", 14, 2),
    column("LATELY", 12, 7),
    figure("QUEUED", 8, 4),
    figure("SILENCE", 12, 6),
    growing("LAST ERROR", 20, 8),
];

pub const DESTINATIONS: [Column; 6] = [
    growing("DESTINATION", 14, 0),
    figure("BUNDLES", 9, 1),
    figure("OCTETS", 10, 2),
    figure("OLDEST", 12, 5),
    figure("EXPIRES IN", 12, 3),
    column("NEXT HOP", 14, 4),
];

pub const CONTACTS: [Column; 5] = [
    growing("FROM", 9, 2),
    growing("TO", 9, 0),
    column("STATE", 6, 3),
    figure("TIME LEFT", 20, 1),
    figure("RATE", 14, 4),
];

/// The places of columns that a width has room for, with a space between two.
pub fn fitting(columns: &[Column], width: u16) -> Vec<usize> {
    let mut places: Vec<usize> = (0..columns.len()).collect();
    let rank = |place: &usize| columns.get(*place).map_or(0, |it| it.rank);
    let taken = |places: &[usize]| -> u16 {
        let widths = places.iter().filter_map(|place| columns.get(*place));
        widths.fold(0, |sum, it| sum.saturating_add(it.width + 1))
    };
    while places.len() > 1 && taken(&places) > width.saturating_add(1) {
        let worst = places.iter().max_by_key(|place| rank(place)).copied();
        places.retain(|place| Some(*place) != worst);
    }
    places
}

/// The rate of a link in both directions, octets a second, and what went over it in the last readings.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    pub octets_in: u64,
    pub octets_out: u64,
    pub history: Vec<u64>,
}

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A line of bars, the newest last; the highest fills its line.
pub fn sparkline(history: &[u64], width: usize) -> String {
    let shown = history
        .get(history.len().saturating_sub(width)..)
        .unwrap_or(history);
    let most = shown.iter().max().copied().unwrap_or(0);
    let bar = |value: &u64| {
        if most == 0 || *value == 0 {
            return if *value == 0 { '·' } else { BARS[0] };
        }
        let step = u128::from(*value) * 7 / u128::from(most);
        BARS.get(usize::try_from(step).unwrap_or(7))
            .copied()
            .unwrap_or('█')
    };
    shown.iter().map(bar).collect()
}

fn bits(octets_per_s: u64) -> String {
    match octets_per_s {
        0 => "-".to_owned(),
        octets => quantity::bit_rate(octets, Duration::from_secs(1)),
    }
}

fn span(ms: Option<u64>) -> String {
    ms.map_or_else(|| "-".to_owned(), quantity::span)
}

fn named(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.to_owned()
    }
}

/// The cells of a link in the order of [`LINKS`].
pub fn link(link: &Link, rate: &Rate) -> [String; 9] {
    let state = match link.retry_in_ms {
        Some(ms) if ms < 100_000 => format!("retry {}s", ms.div_ceil(1000)),
        _ => link.state.clone(),
    };
    [
        link.name.clone(),
        state,
        named(&link.peer),
        bits(rate.octets_in),
        bits(rate.octets_out),
        sparkline(&rate.history, 12),
        link.queued
            .map_or_else(|| "-".to_owned(), quantity::thousands),
        span(link.heard_ago_ms),
        link.last_error.clone(),
    ]
}

/// The order of two links by a column; a number in a name counts as one (`link2` before `link10`).
pub fn compare_links(by: usize, one: (&Link, &Rate), other: (&Link, &Rate)) -> Ordering {
    let key = match by {
        1 => one.0.state.cmp(&other.0.state),
        2 => by_name(&one.0.peer, &other.0.peer),
        3 => other.1.octets_in.cmp(&one.1.octets_in),
        4 | 5 => other.1.octets_out.cmp(&one.1.octets_out),
        6 => other.0.queued.cmp(&one.0.queued),
        7 => other.0.heard_ago_ms.cmp(&one.0.heard_ago_ms),
        8 => other.0.last_error.cmp(&one.0.last_error),
        _ => Ordering::Equal,
    };
    key.then_with(|| by_name(&one.0.name, &other.0.name))
}

/// The cells of a destination in the order of [`DESTINATIONS`].
pub fn destination(it: &Destination) -> [String; 6] {
    [
        it.name.clone(),
        quantity::thousands(it.bundles),
        quantity::size(it.octets),
        span(it.oldest_ms),
        span(it.next_expiry_ms),
        it.next_hop.clone(),
    ]
}

/// The order of two destinations by a column: large, old, and soon to expire first.
pub fn compare_destinations(by: usize, one: &Destination, other: &Destination) -> Ordering {
    let soon = |it: &Destination| it.next_expiry_ms.unwrap_or(u64::MAX);
    let key = match by {
        1 => other.bundles.cmp(&one.bundles),
        2 => other.octets.cmp(&one.octets),
        3 => Reverse(one.oldest_ms).cmp(&Reverse(other.oldest_ms)),
        4 => soon(one).cmp(&soon(other)),
        5 => by_name(&one.next_hop, &other.next_hop),
        _ => Ordering::Equal,
    };
    key.then_with(|| by_name(&one.name, &other.name))
}

/// The cells of a contact in the order of [`CONTACTS`]; `now` is the node's time where it has one.
pub fn contact(it: &Contact, now: Option<u64>) -> [String; 5] {
    let left = match (now, it.state.as_str()) {
        (None, _) => "-".to_owned(),
        (Some(now), "now") => format!("ends in {}", quantity::span(seconds(it.end_dtn_ms, now))),
        (Some(now), _) => format!(
            "begins in {}",
            quantity::span(seconds(it.start_dtn_ms, now))
        ),
    };
    [
        it.from.clone(),
        it.to.clone(),
        it.state.clone(),
        left,
        bits(it.octets_per_s),
    ]
}

/// The time until then in whole seconds, milliseconds.
const fn seconds(then: u64, now: u64) -> u64 {
    then.saturating_sub(now).div_ceil(1000) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_table_keeps_the_columns_of_the_best_rank() {
        assert_eq!(fitting(&LINKS, 5), [0]);
        assert_eq!(fitting(&LINKS, 36), [0, 1, 4]);
        assert_eq!(fitting(&LINKS, 200).len(), LINKS.len());
        assert_eq!(fitting(&DESTINATIONS, 38), [0, 1, 2]);
    }

    #[test]
    fn a_sparkline_shows_the_newest_and_fills_its_height() {
        assert_eq!(sparkline(&[9, 0, 1, 4, 8], 4), "·▁▄█");
        assert_eq!(sparkline(&[], 4), "");
        assert_eq!(sparkline(&[0, 0], 4), "··");
        assert_eq!(sparkline(&[u64::MAX, 1], 4), "█▁");
    }

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let named = |name: &str| Link {
            name: name.to_owned(),
            ..Link::default()
        };
        let (two, ten, idle) = (named("link2"), named("link10"), Rate::default());
        assert_eq!(
            compare_links(0, (&two, &idle), (&ten, &idle)),
            Ordering::Less
        );
        let to = |name: &str| Destination {
            name: name.to_owned(),
            ..Destination::default()
        };
        assert_eq!(
            compare_destinations(0, &to("ipn:9.1"), &to("ipn:10.1")),
            Ordering::Less
        );
    }
}
