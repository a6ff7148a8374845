//! Links over LTP: what crosses them whatever befalls datagrams, and when.

use std::time::Duration;

use crate::line::line;
use crate::world::{run, scenario};
use dhow_scenario::Scenario;
use dhow_scenario::scenario::Fidelity;
use dhow_sim::World;

/// So many bundles over a link with these keys.
fn over(link: &str, count: u64, more: &str) -> Scenario {
    let traffic = format!("count = {count}\n{more}\n[stop]\nat = \"6h\"\nexpects_all = true\n");
    let link = format!("rate = \"8Mbit\"\nprotocol = \"ltp\"\n{link}");
    scenario(&line(2, &link, &traffic))
}

fn delivered(scenario: &Scenario, seed: u64) -> u64 {
    run(scenario, seed).ledger().delivered
}

/// When the first payload was delivered after it was accepted.
fn first_delay(world: &World) -> Duration {
    let (_, unit) = world.ledger().units().next().unwrap();
    unit.delivered.unwrap().since(unit.sent)
}

#[test]
fn everything_is_delivered_whatever_befalls_datagrams() {
    let link = "delay = \"50ms\"\nloss = 0.1\nduplicate = 0.2\nreorder = 0.2\nreorder_by = \"80ms\"\njitter = \"20ms\"";
    for mtu in ["", "mtu = \"128B\"", "mtu = \"65507B\""] {
        let scenario = over(&format!("{link}\n{mtu}"), 30, "size = \"16B..90kB\"");
        for seed in 1..4 {
            assert_eq!(delivered(&scenario, seed), 30, "{mtu}, seed {seed}");
        }
    }
}

#[test]
fn a_bundle_to_mars_takes_the_light_time_and_its_octets() {
    let scenario = over("delay = \"20min\"", 1, "size = \"1MB\"");
    let world = run(&scenario, 1);
    let least = Duration::from_secs(1_200) + Duration::from_secs(1);
    let delay = first_delay(&world);
    assert!(
        delay > least && delay < least + Duration::from_millis(100),
        "{delay:?}"
    );
}

#[test]
fn what_is_lost_on_the_way_to_mars_costs_a_round_trip() {
    let scenario = over("delay = \"20min\"\nloss = 0.05", 1, "size = \"1MB\"");
    for seed in 1..4 {
        let delay = first_delay(&run(&scenario, seed));
        let round_trip = Duration::from_secs(2_400);
        let least = Duration::from_secs(1_201) + round_trip;
        assert!(delay > least && delay < least + round_trip, "{delay:?}");
    }
}

#[test]
fn blocks_under_way_outlast_the_times_in_which_nothing_can_pass() {
    let contact =
        "[[contact]]\nlink = \"n1-n2\"\nstart = \"10s\"\nfor = \"2min\"\nevery = \"10min\"\n";
    let traffic = format!("mean = \"10s\"\nsize = \"100kB..300kB\"\n{contact}");
    for (delay, loss) in [("1min", "0.02"), ("5min", "0"), ("30s", "0.05")] {
        let link = format!("delay = \"{delay}\"\nloss = {loss}");
        for seed in 1..4 {
            assert_eq!(delivered(&over(&link, 20, &traffic), seed), 20, "{delay}");
        }
    }
}

#[test]
fn nodes_that_do_not_know_of_contacts_send_again_until_they_are_answered() {
    let contact =
        "[[contact]]\nlink = \"n1-n2\"\nstart = \"10s\"\nfor = \"20s\"\nevery = \"1min\"\n";
    let traffic = format!("mean = \"3s\"\nsize = \"1kB..20kB\"\n{contact}");
    let scenario = over("delay = \"1s\"\nat_end = \"silence\"", 30, &traffic);
    for seed in 1..4 {
        assert_eq!(delivered(&scenario, seed), 30, "seed {seed}");
    }
}

#[test]
fn of_blocks_with_a_green_part_what_is_lost_is_lost_without_a_finding() {
    for red in ["none", "500B"] {
        let link = format!("delay = \"50ms\"\nloss = 0.1\nred = \"{red}\"");
        let scenario = over(&link, 100, "size = \"16B..3kB\"");
        for seed in 1..4 {
            let delivered = delivered(&scenario, seed);
            assert!((50..100).contains(&delivered), "{red}: {delivered}");
        }
    }
}

#[test]
fn at_bundle_fidelity_the_same_is_delivered() {
    let mut scenario = over("delay = \"1s\"\nloss = 0.05", 30, "size = \"16B..90kB\"");
    scenario.fidelity = Fidelity::Bundle;
    assert_eq!(delivered(&scenario, 1), 30);
}

/// The times of a link's light time that a contact plan has: ten seconds, a minute from 200 s on, and 20 s from 500 s on.
const PLAN: &str =
    "delay = [\"0 10s\", \"200s 10s\", \"200001ms 60s\", \"500s 60s\", \"500001ms 20s\"]";

#[test]
fn countdowns_follow_a_light_time_that_changes_as_it_is_planned() {
    for loss in ["0", "0.05"] {
        let link = format!("{PLAN}\nloss = {loss}");
        let scenario = over(&link, 80, "mean = \"9s\"\nsize = \"1kB..100kB\"");
        for seed in 1..4 {
            // The oracles know when an answer can be there, so a checkpoint that leaves again before is found.
            let world = run(&scenario, seed);
            assert_eq!(world.ledger().delivered, 80, "seed {seed}");
        }
    }
}

#[test]
fn a_bundle_takes_the_light_time_of_when_it_leaves() {
    for (start, light_time_s) in [("100s", 10), ("300s", 60), ("600s", 20)] {
        let traffic = format!("start = \"{start}\"\nsize = \"1kB\"");
        let delay = first_delay(&run(&over(PLAN, 1, &traffic), 1));
        let least = Duration::from_secs(light_time_s);
        assert!(
            delay > least && delay < least + Duration::from_secs(1),
            "{delay:?}"
        );
    }
}

#[test]
fn a_link_that_is_dialled_in_its_contacts_passes_in_them_what_waits() {
    let contacts =
        "[[contact]]\nlink = \"n1-n2\"\nstart = \"10min\"\nfor = \"1min\"\nevery = \"30min\"\n";
    for protocol in ["tcpcl", "ltp"] {
        let connections = ["always", "contacts"].map(|dial| {
            let link = format!(
                "rate = \"8Mbit\"\ndelay = \"2s\"\nprotocol = \"{protocol}\"\ndial = \"{dial}\""
            );
            let traffic = format!(
                "size = \"1kB\"\ncount = 3\nlifetime = \"1d\"\n{contacts}[stop]\nat = \"6h\"\nexpects_all = true\n"
            );
            let world = run(&scenario(&line(2, &link, &traffic)), 7);
            assert_eq!(world.ledger().delivered, 3, "{protocol}, {dial}");
            world.counts().connections
        });
        // Datagrams have none; a link that is dialled in contacts alone makes others.
        let [always, planned] = connections;
        assert_eq!(always == planned, protocol == "ltp", "{connections:?}");
    }
}
