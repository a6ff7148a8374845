//! The content of a store whose node does not run.

use dhow_bundle::DtnTime;
use dhow_bundle::storage::{Extents, StoredBundle};
use dhow_node::recording::item::Item as _;
use dhow_store::{Recovered, Store, Verdict};
use serde_json::json;

use super::frame::{Kind, MAGIC, OCTETS_MAX, write};
use crate::config::NodeFile;

/// Writes all of a store that was opened. `take` is given the octets piece by piece.
///
/// # Errors
/// Those of `take`, and by `unread` of a disk that does not give a bundle back which it gave a moment before.
pub fn export<E>(
    file: &NodeFile,
    (mut store, recovered): (Store, Recovered),
    now: DtnTime,
    take: &mut impl FnMut(&[u8]) -> Result<(), E>,
    unread: impl Fn(&str) -> E,
) -> Result<(), E> {
    let lost = u64::try_from(recovered.loss.places.len()).unwrap_or(u64::MAX);
    let mut damaged = recovered.loss.bundles.max(lost);
    let bundles: Vec<_> = recovered.bundles.collect();
    let octets = |extents: &Extents| extents.length();
    let head = json!({
        "node": file.node.node_ids.first().map(ToString::to_string),
        "program": concat!("dhow ", env!("CARGO_PKG_VERSION")),
        "dtn_ms": now.as_millis(),
        "bundles": bundles.len(),
        "octets": bundles.iter().map(|(.., extents)| octets(extents)).sum::<u64>(),
    });
    let mut out = MAGIC.to_vec();
    write(&mut out, Kind::Head, head.to_string().as_bytes());
    let (mut written, mut written_octets) = (0_u64, 0_u64);
    for (key, bundle, extents) in bundles {
        if !matches!(store.verify(key), Ok(Verdict::Intact)) {
            damaged += 1;
            continue;
        }
        write_bundle(&store, &bundle, &extents, &mut out, (take, &unread))?;
        written += 1;
        written_octets = written_octets.saturating_add(octets(&extents));
    }
    let end = json!({
        "bundles": written,
        "octets": written_octets,
        "gone": 0,
        "damaged": damaged,
        "reserved_dtn_ms": recovered.reserved_time.as_millis(),
        "reserved_sequence": recovered.reserved_sequence,
    });
    write(&mut out, Kind::End, end.to_string().as_bytes());
    take(&out)
}

fn write_bundle<E>(
    store: &Store,
    bundle: &StoredBundle,
    extents: &Extents,
    out: &mut Vec<u8>,
    (take, unread): (&mut impl FnMut(&[u8]) -> Result<(), E>, &impl Fn(&str) -> E),
) -> Result<(), E> {
    let mut record = Vec::new();
    bundle.write(&mut record);
    write(out, Kind::Bundle, &record);
    let reader = store.reader();
    let mut piece = vec![0; OCTETS_MAX];
    for extent in extents.as_slice() {
        let mut at = 0;
        while at < extent.length {
            let read = reader.read(*extent, at, &mut piece);
            let read = read.map_err(|error| unread(&error.to_string()))?;
            let octets = piece.get(..read).filter(|octets| !octets.is_empty());
            let octets = octets.ok_or_else(|| unread("it gave less than it holds"))?;
            write(out, Kind::Octets, octets);
            at += u64::try_from(read).unwrap_or(u64::MAX);
            take(&std::mem::take(out))?;
        }
    }
    write(out, Kind::Whole, &[]);
    take(&std::mem::take(out))
}
