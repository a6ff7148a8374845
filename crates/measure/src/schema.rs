//! The schema of a stream of measurements: a name and typed fields, as OMSP's schema lines write them.

use std::fmt;
use std::str::FromStr;

/// Octets of a name: what PostgreSQL keeps of one.
pub const NAME_OCTETS_MAX: usize = 63;

/// Fields of a stream.
pub const FIELDS_MAX: usize = 128;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A signed integer of 32 bits.
    Int32,
    /// An unsigned integer of 32 bits.
    Uint32,
    /// A signed integer of 64 bits.
    Int64,
    /// An unsigned integer of 64 bits.
    Uint64,
    /// A number of IEEE 754, 64 bits.
    Double,
    /// Text in UTF-8.
    Text,
    /// Octets.
    Blob,
    /// A name of 64 bits; 0 is none.
    Guid,
    /// True or false.
    Bool,
    /// A vector of numbers or booleans.
    Vector(Element),
}

/// The type of a vector's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// Signed integers of 32 bits.
    Int32,
    /// Unsigned integers of 32 bits.
    Uint32,
    /// Signed integers of 64 bits.
    Int64,
    /// Unsigned integers of 64 bits.
    Uint64,
    /// Numbers of IEEE 754, 64 bits.
    Double,
    /// Booleans.
    Bool,
}

impl Type {
    /// The type's name in OMSP.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Double => "double",
            Self::Text => "string",
            Self::Blob => "blob",
            Self::Guid => "guid",
            Self::Bool => "bool",
            Self::Vector(Element::Int32) => "[int32]",
            Self::Vector(Element::Uint32) => "[uint32]",
            Self::Vector(Element::Int64) => "[int64]",
            Self::Vector(Element::Uint64) => "[uint64]",
            Self::Vector(Element::Double) => "[double]",
            Self::Vector(Element::Bool) => "[bool]",
        }
    }

    /// True for what can be added and averaged.
    pub const fn is_numeric(self) -> bool {
        matches!(
            self,
            Self::Int32 | Self::Uint32 | Self::Int64 | Self::Uint64 | Self::Double
        )
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Type {
    type Err = SchemaError;

    /// Reads a type, also by the names that it had in earlier versions.
    fn from_str(text: &str) -> Result<Self, SchemaError> {
        Ok(match text {
            "int32" | "int" | "integer" | "long" => Self::Int32,
            "uint32" => Self::Uint32,
            "int64" => Self::Int64,
            "uint64" => Self::Uint64,
            "double" | "float" | "real" => Self::Double,
            "string" => Self::Text,
            "blob" => Self::Blob,
            "guid" => Self::Guid,
            "bool" => Self::Bool,
            "[int32]" => Self::Vector(Element::Int32),
            "[uint32]" => Self::Vector(Element::Uint32),
            "[int64]" => Self::Vector(Element::Int64),
            "[uint64]" => Self::Vector(Element::Uint64),
            "[double]" => Self::Vector(Element::Double),
            "[bool]" => Self::Vector(Element::Bool),
            other => return Err(SchemaError::UnknownType(shortened(other))),
        })
    }
}

/// A field of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name: `[A-Za-z_][A-Za-z0-9_]*`, at most [`NAME_OCTETS_MAX`] octets.
    pub name: String,
    /// The type of its values.
    pub kind: Type,
}

/// A stream's name and fields; every name in it is one that a database takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schema {
    name: String,
    fields: Vec<Field>,
}

/// Columns that every table has beside a stream's fields: those of the layout, and PostgreSQL's own.
const RESERVED_FIELDS: [&str; 11] = [
    "oml_tuple_id",
    "oml_sender_id",
    "oml_seq",
    "oml_ts_client",
    "oml_ts_server",
    "tableoid",
    "xmin",
    "cmin",
    "xmax",
    "cmax",
    "ctid",
];

impl Schema {
    /// A stream of that name with those fields.
    ///
    /// # Errors
    /// A name that is none, too many fields, or two fields of one name (capitals make no difference in a database).
    pub fn new(name: &str, fields: Vec<Field>) -> Result<Self, SchemaError> {
        check_name(name)?;
        if fields.len() > FIELDS_MAX {
            return Err(SchemaError::TooManyFields(fields.len()));
        }
        let mut seen: Vec<String> = RESERVED_FIELDS.map(str::to_owned).to_vec();
        for field in &fields {
            check_name(&field.name)?;
            let lower = field.name.to_ascii_lowercase();
            if seen.contains(&lower) {
                return Err(SchemaError::FieldTwice(field.name.clone()));
            }
            seen.push(lower);
        }
        Ok(Self {
            name: name.to_owned(),
            fields,
        })
    }

    /// The schema of the stream 0: facts about the experiment, its streams and fields.
    pub fn metadata() -> Self {
        Self {
            name: METADATA_NAME.to_owned(),
            fields: ["subject", "key", "value"]
                .map(|name| Field {
                    name: name.to_owned(),
                    kind: Type::Text,
                })
                .to_vec(),
        }
    }

    /// The stream's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its fields in their order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Memory that it takes, octets.
    pub(crate) fn octets(&self) -> usize {
        let fields = self.fields.iter();
        let fields = fields.map(|field| size_of::<Field>() + field.name.len());
        self.name.len() + fields.sum::<usize>()
    }

    /// Reads `NAME FIELD:TYPE …`, what follows the index in a schema line.
    ///
    /// # Errors
    /// As [`Schema::new`], and for a field without a type or with an unknown one.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        let mut words = text.split_ascii_whitespace();
        let name = words.next().ok_or(SchemaError::Empty)?;
        let mut fields = Vec::new();
        for word in words {
            if fields.len() == FIELDS_MAX {
                return Err(SchemaError::TooManyFields(fields.len() + 1));
            }
            let (name, kind) = word
                .split_once(':')
                .ok_or_else(|| SchemaError::NoType(shortened(word)))?;
            fields.push(Field {
                name: name.to_owned(),
                kind: kind.parse()?,
            });
        }
        Self::new(name, fields)
    }

    /// The same stream under another name.
    ///
    /// # Errors
    /// The name is none.
    pub fn renamed(&self, name: &str) -> Result<Self, SchemaError> {
        check_name(name)?;
        Ok(Self {
            name: name.to_owned(),
            fields: self.fields.clone(),
        })
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for field in &self.fields {
            write!(f, " {}:{}", field.name, field.kind)?;
        }
        Ok(())
    }
}

/// The name of the stream 0.
pub const METADATA_NAME: &str = "_experiment_metadata";

fn check_name(name: &str) -> Result<(), SchemaError> {
    if name.len() > NAME_OCTETS_MAX {
        return Err(SchemaError::LongName(shortened(name)));
    }
    let is_name = name.bytes().enumerate().all(|(place, c)| {
        c == b'_' || c.is_ascii_alphabetic() || (place > 0 && c.is_ascii_digit())
    });
    if name.is_empty() || !is_name {
        return Err(SchemaError::BadName(shortened(name)));
    }
    Ok(())
}

/// As much of a text from outside as fits into a message.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN_MAX: usize = 40;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Why a text is no schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Nothing is there.
    #[error("it is empty")]
    Empty,
    /// Not a name.
    #[error("'{0}' is not a name (letters, digits and _, no digit first)")]
    BadName(String),
    /// A name that a database would cut.
    #[error("the name '{0}' is longer than {NAME_OCTETS_MAX} octets")]
    LongName(String),
    /// A field without a type.
    #[error("the field '{0}' has no type (FIELD:TYPE)")]
    NoType(String),
    /// A type that there is not.
    #[error("the type '{0}' is unknown")]
    UnknownType(String),
    /// A field that is there already.
    #[error("there is a field '{0}' already")]
    FieldTwice(String),
    /// More fields than a stream may have.
    #[error("{0} fields are more than {FIELDS_MAX}")]
    TooManyFields(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_read_as_it_is_written() {
        let text = "otg2_udp_out ts:double flow_id:guid seq_no:uint32 dst_host:string v:[double]";
        assert_eq!(Schema::parse(text).unwrap().to_string(), text);
        let old = Schema::parse("s a:long b:float c:int").unwrap();
        assert_eq!(old.to_string(), "s a:int32 b:double c:int32");
    }

    #[test]
    fn names_that_no_database_takes_are_refused() {
        for text in [
            "",
            "a-b x:int32",
            "1a x:int32",
            "a 1:int32",
            "a x:int33",
            "a x",
            "a x:int32 X:int32",
            "a oml_seq:int32",
            "a Xmin:int32",
            "a \"x:int32",
            &format!("{} x:int32", "n".repeat(NAME_OCTETS_MAX + 1)),
        ] {
            assert!(Schema::parse(text).is_err(), "{text}");
        }
        let many: String = (0..=FIELDS_MAX).map(|n| format!(" f{n}:bool")).collect();
        assert_eq!(
            Schema::parse(&format!("a{many}")),
            Err(SchemaError::TooManyFields(FIELDS_MAX + 1))
        );
    }
}
