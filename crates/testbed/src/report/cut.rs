//! The narrowest cut between the ends of what a run delivered: for how long and how fast its links could carry that, and so how much at most.
//!
//! [`Cuts::goodput`] divides all flows by one time, which is no less than what the links of any cut take for what crosses it at their rates:
//! no goodput is above the rates of the links around a receiver. [`Cuts::excess`] finds more delivered than links could carry: a defect of
//! the testbed, and no result.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dhow_page::Axis;

use super::measure::said;
use super::summary::{Flow, RunSummary};
use crate::number::float;
use crate::results::{Capacity, Limited, Still};
use crate::simulated::CONTACTS_MAX;

/// Pairs of nodes for which the narrowest of all cuts is looked for, those with the most octets first; of others the narrower of the two
/// around their ends is taken.
const PAIRS_MAX: usize = 32;

/// Links of a network in which the narrowest of all cuts is looked for.
const LINKS_MAX: usize = 2_000;

/// Links of a cut that are named.
const NAMED_MAX: usize = 3;

/// The error that sums of seconds may have.
const ROUNDING: f64 = 1e-9;

/// A link between two nodes, by their positions.
struct Edge<'a> {
    capacity: &'a Capacity,
    ends: (usize, usize),
    /// When it was there: beginnings and ends, seconds; nothing where it always is.
    contacts: Option<Vec<(f64, f64)>>,
    /// When the time of the run stood still, and for how long: links carried on.
    still: Option<Still>,
}

impl Edge<'_> {
    /// Octets a second that it keeps to.
    fn rate(&self) -> Option<f64> {
        self.capacity.amount.filter(|rate| rate.is_finite())
    }

    fn crosses(&self, side: &[bool]) -> bool {
        side.get(self.ends.0) != side.get(self.ends.1)
    }

    /// For how long it was there from one time to another; and longer by what its bucket gave each time.
    fn time_s(&self, (start, end): (f64, f64)) -> f64 {
        let ahead_s = self.rate().map_or(0.0, |rate| {
            float(self.capacity.ahead_octets) / rate.max(1.0)
        });
        let still_s = |start, end| Still::within(self.still, start, end);
        let Some(contacts) = &self.contacts else {
            return (end - start).max(0.0) + still_s(start, end) + ahead_s;
        };
        let within = contacts.iter().map(|it| (it.0.max(start), it.1.min(end)));
        let within = within.filter(|(start, end)| end > start);
        within
            .map(|(start, end)| end - start + still_s(start, end) + ahead_s)
            .sum()
    }

    /// Octets that it could carry in one direction; without a bound where it keeps to no rate.
    fn octets(&self, times: (f64, f64)) -> f64 {
        let rate = self.rate();
        rate.map_or(f64::INFINITY, |rate| rate * self.time_s(times))
    }
}

/// Payload that was delivered beyond the octets that links could carry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Excess {
    octets: f64,
    could: f64,
    links: Vec<String>,
}

impl std::fmt::Display for Excess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = self.links.iter().take(NAMED_MAX);
        let named = named.map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = match self.links.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (word, that) = match self.links.as_slice() {
            [_] => ("link", "which"),
            _ => ("links", "which together"),
        };
        write!(
            f,
            "its goodput is impossible: {} of payload were delivered over {word} {named}{more}, {that} could carry {} at most from the first sending to the last delivery",
            said(Axis::Octets, self.octets),
            said(Axis::Octets, self.could),
        )
    }
}

/// Deliveries across a cut.
#[derive(Clone, Debug)]
struct Crossing {
    /// The places of its links.
    links: Vec<usize>,
    octets: u64,
    /// When the first of it was sent, and when the last was delivered.
    times: (f64, f64),
}

impl Crossing {
    const fn over(links: Vec<usize>) -> Self {
        Self {
            links,
            octets: 0,
            times: (f64::INFINITY, 0.0),
        }
    }

    fn add(&mut self, flow: &Flow) {
        self.octets += flow.octets;
        let (first, last) = self.times;
        self.times = (first.min(flow.first_sent_s), last.max(flow.last_delivery_s));
    }
}

/// The cuts that what a run delivered had to cross.
pub(crate) struct Cuts<'a> {
    summary: &'a RunSummary,
    edges: Vec<Edge<'a>>,
    /// The nodes on the side of the source, of each flow between two nodes.
    sides: Vec<(&'a Flow, Vec<bool>)>,
    /// Deliveries across the narrowest of all cuts, and across those around each sender and each receiver.
    crossings: Vec<Crossing>,
    positions: BTreeMap<&'a str, usize>,
}

impl<'a> Cuts<'a> {
    /// The cuts of a run.
    pub(crate) fn of(summary: &'a RunSummary) -> Self {
        let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
        let mut edges = Vec::new();
        let links = summary.capacities.iter();
        let links = links.filter(|it| it.resource == Limited::Link && !it.from.is_empty());
        let (wires, shared): (Vec<_>, Vec<_>) = links.partition(|it| it.over.is_empty());
        for capacity in wires {
            let [from, to] = [capacity.from.as_str(), &capacity.to].map(|name| {
                let next = positions.len();
                *positions.entry(name).or_insert(next)
            });
            edges.push(Edge {
                capacity,
                ends: (from, to),
                contacts: capacity.planned.then(Vec::new),
                still: summary.still,
            });
        }
        // Nodes on one host stand where it does: what they send crosses the same wires.
        for capacity in shared {
            let mut wires = edges.iter().map(|edge: &Edge<'_>| edge.capacity);
            let Some(wire) = wires.find(|it| it.name == capacity.over) else {
                continue;
            };
            for (node, host) in [(&capacity.from, &wire.from), (&capacity.to, &wire.to)] {
                if let Some(place) = positions.get(host.as_str()).copied() {
                    positions.insert(node, place);
                }
            }
        }
        let by_name: BTreeMap<&str, usize> = edges
            .iter()
            .enumerate()
            .map(|(number, edge)| (edge.capacity.name.as_str(), number))
            .collect();
        for contact in &summary.contacts {
            let number = by_name.get(contact.link.as_str());
            let edge = number.and_then(|number| edges.get_mut(*number));
            if let Some(contacts) = edge.and_then(|edge| edge.contacts.as_mut()) {
                contacts.push((contact.start_s, contact.end_s));
            }
        }
        let mut cuts = Self {
            summary,
            edges,
            sides: Vec::new(),
            crossings: Vec::new(),
            positions,
        };
        if summary.contacts.len() >= CONTACTS_MAX {
            // Some contacts are not told.
            return cuts;
        }
        let mut flows: Vec<&Flow> = summary.flows.iter().filter(|it| it.from != it.to).collect();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.octets));
        let flows = flows.into_iter().enumerate();
        let sides = flows.filter_map(|(number, flow)| Some((flow, cuts.side(flow, number)?)));
        let sides = sides.collect();
        cuts.sides = sides;
        cuts.crossings = [cuts.crossings_of_narrowest(), cuts.crossings_of_ends()].concat();
        cuts
    }

    /// Payload that was delivered between all nodes, by the one time in which it could pass, bit/s. That time is the longest that a flow
    /// had, and no less than the links of any cut take at their rates for the octets that cross it. Nothing where there was no such time,
    /// or where links are not known.
    pub(crate) fn goodput(&self) -> Option<f64> {
        let between = self.summary.flows.iter().filter(|it| it.from != it.to);
        if self.sides.is_empty() || self.sides.len() < between.count() {
            return None;
        }
        let octets = self.summary.flows.iter().map(|flow| float(flow.octets));
        let times = self.sides.iter().map(|(_, side)| self.time_s(side));
        let least = self.crossings.iter().map(|it| self.least_s(it));
        let time_s = times.chain(least).max_by(f64::total_cmp)?;
        let goodput = octets.sum::<f64>() * 8.0 / time_s;
        goodput.is_finite().then_some(goodput)
    }

    /// Payload that was delivered beyond the octets that the links of a cut could carry from its first sending to its last delivery.
    pub(crate) fn excess(&self) -> Option<Excess> {
        self.crossings.iter().find_map(|crossing| {
            let octets = float(crossing.octets);
            let links = crossing.links.iter().filter_map(|it| self.edges.get(*it));
            let could: f64 = links.clone().map(|edge| edge.octets(crossing.times)).sum();
            (octets > could * (1.0 + ROUNDING)).then(|| Excess {
                octets,
                could,
                links: links.map(|edge| edge.capacity.name.clone()).collect(),
            })
        })
    }

    /// The least time in which the links of a cut carry what was delivered across it: 0 where one keeps to no rate.
    fn least_s(&self, crossing: &Crossing) -> f64 {
        let links = crossing.links.iter().filter_map(|it| self.edges.get(*it));
        let rate = links.map(Edge::rate).sum::<Option<f64>>();
        let rate = rate.filter(|rate| *rate > 0.0);
        rate.map_or(0.0, |rate| float(crossing.octets) / rate)
    }

    /// Flows with the positions of their ends.
    fn placed(&self) -> impl Iterator<Item = (&'a Flow, usize, usize)> {
        let of = |name: &str| self.positions.get(name).copied();
        let flows = self.sides.iter().map(|(flow, _)| *flow);
        flows.filter_map(move |flow| Some((flow, of(&flow.from)?, of(&flow.to)?)))
    }

    /// Links of a cut.
    fn links(&self, side: &[bool]) -> impl Iterator<Item = (usize, &Edge<'a>)> {
        let edges = self.edges.iter().enumerate();
        edges.filter(move |(_, edge)| edge.crosses(side))
    }

    fn crossings_of_narrowest(&self) -> Vec<Crossing> {
        let sides = self.sides.iter().take(PAIRS_MAX);
        let sides: BTreeSet<&Vec<bool>> = sides.map(|(_, side)| side).collect();
        let each = sides.into_iter().map(|side| {
            let links = self.links(side).map(|(number, _)| number);
            let mut crossing = Crossing::over(links.collect());
            let is_across =
                |from, to| side.get(from) == Some(&true) && side.get(to) == Some(&false);
            let across = self.placed().filter(|(_, from, to)| is_across(*from, *to));
            across.for_each(|(flow, ..)| crossing.add(flow));
            crossing
        });
        each.filter(|it| it.octets > 0).collect()
    }

    fn crossings_of_ends(&self) -> Vec<Crossing> {
        let mut links: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, edge) in self.edges.iter().enumerate() {
            for end in [edge.ends.0, edge.ends.1] {
                links.entry(end).or_default().push(number);
            }
        }
        // By the node, and whether it sends.
        let mut crossings: BTreeMap<(usize, bool), Crossing> = BTreeMap::new();
        for (flow, from, to) in self.placed().filter(|(_, from, to)| from != to) {
            for (node, sends) in [(from, true), (to, false)] {
                let around = || Crossing::over(links.get(&node).cloned().unwrap_or_default());
                let crossing = crossings.entry((node, sends));
                crossing.or_insert_with(around).add(flow);
            }
        }
        crossings.into_values().collect()
    }

    /// For how long payload could pass a cut: links that come and go in all of their contacts, others from when the first payload was
    /// sent to the last delivery; in the mean, by their rates.
    fn time_s(&self, side: &[bool]) -> f64 {
        let first = self.summary.first_sent_s.unwrap_or_default();
        let always = (first, self.summary.last_delivery_s.unwrap_or_default());
        let (mut weights, mut sum) = (0.0, 0.0);
        let links = || self.links(side).map(|(_, edge)| edge);
        let are_even = links().all(|edge| edge.rate().is_some());
        for edge in links() {
            let times = match edge.contacts {
                Some(_) => (0.0, f64::INFINITY),
                None => always,
            };
            let rate = edge.rate().filter(|_| are_even).unwrap_or(1.0);
            weights += rate;
            sum += rate * edge.time_s(times);
        }
        sum / weights
    }

    /// The nodes on the side of a flow's source, of the cut that could carry least; nothing where an end has no link.
    fn side(&self, flow: &Flow, number: usize) -> Option<Vec<bool>> {
        let from = *self.positions.get(flow.from.as_str())?;
        let to = *self.positions.get(flow.to.as_str())?;
        let end = self.summary.last_delivery_s?;
        let times = (self.summary.first_sent_s?, end);
        let octets: Vec<f64> = self.edges.iter().map(|edge| edge.octets(times)).collect();
        // If links without a rate lead all of the way, the one that was there the least counts.
        let seconds = || self.edges.iter().map(|edge| edge.time_s(times)).collect();
        if number >= PAIRS_MAX || self.edges.len() > LINKS_MAX {
            return Some(self.narrower(from, to, &octets));
        }
        let narrowest = self.narrowest(from, to, octets);
        narrowest.or_else(|| self.narrowest(from, to, seconds()))
    }

    /// The cut around one of two ends.
    fn narrower(&self, from: usize, to: usize, weights: &[f64]) -> Vec<bool> {
        let around = |node: usize| -> f64 {
            let edges = self.edges.iter().zip(weights);
            let own = edges.filter(|(edge, _)| edge.ends.0 == node || edge.ends.1 == node);
            own.map(|(_, weight)| weight).sum()
        };
        let is_at_source = around(from) <= around(to);
        let nodes = 0..self.positions.len();
        nodes
            .map(|node| match is_at_source {
                true => node == from,
                false => node != to,
            })
            .collect()
    }

    /// The narrowest of all cuts, by the most that can flow (Edmonds and Karp); nothing where that has no bound.
    fn narrowest(&self, from: usize, to: usize, weights: Vec<f64>) -> Option<Vec<bool>> {
        // The capacity left in the direction of each edge, and against it.
        let mut left: Vec<[f64; 2]> = weights.iter().map(|it| [*it, *it]).collect();
        let mut around: Vec<Vec<(usize, usize, usize)>> = vec![Vec::new(); self.positions.len()];
        for (number, edge) in self.edges.iter().enumerate() {
            let (one, other) = edge.ends;
            for (here, there, direction) in [(one, other, 0), (other, one, 1)] {
                around.get_mut(here)?.push((number, there, direction));
            }
        }
        loop {
            let mut came: Vec<Option<(usize, usize, usize)>> = vec![None; around.len()];
            let mut reached = VecDeque::from([from]);
            while let Some(here) = reached.pop_front() {
                for &(number, there, direction) in around.get(here)? {
                    let is_free = *left.get(number)?.get(direction)? > 0.0;
                    let place = came.get_mut(there)?;
                    if is_free && there != from && place.is_none() {
                        *place = Some((number, here, direction));
                        reached.push_back(there);
                    }
                }
            }
            if came.get(to)?.is_none() {
                let side = came.iter().enumerate();
                let side = side.map(|(node, way)| node == from || way.is_some());
                return Some(side.collect());
            }
            let mut way = Vec::new();
            let mut here = to;
            while let Some((number, before, direction)) = *came.get(here)? {
                way.push((number, direction));
                here = before;
            }
            let least = way.iter().filter_map(|(number, direction)| {
                let left = left.get(*number)?;
                left.get(*direction).copied()
            });
            let least = least.min_by(f64::total_cmp)?;
            if least.is_infinite() {
                return None;
            }
            for (number, direction) in way {
                let left = left.get_mut(number)?;
                *left.get_mut(direction)? -= least;
                *left.get_mut(1 - direction)? += least;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Contact, Run};

    /// A link of a rate in octets a second, its bucket, and its contacts where it has some.
    fn link(name: &str, rate: f64, contacts: Option<&[(f64, f64)]>) -> (Capacity, Vec<Contact>) {
        let (from, to) = name.split_at(1);
        let capacity = Capacity {
            name: name.to_owned(),
            resource: Limited::Link,
            amount: Some(rate),
            from: from.to_owned(),
            to: to.to_owned(),
            ahead_octets: 0,
            planned: contacts.is_some(),
            over: String::new(),
        };
        let contacts = contacts
            .unwrap_or_default()
            .iter()
            .map(|(start_s, end_s)| Contact {
                link: name.to_owned(),
                start_s: *start_s,
                end_s: *end_s,
            });
        (capacity, contacts.collect())
    }

    fn flow(ends: &str, octets: u64, first_sent_s: f64, last_delivery_s: f64) -> Flow {
        let (from, to) = ends.split_at(1);
        Flow {
            from: from.to_owned(),
            to: to.to_owned(),
            octets,
            first_sent_s,
            last_delivery_s,
        }
    }

    fn summary(links: Vec<(Capacity, Vec<Contact>)>, flows: Vec<Flow>) -> RunSummary {
        let first = flows
            .iter()
            .map(|it| it.first_sent_s)
            .min_by(f64::total_cmp);
        let last = flows
            .iter()
            .map(|it| it.last_delivery_s)
            .max_by(f64::total_cmp);
        let (capacities, contacts): (Vec<_>, Vec<_>) = links.into_iter().unzip();
        RunSummary {
            run: Run {
                sent: 1,
                delivered_octets: flows.iter().map(|it| it.octets).sum(),
                duration_s: 100.0,
                ..Run::default()
            },
            first_sent_s: first,
            last_delivery_s: last,
            contacts: contacts.concat(),
            capacities,
            flows,
            ..RunSummary::bare(Run::default())
        }
    }

    #[test]
    fn a_contact_that_the_end_of_the_run_cut_short_is_no_divisor_of_what_another_link_carried() {
        // The second link has just begun its contact when all is delivered over the first.
        let first = link("ab", 125_000.0, Some(&[(1.0, 9.0)]));
        let other = link("bc", 250_000.0, Some(&[(8.99, 9.0)]));
        let summary = summary(vec![first, other], vec![flow("ab", 800_000, 0.0, 9.0)]);
        assert_eq!(summary.goodput(), Some(800_000.0));
        assert_eq!(Cuts::of(&summary).excess(), None);
    }

    #[test]
    fn nodes_on_one_host_share_its_wire() {
        let links = || {
            let wire = link("ab", 125_000.0, Some(&[(1.0, 9.0)]));
            let mut second = link("cd", 125_000.0, Some(&[]));
            second.0.over = "ab".to_owned();
            vec![wire, second]
        };
        let flows = |octets| vec![flow("ab", 500_000, 0.0, 9.0), flow("cd", octets, 0.0, 9.0)];
        let most = summary(links(), flows(500_000));
        assert_eq!(most.goodput(), Some(1_000_000.0));
        assert_eq!(Cuts::of(&most).excess(), None);
        assert!(
            Cuts::of(&summary(links(), flows(500_001)))
                .excess()
                .is_some()
        );
    }

    #[test]
    fn the_narrowest_cut_of_a_network_divides() {
        // Two ways from a to d: over b, and over c; the link to d from b is the narrowest of the first.
        let links = || {
            vec![
                link("ab", 1_000.0, None),
                link("bd", 100.0, Some(&[(10.0, 20.0), (30.0, 40.0)])),
                link("ac", 50.0, Some(&[(0.0, 40.0)])),
                link("cd", 1_000.0, None),
            ]
        };
        // 100 B/s for 20 s and 50 B/s for 40 s.
        let most = summary(links(), vec![flow("ad", 4_000, 0.0, 40.0)]);
        assert_eq!(Cuts::of(&most).excess(), None);
        assert_eq!(most.goodput(), Some(150.0 * 8.0));
        let more = summary(links(), vec![flow("ad", 4_001, 0.0, 40.0)]);
        let excess = Cuts::of(&more).excess().expect("more than could pass");
        assert_eq!(
            excess.to_string(),
            "its goodput is impossible: 4.00 kB of payload were delivered over links bd, ac, which together could carry 4.00 kB at most \
             from the first sending to the last delivery"
        );
        // Payloads of two nodes over one link count together.
        let two = vec![flow("ad", 3_000, 0.0, 40.0), flow("bd", 1_001, 0.0, 40.0)];
        let both = summary(vec![link("ab", 1e6, None), link("bd", 100.0, None)], two);
        assert!(Cuts::of(&both).excess().is_some());
    }

    /// Goodput of what a run delivered, in octets a second.
    fn goodput(links: Vec<(Capacity, Vec<Contact>)>, flows: Vec<Flow>) -> Option<f64> {
        let summary = summary(links, flows);
        assert_eq!(Cuts::of(&summary).excess(), None);
        summary.goodput().map(|rate| rate / 8.0)
    }

    #[test]
    fn goodput_is_never_above_the_only_link_to_a_receiver() {
        // One flow has a contact of 2 s, the other what the link into the receiver has from beginning to end.
        let links = || {
            vec![
                link("ar", 500_000.0, Some(&[(1.0, 3.0)])),
                link("rb", 500_000.0, None),
            ]
        };
        let flows = vec![
            flow("ab", 900_000, 0.0, 4.0),
            flow("rb", 1_100_000, 0.0, 4.2),
        ];
        let both = goodput(links(), flows).expect("links are known");
        assert!((both - 2_000_000.0 / 4.2).abs() < 1.0, "{both}");
        // The contact is the narrowest, and the link behind it is slower.
        let mut slow = links();
        slow[1].0.amount = Some(50_000.0);
        let alone = vec![flow("ab", 1_000_000, 0.0, 30.0)];
        assert_eq!(goodput(slow, alone), Some(50_000.0));
        // Both flows have a contact of 2 s, and share the link behind.
        let mut shared = links();
        shared.push(link("cr", 500_000.0, Some(&[(1.0, 3.0)])));
        let flows = vec![
            flow("ab", 1_000_000, 0.0, 5.0),
            flow("cb", 1_000_000, 0.0, 5.0),
        ];
        assert_eq!(goodput(shared, flows), Some(500_000.0));
    }

    #[test]
    fn what_was_delivered_before_the_contact_ended_counts_against_the_time_until_then() {
        let early = summary(
            vec![link("ab", 1_000.0, Some(&[(1.0, 5.0)]))],
            vec![flow("ab", 2_000, 0.0, 2.0)],
        );
        assert!(Cuts::of(&early).excess().is_some());
        let due = summary(
            vec![link("ab", 1_000.0, Some(&[(1.0, 5.0)]))],
            vec![flow("ab", 2_000, 0.0, 3.0)],
        );
        assert_eq!(Cuts::of(&due).excess(), None);
        assert_eq!(due.goodput(), Some(2_000.0 * 8.0 / 4.0));
    }

    #[test]
    fn links_carry_on_while_the_time_of_a_run_stands_still() {
        let links = || {
            vec![
                link("ab", 100.0, None),
                link("bd", 400.0, Some(&[(2.0, 5.0)])),
            ]
        };
        let load = || vec![flow("ad", 1_200, 0.0, 5.0)];
        assert!(Cuts::of(&summary(links(), load())).excess().is_some());
        let still = Some(Still {
            at_s: 1.0,
            for_s: 10.0,
        });
        let paused = RunSummary {
            still,
            ..summary(links(), load())
        };
        assert_eq!(Cuts::of(&paused).excess(), None);
        assert_eq!(paused.goodput(), Some(100.0 * 8.0));
    }

    #[test]
    fn goodput_is_never_above_the_rate_though_a_bucket_gives_more() {
        let (mut capacity, contacts) = link("ab", 8_000.0, Some(&[(0.0, 4.0)]));
        capacity.ahead_octets = 3_000;
        let whole = summary(
            vec![(capacity.clone(), contacts.clone())],
            vec![flow("ab", 35_000, 0.0, 4.0)],
        );
        assert_eq!(Cuts::of(&whole).excess(), None);
        assert_eq!(whole.goodput(), Some(64_000.0));
        let more = summary(
            vec![(capacity, contacts)],
            vec![flow("ab", 35_001, 0.0, 4.0)],
        );
        assert!(Cuts::of(&more).excess().is_some());
    }

    #[test]
    fn a_link_without_a_rate_bounds_nothing_and_its_time_divides() {
        let (mut capacity, contacts) = link("ab", 1.0, Some(&[(0.0, 4.0)]));
        capacity.amount = None;
        let summary = summary(
            vec![(capacity, contacts)],
            vec![flow("ab", 4_000, 0.0, 3.0)],
        );
        assert_eq!(Cuts::of(&summary).excess(), None);
        assert_eq!(summary.goodput(), Some(8_000.0));
    }
}
