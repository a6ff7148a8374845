//! The summary of an advert: hashes of the bundles that a node holds, under a key of its own (docs/adverts.md).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::cbor::{Reader, write_array, write_byte_string};

use super::AdvertKey;

/// Bundles that an advert tells of, at most.
pub(super) const ADVERT_BUNDLES: usize = 4_096;

/// News wait so long for others.
pub(super) const GATHERED: Duration = Duration::from_millis(100);

/// The time between two adverts to a neighbour that stays, for each neighbour that is there, and its bounds: the least is twice that after which the next one
/// is heard.
const NEWS_SHARE: Duration = Duration::from_millis(50);
const NEWS_INTERVAL_LEAST: Duration = Duration::from_millis(200);
const NEWS_INTERVAL_MOST: Duration = Duration::from_secs(2);

/// The time between two adverts to a neighbour that stays, at least, where so many are there: all of them together are told twenty times a second at most.
pub(super) fn news_interval(neighbours: usize) -> Duration {
    let neighbours = u32::try_from(neighbours).unwrap_or(u32::MAX);
    let shared = NEWS_SHARE.saturating_mul(neighbours);
    shared.clamp(NEWS_INTERVAL_LEAST, NEWS_INTERVAL_MOST)
}

/// When a router looks at which neighbours that are there are told something again.
#[derive(Default)]
pub(super) struct Look(Option<Instant>);

impl Look {
    /// It does so at this time at the latest.
    pub(super) fn be_due(&mut self, at: Instant) {
        self.0 = Some(self.0.map_or(at, |due| due.min(at)));
    }

    /// When it does.
    pub(super) const fn at(&self) -> Option<Instant> {
        self.0
    }

    /// Whether it does so now; then it is due no more.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        self.0.take_if(|due| *due <= now).is_some()
    }
}

/// Bundles that are compared with a neighbour's advert, at most.
pub(super) const COMPARED_BOUND: usize = 65_536;

/// Octets of the hash of a bundle.
const HASH_OCTETS: usize = 8;

/// An advert, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Summary<'a> {
    pub(super) key: AdvertKey,
    pub(super) hashes: BTreeSet<u64>,
    /// More that the router says, where it says more.
    pub(super) table: Option<&'a [u8]>,
}

/// Whether a router says more than its bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Bundles never change.
    Bundles,
    /// A table of its own may follow: it is left out where it is as it was told.
    WithTable,
}

/// An advert.
pub(super) fn write(
    key: &AdvertKey,
    hashes: impl Iterator<Item = u64>,
    table: Option<&[u8]>,
) -> Vec<u8> {
    let hashes: Vec<u8> = hashes.flat_map(u64::to_le_bytes).collect();
    let table_octets = table.map_or(0, <[u8]>::len);
    let mut out = Vec::with_capacity(hashes.len() + table_octets + 32);
    write_array(&mut out, 2 + u64::from(table.is_some()));
    write_byte_string(&mut out, key);
    write_byte_string(&mut out, &hashes);
    if let Some(table) = table {
        write_byte_string(&mut out, table);
    }
    out
}

/// The key, the hashes and the table of an advert; none where its octets are no advert of this form.
pub(super) fn read(advert: &[u8], form: Form) -> Option<Summary<'_>> {
    let mut reader = Reader::new(advert);
    let mut array = reader.array().ok()?;
    array.item(&mut reader).ok()?;
    let key = reader.byte_string().ok()?.try_into().ok()?;
    array.item(&mut reader).ok()?;
    let hashes = reader.byte_string().ok()?;
    let has_more = form == Form::WithTable && array.next(&mut reader).ok()?;
    let table = match has_more {
        true => Some(reader.byte_string().ok()?),
        false => None,
    };
    if form == Form::Bundles || has_more {
        array.end(&mut reader).ok()?;
    }
    let (hashes, rest) = hashes.as_chunks::<HASH_OCTETS>();
    let is_whole = rest.is_empty() && hashes.len() <= ADVERT_BUNDLES && reader.is_empty();
    let hashes = hashes.iter().map(|hash| u64::from_le_bytes(*hash));
    is_whole.then(|| Summary {
        key,
        hashes: hashes.collect(),
        table,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn many_neighbours_are_told_less_often() {
        let ms = [0, 1, 4, 5, 31, 40, 41, usize::MAX].map(|it| news_interval(it).as_millis());
        assert_eq!(ms, [200, 200, 200, 250, 1_550, 2_000, 2_000, 2_000]);
    }

    proptest! {
        #[test]
        fn any_octets_are_a_summary_or_none(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            for form in [Form::Bundles, Form::WithTable] {
                let _ = read(&octets, form);
            }
            let mut framed = Vec::new();
            write_array(&mut framed, 2);
            write_byte_string(&mut framed, &[1; 16]);
            write_byte_string(&mut framed, &octets);
            prop_assert_eq!(read(&framed, Form::Bundles).is_some(), octets.len() % HASH_OCTETS == 0);
            prop_assert_eq!(read(&framed, Form::WithTable), read(&framed, Form::Bundles));
        }

        #[test]
        fn a_summary_is_read_as_it_was_written(hashes in proptest::collection::btree_set(any::<u64>(), 0..20), table in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20))) {
            let advert = write(&[3; 16], hashes.iter().copied(), table.as_deref());
            let summary = read(&advert, Form::WithTable).unwrap();
            prop_assert_eq!(&summary.hashes, &hashes);
            prop_assert_eq!(summary.table, table.as_deref());
            let alone = read(&advert, Form::Bundles).map(|it| it.hashes);
            prop_assert_eq!(alone, table.is_none().then_some(hashes));
        }
    }
}
