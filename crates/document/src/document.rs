//! From TOML to checked values: every key known, every value of its kind, every fault with its line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::{FileError, nearest};
use crate::loose::{Loose, flatten};
use crate::schema::{Absent, Key, Occurs, Section};
use crate::setting::Naming;
use crate::syntax::no_toml;
use crate::value::{Value, read_value};

/// The place of a value: its line from 1, or 0 for a default.
#[derive(Clone, Debug)]
struct Placed {
    value: Value,
    line: usize,
}

/// One section as read: values by key, defaults filled in.
#[derive(Clone, Debug)]
pub struct Entries {
    section: &'static Section,
    line: usize,
    values: BTreeMap<&'static str, Placed>,
}

/// A whole file as read, not yet understood.
pub struct Document<'a> {
    path: &'a Path,
    schema: &'static [Section],
    /// The first octets of lines.
    line_starts: Vec<usize>,
    /// Settings from outside, as they were written; each has a line of its own behind those of the file.
    settings: &'a [String],
    sections: Vec<Entries>,
    loose: Vec<(&'static str, Vec<Loose>)>,
}

impl<'a> Document<'a> {
    /// Reads a file's text; `path` is for messages and relative paths.
    ///
    /// # Errors
    /// When the text is not valid TOML, has a key that does not exist or lacks one that must, or a value is not
    /// of its key's kind.
    pub fn read(
        path: &'a Path,
        text: &'a str,
        schema: &'static [Section],
    ) -> Result<Self, FileError> {
        Self::read_with(path, text, schema, &[], |_| None)
    }

    /// Reads a file's text, and sets values from outside over those of the file: each as `SECTION.KEY=VALUE` (of every
    /// section of that name), `SECTION.WHICH.KEY=VALUE` (of one: by its position from 0, or the name that `naming`
    /// finds), or `KEY=VALUE` before any section. A value is TOML, or the text itself where a text is wanted.
    ///
    /// # Errors
    /// As [`Document::read`], and where something is set that is not there; the error then names what was set.
    pub fn read_with(
        path: &'a Path,
        text: &'a str,
        schema: &'static [Section],
        settings: &'a [String],
        naming: Naming,
    ) -> Result<Self, FileError> {
        let ends = text.bytes().enumerate();
        let ends = ends.filter(|(_, octet)| *octet == b'\n');
        let line_starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1));
        let mut document = Self {
            path,
            schema,
            line_starts: line_starts.collect(),
            settings,
            sections: Vec::new(),
            loose: Vec::new(),
        };
        let mut table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map(|span| document.line_at(span.start));
            let line = line.map(|at| (at, text.lines().nth(at - 1).unwrap_or_default()));
            no_toml(path, line, error.message(), schema)
        })?;
        for (number, setting) in settings.iter().enumerate() {
            // Each is as far behind the text as its line is behind the last one.
            let offset = text.len() + 1 + number;
            document.line_starts.push(offset);
            document.set(table.get_mut(), setting, offset, naming)?;
        }
        let mut top = Vec::new();
        for (name, value) in table.get_ref().iter() {
            let section = document.section(name.get_ref());
            match section.filter(|section| section.occurs != Occurs::Top) {
                Some(section) => document.read_section(section, name, value)?,
                None => top.push((name, value)),
            }
        }
        if let Some(section) = document.section("") {
            let entries = document.read_entries(section, 1, top.into_iter())?;
            document.sections.push(entries);
        }
        Ok(document)
    }

    /// The section of a name in the schema; the empty name is the top.
    pub(crate) fn section(&self, name: &str) -> Option<&'static Section> {
        self.schema.iter().find(|section| section.name == name)
    }

    /// All sections of the schema.
    pub(crate) const fn schema(&self) -> &'static [Section] {
        self.schema
    }

    /// The sections of a name, in the order of the file.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &Entries> {
        self.sections
            .iter()
            .filter(move |entries| entries.section.name == name)
    }

    /// The sections of all names, in the order of the file, but those with keys of any name.
    pub fn sections(&self) -> impl Iterator<Item = &Entries> {
        self.sections.iter()
    }

    /// The content of a section with keys of any name, in the order of the file.
    pub fn loose(&self, name: &str) -> impl Iterator<Item = &Loose> {
        let found = self.loose.iter().filter(move |(known, _)| *known == name);
        found.flat_map(|(_, entries)| entries)
    }

    /// The one section of a name, with only defaults when the file has none.
    ///
    /// # Errors
    /// When the section has keys that must be written.
    pub fn one(&self, name: &'static str) -> Result<Entries, FileError> {
        if let Some(entries) = self.all(name).next() {
            return Ok(entries.clone());
        }
        let Some(section) = self.section(name) else {
            return Err(FileError::of_file(
                self.path,
                format!("the schema has no section '{name}'"),
            ));
        };
        self.read_entries::<&str>(section, 0, std::iter::empty())
    }

    /// A path of the file: relative ones start at the file's directory.
    #[must_use]
    pub fn resolve(&self, path: &str) -> PathBuf {
        self.path
            .parent()
            .unwrap_or_else(|| Path::new(""))
            .join(path)
    }

    /// An error at a line; 0 for none.
    #[must_use]
    pub fn fault(&self, line: usize, what: impl Into<String>) -> FileError {
        let lines = self.line_starts.len() - self.settings.len();
        let setting = line.checked_sub(lines + 1);
        if let Some(setting) = setting.and_then(|number| self.settings.get(number)) {
            return FileError::of_file(Path::new(&format!("--set {setting}")), what);
        }
        FileError {
            line: (line > 0).then_some(line),
            ..FileError::of_file(self.path, what)
        }
    }

    /// An error about the value of a section's key, with the schema's example as its hint.
    #[must_use]
    pub fn fault_of(&self, entries: &Entries, key: &str, what: impl Into<String>) -> FileError {
        let error = self.fault(entries.line_of(key), what);
        match entries.keys().find(|known| known.name == key) {
            Some(key) => error.with_hint(hint_for(key)),
            None => error,
        }
    }

    /// The line of an octet of the text.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    fn read_section(
        &mut self,
        section: &'static Section,
        name: &Spanned<impl Sized>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), FileError> {
        let line = self.line_at(name.span().start);
        match (section.occurs, value.get_ref()) {
            (Occurs::Once, DeValue::Table(table)) => {
                let entries = self.read_entries(section, line, table.iter())?;
                self.sections.push(entries);
            }
            (Occurs::Loose, DeValue::Table(table)) => {
                let entries = flatten(table, &|offset| self.line_at(offset))
                    .map_err(|(line, what)| self.fault(line, what))?;
                self.loose.push((section.name, entries));
            }
            (Occurs::Many, DeValue::Array(tables)) => {
                for element in tables.iter() {
                    let line = self.line_at(element.span().start);
                    let DeValue::Table(table) = element.get_ref() else {
                        return Err(
                            self.fault(line, format!("'{}' is a list of sections", section.name))
                        );
                    };
                    let entries = self.read_entries(section, line, table.iter())?;
                    self.sections.push(entries);
                }
            }
            _ => {
                return Err(self
                    .fault(line, format!("'{}' is a section of its own", section.name))
                    .with_hint(format!(
                        "write {} on a line by itself, its keys below",
                        section.title()
                    )));
            }
        }
        Ok(())
    }

    fn read_entries<'t, S: AsRef<str> + 't>(
        &self,
        section: &'static Section,
        line: usize,
        pairs: impl Iterator<Item = (&'t Spanned<S>, &'t Spanned<DeValue<'t>>)>,
    ) -> Result<Entries, FileError> {
        let mut values = BTreeMap::new();
        for (name, value) in pairs {
            let line = self.line_at(name.span().start);
            let name = name.get_ref().as_ref();
            let Some(key) = section.keys().find(|key| key.name == name) else {
                return Err(self.unknown_key(section, name, line));
            };
            let value = read_value(key, value.get_ref()).map_err(|what| {
                self.fault(line, format!("'{name}' {what}"))
                    .with_hint(hint_for(key))
            })?;
            values.insert(key.name, Placed { value, line });
        }
        for key in section.keys() {
            match key.absent {
                Absent::Refused if !values.contains_key(key.name) => {
                    return Err(self
                        .fault(line, format!("{} lacks '{}'", section.title(), key.name))
                        .with_hint(hint_for(key)));
                }
                Absent::Default(text) if !values.contains_key(key.name) => {
                    let value = DeValue::parse(text)
                        .map_err(|error| error.to_string())
                        .and_then(|value| read_value(key, value.get_ref()))
                        .map_err(|what| {
                            self.fault(0, format!("default of '{}' {what}", key.name))
                        })?;
                    values.insert(key.name, Placed { value, line: 0 });
                }
                _ => {}
            }
        }
        Ok(Entries {
            section,
            line,
            values,
        })
    }

    pub(crate) fn unknown_key(
        &self,
        section: &'static Section,
        name: &str,
        line: usize,
    ) -> FileError {
        if let Some(key) = section.never(name) {
            let what = format!("{} cannot have '{name}'", section.title());
            return self.fault(line, what).with_hint(key.meaning);
        }
        let error = if section.occurs == Occurs::Top {
            self.fault(line, format!("unknown key or section '{name}'"))
        } else {
            self.fault(line, format!("unknown key '{name}' in {}", section.title()))
        };
        let keys = section.keys().map(|key| key.name);
        let sections = self
            .schema
            .iter()
            .map(|section| section.name)
            .filter(|name| !name.is_empty());
        let candidate = match section.occurs {
            Occurs::Top => nearest(name, keys.chain(sections)),
            _ => nearest(name, keys),
        };
        if candidate == Some(name) {
            let hint = format!("'{name}' is a section, of which keys are set: {name}.KEY=VALUE");
            return error.with_hint(hint);
        }
        if let Some(candidate) = candidate {
            return error.with_hint(format!("did you mean '{candidate}'?"));
        }
        let known: Vec<&str> = section.keys().map(|key| key.name).collect();
        let known = known.join(", ");
        let mut others = self.schema.iter();
        let elsewhere = others.find(|other| other.keys().any(|key| key.name == name));
        error.with_hint(match elsewhere {
            Some(other) => {
                let (there, here) = (other.title(), section.title());
                format!("'{name}' is a key of {there}; those of {here} are {known}")
            }
            None => format!("the keys are {known}"),
        })
    }
}

impl Entries {
    /// The line where the section begins; 0 when the file does not have it.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }

    /// The line of a key's value, or of the section where it is a default.
    #[must_use]
    pub fn line_of(&self, key: &str) -> usize {
        self.values
            .get(key)
            .map(|placed| placed.line)
            .filter(|line| *line > 0)
            .unwrap_or(self.line)
    }

    /// The keys that it may have.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.section.keys()
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        assert!(
            self.section.keys().any(|known| known.name == key),
            "'{key}' is a key of the schema"
        );
        self.values.get(key).map(|placed| &placed.value)
    }

    /// A text, where it is set.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A list of texts; one text is a list of one, an absent key an empty list.
    #[must_use]
    pub fn list(&self, key: &str) -> &[String] {
        match self.value(key) {
            Some(Value::List(list)) => list,
            Some(Value::Text(text)) => std::slice::from_ref(text),
            _ => &[],
        }
    }

    /// A list of numbers; empty where it is not set.
    #[must_use]
    pub fn numbers(&self, key: &str) -> &[i64] {
        match self.value(key) {
            Some(Value::Numbers(numbers)) => numbers,
            _ => &[],
        }
    }

    /// A whole number, where it is set.
    #[must_use]
    pub fn integer(&self, key: &str) -> Option<i64> {
        match self.value(key) {
            Some(Value::Integer(integer)) => Some(*integer),
            _ => None,
        }
    }

    /// A whole number that the schema lets be 0 at least, where it is set.
    #[must_use]
    pub fn count(&self, key: &str) -> Option<u64> {
        self.integer(key)
            .and_then(|count| u64::try_from(count).ok())
    }

    /// Octets, where they are set.
    #[must_use]
    pub fn size(&self, key: &str) -> Option<u64> {
        match self.value(key) {
            Some(Value::Size(octets)) => Some(*octets),
            _ => None,
        }
    }

    /// A duration; zero where none is set.
    #[must_use]
    pub fn duration(&self, key: &str) -> Duration {
        match self.value(key) {
            Some(Value::Duration(duration)) => *duration,
            _ => Duration::ZERO,
        }
    }

    /// A duration, where one is set.
    #[must_use]
    pub fn duration_if_set(&self, key: &str) -> Option<Duration> {
        match self.value(key) {
            Some(Value::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }

    /// The shortest and the longest of some durations, where they are set.
    #[must_use]
    pub fn durations(&self, key: &str) -> Option<(Duration, Duration)> {
        match self.value(key) {
            Some(Value::Durations(least, most)) => Some((*least, *most)),
            _ => None,
        }
    }

    /// The slowest and the fastest of some speeds, millimetres an hour, where they are set.
    #[must_use]
    pub fn speeds(&self, key: &str) -> Option<(u64, u64)> {
        match self.value(key) {
            Some(Value::Speeds(least, most)) => Some((*least, *most)),
            _ => None,
        }
    }

    /// The smallest and the largest of some sizes, where they are set.
    #[must_use]
    pub fn sizes(&self, key: &str) -> Option<(u64, u64)> {
        match self.value(key) {
            Some(Value::Sizes(least, most)) => Some((*least, *most)),
            _ => None,
        }
    }

    /// Octets a second, where they are set.
    #[must_use]
    pub fn rate(&self, key: &str) -> Option<u64> {
        match self.value(key) {
            Some(Value::Rate(octets)) => Some(*octets),
            _ => None,
        }
    }

    /// The time ahead, milliseconds, where it is set.
    #[must_use]
    pub fn offset_ms(&self, key: &str) -> Option<i64> {
        match self.value(key) {
            Some(Value::Offset(offset_ms)) => Some(*offset_ms),
            _ => None,
        }
    }

    /// A part of a whole in billionths, where it is set.
    #[must_use]
    pub fn part(&self, key: &str) -> Option<u32> {
        match self.value(key) {
            Some(Value::Part(part)) => Some(*part),
            _ => None,
        }
    }

    /// Whether the file, or what was set, has the key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|placed| placed.line > 0)
    }

    /// The section's title as it is written: `[store]`, `[[link]]`.
    #[must_use]
    pub fn title(&self) -> String {
        self.section.title()
    }

    /// True where a Boolean is set to true.
    #[must_use]
    pub fn is_true(&self, key: &str) -> bool {
        matches!(self.value(key), Some(Value::Boolean(true)))
    }
}

fn hint_for(key: &Key) -> String {
    format!("for example: {} = {}", key.name, key.example)
}
