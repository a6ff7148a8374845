use std::path::Path;
use std::time::Duration;

use crate::Scenario;
use crate::scenario::Presence;

fn scenario(text: &str) -> Scenario {
    let text = format!("{text}\n[stop]\nat = \"10d\"\n");
    Scenario::parse(Path::new("s.toml"), &text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn refused(text: &str) -> String {
    let text = format!("{text}\n[stop]\nat = \"10d\"\n");
    let error = Scenario::parse(Path::new("s.toml"), &text).expect_err(&text);
    let hint = error
        .hint
        .clone()
        .map_or_else(String::new, |hint| format!("; {hint}"));
    format!("{error}{hint}")
}

fn links(scenario: &Scenario) -> Vec<String> {
    scenario
        .links
        .iter()
        .map(|link| link.name.clone())
        .collect()
}

/// The contacts of a link, first beginning and length, seconds.
fn contacts(scenario: &Scenario, name: &str) -> Vec<(u64, u64)> {
    let of = |at: usize| scenario.links[at].name == name;
    let contacts = scenario
        .contacts
        .iter()
        .filter(|contact| of(contact.link.0));
    contacts
        .map(|contact| (contact.start.as_secs(), contact.length.as_secs()))
        .collect()
}

#[test]
fn plain_shapes_have_their_links() {
    for (section, expected) in [
        ("[[line]]\nname = \"n\"\ncount = 3", "n1-n2 n2-n3"),
        ("[[line]]\nname = \"n\"\ncount = 1", ""),
        (
            "[[ring]]\nname = \"n\"\ncount = 3\nfirst = 0",
            "n0-n1 n1-n2 n2-n0",
        ),
        ("[[star]]\nname = \"n\"\ncount = 2", "n1-nhub n2-nhub"),
        (
            "[[grid]]\nname = \"n\"\nwidth = 2\nheight = 2",
            "n1-1-n2-1 n1-1-n1-2 n2-1-n2-2 n1-2-n2-2",
        ),
    ] {
        let scenario = scenario(&format!("{section}\nrate = \"1Mbit\"\n"));
        assert_eq!(links(&scenario).join(" "), expected, "{section}");
        assert!(
            scenario
                .links
                .iter()
                .all(|link| link.presence == Presence::Always)
        );
    }
}

#[test]
fn contacts_of_a_shape_follow_from_the_seed_of_the_file() {
    let grid = "[[grid]]\nname = \"n\"\nwidth = 5\nheight = 5\nrate = \"1Mbit\"\ncontact_every = \"1h\"\ncontact_for = \"2min..10min\"\n";
    let first = scenario(grid);
    assert_eq!(first.contacts, scenario(grid).contacts);
    assert_ne!(
        first.contacts,
        scenario(&format!("seed = 2\n{grid}")).contacts
    );
    let (min, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
    for contact in &first.contacts {
        assert!(contact.start < hour && contact.every == Some(hour));
        assert!(contact.length >= 2 * min && contact.length <= 10 * min);
    }
    assert_eq!((first.contacts.len(), first.links.len()), (40, 40));
    assert!(
        first
            .links
            .iter()
            .all(|link| link.presence == Presence::Planned)
    );
}

#[test]
fn whoever_stands_within_reach_has_a_link_and_whoever_walks_has_contacts() {
    let field = "[[field]]\nname = \"n\"\ncount = 40\nwidth_m = 1000\nheight_m = 1000\nreach_m = 200\nrate = \"1Mbit\"\n";
    let still = scenario(field);
    assert!(still.contacts.is_empty() && still.links.len() > 40);
    let text = format!(
        "{field}fastest_kmh = 6\nslowest_kmh = 3\npause = \"0..2min\"\nstep = \"30s\"\n[stop]\nat = \"12h\"\n"
    );
    let walk = |text: &str| Scenario::parse(Path::new("s.toml"), text).expect("it is one");
    let moving = walk(&text);
    assert_eq!(moving.contacts, walk(&text).contacts);
    // Nearly everybody meets everybody.
    assert!(moving.links.len() > 700, "{}", moving.links.len());
    let end = Duration::from_secs(12 * 3_600);
    for contact in &moving.contacts {
        assert!(!contact.length.is_zero() && contact.start + contact.length <= end);
    }
    // A disk of that reach is an eighth of the field; walks go through the middle, and ends at walls.
    let together: Duration = moving.contacts.iter().map(|contact| contact.length).sum();
    let part = together.as_secs() * 100 / (end.as_secs() * 780);
    assert!((10..20).contains(&part), "{part} %");
}

#[test]
fn a_bus_is_where_its_timetable_says() {
    let stops = "[[nodes]]\nname = \"s\"\ncount = 3\n[[bus]]\nname = \"bus\"\nrate = \"1Mbit\"\nstops = [\"s1\", \"s2\", \"s3\"]\nstart = \"1h\"\n";
    let back = scenario(&format!(
        "{stops}travel = [\"10min\", \"20min\"]\nevery = \"12h\"\ncount = 2\n"
    ));
    assert_eq!(
        links(&back).join(" "),
        "bus1-s1 bus1-s2 bus1-s3 bus2-s1 bus2-s2 bus2-s3"
    );
    assert_eq!(contacts(&back, "bus1-s1"), [(3_600, 300)]);
    // Five minutes there, ten on the way; back from the third, twenty on the way.
    assert_eq!(
        contacts(&back, "bus1-s2"),
        [(3_600 + 900, 300), (3_600 + 900 + 1_500 + 1_500, 300)]
    );
    assert_eq!(contacts(&back, "bus1-s3"), [(3_600 + 900 + 1_500, 300)]);
    assert_eq!(contacts(&back, "bus2-s1"), [(3_600 + 21_600, 300)]);
    let round = scenario(&format!("{stops}travel = \"10min\"\nway = \"round\"\n"));
    assert_eq!(contacts(&round, "bus1-s2"), [(3_600 + 900, 300)]);
    assert_eq!(round.contacts[0].every, Some(Duration::from_secs(3 * 900)));
}

#[test]
fn a_mission_has_one_station_at_a_time_and_a_delay_that_changes() {
    let scenario = scenario(
        "[[mission]]\nname = \"m-\"\nrate = \"1Mbit\"\nnearest = \"4s\"\nfarthest = \"20s\"\nswing = \"20d\"\nhidden = \"30min\"\n",
    );
    let names: Vec<&str> = scenario
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "m-station1",
            "m-station2",
            "m-station3",
            "m-orbiter",
            "m-lander"
        ]
    );
    // Eight hours are four orbits; half an hour of each is hidden.
    let first = contacts(&scenario, "m-station1-m-orbiter");
    assert_eq!(
        first[..5],
        [
            (1_800, 5_400),
            (9_000, 5_400),
            (16_200, 5_400),
            (23_400, 5_400),
            (88_200, 5_400)
        ]
    );
    assert_eq!(
        contacts(&scenario, "m-station2-m-orbiter")[0],
        (30_600, 5_400)
    );
    assert_eq!(contacts(&scenario, "m-lander-m-orbiter"), [(3_300, 600)]);
    let delay = &scenario.links[0].delay;
    let days = |days: u64| delay.at(Duration::from_secs(86_400 * days)).as_secs();
    assert_eq!([days(0), days(5), days(10)], [4, 12, 20]);
}

#[test]
fn generators_say_what_they_cannot_make() {
    let wire = "rate = \"1Mbit\"\n";
    for (text, said) in [
        (
            format!("[[grid]]\nname = \"n\"\nwidth = 100000\nheight = 1000\n{wire}"),
            "s.toml:4: a scenario has at most 1000000 nodes",
        ),
        (
            format!(
                "[[field]]\nname = \"n\"\ncount = 6000\nwidth_m = 10\nheight_m = 10\nreach_m = 200\n{wire}"
            ),
            "s.toml:2: more than 10000000 pairs of nodes are within reach",
        ),
        (
            format!("[[ring]]\nname = \"n\"\ncount = 2\n{wire}"),
            "s.toml:3: a ring has three nodes at least",
        ),
        (
            format!("[[star]]\nname = \"n\"\ncount = 2\nhub = \"m\"\n{wire}"),
            "s.toml:4: there is no node 'm'; each node has a [[node]] with its name, or a section that makes several",
        ),
        (
            format!("[[line]]\nname = \"n\"\ncount = 2\ncontact_every = \"1h\"\n{wire}"),
            "s.toml:4: 'contact_every' says nothing without 'contact_for'",
        ),
        (
            format!(
                "[[line]]\nname = \"n\"\ncount = 2\ncontact_every = \"1h\"\ncontact_for = \"1h..2h\"\n{wire}"
            ),
            "s.toml:4: a contact lasts longer than the time until the next",
        ),
        (
            format!(
                "[[line]]\nname = \"n\"\ncount = 2\n{wire}[[line]]\nname = \"n\"\ncount = 2\n{wire}"
            ),
            "s.toml:6: two nodes are named 'n1'",
        ),
        (
            format!(
                "[[node]]\nname = \"a\"\nnumber = 2\n[[line]]\nname = \"n\"\ncount = 2\n{wire}"
            ),
            "s.toml:5: two nodes have the number 2",
        ),
        (
            format!("[[line]]\nname = \"n\"\ncount = 2\ncuont = 2\n{wire}"),
            "s.toml:4: unknown key 'cuont' in [[line]]; did you mean 'count'?",
        ),
        (
            format!(
                "[[nodes]]\nname = \"n\"\ncount = 2\n[[bus]]\nname = \"b\"\nstops = [\"n1\", \"n2\"]\ntravel = \"5h\"\nevery = \"3h\"\n{wire}"
            ),
            "s.toml:8: a tour takes 36600s, longer than the time until the next",
        ),
        (
            format!(
                "[[nodes]]\nname = \"n\"\ncount = 2\n[[bus]]\nname = \"b\"\nstops = [\"n1\", \"n2\"]\ntravel = [\"5h\", \"1h\"]\n{wire}"
            ),
            "s.toml:7: 'travel' has 2 times for 1 ways",
        ),
        (
            format!(
                "[[mission]]\nname = \"m\"\nnearest = \"2s\"\nfarthest = \"1s\"\nswing = \"9d\"\n{wire}"
            ),
            "s.toml:4: 'farthest' is nearer than 'nearest'",
        ),
        (
            format!(
                "[[field]]\nname = \"n\"\ncount = 100000\nwidth_m = 1000\nheight_m = 1000\nreach_m = 200\nfastest_kmh = 5\n{wire}"
            ),
            "s.toml:1: 100000 nodes are looked at 864000 times; make 'step' longer",
        ),
        (
            format!(
                "[[line]]\nname = \"n\"\ncount = 3\n{wire}[[traffic]]\nfrom = \"n*\"\nto = \"n1\"\nwithin = 1\nsize = \"2kB\"\ncount = 1\n"
            ),
            "s.toml:7: [[traffic]] goes from one node to another",
        ),
        (
            format!(
                "[[line]]\nname = \"n\"\ncount = 3\n{wire}[[traffic]]\nfrom = \"n3\"\nto = \"n1*\"\nwithin = 1\nsize = \"2kB\"\ncount = 1\n"
            ),
            "s.toml:8: no node 'n1*' is within 1 links of 'n3'",
        ),
        (
            format!(
                "[[line]]\nname = \"n\"\ncount = 3\n{wire}[[traffic]]\nfrom = \"m*\"\nto = \"n1\"\nsize = \"2kB\"\ncount = 1\n"
            ),
            "s.toml:6: there is no node 'm*'; there are 3: n1, n2, n3",
        ),
    ] {
        assert_eq!(refused(&text), said, "{text}");
    }
}

#[test]
fn traffic_of_many_goes_to_one_that_is_near() {
    let text = "[[line]]\nname = \"n\"\ncount = 30\nrate = \"1Mbit\"\n[[traffic]]\nfrom = \"n*\"\nto = \"*\"\nwithin = 2\nsize = \"2kB\"\ncount = 1\nstart = \"0..1h\"\n";
    let scenario = scenario(text);
    assert_eq!(scenario.traffic.len(), 30);
    for traffic in &scenario.traffic {
        let far = traffic.from.0.abs_diff(traffic.to.0);
        assert!((1..=2).contains(&far), "{far}");
    }
    let starts: std::collections::BTreeSet<Duration> =
        scenario.traffic.iter().map(|it| it.start).collect();
    assert!(starts.len() > 20);
}
