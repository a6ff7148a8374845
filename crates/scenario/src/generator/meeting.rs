//! Hosts within reach of each other: the pairs, with the beginning and end of each meeting.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::network::{CONTACTS_MAX, LINKS_MAX};

/// Millimetres in a metre; places are whole millimetres, so that they are the same on every machine.
pub(super) const MM: i64 = 1_000;

/// Looks at a host, all hosts and steps together: more takes longer than anybody waits.
const LOOKS_MAX: u128 = 10_000_000_000;

/// A place, millimetres from the west and the south.
pub(crate) type Place = (i64, i64);

/// Two hosts within reach of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meeting {
    /// Their positions in the list of hosts, the lower one first.
    pub(super) pair: (u32, u32),
    pub(super) start: Duration,
    pub(super) length: Duration,
}

/// The error that so many hosts are looked at too often until an end, if they are.
pub(super) fn too_many_looks(hosts: usize, step: Duration, end: Duration) -> Option<String> {
    let looks = end.as_nanos() / step.as_nanos().max(1);
    let all = looks.saturating_mul(u128::try_from(hosts).unwrap_or(u128::MAX));
    (all > LOOKS_MAX).then(|| format!("{hosts} nodes are looked at {looks} times"))
}

/// The pairs of places within reach of each other, millimetres, in order.
///
/// # Errors
/// When they are too many.
pub(super) fn pairs(places: &[Place], reach: i64) -> Result<Vec<(u32, u32)>, String> {
    // Squares as wide as the reach: a host within reach is in the same one or one beside it.
    let square = |place: &Place| (place.0.div_euclid(reach), place.1.div_euclid(reach));
    let numbered = (0_u32..).zip(places);
    let mut squares: Vec<((i64, i64), u32)> = numbered
        .map(|(host, place)| (square(place), host))
        .collect();
    squares.sort_unstable();
    let reaches = |place: Place, other: u32| {
        let other = usize::try_from(other).ok().and_then(|at| places.get(at));
        other.is_some_and(|other| squared(place, *other) <= i128::from(reach) * i128::from(reach))
    };
    let mut pairs = Vec::new();
    for (host, place) in (0_u32..).zip(places) {
        let (column, row) = square(place);
        for column in column - 1..=column + 1 {
            // One look finds the squares of three rows.
            let first = squares.partition_point(|(square, _)| *square < (column, row - 1));
            let others = squares.get(first..).unwrap_or_default().iter();
            let others = others.take_while(|(square, _)| *square <= (column, row + 1));
            let near = others
                .map(|(_, other)| *other)
                .filter(|other| *other > host && reaches(*place, *other));
            pairs.extend(near.map(|other| (host, other)));
            if pairs.len() > LINKS_MAX {
                let what = format!("more than {LINKS_MAX} pairs of nodes are within reach");
                return Err(what);
            }
        }
    }
    pairs.sort_unstable();
    Ok(pairs)
}

/// Everybody who meets until a time, in the order in which they part; `places` moves all hosts to where they are at a time,
/// milliseconds from the start, and is asked once for each step.
///
/// # Errors
/// When they are too many.
pub(super) fn meetings(
    (reach, step, end): (i64, Duration, Duration),
    mut places: impl FnMut(i64) -> Result<Vec<Place>, String>,
) -> Result<Vec<Meeting>, String> {
    let mut together: BTreeMap<(u32, u32), Duration> = BTreeMap::new();
    let mut meetings = Vec::new();
    let mut now = Duration::ZERO;
    while now < end {
        let places = places(i64::try_from(now.as_millis()).unwrap_or(i64::MAX / 4))?;
        let pairs = pairs(&places, reach)?;
        together.retain(|pair, start| {
            let stay = pairs.binary_search(pair).is_ok();
            if !stay {
                meetings.push(Meeting {
                    pair: *pair,
                    start: *start,
                    length: now.saturating_sub(*start),
                });
            }
            stay
        });
        if meetings.len() > CONTACTS_MAX {
            return Err(format!("a scenario has at most {CONTACTS_MAX} contacts"));
        }
        for pair in pairs {
            together.entry(pair).or_insert(now);
        }
        now += step;
    }
    let left = together.into_iter().map(|(pair, start)| Meeting {
        pair,
        start,
        length: end.saturating_sub(start),
    });
    meetings.extend(left);
    Ok(meetings)
}

/// The square of how far apart two places are, square millimetres.
pub(super) fn squared(first: Place, second: Place) -> i128 {
    let (across, along) = (second.0 - first.0, second.1 - first.1);
    i128::from(across) * i128::from(across) + i128::from(along) * i128::from(along)
}

/// The distance of two places, millimetres.
pub(super) fn apart(first: Place, second: Place) -> i64 {
    let squared = squared(first, second);
    // Few places are 3,000 km apart, and the root of a number of 64 bits is found sooner.
    match i64::try_from(squared) {
        Ok(squared) => squared.isqrt(),
        Err(_) => i64::try_from(squared.isqrt()).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_around_the_earth_are_as_far_apart_as_they_are() {
        let far = 40_000_000_000;
        assert_eq!(apart((0, 0), (3_000, 4_000)), 5_000);
        assert_eq!(apart((0, 0), (far, 0)), far);
        assert_eq!(apart((-far, 0), (far, 0)), 2 * far);
        // The square of 2^32 has no room in 64 bits.
        assert!(pairs(&[(0, 0), (1 << 32, 0)], 10_000).unwrap().is_empty());
    }
}
