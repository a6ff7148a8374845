//! The connection to a node's external socket, as a convergence layer that leads to a neighbour (docs/external.md).

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::NodeId;
use dhow_bundle::cbor::{CborError, Reader, write_array, write_text, write_unsigned};
use dhow_link::external::frame::{FrameReader, put_frame};
use dhow_link::external::wire::Said;

/// The time that a node may take to read what it is told.
const PATIENCE: Duration = Duration::from_secs(30);

/// Octets that are read from the socket at a time.
const READ_OCTETS: usize = 128 << 10;

/// Node IDs of a node, at most; further ones are not kept.
const NODES_MAX: usize = 64;

/// Octets of a text in a message.
const TEXT_OCTETS_MAX: u64 = 64 << 10;

/// A message of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The node takes the program.
    Welcome {
        /// The IDs of the node.
        nodes: Vec<NodeId>,
    },
    /// The node ends the connection.
    Farewell {
        /// The reason, for people.
        reason: String,
    },
    /// A bundle for the neighbour.
    Begin {
        /// Its number.
        transfer: u64,
        /// Octets of the whole.
        octets: u64,
    },
    /// The next octets of that bundle.
    Data(Bytes),
    /// A bundle of the program is durable in the node.
    Acknowledged {
        /// Its number.
        transfer: u64,
    },
    /// The node does not take a bundle.
    Refused {
        /// Its number.
        transfer: u64,
        /// The reason (RFC 9174 table 6).
        reason: u64,
    },
    /// The node's bundle that has begun comes no further.
    Abort {
        /// Its number.
        transfer: u64,
    },
    /// A message of a later version.
    Other,
}

impl Told {
    /// Reads a frame.
    ///
    /// # Errors
    /// It is no message of a node.
    pub fn read(frame: &Bytes) -> Result<Self, CborError> {
        let mut reader = Reader::new(frame);
        let mut array = reader.array()?;
        let mut unsigned = |reader: &mut Reader<'_>| {
            array.item(reader)?;
            reader.unsigned()
        };
        Ok(match unsigned(&mut reader)? {
            1 => {
                let _version = unsigned(&mut reader)?;
                array.item(&mut reader)?;
                let mut list = reader.array()?;
                let mut nodes = Vec::new();
                while list.next(&mut reader)? {
                    let node = reader.text(TEXT_OCTETS_MAX)?.parse();
                    nodes.extend(node.ok().filter(|_| nodes.len() < NODES_MAX));
                }
                Self::Welcome { nodes }
            }
            7 => {
                array.item(&mut reader)?;
                let reason = reader.text(TEXT_OCTETS_MAX)?.into_owned();
                Self::Farewell { reason }
            }
            32 => Self::Begin {
                transfer: unsigned(&mut reader)?,
                octets: unsigned(&mut reader)?,
            },
            33 => {
                array.item(&mut reader)?;
                Self::Data(frame.slice_ref(reader.byte_string()?))
            }
            34 => Self::Acknowledged {
                transfer: unsigned(&mut reader)?,
            },
            35 => Self::Refused {
                transfer: unsigned(&mut reader)?,
                reason: unsigned(&mut reader)?,
            },
            36 => Self::Abort {
                transfer: unsigned(&mut reader)?,
            },
            _ => Self::Other,
        })
    }
}

/// A connection to a node that leads to one neighbour.
#[derive(Debug)]
pub struct Layer {
    stream: UnixStream,
    reader: FrameReader,
    octets: Vec<u8>,
    said: Vec<u8>,
}

impl Layer {
    /// Connects, and says that `peer` can be reached, which takes bundles of `mtu` octets at most; 0 for any.
    ///
    /// # Errors
    /// Nobody is at the socket.
    pub fn connect(socket: &Path, name: &str, peer: &NodeId, mtu: u64) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut layer = Self {
            stream,
            reader: FrameReader::default(),
            octets: vec![0; READ_OCTETS],
            said: Vec::new(),
        };
        let mut greeting = Vec::new();
        put_frame(&mut greeting, |out| {
            write_array(out, 6);
            write_unsigned(out, 0);
            write_unsigned(out, 1);
            write_text(out, "neighbour");
            write_text(out, name);
            write_text(out, &peer.to_string());
            write_unsigned(out, mtu);
        });
        layer.stream.write_all(&greeting)?;
        Ok(layer)
    }

    /// Says something.
    ///
    /// # Errors
    /// The connection has ended, or the node has not read for 30 s.
    pub fn say(&mut self, said: &Said) -> io::Result<()> {
        self.said.clear();
        said.put(&mut self.said);
        self.stream.write_all(&self.said)
    }

    /// The next message, if one is there.
    ///
    /// # Errors
    /// The node has said something that is no message.
    pub fn hear(&mut self) -> io::Result<Option<Told>> {
        let invalid = |error: &dyn std::fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
        };
        let frame = self.reader.take().map_err(|error| invalid(&error))?;
        let told = frame.map(|frame| Told::read(&frame)).transpose();
        told.map_err(|error| invalid(&error))
    }

    /// Reads octets that are there or come within this time; false if none do. Messages of them are [heard](Self::hear) then.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn listen(&mut self, patience: Duration) -> io::Result<bool> {
        let patience = patience.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(patience))?;
        match self.stream.read(&mut self.octets) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                let octets = self.octets.get(..count).unwrap_or_default();
                self.reader.push(Bytes::copy_from_slice(octets));
                Ok(true)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            },
        }
    }
}
