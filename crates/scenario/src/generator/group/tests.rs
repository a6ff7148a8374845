use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use crate::Scenario;

/// A square of streets, a lane from one corner, and a piece of its own.
const STREETS: &str = "LINESTRING (0 0, 100 0)\n\nMULTILINESTRING ((100 0, 100 100), (100 100, 0 100,\n 0 0))\nLINESTRING (100 100, 200 100)\nLINESTRING (900 900, 950 900)\n";

const RADIO: &str = "[[radio]]\nname = \"near\"\nreach_m = 10\nrate = \"1Mbit\"\n";

fn read(files: &[(&str, &str)], text: &str) -> Result<Scenario, String> {
    let folder = TempDir::new().expect("a folder");
    for (name, contents) in files {
        fs::write(folder.path().join(name), contents).expect("a file");
    }
    let text = format!("{RADIO}{text}\n[stop]\nat = \"1h\"\n");
    Scenario::parse(&folder.path().join("s.toml"), &text).map_err(|error| {
        let hint = error.hint.clone().unwrap_or_default();
        let place = folder.path().display().to_string();
        format!("{error}; {hint}").replace(&place, "")
    })
}

fn group(movement: &str) -> String {
    format!("[[group]]\nname = \"h\"\ncount = 8\nradios = [\"near\"]\n{movement}\n")
}

#[test]
fn hosts_on_streets_meet_and_the_seed_says_when() {
    let text = group("movement = \"shortest-path\"\nmap = [\"m.wkt\"]\npause = \"0..20s\"");
    let scenario = |seed: u64| {
        let text = format!("seed = {seed}\n{RADIO}{text}\n[stop]\nat = \"1h\"\n");
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("m.wkt"), STREETS).expect("a map");
        Scenario::parse(&folder.path().join("s.toml"), &text).expect("a scenario")
    };
    let one = scenario(1);
    assert!(one.contacts.len() > 20, "{}", one.contacts.len());
    assert!(one.contacts.iter().all(|it| it.length > Duration::ZERO));
    assert_eq!(one.notes.len(), 1, "{:?}", one.notes);
    assert!(one.notes[0].contains("2 points of the map"));
    let contacts = |scenario: &Scenario| format!("{:?}", scenario.contacts);
    assert_eq!(contacts(&one), contacts(&scenario(1)));
    assert_ne!(contacts(&one), contacts(&scenario(2)));
}

#[test]
fn two_on_a_line_meet_as_often_as_they_pass() {
    // A line of 100 m at 1 m/s, back and forth: 200 s from one end to itself, without chance but for the stop at first.
    let line = "LINESTRING (0 0, 100 0)";
    let moving = "movement = \"route\"\nroute = \"r.wkt\"\nmap = [\"m.wkt\"]\nspeed = \"1m/s\"\nway = \"back\"";
    let still = "[[group]]\nname = \"s\"\ncount = 1\nradios = [\"near\"]\nmovement = \"none\"\nmap = [\"p.wkt\"]\n";
    let text = format!("{}{still}", group(moving).replace("count = 8", "count = 1"));
    // Both points of the other map are within reach of the line's end.
    let files = [
        ("m.wkt", line),
        ("r.wkt", line),
        ("p.wkt", "LINESTRING (0 0, 0 1)"),
    ];
    let scenario = read(&files, &text).expect("a scenario");
    assert!(
        (17..=19).contains(&scenario.contacts.len()),
        "{:?}",
        scenario.contacts
    );
    let whole = scenario.contacts.iter().map(|it| it.length.as_secs());
    let whole: Vec<u64> = whole.filter(|length| *length > 15).collect();
    assert!(
        whole.iter().all(|length| (19..=21).contains(length)),
        "{whole:?}"
    );
}

#[test]
fn hosts_go_by_the_shortest_way() {
    let map = "LINESTRING (0 0, 50 0, 100 0)\nLINESTRING (0 0, 0 400, 100 400, 100 0)";
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("m.wkt");
    fs::write(&file, map).expect("a map");
    let mut map = super::Map::read(&[file]).expect("a map");
    let at = |map: &super::Map, x, y| map.nearest((x, y)).expect("a point");
    let (from, to) = (at(&map, 0, 0), at(&map, 100_000, 0));
    let path = map.path(from, to).expect("a path");
    assert_eq!(path, [(0, 0), (50_000, 0), (100_000, 0)]);
}

#[test]
fn of_two_radios_the_one_that_reaches_farthest_is_taken() {
    let far = "[[radio]]\nname = \"far\"\nreach_m = 1000\nrate = \"10Mbit\"\n[[group]]\nname = \"t\"\ncount = 2\nradios = [\"near\", \"far\"]\nmovement = \"straight\"\nwidth_m = 300\nheight_m = 300\n[[group]]\nname = \"p\"\ncount = 1\nradios = [\"near\"]\nmovement = \"none\"\nwidth_m = 300\nheight_m = 300\n";
    let scenario = read(&[], far).expect("a scenario");
    let link = scenario.links.iter().find(|link| link.name == "t1-t2");
    let link = link.expect("a link of the trams");
    assert_eq!(link.rate.octets_per_s(), 1_250_000);
    let index = scenario.links.iter().position(|link| link.name == "t1-t2");
    let all = scenario
        .contacts
        .iter()
        .filter(|it| Some(it.link.0) == index);
    assert_eq!(all.count(), 1, "always within reach");
}

#[test]
fn openstreetmap_has_streets() {
    let osm = "<osm><node id='1' lat='60.17' lon='24.93'/><node id='2' lat='60.17' lon='24.94'/><node id='3' lat='60.18' lon='24.94'/>\n<way id='9'><nd ref='1'/><nd ref='2'/><nd ref='77'/><tag k='highway' v='residential'/></way><way id='10'><nd ref='2'/><nd ref='3'/><tag k='waterway' v='river'/></way></osm>";
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("m.osm");
    fs::write(&file, osm).expect("a map");
    let map = super::Map::read(&[file]).expect("a map");
    let (least, most) = map.corners();
    // A hundredth of a degree at this latitude.
    assert_eq!((most.0 - least.0) / 1_000, 553);
    assert_eq!(map.connected().len(), 2);
}

#[test]
fn what_is_no_map_is_refused_with_its_line() {
    let text = group("movement = \"shortest-path\"\nmap = [\"m.wkt\"]");
    for (map, expected) in [
        (
            "LINESTRING (0 0, 1 0)\nPOINT (1 2)\nPOLYGON ((1 2))",
            "m.wkt:3: 'POLYGON ((1 2))' is not a line",
        ),
        ("LINESTRING (0 0, NaN 0)", "m.wkt:1: "),
        (
            "\n\nLINESTRING (0 0, 1e300 0)",
            "m.wkt:3: a coordinate is not a number",
        ),
        (
            "LINESTRING (0 0, 1",
            "m.wkt:1: 'LINESTRING (0 0, 1' is not a line",
        ),
        (
            "LINESTRING (5 5, 5 5)",
            "m.wkt: a map has a street between two points",
        ),
        ("", "m.wkt: a map has a street between two points"),
        (
            "LINESTRING EMPTY",
            "m.wkt: a map has a street between two points",
        ),
        (")))((", "m.wkt:1: "),
        (
            "<osm><node id='1' lat='91' lon='0'/></osm>",
            "m.wkt:1: a <node> has no place",
        ),
        ("<osm>\n<node></osm>", "m.wkt:2: it is not XML"),
    ] {
        let refused = read(&[("m.wkt", map)], &text).expect_err(map);
        assert!(refused.contains(expected), "{map}: {refused}");
    }
    let nested = "GEOMETRYCOLLECTION (".repeat(100_000);
    assert!(read(&[("m.wkt", &nested)], &text).is_err());
}

#[test]
fn groups_say_what_they_lack() {
    for (keys, expected) in [
        ("movement = \"shortest-path\"", "[[group]] lacks 'map'"),
        ("movement = \"straight\"", "[[group]] lacks 'width_m'"),
        (
            "movement = \"none\"\nmap = [\"none.wkt\"]",
            "relative to the scenario's file",
        ),
        ("movement = \"route\"\nmap = [\"m.wkt\"]", "lacks 'route'"),
        (
            "movement = \"straight\"\nspeed = \"0m/s\"\nwidth_m = 9\nheight_m = 9",
            "'speed' must be more than 0",
        ),
        (
            "movement = \"straight\"\nspeed = \"5\"\nwidth_m = 9\nheight_m = 9",
            "is not a speed",
        ),
    ] {
        let refused = read(&[("m.wkt", STREETS)], &group(keys)).expect_err(keys);
        assert!(refused.contains(expected), "{keys}: {refused}");
    }
    let text = group("movement = \"none\"\nwidth_m = 9\nheight_m = 9").replace("near", "nera");
    let refused = read(&[], &text).expect_err("no such radio");
    assert!(refused.contains("did you mean 'near'?"), "{refused}");
}

#[test]
fn messages_go_from_one_to_another() {
    let hosts = group("movement = \"none\"\nwidth_m = 9\nheight_m = 9");
    let messages = "[[messages]]\namong = [\"h*\"]\nevery = \"25s..35s\"\nsize = \"500kB..1MB\"\nuntil = \"30min\"\n";
    let scenario = read(&[], &format!("{hosts}{messages}")).expect("a scenario");
    let sent: usize = scenario.traffic.iter().map(|it| it.list.len()).sum();
    assert!((51..=72).contains(&sent), "{sent}");
    assert!(scenario.traffic.iter().all(|it| it.from != it.to));
    let mut times: Vec<Duration> = scenario
        .traffic
        .iter()
        .flat_map(|it| it.list.iter().map(|it| it.at))
        .collect();
    times.sort_unstable();
    assert!(
        times
            .windows(2)
            .all(|pair| (25_000..=35_000).contains(&(pair[1] - pair[0]).as_millis()))
    );
    for (keys, expected) in [
        (
            "among = [\"h1\"]\nevery = \"1s\"\nsize = 100",
            "go from one node to another",
        ),
        (
            "among = [\"x*\"]\nevery = \"1s\"\nsize = 100",
            "there is no node 'x*'",
        ),
        (
            "among = [\"h*\"]\nevery = \"0s\"\nsize = 100",
            "'every' is at least 1 ms",
        ),
        (
            "among = [\"h*\"]\nevery = \"1s\"\nsize = 1",
            "'size' is at least 16",
        ),
    ] {
        let text = format!("{hosts}[[messages]]\n{keys}\n");
        let refused = read(&[], &text).expect_err(keys);
        assert!(refused.contains(expected), "{keys}: {refused}");
    }
}

#[test]
fn ways_lead_to_points_of_interest_as_often_as_is_said() {
    let places = [
        ("m.wkt", STREETS),
        ("park.wkt", "POINT (201 1)\nPOINT (199 99)\n"),
    ];
    let still = "[[group]]\nname = \"s\"\ncount = 1\nradios = [\"near\"]\nmovement = \"none\"\nmap = [\"end.wkt\"]\n";
    let seconds = |interests: &str| {
        let movement = format!(
            "movement = \"shortest-path\"\nmap = [\"m.wkt\"]\npause = \"60s\"\n{interests}"
        );
        let files = [
            places[0],
            places[1],
            ("end.wkt", "LINESTRING (200 100, 200 101)"),
        ];
        let scenario = read(&files, &format!("{}{still}", group(&movement))).expect("a scenario");
        let met = scenario.contacts.iter().filter(|contact| {
            let ends = &scenario.links[contact.link.0].between;
            [ends.0, ends.1]
                .iter()
                .any(|end| scenario.nodes[end.0].name == "s1")
        });
        met.map(|contact| contact.length.as_secs()).sum::<u64>()
    };
    // All ways lead there, so hosts stay there; one of six points is there otherwise.
    let (always, half, never) = (
        seconds("interests = [\"1 park.wkt\"]"),
        seconds("interests = [\"0.5 park.wkt\"]"),
        seconds(""),
    );
    assert!(always > 8 * 3_400, "{always}");
    assert!(
        always > half * 5 / 4 && half > never * 3 / 2,
        "{always} {half} {never}"
    );
}

#[test]
fn interests_that_are_none_are_refused() {
    let movement = |interests: &str| {
        group(&format!(
            "movement = \"shortest-path\"\nmap = [\"m.wkt\"]\ninterests = [{interests}]"
        ))
    };
    for (interests, expected) in [
        (
            "\"park.wkt\"",
            "'park.wkt' is not a part from 0 to 1 and a file",
        ),
        ("\"1.5 park.wkt\"", "is not a part from 0 to 1"),
        ("\"NaN park.wkt\"", "is not a part from 0 to 1"),
        (
            "\"0.7 park.wkt\", \"0.7 park.wkt\"",
            "the parts of 'interests' are more than 1",
        ),
        ("\"0.7 none.wkt\"", "/none.wkt: cannot be read"),
        ("\"0.7 empty.wkt\"", "/empty.wkt: has no point"),
        (
            "\"0.7 odd.wkt\"",
            "/odd.wkt:2: 'POINT (x)' is not a point in metres",
        ),
    ] {
        let files = [
            ("m.wkt", STREETS),
            ("park.wkt", "POINT (0 0)"),
            ("empty.wkt", "\n"),
            ("odd.wkt", "POINT (0 0)\nPOINT (x)"),
        ];
        let refused = read(&files, &movement(interests)).expect_err(interests);
        assert!(refused.contains(expected), "{interests}: {refused}");
    }
    let straight =
        group("movement = \"straight\"\nwidth_m = 10\nheight_m = 10\ninterests = [\"1 a\"]");
    let refused = read(&[], &straight).expect_err("no map");
    assert!(refused.contains("are for movement"), "{refused}");
}

#[test]
fn people_who_work_meet_at_the_office() {
    let files = [("m.wkt", STREETS), ("office.wkt", "POINT (200 100)")];
    let people = "movement = \"working-day\"\nmap = [\"m.wkt\"]\noffices = \"office.wkt\"\noffice_m = 0\nday_shift = \"0\"\nspeed = \"10m/s\"";
    let scenario = read(&files, &group(people)).expect("a scenario");
    // Within a minute all eight are at one place, and at work at the end of the hour.
    let last = scenario
        .contacts
        .iter()
        .filter(|it| (it.start + it.length).as_secs() == 3_600);
    assert_eq!(last.count(), 8 * 7 / 2);
    for (key, expected) in [
        (
            "company_least = 5",
            "'company_least' is more than 'company_most'",
        ),
        (
            "desk_coefficient = 0.0",
            "'desk_coefficient' must be more than 0",
        ),
        ("homes = \"none.wkt\"", "/none.wkt: cannot be read"),
    ] {
        let refused = read(&files, &group(&format!("{people}\n{key}"))).expect_err(key);
        assert!(refused.contains(expected), "{key}: {refused}");
    }
}
