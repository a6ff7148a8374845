//! The table of a stream: its own name, or that with a number if the name is taken by another schema.

use std::collections::BTreeMap;

use super::database::{Database, DatabaseError};
use crate::schema::{METADATA_NAME, NAME_OCTETS_MAX, Schema};

/// Tables of one name with different schemas: NAME, NAME_2, … NAME_10, as OML has them.
const VARIANTS_MAX: u32 = 10;

/// Tables of a database that a collector makes: a hostile client could ask for a new one in every line.
const TABLES_MAX: usize = 4096;

/// The beginnings of names that are not for streams.
const RESERVED: [&str; 3] = ["sqlite_", "pg_", "_senders"];
/// Names that are not for streams.
const RESERVED_WHOLE: [&str; 4] = [
    "_dhow_loss",
    "_dhow_numbers",
    "_dhow_parcels",
    "_dhow_senders",
];

/// The tables of one database.
#[derive(Debug, Default)]
pub struct Tables {
    /// The tables by name in small letters, since databases make no difference.
    known: BTreeMap<String, (String, Option<Schema>)>,
}

impl Tables {
    /// The tables that a database has.
    pub fn of(database: &mut dyn Database) -> Result<Self, DatabaseError> {
        let known = database.tables()?.into_iter();
        let known = known.map(|(name, schema)| (name.to_ascii_lowercase(), (name, schema)));
        Ok(Self {
            known: known.collect(),
        })
    }

    /// The table for a stream, which is made where it is not there; `None` where none can be.
    pub fn for_stream(
        &mut self,
        database: &mut dyn Database,
        index: u8,
        schema: &Schema,
    ) -> Result<Option<String>, DatabaseError> {
        if *schema == Schema::metadata() {
            return Ok(Some(METADATA_NAME.to_owned()));
        }
        let lower = schema.name().to_ascii_lowercase();
        let is_reserved = RESERVED.iter().any(|start| lower.starts_with(start))
            || RESERVED_WHOLE.contains(&lower.as_str());
        if is_reserved {
            return Ok(None);
        }
        for variant in 1..=VARIANTS_MAX {
            let name = match variant {
                1 => schema.name().to_owned(),
                number => format!("{}_{number}", schema.name()),
            };
            let key = name.to_ascii_lowercase();
            match self.known.get(&key) {
                Some((name, Some(known))) if known.fields() == schema.fields() => {
                    return Ok(Some(name.clone()));
                }
                Some(_) => {}
                None if name.len() > NAME_OCTETS_MAX || self.known.len() >= TABLES_MAX => {
                    return Ok(None);
                }
                None => {
                    database.create(&name, index, schema)?;
                    self.known.insert(key, (name.clone(), Some(schema.clone())));
                    return Ok(Some(name));
                }
            }
        }
        Ok(None)
    }
}
