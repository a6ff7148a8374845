//! The messages between a node and a program that leads to a neighbour (docs/external.md): CBOR arrays whose first item says which.

use alloc::vec::Vec;

use bytes::{BufMut as _, Bytes, BytesMut};
use dhow_bundle::cbor::{
    CborError, Reader, write_array, write_byte_string, write_byte_string_head, write_text,
    write_unsigned,
};

use super::frame::put_frame;
use crate::tcpcl::writer::Encode;

/// Octets of a bundle in one message, at most.
pub const DATA_OCTETS_MAX: u64 = 64 << 10;

/// Why a message is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The CBOR is not well-formed, or another item is required.
    #[error(transparent)]
    Cbor(#[from] CborError),
    /// No message has this code, or not from a program that leads to a neighbour.
    #[error("no message has the code {0}")]
    Code(u64),
    /// The program says once more which part it takes.
    #[error("a second greeting")]
    Greeting,
    /// The reason of a refusal has more than eight bits.
    #[error("{0} is not a reason to refuse a bundle")]
    Reason(u64),
    /// An array that does not begin with its length.
    #[error("an array of indefinite length")]
    Indefinite,
    /// There is something behind the message.
    #[error("octets behind the message")]
    Trailing,
}

/// A message of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A bundle of so many octets comes.
    Begin {
        /// Its number, chosen by the program.
        transfer: u64,
        /// Octets of the whole.
        octets: u64,
    },
    /// The next octets of the bundle that has begun.
    Data(Bytes),
    /// The neighbour has a bundle.
    Sent {
        /// Its number, chosen by the node.
        transfer: u64,
    },
    /// The neighbour has not.
    Failed {
        /// Its number, chosen by the node.
        transfer: u64,
        /// The reason (RFC 9174 table 6).
        reason: u8,
    },
    /// The bundle that has begun comes no further.
    Abort,
    /// The program keeps a bundle for the neighbour, which has not taken it.
    Kept {
        /// Its number, chosen by the node.
        transfer: u64,
    },
}

impl Said {
    /// Reads a frame; octets of a bundle are a slice of it.
    ///
    /// # Errors
    /// It is no message of a program that leads to a neighbour.
    pub fn read(frame: &Bytes) -> Result<Self, WireError> {
        let mut reader = Reader::new(frame);
        let mut array = reader.array()?;
        if array.is_indefinite() {
            return Err(WireError::Indefinite);
        }
        let mut unsigned = |reader: &mut Reader<'_>| {
            array.item(reader)?;
            reader.unsigned()
        };
        let message = match unsigned(&mut reader)? {
            48 => Self::Begin {
                transfer: unsigned(&mut reader)?,
                octets: unsigned(&mut reader)?,
            },
            49 => {
                array.item(&mut reader)?;
                let octets = reader.byte_string()?;
                Self::Data(frame.slice_ref(octets))
            }
            50 => Self::Sent {
                transfer: unsigned(&mut reader)?,
            },
            51 => {
                let (transfer, reason) = (unsigned(&mut reader)?, unsigned(&mut reader)?);
                let reason = u8::try_from(reason).map_err(|_| WireError::Reason(reason))?;
                Self::Failed { transfer, reason }
            }
            52 => Self::Abort,
            53 => Self::Kept {
                transfer: unsigned(&mut reader)?,
            },
            0 => return Err(WireError::Greeting),
            other => return Err(WireError::Code(other)),
        };
        while array.next(&mut reader)? {
            reader.skip()?;
        }
        match reader.is_empty() {
            true => Ok(message),
            false => Err(WireError::Trailing),
        }
    }

    /// Appends the message in its frame to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_frame(out, |out| match self {
            Self::Begin { transfer, octets } => numbers(out, &[48, *transfer, *octets]),
            Self::Data(octets) => {
                write_array(out, 2);
                write_unsigned(out, 49);
                write_byte_string(out, octets);
            }
            Self::Sent { transfer } => numbers(out, &[50, *transfer]),
            Self::Failed { transfer, reason } => {
                numbers(out, &[51, *transfer, u64::from(*reason)]);
            }
            Self::Abort => numbers(out, &[52]),
            Self::Kept { transfer } => numbers(out, &[53, *transfer]),
        });
    }
}

/// A message to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told<'a> {
    /// A bundle of so many octets comes.
    Begin { transfer: u64, octets: u64 },
    /// So many octets of the bundle that has begun follow.
    Data { octets: u64 },
    /// The program's bundle is durable here.
    Acknowledged { transfer: u64 },
    /// The transfer is refused.
    Refused { transfer: u64, reason: u8 },
    /// The node's bundle that has begun comes no further.
    Abort { transfer: u64 },
    /// The node closes the connection, and why.
    Bye { reason: &'a str },
}

impl Encode for Told<'_> {
    fn encode(&self, out: &mut BytesMut) {
        let mut frame = Vec::with_capacity(32);
        match self {
            Self::Data { octets } => {
                // The frame's octets are not all here: its length counts those that follow.
                let mut head = Vec::with_capacity(8);
                write_array(&mut head, 2);
                write_unsigned(&mut head, 33);
                write_byte_string_head(&mut head, *octets);
                let length = u64::try_from(head.len())
                    .unwrap_or(0)
                    .saturating_add(*octets);
                frame.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
                frame.append(&mut head);
            }
            Self::Begin { transfer, octets } => {
                put_frame(&mut frame, |out| numbers(out, &[32, *transfer, *octets]));
            }
            Self::Acknowledged { transfer } => {
                put_frame(&mut frame, |out| numbers(out, &[34, *transfer]));
            }
            Self::Refused { transfer, reason } => {
                let reason = u64::from(*reason);
                put_frame(&mut frame, |out| numbers(out, &[35, *transfer, reason]));
            }
            Self::Abort { transfer } => {
                put_frame(&mut frame, |out| numbers(out, &[36, *transfer]));
            }
            Self::Bye { reason } => put_frame(&mut frame, |out| {
                write_array(out, 2);
                write_unsigned(out, 7);
                write_text(out, reason);
            }),
        }
        out.put_slice(&frame);
    }
}

fn numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    write_array(out, u64::try_from(numbers.len()).unwrap_or(0));
    for number in numbers {
        write_unsigned(out, *number);
    }
}
