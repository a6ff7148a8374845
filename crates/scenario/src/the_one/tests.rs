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
            .all(|node| node.quota_octets == 5_714_286)
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
    // Hosts of The ONE let go of what they made, too.
    assert!(third.contains("acknowledgments = \"none\"\ndrop = \"first-of-all\""));
    let layered = import(&[SETTINGS, "Group.router = MaxPropRouter\n"], 1);
    assert!(
        layered
            .expect("a scenario")
            .text
            .contains("router = \"maxprop\"\nacknowledgments = \"anyone\"\ndrop = \"last-of-all\"")
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

#[test]
fn people_who_work_and_points_of_interest_come_with_their_settings() {
    let work = "Group1.movementModel = WorkingDayMovement
MapBasedMovement.nrofMapFiles = 1
MapBasedMovement.mapFile1 = roads.wkt
Group1.officeLocationsFile = offices.wkt
Group1.nrOfMeetingSpots = 4
Group1.workDayLength = 28800
Group1.officeMinWaitTime = 10
Group1.officeMaxWaitTime = 1000
Group1.officeWaitTimeParetoCoeff = 0.5
Group1.officeSize = 80
Group1.probGoShoppingAfterWork = 0.25
Group1.minGroupSize = 2
Group1.maxGroupSize = 4
Group1.minAfterShoppingStopTime = 60
Group1.maxAfterShoppingStopTime = 600
Group1.timeDiffSTD = 7200
Group1.ownCarProb = 1
Group1.busControlSystemNr = 1
Group2.initialEnergy = 4000, 5000
Group2.scanEnergy = 0.1
Group2.scanResponseEnergy = 0.05
Group2.transmitEnergy = 0.2
Group2.movementModel = ShortestPathMapBasedMovement
Group2.pois = 1,0.3, 2,0.1
PointsOfInterest.poiFile1 = parks.wkt
PointsOfInterest.poiFile2 = shops.wkt
";
    let found = import(&[SETTINGS, work], 0).expect("a scenario");
    for line in [
        "movement = \"working-day\"\nmap = [\"/maps/roads.wkt\"]",
        "offices = \"/maps/offices.wkt\"",
        "meeting_spot_count = 4",
        "work_day = \"28800s\"",
        "desk_time = \"10s..1000s\"",
        "desk_coefficient = 0.5",
        "office_m = 80",
        "evening = 0.25",
        "company_least = 2\ncompany_most = 4",
        "evening_stay = \"60s..600s\"",
        "day_shift = \"7200s\"",
        "own_car = 1.0",
        "battery = \"4500J\"\nscan_power = \"0.1W\"\nsend_power = \"0.2W\"\nreceive_power = \"0.2W\"",
        "interests = [\"0.3 /maps/parks.wkt\", \"0.1 /maps/shops.wkt\"]",
    ] {
        assert!(found.text.contains(line), "{line}: {}", found.text);
    }
    let notes = found.notes.join("\n");
    assert!(notes.contains("takes no bus"), "{notes}");
    assert!(
        notes.contains("busControlSystemNr is not heeded"),
        "{notes}"
    );
    assert!(!notes.contains("officeSize"), "{notes}");
    assert!(
        notes.contains("each host has the mean") && notes.contains("answers take none"),
        "{notes}"
    );
    // It is a scenario but for the files, which are not there.
    let refused = Scenario::parse(Path::new("s.toml"), &found.text).expect_err("no map");
    assert!(refused.to_string().contains("roads.wkt"), "{refused}");
}

#[test]
fn group_without_hosts_is_left_out() {
    let off = "Group1.nrofHosts = 0\nGroup1.interface1 = gone\nGroup1.msgTtl = 7\n";
    let found = import(&[SETTINGS, off], 0).expect("a scenario");
    let scenario = Scenario::parse(Path::new("s.toml"), &found.text);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}: {}", found.text));
    let names: Vec<&str> = scenario
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(names, ["c0", "c1", "c2"]);
    assert!(found.text.contains("lifetime = \"300min\""));
    let notes = found.notes.join("\n");
    assert!(
        notes.contains("Group1.nrofHosts = 0: the group is left out"),
        "{notes}"
    );
    assert!(!notes.contains("Group1.groupID"), "{notes}");
}

#[test]
fn messages_between_hosts_that_are_not_there_are_left_out() {
    let events = "Events.nrof = 2\nEvents2.class = MessageEventGenerator\nEvents2.interval = 9\nEvents2.size = 9\n\
        Events2.hosts = 0,5\nEvents2.tohosts = 6,9\n";
    let found = import(&[SETTINGS, events], 0).expect("a scenario");
    let scenario = Scenario::parse(Path::new("s.toml"), &found.text);
    assert!(scenario.is_ok(), "{scenario:?}: {}", found.text);
    let notes = found.notes.join("\n");
    assert!(
        notes.contains("Events2.tohosts names no host: its messages are left out"),
        "{notes}"
    );
    let none = import(&[SETTINGS, "Group.nrofHosts = 0"], 0).expect_err("no hosts");
    assert!(none.contains("no group has hosts"), "{none}");
}

#[test]
fn lifetime_of_no_minutes_is_one_minute_and_below_without_end() {
    for (layer, lifetime, note) in [
        (
            "Group.msgTtl = 0",
            "lifetime = \"1min\"",
            "Group.msgTtl = 0: The ONE lets go of each message within a minute and relays none; the lifetime is one minute here, and relays take part",
        ),
        ("Group.msgTtl = -1", "lifetime = \"365d\"", ""),
    ] {
        let found = import(&[SETTINGS, layer], 0).expect(layer);
        assert!(found.text.contains(lifetime), "{layer}: {}", found.text);
        let scenario = Scenario::parse(Path::new("s.toml"), &found.text);
        assert!(scenario.is_ok(), "{layer}: {scenario:?}");
        let notes = found.notes.join("\n");
        assert!(notes.contains(note), "{layer}: {notes}");
        assert!(!notes.contains("msgTtl is not heeded"), "{layer}: {notes}");
    }
}

#[test]
fn name_has_the_values_of_the_keys_in_it() {
    for (layer, name) in [
        ("", "name = \"two SprayAndWaitRouter\""),
        (
            "Scenario.name = %%Group1.groupID%%-%%Events1.size%%",
            "name = \"p-500k,1M\"",
        ),
        ("Scenario.name = a %% b", "name = \"a %% b\""),
        ("Scenario.name = a %%No.key%%", "name = \"a %%No.key%%\""),
    ] {
        let found = import(&[SETTINGS, layer], 1).expect(layer);
        assert!(found.text.starts_with(name), "{layer}: {}", found.text);
    }
}

#[test]
fn warm_up_of_reports_has_a_note_of_its_own() {
    let report = "Report.warmup = 300\nReport.nrofReports = 4\n";
    let notes = import(&[SETTINGS, report], 0).expect("a scenario").notes;
    let notes = notes.join("\n");
    let expected = "Report.warmup = 300: The ONE's reports leave out messages of the first 300 s; here they count";
    assert!(notes.contains(expected), "{notes}");
    assert!(notes.contains("Report.* (1 settings)"), "{notes}");
    let none = import(&[SETTINGS, "Report.warmup = 0"], 0).expect("a scenario");
    assert!(!none.notes.join("\n").contains("Report"));
}

#[test]
fn file_that_is_not_there_is_a_note() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("roads.wkt"), "LINESTRING (0 0, 9 9)").expect("a map");
    let map = "Group.movementModel = MapRouteMovement\nGroup.routeFile = tram.wkt\n\
        MapBasedMovement.nrofMapFiles = 2\nMapBasedMovement.mapFile1 = roads.wkt\nMapBasedMovement.mapFile2 = gone.wkt\n";
    let text = format!("{SETTINGS}{map}");
    let found = Import::read(&[(Path::new("s.txt"), &text)], folder.path(), 0);
    let notes = found.expect("a scenario").notes;
    let of = |name: &str| {
        let end = format!("there is no file {}", folder.path().join(name).display());
        notes.iter().filter(|note| note.ends_with(&end)).count()
    };
    assert_eq!((of("roads.wkt"), of("gone.wkt"), of("tram.wkt")), (0, 1, 1));
}

/// A scenario of people on a map and hosts in a field, and its notes.
fn map_and_field(map: &str, layer: &str) -> (Scenario, String) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("roads.wkt"), map).expect("a map");
    let text = format!(
        "{SETTINGS}Group1.movementModel = ShortestPathMapBasedMovement\nbt.transmitRange = 100\n\
        MapBasedMovement.nrofMapFiles = 1\nMapBasedMovement.mapFile1 = roads.wkt\n{layer}"
    );
    let found = Import::read(&[(Path::new("s.txt"), &text)], folder.path(), 0);
    let found = found.expect("a scenario");
    let scenario = Scenario::parse(Path::new("s.toml"), &found.text);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}: {}", found.text));
    (scenario, found.notes.join("\n"))
}

/// True if a host of the map has a contact with one of the field.
fn do_meet(scenario: &Scenario) -> bool {
    let is_mapped = |index: crate::scenario::NodeIndex| index.0 < 3;
    let mut links = scenario.links.iter().map(|link| link.between);
    links.any(|(first, second)| is_mapped(first) != is_mapped(second))
}

#[test]
fn hosts_of_a_field_meet_those_of_a_map_that_begins_far_away() {
    let far = "POINT (0 0)\nLINESTRING (2550000 6670000, 2550400 6670000)\nMULTILINESTRING ((2550400 6670000, 2550400 6670300))\n";
    for (layer, moves) in [
        ("", "hosts of RandomWaypoint and RandomWalk move within"),
        (
            "Group2.movementModel = StationaryMovement",
            "StationaryMovement stay at points of the map",
        ),
    ] {
        let (scenario, notes) = map_and_field(far, layer);
        assert!(do_meet(&scenario), "{layer}");
        assert!(
            notes.contains("the map begins at (2550000, 6670000), and The ONE moves it to (0, 0)"),
            "{notes}"
        );
        assert!(
            notes.contains(moves) && notes.contains("400 m by 300 m"),
            "{notes}"
        );
        assert!(!notes.contains("worldSize is not heeded"), "{notes}");
    }
}

#[test]
fn hosts_of_a_field_keep_the_size_of_the_world_where_it_holds_the_map() {
    for (map, moved) in [
        ("LINESTRING (0 0, 400 0)", false),
        ("LINESTRING (40 30, 400 340)", true),
    ] {
        let (scenario, notes) = map_and_field(map, "");
        assert!(do_meet(&scenario), "{map}");
        let expected = "the map begins at (40, 30), and The ONE moves it to (0, 0): here it stays";
        assert_eq!(notes.contains(expected), moved, "{notes}");
        assert!(!notes.contains("move within"), "{notes}");
    }
    // Without hosts of both kinds there is nothing to place.
    let (_, notes) = map_and_field("LINESTRING (900 900, 990 990)", "Group2.nrofHosts = 0");
    assert!(!notes.contains("the map begins"), "{notes}");
}
