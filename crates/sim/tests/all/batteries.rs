//! Hosts whose batteries end, by arithmetic.

use std::path::Path;

use dhow_scenario::Scenario;
use dhow_sim::Run;
use dhow_sim::run::NodeUse;

/// Two hosts within reach of each other all the time, of which the first alone has a battery: what became of payloads and hosts.
fn outcome(battery: &str, traffic: &str, end: &str) -> dhow_sim::Outcome {
    let group = |name: &str, more: &str| {
        format!(
            "[[group]]\nname = \"{name}\"\ncount = 1\nradios = [\"near\"]\nmovement = \"none\"\nwidth_m = 1\nheight_m = 1\n{more}\n"
        )
    };
    let text = format!(
        "fidelity = \"bundle\"\n[[radio]]\nname = \"near\"\nreach_m = 10\nrate = \"8Mbit\"\n{}{}{traffic}\n[stop]\nat = \"{end}\"\n",
        group("a", battery),
        group("b", ""),
    );
    let scenario = Scenario::parse(Path::new("test.toml"), &text).unwrap();
    let mut run = Run::new(&scenario, 1).unwrap();
    while run.advance(1_000_000) {}
    let outcome = run.finish();
    assert_eq!(outcome.violations, 0);
    outcome
}

fn first(outcome: &dhow_sim::Outcome) -> (f64, f64) {
    let NodeUse { battery, .. } = outcome.nodes[0].clone();
    let (pj, silent) = battery.expect("it has one");
    #[expect(clippy::as_conversions, reason = "a test")]
    let joules = pj as f64 / 1e12;
    assert_eq!(outcome.nodes[1].battery, None);
    (joules, silent.as_secs_f64())
}

/// 10 J at 10 mW are 1,000 s. Full again after 1,500 s, it lasts until 2,500 s, and so on.
#[test]
fn a_host_is_silent_from_when_its_battery_is_empty_until_it_is_full() {
    let battery = "battery = \"10J\"\nscan_power = \"10mW\"\nrecharge = \"1500s\"";
    let each = "[[traffic]]\nfrom = \"b1\"\nto = \"a1\"\nevery = \"100s\"\ncount = 40\nsize = \"1kB\"\nlifetime = \"50s\"";
    let found = outcome(battery, each, "4000s");
    let (joules, silent) = first(&found);
    assert_eq!(
        silent, 1_000.0,
        "from 1,000 to 1,500 and from 2,500 to 3,000"
    );
    assert!(joules.abs() < 1e-9, "at 4,000 it is empty again: {joules}");
    for fate in &found.payloads {
        let at = fate.sent.as_secs();
        let is_silent = (1_000..1_500).contains(&at) || (2_500..3_000).contains(&at);
        // A payload that was sent less than its lifetime before the battery was full has its contact.
        let is_soon = (1_450..1_500).contains(&at) || (2_950..3_000).contains(&at);
        if !is_soon && at != 1_000 && at != 2_500 {
            assert_eq!(fate.delivered.is_some(), !is_silent, "{at} s");
        }
    }
}

/// At 1 MB/s ten bundles of 1 MB take ten seconds and, with headers, a little more.
#[test]
fn sending_and_receiving_take_as_long_as_octets_leave() {
    let traffic = |from: &str, to: &str| {
        format!("[[traffic]]\nfrom = \"{from}\"\nto = \"{to}\"\ncount = 10\nsize = \"1MB\"\n")
    };
    let battery = "battery = \"1000J\"\nsend_power = \"10W\"\nreceive_power = \"1W\"";
    let (sent, silent) = first(&outcome(battery, &traffic("a1", "b1"), "100s"));
    assert!((890.0..900.0).contains(&sent) && silent == 0.0, "{sent}");
    let (received, _) = first(&outcome(battery, &traffic("b1", "a1"), "100s"));
    assert!((989.0..990.0).contains(&received), "{received}");
    // Half of that energy is for half of the bundles, and the rest stays with who has it.
    let small = "battery = \"54J\"\nsend_power = \"10W\"";
    let found = outcome(small, &traffic("a1", "b1"), "100s");
    assert_eq!(found.progress.delivered, 5);
    let (joules, silent) = first(&found);
    assert!(joules == 0.0 && (90.0..95.0).contains(&silent), "{silent}");
}
