//! From TOML to checked values: every key known, every value of its kind, every fault with its line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dhow_bundle::quantity::{parse_duration, parse_size};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, nearest};
use super::schema::{Absent, Key, Kind, Occurs, SECTIONS, Section, section};

/// A value of its key's kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    List(Vec<String>),
    Integer(i64),
    Size(u64),
    Duration(Duration),
    Boolean(bool),
}

/// Where a value stands: its line from 1, or 0 for a default.
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
    text: &'a str,
    sections: Vec<Entries>,
}

impl<'a> Document<'a> {
    /// Read a file's text; `path` is for messages and relative paths.
    ///
    /// # Errors
    /// When the text is no TOML, has a key that does not exist or lacks one that must, or a value is not
    /// of its key's kind.
    pub fn read(path: &'a Path, text: &'a str) -> Result<Self, ConfigError> {
        let mut document = Self {
            path,
            text,
            sections: Vec::new(),
        };
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map(|span| document.line_at(span.start));
            ConfigError {
                line,
                ..ConfigError::of_file(path, format!("this is no TOML: {}", error.message()))
            }
        })?;
        let mut top = Vec::new();
        for (name, value) in table.get_ref().iter() {
            match section(name.get_ref()).filter(|section| section.occurs != Occurs::Top) {
                Some(section) => document.read_section(section, name, value)?,
                None => top.push((name, value)),
            }
        }
        let section =
            section("").ok_or_else(|| ConfigError::of_file(path, "the schema has no top"))?;
        let entries = document.read_entries(section, 1, top.into_iter())?;
        document.sections.push(entries);
        Ok(document)
    }

    /// The sections of a name, in the order of the file.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &Entries> {
        self.sections
            .iter()
            .filter(move |entries| entries.section.name == name)
    }

    /// The one section of a name, with only defaults when the file has none.
    ///
    /// # Errors
    /// When the section has keys that must be written.
    pub fn one(&self, name: &'static str) -> Result<Entries, ConfigError> {
        if let Some(entries) = self.all(name).next() {
            return Ok(entries.clone());
        }
        let Some(section) = section(name) else {
            return Err(ConfigError::of_file(
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
    pub fn fault(&self, line: usize, what: impl Into<String>) -> ConfigError {
        ConfigError {
            line: (line > 0).then_some(line),
            ..ConfigError::of_file(self.path, what)
        }
    }

    fn line_at(&self, offset: usize) -> usize {
        1 + self
            .text
            .as_bytes()
            .iter()
            .take(offset)
            .filter(|octet| **octet == b'\n')
            .count()
    }

    fn read_section(
        &mut self,
        section: &'static Section,
        name: &Spanned<impl Sized>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        let line = self.line_at(name.span().start);
        match (section.occurs, value.get_ref()) {
            (Occurs::Once, DeValue::Table(table)) => {
                let entries = self.read_entries(section, line, table.iter())?;
                self.sections.push(entries);
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
    ) -> Result<Entries, ConfigError> {
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

    fn unknown_key(&self, section: &'static Section, name: &str, line: usize) -> ConfigError {
        let error = if section.occurs == Occurs::Top {
            self.fault(line, format!("unknown key or section '{name}'"))
        } else {
            self.fault(line, format!("unknown key '{name}' in {}", section.title()))
        };
        let keys = section.keys().map(|key| key.name);
        let sections = SECTIONS
            .iter()
            .map(|section| section.name)
            .filter(|name| !name.is_empty());
        let candidate = match section.occurs {
            Occurs::Top => nearest(name, keys.chain(sections)),
            _ => nearest(name, keys),
        };
        if let Some(candidate) = candidate {
            return error.with_hint(format!("did you mean '{candidate}'?"));
        }
        let elsewhere = SECTIONS
            .iter()
            .find(|other| other.keys().any(|key| key.name == name));
        match elsewhere {
            Some(other) => error.with_hint(format!("'{name}' is a key of {}", other.title())),
            None => error.with_hint(format!(
                "the keys are {}",
                section
                    .keys()
                    .map(|key| key.name)
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        }
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

    fn value(&self, key: &str) -> Option<&Value> {
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

    /// A whole number, where it is set.
    #[must_use]
    pub fn integer(&self, key: &str) -> Option<i64> {
        match self.value(key) {
            Some(Value::Integer(integer)) => Some(*integer),
            _ => None,
        }
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

    /// True where a Boolean is set to true.
    #[must_use]
    pub fn is_true(&self, key: &str) -> bool {
        matches!(self.value(key), Some(Value::Boolean(true)))
    }
}

fn hint_for(key: &Key) -> String {
    format!("for example: {} = {}", key.name, key.example)
}

fn read_value(key: &Key, value: &DeValue<'_>) -> Result<Value, String> {
    let kind_is = |what: &str| format!("must be {what}, not {}", value.type_str());
    match key.kind {
        Kind::Text | Kind::Path => value
            .as_str()
            .map(|text| Value::Text(text.to_owned()))
            .ok_or_else(|| kind_is("text")),
        Kind::TextOrList => match value.as_str() {
            Some(text) => Ok(Value::Text(text.to_owned())),
            None => texts(value)
                .map(Value::List)
                .ok_or_else(|| kind_is("text or a list of texts")),
        },
        Kind::TextList | Kind::PathList => texts(value)
            .map(Value::List)
            .ok_or_else(|| kind_is("a list of texts")),
        Kind::Integer(least, most) => {
            let integer = integer(value).ok_or_else(|| kind_is("a whole number"))?;
            if integer < least || integer > most {
                return Err(format!("must be between {least} and {most}"));
            }
            Ok(Value::Integer(integer))
        }
        Kind::Size => match (value.as_str(), integer(value)) {
            (Some(text), _) => parse_size(text)
                .map(Value::Size)
                .map_err(|error| format!("is no size: {error}")),
            (None, Some(octets)) => u64::try_from(octets)
                .map(Value::Size)
                .map_err(|_| "must not be negative".to_owned()),
            (None, None) => Err(kind_is("a size")),
        },
        Kind::Duration => match (value.as_str(), integer(value)) {
            (Some(text), _) => parse_duration(text)
                .map(Value::Duration)
                .map_err(|error| format!("is no time: {error}")),
            (None, Some(0)) => Ok(Value::Duration(Duration::ZERO)),
            (None, _) => Err(kind_is("text with a unit of time")),
        },
        Kind::Boolean => value
            .as_bool()
            .map(Value::Boolean)
            .ok_or_else(|| kind_is("true or false")),
        Kind::Choice(choices) => {
            let text = value.as_str().ok_or_else(|| kind_is("text"))?;
            choose(text, choices).map(Value::Text)
        }
        Kind::ChoiceList(choices) => {
            let list = texts(value).ok_or_else(|| kind_is("a list of texts"))?;
            list.iter()
                .map(|text| choose(text, choices))
                .collect::<Result<_, _>>()
                .map(Value::List)
        }
    }
}

fn choose(text: &str, choices: &[&str]) -> Result<String, String> {
    if choices.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "cannot be \"{text}\" (one of \"{}\")",
        choices.join("\", \"")
    ))
}

fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    value
        .as_array()?
        .iter()
        .map(|element| element.get_ref().as_str().map(str::to_owned))
        .collect()
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}
