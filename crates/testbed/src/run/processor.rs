//! Processors that are set by the rate of TCP: the part of a core that this rate takes on this machine.
//!
//! Two hosts with the same share of a core hand over a file: read from the disk at one, on the disk at the other before the last octet counts.
//! The share is changed until that is as fast as is wanted. It is measured again before each run, since a machine has other work as well.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dhow_scenario::Scenario;
use dhow_scenario::plan::PlannedRun;
use dhow_scenario::scenario::Processor;
use serde::{Deserialize, Serialize};

use super::capture::Packets;
use super::experiment::{Order, run};
use super::lab::Check;
use super::profile::Profiling;
use crate::failure::LabError;
use crate::number::{float, whole};
use crate::results::{Figure, Results, Status};

/// Millionths of a core that are tried first.
const SHARE_FIRST: u32 = 10_000;

/// The least and the most that may be found: what the kernel shares out, and a core.
const SHARE_MIN: u32 = 1_000;
const SHARE_MAX: u32 = 1_000_000;

/// Shares that are tried at most.
const TRIES_MAX: u32 = 8;

/// The part of the wanted rate by which TCP may miss it with a share.
const NEAR: f64 = 0.1;

/// The same with a share that was found before, until another one is looked for.
const STILL_NEAR: f64 = 0.2;

/// Shares that differ by less than this part bring as much for each millionth.
const ALIKE: f64 = 0.5;

/// The time of sending for one measurement.
const TIME: Duration = Duration::from_secs(20);

/// A processor, and the rate of TCP between disks with it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The wanted rate, octets a second.
    pub wanted_octets_per_s: u64,
    /// Millionths of a core.
    pub millionths: u32,
    /// The rate that was measured with it, octets a second.
    pub octets_per_s: u64,
}

impl Measured {
    fn is_within(&self, part: f64) -> bool {
        let wanted = float(self.wanted_octets_per_s);
        (float(self.octets_per_s) - wanted).abs() <= wanted * part
    }

    /// Octets a second for each millionth of a core.
    fn worth(&self) -> f64 {
        float(self.octets_per_s.max(1)) / f64::from(self.millionths.max(1))
    }
}

/// The share that brings what is wanted, as far as measurements say: of one that was far from it and the next, the next alone.
fn next(measured: &[Measured]) -> u32 {
    let Some(last) = measured.last() else {
        return SHARE_FIRST;
    };
    let like_it = |it: &&Measured| {
        (f64::from(it.millionths) / f64::from(last.millionths) - 1.0).abs() < ALIKE
    };
    let alike = measured.iter().filter(like_it);
    let (mut sum, mut count) = (0.0, 0.0);
    for worth in alike.map(Measured::worth) {
        (sum, count) = (sum + worth, count + 1.0);
    }
    let share = float(last.wanted_octets_per_s) * count / sum;
    let share = u32::try_from(whole(share)).unwrap_or(SHARE_MAX);
    share.clamp(SHARE_MIN, SHARE_MAX)
}

/// The processors of one machine: those that were found so far.
#[derive(Debug)]
pub struct Processors {
    /// The directory of measurements.
    place: PathBuf,
    results: Option<Results>,
    program: PathBuf,
    check: Check,
    build: &'static str,
    /// Shares by the wanted rate.
    found: BTreeMap<u64, u32>,
    runs: u32,
}

impl Processors {
    /// None found yet; measurements go to a directory that is made when there are some.
    #[must_use]
    pub fn new(place: &Path, program: PathBuf, check: Check, build: &'static str) -> Self {
        Self {
            place: place.to_path_buf(),
            results: None,
            program,
            check,
            build,
            found: BTreeMap::new(),
            runs: 0,
        }
    }

    /// Gives each host of a scenario whose processor is set by the rate of TCP its share of a core, measured now; `tell` hears of each measurement.
    ///
    /// # Errors
    /// When a measurement fails, or no share brings what is wanted.
    pub fn settle(
        &mut self,
        scenario: &mut Scenario,
        goes_on: &(dyn Fn() -> bool + Sync),
        tell: &mut dyn FnMut(&Measured),
    ) -> Result<Vec<Measured>, LabError> {
        let mut settled: BTreeMap<u64, Measured> = BTreeMap::new();
        for node in &mut scenario.nodes {
            let Some(Processor::OfTcp(wanted)) = node.host.processor else {
                continue;
            };
            let measured = match settled.get(&wanted) {
                Some(measured) => *measured,
                None if !goes_on() => return Ok(Vec::new()),
                None => self.find(wanted, goes_on, tell)?,
            };
            settled.insert(wanted, measured);
            let host = Arc::make_mut(&mut node.host);
            host.processor = Some(Processor::Share(measured.millionths));
        }
        Ok(settled.into_values().collect())
    }

    fn find(
        &mut self,
        wanted: u64,
        goes_on: &(dyn Fn() -> bool + Sync),
        tell: &mut dyn FnMut(&Measured),
    ) -> Result<Measured, LabError> {
        let known = self.found.get(&wanted).copied();
        let mut share = known.unwrap_or(SHARE_FIRST);
        let mut enough = if known.is_some() { STILL_NEAR } else { NEAR };
        let mut all = Vec::new();
        for _ in 0..TRIES_MAX {
            let measured = self.measure(wanted, share, goes_on)?;
            tell(&measured);
            all.push(measured);
            if measured.is_within(enough) || !goes_on() {
                self.found.insert(wanted, share);
                return Ok(measured);
            }
            enough = NEAR;
            share = next(&all);
        }
        let last = all.last();
        let (share, rate) = last.map_or((0, 0), |it| (it.millionths, it.octets_per_s));
        let what = format!(
            "no share of a core was found with which TCP between disks moves {} kB/s: with {:.2} % it moved {} kB/s",
            wanted / 1_000,
            f64::from(share) / 1e4,
            rate / 1_000
        );
        Err(LabError::new(what)
            .with_hint("another rate, a share (cpu = \"1%\"), or a machine that does nothing else"))
    }

    fn measure(
        &mut self,
        wanted: u64,
        share: u32,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Measured, LabError> {
        let kept = |error: crate::results::ResultsError| LabError::new(error.to_string());
        if self.results.is_none() {
            let opened = match self.place.is_dir() {
                true => Results::open(&self.place),
                false => Results::create(&self.place),
            };
            let opened = opened.map_err(kept)?;
            let runs = opened.runs().map_err(kept)?.len();
            self.runs = u32::try_from(runs).unwrap_or(u32::MAX);
            self.results = Some(opened);
        }
        let Some(results) = &self.results else {
            return Err(LabError::new("there is no place for measurements"));
        };
        let text = yardstick(share, float(wanted) * TIME.as_secs_f64());
        let scenario = Scenario::parse(Path::new("processor.toml"), &text)
            .map_err(|error| LabError::new(error.to_string()))?;
        self.runs += 1;
        let planned = PlannedRun {
            number: self.runs,
            point: vec![(
                "node.cpu".to_owned(),
                format!("{:.4}%", f64::from(share) / 1e4),
            )],
            repeat: 1,
            seed: 1,
            settings: Vec::new(),
        };
        let order = Order {
            scenario: &scenario,
            planned: &planned,
            processors: &[],
            results,
            program: self.program.clone(),
            check: self.check,
            keep: false,
            packets: Packets::Passed,
            profiling: Profiling::Nothing,
            build: self.build,
        };
        let ran = run(&order, goes_on, &mut |_| {})?;
        let figures = results.read::<Figure>(&ran.run).map_err(kept)?;
        let rate = figures.iter().find(|it| it.name == "goodput");
        match (ran.status, rate) {
            (Status::Failed(what), _) => Err(LabError::new(format!(
                "cannot measure what TCP does with {:.2} % of a core: {what}",
                f64::from(share) / 1e4
            ))),
            (_, rate) => Ok(Measured {
                wanted_octets_per_s: wanted,
                millionths: share,
                octets_per_s: rate.map_or(0, |it| whole(it.value / 8.0)),
            }),
        }
    }
}

/// Two hosts and the file that one hands to the other. It is there before they are slow: the sender waits for the receiver.
fn yardstick(share: u32, octets: f64) -> String {
    format!(
        r#"name = "processor"
[[node]]
name = "sender"
kind = "command"
cpu = "{share:.4}%"
cpu_from = "3s"
[[node]]
name = "receiver"
kind = "command"
cpu = "{share:.4}%"
cpu_from = "3s"
[[link]]
between = ["sender", "receiver"]
rate = "1Gbit"
by = "veth"
[[program]]
name = "send"
node = "sender"
run = "dhow lab yardstick send {{receiver}}:5001 --block 100kB --octets {octets:.0}B --for {time}s --from sent"
output = "figures"
[[program]]
name = "receive"
node = "receiver"
run = "dhow lab yardstick receive 0.0.0.0:5001 --block 100kB --into received"
start = "4s"
[stop]
at = "5min"
when_ended = true
"#,
        share = f64::from(share) / 1e4,
        time = TIME.as_secs(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yardstick_is_a_scenario_for_every_share() {
        for share in [SHARE_MIN, 3_217, SHARE_FIRST, SHARE_MAX] {
            let text = yardstick(share, 6e7);
            let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
            let processor = scenario.nodes[0].host.processor;
            assert_eq!(processor, Some(Processor::Share(share)));
        }
    }

    #[test]
    fn the_next_share_is_as_much_as_what_was_measured_says() {
        let measured = |millionths, octets_per_s| Measured {
            wanted_octets_per_s: 3_000_000,
            millionths,
            octets_per_s,
        };
        let first = measured(10_000, 12_000_000);
        assert_eq!(next(&[first]), 2_500);
        assert_eq!(next(&[first, measured(2_500, 2_500_000)]), 3_000);
        // Differences by chance are taken together.
        let chance = [
            first,
            measured(2_500, 2_000_000),
            measured(3_750, 4_500_000),
        ];
        assert_eq!(next(&chance), 3_000);
        assert_eq!(next(&[measured(1_000, 60_000_000)]), SHARE_MIN);
        assert_eq!(next(&[measured(10_000, 0)]), SHARE_MAX);
        assert!(measured(1, 2_800_000).is_within(NEAR));
        assert!(!measured(1, 2_600_000).is_within(NEAR));
    }
}
