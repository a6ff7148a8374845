//! One measured value, lent by its owner.

use crate::schema::{Element, Type};

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A signed integer of 32 bits.
    Int32(i32),
    /// An unsigned integer of 32 bits.
    Uint32(u32),
    /// A signed integer of 64 bits.
    Int64(i64),
    /// An unsigned integer of 64 bits.
    Uint64(u64),
    /// A number; NaN becomes NULL in a database.
    Double(f64),
    /// Text.
    Text(&'a str),
    /// Octets.
    Blob(&'a [u8]),
    /// A name of 64 bits; 0 is none, NULL in a database.
    Guid(u64),
    /// True or false.
    Bool(bool),
    /// A vector.
    Vector(Vector<'a>),
}

/// The elements of a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vector<'a> {
    /// Signed integers of 32 bits.
    Int32(&'a [i32]),
    /// Unsigned integers of 32 bits.
    Uint32(&'a [u32]),
    /// Signed integers of 64 bits.
    Int64(&'a [i64]),
    /// Unsigned integers of 64 bits.
    Uint64(&'a [u64]),
    /// Numbers.
    Double(&'a [f64]),
    /// Booleans.
    Bool(&'a [bool]),
}

impl Value<'_> {
    /// The value's type.
    pub const fn kind(&self) -> Type {
        match self {
            Self::Int32(_) => Type::Int32,
            Self::Uint32(_) => Type::Uint32,
            Self::Int64(_) => Type::Int64,
            Self::Uint64(_) => Type::Uint64,
            Self::Double(_) => Type::Double,
            Self::Text(_) => Type::Text,
            Self::Blob(_) => Type::Blob,
            Self::Guid(_) => Type::Guid,
            Self::Bool(_) => Type::Bool,
            Self::Vector(vector) => Type::Vector(vector.element()),
        }
    }

    /// The value as a number; `None` for what has none.
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "filters calculate in doubles, as their columns are declared"
    )]
    pub const fn as_f64(&self) -> Option<f64> {
        Some(match self {
            Self::Int32(n) => *n as f64,
            Self::Uint32(n) => *n as f64,
            Self::Int64(n) => *n as f64,
            Self::Uint64(n) => *n as f64,
            Self::Double(n) => *n,
            _ => return None,
        })
    }
}

impl Vector<'_> {
    /// The type of its elements.
    pub const fn element(&self) -> Element {
        match self {
            Self::Int32(_) => Element::Int32,
            Self::Uint32(_) => Element::Uint32,
            Self::Int64(_) => Element::Int64,
            Self::Uint64(_) => Element::Uint64,
            Self::Double(_) => Element::Double,
            Self::Bool(_) => Element::Bool,
        }
    }

    /// The number of elements.
    pub const fn len(&self) -> usize {
        match self {
            Self::Int32(all) => all.len(),
            Self::Uint32(all) => all.len(),
            Self::Int64(all) => all.len(),
            Self::Uint64(all) => all.len(),
            Self::Double(all) => all.len(),
            Self::Bool(all) => all.len(),
        }
    }

    /// True where there is none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

macro_rules! from {
    ($($kind:ty => $variant:ident),*) => {$(
        impl<'a> From<$kind> for Value<'a> {
            fn from(value: $kind) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

from!(i32 => Int32, u32 => Uint32, i64 => Int64, u64 => Uint64, f64 => Double, &'a str => Text, &'a [u8] => Blob, bool => Bool);
