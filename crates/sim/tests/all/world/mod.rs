//! Runs of scenarios in which nothing may be found.

use std::path::Path;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_scenario::Scenario;
use dhow_sim::World;

/// A scenario's text as one.
pub fn scenario(text: &str) -> Scenario {
    Scenario::parse(Path::new("test.toml"), text).expect("the scenario is one")
}

/// A finished run without violations.
pub fn run(scenario: &Scenario, seed: u64) -> World {
    let mut world = World::new(scenario, seed).expect("the network can be built");
    while world.run(
        Instant::START + Duration::from_secs(u64::from(u32::MAX)),
        1_000_000,
    ) {}
    world.finish();
    let sentences: Vec<String> = world
        .violations()
        .iter()
        .map(|it| {
            let steps = world.trace().last(&it.machines, 20);
            let steps: Vec<String> = steps
                .iter()
                .map(|step| format!("\n    {} {step}", world.name(step.machine)))
                .collect();
            format!(
                "{} at {:?}: {}{}",
                it.oracle,
                it.at,
                it.sentence,
                steps.concat()
            )
        })
        .collect();
    assert!(
        sentences.is_empty(),
        "seed {seed}: {}",
        sentences.join("\n")
    );
    world
}
