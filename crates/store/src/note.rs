//! Notes: the part of a bundle's record that changes while it is held (docs/store-format.md 4). A new note is a new commit record, which
//! takes the place of the one before and refers to the same octets.

use bytes::Bytes;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, NOTE_OCTETS, StoreEvent, StoreRefusal};

use crate::compaction::{Hindrance, split_body};
use crate::error::Trouble;
use crate::segment::{Reference, Turn};
use crate::slot::Slot;
use crate::store::Store;
use crate::wire::{Reader, SharedEndpoints};

/// A commit record that took the place of another, and is not durable yet.
#[derive(Debug)]
pub(crate) struct Replacing {
    pub(crate) key: BundleKey,
    pub(crate) former: Slot,
    /// The references of the former one, which go with it; none of a bundle that was moved, since its readers keep them.
    pub(crate) references: Vec<Reference>,
}

impl Store {
    pub(crate) fn handle_note(&mut self, key: BundleKey, note: &Bytes) {
        let Some(former) = self.slots.at(key) else {
            // It is gone, or was never committed: nothing is to be noted of it.
            return;
        };
        let refusal = match self.failure.is_some() {
            true => Some(StoreRefusal::Disk),
            false if planted(Mutant::NoteNotWritten) => None,
            false => self.replace(key, &former, note),
        };
        let event = StoreEvent::Noted { key, refusal };
        match self.failure.is_some() {
            true => self.ready.push(event),
            false => self.waiting.push(event),
        }
    }

    /// Writes a bundle's record anew with this note; why not, if not.
    fn replace(&mut self, key: BundleKey, former: &Slot, note: &Bytes) -> Option<StoreRefusal> {
        let mut held = Vec::new();
        match self.write_noted(former, note, &mut held) {
            Ok(slot) => {
                if let Some(segment) = self.log.segments.at_mut(former.segment) {
                    segment.turn_commit(former.offset, Turn::Dead);
                }
                self.log.segments.touch(former.segment);
                self.slots.put(key, slot);
                self.replacing.push(Replacing {
                    key,
                    former: former.clone(),
                    references: former.references(&self.log.layout).collect(),
                });
                None
            }
            Err(hindrance) => {
                for reference in held {
                    self.log
                        .segments
                        .release(reference, self.checkpoint.place.generation);
                }
                match hindrance {
                    Hindrance::Corrupt => {
                        self.quarantine(key);
                        Some(StoreRefusal::Disk)
                    }
                    Hindrance::Trouble(Trouble::Full) => {
                        self.is_wanting = true;
                        Some(StoreRefusal::Full)
                    }
                    Hindrance::Trouble(Trouble::Disk(error)) => {
                        self.fail(error);
                        Some(StoreRefusal::Disk)
                    }
                }
            }
        }
    }

    fn write_noted(
        &mut self,
        former: &Slot,
        note: &Bytes,
        held: &mut Vec<Reference>,
    ) -> Result<Slot, Hindrance> {
        if self.log.is_staged(former.own(&self.log.layout).offset) {
            self.log.flush()?;
        }
        let body = self.read_body(former)?;
        let (_, metadata) = split_body(&body).ok_or(Hindrance::Corrupt)?;
        let mut bundle = Reader(metadata)
            .bundle(&mut SharedEndpoints::default())
            .ok_or(Hindrance::Corrupt)?;
        bundle.note = note.slice(..note.len().min(NOTE_OCTETS));
        let mut noted = body;
        noted.truncate(noted.len() - metadata_octets(&noted).ok_or(Hindrance::Corrupt)?);
        self.envelope.put(&mut noted, &bundle);
        let (slot, _) = self.write_moved(former, None, &noted, held)?;
        Ok(slot)
    }

    /// The records that took the place of others are durable: those are let go of.
    pub(crate) fn settle_replacing(&mut self) {
        for replacing in std::mem::take(&mut self.replacing) {
            self.releases.extend(replacing.references);
        }
    }

    /// A bundle goes, and with it what it had before its newest record.
    pub(crate) fn let_go_replaced(&mut self, key: BundleKey) {
        let releases = &mut self.releases;
        self.replacing.retain_mut(|replacing| {
            let goes = replacing.key == key;
            if goes {
                releases.append(&mut replacing.references);
            }
            !goes
        });
    }

    /// Puts a bundle back to the record it had before one that did not become durable.
    pub(crate) fn undo_replacing(&mut self, replacing: Replacing) {
        let Replacing {
            key,
            former,
            references,
        } = replacing;
        if references.is_empty() {
            for reference in self.moved.remove(&key).unwrap_or_default() {
                self.log.segments.unpin(reference);
            }
        }
        if let Some(segment) = self.log.segments.at_mut(former.segment) {
            segment.turn_commit(former.offset, Turn::Live);
        }
        if let Some(new) = self.slots.put(key, former) {
            if let Some(segment) = self.log.segments.at_mut(new.segment) {
                segment.turn_commit(new.offset, Turn::Dead);
            }
            for reference in new.references(&self.log.layout) {
                self.log
                    .segments
                    .release(reference, self.checkpoint.place.generation);
            }
        }
    }
}

/// Octets of the part of a commit's body that says what the bundle is.
fn metadata_octets(body: &[u8]) -> Option<usize> {
    split_body(body).map(|(_, metadata)| metadata.len())
}
