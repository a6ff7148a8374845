use std::path::Path;

use super::Import;
use crate::Scenario;

const SETTINGS: &str = "# a comment
Scenario.name = two %%Group.router%%
Scenario.endTime = 3600
Scenario.updateInterval = 0.5
Scenario.nrofHostGroups = 2
bt.type = SimpleBroadcastInterface
bt.transmitSpeed = 250k
bt.transmitRange = 10
Group.movementModel = RandomWaypoint
Group.router = [EpidemicRouter; SprayAndWaitRouter]
Group.bufferSize = 5M
Group.waitTime = 0, 120
Group.speed = 0.5, 1.5
Group.msgTtl = 300
Group.nrofHosts = 3
Group.interface1 = bt
Group1.groupID = p
Group2.groupID = c
Group2.speed = 2.7, 13.9
Group2.colour = red
SprayAndWaitRouter.nrofCopies = 6
Events.nrof = 1
Events1.class = MessageEventGenerator
Events1.interval = 25,35
Events1.size = 500k,1M
Events1.hosts = 0,5
Events1.prefix = M
MovementModel.worldSize = 450, 340
MovementModel.rngSeed = 4
MovementModel.warmup = 1000
GUI.x = 1
";

fn import(layers: &[&str], run: usize) -> Result<Import, String> {
    let files: Vec<(&Path, &str)> = layers
        .iter()
        .map(|text| (Path::new("s.txt"), *text))
        .collect();
    Import::read(&files, Path::new("/maps"), run).map_err(|error| error.to_string())
}

#[test]
fn settings_become_a_scenario_that_is_one() {
    let import = import(&[SETTINGS], 0).expect("a scenario");
    let scenario = Scenario::parse(Path::new("s.toml"), &import.text);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}: {}", import.text));
    let names: Vec<&str> = scenario
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(names, ["p0", "p1", "p2", "c3", "c4", "c5"]);
    assert!(
        scenario
            .nodes
            .iter()
            .all(|node| node.quota_octets == 5_000_000)
    );
    assert_eq!((scenario.seed, scenario.every_seed), (4, true));
    assert_eq!(scenario.stop.at.as_secs(), 3_600);
    assert!(
        scenario
            .traffic
            .iter()
            .all(|it| it.lifetime.as_secs() == 18_000)
    );
    // The last address of a range is behind it.
    assert!(
        scenario
            .traffic
            .iter()
            .all(|it| it.from.0 < 5 && it.to.0 < 5)
    );
    assert!(import.text.contains("speed = \"2.7m/s..13.9m/s\""));
    assert!(import.text.contains("step = \"0.5s\""));
    let notes = import.notes.join("\n");
    assert!(notes.contains("Group2.colour is not heeded"), "{notes}");
    assert!(notes.contains("GUI.* (1 settings)"), "{notes}");
    assert!(!notes.contains("nrofHosts"), "{notes}");
}

#[test]
fn a_run_has_its_value_and_a_later_layer_counts() {
    let second = import(&[SETTINGS], 1).expect("a scenario").text;
    assert!(second.contains("router = \"spray-and-wait\"\ncopies = 6"));
    let third = import(&[SETTINGS], 2).expect("a scenario").text;
    assert!(third.contains("router = \"epidemic\""));
    let layered = import(&[SETTINGS, "Group.router = MaxPropRouter\n"], 1);
    assert!(
        layered
            .expect("a scenario")
            .text
            .contains("router = \"maxprop\"")
    );
}

#[test]
fn what_cannot_be_a_scenario_is_said() {
    for (layer, expected) in [
        ("nonsense", "s.txt:1: 'nonsense' is not a setting"),
        (
            "Group.router = WaveRouter",
            "Group1.router = WaveRouter is not known",
        ),
        (
            "Group2.movementModel = Teleport",
            "Group2.movementModel = Teleport is not known",
        ),
        (
            "Scenario.endTime = NaN",
            "Scenario.endTime = NaN cannot be understood",
        ),
        (
            "Group.nrofHosts = 1G",
            "nrofHosts = 1G cannot be understood",
        ),
        (
            "Group.nrofHosts = -1",
            "nrofHosts = -1 cannot be understood",
        ),
        (
            "Events1.size = 5,4",
            "Events1.size = 5,4 cannot be understood",
        ),
        ("Group.interface1 = gone", "gone.transmitRange is not set"),
    ] {
        let refused = import(&[SETTINGS, layer], 0).expect_err(layer);
        assert!(refused.contains(expected), "{layer}: {refused}");
    }
    assert!(import(&[""], 0).is_err());
}
