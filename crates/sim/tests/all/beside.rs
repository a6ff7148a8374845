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
