use std::fs;
use std::path::Path;
use std::time::Duration;

use super::pair::Pairs;
use super::*;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pairs(text: &str) -> Pairs {
    pairs_of(&Plan::read(Path::new("plan"), text, None, s(1_000)).expect(text))
}

#[test]
fn a_plan_of_each_format_becomes_the_same_pairs() {
    let ion = "# ours\na contact +10 +20 1 2 2000\na contact +15 +30 2 1 2000\na range +0 +1000 1 2 3\n\
               a contact +60 +70 2 3 5\na contact +70 +80 2 3 0\n";
    let hdtn = r#"
        { "contacts": [
            { "contact": 0, "source": 1, "dest": 2, "startTime": 10, "endTime": 20, "rateBitsPerSec": 16000, "owlt": 3 },
            { "contact": 1, "source": 2, "dest": 1, "startTime": 15, "endTime": 30, "rateBitsPerSec": 16000, "owlt": 3 },
            { "contact": 2, "source": 3, "dest": 2, "startTime": 60, "endTime": 70, "rateBitsPerSec": 40 }
        ] }
    "#;
    let one = "10.0 CONN 1 2 up\n30 CONN 1 2 down\n60.0 CONN 3 2 up\n70.0 CONN 2 3 down\n990 CONN 3 1 up\n";
    for (text, rates, delay) in [
        (ion, [2_000, 5], s(3)),
        (hdtn, [2_000, 5], s(3)),
        (one, [0, 0], s(0)),
    ] {
        let pairs = pairs(text);
        assert_eq!(pairs[&(1, 2)].contacts, [(s(10), s(30))], "{text}");
        assert_eq!(pairs[&(2, 3)].contacts, [(s(60), s(70))], "{text}");
        let said = [(1, 2), (2, 3)].map(|ends| pairs[&ends].rate());
        assert_eq!(said, rates.map(Ok), "{text}");
        assert_eq!(
            course(&pairs[&(1, 2)].ranges),
            Delay::constant(delay),
            "{text}"
        );
    }
    // A link that is up at the end stays so.
    assert_eq!(pairs(one)[&(1, 3)].contacts, [(s(990), s(1_000))]);
}

/// The scenario of nodes 1 and 2, with a plan and more of its section, and with more sections.
fn with_plan(plan: &str, more: &str, sections: &str) -> Result<crate::Scenario, FileError> {
    let place = tempfile::tempdir().expect("a directory");
    fs::write(place.path().join("plan"), plan).expect("a plan");
    let text = format!(
        "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n{sections}[[contact_plan]]\nfile = \"plan\"\n{more}[stop]\nat = \"1h\"\n"
    );
    crate::Scenario::parse(&place.path().join("s.toml"), &text)
}

#[test]
fn contacts_of_several_rates_are_refused_unless_the_scenario_says_one() {
    let in_time =
        "a contact +0 +10 1 2 100000\na contact +0 +10 2 1 100000\na contact +20 +30 1 2 10000\n";
    let by_direction = "a contact +0 +10 1 2 100000\n\na contact +0 +10 2 1 1000\n";
    let hdtn = r#"{ "contacts": [
        { "source": 1, "dest": 2, "startTime": 0, "endTime": 9, "rateBitsPerSec": 8000 },
        { "source": 2, "dest": 1, "startTime": 0, "endTime": 9, "rateBitsPerSec": 800 }
    ] }"#;
    for (plan, line, rates) in [
        (
            in_time,
            3,
            "10000 octets a second here, and one of 100000 in line 1",
        ),
        (
            by_direction,
            3,
            "1000 octets a second here, and one of 100000 in line 1",
        ),
        (
            hdtn,
            3,
            "100 octets a second here, and one of 1000 in line 2",
        ),
    ] {
        let error = with_plan(plan, "", "").expect_err(plan);
        let said = error.to_string();
        assert!(said.contains(&format!("plan:{line}: ")), "{said}");
        assert!(said.contains(rates), "{said}");
        assert!(error.hint.is_some(), "{said}");
        let link = "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit\"\n";
        for (more, sections) in [("rate = \"1Mbit\"\n", ""), ("", link)] {
            let scenario = with_plan(plan, more, sections).expect(plan);
            assert_eq!(scenario.links[0].rate.octets_per_s(), 125_000);
        }
    }
}

#[test]
fn contacts_of_one_direction_are_told_with_their_line() {
    for (plan, told) in [
        ("a contact +0 +10 1 2 5\na contact +0 +10 2 1 5\n", None),
        // Two that follow each other are as long as one.
        (
            "a contact +0 +10 1 2 5\na contact +0 +4 2 1 5\na contact +4 +10 2 1 5\n",
            None,
        ),
        (
            "a contact +0 +10 1 2 5\n",
            Some("plan:1: the plan does not have all of this contact in the other direction"),
        ),
        (
            "a contact +0 +9 2 1 5\na contact +0 +10 1 2 5\n",
            Some("plan:2: the plan does not have all of this contact in"),
        ),
        (
            "a contact +1 +9 1 2 5\na contact +11 +19 2 1 5\n",
            Some("plan:1: the plan does not have all of this contact (and of one other) in"),
        ),
        ("0 CONN 1 2 up\n9 CONN 1 2 down\n", None),
    ] {
        let rate = if plan.contains("CONN") {
            "rate = \"1Mbit\"\n"
        } else {
            ""
        };
        let notes = with_plan(plan, rate, "").expect(plan).notes;
        assert_eq!(notes.len(), usize::from(told.is_some()), "{notes:?}");
        let note = notes.first().map_or("", String::as_str);
        assert!(note.contains(told.unwrap_or_default()), "{note}");
    }
}

#[test]
fn ranges_of_both_directions_become_one_course_of_delays() {
    let text = "a contact +0 +99 1 2 1000\na range +0 +10 1 2 3\na range +0 +10 2 1 3\na range +10 +20 1 2 5\n";
    let delay = course(&pairs(text)[&(1, 2)].ranges);
    for (at, expected) in [(0, 3), (9, 3), (10, 5), (19, 5), (50, 5)] {
        assert_eq!(delay.at(s(at)), s(expected), "{at}");
    }
}

#[test]
fn hosts_of_the_one_are_counted_from_0_and_may_have_a_word_before_their_number() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("s.toml");
    let network = |trace: &str, names: [&str; 3]| {
        fs::write(place.path().join("trace"), trace).expect("a trace");
        let nodes = names
            .map(|name| format!("[[node]]\nname = \"{name}\"\n"))
            .concat();
        let text = format!(
            "{nodes}[[contact_plan]]\nfile = \"trace\"\nrate = \"1Mbit\"\n[stop]\nat = \"1h\"\n"
        );
        let scenario = crate::Scenario::parse(&path, &text).expect("a scenario");
        let ends = scenario
            .links
            .iter()
            .map(|link| (link.between.0.0, link.between.1.0));
        ends.collect::<Vec<_>>()
    };
    let abc = ["a", "b", "c"];
    for trace in [
        "1 CONN 0 1 up\n2 CONN 1 2 up\n",
        "1 CONN p0 p1 up\n2 CONN p1 p2 up\n",
    ] {
        assert_eq!(network(trace, abc), [(0, 1), (1, 2)], "{trace}");
        assert_eq!(network(trace, ["2", "1", "0"]), [(2, 1), (1, 0)], "{trace}");
    }
    // Without host 0 numbers are those of nodes.
    assert_eq!(network("1 CONN 1 2 up\n", abc), [(0, 1)]);
}
