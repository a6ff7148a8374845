//! The causes for which virtual time and sockets differ, as far as measurements tell: a cause is named where its share differs by as much as what it explains.

use std::collections::BTreeSet;

use dhow_page::{Axis, escaped};

use super::limit;
use super::measure::{Measure, said};
use super::statistics::Spread;
use super::summary::{Day, RunSummary};
use crate::number::float;

/// The part of a difference that its cause may leave open.
const OPEN: f64 = 0.05;

/// A host did something most of the time from this part of it on.
const MOST: f64 = 0.5;

/// Payloads that may be under way when a contact or a run ends.
const UNDER_WAY: f64 = 2.0;

/// More octets for each that was delivered than this part are no headers: those of segments that are not full, and of acknowledgments.
const HEADERS: f64 = 0.15;

/// Means of what differs.
pub(super) struct Difference<'a> {
    pub(super) measure: &'a Measure,
    pub(super) on_sockets: &'a [&'a RunSummary],
    pub(super) in_virtual_time: &'a [&'a RunSummary],
    /// The mean of virtual time by the mean of sockets.
    pub(super) ratio: f64,
}

impl Difference<'_> {
    /// Its cause, in words.
    pub(super) fn cause(&self) -> String {
        let cause = self.of_host().or_else(|| self.of_payloads());
        let cause = cause.or_else(|| self.of_headers());
        cause.unwrap_or_else(|| "no cause was found".to_owned())
    }

    fn is_time(&self) -> bool {
        matches!(self.measure, Measure::Delay(_) | Measure::Drain)
    }

    /// The part of the time on sockets that virtual time does not take.
    fn saved(&self) -> f64 {
        match self.is_time() {
            true => 1.0 - self.ratio,
            false => 1.0 - 1.0 / self.ratio,
        }
    }

    /// Something that a host did or waited for most of its time, longer than in virtual time by all that this saves. A host was no limit where a
    /// link was full.
    fn of_host(&self) -> Option<String> {
        let saved = self.saved();
        let has_full_link = |summary: &&RunSummary| limit::full_link(summary).is_some();
        if saved <= 0.0 || self.on_sockets.iter().any(has_full_link) {
            return None;
        }
        type Part = fn(&Day) -> f64;
        let parts: [(Part, &str); 4] = [
            (
                |day| day.busy + day.waited,
                "used processors or waited for them for PART of the time, and virtual time has none",
            ),
            (
                |day| day.memory,
                "waited for room in its memory for PART of the time, and nothing in virtual time does",
            ),
            (
                |day| day.locks,
                "waited for locks for PART of the time, and nothing in virtual time does",
            ),
            (
                |day| day.disk.unwrap_or(0.0),
                "waited for its disk for PART of the time, and disks of virtual time take as long as the scenario says",
            ),
        ];
        let days = self.on_sockets.iter().flat_map(|summary| &summary.days);
        let nodes: BTreeSet<&str> = days.map(|day| day.node.as_str()).collect();
        let each = nodes.into_iter().flat_map(|node| {
            parts.iter().map(move |(part, words)| {
                let real = mean_part(self.on_sockets, node, *part);
                let virtual_ = mean_part(self.in_virtual_time, node, *part);
                (node, real, real - virtual_, *words)
            })
        });
        let enough =
            each.filter(|(_, real, more, _)| *real >= MOST && *more >= saved - OPEN && *more > 0.0);
        let most = enough.max_by(|one, other| one.1.total_cmp(&other.1));
        most.map(|(node, real, _, words)| {
            let part = said(Axis::Share, real.min(1.0));
            format!("node {} {}", escaped(node), words.replace("PART", &part))
        })
    }

    /// Other payloads than those on sockets, as far as they explain it.
    fn of_payloads(&self) -> Option<String> {
        let mean = |runs: &[&RunSummary], value: fn(&RunSummary) -> f64| {
            Spread::of(runs.iter().map(|summary| value(summary)).collect()).map(|it| it.mean)
        };
        let delivered = |runs| mean(runs, |summary| float(summary.run.delivered));
        let sent = |runs| mean(runs, |summary| float(summary.run.sent));
        let (real, virtual_) = (
            delivered(self.on_sockets)?,
            delivered(self.in_virtual_time)?,
        );
        let differs = (real - virtual_).abs();
        if differs == 0.0 || differs / real < (self.ratio - 1.0).abs() - OPEN {
            return None;
        }
        if self.is_time() {
            let share = |delivered, sent: f64| said(Axis::Share, delivered / sent);
            return Some(format!(
                "{} of the payloads were delivered in it, and {} on sockets, so these figures are not of the same payloads",
                share(virtual_, sent(self.in_virtual_time)?),
                share(real, sent(self.on_sockets)?)
            ));
        }
        (differs <= UNDER_WAY).then(|| {
            format!(
                "{virtual_:.1} payloads were delivered in it and {real:.1} on sockets, and as many as they differ by are under way when a contact or the run ends"
            )
        })
    }

    /// Headers over a full link, as far as more octets of them went over it.
    fn of_headers(&self) -> Option<String> {
        let link = self
            .on_sockets
            .iter()
            .find_map(|summary| limit::full_link(summary))?;
        let weight = |runs: &[&RunSummary]| {
            let each = runs.iter().filter_map(|summary| {
                let passed = summary.passed.iter().find(|it| it.link == link)?;
                Some(float(passed.octets) / float(summary.run.delivered_octets))
            });
            Spread::of(each.collect()).map(|it| it.mean)
        };
        let heavier = weight(self.on_sockets)? / weight(self.in_virtual_time)?;
        let explains = self.saved() > 0.0 && !self.is_time() && heavier >= self.ratio - OPEN;
        let are_headers = heavier > 1.0 && heavier < 1.0 + HEADERS;
        (explains && are_headers).then(|| {
            format!(
                "link {} was full, and had {} more octets for each that was delivered than in virtual time, which counts headers as if all segments of TCP were full",
                escaped(&link),
                said(Axis::Share, heavier - 1.0)
            )
        })
    }
}

/// The part of its time for which a node did something, in the mean of runs; 0 where nothing is known of it.
fn mean_part(runs: &[&RunSummary], node: &str, part: fn(&Day) -> f64) -> f64 {
    let days = runs.iter().flat_map(|summary| &summary.days);
    let parts = days.filter(|day| day.node == node).map(part);
    Spread::of(parts.collect()).map_or(0.0, |it| it.mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Run;

    fn summary(delivered: u64, disk: f64) -> RunSummary {
        let run = Run {
            sent: 100,
            delivered,
            delivered_octets: delivered * 1_000,
            ..Run::default()
        };
        let day = Day {
            node: "a".to_owned(),
            busy: 0.1,
            waited: 0.0,
            disk: Some(disk),
            written_octets: 0,
            memory: 0.0,
            locks: 0.0,
        };
        RunSummary {
            days: vec![day],
            ..RunSummary::bare(run)
        }
    }

    fn cause(measure: &Measure, real: &RunSummary, virtual_: &RunSummary, ratio: f64) -> String {
        let difference = Difference {
            measure,
            on_sockets: &[real],
            in_virtual_time: &[virtual_],
            ratio,
        };
        difference.cause()
    }

    #[test]
    fn a_wait_is_the_cause_of_what_it_takes_and_of_no_more() {
        let (real, virtual_) = (summary(100, 0.6), RunSummary::bare(summary(100, 0.0).run));
        let of = |measure, ratio| cause(&measure, &real, &virtual_, ratio);
        // Without six tenths of its time a node is 2.5 times as fast.
        assert!(of(Measure::Goodput, 2.5).contains("node a waited for its disk for 60.0 %"));
        assert!(of(Measure::Delay(50), 0.5).contains("its disk"));
        for (measure, ratio) in [
            (Measure::Goodput, 4.0),
            (Measure::Goodput, 0.5),
            (Measure::Delay(50), 0.2),
            (Measure::Delay(50), 2.0),
            (Measure::Goodput, f64::INFINITY),
        ] {
            assert_eq!(of(measure, ratio), "no cause was found", "{ratio}");
        }
        // Virtual time waits as long.
        let as_long = cause(&Measure::Goodput, &real, &real, 1.5);
        assert_eq!(as_long, "no cause was found");
    }

    #[test]
    fn a_host_is_no_cause_where_a_link_was_full() {
        let real = summary(100, 0.9).over_wire(99_000, 100.0);
        let virtual_ = |octets| RunSummary::bare(summary(100, 0.0).run).over_wire(octets, 100.0);
        let of = |octets, ratio| cause(&Measure::Goodput, &real, &virtual_(octets), ratio);
        assert_eq!(of(99_000, 1.18), "no cause was found");
        assert!(of(90_000, 1.1).contains("link wire was full, and had 10.0 % more octets"));
        assert_eq!(of(50_000, 1.5), "no cause was found");
    }

    #[test]
    fn payloads_are_the_cause_of_as_much_as_they_differ() {
        let run = |delivered| RunSummary::bare(summary(delivered, 0.0).run);
        let of = |measure, virtual_, ratio| cause(&measure, &run(10), &run(virtual_), ratio);
        assert!(of(Measure::Goodput, 12, 1.2).contains("under way"));
        assert_eq!(of(Measure::Goodput, 12, 1.5), "no cause was found");
        assert_eq!(of(Measure::Goodput, 15, 1.5), "no cause was found");
        assert!(of(Measure::Delay(50), 15, 1.5).contains("not of the same payloads"));
        assert_eq!(of(Measure::Delay(50), 11, 1.5), "no cause was found");
    }
}
