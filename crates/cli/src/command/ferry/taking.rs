//! Bundles that go from the medium into the node: a file at a time, removed once the node says that its bundle is durable.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dhow_bundle::DtnTime;
use dhow_bundle::v7::forward::UnsupportedBlocks;
use dhow_bundle::{HopEdit, NodeId, Version};
use dhow_client::ferry::name::{Digest, FileKind};
use dhow_client::ferry::note::expiry;
use dhow_client::ferry::{Acknowledgment, Found, Layer, Stick, Writable};
use dhow_link::external::wire::Said;

use super::clock::Clock;
use super::file::{BundleFile, PIECE_OCTETS};
use super::lines::Subject;

/// Bundles that the node has not answered, at most.
pub const UNDER_WAY_MAX: usize = 16;

/// Files that are not looked at for a while, at most; the others are read again at each look.
const RESTS_MAX: usize = 65_536;

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

/// Bundles on their way into the node.
#[derive(Debug, Default)]
pub struct Taking {
    next: u64,
    given: HashMap<u64, Given>,
    giving: Option<Giving>,
    rests: HashMap<String, Instant>,
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
            && !self.given.values().any(|it| it.found == *found)
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
        if stick.writable() == Writable::Yes {
            let note = Acknowledgment::of(&given.subject.id, node, given.expires);
            if let Err(error) = stick.acknowledge(&given.found, &note) {
                // The node knows the bundle when it is given again.
                self.rest(&given.found, AGAIN);
                return Err(error);
            }
        } else {
            self.leave(&given.found);
        }
        Ok(Some(Outcome::Taken(given.subject)))
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
