//! The content of sections with keys of any name: paths with dots, and texts.

use toml::de::{DeTable, DeValue};

/// A key of any name, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loose {
    /// The key; one of a table within has that table's name and a dot before its own.
    pub path: String,
    /// The value as `--set` takes it, or each of a list.
    pub values: Vec<String>,
    /// Whether it is a list.
    pub is_list: bool,
    /// The line.
    pub line: usize,
}

impl Loose {
    /// The whole value as `--set` takes it: a list in brackets.
    #[must_use]
    pub fn text(&self) -> String {
        if !self.is_list {
            return self.values.concat();
        }
        let quoted = self.values.iter().map(|value| format!("{value:?}"));
        format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
    }
}

/// All keys of a table and of those in it, in the order of the file; of two of a path the later one.
pub(crate) fn flatten(
    table: &DeTable<'_>,
    line_at: &dyn Fn(usize) -> usize,
) -> Result<Vec<Loose>, (usize, String)> {
    let mut found = Vec::new();
    gather("", table, line_at, &mut found)?;
    found.sort_by_key(|entry: &Loose| entry.line);
    let mut kept: Vec<Loose> = Vec::new();
    for entry in found {
        kept.retain(|earlier| earlier.path != entry.path);
        kept.push(entry);
    }
    Ok(kept)
}

fn gather(
    prefix: &str,
    table: &DeTable<'_>,
    line_at: &dyn Fn(usize) -> usize,
    found: &mut Vec<Loose>,
) -> Result<(), (usize, String)> {
    for (key, value) in table.iter() {
        let path = format!("{prefix}{}", key.get_ref());
        let line = line_at(key.span().start);
        let wrong = || (line, format!("'{path}' is a value, or a list of values"));
        let (values, is_list) = match value.get_ref() {
            DeValue::Table(inner) => {
                gather(&format!("{path}."), inner, line_at, found)?;
                continue;
            }
            DeValue::Array(list) => {
                let texts = list.iter().map(|each| plain(each.get_ref()));
                let texts: Option<Vec<String>> = texts.collect();
                (texts.ok_or_else(wrong)?, true)
            }
            one => (vec![plain(one).ok_or_else(wrong)?], false),
        };
        found.push(Loose {
            path,
            values,
            is_list,
            line,
        });
    }
    Ok(())
}

/// A value that is no table and no list, as text.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}
