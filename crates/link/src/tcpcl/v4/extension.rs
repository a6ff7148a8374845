//! Session and transfer extension items (RFC 9174 4.8, 5.2.5).

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

/// CRITICAL (RFC 9174 tables 3 and 7): the receiver must understand the item.
const CRITICAL: u8 = 0x01;

/// The Transfer Length extension (RFC 9174 8.4).
const TRANSFER_LENGTH: u16 = 0x0001;

/// Octets of a Transfer Length item: flags, type, length and value.
const TRANSFER_LENGTH_OCTETS: u32 = 1 + 2 + 2 + 8;

/// Prefixes kept, a session extension of our own from the private range (RFC 9174 8.3;
/// docs/tcpcl-extensions.md 1).
const PREFIXES_KEPT: u16 = 0xD401;

/// The version of it that this program speaks; others are taken for no item.
const PREFIXES_KEPT_VERSION: u8 = 1;

/// Unverified, a transfer extension of our own from the private range (RFC 9174 8.4;
/// docs/tcpcl-extensions.md 2).
const UNVERIFIED: u16 = 0xD402;

/// Octets of an item's flags, type and length.
const ITEM_HEAD_OCTETS: u32 = 1 + 2 + 2;

/// A fault in a list of extension items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum ExtensionFault {
    /// The items do not fill the list exactly.
    #[error("extension items disagree with the length of their list")]
    Length,
    /// An item that must be understood is not.
    #[error("critical extension item of unknown type {0:#06x}")]
    UnknownCritical(u16),
    /// A Transfer Length item without exactly eight octets of value.
    #[error("Transfer Length item of {0} octets")]
    TransferLengthSize(u16),
    /// More than one Transfer Length item.
    #[error("more than one Transfer Length item")]
    TransferLengthTwice,
}

/// The content of a transfer's extension items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TransferExtensions {
    /// Octets of the whole transfer (RFC 9174 5.2.5.1).
    pub(super) length: Option<u64>,
    /// Whether the transfer may turn out wrong: no part of it is to be kept.
    pub(super) unverified: bool,
    /// The first fault found; the transfer is to be refused.
    pub(super) fault: Option<ExtensionFault>,
}

impl TransferExtensions {
    /// Read a whole list of transfer extension items.
    pub(super) fn decode(list: &[u8]) -> Self {
        let mut extensions = Self::default();
        extensions.fault = each_item(list, |item| extensions.add(item)).err();
        extensions
    }

    fn add(&mut self, item: Item<'_>) -> Result<(), ExtensionFault> {
        if item.kind == UNVERIFIED && item.value.is_empty() {
            self.unverified = true;
            return Ok(());
        }
        if item.kind != TRANSFER_LENGTH {
            return item.skip();
        }
        let Ok(value) = <[u8; 8]>::try_from(item.value) else {
            return Err(ExtensionFault::TransferLengthSize(item.length));
        };
        // RFC 9174 5.2.5.1: at most one Transfer Length item.
        match self.length.replace(u64::from_be_bytes(value)) {
            None => Ok(()),
            Some(_) => Err(ExtensionFault::TransferLengthTwice),
        }
    }

    /// Write the list, its length first.
    pub(super) fn encode(self, out: &mut BytesMut) {
        let length_octets = self.length.map_or(0, |_| TRANSFER_LENGTH_OCTETS);
        let unverified_octets = if self.unverified { ITEM_HEAD_OCTETS } else { 0 };
        out.put_u32(length_octets + unverified_octets);
        // Neither is critical: a receiver loses nothing by not knowing it.
        if let Some(length) = self.length {
            out.put_u8(0);
            out.put_u16(TRANSFER_LENGTH);
            out.put_u16(8);
            out.put_u64(length);
        }
        if self.unverified {
            out.put_u8(0);
            out.put_u16(UNVERIFIED);
            out.put_u16(0);
        }
    }
}

/// The content of a peer's session extension items (RFC 9174 4.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionExtensions {
    /// Whether the peer keeps the acknowledged part of a transfer that fails.
    pub(super) keeps_reactive_fragments: bool,
}

impl SessionExtensions {
    /// Read a whole list of session extension items.
    pub(super) fn decode(list: &[u8]) -> Result<Self, ExtensionFault> {
        let mut extensions = Self::default();
        each_item(list, |item| {
            if item.kind == PREFIXES_KEPT && item.value == [PREFIXES_KEPT_VERSION] {
                extensions.keeps_reactive_fragments = true;
                return Ok(());
            }
            item.skip()
        })?;
        Ok(extensions)
    }

    /// The items as a list, without its length.
    pub(super) fn encode(self) -> Bytes {
        let mut out = BytesMut::new();
        if self.keeps_reactive_fragments {
            // Not critical: without it transfers begin again.
            out.put_u8(0);
            out.put_u16(PREFIXES_KEPT);
            out.put_u16(1);
            out.put_u8(PREFIXES_KEPT_VERSION);
        }
        out.freeze()
    }
}

struct Item<'a> {
    flags: u8,
    kind: u16,
    length: u16,
    value: &'a [u8],
}

impl Item<'_> {
    /// RFC 9174 4.8, 5.2.5: an unknown item is skipped unless it is critical.
    const fn skip(&self) -> Result<(), ExtensionFault> {
        if self.flags & CRITICAL == 0 {
            Ok(())
        } else {
            Err(ExtensionFault::UnknownCritical(self.kind))
        }
    }
}

fn each_item<'a>(
    mut list: &'a [u8],
    mut visit: impl FnMut(Item<'a>) -> Result<(), ExtensionFault>,
) -> Result<(), ExtensionFault> {
    while !list.is_empty() {
        let Some((&[flags, k0, k1, l0, l1], rest)) = list.split_first_chunk() else {
            return Err(ExtensionFault::Length);
        };
        let length = u16::from_be_bytes([l0, l1]);
        let Some((value, rest)) = rest.split_at_checked(usize::from(length)) else {
            return Err(ExtensionFault::Length);
        };
        visit(Item {
            flags,
            kind: u16::from_be_bytes([k0, k1]),
            length,
            value,
        })?;
        list = rest;
    }
    Ok(())
}
