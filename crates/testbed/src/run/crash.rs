//! Crashes: the times at which nodes lose their power, and get it back.

use std::time::Duration;

use dhow_scenario::Scenario;

/// A crash, or its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Power {
    pub(super) at: Duration,
    pub(super) node: usize,
    pub(super) on: bool,
}

/// Crashes and their ends, the last first.
pub(super) fn powers(scenario: &Scenario) -> Vec<Power> {
    let mut powers: Vec<Power> = scenario
        .crashes
        .iter()
        .flat_map(|crash| {
            let node = crash.node.0;
            let at = |at, on| Power { at, node, on };
            [at(crash.at, false), at(crash.at + crash.down, true)]
        })
        .collect();
    powers.sort_by_key(|power| std::cmp::Reverse(power.at));
    powers
}
