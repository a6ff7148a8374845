//! The text form of endpoint IDs, read.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use core::str::FromStr;

use thiserror::Error;

use super::{EndpointId, LOCAL_NODE_NUMBER, MAX_EID_OCTETS};
use crate::reading::{Deviation, Reading};

/// Why a text is not an endpoint ID, or an endpoint ID not a node ID.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum EidError {
    /// Longer than [`MAX_EID_OCTETS`].
    #[error("it has {octets} octets, more than {MAX_EID_OCTETS}")]
    TooLong {
        /// Its length.
        octets: usize,
    },
    /// No `ipn:` or `dtn:` before it.
    #[error("it begins with neither \"ipn:\" nor \"dtn:\"")]
    UnknownScheme,
    /// An `ipn` endpoint ID has two or three numbers.
    #[error("an ipn endpoint ID has two or three numbers with dots between, not {parts}")]
    IpnParts {
        /// Number of parts in the text.
        parts: usize,
    },
    /// Something that is not a number, has a leading zero, or exceeds 2^32-1.
    #[error("\"{part}\" is not a number from 0 to 4294967295 without leading zeros")]
    Number {
        /// The offending part.
        part: String,
    },
    /// Node 0 of allocator 0 has only the null endpoint (RFC 9758).
    #[error("node 0 has no service {service}: the null endpoint is ipn:0.0")]
    NullService {
        /// The service number.
        service: u32,
    },
    /// A `dtn` endpoint ID is `dtn:none` or `dtn://name/demux`.
    #[error("a dtn endpoint ID is \"dtn:none\" or has the form \"dtn://name/demux\"")]
    DtnForm,
    /// `dtn://name` where `dtn://name/` is required.
    #[error("the slash after the node name is missing")]
    SlashMissing,
    /// No node name between the slashes.
    #[error("the node name is empty")]
    NodeNameEmpty,
    /// A character that a node name cannot have (RFC 3986 reg-name).
    #[error("a node name cannot have the character {character:?}")]
    NodeNameCharacter {
        /// The offending character.
        character: char,
    },
    /// A demux has visible ASCII characters only.
    #[error("a demux cannot have the character {character:?}")]
    DemuxCharacter {
        /// The offending character.
        character: char,
    },
    /// A node ID is the ID of an administrative endpoint: service 0, or an empty demux.
    #[error("it names a service; a node ID is \"ipn:NODE.0\" or \"dtn://name/\"")]
    NotNode,
    /// The null endpoint and "this node" identify no node.
    #[error("it identifies no node of a network")]
    NoNode,
}

impl FromStr for EndpointId {
    type Err = EidError;

    /// Reads a URI strictly.
    fn from_str(text: &str) -> Result<Self, EidError> {
        Self::parse(text, Reading::Strict)
    }
}

impl EndpointId {
    /// Reads a URI; lenient reading also takes `dtn://name` for `dtn://name/`.
    ///
    /// # Errors
    /// The rule of RFC 9171 4.2.5.1 or RFC 9758 that the text breaks.
    pub fn parse(text: &str, reading: Reading) -> Result<Self, EidError> {
        if text.len() > MAX_EID_OCTETS {
            return Err(EidError::TooLong { octets: text.len() });
        }
        // RFC 3986 3.1: schemes are case-insensitive.
        let (scheme, part) = text.split_once(':').ok_or(EidError::UnknownScheme)?;
        if scheme.eq_ignore_ascii_case("ipn") {
            parse_ipn(part)
        } else if scheme.eq_ignore_ascii_case("dtn") {
            if part == "none" {
                return Ok(Self::Null);
            }
            Self::from_dtn_part(part, reading)
        } else {
            Err(EidError::UnknownScheme)
        }
    }

    /// An endpoint ID of the `dtn` scheme from its scheme-specific part other than `none`.
    pub(super) fn from_dtn_part(part: &str, reading: Reading) -> Result<Self, EidError> {
        let octets = part.len() + "dtn:".len();
        if octets > MAX_EID_OCTETS {
            return Err(EidError::TooLong { octets });
        }
        let rest = part.strip_prefix("//").ok_or(EidError::DtnForm)?;
        let Some((name, demux)) = rest.split_once('/') else {
            check_node_name(rest)?;
            return if reading.accepts(Deviation::NodeNameWithoutSlash) {
                Ok(Self::Dtn(Arc::from(format!("{part}/"))))
            } else {
                Err(EidError::SlashMissing)
            };
        };
        check_node_name(name)?;
        check_demux(demux)?;
        Ok(Self::Dtn(Arc::from(part)))
    }

    /// The endpoint of this endpoint's node with another service: a number for `ipn`, a demux for `dtn`.
    ///
    /// # Errors
    /// A service that the scheme does not have, or no node.
    pub fn with_service(&self, service: &str) -> Result<Self, EidError> {
        match self {
            Self::Null => Err(EidError::NoNode),
            Self::Ipn {
                allocator, node, ..
            } => Ok(Self::Ipn {
                allocator: *allocator,
                node: *node,
                service: parse_number(service)?,
            }),
            Self::Dtn(_) => {
                let name = self.node_name().ok_or(EidError::DtnForm)?;
                Self::from_dtn_part(&format!("//{name}/{service}"), Reading::Strict)
            }
        }
    }
}

/// `[allocator.]node.service` or `!.service`.
fn parse_ipn(part: &str) -> Result<EndpointId, EidError> {
    let mut parts = part.split('.');
    let (allocator, node, service) = match (parts.next(), parts.next(), parts.next(), parts.next())
    {
        (Some("!"), Some(service), None, _) => (0, LOCAL_NODE_NUMBER, parse_number(service)?),
        (Some(node), Some(service), None, _) => (0, parse_number(node)?, parse_number(service)?),
        (Some(allocator), Some(node), Some(service), None) => (
            parse_number(allocator)?,
            parse_number(node)?,
            parse_number(service)?,
        ),
        _ => {
            return Err(EidError::IpnParts {
                parts: part.split('.').count(),
            });
        }
    };
    EndpointId::from_ipn_numbers(allocator, node, service)
}

impl EndpointId {
    /// The endpoint with these numbers; the null endpoint for three zeros.
    ///
    /// # Errors
    /// Node 0 of allocator 0 with another service than 0 (RFC 9758).
    pub const fn from_ipn_numbers(
        allocator: u32,
        node: u32,
        service: u32,
    ) -> Result<Self, EidError> {
        match (allocator, node, service) {
            (0, 0, 0) => Ok(Self::Null),
            (0, 0, service) => Err(EidError::NullService { service }),
            (allocator, node, service) => Ok(Self::Ipn {
                allocator,
                node,
                service,
            }),
        }
    }
}

/// A decimal number without sign or leading zeros (RFC 9758).
pub(super) fn parse_number(part: &str) -> Result<u32, EidError> {
    let error = || EidError::Number {
        part: part.chars().take(40).collect(),
    };
    let plain =
        part.bytes().all(|octet| octet.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
    if plain {
        part.parse().map_err(|_| error())
    } else {
        Err(error())
    }
}

/// RFC 9171 4.2.5.1.1: node-name = reg-name, of RFC 3986 3.2.2: unreserved, percent-encoded, sub-delims.
pub(super) fn check_node_name(name: &str) -> Result<(), EidError> {
    if name.is_empty() {
        return Err(EidError::NodeNameEmpty);
    }
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        let allowed = match character {
            '%' => {
                let mut digits = characters.by_ref().take(2);
                digits.next().is_some_and(|digit| digit.is_ascii_hexdigit())
                    && digits.next().is_some_and(|digit| digit.is_ascii_hexdigit())
            }
            _ => character.is_ascii_alphanumeric() || "-._~!$&'()*+,;=".contains(character),
        };
        if !allowed {
            return Err(EidError::NodeNameCharacter { character });
        }
    }
    Ok(())
}

/// RFC 9171 4.2.5.1.1: demux = *VCHAR.
pub(super) fn check_demux(demux: &str) -> Result<(), EidError> {
    match demux
        .chars()
        .find(|character| !character.is_ascii_graphic())
    {
        Some(character) => Err(EidError::DemuxCharacter { character }),
        None => Ok(()),
    }
}
