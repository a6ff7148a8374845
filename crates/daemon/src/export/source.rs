//! The content of a store whose node runs, piece by piece: between two pieces the node works on.
//!
//! A bundle that is there from the first piece to the last is in it. One that comes meanwhile may be, and one that goes is not.

use dhow_bundle::storage::{BundleKey, Extents, StoredBundle};
use dhow_bundle::{BundleId, Now};
use dhow_node::Node;
use dhow_node::recording::item::Item as _;
use serde_json::json;

use super::frame::{Kind, MAGIC, OCTETS_MAX, write};
use crate::extents::ExtentReader;

/// Octets of a piece, about: the node's thread reads them in one turn.
const PIECE_OCTETS: usize = 1 << 20;

/// Bundles of a piece, at most.
const PIECE_BUNDLES: usize = 1_024;

/// The place at which an export goes on.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    is_begun: bool,
    next: u32,
    /// The bundle of which a part is written, and how much.
    partly: Option<(BundleId, u64)>,
    bundles: u64,
    octets: u64,
    gone: u64,
}

impl Cursor {
    /// Adds the next piece to `out`; comes back with the place at which it goes on, if it does.
    #[must_use]
    pub fn write(
        mut self,
        node: &Node,
        now: Now,
        reader: &ExtentReader,
        out: &mut Vec<u8>,
    ) -> Option<Self> {
        if !self.is_begun {
            self.is_begun = true;
            out.extend_from_slice(MAGIC);
            let (bundles, octets) = node.stored();
            let head = json!({
                "node": node.node_ids().first().map(ToString::to_string),
                "program": concat!("dhow ", env!("CARGO_PKG_VERSION")),
                "dtn_ms": now.dtn.as_millis(),
                "bundles": bundles,
                "octets": octets,
            });
            write(out, Kind::Head, head.to_string().as_bytes());
        }
        for _ in 0..PIECE_BUNDLES {
            if out.len() >= PIECE_OCTETS {
                return Some(self);
            }
            let found = node.stored_from(now, BundleKey(self.next));
            let is_other = |id: &BundleId| {
                found
                    .as_ref()
                    .is_none_or(|(key, bundle, _)| key.0 != self.next || bundle.id != *id)
            };
            if self.partly.as_ref().is_some_and(|(id, _)| is_other(id)) {
                self.partly = None;
                self.gone += 1;
                self.next = self.next.saturating_add(1);
                write(out, Kind::Gone, &[]);
                continue;
            }
            let Some((key, bundle, extents)) = found else {
                self.end(node, out);
                return None;
            };
            self.next = key.0;
            self.write_bundle(reader, (bundle, &extents), out);
        }
        Some(self)
    }

    /// Writes a bundle, or the next part of a long one.
    fn write_bundle(
        &mut self,
        reader: &ExtentReader,
        (bundle, extents): (StoredBundle, &Extents),
        out: &mut Vec<u8>,
    ) {
        let mut at = match self.partly.take() {
            Some((_, at)) => at,
            None => {
                let mut record = Vec::new();
                bundle.write(&mut record);
                write(out, Kind::Bundle, &record);
                0
            }
        };
        let total = extents.length();
        while at < total {
            if out.len() >= PIECE_OCTETS {
                self.partly = Some((bundle.id, at));
                return;
            }
            let most = u64::try_from(OCTETS_MAX).unwrap_or(0).min(total - at);
            match reader.read(&extents.slice(at, most)) {
                Ok(octets) if !octets.is_empty() => {
                    write(out, Kind::Octets, &octets);
                    at += u64::try_from(octets.len()).unwrap_or(0);
                }
                // The disk does not give it: the node will find that out by itself.
                _ => {
                    self.gone += 1;
                    self.next = self.next.saturating_add(1);
                    write(out, Kind::Gone, &[]);
                    return;
                }
            }
        }
        self.bundles += 1;
        self.octets = self.octets.saturating_add(total);
        self.next = self.next.saturating_add(1);
        write(out, Kind::Whole, &[]);
    }

    fn end(&self, node: &Node, out: &mut Vec<u8>) {
        let (time, sequence) = node.reserved();
        let end = json!({
            "bundles": self.bundles,
            "octets": self.octets,
            "gone": self.gone,
            "damaged": node.damaged(),
            "reserved_dtn_ms": time.as_millis(),
            "reserved_sequence": sequence,
        });
        write(out, Kind::End, end.to_string().as_bytes());
    }
}
