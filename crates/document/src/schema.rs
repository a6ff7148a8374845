//! The schema of a file: every section and key, once.

/// The kind of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// One text or a list of texts.
    TextOrList,
    /// A list of texts.
    TextList,
    /// A path, relative to the file.
    Path,
    /// A list of paths.
    PathList,
    /// A whole number within bounds, both included.
    Integer(i64, i64),
    /// Octets: `10GiB`, `50kB`, or a number.
    Size,
    /// Octets, or from some to others: `2kB..50kB`.
    Sizes,
    /// A time: `1d`, `60s`, `250ms`.
    Duration,
    /// A time, or from one to another: `2min..10min`.
    Durations,
    /// A speed, or from one to another: `1.4m/s`, `10km/h..50km/h`.
    Speeds,
    /// A time ahead or behind: `-3s`; in milliseconds.
    Offset,
    /// Octets a second, written in bits: `24Mbit`.
    Rate,
    /// A part of a whole, 0 to 1, to a billionth.
    Part,
    /// `true` or `false`.
    Boolean,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A list of some of these texts.
    ChoiceList(&'static [&'static str]),
    /// A list of some of these numbers, and of one at least.
    NumberList(&'static [i64]),
}

/// The rule that holds when a key is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The file is refused.
    Refused,
    /// Nothing is set; says what that means.
    Means(&'static str),
    /// This value, as it would be written.
    Default(&'static str),
    /// The key must be absent, though it may well be looked for here; the key's meaning, a hint, says why.
    Always,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// The rule that holds without it.
    pub absent: Absent,
    /// A value to show, as it would be written.
    pub example: &'static str,
    /// One sentence, with the unit.
    pub meaning: &'static str,
}

/// The number of times that a section may stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurs {
    /// The keys before any section.
    Top,
    /// `[name]`, at most once.
    Once,
    /// `[[name]]`, any number of times.
    Many,
    /// `[name]`, at most once, with keys of any name: their meaning is the reader's.
    Loose,
}

/// One section.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name; empty for the top.
    pub name: &'static str,
    /// The number of times that it may stand.
    pub occurs: Occurs,
    /// Its subject.
    pub meaning: &'static str,
    /// Its keys, in groups that sections share.
    pub groups: &'static [&'static [Key]],
}

impl Section {
    /// All keys that a file may have.
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> {
        let all = self.groups.iter().flat_map(|group| group.iter());
        all.filter(|key| key.absent != Absent::Always)
    }

    /// The key of this name that a file cannot have.
    pub(crate) fn never(&self, name: &str) -> Option<&'static Key> {
        let mut all = self.groups.iter().flat_map(|group| group.iter());
        all.find(|key| key.absent == Absent::Always && key.name == name)
    }

    /// The section's title as it is written in a file: `[store]`, `[[link]]`.
    #[must_use]
    pub fn title(&self) -> String {
        match self.occurs {
            Occurs::Top => "the top of the file".to_owned(),
            Occurs::Once | Occurs::Loose => format!("[{}]", self.name),
            Occurs::Many => format!("[[{}]]", self.name),
        }
    }
}

/// A key.
#[must_use]
pub const fn key(
    name: &'static str,
    kind: Kind,
    absent: Absent,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    Key {
        name,
        kind,
        absent,
        example,
        meaning,
    }
}

/// A key that a file cannot have, and a hint why.
#[must_use]
pub const fn never(name: &'static str, why: &'static str) -> Key {
    Key {
        name,
        kind: Kind::Text,
        absent: Absent::Always,
        example: "",
        meaning: why,
    }
}

/// A key without which a section is refused.
#[must_use]
pub const fn required(
    name: &'static str,
    kind: Kind,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    key(name, kind, Absent::Refused, example, meaning)
}

/// A key whose example is its default.
#[must_use]
pub const fn with_default(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key {
        name,
        kind,
        absent: Absent::Default(default),
        example: default,
        meaning,
    }
}
