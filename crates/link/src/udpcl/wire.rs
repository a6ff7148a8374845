//! Datagrams to messages (draft 3.3 to 3.5), and heads of messages to octets.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::cbor::{write_array, write_byte_string_head, write_text, write_unsigned};
use dhow_bundle::{NodeId, Reading};

use super::cbor::{Head, Items, Malformed, Reader};
use super::fault::{Fault, Faults};

/// RFC 7122 3.4: a keepalive is four octets of zeros.
pub(super) const KEEPALIVE: [u8; 4] = [0; 4];

/// Octets of a node ID that are read: longer ones are no use to anybody.
const MAX_NODE_ID_OCTETS: u64 = 1_024;

/// Longest interval that a Sender Listen item may promise: draft 3.5.3 advises a minute at most.
const MAX_LISTEN: Duration = Duration::from_secs(3_600);

/// The beginning of a map with one pair, a Transfer item.
const TRANSFER_HEAD: [u8; 2] = [0xa1, key::TRANSFER];

/// The extension IDs that we read: 1 to 4 and 8 (draft 3.5.1.1).
const SUPPORT: [u64; 4] = [1, 3, 2, 0];

/// Extension IDs (draft 6.3).
mod key {
    pub(super) const SUPPORT: u8 = 1;
    pub(super) const TRANSFER: u8 = 2;
    pub(super) const LISTEN: u8 = 3;
    pub(super) const NODE_ID: u8 = 4;
    pub(super) const DTLS: u8 = 5;
    pub(super) const ECN: u8 = 8;
}

/// True for the first octet of a bundle: version 6, or the array of version 7 (draft 3.4).
pub(super) const fn is_bundle(first: u8) -> bool {
    matches!(first, 0x06 | 0x80..=0x9f)
}

/// One message of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A bundle by itself: the whole datagram.
    Bundle(Bytes),
    Extensions(Extensions),
    /// Nothing more is to be read.
    Padding,
}

/// The items of an extension map that we know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    pub(super) segment: Option<Segment>,
    pub(super) listens: Option<Duration>,
    pub(super) node_id: Option<NodeId>,
    pub(super) ecn: Option<EcnCounts>,
}

/// A Transfer item (draft 3.5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) transfer: u64,
    /// Octets of the whole transfer.
    pub(super) length: u64,
    pub(super) offset: u64,
    pub(super) octets: Bytes,
}

/// The peer's counts of the marks on IP packets from here (draft 3.5.8), each modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnCounts {
    /// Packets marked ECT(0).
    pub ect0: u32,
    /// Packets marked ECT(1).
    pub ect1: u32,
    /// Packets marked CE: congestion.
    pub ce: u32,
}

/// Reads the messages of a datagram.
pub(super) struct Packet {
    whole: Bytes,
    /// Octets read.
    at: usize,
}

impl Packet {
    pub(super) const fn new(datagram: Bytes) -> Self {
        Self {
            whole: datagram,
            at: 0,
        }
    }

    /// The next message; `None` behind the last. Faults are counted: what cannot be delimited ends the datagram.
    pub(super) fn next(&mut self, faults: &mut Faults) -> Option<Message> {
        let start = self.at;
        let Some(first) = self.whole.get(start).copied() else {
            if self.whole.is_empty() {
                faults.count(Fault::NoMessage);
            }
            return None;
        };
        let behind_map = start > 0;
        self.at = self.whole.len();
        let fault = match first {
            0xa0..=0xbf => match self.extensions(start, faults) {
                Ok(message) => return Some(message),
                Err(Malformed) => Fault::MapMalformed,
            },
            // Draft 3.4: a receiver ignores all padding and whatever follows it.
            0x00 => return Some(Message::Padding),
            _ if behind_map => Fault::MessageBehindMap,
            first if is_bundle(first) => return Some(Message::Bundle(self.whole.clone())),
            0x14..=0x1a | 0x20..=0x3f => Fault::Dtls,
            _ => Fault::UnknownMessage,
        };
        faults.count(fault);
        None
    }

    /// The extension map that begins at `start`; what follows it is next. Nothing of a map with a fault is heeded.
    fn extensions(&mut self, start: usize, faults: &mut Faults) -> Result<Message, Malformed> {
        let octets = self.whole.get(start..).unwrap_or_default();
        let mut reader = Reader::new(octets);
        let mut items = reader.map()?;
        let mut map = MapItems {
            whole: &self.whole,
            seen: 0,
            extensions: Extensions::default(),
        };
        while let Some(key) = items.next()? {
            map.pair(key, items.required()?, faults)?;
        }
        let extensions = map.extensions;
        self.at = self.whole.len().saturating_sub(reader.rest().len());
        Ok(Message::Extensions(extensions))
    }
}

/// The items of one map.
struct MapItems<'a> {
    whole: &'a Bytes,
    /// A bit for each known key that has come.
    seen: u16,
    extensions: Extensions,
}

impl MapItems<'_> {
    /// Read one pair.
    fn pair(
        &mut self,
        mut key: Reader<'_>,
        value: Reader<'_>,
        faults: &mut Faults,
    ) -> Result<(), Malformed> {
        let Some(key) = key.integer().ok().and_then(|key| i16::try_from(key).ok()) else {
            faults.count(Fault::KeyOutOfRange);
            return Ok(());
        };
        // Draft 3.5: unknown items are ignored.
        let Some(key) = u8::try_from(key).ok().filter(|key| (1..=8).contains(key)) else {
            return Ok(());
        };
        // RFC 8949 5.6: a map with a key twice is not valid.
        let bit = 1_u16 << key;
        if self.seen & bit != 0 {
            return Err(Malformed);
        }
        self.seen |= bit;
        match self.item(key, value) {
            Ok(None) => {}
            Ok(Some(fault)) => faults.count(fault),
            Err(Malformed) => faults.count(Fault::ItemMalformed),
        }
        Ok(())
    }

    fn item(&mut self, key: u8, mut value: Reader<'_>) -> Result<Option<Fault>, Malformed> {
        let extensions = &mut self.extensions;
        match key {
            key::TRANSFER => extensions.segment = Some(segment(value.array()?, self.whole)?),
            key::LISTEN => {
                let interval = Duration::from_millis(value.unsigned()?);
                if interval.is_zero() {
                    return Err(Malformed);
                }
                extensions.listens = Some(interval.min(MAX_LISTEN));
            }
            key::NODE_ID => {
                let text = value.text(MAX_NODE_ID_OCTETS)?;
                let node_id = NodeId::parse(text, Reading::Lenient).map_err(|_| Malformed)?;
                extensions.node_id = Some(node_id);
            }
            key::DTLS => return Ok(Some(Fault::Dtls)),
            key::ECN => extensions.ecn = Some(ecn_counts(value.array()?)?),
            // Extension Support proves nothing, so that nothing can follow from it; Peer Probe and Peer Confirmation
            // are not for us.
            _ => {}
        }
        Ok(None)
    }
}

fn segment(mut items: Items<'_, '_>, whole: &Bytes) -> Result<Segment, Malformed> {
    let transfer = items.required()?.unsigned()?;
    let mut second = items.required()?;
    let mut form = second;
    let (length, offset, octets) = match form.head()? {
        Head::Unsigned(length) => {
            let offset = items.required()?.unsigned()?;
            (Some(length), offset, items.required()?.byte_string()?)
        }
        _ => (None, 0, second.byte_string()?),
    };
    items.end()?;
    let octets = whole.slice_ref(octets);
    let own_length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
    Ok(Segment {
        transfer,
        length: length.unwrap_or(own_length),
        offset,
        octets,
    })
}

fn ecn_counts(mut items: Items<'_, '_>) -> Result<EcnCounts, Malformed> {
    let mut count = || {
        let count = items.required()?.unsigned()?;
        u32::try_from(count).map_err(|_| Malformed)
    };
    let (ect0, ect1, ce) = (count()?, count()?, count()?);
    items.end()?;
    Ok(EcnCounts { ect0, ect1, ce })
}

/// Write the head of a Transfer item: what its datagram begins with, but the data.
pub(super) fn write_segment_head(
    out: &mut Vec<u8>,
    transfer: u64,
    place: Option<Place>,
    data: u64,
) {
    out.extend_from_slice(&TRANSFER_HEAD);
    write_array(out, if place.is_some() { 4 } else { 2 });
    write_unsigned(out, transfer);
    if let Some(Place { length, offset }) = place {
        write_unsigned(out, length);
        write_unsigned(out, offset);
    }
    write_byte_string_head(out, data);
}

/// The place of a segment that is not the whole transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Octets of the whole transfer.
    pub(super) length: u64,
    /// Octets before the segment.
    pub(super) offset: u64,
}

/// Octets of a segment's head with `data` octets behind it.
pub(super) const fn segment_head_octets(transfer: u64, place: Option<Place>, data: u64) -> u64 {
    // Map, key and array have one octet each.
    let mut octets = 3 + head_octets(transfer) + head_octets(data);
    if let Some(Place { length, offset }) = place {
        octets += head_octets(length) + head_octets(offset);
    }
    octets
}

/// Data that fit into a datagram of `mtu` octets as one segment, octets.
pub(super) fn segment_room(mtu: u64, transfer: u64, place: Option<Place>) -> u64 {
    // The head of a byte string grows with its length, so more room may be of no use.
    let fixed = segment_head_octets(transfer, place, 0).saturating_sub(head_octets(0));
    let room = mtu.saturating_sub(fixed);
    [23, 0xff, 0xffff]
        .into_iter()
        .map(|most| room.saturating_sub(head_octets(most)).min(most))
        .max()
        .unwrap_or(0)
}

/// Octets of the shortest head with an argument (RFC 8949 3).
const fn head_octets(argument: u64) -> u64 {
    match argument {
        0..=23 => 1,
        24..=0xff => 2,
        0x100..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Write an announcement (draft 3.7): the items that we read, how often we announce ourselves, and who we are.
pub(super) fn write_announcement(out: &mut Vec<u8>, interval: Duration, node_id: Option<&str>) {
    // A map of two or three pairs.
    out.push(if node_id.is_some() { 0xa3 } else { 0xa2 });
    out.push(key::SUPPORT);
    write_array(out, 4);
    SUPPORT.iter().for_each(|item| write_unsigned(out, *item));
    out.push(key::LISTEN);
    write_unsigned(out, u64::try_from(interval.as_millis()).unwrap_or(u64::MAX));
    if let Some(node_id) = node_id {
        out.push(key::NODE_ID);
        write_text(out, node_id);
    }
}
