//! The omissions of a recording: payloads, in whose place zeros stand.
//!
//! A node looks at no payload but those that it reads itself (`Locality::Administrative`, `Echo`, `Perf` and `Routing`), so with zeros it does the
//! same, as long as checksums say the same of them. The CRC of a payload block is changed along with it: it is right where
//! it was right, and wrong where it was wrong (`bundle`). `link::tcpcl::DataReader` finds payloads in the octets of neighbours,
//! `application` in those of applications.

mod application;
mod bundle;
mod runs;

use alloc::collections::BTreeMap;

use bytes::Bytes;
use dhow_link::tcpcl::{DataReader, Part};

use self::application::ApplicationOmission;
use self::bundle::BundleOmission;
pub(super) use self::runs::Runs;
use crate::config::Config;
use crate::driver::{Event, Purpose, StreamId};
use crate::local::Local;

/// The first octet of a bundle (RFC 9171 4.1), and of a datagram that has nothing else.
const BUNDLE: u8 = 0x9f;

/// The kind of octets from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// A bundle from its beginning.
    Bundle,
    /// A part of a payload.
    Payload,
    /// Something that the node itself reads.
    Own,
}

/// Follows all that a node is told, and finds payloads in it.
#[derive(Debug)]
pub(super) struct Omission {
    local: Local,
    streams: BTreeMap<StreamId, Stream>,
}

#[derive(Debug)]
enum Stream {
    Neighbour {
        reader: DataReader,
        bundle: BundleOmission,
    },
    Application(ApplicationOmission),
    /// Nothing of what a program says is left out.
    Program,
}

impl Omission {
    /// The omission for a node with this configuration.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            local: Local::new(config),
            streams: BTreeMap::new(),
        }
    }

    /// Streams come and go.
    pub(super) fn watch(&mut self, event: &Event) {
        match event {
            Event::Connected { stream, purpose } => {
                let follows = match purpose {
                    Purpose::Dialled { .. } | Purpose::Accepted { .. } => Stream::Neighbour {
                        reader: DataReader::default(),
                        bundle: BundleOmission::default(),
                    },
                    Purpose::Client => Stream::Application(ApplicationOmission::default()),
                    Purpose::Program => Stream::Program,
                    // Datagrams need no stream's beginning.
                    Purpose::Heard { .. } => return,
                };
                self.streams.insert(*stream, follows);
            }
            Event::Disconnected { stream } => drop(self.streams.remove(stream)),
            _ => {}
        }
    }

    /// Octets that came on a stream, without payloads.
    pub(super) fn octets(&mut self, stream: StreamId, octets: &Bytes, runs: &mut Runs) {
        match self.streams.get_mut(&stream) {
            Some(Stream::Neighbour { reader, bundle }) => {
                let mut chunk = octets.clone();
                let mut rest = &octets[..];
                while let Some(part) = reader.next(&mut chunk) {
                    match part {
                        Part::Messages(length) => {
                            runs.keep(rest.get(..length).unwrap_or_default());
                        }
                        Part::Data { octets, begins } => {
                            if begins {
                                *bundle = BundleOmission::default();
                            }
                            bundle.pass(&octets, &self.local, runs);
                        }
                        Part::Lost(length) => runs.omit(length),
                    }
                    let passed = rest.len() - chunk.len();
                    rest = rest.get(passed..).unwrap_or_default();
                }
            }
            Some(Stream::Application(application)) => {
                application.pass(octets, &self.local, runs);
            }
            Some(Stream::Program) => runs.keep(octets),
            None => runs.omit(octets.len()),
        }
    }

    /// A datagram, without payloads. A segment of a bundle is left out as a whole, since it may be any part of it.
    pub(super) fn datagram(&self, datagram: &Bytes, runs: &mut Runs) {
        if datagram.first() == Some(&BUNDLE) {
            BundleOmission::default().pass(datagram, &self.local, runs);
        } else {
            runs.omit(datagram.len());
        }
    }

    /// Octets that came from the store, without payloads.
    pub(super) fn stored(&self, octets: &Bytes, stored: Stored, runs: &mut Runs) {
        match stored {
            Stored::Bundle => BundleOmission::default().pass(octets, &self.local, runs),
            Stored::Payload => runs.omit(octets.len()),
            Stored::Own => runs.keep(octets),
        }
    }
}
