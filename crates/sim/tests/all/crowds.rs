//! Hosts that are all within reach of each other, and give each other the same.

use crate::world::{run, scenario};

/// The copies that ten hosts in one room took of 59 bundles, and those of bundles that were there already.
fn copies(router: &str) -> (u64, u64) {
    let text = format!(
        r#"
        fidelity = "bundle"
        [[radio]]
        name = "near"
        reach_m = 10
        rate = "2Mbit"
        channel = "pair"
        [[group]]
        name = "h"
        count = 10
        radios = ["near"]
        movement = "none"
        width_m = 1
        height_m = 1
        [[node]]
        name = "far"
        [[routing]]
        node = "*"
        router = "{router}"
        acknowledgments = "none"
        drop = "first-in"
        [[messages]]
        among = ["h*"]
        every = "2s"
        size = "75kB"
        lifetime = "1h"
        [stop]
        at = "2min"
        "#
    );
    let world = run(&scenario(&text), 1);
    (world.counts().relayed, world.counts().duplicates)
}

#[test]
fn few_copies_in_a_room_are_of_bundles_that_are_there() {
    for router in ["flood", "epidemic", "maxprop"] {
        let (relayed, duplicates) = copies(router);
        // Of 59 bundles nine copies each are needed, and 3,800 more came before neighbours said at once what they have.
        assert!(relayed >= 59 * 9, "{router}: {relayed}");
        assert!(duplicates < 600, "{router}: {duplicates}");
    }
}

/// Two carriers are given twenty bundles and meet their destination one after the other, then each other: copies that were taken, and those that nobody needed.
fn carried(router: &str) -> (u64, u64) {
    let meet = |from: &str, to: &str, start: u32| {
        format!(
            "[[link]]\nbetween = [\"{from}\", \"{to}\"]\nrate = \"8Mbit\"\ndelay = \"1ms\"\n[[contact]]\nlink = \"{from}-{to}\"\nstart = \"{start}s\"\nfor = \"60s\"\n"
        )
    };
    let nodes =
        ["camp", "mule", "cart", "port"].map(|name| format!("[[node]]\nname = \"{name}\"\n"));
    let text = format!(
        r#"
        {}
        {}
        [[routing]]
        node = "*"
        router = "{router}"
        acknowledgments = "none"
        [[traffic]]
        from = "camp"
        to = "port"
        start = "1s"
        count = 20
        size = "10kB"
        [stop]
        at = "10min"
        "#,
        nodes.concat(),
        [
            meet("camp", "mule", 10),
            meet("camp", "cart", 80),
            meet("mule", "port", 150),
            meet("cart", "port", 220),
            meet("cart", "mule", 290),
        ]
        .concat()
    );
    let world = run(&scenario(&text), 1);
    assert_eq!(world.ledger().delivered, 20);
    (world.counts().relayed, world.counts().duplicates)
}

#[test]
fn a_destination_that_says_what_it_has_is_brought_nothing_twice() {
    for router in ["flood", "epidemic", "maxprop"] {
        let (relayed, duplicates) = carried(router);
        // Three copies of each are of use.
        assert_eq!((relayed, duplicates), (60, 0), "{router}");
    }
}
