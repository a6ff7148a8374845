//! All values once a file is read: those that it sets and those that it leaves out, as a file may have them.

use std::time::Duration;

use serde_json::{Map, Number, Value as Json, json};

use crate::document::{Document, Entries};
use crate::schema::Occurs;
use crate::value::Value;

impl Document<'_> {
    /// Every section of the schema with every key, defaults included: the keys of the top first, then sections, of which those that a
    /// file may have many of are lists. A key without a value is null, and so is a section that must have keys and is not there.
    #[must_use]
    pub fn settled(&self) -> Map<String, Json> {
        let mut whole = Map::new();
        for section in self.schema() {
            let name = section.name.to_owned();
            match section.occurs {
                Occurs::Top => {
                    if let Ok(entries) = self.one(section.name) {
                        whole.extend(entries.settled());
                    }
                }
                Occurs::Once => {
                    let entries = self.one(section.name).ok();
                    whole.insert(name, entries.map(|it| it.settled()).into());
                }
                Occurs::Many => {
                    let all = self.all(section.name).map(|it| it.settled().into());
                    whole.insert(name, Json::Array(all.collect()));
                }
                Occurs::Loose => {
                    let entries = self.loose(section.name);
                    let entries = entries.map(|it| (it.path.clone(), it.text().into()));
                    whole.insert(name, Json::Object(entries.collect()));
                }
            }
        }
        whole
    }
}

impl Entries {
    /// Every key of the section with its value, or null.
    fn settled(&self) -> Map<String, Json> {
        let value = |name: &str| self.value(name).map_or(Json::Null, Value::written);
        self.keys()
            .map(|key| (key.name.to_owned(), value(key.name)))
            .collect()
    }
}

impl Value {
    /// The value as a file may have it.
    fn written(&self) -> Json {
        match self {
            Self::Text(text) => json!(text),
            Self::List(texts) => json!(texts),
            Self::Integer(integer) => json!(integer),
            Self::Numbers(numbers) => json!(numbers),
            Self::Size(octets) => json!(octets),
            Self::Sizes(least, most) => json!(format!("{least}B..{most}B")),
            Self::Duration(time) => json!(written(*time)),
            Self::Durations(least, most) => {
                json!(format!("{}..{}", written(*least), written(*most)))
            }
            Self::Speeds(least, most) => json!(format!("{}..{}", speed(*least), speed(*most))),
            Self::Offset(ms) => json!(format!("{ms}ms")),
            Self::Rate(octets) => json!(format!("{}bit", u128::from(*octets) * 8)),
            Self::Part(billionths) => {
                Number::from_f64(f64::from(*billionths) / 1e9).map_or(Json::Null, Json::Number)
            }
            Self::Boolean(yes) => json!(yes),
        }
    }
}

/// A time in the largest unit of which it is a whole number.
fn written(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units
        .into_iter()
        .find(|(_, unit)| nanos.is_multiple_of(*unit));
    let (name, unit) = unit.unwrap_or(("ns", 1));
    format!("{}{name}", nanos / unit)
}

/// A speed, millimetres an hour, in metres a second where it is a whole number of millimetres a second.
fn speed(mm_per_h: u64) -> String {
    let (whole, rest) = (mm_per_h / 3_600_000, mm_per_h % 3_600_000 / 3_600);
    match mm_per_h.is_multiple_of(3_600) {
        true => format!("{whole}.{rest:03}m/s"),
        false => format!("{}.{:06}km/h", mm_per_h / 1_000_000, mm_per_h % 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::schema::{Absent, Kind, Section, key, never, required, with_default};

    const SECTIONS: &[Section] = &[
        Section {
            name: "",
            occurs: Occurs::Top,
            meaning: "",
            groups: &[&[with_default("version", Kind::Integer(1, 1), "1", "")]],
        },
        Section {
            name: "crew",
            occurs: Occurs::Once,
            meaning: "",
            groups: &[&[
                key("cook", Kind::Text, Absent::Means("nobody"), "\"a\"", ""),
                key(
                    "watch",
                    Kind::Durations,
                    Absent::Means("none"),
                    "\"4h\"",
                    "",
                ),
                with_default("late", Kind::Offset, "\"-1500ms\"", ""),
                with_default("rum", Kind::Part, "0.125", ""),
            ]],
        },
        Section {
            name: "boat",
            occurs: Occurs::Many,
            meaning: "",
            groups: &[&[
                required("name", Kind::Text, "\"dhow\"", ""),
                with_default("load", Kind::Size, "\"2kB\"", ""),
                with_default("loads", Kind::Sizes, "\"1kB..2kB\"", ""),
                with_default("rate", Kind::Rate, "\"24Mbit\"", ""),
                never("oars", "it sails"),
            ]],
        },
        Section {
            name: "harbour",
            occurs: Occurs::Once,
            meaning: "",
            groups: &[&[required("name", Kind::Text, "\"a\"", "")]],
        },
        Section {
            name: "full",
            occurs: Occurs::Loose,
            meaning: "",
            groups: &[],
        },
    ];

    #[test]
    fn what_nobody_sets_is_there_with_its_default() {
        let text = "[[boat]]\nname = \"a\"\nload = \"1MiB\"\n[crew]\nwatch = \"90s..2min\"\n[full]\n\"boat.load\" = \"3MB\"\n";
        let document = Document::read(Path::new("boats.toml"), text, SECTIONS).unwrap();
        let settled = Json::Object(document.settled());
        let expected = json!({
            "version": 1,
            "crew": {"cook": null, "watch": "90s..120s", "late": "-1500ms", "rum": 0.125},
            "boat": [{"name": "a", "load": 1_048_576, "loads": "1000B..2000B", "rate": "24000000bit"}],
            "harbour": null,
            "full": {"boat.load": "3MB"},
        });
        assert_eq!(settled, expected);
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        for (nanos, text) in [
            (0, "0s"),
            (86_400_000_000_000, "86400s"),
            (1_500_000_000, "1500ms"),
            (2_000, "2us"),
            (7, "7ns"),
        ] {
            let time = Duration::from_nanos(nanos);
            assert_eq!(written(time), text);
            assert_eq!(crate::quantity::parse_duration(text), Ok(time));
        }
    }
}
