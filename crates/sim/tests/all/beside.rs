//! Copies of one bundle that come from several neighbours at a time.

use crate::world::{run, scenario};

/// Bundles of 2 MB, of two, that are delivered within a minute where two neighbours have each bundle and their links need 4 s for it.
fn delivered(layer: &str) -> u64 {
    let link = |from: &str, to: &str, rate: &str| {
        format!(
            "[[link]]\nbetween = [\"{from}\", \"{to}\"]\nrate = \"{rate}\"\ndelay = \"1ms\"\n{layer}\n"
        )
    };
    let text = format!(
        r#"
        [[node]]
        name = "source"
        [[node]]
        name = "left"
        [[node]]
        name = "right"
        [[node]]
        name = "middle"
        {}
        [[routing]]
        node = "*"
        router = "flood"
        [[traffic]]
        from = "source"
        to = "middle"
        start = "1s"
        count = 2
        every = "20s"
        size = "2MB"
        [stop]
        at = "1min"
        "#,
        [
            link("source", "left", "80Mbit"),
            link("source", "right", "80Mbit"),
            link("left", "middle", "4Mbit"),
            link("right", "middle", "4Mbit"),
        ]
        .concat()
    );
    let world = run(&scenario(&text), 1);
    world.ledger().delivered
}

#[test]
fn two_neighbours_do_not_take_a_bundle_from_each_other() {
    for layer in ["", "protocol = \"ltp\""] {
        assert_eq!(delivered(layer), 2, "{layer:?}");
    }
}

/// Links of so many ways, all of which bring one large bundle at a time, that have carried much of it after half a minute.
fn carrying(ways: usize) -> usize {
    let nodes = (1..=ways).map(|way| {
        let link = |from: &str, to: &str, rate: &str| {
            format!(
                "[[link]]\nbetween = [\"{from}\", \"{to}\"]\nrate = \"{rate}\"\ndelay = \"1ms\"\n"
            )
        };
        let name = format!("way{way}");
        [
            format!("[[node]]\nname = \"{name}\"\n"),
            link("source", &name, "80Mbit"),
            link(&name, "middle", "100kbit"),
        ]
        .concat()
    });
    let nodes: String = nodes.collect();
    let text = format!(
        r#"
        [[node]]
        name = "source"
        [[node]]
        name = "middle"
        {nodes}
        [[routing]]
        node = "*"
        router = "flood"
        [[traffic]]
        from = "source"
        to = "middle"
        start = "1s"
        count = 1
        size = "2MB"
        [stop]
        at = "36s"
        "#
    );
    let mut run = dhow_sim::Run::new(&scenario(&text), 1).unwrap();
    while run.advance(1_000_000) {}
    let outcome = run.finish();
    assert_eq!(outcome.violations, 0);
    // Each of those links has carried up to 400 kB of its 2 MB.
    let links = outcome.links.iter();
    let carried = links.map(|link| link.octets.0 + link.octets.1);
    let of_ways = carried.filter(|octets| *octets < 1_000_000);
    of_ways.filter(|octets| *octets > 250_000).count()
}

#[test]
fn of_nine_ways_eight_bring_one_bundle_at_a_time() {
    for (ways, carries) in [(7, 7), (8, 8), (9, 8)] {
        assert_eq!(carrying(ways), carries, "{ways} ways");
    }
}
