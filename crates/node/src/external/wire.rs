//! The messages of the external socket: CBOR arrays whose first item says which (docs/external.md).
//!
//! A reader skips items behind those that it knows, so that later versions may add some.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use dhow_bundle::cbor::{
    Array, CborError, Reader, write_array, write_byte_string, write_text, write_unsigned,
};
use dhow_bundle::{CreationTimestamp, FragmentRange, NodeId};
use dhow_link::external::frame::put_frame;

/// The version of the protocol.
pub const VERSION: u64 = 1;

/// Next hops of one decision, at most.
pub const HOPS_BOUND: usize = 64;

/// Octets of an advert, at most: it fits a bundle to the neighbour's routing service (docs/adverts.md).
pub const ADVERT_OCTETS_MAX: usize = 60 << 10;

/// Octets of a name, at most.
pub const NAME_OCTETS_MAX: u64 = 64;

/// Octets of an endpoint ID, at most.
const ENDPOINT_OCTETS_MAX: u64 = 1_024;

/// Why a message is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The CBOR is not well-formed, or another item is required.
    #[error(transparent)]
    Cbor(#[from] CborError),
    /// No message has this code, or not from a program.
    #[error("no message has the code {0}")]
    Code(u64),
    /// The version is none that this node speaks.
    #[error("version {0} is not spoken here")]
    Version(u64),
    /// A program is a router, or leads to a neighbour.
    #[error("'{0}' is not a part that a program can take")]
    Part(String),
    /// A program gives itself no name, or one that cannot be shown.
    #[error("a name has 1 to {NAME_OCTETS_MAX} octets, and no control character")]
    Nameless,
    /// A text that is to be a node ID is none.
    #[error("'{0}' is not a node ID")]
    Node(String),
    /// The way to hand on a bundle is none.
    #[error("{0} is not a way to hand on a bundle")]
    Mode(u64),
    /// The reason to discard a bundle is none.
    #[error("{0} is not a reason to discard a bundle")]
    Reason(u64),
    /// More next hops than a decision may have.
    #[error("more than {HOPS_BOUND} next hops")]
    TooManyHops,
    /// An advert that no bundle to a neighbour can carry.
    #[error("an advert of {0} octets is longer than {ADVERT_OCTETS_MAX}")]
    LongAdvert(usize),
    /// An array that does not begin with its length.
    #[error("an array of indefinite length")]
    Indefinite,
    /// There is something behind the message.
    #[error("octets behind the message")]
    Trailing,
}

/// The number of its next hops to which a bundle goes, and whether it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To the first that has room; then it is let go.
    One,
    /// To each; then it is let go.
    Each,
    /// To each, and it stays.
    Keep,
}

impl Mode {
    const fn code(self) -> u64 {
        match self {
            Self::One => 0,
            Self::Each => 1,
            Self::Keep => 2,
        }
    }
}

/// A message of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The program is the router of this name.
    Router {
        /// Highest version that it speaks.
        version: u64,
        /// The name in the node file.
        name: String,
    },
    /// The program leads to a neighbour.
    Neighbour {
        /// Highest version that it speaks.
        version: u64,
        /// The name of the convergence layer.
        name: String,
        /// The neighbour.
        peer: NodeId,
        /// Octets of the largest bundle that the neighbour takes; 0 for any.
        mtu_octets: u64,
    },
    /// A bundle goes to these neighbours.
    Forward {
        /// The bundle's number.
        number: u64,
        /// The number of hops that get it.
        mode: Mode,
        /// The hops, at most [`HOPS_BOUND`].
        hops: Vec<NodeId>,
    },
    /// A bundle waits.
    Hold {
        /// The bundle's number.
        number: u64,
        /// The node asks again after so many milliseconds; 0 for never.
        again_ms: u64,
    },
    /// A bundle is dropped.
    Discard {
        /// The bundle's number.
        number: u64,
        /// Reason code of its status report (RFC 9171 table 1).
        reason: u8,
    },
    /// A bundle goes by routes.
    Routes {
        /// The bundle's number.
        number: u64,
    },
    /// The router of this name of a neighbour is to be told this.
    Advert {
        /// The neighbour.
        peer: NodeId,
        /// The advert, at most [`ADVERT_OCTETS_MAX`].
        octets: Vec<u8>,
    },
}

impl Said {
    /// Reads the octets of a frame.
    ///
    /// # Errors
    /// They are no message of a program.
    pub fn read(octets: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(octets);
        let mut fields = Fields {
            array: definite(&mut reader)?,
            reader: &mut reader,
        };
        let message = match fields.unsigned()? {
            0 => {
                let version = fields.unsigned()?;
                if version < VERSION {
                    return Err(WireError::Version(version));
                }
                match fields.text(NAME_OCTETS_MAX)?.as_str() {
                    "router" => Self::Router {
                        version,
                        name: fields.name()?,
                    },
                    "neighbour" => Self::Neighbour {
                        version,
                        name: fields.name()?,
                        peer: fields.node()?,
                        mtu_octets: fields.unsigned()?,
                    },
                    other => return Err(WireError::Part(other.to_owned())),
                }
            }
            16 => Self::Forward {
                number: fields.unsigned()?,
                mode: match fields.unsigned()? {
                    0 => Mode::One,
                    1 => Mode::Each,
                    2 => Mode::Keep,
                    other => return Err(WireError::Mode(other)),
                },
                hops: fields.nodes()?,
            },
            17 => Self::Hold {
                number: fields.unsigned()?,
                again_ms: fields.unsigned()?,
            },
            18 => {
                let (number, reason) = (fields.unsigned()?, fields.unsigned()?);
                let reason = u8::try_from(reason).map_err(|_| WireError::Reason(reason))?;
                Self::Discard { number, reason }
            }
            19 => Self::Routes {
                number: fields.unsigned()?,
            },
            20 => {
                let peer = fields.node()?;
                fields.array.item(fields.reader)?;
                let octets = fields.reader.byte_string()?;
                if octets.len() > ADVERT_OCTETS_MAX {
                    return Err(WireError::LongAdvert(octets.len()));
                }
                Self::Advert {
                    peer,
                    octets: octets.to_vec(),
                }
            }
            other => return Err(WireError::Code(other)),
        };
        fields.end()?;
        match reader.is_empty() {
            true => Ok(message),
            false => Err(WireError::Trailing),
        }
    }

    /// Appends the message in its frame to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_frame(out, |out| match self {
            Self::Router { version, name } => {
                head(out, 0, 3);
                write_unsigned(out, *version);
                write_text(out, "router");
                write_text(out, name);
            }
            Self::Neighbour {
                version,
                name,
                peer,
                mtu_octets,
            } => {
                head(out, 0, 5);
                write_unsigned(out, *version);
                write_text(out, "neighbour");
                write_text(out, name);
                write_text(out, &peer.to_string());
                write_unsigned(out, *mtu_octets);
            }
            Self::Forward { number, mode, hops } => {
                head(out, 16, 3);
                write_unsigned(out, *number);
                write_unsigned(out, mode.code());
                write_nodes(out, hops);
            }
            Self::Hold { number, again_ms } => {
                head(out, 17, 2);
                write_unsigned(out, *number);
                write_unsigned(out, *again_ms);
            }
            Self::Discard { number, reason } => {
                head(out, 18, 2);
                write_unsigned(out, *number);
                write_unsigned(out, u64::from(*reason));
            }
            Self::Routes { number } => {
                head(out, 19, 1);
                write_unsigned(out, *number);
            }
            Self::Advert { peer, octets } => {
                head(out, 20, 2);
                write_text(out, &peer.to_string());
                write_byte_string(out, octets);
            }
        });
    }
}

/// A bundle about which a program is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its number, which no other bundle of this run has.
    pub number: u64,
    /// Destination endpoint.
    pub destination: String,
    /// Source endpoint.
    pub source: String,
    /// Creation timestamp.
    pub creation: CreationTimestamp,
    /// The part of the payload that a fragment has.
    pub fragment: Option<FragmentRange>,
    /// Octets of the whole bundle.
    pub octets: u64,
    /// Milliseconds until it expires.
    pub lifetime_ms: u64,
    /// The neighbour that it came from; empty for a bundle made here.
    pub previous: String,
    /// Nodes that were given a copy.
    pub given: Vec<NodeId>,
}

/// The outcome of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The neighbour has the bundle.
    Given,
    /// The neighbour has no copy; it is tried again.
    Returned,
    /// The neighbour is to have none: it has the bundle, or the bundle does not fit.
    Barred,
}

/// A message to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// The program is welcome.
    Welcome {
        /// The version that is spoken.
        version: u64,
        /// IDs of this node.
        nodes: &'a [NodeId],
        /// Questions, or bundles for a neighbour, that may be without an answer.
        questions: u64,
        /// The time that an answer may take, milliseconds.
        answer_ms: u64,
        /// Patterns of the destinations that a router decides about.
        patterns: &'a [String],
    },
    /// A neighbour is there, or gone.
    Neighbour {
        /// The neighbour's ID.
        peer: &'a NodeId,
        /// Whether there is a session.
        is_up: bool,
        /// The link that leads there; empty where the neighbour dialled.
        link: &'a str,
        /// Octets a second of the contact that is planned now; 0 for unknown.
        octets_per_s: u64,
    },
    /// The question for the next hops of a bundle.
    Bundle(&'a Question),
    /// The fate of a copy.
    Copy {
        /// The bundle's number.
        number: u64,
        /// The neighbour.
        peer: &'a NodeId,
        /// The outcome.
        outcome: Outcome,
    },
    /// A bundle is held no more.
    Gone {
        /// Its number.
        number: u64,
    },
    /// The router of this name of a neighbour says this.
    Advert {
        /// The neighbour.
        peer: &'a NodeId,
        /// The advert.
        octets: &'a [u8],
    },
    /// The node ends the connection.
    Bye {
        /// The reason, for people.
        reason: &'a str,
    },
}

impl Told<'_> {
    /// Appends the message in its frame to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_frame(out, |out| match self {
            Self::Welcome {
                version,
                nodes,
                questions,
                answer_ms,
                patterns,
            } => {
                head(out, 1, 5);
                write_unsigned(out, *version);
                write_nodes(out, nodes);
                write_unsigned(out, *questions);
                write_unsigned(out, *answer_ms);
                write_array(out, length(patterns.len()));
                for pattern in *patterns {
                    write_text(out, pattern);
                }
            }
            Self::Neighbour {
                peer,
                is_up,
                link,
                octets_per_s,
            } => {
                head(out, 2, 4);
                write_text(out, &peer.to_string());
                write_unsigned(out, u64::from(*is_up));
                write_text(out, link);
                write_unsigned(out, *octets_per_s);
            }
            Self::Bundle(question) => question.write(out),
            Self::Copy {
                number,
                peer,
                outcome,
            } => {
                head(out, 4, 3);
                write_unsigned(out, *number);
                write_text(out, &peer.to_string());
                write_unsigned(out, outcome.code());
            }
            Self::Gone { number } => {
                head(out, 5, 1);
                write_unsigned(out, *number);
            }
            Self::Advert { peer, octets } => {
                head(out, 6, 2);
                write_text(out, &peer.to_string());
                write_byte_string(out, octets);
            }
            Self::Bye { reason } => {
                head(out, 7, 1);
                write_text(out, reason);
            }
        });
    }
}

impl Outcome {
    const fn code(self) -> u64 {
        match self {
            Self::Given => 0,
            Self::Returned => 1,
            Self::Barred => 2,
        }
    }
}

impl Question {
    fn write(&self, out: &mut Vec<u8>) {
        head(out, 3, 9);
        write_unsigned(out, self.number);
        write_text(out, &self.destination);
        write_text(out, &self.source);
        write_array(out, 2);
        write_unsigned(out, self.creation.time.as_millis());
        write_unsigned(out, self.creation.sequence);
        match self.fragment {
            Some(range) => {
                write_array(out, 2);
                write_unsigned(out, range.offset);
                write_unsigned(out, range.length);
            }
            None => write_array(out, 0),
        }
        write_unsigned(out, self.octets);
        write_unsigned(out, self.lifetime_ms);
        write_text(out, &self.previous);
        write_nodes(out, &self.given);
    }
}

/// The head of a message and its code, with so many fields behind.
fn head(out: &mut Vec<u8>, code: u64, fields: u64) {
    write_array(out, fields + 1);
    write_unsigned(out, code);
}

fn write_nodes(out: &mut Vec<u8>, nodes: &[NodeId]) {
    write_array(out, length(nodes.len()));
    for node in nodes {
        write_text(out, &node.to_string());
    }
}

fn length(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

/// An array whose length is before it: a program needs to write no other.
fn definite(reader: &mut Reader<'_>) -> Result<Array, WireError> {
    let array = reader.array()?;
    match array.is_indefinite() {
        true => Err(WireError::Indefinite),
        false => Ok(array),
    }
}

/// The items of a message, one after the other.
struct Fields<'a, 'b> {
    array: Array,
    reader: &'b mut Reader<'a>,
}

impl Fields<'_, '_> {
    fn unsigned(&mut self) -> Result<u64, WireError> {
        self.array.item(self.reader)?;
        Ok(self.reader.unsigned()?)
    }

    fn text(&mut self, limit: u64) -> Result<String, WireError> {
        self.array.item(self.reader)?;
        Ok(self.reader.text(limit)?.into_owned())
    }

    fn name(&mut self) -> Result<String, WireError> {
        let name = self.text(NAME_OCTETS_MAX)?;
        match name.is_empty() || name.contains(char::is_control) {
            true => Err(WireError::Nameless),
            false => Ok(name),
        }
    }

    fn node(&mut self) -> Result<NodeId, WireError> {
        let text = self.text(ENDPOINT_OCTETS_MAX)?;
        text.parse().map_err(|_| WireError::Node(text))
    }

    fn nodes(&mut self) -> Result<Vec<NodeId>, WireError> {
        self.array.item(self.reader)?;
        let mut inner = Fields {
            array: definite(self.reader)?,
            reader: self.reader,
        };
        let mut nodes = Vec::new();
        while inner.array.left() != Some(0) {
            if nodes.len() == HOPS_BOUND {
                return Err(WireError::TooManyHops);
            }
            nodes.push(inner.node()?);
        }
        Ok(nodes)
    }

    /// Skip items that later versions have.
    fn end(&mut self) -> Result<(), WireError> {
        while self.array.next(self.reader)? {
            self.reader.skip()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
