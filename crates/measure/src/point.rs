//! A measurement point: the values that a program can measure at one place, declared once.

use std::fmt::Write as _;

use crate::schema::{Field, Schema, SchemaError, Type};

/// A measurement point; usually a `static`.
///
/// ```
/// use dhow_measure::{Column, Point, Type};
///
/// static UDP_OUT: Point = Point {
///     name: "udp_out",
///     about: "a datagram was sent",
///     columns: &[
///         Column::new("seq_no", Type::Uint32, "", "its number, from 1"),
///         Column::new("size", Type::Uint32, "B", "octets of its payload"),
///     ],
/// };
/// assert_eq!(UDP_OUT.schema("otg2").unwrap().to_string(), "otg2_udp_out seq_no:uint32 size:uint32");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Its name within the application: `udp_out`.
    pub name: &'static str,
    /// One sentence: what happened when a row is written.
    pub about: &'static str,
    /// The fields of a row.
    pub columns: &'static [Column],
}

/// One field of a point.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name: letters, digits and `_`.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Type,
    /// Its unit, as a database keeps it: `s`, `B`, `B/s`; empty for none.
    pub unit: &'static str,
    /// The meaning of its values, in a few words.
    pub about: &'static str,
}

impl Column {
    /// A field; the unit is empty for none.
    pub const fn new(
        name: &'static str,
        kind: Type,
        unit: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            unit,
            about,
        }
    }
}

impl Point {
    /// The point's stream, unfiltered, for an application: `APP_POINT FIELD:TYPE …`.
    ///
    /// # Errors
    /// A name of the declaration is none.
    pub fn schema(&self, app: &str) -> Result<Schema, SchemaError> {
        let fields = self.columns.iter().map(|column| Field {
            name: column.name.to_owned(),
            kind: column.kind,
        });
        Schema::new(&format!("{app}_{}", self.name), fields.collect())
    }

    /// The declaration for people, a line a field.
    pub fn describe(&self) -> String {
        let mut text = format!("{}: {}\n", self.name, self.about);
        for column in self.columns {
            let unit = match column.unit {
                "" => String::new(),
                unit => format!(", {unit}"),
            };
            let _ = writeln!(
                text,
                "  {} ({}{unit}): {}",
                column.name, column.kind, column.about
            );
        }
        text
    }
}
