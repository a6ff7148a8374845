use std::path::Path;

use super::*;

const TWO: &str = r#"
[[node]]
name = "east"
[[node]]
name = "west"
[[link]]
between = ["east", "west"]
rate = "1Mbit"
"#;

fn refused(text: &str) -> String {
    let error = read(Path::new("s.toml"), text).expect_err("it is refused");
    match &error.hint {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_was_meant() {
    for (more, said) in [
        (
            "[stop]\nat = 5\n",
            "s.toml:10: 'at' is a text: a number with its unit, in quotes",
        ),
        (
            "[stop]\nat = \"1h\"\nseeed = 1\n",
            "s.toml:11: [stop] has no key 'seeed'; there are at, expects_all, when_delivered",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"wset\"]\nrate = \"1Mbit\"\n",
            "s.toml:10: there is no node 'wset'; did you mean 'west'?",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nrate = \"-1Mbit\"\n",
            "s.toml:11: 'rate' is no rate: '-1Mbit' does not begin with a number",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nrate = \"0bit\"\n",
            "s.toml:11: 'rate': a rate of nothing moves nothing",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nrate = \"8bit\"\n",
            "s.toml:10: two links are named 'east-west'",
        ),
        (
            "[[contact]]\nlink = \"east-west\"\nstart = \"2h\"\nend = \"1h\"\n",
            "s.toml:9: a contact ends before it begins",
        ),
        (
            "[[contact]]\nlink = \"west-east\"\nfor = \"1h\"\n",
            "s.toml:10: there is no link 'west-east'; did you mean 'east-west'?",
        ),
        (
            "[[contact]]\nlink = \"east-west\"\nfor = \"2h\"\nevery = \"1h\"\n",
            "s.toml:9: a contact lasts longer than it is until the next",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"15B\"\ncount = 1\n",
            "s.toml:12: 'size' is at least 16 octets, which say which payload it is",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"1kB\"\n",
            "s.toml:9: [[traffic]] lacks 'count'; only with 'every' or 'mean' it can go on for ever",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"east\"\nsize = \"1kB\"\ncount = 1\n",
            "s.toml:11: [[traffic]] goes from one node to another",
        ),
        (
            "[faults]\ncrash_at_flush = 2\n",
            "s.toml:10: 'crash_at_flush' is a number from 0 to 1, to a billionth",
        ),
        (
            "[[node]]\nname = \"east\"\n",
            "s.toml:10: two nodes are named 'east'",
        ),
        (
            "[node]\nname = \"x\"\n",
            "s.toml:9: this is no TOML: duplicate key",
        ),
        ("", "s.toml:1: the file lacks '[stop]'"),
    ] {
        assert_eq!(refused(&format!("{TWO}{more}")), said, "{more}");
    }
}

#[test]
fn keys_that_are_left_out_have_defaults() {
    let text = format!("{TWO}[stop]\nat = \"1h\"\n");
    let scenario = read(Path::new("labs/two.toml"), &text).expect("it is a scenario");
    assert_eq!((scenario.name.as_str(), scenario.seed), ("two", 1));
    let numbers: Vec<u32> = scenario.nodes.iter().map(|node| node.number).collect();
    assert_eq!(numbers, [1, 2]);
    let link = &scenario.links[0];
    assert_eq!(
        (link.name.as_str(), link.presence),
        ("east-west", Presence::Always)
    );
    assert_eq!(link.rate.octets_per_s(), 125_000);
}

#[test]
fn a_contact_plan_becomes_links_and_contacts() {
    let text =
        "# ours\na contact +10 +20 1 2 1000\na contact +15 +30 2 1 2000\na range +0 +99 1 2 3\n";
    let path = Path::new("plan");
    let pairs = contact_plan::read(Source {
        path,
        text,
        line_starts: &[],
    })
    .expect("a plan");
    let s = Duration::from_secs;
    let pair = &pairs[&(1, 2)];
    assert_eq!(pair.contacts, [(s(10), s(30))]);
    assert_eq!((pair.rate, pair.range), (2000, s(3)));
    for (text, said) in [
        (
            "a contact +10 +20 1 2\n",
            "plan:1: 'a …' is no line of a contact plan",
        ),
        (
            "\na contact +20 +10 1 2 5\n",
            "plan:2: it ends before it begins",
        ),
        (
            "a contact 2030/1/1 +10 1 2 5\n",
            "plan:1: '2030/1/1' is no time: seconds from the start, '+60'",
        ),
        (
            "a range +0 +10 1 1 5\n",
            "plan:1: node 1 needs no contact with itself",
        ),
    ] {
        let error = contact_plan::read(Source {
            path,
            text,
            line_starts: &[],
        })
        .expect_err("it is refused");
        assert_eq!(error.to_string(), said);
    }
}
