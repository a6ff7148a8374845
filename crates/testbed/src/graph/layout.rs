//! The places of a network's nodes in a picture.

use dhow_scenario::Scenario;

/// The picture's measures: what a node takes of a circle, the margin, the radius of the smallest circle, and the length of a link that nothing pulls at.
const APART: f64 = 110.0;
const MARGIN: f64 = 90.0;
const RADIUS_MIN: f64 = 110.0;
const LENGTH: f64 = 130.0;

/// Nodes that find their places by their links; fewer and more of them are placed around a circle.
const LINKED_NODES: std::ops::RangeInclusive<usize> = 5..=100;

/// Steps until all have found them.
const STEPS: u32 = 300;

/// The height of a network as a part of its width, both squared, below which it is a line.
const LEAST_HEIGHT: f64 = 0.02;

type Place = (f64, f64);

/// The places of nodes in a picture.
#[derive(Clone, Debug)]
pub struct Layout {
    places: Vec<Place>,
    /// Across and down.
    size: Place,
}

impl Layout {
    /// The places of a scenario's nodes: linked ones are near each other.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let mut places = circle(scenario.nodes.len());
        let links = scenario.links.iter();
        let links: Vec<_> = links.map(|it| (it.between.0.0, it.between.1.0)).collect();
        if LINKED_NODES.contains(&places.len()) && !links.is_empty() {
            let distances = distances(places.len(), &links);
            if let Some(scaled) = scaled(&distances) {
                places = scaled;
                for _ in 0..STEPS {
                    places = moved(&places, &distances);
                }
            }
        }
        let least = |part: fn(&Place) -> f64| places.iter().map(part).fold(f64::MAX, f64::min);
        let (left, top) = (least(|it| it.0), least(|it| it.1));
        for place in &mut places {
            *place = (place.0 - left + MARGIN, place.1 - top + MARGIN);
        }
        let most = |part: fn(&Place) -> f64| places.iter().map(part).fold(0.0, f64::max) + MARGIN;
        let size = (most(|it| it.0), most(|it| it.1));
        Self { places, size }
    }

    /// The picture's size, across and down.
    #[must_use]
    pub const fn size(&self) -> (f64, f64) {
        self.size
    }

    /// The place of a node by its position among all: across and down from the upper left corner.
    #[must_use]
    pub fn place(&self, position: usize) -> (f64, f64) {
        self.places.get(position).copied().unwrap_or_default()
    }
}

/// Places around a circle that has room for so many nodes.
fn circle(count: usize) -> Vec<Place> {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let radius = (number(count) * APART / std::f64::consts::TAU).max(RADIUS_MIN);
    let angles = (0..count).map(|it| std::f64::consts::TAU * number(it) / number(count));
    angles
        .map(|angle| (-radius * angle.cos(), -radius * angle.sin()))
        .collect()
}

/// A row for each node with the links from it to each other by the shortest way; where there is none, two more than the longest way has.
fn distances(count: usize, links: &[(usize, usize)]) -> Vec<Vec<f64>> {
    let mut neighbours = vec![Vec::new(); count];
    for (one, other) in links {
        for (at, to) in [(*one, *other), (*other, *one)] {
            if let Some(known) = neighbours.get_mut(at) {
                known.push(to);
            }
        }
    }
    let from = |start: usize| {
        let mut row = vec![f64::INFINITY; count];
        let mut next = vec![start];
        let mut away = 0.0;
        while !next.is_empty() {
            let mut found = Vec::new();
            for at in next {
                if let Some(known) = row.get_mut(at).filter(|it| **it > away || at == start) {
                    *known = away;
                    found.extend(neighbours.get(at).into_iter().flatten());
                }
            }
            away += 1.0;
            found.retain(|at| row.get(*at).is_some_and(|known| *known > away));
            next = found;
        }
        row
    };
    let mut rows: Vec<Vec<f64>> = (0..count).map(from).collect();
    let known = rows.iter().flatten().copied().filter(|it| it.is_finite());
    let longest = known.fold(0.0, f64::max);
    for far in rows.iter_mut().flatten().filter(|it| it.is_infinite()) {
        *far = longest + 2.0;
    }
    rows
}

/// Places whose distances are most like these in two dimensions (classical scaling, Torgerson 1952); `None` of a network that a circle shows better,
/// since all nodes have links with each other, or it is one long line.
fn scaled(distances: &[Vec<f64>]) -> Option<Vec<Place>> {
    let count = f64::from(u32::try_from(distances.len()).ok()?);
    let squares: Vec<Vec<f64>> = distances
        .iter()
        .map(|row| row.iter().map(|it| it * it).collect())
        .collect();
    let means: Vec<f64> = squares
        .iter()
        .map(|row| row.iter().sum::<f64>() / count)
        .collect();
    let mean = means.iter().sum::<f64>() / count;
    let centred = |(row, of): (&Vec<f64>, &f64)| -> Vec<f64> {
        let both = row.iter().zip(&means);
        both.map(|(square, to)| (of + to - square - mean) / 2.0)
            .collect()
    };
    let mut matrix: Vec<Vec<f64>> = squares.iter().zip(&means).map(centred).collect();
    let (across, first) = widest(&mut matrix);
    let (down, second) = widest(&mut matrix);
    let is_shaped = mean > 2.0 && second > first * LEAST_HEIGHT;
    is_shaped.then(|| across.into_iter().zip(down).collect())
}

/// The direction in which points lie farthest apart, as the place of each along it, and how far; the matrix has none of it any more.
fn widest(matrix: &mut [Vec<f64>]) -> (Vec<f64>, f64) {
    let mut direction: Vec<f64> = (0_u32..)
        .take(matrix.len())
        .map(|it| f64::from(it * it % 17) - 7.5)
        .collect();
    let mut width = 0.0_f64;
    for _ in 0..STEPS {
        let product = |row: &Vec<f64>| row.iter().zip(&direction).map(|(a, b)| a * b).sum::<f64>();
        let next: Vec<f64> = matrix.iter().map(product).collect();
        width = next.iter().map(|it| it * it).sum::<f64>().sqrt();
        if width <= f64::EPSILON {
            return (vec![0.0; matrix.len()], 0.0);
        }
        direction = next.into_iter().map(|it| it / width).collect();
    }
    for (row, of) in matrix.iter_mut().zip(&direction) {
        for (cell, to) in row.iter_mut().zip(&direction) {
            *cell -= width * of * to;
        }
    }
    let length = width.sqrt() * LENGTH;
    (direction.into_iter().map(|it| it * length).collect(), width)
}

/// Each node is moved to where its distances to all others fit best, the near ones first (stress majorization, Gansner and others 2004).
fn moved(places: &[Place], distances: &[Vec<f64>]) -> Vec<Place> {
    let fitted = |(place, row): (&Place, &Vec<f64>)| {
        let (mut sum, mut weights) = ((0.0, 0.0), 0.0);
        for (other, links) in places.iter().zip(row).filter(|(_, links)| **links > 0.0) {
            let (x, y) = (place.0 - other.0, place.1 - other.1);
            let stretch = links * LENGTH / x.hypot(y).max(1.0);
            let weight = 1.0 / (links * links);
            sum.0 += weight * (other.0 + x * stretch);
            sum.1 += weight * (other.1 + y * stretch);
            weights += weight;
        }
        match weights > 0.0 {
            true => (sum.0 / weights, sum.1 / weights),
            false => *place,
        }
    };
    places.iter().zip(distances).map(fitted).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn linked_nodes_are_nearer_than_others_and_all_are_in_the_picture() {
        let grid = "[[grid]]\nname = \"n-\"\nwidth = 4\nheight = 3\nrate = \"1Mbit\"\n[stop]\nat = \"1s\"\n";
        let scenario = Scenario::parse(Path::new("s.toml"), grid).expect("a scenario");
        let layout = Layout::of(&scenario);
        let between = |one: usize, other: usize| {
            let (a, b) = (layout.place(one), layout.place(other));
            (a.0 - b.0).hypot(a.1 - b.1)
        };
        for link in &scenario.links {
            let length = between(link.between.0.0, link.between.1.0);
            assert!(
                (0.8 * LENGTH..1.2 * LENGTH).contains(&length),
                "{}: {length}",
                link.name
            );
        }
        let all = || (0..12).flat_map(|one| (0..one).map(move |other| (one, other)));
        assert!(all().all(|(one, other)| between(one, other) > 40.0));
        let (width, height) = layout.size();
        assert!((0..12).map(|it| layout.place(it)).all(|(x, y)| {
            (MARGIN..=width - MARGIN).contains(&x) && (MARGIN..=height - MARGIN).contains(&y)
        }));
    }

    #[test]
    fn parts_that_nothing_joins_are_beside_each_other() {
        let part = |name: &str| {
            format!("[[grid]]\nname = \"{name}-\"\nwidth = 5\nheight = 5\nrate = \"1Mbit\"\n")
        };
        let text = format!("{}{}[stop]\nat = \"1s\"\n", part("a"), part("b"));
        let scenario = Scenario::parse(Path::new("s.toml"), &text).expect("a scenario");
        let layout = Layout::of(&scenario);
        let (width, height) = layout.size();
        assert!(width.max(height) < 20.0 * LENGTH, "{width} {height}");
        for link in &scenario.links {
            let (a, b) = (
                layout.place(link.between.0.0),
                layout.place(link.between.1.0),
            );
            let length = (a.0 - b.0).hypot(a.1 - b.1);
            assert!(
                (0.5 * LENGTH..1.6 * LENGTH).contains(&length),
                "{}: {length}",
                link.name
            );
        }
    }
}
