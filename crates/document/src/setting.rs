//! Values set from outside a file, over those that it has: `traffic.size=2kB`.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::document::Document;
use crate::fault::{FileError, nearest, there_are};
use crate::schema::{Key, Kind, Occurs, Section};

/// The name of a section, where it has one.
pub type Naming = fn(&DeTable<'_>) -> Option<String>;

impl Document<'_> {
    /// Sets a value in a table of a whole file; the value set stands at an offset behind the text.
    pub(crate) fn set<'t>(
        &self,
        top: &mut DeTable<'t>,
        setting: &'t str,
        offset: usize,
        naming: Naming,
    ) -> Result<(), FileError> {
        let line = self.line_at(offset);
        let Some((path, value)) = setting.split_once('=') else {
            let hint = "for example: --set traffic.size=2kB";
            return Err(self.fault(line, "this sets nothing").with_hint(hint));
        };
        let (path, value) = (path.trim(), value.trim());
        let Some((name, rest)) = path.split_once('.') else {
            let Some(section) = self.section("") else {
                return Err(self.fault(line, "there are no keys before the first section"));
            };
            let key = self.key(section, path, line)?;
            insert(top, key, value, offset);
            return Ok(());
        };
        let section = self.section(name).filter(|it| it.occurs != Occurs::Top);
        let Some(section) = section else {
            let error = self.fault(line, format!("there is no section '{name}'"));
            let names = self.schema().iter().map(|section| section.name);
            return Err(match nearest(name, names) {
                Some(meant) => error.with_hint(format!("did you mean '{meant}'?")),
                None => error,
            });
        };
        if section.occurs == Occurs::Loose {
            if top.get(name).is_none() {
                let table = DeValue::Table(DeTable::new());
                top.insert(at(offset, section.name.into()), at(offset, table));
            }
            if let Some(DeValue::Table(table)) = top.get_mut(name).map(Spanned::get_mut) {
                let value = DeValue::parse(value).map(Spanned::into_inner);
                let value = value.unwrap_or(DeValue::String(Cow::Borrowed(text_of(setting))));
                table.remove(rest);
                table.insert(at(offset, rest.into()), at(offset, value));
            }
            return Ok(());
        }
        let (which, key) = match rest.rsplit_once('.') {
            Some((which, key)) => (Some(which), key),
            None => (None, rest),
        };
        let key = self.key(section, key, line)?;
        if section.occurs == Occurs::Once {
            if let Some(which) = which {
                let what = format!("there is one [{name}] at most, and no '{which}' of it");
                return Err(self.fault(line, what));
            }
            if top.get(name).is_none() {
                let table = DeValue::Table(DeTable::new());
                top.insert(at(offset, section.name.into()), at(offset, table));
            }
            if let Some(DeValue::Table(table)) = top.get_mut(name).map(Spanned::get_mut) {
                insert(table, key, value, offset);
            }
            return Ok(());
        }
        let entries = match top.get_mut(name).map(Spanned::get_mut) {
            Some(DeValue::Array(entries)) => entries,
            // A value that is no list of sections is refused when it is read.
            Some(_) => return Ok(()),
            None => {
                let what = format!("the file has no {}", section.title());
                return Err(self.fault(line, what));
            }
        };
        let chosen = match which {
            None => 0..entries.len(),
            Some(which) => {
                let place = find(entries, which, naming).map_err(|hint| {
                    let what = format!("there is no {} '{which}'", section.title());
                    self.fault(line, what).with_hint(hint)
                })?;
                place..place + 1
            }
        };
        for entry in entries.get_mut(chosen).into_iter().flatten() {
            if let DeValue::Table(table) = entry.get_mut() {
                insert(table, key, value, offset);
            }
        }
        Ok(())
    }

    fn key(
        &self,
        section: &'static Section,
        name: &str,
        line: usize,
    ) -> Result<&'static Key, FileError> {
        let key = section.keys().find(|key| key.name == name);
        key.ok_or_else(|| self.unknown_key(section, name, line))
    }
}

/// The position of a section, by that position or its name; else the positions and names that there are.
fn find(entries: &DeArray<'_>, which: &str, naming: Naming) -> Result<usize, String> {
    let names: Vec<String> = entries
        .iter()
        .map(|entry| {
            entry
                .get_ref()
                .as_table()
                .and_then(naming)
                .unwrap_or_default()
        })
        .collect();
    let is_meant = |name: &String| !which.is_empty() && name == which;
    if let Some(place) = names.iter().position(is_meant) {
        return Ok(place);
    }
    if let Some(place) = which
        .parse::<usize>()
        .ok()
        .filter(|place| *place < entries.len())
    {
        return Ok(place);
    }
    if let Some(meant) = nearest(which, names.iter().map(String::as_str)) {
        return Err(format!("did you mean '{meant}'?"));
    }
    // One without a name is called by its position.
    let called = names
        .iter()
        .enumerate()
        .map(|(place, name)| match name.is_empty() {
            true => place.to_string(),
            false => name.clone(),
        });
    Err(there_are(called))
}

fn insert<'t>(table: &mut DeTable<'t>, key: &'static Key, value: &'t str, offset: usize) {
    // The value that stood there goes with its place.
    table.remove(key.name);
    table.insert(at(offset, key.name.into()), at(offset, typed(key, value)));
}

/// The value of a setting, as it was written.
fn text_of(setting: &str) -> &str {
    setting
        .split_once('=')
        .map_or("", |(_, value)| value.trim())
}

fn at<T>(offset: usize, value: T) -> Spanned<T> {
    Spanned::new(offset..offset, value)
}

/// A value as TOML where it is some of the key's kind; else as text.
fn typed<'t>(key: &Key, value: &'t str) -> DeValue<'t> {
    let takes_numbers = matches!(
        key.kind,
        Kind::Integer(..) | Kind::Part | Kind::Boolean | Kind::Size | Kind::Sizes
    );
    match DeValue::parse(value).map(Spanned::into_inner) {
        Ok(value @ (DeValue::String(_) | DeValue::Array(_))) => value,
        Ok(value) if takes_numbers => value,
        _ => DeValue::String(Cow::Borrowed(value)),
    }
}

#[cfg(test)]
mod tests;
