//! A table of the file, key by key: what is asked for is known, and what is left over is refused.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use dhow_bundle::quantity::{parse_duration, parse_rate, parse_size};
use dhow_channel::profile::BILLION;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::ScenarioError;
use dhow_document::nearest;

/// A file's path, text and beginnings of lines, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
    pub(crate) line_starts: &'a [usize],
}

/// Where the lines of a text begin.
pub(crate) fn line_starts(text: &str) -> Vec<usize> {
    let ends = text
        .bytes()
        .enumerate()
        .filter(|(_, octet)| *octet == b'\n');
    std::iter::once(0)
        .chain(ends.map(|(at, _)| at + 1))
        .collect()
}

impl Source<'_> {
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    pub(crate) fn fault(&self, line: usize, what: impl Into<String>) -> ScenarioError {
        ScenarioError::at(self.path, line, what)
    }
}

/// One table of the file.
pub(crate) struct Section<'a> {
    source: Source<'a>,
    /// As it is written: `[[link]]`; empty for the top of the file.
    title: &'static str,
    pub(crate) line: usize,
    table: &'a DeTable<'a>,
    /// Keys that were asked for.
    known: RefCell<BTreeSet<&'static str>>,
}

/// A value and the line on which its key stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) line: usize,
}

impl<'a> Section<'a> {
    pub(crate) fn new(
        source: Source<'a>,
        title: &'static str,
        line: usize,
        table: &'a DeTable<'a>,
    ) -> Self {
        Self {
            source,
            title,
            line,
            table,
            known: RefCell::default(),
        }
    }

    fn find(&self, key: &'static str) -> Option<(usize, &'a DeValue<'a>)> {
        self.known.borrow_mut().insert(key);
        let (name, value) = self
            .table
            .iter()
            .find(|(name, _)| name.get_ref().as_ref() == key)?;
        Some((self.source.line_at(name.span().start), value.get_ref()))
    }

    /// The value of a key, read by `read`, which says what it should be where it is not.
    fn value<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&'a DeValue<'a>) -> Result<T, String>,
    ) -> Result<Option<Placed<T>>, ScenarioError> {
        let Some((line, value)) = self.find(key) else {
            return Ok(None);
        };
        match read(value) {
            Ok(value) => Ok(Some(Placed { value, line })),
            Err(what) => Err(self.source.fault(line, format!("'{key}' {what}"))),
        }
    }

    pub(crate) fn text(&self, key: &'static str) -> Result<Option<Placed<&'a str>>, ScenarioError> {
        self.value(key, text)
    }

    pub(crate) fn duration(&self, key: &'static str) -> Result<Option<Duration>, ScenarioError> {
        let read =
            |value| parse_duration(text(value)?).map_err(|error| format!("is no time: {error}"));
        Ok(self.value(key, read)?.map(|placed| placed.value))
    }

    pub(crate) fn size(&self, key: &'static str) -> Result<Option<Placed<u64>>, ScenarioError> {
        self.value(key, |value| {
            parse_size(text(value)?).map_err(|error| format!("is no size: {error}"))
        })
    }

    pub(crate) fn rate(&self, key: &'static str) -> Result<Option<Placed<u64>>, ScenarioError> {
        self.value(key, |value| {
            parse_rate(text(value)?).map_err(|error| format!("is no rate: {error}"))
        })
    }

    pub(crate) fn integer(&self, key: &'static str) -> Result<Option<Placed<i64>>, ScenarioError> {
        self.value(key, |value| match value {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_err(|error| format!("is no number: {error}")),
            _ => Err("is a whole number".to_owned()),
        })
    }

    /// A number that is not negative.
    pub(crate) fn count(&self, key: &'static str) -> Result<Option<Placed<u64>>, ScenarioError> {
        let Some(Placed { value, line }) = self.integer(key)? else {
            return Ok(None);
        };
        let value = u64::try_from(value).map_err(|_| {
            self.source
                .fault(line, format!("'{key}' is less than nothing"))
        })?;
        Ok(Some(Placed { value, line }))
    }

    pub(crate) fn boolean(&self, key: &'static str) -> Result<Option<bool>, ScenarioError> {
        let read = |value: &'a DeValue<'a>| match value {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err("is true or false".to_owned()),
        };
        Ok(self.value(key, read)?.map(|placed| placed.value))
    }

    /// A part of a whole, 0 to 1, in billionths.
    pub(crate) fn part(&self, key: &'static str) -> Result<Option<u32>, ScenarioError> {
        let read = |value: &'a DeValue<'a>| {
            let number = match value {
                DeValue::Float(number) => number.as_str(),
                DeValue::Integer(number) => number.as_str(),
                _ => return Err("is a number from 0 to 1".to_owned()),
            };
            billionths(number).ok_or_else(|| "is a number from 0 to 1, to a billionth".to_owned())
        };
        Ok(self.value(key, read)?.map(|placed| placed.value))
    }

    pub(crate) fn texts(
        &self,
        key: &'static str,
    ) -> Result<Option<Placed<Vec<&'a str>>>, ScenarioError> {
        self.value(key, |value| match value {
            DeValue::Array(values) => values.iter().map(|value| text(value.get_ref())).collect(),
            _ => Err("is a list of texts".to_owned()),
        })
    }

    /// One of some words.
    pub(crate) fn word<T: Copy>(
        &self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Result<Option<T>, ScenarioError> {
        let Some(Placed { value, line }) = self.text(key)? else {
            return Ok(None);
        };
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == value) {
            return Ok(Some(*meaning));
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let what = format!("'{key}' is one of {}, not '{value}'", names.join(", "));
        Err(self.source.fault(line, what))
    }

    /// The tables of a list of tables.
    pub(crate) fn sections(
        &self,
        key: &'static str,
        title: &'static str,
    ) -> Result<Vec<Self>, ScenarioError> {
        let Some((line, value)) = self.find(key) else {
            return Ok(Vec::new());
        };
        let wrong = |line| {
            let hint = format!("write {title} on a line by itself, its keys below");
            self.source
                .fault(line, format!("'{key}' is a list of sections"))
                .with_hint(hint)
        };
        let DeValue::Array(values) = value else {
            return Err(wrong(line));
        };
        let mut sections = Vec::with_capacity(values.len());
        for element in values.iter() {
            let line = self.source.line_at(Spanned::span(element).start);
            let DeValue::Table(table) = element.get_ref() else {
                return Err(wrong(line));
            };
            sections.push(Self::new(self.source, title, line, table));
        }
        Ok(sections)
    }

    /// A table that is there once at most.
    pub(crate) fn section(
        &self,
        key: &'static str,
        title: &'static str,
    ) -> Result<Option<Self>, ScenarioError> {
        let Some((line, value)) = self.find(key) else {
            return Ok(None);
        };
        let DeValue::Table(table) = value else {
            return Err(self.source.fault(line, format!("'{key}' is a section")));
        };
        Ok(Some(Self::new(self.source, title, line, table)))
    }

    /// What must be there.
    pub(crate) fn required<T>(
        &self,
        key: &'static str,
        value: Option<T>,
    ) -> Result<T, ScenarioError> {
        value.ok_or_else(|| {
            let place = if self.title.is_empty() {
                "the file"
            } else {
                self.title
            };
            self.source
                .fault(self.line, format!("{place} lacks '{key}'"))
        })
    }

    pub(crate) fn fault(&self, line: usize, what: impl Into<String>) -> ScenarioError {
        self.source.fault(line, what)
    }

    /// Refuses a key that nobody asked for; to be called when all were asked for.
    pub(crate) fn finish(&self) -> Result<(), ScenarioError> {
        let known = self.known.borrow();
        for (name, _) in self.table {
            let key = name.get_ref().as_ref();
            if known.contains(key) {
                continue;
            }
            let line = self.source.line_at(name.span().start);
            let place = if self.title.is_empty() {
                "a scenario"
            } else {
                self.title
            };
            let error = self
                .source
                .fault(line, format!("{place} has no key '{key}'"));
            let hint = match nearest(key, known.iter().copied()) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => {
                    let names: Vec<&str> = known.iter().copied().collect();
                    format!("there are {}", names.join(", "))
                }
            };
            return Err(error.with_hint(hint));
        }
        Ok(())
    }
}

fn text<'a>(value: &'a DeValue<'a>) -> Result<&'a str, String> {
    match value {
        DeValue::String(text) => Ok(text),
        DeValue::Integer(_) | DeValue::Float(_) => {
            Err("is a text: a number with its unit, in quotes".to_owned())
        }
        _ => Err("is a text".to_owned()),
    }
}

/// `0.25` in billionths; `None` for what is no such part.
fn billionths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let zeros = 9_usize.checked_sub(fraction.len())?;
    let digits = format!("{fraction}{}", "0".repeat(zeros));
    let parts = digits.parse::<u32>().ok()?;
    let total = whole
        .parse::<u32>()
        .ok()?
        .checked_mul(BILLION)?
        .checked_add(parts)?;
    (total <= BILLION).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_whole_are_exact() {
        for (text, parts) in [
            ("0", Some(0)),
            ("1", Some(BILLION)),
            ("0.25", Some(250_000_000)),
            ("0.000000001", Some(1)),
            ("0.0000000001", None),
            ("1.5", None),
            ("-0.5", None),
            ("1e-3", None),
        ] {
            assert_eq!(billionths(text), parts, "{text}");
        }
    }
}
