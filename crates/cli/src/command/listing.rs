//! Lists that a node tells of itself: JSON as it came, or a table of some of its fields.

use std::time::Duration;

use dhow_bundle::DtnTime;
use serde_json::Value;

use crate::admin::Admin;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};
use crate::table::{Align, Table};
use crate::{calendar, quantity};

/// The form in which a field is shown.
#[derive(Clone, Copy, Debug)]
pub enum Show {
    /// Text or number as it is; `-` when absent.
    Plain,
    /// A number with its thousands apart.
    Count,
    /// Octets.
    Size,
    /// Octets a second, in bits.
    Rate,
    /// Milliseconds.
    Span,
    /// Milliseconds since something.
    Ago,
    /// DTN milliseconds.
    Time,
    /// A name of a program's, such as `in_flight`, as words.
    Word,
    /// Text; the column is left out when no entry has it.
    IfAny,
    /// The first word when true, the second when false.
    Either(&'static str, &'static str),
}

/// A column: its heading, the field's name and how it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Column(pub &'static str, pub &'static str, pub Show);

/// The request for a list, and its table.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// The resource that lists.
    pub path: &'static str,
    /// The columns for people.
    pub columns: &'static [Column],
    /// The line in place of an empty table.
    pub none: &'static str,
}

impl Listing {
    /// Asks for the list and prints it.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let answer = Admin::of(common.node.as_ref())?.read(self.path)?;
        match common.form() {
            Form::Json => output::json(&answer)?,
            Form::Text => self.print(&answer)?,
        }
        Ok(Ending::Done)
    }

    /// Prints a list as a table.
    pub fn print(&self, list: &Value) -> Result<(), Failure> {
        let table = self.table(list);
        if table.is_empty() {
            output::talk(self.none);
            return Ok(());
        }
        output::text(&table.render(0))
    }

    fn table(&self, list: &Value) -> Table<'static> {
        let entries = list.as_array().map_or(&[][..], Vec::as_slice);
        let shown: Vec<&Column> = self
            .columns
            .iter()
            .filter(|Column(_, field, show)| {
                !matches!(show, Show::IfAny)
                    || entries
                        .iter()
                        .any(|entry| entry.get(*field).is_some_and(|value| !value.is_null()))
            })
            .collect();
        let columns: Vec<(&'static str, Align)> = shown
            .iter()
            .map(|Column(heading, _, show)| (*heading, show.align()))
            .collect();
        let mut table = Table::new(&columns);
        for entry in entries {
            table.push(
                shown
                    .iter()
                    .map(|Column(_, field, show)| {
                        show.text(entry.get(*field).unwrap_or(&Value::Null))
                    })
                    .collect(),
            );
        }
        table
    }
}

impl Show {
    const fn align(self) -> Align {
        match self {
            Self::Plain | Self::Word | Self::IfAny | Self::Time | Self::Either(..) => Align::Left,
            Self::Count | Self::Size | Self::Rate | Self::Span | Self::Ago => Align::Right,
        }
    }

    /// A field's value as people read it.
    pub fn text(self, value: &Value) -> String {
        match (self, value) {
            (_, Value::Null) => "-".to_owned(),
            (Self::Plain | Self::Count, Value::String(text)) if text.is_empty() => "-".to_owned(),
            (_, Value::Array(items)) if items.is_empty() => "-".to_owned(),
            (Self::Either(yes, _), Value::Bool(true)) => yes.to_owned(),
            (Self::Either(_, no), Value::Bool(false)) => no.to_owned(),
            (Self::Count, Value::Number(number)) => number
                .as_u64()
                .map_or_else(|| number.to_string(), quantity::thousands),
            (Self::Size, Value::Number(number)) => number
                .as_u64()
                .map_or_else(|| number.to_string(), quantity::size),
            (Self::Rate, Value::Number(number)) => number.as_u64().map_or_else(
                || number.to_string(),
                |octets| quantity::bit_rate(octets, Duration::from_secs(1)),
            ),
            (Self::Span, Value::Number(number)) => number
                .as_u64()
                .map_or_else(|| number.to_string(), quantity::span),
            (Self::Ago, Value::Number(number)) => number.as_u64().map_or_else(
                || number.to_string(),
                |ms| format!("{} ago", quantity::span(ms)),
            ),
            (Self::Time, Value::Number(number)) => number.as_u64().map_or_else(
                || number.to_string(),
                |ms| calendar::utc(DtnTime::from_millis(ms)),
            ),
            (Self::Word, Value::String(text)) => text.replace('_', " "),
            (_, Value::String(text)) => text.clone(),
            (_, Value::Array(items)) => items
                .iter()
                .map(|item| Self::Plain.text(item))
                .collect::<Vec<_>>()
                .join(", "),
            (_, other) => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_shown_by_their_kind_and_absent_ones_as_a_dash() {
        let listing = Listing {
            path: "/",
            columns: &[
                Column("NAME", "name", Show::Plain),
                Column("OCTETS", "octets", Show::Size),
                Column("USE", "usable", Show::Either("usable", "waiting")),
            ],
            none: "nothing",
        };
        let list = serde_json::json!([{"name": "gamma", "octets": 1500, "usable": true}, {"name": null, "octets": 7}]);
        assert_eq!(
            listing.table(&list).render(0),
            "NAME   OCTETS  USE\ngamma  1.5 kB  usable\n-         7 B  -\n"
        );
    }

    #[test]
    fn a_column_that_no_entry_has_is_left_out() {
        let listing = Listing {
            path: "/",
            columns: &[
                Column("LINK", "name", Show::Plain),
                Column("LAST ERROR", "last_error", Show::IfAny),
            ],
            none: "nothing",
        };
        let without = serde_json::json!([{"name": "gamma"}, {"name": "delta", "last_error": null}]);
        assert_eq!(listing.table(&without).render(0), "LINK\ngamma\ndelta\n");
        let with = serde_json::json!([{"name": "gamma"}, {"name": "delta", "last_error": "connection refused"}]);
        assert_eq!(
            listing.table(&with).render(0),
            "LINK   LAST ERROR\ngamma  -\ndelta  connection refused\n"
        );
    }
}
