//! Messages between octets and types.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use dhow_bundle::v6::sdnv::{self, Reader};

use super::acknowledgment::{self, Acknowledgment};
use super::filter::Filter;
use super::inflate;
use super::refusal::Refusal;
use super::table::{self, Table};

/// A Bloom filter with the bundles that a node has or has had.
pub(crate) const SUMMARY_VECTOR: u64 = 1;
/// A Bloom filter with the bundles that are delivered, as far as a node knows.
pub(crate) const PURGE_VECTOR: u64 = 2;
/// The delivery predictabilities of PRoPHET.
pub(crate) const PREDICTABILITIES: u64 = 3;
/// The bundles that are delivered, as far as PRoPHET knows.
pub(crate) const ACKNOWLEDGMENTS: u64 = 4;
/// The bundles that a node takes.
pub(crate) const LIMITATIONS: u64 = 5;

/// The types of messages.
const REQUEST: u64 = 1;
const RESPONSE: u64 = 2;
const NOTIFICATION: u64 = 3;

/// Items of a message, and limitations of a node, at most: five and four have a meaning.
const MAX_ITEMS: u64 = 32;

/// Octets of a message, at most, compressed or not: two filters of the greatest size, and 128 KiB of tables.
const MAX_MESSAGE_OCTETS: usize = 1_152 << 10;

/// The numbers of the items that a message asks for or tells of.
pub(crate) type Items = BTreeSet<u64>;

/// The limits of a node by their numbers: octets of a payload (0), of one for another node (1), singleton destinations alone (2), bundles for
/// the node itself alone (3). 0 is no limit.
pub(crate) type Limitations = BTreeMap<u64, u64>;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// The neighbour asks for these items.
    Request(Items),
    /// The answer to a request.
    Response(Box<Response>),
    /// Items that have changed.
    Notification(Items),
}

/// The items of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Response {
    /// Seconds for which the summary vector holds; 0 for ever.
    pub(crate) lifetime_s: u64,
    /// [`SUMMARY_VECTOR`].
    pub(crate) summary: Option<Filter>,
    /// [`PURGE_VECTOR`].
    pub(crate) purge: Option<Filter>,
    /// [`PREDICTABILITIES`].
    pub(crate) predictabilities: Option<Table>,
    /// [`ACKNOWLEDGMENTS`].
    pub(crate) acknowledgments: Option<Vec<Acknowledgment>>,
    /// [`LIMITATIONS`].
    pub(crate) limitations: Option<Limitations>,
}

impl Handshake {
    /// Octets of a message, at most.
    pub(crate) const MAX_OCTETS: usize = MAX_MESSAGE_OCTETS;

    /// Reads a message, compressed (RFC 1950) or not.
    ///
    /// # Errors
    /// The rule that the octets break.
    pub(crate) fn decode(octets: &[u8]) -> Result<Self, Refusal> {
        if octets.len() > MAX_MESSAGE_OCTETS {
            return Err(Refusal::TooLong);
        }
        if inflate::is_compressed(octets) {
            let octets = inflate::inflate(octets, MAX_MESSAGE_OCTETS)?;
            return Self::read(&octets);
        }
        Self::read(octets)
    }

    fn read(octets: &[u8]) -> Result<Self, Refusal> {
        let mut reader = Reader::new(octets);
        let message = match reader.number()? {
            REQUEST => Self::Request(read_items(&mut reader)?),
            RESPONSE => Self::Response(Box::new(Response::read(&mut reader)?)),
            NOTIFICATION => Self::Notification(read_items(&mut reader)?),
            other => return Err(Refusal::Type(other)),
        };
        match reader.is_empty() {
            true => Ok(message),
            false => Err(Refusal::OctetsAfterEnd),
        }
    }

    /// Writes a message, not compressed.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Request(items) => {
                sdnv::write(&mut out, REQUEST);
                write_items(&mut out, items);
            }
            Self::Response(response) => {
                sdnv::write(&mut out, RESPONSE);
                response.write(&mut out);
            }
            Self::Notification(items) => {
                sdnv::write(&mut out, NOTIFICATION);
                write_items(&mut out, items);
            }
        }
        out
    }
}

impl Response {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let mut response = Self {
            lifetime_s: reader.number()?,
            ..Self::default()
        };
        for _ in 0..read_count(reader)? {
            let number = reader.number()?;
            let length = reader.number()?;
            let item = reader.octets(length)?;
            response.read_item(number, item)?;
        }
        Ok(response)
    }

    /// Reads an item, of several with one number the last. Items that are unknown say nothing.
    fn read_item(&mut self, number: u64, octets: &[u8]) -> Result<(), Refusal> {
        let mut reader = Reader::new(octets);
        match number {
            SUMMARY_VECTOR => self.summary = Some(Filter::read(&mut reader)?),
            PURGE_VECTOR => self.purge = Some(Filter::read(&mut reader)?),
            PREDICTABILITIES => self.predictabilities = Some(table::read(&mut reader)?),
            ACKNOWLEDGMENTS => self.acknowledgments = Some(acknowledgment::read(&mut reader)?),
            LIMITATIONS => self.limitations = Some(read_limitations(&mut reader)?),
            _ => return Ok(()),
        }
        match reader.is_empty() {
            true => Ok(()),
            false => Err(Refusal::OctetsAfterEnd),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut items = Vec::new();
        if let Some(filter) = &self.summary {
            items.push((SUMMARY_VECTOR, written(|out| filter.write(out))));
        }
        if let Some(filter) = &self.purge {
            items.push((PURGE_VECTOR, written(|out| filter.write(out))));
        }
        if let Some(table) = &self.predictabilities {
            items.push((PREDICTABILITIES, written(|out| table::write(out, table))));
        }
        if let Some(set) = &self.acknowledgments {
            let item = written(|out| acknowledgment::write(out, set));
            items.push((ACKNOWLEDGMENTS, item));
        }
        if let Some(limitations) = &self.limitations {
            let item = written(|out| write_limitations(out, limitations));
            items.push((LIMITATIONS, item));
        }
        sdnv::write(out, self.lifetime_s);
        write_count(out, items.len());
        for (number, item) in items {
            sdnv::write(out, number);
            write_count(out, item.len());
            out.extend_from_slice(&item);
        }
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Reads a number of entries.
fn read_count(reader: &mut Reader<'_>) -> Result<u64, Refusal> {
    let count = reader.number()?;
    match count <= MAX_ITEMS {
        true => Ok(count),
        false => Err(Refusal::TooMany(count)),
    }
}

fn write_count(out: &mut Vec<u8>, count: usize) {
    sdnv::write(out, u64::try_from(count).unwrap_or(u64::MAX));
}

fn read_items(reader: &mut Reader<'_>) -> Result<Items, Refusal> {
    let mut items = Items::new();
    for _ in 0..read_count(reader)? {
        items.insert(reader.number()?);
    }
    Ok(items)
}

fn write_items(out: &mut Vec<u8>, items: &Items) {
    write_count(out, items.len());
    for item in items {
        sdnv::write(out, *item);
    }
}

fn read_limitations(reader: &mut Reader<'_>) -> Result<Limitations, Refusal> {
    let mut limitations = Limitations::new();
    for _ in 0..read_count(reader)? {
        let number = reader.number()?;
        limitations.insert(number, reader.number()?);
    }
    Ok(limitations)
}

fn write_limitations(out: &mut Vec<u8>, limitations: &Limitations) {
    write_count(out, limitations.len());
    for (number, limit) in limitations {
        sdnv::write(out, *number);
        sdnv::write(out, *limit);
    }
}
