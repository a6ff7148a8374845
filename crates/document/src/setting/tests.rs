use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;

use crate::schema::{Kind, Occurs, Section, required, with_default};
use crate::{Document, FileError};

const SCHEMA: &[Section] = &[
    Section {
        name: "",
        occurs: Occurs::Top,
        meaning: "",
        groups: &[&[with_default("seed", Kind::Integer(0, 9), "1", "A number.")]],
    },
    Section {
        name: "stop",
        occurs: Occurs::Once,
        meaning: "When.",
        groups: &[&[with_default("at", Kind::Duration, "\"1h\"", "A time.")]],
    },
    Section {
        name: "boat",
        occurs: Occurs::Many,
        meaning: "One that sails.",
        groups: &[&[
            required("name", Kind::Text, "\"dhow\"", "A name."),
            with_default("load", Kind::Sizes, "\"2kB\"", "What she carries."),
            with_default("leaks", Kind::Part, "0", "How much of it gets wet."),
        ]],
    },
];

const FLEET: &str = "[[boat]]\nname = \"dhow\"\n[[boat]]\nname = \"sambuk\"\nload = \"1MB\"\n";

fn read<'a>(settings: &'a [String]) -> Result<Document<'a>, FileError> {
    let naming = |table: &DeTable<'_>| Some(table.get("name")?.get_ref().as_str()?.to_owned());
    Document::read_with(Path::new("fleet.toml"), FLEET, SCHEMA, settings, naming)
}

#[test]
fn a_value_goes_to_all_sections_of_a_name_or_to_one() {
    for (setting, loads) in [
        ("boat.load=3kB", [3_000, 3_000]),
        ("boat.load = \"3kB\"", [3_000, 3_000]),
        ("boat.load=5", [5, 5]),
        ("boat.0.load=5", [5, 1_000_000]),
        ("boat.sambuk.load=5", [2_000, 5]),
        ("boat.sambuk.load=5..7kB", [2_000, 5]),
        ("seed=3", [2_000, 1_000_000]),
    ] {
        let settings = [setting.to_owned()];
        let document = read(&settings).expect(setting);
        let found: Vec<u64> = document
            .all("boat")
            .filter_map(|boat| boat.sizes("load"))
            .map(|(least, _)| least)
            .collect();
        assert_eq!(found, loads, "{setting}");
    }
}

#[test]
fn what_is_set_last_holds_and_sections_come_into_being() {
    let settings = ["stop.at=5s", "stop.at=7s", "seed=4"].map(str::to_owned);
    let document = read(&settings).expect("all are there");
    let stop = document.one("stop").expect("it has defaults");
    assert_eq!(stop.duration("at"), Duration::from_secs(7));
    assert_eq!(
        document.one("").expect("it has one").integer("seed"),
        Some(4)
    );
}

#[test]
fn what_cannot_be_set_is_named_with_what_was_meant() {
    for (setting, said) in [
        (
            "boat.load",
            "this sets nothing; for example: --set traffic.size=2kB",
        ),
        (
            "boad.load=1",
            "there is no section 'boad'; did you mean 'boat'?",
        ),
        (
            "boat.laod=1",
            "unknown key 'laod' in [[boat]]; did you mean 'load'?",
        ),
        (
            "sed=1",
            "unknown key or section 'sed'; did you mean 'seed'?",
        ),
        (
            "boat.2.load=1",
            "there is no [[boat]] '2'; there are 2: dhow, sambuk",
        ),
        (
            "boat.dow.load=1",
            "there is no [[boat]] 'dow'; did you mean 'dhow'?",
        ),
        (
            "stop=3",
            "unknown key or section 'stop'; 'stop' is a section, of which keys are set: stop.KEY=VALUE",
        ),
        (
            "boat..load=1",
            "there is no [[boat]] ''; there are 2: dhow, sambuk",
        ),
        (
            "stop.0.at=1s",
            "there is one [stop] at most, and no '0' of it",
        ),
        (
            "boat.load=2 bushels",
            "'load' is not a size: 'bushels' is not a unit of size (one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB); for example: load = \"2kB\"",
        ),
        (
            "boat.leaks=wet",
            "'leaks' must be a number from 0 to 1, not string; for example: leaks = 0",
        ),
    ] {
        let settings = ["seed=2".to_owned(), setting.to_owned()];
        let error = read(&settings).err().expect(setting);
        let hint = error
            .hint
            .clone()
            .map_or_else(String::new, |hint| format!("; {hint}"));
        assert_eq!(format!("{error}{hint}"), format!("--set {setting}: {said}"));
    }
}
