//! Values as CBOR items: a structure is an array of its fields, a choice an array of its code and its fields.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use dhow_bundle::cbor::{
    CborError, Kind, Reader, write_array, write_boolean, write_byte_string, write_text,
    write_unsigned,
};
use dhow_bundle::eid::EidError;
use dhow_bundle::eid::EidRefusal;

use crate::contacts::ContactError;

/// Octets of a text, at most: more than any name, pattern or reason has.
const TEXT_OCTETS_MAX: u64 = 1 << 20;

/// Octets of an event of which some are left out, at most: more than a driver reads at once.
const OCTETS_MAX: usize = 256 << 20;

/// Why octets are not what a recording is made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// The CBOR is not well-formed, or another item is required.
    #[error(transparent)]
    Cbor(#[from] CborError),
    /// No endpoint ID.
    #[error(transparent)]
    Endpoint(#[from] EidRefusal),
    /// An endpoint ID where a node's is required.
    #[error("no node ID: {0}")]
    Node(#[from] EidError),
    /// A number that is too large for its place.
    #[error("the number {0} is too large for its place")]
    Number(u64),
    /// A choice that this program does not know.
    #[error("{of} has no choice {code}")]
    Choice {
        /// The kind of the item.
        of: &'static str,
        /// The code that was found.
        code: u64,
    },
    /// Contacts that no table has.
    #[error("no contact table: {0}")]
    Contact(#[from] ContactError),
    /// An event with more octets than any has.
    #[error("an event with more than {OCTETS_MAX} octets")]
    TooManyOctets,
    /// Octets that are no address with its port.
    #[error("no address with a port")]
    Address,
}

/// A value that a recording holds.
pub trait Item: Sized {
    /// Appends it to `out`.
    fn write(&self, out: &mut Vec<u8>);
    /// Takes it from `reader`.
    ///
    /// # Errors
    /// Anything else than what `write` writes.
    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError>;
}

/// Writes and reads a structure as an array of all its fields.
macro_rules! structure {
    // Fields that came later to a type are there up to the last that is not the default: recordings from before are read as they
    // were.
    ($type:ident { $($field:ident),* $(,)? $(; $($late:ident),+)? }) => {
        impl $crate::recording::item::Item for $type {
            fn write(&self, out: &mut alloc::vec::Vec<u8>) {
                let Self { $($field,)* $($($late,)+)? } = self;
                dhow_bundle::cbor::write_indefinite_array(out);
                $($crate::recording::item::Item::write($field, out);)*
                $(
                    let is_said = [$(!$crate::recording::item::is_default($late)),+];
                    let last = is_said.iter().rposition(|is_said| *is_said);
                    let mut written = 0..last.map_or(0, |last| last + 1);
                    $(if written.next().is_some() {
                        $crate::recording::item::Item::write($late, out);
                    })+
                )?
                out.push(dhow_bundle::cbor::BREAK);
            }

            fn read(
                reader: &mut dhow_bundle::cbor::Reader<'_>,
            ) -> Result<Self, $crate::recording::item::ItemError> {
                let mut array = reader.array()?;
                let value = Self { $($field: {
                    array.item(reader)?;
                    $crate::recording::item::Item::read(reader)?
                },)* $($($late: match array.next(reader)? {
                    true => $crate::recording::item::Item::read(reader)?,
                    false => Default::default(),
                },)+)? };
                array.end(reader)?;
                Ok(value)
            }
        }
    };
}

/// True for a value that need not be written.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes and reads an enumeration as an array of a variant's code and all its fields.
macro_rules! choice {
    ($type:ident { $($code:literal => $variant:ident { $($field:tt: $name:ident),* }),* $(,)? }) => {
        impl $crate::recording::item::Item for $type {
            fn write(&self, out: &mut alloc::vec::Vec<u8>) {
                dhow_bundle::cbor::write_indefinite_array(out);
                match self {
                    $(Self::$variant { $($field: $name),* } => {
                        dhow_bundle::cbor::write_unsigned(out, $code);
                        $($crate::recording::item::Item::write($name, out);)*
                    })*
                }
                out.push(dhow_bundle::cbor::BREAK);
            }

            fn read(
                reader: &mut dhow_bundle::cbor::Reader<'_>,
            ) -> Result<Self, $crate::recording::item::ItemError> {
                let mut array = reader.array()?;
                array.item(reader)?;
                let value = match reader.unsigned()? {
                    $($code => Self::$variant { $($field: {
                        array.item(reader)?;
                        $crate::recording::item::Item::read(reader)?
                    }),* },)*
                    code => {
                        let of = stringify!($type);
                        return Err($crate::recording::item::ItemError::Choice { of, code });
                    }
                };
                array.end(reader)?;
                Ok(value)
            }
        }
    };
}

pub(super) use {choice, structure};

impl Item for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        write_unsigned(out, *self);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(reader.unsigned()?)
    }
}

macro_rules! number {
    ($($type:ident),*) => {
        $(impl Item for $type {
            fn write(&self, out: &mut Vec<u8>) {
                write_unsigned(out, u64::try_from(*self).unwrap_or(u64::MAX));
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
                let value = reader.unsigned()?;
                Self::try_from(value).map_err(|_| ItemError::Number(value))
            }
        })*
    };
}

number!(u8, u16, u32, usize);

/// In two's complement.
impl Item for i32 {
    fn write(&self, out: &mut Vec<u8>) {
        self.cast_unsigned().write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(u32::read(reader)?.cast_signed())
    }
}

impl Item for bool {
    fn write(&self, out: &mut Vec<u8>) {
        write_boolean(out, *self);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(reader.boolean()?)
    }
}

impl Item for String {
    fn write(&self, out: &mut Vec<u8>) {
        write_text(out, self);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(reader.text(TEXT_OCTETS_MAX)?.as_ref().to_owned())
    }
}

impl<T: Item> Item for Box<T> {
    fn write(&self, out: &mut Vec<u8>) {
        T::write(self, out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(Self::new(T::read(reader)?))
    }
}

impl<A: Item, B: Item> Item for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        write_array(out, 2);
        self.0.write(out);
        self.1.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        let mut array = reader.array()?;
        array.item(reader)?;
        let first = A::read(reader)?;
        array.item(reader)?;
        let second = B::read(reader)?;
        array.end(reader)?;
        Ok((first, second))
    }
}

/// An array of one or none.
impl<T: Item> Item for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        write_array(out, u64::from(self.is_some()));
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        let mut array = reader.array()?;
        let value = match array.next(reader)? {
            true => Some(T::read(reader)?),
            false => return Ok(None),
        };
        array.end(reader)?;
        Ok(value)
    }
}

impl<T: Item> Item for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        write_array(out, u64::try_from(self.len()).unwrap_or(u64::MAX));
        for value in self {
            value.write(out);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        let mut array = reader.array()?;
        let mut values = Self::new();
        // Each value has an octet at least, so allocations are bounded by the octets that are there.
        while array.next(reader)? {
            values.push(T::read(reader)?);
        }
        Ok(values)
    }
}

/// A byte string; or, where octets are left out, an array of byte strings and of numbers of zeros.
impl Item for Bytes {
    fn write(&self, out: &mut Vec<u8>) {
        write_byte_string(out, self);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        if reader.kind()? == Kind::Bytes {
            return Ok(Self::copy_from_slice(reader.byte_string()?));
        }
        let mut array = reader.array()?;
        let mut octets = BytesMut::new();
        while array.next(reader)? {
            if reader.kind()? == Kind::Bytes {
                octets.extend_from_slice(reader.byte_string()?);
                continue;
            }
            let zeros = usize::read(reader)?;
            if octets.len().saturating_add(zeros) > OCTETS_MAX {
                return Err(ItemError::TooManyOctets);
            }
            octets.resize(octets.len() + zeros, 0);
        }
        Ok(octets.freeze())
    }
}
