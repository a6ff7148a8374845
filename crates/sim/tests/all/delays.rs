//! Links between planets: sessions come about and last over delays of minutes.

use std::time::Duration;

use crate::world::{run, scenario};
use dhow_bundle::Instant;

/// The time until all ten bundles of two senders have come over a link with these keys.
fn taken(link: &str, fidelity: &str) -> Duration {
    let text = format!(
        r#"
        fidelity = "{fidelity}"
        [[node]]
        name = "earth"
        [[node]]
        name = "mars"
        [[link]]
        between = ["earth", "mars"]
        rate = "1Mbit"
        {link}
        [[traffic]]
        from = "earth"
        to = "mars"
        count = 5
        size = "20kB"
        every = "2h"
        lifetime = "30d"
        [[traffic]]
        from = "mars"
        to = "earth"
        count = 5
        size = "20kB"
        every = "2h"
        lifetime = "30d"
        [stop]
        at = "3d"
        when_delivered = true
        expects_all = true
        "#
    );
    let world = run(&scenario(&text), 1);
    assert_eq!(world.ledger().delivered, 10, "{link}, {fidelity}");
    world.now().since(Instant::START)
}

#[test]
fn bundles_cross_links_however_long_their_delay() {
    let minute = Duration::from_secs(60);
    let last_sent = minute * 8 * 60;
    for fidelity in ["octet", "bundle"] {
        for (delay, longest) in [
            (r#""5s""#, minute / 12),
            (r#""4min""#, minute * 4),
            (r#"["0 4min", "8h 22min"]"#, minute * 22),
        ] {
            let taken = taken(&format!("delay = {delay}"), fidelity);
            assert!(
                taken < last_sent + longest * 2 + minute,
                "{delay}, {fidelity}: {taken:?}"
            );
        }
    }
}

#[test]
fn sessions_between_planets_outlast_contacts_or_come_again() {
    for fidelity in ["octet", "bundle"] {
        for at_end in ["reset", "silence"] {
            let contacts = format!(
                r#"
                delay = "10min"
                at_end = "{at_end}"
                [[contact]]
                link = "earth-mars"
                for = "3h"
                every = "5h"
                "#
            );
            let taken = taken(&contacts, fidelity);
            assert!(
                taken < Duration::from_secs(16 * 3600),
                "{at_end}, {fidelity}: {taken:?}"
            );
        }
    }
}

#[test]
fn lost_packets_end_no_session_between_planets() {
    let taken = taken("delay = \"5min\"\nloss = 0.2", "octet");
    assert!(taken < Duration::from_secs(12 * 3600), "{taken:?}");
}
