//! Stores that are full.

use std::path::Path;

use dhow_node::exchange_octets;
use dhow_scenario::Scenario;
use dhow_scenario::the_one::Import;

use crate::world::{run, scenario};

/// A mule with little room meets a node that sends bundles, then another that has all of them; the destination is not met.
fn relayed(router: &str, mule: &str, size: &str) -> (u64, u64) {
    let contact = |link: &str, start: u32| {
        format!("[[contact]]\nlink = \"{link}\"\nstart = \"{start}s\"\nfor = \"60s\"\n")
    };
    let link = |from: &str, to: &str| {
        format!("[[link]]\nbetween = [\"{from}\", \"{to}\"]\nrate = \"8Mbit\"\ndelay = \"1ms\"\n")
    };
    let text = format!(
        r#"
        [[node]]
        name = "camp"
        [[node]]
        name = "mule"
        {mule}
        [[node]]
        name = "port"
        [[node]]
        name = "ship"
        {}
        [[routing]]
        node = "*"
        router = "{router}"
        acknowledgments = "none"
        drop = "first-in"
        [[traffic]]
        from = "camp"
        to = "ship"
        start = "1s"
        count = 20
        every = "100ms"
        size = "{size}"
        [stop]
        at = "10min"
        "#,
        [
            link("camp", "mule"),
            link("camp", "port"),
            link("mule", "port"),
            link("mule", "ship"),
            contact("camp-mule", 0),
            contact("camp-port", 70),
            contact("mule-port", 140),
            contact("mule-ship", 3600),
        ]
        .concat()
    );
    let world = run(&scenario(&text), 1);
    (world.counts().relayed, world.counts().dropped)
}

#[test]
fn a_full_store_has_room_for_word_of_what_it_holds() {
    for router in ["flood", "epidemic", "maxprop"] {
        assert_eq!(relayed(router, "", "10kB"), (40, 0), "{router}");
        // The port brings what the mule has not, and nothing else, since it was told what the mule has.
        let (relayed, dropped) = relayed(router, "bundles = 10", "10kB");
        assert!((50..=53).contains(&relayed), "{router}: {relayed}");
        assert!((20..=25).contains(&dropped), "{router}: {dropped}");
    }
}

/// Octets that all nodes hold, 100 kB, and bundles: after a mule was given two bundles of a megabyte and half of a third, and after it met another node.
fn parts(quota: &str) -> [(u64, u64); 2] {
    let text = format!(
        r#"
        [[node]]
        name = "camp"
        [[node]]
        name = "mule"
        quota = "{quota}"
        [[node]]
        name = "port"
        [[node]]
        name = "ship"
        [[link]]
        between = ["camp", "mule"]
        rate = "8Mbit"
        delay = "1ms"
        [[contact]]
        link = "camp-mule"
        start = "10s"
        for = "2700ms"
        [[link]]
        between = ["camp", "port"]
        rate = "8Mbit"
        [[contact]]
        link = "camp-port"
        start = "15s"
        for = "10s"
        [[link]]
        between = ["mule", "port"]
        rate = "8Mbit"
        delay = "1ms"
        [[contact]]
        link = "mule-port"
        start = "30s"
        for = "20s"
        [[link]]
        between = ["mule", "ship"]
        rate = "8Mbit"
        [[contact]]
        link = "mule-ship"
        start = "1h"
        for = "1s"
        [[routing]]
        node = "*"
        router = "flood"
        acknowledgments = "none"
        drop = "first-in"
        [[traffic]]
        from = "camp"
        to = "ship"
        count = 3
        size = "1MB"
        [[traffic]]
        from = "port"
        to = "ship"
        count = 2
        size = "1500kB"
        [stop]
        at = "29s"
        "#
    );
    let held = |text: &str| {
        let world = run(&scenario(text), 1);
        let held = world.samples().last().unwrap();
        (held.octets / 100_000, held.bundles)
    };
    [
        held(&text),
        held(&text.replace("at = \"29s\"", "at = \"39s\"")),
    ]
}

#[test]
fn a_store_that_makes_room_keeps_no_parts_and_parts_go_before_what_is_whole() {
    // Camp and port have eight, the mule two and a part of a third; then the port's two, which the others had not.
    assert_eq!(parts("9MB"), [(145, 13), (191, 17)]);
    // The part makes room, and not one of the whole bundles that came before it.
    assert_eq!(parts("5720kB"), [(145, 13), (175, 15)]);
    // One of the two made room for the third, of which no part is kept.
    assert_eq!(parts("2600kB"), [(130, 11), (130, 11)]);
}

#[test]
fn bundles_of_all_kinds_may_fill_as_much_as_a_buffer_of_the_one() {
    for buffer in [1_000_u64, 5_000_000, 469_762_048, 2_000_000_000] {
        let settings = format!(
            "Scenario.endTime = 60\nScenario.nrofHostGroups = 1\nGroup.groupID = p\nGroup.nrofHosts = 1\nGroup.movementModel = StationaryMovement\n\
            Group.nodeLocation = 1, 1\nGroup.router = EpidemicRouter\nGroup.interface1 = bt\nGroup.bufferSize = {buffer}\nbt.transmitRange = 10\n\
            bt.transmitSpeed = 250k\nMovementModel.worldSize = 100, 100\n"
        );
        let place = Path::new("s.txt");
        let import = Import::read(&[(place, &settings)], Path::new("."), 0).expect("settings");
        let scenario = Scenario::parse(place, &import.text).expect("a scenario");
        let quota = scenario.nodes.first().expect("a host").quota_octets;
        let open = quota - exchange_octets(quota);
        assert!(open.abs_diff(buffer) <= 1, "{buffer}: {open} of {quota}");
    }
}
