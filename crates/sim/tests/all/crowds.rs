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
