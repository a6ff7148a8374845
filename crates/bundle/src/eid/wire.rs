//! The CBOR form of endpoint IDs (RFC 9171 4.2.5.1, RFC 9758 6).

use alloc::vec::Vec;

use thiserror::Error;

use super::{EidError, EndpointId, MAX_EID_OCTETS};
use crate::cbor::{CborError, Kind, Reader, write_array, write_text, write_unsigned};
use crate::reading::Reading;

/// Scheme code of `dtn` (RFC 9171 9.6).
const SCHEME_DTN: u64 = 1;
/// Scheme code of `ipn` (RFC 9171 9.6).
const SCHEME_IPN: u64 = 2;

/// Why octets are not an endpoint ID.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EidRefusal {
    /// The CBOR is not what an endpoint ID is made of, or not whole.
    #[error(transparent)]
    Cbor(#[from] CborError),
    /// A scheme code that is not registered for `dtn` or `ipn`.
    #[error("the scheme code {0} is unknown")]
    Scheme(u64),
    /// The scheme-specific part breaks a rule of its scheme.
    #[error("the endpoint ID is not valid: {0}")]
    Part(#[from] EidError),
    /// A scheme-specific part of `dtn` that is an integer other than 0.
    #[error("the dtn scheme has no integer {0} but 0, for \"none\"")]
    DtnInteger(u64),
    /// An `ipn` number beyond 2^32-1.
    #[error("the ipn number {0} is larger than 4294967295")]
    IpnNumber(u64),
}

impl EndpointId {
    /// Reads an endpoint ID: `[1, 0]`, `[1, text]`, `[2, [node, service]]` with the allocator in the upper
    /// half of the node number, or `[2, [allocator, node, service]]`.
    ///
    /// # Errors
    /// Octets missing, or what they break of RFC 9171 4.2.5.1 or RFC 9758.
    pub fn decode(reader: &mut Reader<'_>, reading: Reading) -> Result<Self, EidRefusal> {
        let mut array = reader.array()?;
        array.item(reader)?;
        let scheme = reader.unsigned()?;
        array.item(reader)?;
        let endpoint = match scheme {
            SCHEME_DTN => decode_dtn(reader, reading)?,
            SCHEME_IPN => decode_ipn(reader)?,
            other => return Err(EidRefusal::Scheme(other)),
        };
        array.end(reader)?;
        Ok(endpoint)
    }

    /// Appends the endpoint ID in its preferred form: two elements for allocator 0, three for others.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_array(out, 2);
        match self {
            Self::Null => {
                write_unsigned(out, SCHEME_DTN);
                write_unsigned(out, 0);
            }
            Self::Dtn(part) => {
                write_unsigned(out, SCHEME_DTN);
                write_text(out, part);
            }
            Self::Ipn {
                allocator,
                node,
                service,
            } => {
                write_unsigned(out, SCHEME_IPN);
                // RFC 9758 6.1.2: the two-element form for the default allocator.
                if *allocator == 0 {
                    write_array(out, 2);
                } else {
                    write_array(out, 3);
                    write_unsigned(out, u64::from(*allocator));
                }
                write_unsigned(out, u64::from(*node));
                write_unsigned(out, u64::from(*service));
            }
        }
    }
}

fn decode_dtn(reader: &mut Reader<'_>, reading: Reading) -> Result<EndpointId, EidRefusal> {
    // RFC 9171 4.2.5.1.1: "none" is the integer 0, everything else a text string.
    if reader.kind()? == Kind::Unsigned {
        return match reader.unsigned()? {
            0 => Ok(EndpointId::Null),
            other => Err(EidRefusal::DtnInteger(other)),
        };
    }
    let part = reader.text(u64::try_from(MAX_EID_OCTETS).unwrap_or(u64::MAX))?;
    Ok(EndpointId::from_dtn_part(&part, reading)?)
}

fn decode_ipn(reader: &mut Reader<'_>) -> Result<EndpointId, EidRefusal> {
    let mut array = reader.array()?;
    array.item(reader)?;
    let first = reader.unsigned()?;
    array.item(reader)?;
    let second = reader.unsigned()?;
    let (allocator, node, service) = if array.next(reader)? {
        let third = reader.unsigned()?;
        array.end(reader)?;
        (narrow(first)?, narrow(second)?, narrow(third)?)
    } else {
        // RFC 9758: the fully qualified node number is the allocator, then 32 bits of node number.
        (
            narrow(first >> 32)?,
            narrow(first & u64::from(u32::MAX))?,
            narrow(second)?,
        )
    };
    Ok(EndpointId::from_ipn_numbers(allocator, node, service)?)
}

fn narrow(number: u64) -> Result<u32, EidRefusal> {
    u32::try_from(number).map_err(|_| EidRefusal::IpnNumber(number))
}
