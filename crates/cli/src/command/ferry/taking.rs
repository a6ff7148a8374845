//! Bundles that go from the medium into the node: a file at a time, removed once the node says that its bundle is durable.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dhow_bundle::DtnTime;
use dhow_bundle::v7::forward::UnsupportedBlocks;
use dhow_bundle::{HopEdit, NodeId, Version};
use dhow_client::ferry::name::{Digest, FileKind};
use dhow_client::ferry::note::expiry;
use dhow_client::ferry::{Acknowledgment, Answered, Found, Layer, Stick, Writable};
use dhow_link::external::wire::Said;

use super::clock::Clock;
use super::file::{BundleFile, PIECE_OCTETS};
use super::lines::Subject;

/// Bundles that the node has not answered, at most.
pub const UNDER_WAY_MAX: usize = 16;

/// Files that are not looked at for a while, at most; the others are read again at each look.
const RESTS_MAX: usize = 65_536;

/// Acknowledgments that are to be written once the medium takes them, at most; further bundles are given to the node again, which knows them.
const OWED_MAX: usize = 16_384;

/// The time until a file that the node refused is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// The time until a file that cannot be taken is looked at again.
const LONG: Duration = Duration::from_secs(600);

/// Pieces that are given to the node before it is listened to.
const PIECES: usize = 16;

/// RFC 9174 table 6: the node has the whole bundle already.
const COMPLETED: u64 = 1;

/// A bundle that the node was given.
#[derive(Debug)]
struct Given {
    found: Found,
    subject: Subject,
    expires: Option<DtnTime>,
}

/// A bundle that is being given.
#[derive(Debug)]
struct Giving {
    transfer: u64,
    file: File,
    digest: Digest,
    /// Octets of the file that were not read.
    left: u64,
    /// Octets that were read, and are said once it is known that more come or all are right.
    next: Vec<u8>,
}

/// The outcome of a bundle that was given.
#[derive(Debug)]
pub enum Outcome {
    /// The bundle is durable in the node.
    Taken(Subject),
    /// The node does not take it now.
    Refused(Subject),
    /// Its file is not what its name says.
    Torn(String),
}

/// An acknowledgment of a bundle that the node has, which the medium does not take yet. If it is lost, the bundle is given to the node again, by
/// its file or by its writer, and acknowledged then.
#[derive(Debug)]
struct Owed {
    found: Found,
    note: Acknowledgment,
}

/// Bundles on their way into the node.
#[derive(Debug, Default)]
pub struct Taking {
    next: u64,
    given: HashMap<u64, Given>,
    giving: Option<Giving>,
    rests: HashMap<String, Instant>,
    owed: BTreeMap<String, Owed>,
}

impl Taking {
    /// Whether a bundle is on its way.
    pub fn is_busy(&self) -> bool {
        self.giving.is_some() || !self.given.is_empty()
    }

    /// Whether octets are to be given.
    pub const fn is_giving(&self) -> bool {
        self.giving.is_some()
    }

    /// Whether another file may be begun.
    pub fn has_room(&self) -> bool {
        self.giving.is_none() && self.given.len() < UNDER_WAY_MAX
    }

    /// Whether a file is to be looked at.
    pub fn is_new(&self, found: &Found) -> bool {
        let rests = self.rests.get(&found.text);
        rests.is_none_or(|until| *until <= Instant::now())
            && !self.owed.contains_key(&found.text)
            && !self.given.values().any(|it| it.found == *found)
    }

    /// Acknowledgments that the medium does not take yet.
    pub fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Writes acknowledgments that are owed, until the medium takes no more of them. Those of bundles that have expired concern nobody.
    pub fn pay(&mut self, stick: &Stick, now: Option<DtnTime>) -> io::Result<()> {
        let is_over = |owed: &Owed| owed.note.expires.zip(now).is_some_and(|(at, now)| at < now);
        self.owed.retain(|_, owed| !is_over(owed));
        while let Some(first) = self.owed.first_entry() {
            let owed = first.get();
            match stick.acknowledge(&owed.found, &owed.note) {
                Ok(Answered::Owed) => return Ok(()),
                Ok(Answered::Durable) => drop(first.remove()),
                // The directory of the writer is gone.
                Err(error) if error.kind() == io::ErrorKind::NotFound => drop(first.remove()),
                Err(error) => {
                    if error.kind() != io::ErrorKind::ReadOnlyFilesystem {
                        let owed = first.remove();
                        self.rest(&owed.found, AGAIN);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn owe(&mut self, found: Found, note: Acknowledgment) {
        if self.owed.len() < OWED_MAX {
            self.owed.insert(found.text.clone(), Owed { found, note });
        } else {
            self.leave(&found);
        }
    }

    /// A file is not looked at again for a long time.
    pub fn leave(&mut self, found: &Found) {
        self.rest(found, LONG);
    }

    fn rest(&mut self, found: &Found, time: Duration) {
        let now = Instant::now();
        if self.rests.len() >= RESTS_MAX {
            self.rests.retain(|_, until| *until > now);
        }
        if self.rests.len() < RESTS_MAX {
            self.rests.insert(found.text.clone(), now + time);
        }
    }

    /// Begins to give a bundle. One that counts its age is as much older as it was on the medium (RFC 9171 4.4.2).
    pub fn begin(
        &mut self,
        layer: &mut Layer,
        clock: Clock,
        found: Found,
        bundle: BundleFile,
    ) -> io::Result<()> {
        let BundleFile {
            mut file,
            header,
            octets,
            modified,
        } = bundle;
        let mut digest = Digest::default();
        let mut next = Vec::new();
        let mut left = octets;
        let mut total = octets;
        if header.version() == Version::V7 && header.age_ms().is_some() {
            let edit = HopEdit {
                previous_node: header
                    .previous_node()
                    .and_then(|it| NodeId::new(it.clone()).ok()),
                age_increase_ms: clock.stay_ms(modified),
                unsupported: UnsupportedBlocks::Keep,
                ..HopEdit::default()
            };
            let aged = header.forwarded(&edit);
            let before = u64::from(header.header_octets());
            file.seek(SeekFrom::Start(before))?;
            digest.update(&header.octets);
            next.extend_from_slice(&aged.octets);
            left = octets.saturating_sub(before);
            let count = u64::try_from(next.len()).unwrap_or(0);
            total = left.saturating_add(count);
        }
        self.next += 1;
        let transfer = self.next;
        layer.say(&Said::Begin {
            transfer,
            octets: total,
        })?;
        let given = Given {
            subject: Subject::of(&header, octets),
            expires: expiry(header.primary.creation, header.primary.lifetime_ms),
            found,
        };
        self.given.insert(transfer, given);
        self.giving = Some(Giving {
            transfer,
            file,
            digest,
            left,
            next,
        });
        Ok(())
    }

    /// Gives some octets. The last of them are given only if all are those that the file's name says.
    pub fn give(&mut self, layer: &mut Layer) -> Result<Option<Outcome>, GiveError> {
        for _ in 0..PIECES {
            let Some(giving) = &mut self.giving else {
                return Ok(None);
            };
            let limit = u64::try_from(PIECE_OCTETS).unwrap_or(0);
            let mut piece = Vec::new();
            let read = (&mut giving.file)
                .take(limit.min(giving.left))
                .read_to_end(&mut piece);
            let count = read.map_err(GiveError::Stick)?;
            let count = u64::try_from(count).unwrap_or(0);
            giving.digest.update(&piece);
            giving.left = match count {
                // It became shorter meanwhile.
                0 => 0,
                count => giving.left.saturating_sub(count),
            };
            let before = std::mem::replace(&mut giving.next, piece);
            for part in before.chunks(PIECE_OCTETS) {
                let part = Bytes::copy_from_slice(part);
                layer.say(&Said::Data(part)).map_err(GiveError::Node)?;
            }
            if giving.left == 0 {
                return self.end(layer).map_err(GiveError::Node);
            }
        }
        Ok(None)
    }

    fn end(&mut self, layer: &mut Layer) -> io::Result<Option<Outcome>> {
        let Some(giving) = self.giving.take() else {
            return Ok(None);
        };
        let Some(given) = self.given.get(&giving.transfer) else {
            // The node refused it meanwhile.
            layer.say(&Said::Abort)?;
            return Ok(None);
        };
        let digest = FileKind::Bundle(giving.digest.finish());
        if digest == given.found.name.kind && !giving.next.is_empty() {
            let rest = Bytes::from(giving.next);
            layer.say(&Said::Data(rest))?;
            return Ok(None);
        }
        layer.say(&Said::Abort)?;
        let found = given.found.clone();
        self.given.remove(&giving.transfer);
        self.leave(&found);
        Ok(Some(Outcome::Torn(found.text)))
    }

    /// The node has a bundle: it is acknowledged on the medium, and removed from there.
    pub fn acknowledged(
        &mut self,
        stick: &Stick,
        node: &NodeId,
        transfer: u64,
    ) -> io::Result<Option<Outcome>> {
        let Some(given) = self.given.remove(&transfer) else {
            return Ok(None);
        };
        let Given { found, subject, .. } = given;
        let note = Acknowledgment::of(&subject.id, node, given.expires);
        if stick.writable() == Writable::No {
            self.owe(found, note);
            return Ok(Some(Outcome::Taken(subject)));
        }
        match stick.acknowledge(&found, &note) {
            Ok(Answered::Durable) => {}
            Ok(Answered::Owed) => self.owe(found, note),
            Err(error) => {
                match error.kind() {
                    io::ErrorKind::ReadOnlyFilesystem => self.owe(found, note),
                    // The node knows the bundle when it is given again.
                    _ => self.rest(&found, AGAIN),
                }
                return Err(error);
            }
        }
        Ok(Some(Outcome::Taken(subject)))
    }

    /// The node does not take a bundle.
    pub fn refused(
        &mut self,
        stick: &Stick,
        node: &NodeId,
        (transfer, reason): (u64, u64),
    ) -> io::Result<Option<Outcome>> {
        if reason == COMPLETED {
            return self.acknowledged(stick, node, transfer);
        }
        let Some(given) = self.given.remove(&transfer) else {
            return Ok(None);
        };
        self.rest(&given.found, AGAIN);
        Ok(Some(Outcome::Refused(given.subject)))
    }
}

/// The side that failed while octets were given.
#[derive(Debug)]
pub enum GiveError {
    /// The medium.
    Stick(io::Error),
    /// The node.
    Node(io::Error),
}

#[cfg(test)]
mod tests {
    use dhow_client::ferry::{FileName, Key};

    use super::*;

    /// The file of a bundle in a writer's directory, as a look finds it, and its acknowledgment.
    fn taken(stick: &Stick, number: u64, expires: Option<u64>) -> (Found, Acknowledgment) {
        let id = dhow_bundle::BundleId {
            source: "ipn:1.1".parse().unwrap(),
            creation: dhow_bundle::CreationTimestamp {
                time: DtnTime::from_millis(number),
                sequence: 0,
            },
            fragment: None,
        };
        let mut part = stick.begin(Key::of(&id)).unwrap();
        part.write(b"octets").unwrap();
        let found = part.finish(stick.own(), Key::of(&id)).unwrap();
        let expires = expires.map(DtnTime::from_millis);
        let by: NodeId = "ipn:2.0".parse().unwrap();
        (found, Acknowledgment::of(&id, &by, expires))
    }

    fn names(stick: &Stick) -> Vec<FileName> {
        let mut look = stick.look().unwrap();
        let mut names = Vec::new();
        while let Some(found) = look.next(stick).unwrap() {
            names.push(found.name);
        }
        names
    }

    #[test]
    fn what_is_owed_is_written_later_and_given_to_the_node_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let stick = Stick::open(folder.path(), &"ipn:1.0".parse().unwrap(), [1; 16]).unwrap();
        let mut taking = Taking::default();
        let (first, note) = taken(&stick, 1, Some(5_000));
        assert!(taking.is_new(&first));
        taking.owe(first.clone(), note);
        // Its file may be gone already: its room was to be the acknowledgment's.
        let (second, note) = taken(&stick, 2, None);
        stick.remove(&second).unwrap();
        taking.owe(second, note);
        assert_eq!((taking.owed(), taking.is_new(&first)), (2, false));
        taking
            .pay(&stick, Some(DtnTime::from_millis(5_000)))
            .unwrap();
        assert_eq!(taking.owed(), 0);
        let names = names(&stick);
        assert_eq!(names.len(), 2);
        assert!(names.iter().all(|it| it.kind == FileKind::Acknowledgment));
    }

    #[test]
    fn nobody_is_owed_the_acknowledgment_of_an_expired_bundle_or_of_a_directory_that_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let stick = Stick::open(folder.path(), &"ipn:1.0".parse().unwrap(), [1; 16]).unwrap();
        let mut taking = Taking::default();
        let (found, note) = taken(&stick, 1, Some(5_000));
        taking.owe(found, note);
        let (mut other, note) = taken(&stick, 2, None);
        other.writer = dhow_client::ferry::WriterKey::of(&"ipn:9.0".parse().unwrap());
        taking.owe(other, note);
        taking
            .pay(&stick, Some(DtnTime::from_millis(5_001)))
            .unwrap();
        assert_eq!(taking.owed(), 0);
        let kinds = names(&stick).into_iter().map(|it| it.kind);
        assert_eq!(
            kinds.filter(|it| *it == FileKind::Acknowledgment).count(),
            0
        );
    }
}
