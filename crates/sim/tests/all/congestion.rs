//! Congestion controls: what connections carry over links that are long, and that lose.

use crate::line::line;
use crate::world::{run, scenario};
use dhow_bundle::Instant;
use dhow_scenario::Scenario;
use dhow_scenario::scenario::Fidelity;
use dhow_sim::Run;

/// Octets of the payloads of a full segment.
const SEGMENT_OCTETS: f64 = 1_448.0;

/// So many bundles of 100 kB over a link with these keys, with a congestion control or none.
fn over(control: &str, link: &str, count: u32) -> Scenario {
    let control = match control {
        "" => String::new(),
        name => format!("congestion_control = \"{name}\""),
    };
    let traffic = format!(
        r#"
        count = {count}
        size = "100kB"
        [stop]
        at = "10h"
        when_delivered = true
        expects_all = true
        "#
    );
    let network = line(2, &format!("quota = \"2GB\"\n{link}"), &traffic);
    scenario(&format!("{control}\n{network}"))
}

/// Octets a second that arrive of so many bundles of 100 kB.
fn goodput(control: &str, link: &str, count: u32) -> f64 {
    goodput_at(Fidelity::Octet, control, link, count)
}

fn goodput_at(fidelity: Fidelity, control: &str, link: &str, count: u32) -> f64 {
    let mut scenario = over(control, link, count);
    scenario.fidelity = fidelity;
    let world = run(&scenario, 1);
    assert_eq!(world.ledger().delivered, u64::from(count));
    f64::from(count) * 1e5 / world.now().since(Instant::START).as_secs_f64()
}

/// The rate of reno over a round trip at a loss (Mathis, Semke, Mahdavi and Ott 1997), octets a second.
fn mathis(round_trip_s: f64, loss: f64) -> f64 {
    SEGMENT_OCTETS / round_trip_s * (1.5 / loss).sqrt()
}

#[test]
fn reno_carries_what_its_formula_says_of_links_that_lose() {
    for (fidelity, delay_ms, loss, count) in [
        (Fidelity::Bundle, 10, 0.001, 1_000),
        (Fidelity::Bundle, 10, 0.01, 300),
        (Fidelity::Bundle, 100, 0.001, 1_500),
        (Fidelity::Bundle, 100, 0.01, 300),
        (Fidelity::Octet, 10, 0.01, 100),
        (Fidelity::Octet, 100, 0.01, 100),
    ] {
        let link = format!("rate = \"100Mbit\"\ndelay = \"{delay_ms}ms\"\nloss = {loss}");
        let said = mathis(f64::from(delay_ms) / 500.0, loss);
        let ratio = goodput_at(fidelity, "reno", &link, count) / said;
        assert!(
            (0.8..1.2).contains(&ratio),
            "{fidelity:?}, {delay_ms} ms, {loss}: {ratio}"
        );
    }
}

#[test]
fn bbr_heeds_no_loss_and_cubic_less_than_reno() {
    let link = "rate = \"20Mbit\"\ndelay = \"100ms\"\nloss = 0.001";
    let [bbr, cubic, reno] =
        ["bbr", "cubic", "reno"].map(|control| goodput_at(Fidelity::Bundle, control, link, 500));
    // Of 1,500 octets 1,448 are payload, and BBR looks for the shortest round trip for 0.3 s of ten.
    assert!(bbr > 2.5e6 * 0.85, "{bbr}");
    assert!(bbr > cubic * 2.0 && cubic > reno * 1.2, "{cubic} {reno}");
}

#[test]
fn bbr_is_not_held_back_by_a_timer_that_runs_again_and_again() {
    let link = "rate = \"100Mbit\"\ndelay = \"10ms\"\nloss = 0.01";
    let mut scenario = over("bbr", link, 400);
    scenario.fidelity = Fidelity::Bundle;
    for seed in 1..=6 {
        let world = run(&scenario, seed);
        let carried = 4e7 / world.now().since(Instant::START).as_secs_f64();
        assert!(carried > 12.5e6 * 0.8, "seed {seed}: {carried}");
    }
}

#[test]
fn a_link_without_losses_is_full_once_the_window_is_as_large() {
    for control in ["bbr", "reno", "cubic"] {
        let link = "rate = \"10Mbit\"\ndelay = \"50ms\"";
        let full = goodput(control, link, 150) / 1.25e6;
        assert!((0.88..0.966).contains(&full), "{control}: {full}");
        // Ten segments at first, and twice as many in each round trip of two seconds: 2.5 MB are there after the eighth.
        let few = goodput(control, "rate = \"10Mbit\"\ndelay = \"1s\"", 10);
        assert!((0.04e6..0.1e6).contains(&few), "{control}: {few}");
    }
}

#[test]
fn a_connection_goes_on_behind_a_contact_that_ends_in_silence() {
    let link = "rate = \"10Mbit\"\nat_end = \"silence\"\n[[contact]]\nlink = \"n1-n2\"\nstart = \"1s\"\nfor = \"1s\"\nevery = \"3s\"";
    for control in ["bbr", "reno", "cubic"] {
        let all = goodput(control, link, 100);
        assert!(all > 1.25e6 / 3.0 * 0.8, "{control}: {all}");
    }
}

#[test]
fn a_name_that_virtual_time_has_not_is_refused_with_those_that_it_has() {
    let Err(refused) = Run::new(&over("vegas", "rate = \"1Mbit\"", 1), 1) else {
        panic!("it ran");
    };
    assert_eq!(
        refused.to_string(),
        "the congestion control 'vegas' cannot be simulated"
    );
    assert_eq!(refused.hint(), Some("virtual time has bbr, reno and cubic"));
}
