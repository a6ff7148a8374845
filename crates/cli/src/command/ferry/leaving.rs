//! Bundles that go from the node onto the medium: each becomes a file, and the node is told once that file is durable.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use bytes::Bytes;
use dhow_bundle::header::MAX_HEADER_OCTETS;
use dhow_bundle::{DtnTime, Header, Reading};
use dhow_client::ferry::note::expiry;
use dhow_client::ferry::{Found, Key, Layer, Part, Stick, Writable};
use dhow_link::external::session::KEPT_MAX;
use dhow_link::external::wire::Said;

use super::file::BundleFile;
use super::lines::Subject;

/// Files of this node on a medium that are known, at most; a bundle whose file is not known is written once more.
const PRESENT_MAX: usize = 131_072;

/// Acknowledgments of bundles that the node has not offered yet, at most; the others are found at a later look.
const ACKNOWLEDGED_MAX: usize = 65_536;

/// Bundles of which it is known that the medium has not taken them, at most; further ones are not counted.
const REFUSED_MAX: usize = 65_536;

/// Files that are finished before their directory is flushed for all of them.
pub const FINISHED_MAX: usize = 64;

/// RFC 9174 table 6.
const UNKNOWN: u8 = 0;
const COMPLETED: u8 = 1;
const NO_RESOURCES: u8 = 2;
const NOT_ACCEPTABLE: u8 = 4;

/// Whether the node lets go of a bundle that is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The node keeps the bundle until another node acknowledges it, or it expires.
    Keep,
    /// The medium has the only copy.
    HandOver,
}

impl Ownership {
    /// Whether the node is told of a file that is there already. A medium may be read-only because it has failed: what it shows then need not be
    /// on it, and it becomes no only copy.
    const fn relies_on(self, writable: Writable) -> bool {
        matches!((self, writable), (Self::Keep, _) | (_, Writable::Yes))
    }
}

/// The bundle that the node is sending.
#[derive(Debug)]
struct Incoming {
    transfer: u64,
    octets: u64,
    received: u64,
    use_: Use,
}

/// The place to which the octets of a bundle go.
#[derive(Debug)]
enum Use {
    /// Nobody knows before its header has come.
    Head(Vec<u8>),
    /// Into a file.
    Write(Part, Subject, Option<DtnTime>),
    /// Nowhere: its file is there.
    Skip(Subject, Option<DtnTime>),
    /// Nowhere: it was answered.
    Drop,
}

/// A bundle that the node keeps, and that is on the medium.
#[derive(Debug)]
struct Kept {
    transfer: u64,
    expires: Option<DtnTime>,
}

/// Something to tell about a bundle or the medium.
#[derive(Debug)]
pub enum News {
    /// The bundle is on the medium, durably.
    Written(Subject),
    /// The medium takes no more, and why.
    Full(String),
    /// The medium is read-only.
    ReadOnly,
    /// The medium refuses to be written.
    Trouble(io::Error),
    /// The node was told that another node has the bundle.
    Acknowledged(Subject),
    /// Nobody can say which bundle it is.
    Unreadable(String),
}

/// Bundles on their way to the medium, and those that are there.
#[derive(Debug)]
pub struct Leaving {
    ownership: Ownership,
    incoming: Option<Incoming>,
    finished: Vec<(u64, Subject, Option<DtnTime>, bool)>,
    kept: HashMap<Key, Kept>,
    present: BTreeMap<Key, Found>,
    acknowledged: HashSet<Key>,
    refused: HashSet<Key>,
}

impl Leaving {
    /// None so far.
    pub fn new(ownership: Ownership) -> Self {
        Self {
            ownership,
            incoming: None,
            finished: Vec::new(),
            kept: HashMap::new(),
            present: BTreeMap::new(),
            acknowledged: HashSet::new(),
            refused: HashSet::new(),
        }
    }

    /// Whether a bundle is on its way.
    pub const fn is_busy(&self) -> bool {
        self.incoming.is_some() || !self.finished.is_empty()
    }

    /// Whether files are finished of which the node was not told.
    pub const fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Whether octets of a bundle are to come.
    pub const fn has_incoming(&self) -> bool {
        self.incoming.is_some()
    }

    /// Whether so many files are finished that they are to be flushed.
    pub const fn is_full(&self) -> bool {
        self.finished.len() >= FINISHED_MAX
    }

    /// Bundles that the medium has not taken: they stay in the node.
    pub fn refused(&self) -> usize {
        self.refused.len()
    }

    /// A file of this node is on the medium.
    pub fn has_file(&mut self, found: Found) {
        if self.present.len() < PRESENT_MAX {
            self.present.insert(found.name.key, found);
        }
    }

    /// A bundle was acknowledged before the node offered it.
    pub fn is_acknowledged(&mut self, key: Key) {
        if self.acknowledged.len() < ACKNOWLEDGED_MAX {
            self.acknowledged.insert(key);
        }
    }

    /// A file of this node is no more on the medium, and nobody acknowledged it: the node has its bundle again.
    pub fn lost_file(&mut self, layer: &mut Layer, key: Key) -> io::Result<()> {
        self.present.remove(&key);
        match self.kept.remove(&key) {
            Some(kept) => layer.say(&Said::Failed {
                transfer: kept.transfer,
                reason: UNKNOWN,
            }),
            None => Ok(()),
        }
    }

    /// Another node acknowledged a bundle. True once this node was told, so that the acknowledgment has done its work.
    pub fn acknowledged(&mut self, layer: &mut Layer, key: Key) -> io::Result<bool> {
        self.present.remove(&key);
        match self.kept.remove(&key) {
            Some(kept) => {
                let transfer = kept.transfer;
                layer.say(&Said::Sent { transfer }).map(|()| true)
            }
            None => {
                self.is_acknowledged(key);
                Ok(false)
            }
        }
    }

    /// Bundles that the node keeps and that have expired are the node's to delete; their keys.
    pub fn expire(&mut self, layer: &mut Layer, now: DtnTime) -> io::Result<Vec<Key>> {
        let is_over = |kept: &Kept| kept.expires.is_some_and(|at| at < now);
        let over = self.kept.iter().filter(|(_, kept)| is_over(kept));
        let over: Vec<Key> = over.map(|(key, _)| *key).collect();
        for key in &over {
            self.lost_file(layer, *key)?;
        }
        Ok(over)
    }

    /// Files of bundles that the node keeps, as they were last known.
    pub fn kept_files(&self) -> impl Iterator<Item = &Found> {
        let kept = self.kept.keys();
        kept.filter_map(|key| self.present.get(key))
    }

    /// A bundle comes.
    pub fn begin(&mut self, transfer: u64, octets: u64) {
        self.incoming = Some(Incoming {
            transfer,
            octets,
            received: 0,
            use_: Use::Head(Vec::new()),
        });
    }

    /// The bundle that comes, comes no further.
    pub fn abort(&mut self) {
        self.incoming = None;
    }

    /// The next octets of the bundle that comes.
    pub fn take(
        &mut self,
        stick: &Stick,
        layer: &mut Layer,
        octets: &Bytes,
    ) -> io::Result<Option<News>> {
        let Some(mut incoming) = self.incoming.take() else {
            return Ok(None);
        };
        let count = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        incoming.received = incoming.received.saturating_add(count);
        let is_end = incoming.received >= incoming.octets;
        let about = incoming_of(&incoming);
        let news = match incoming.use_ {
            Use::Head(mut head) => {
                head.extend_from_slice(octets);
                let (next, news) = self.decide(stick, layer, &about, head)?;
                incoming.use_ = next;
                news
            }
            Use::Write(mut part, subject, expires) => match part.write(octets) {
                Ok(()) => {
                    incoming.use_ = Use::Write(part, subject, expires);
                    None
                }
                Err(error) => {
                    incoming.use_ = Use::Drop;
                    let about = (incoming.transfer, subject.key());
                    Some(self.fail(layer, about, News::Trouble(error))?)
                }
            },
            other => {
                incoming.use_ = other;
                None
            }
        };
        // Octets of a bundle that was answered may still come, and belong to nothing then.
        if !is_end && !matches!(incoming.use_, Use::Drop) {
            self.incoming = Some(incoming);
            return Ok(news);
        }
        let ended = self.end(stick, layer, incoming)?;
        Ok(news.or(ended))
    }

    /// Decides about a bundle of which the first octets are here.
    fn decide(
        &mut self,
        stick: &Stick,
        layer: &mut Layer,
        &(transfer, octets, received): &(u64, u64, u64),
        head: Vec<u8>,
    ) -> io::Result<(Use, Option<News>)> {
        let read = Header::decode(&Bytes::copy_from_slice(&head), Reading::Lenient);
        let header = match read {
            Ok(Some(header)) => header,
            Ok(None) if received < octets && head.len() <= MAX_HEADER_OCTETS => {
                return Ok((Use::Head(head), None));
            }
            other => {
                let reason = NOT_ACCEPTABLE;
                layer.say(&Said::Failed { transfer, reason })?;
                let why = other.map_or_else(|it| it.to_string(), |_| "no end of its header".into());
                return Ok((Use::Drop, Some(News::Unreadable(why))));
            }
        };
        let subject = Subject::of(&header, octets);
        let expires = expiry(header.primary.creation, header.primary.lifetime_ms);
        let key = subject.key();
        if self.acknowledged.remove(&key) {
            self.refused.remove(&key);
            let reason = COMPLETED;
            layer.say(&Said::Failed { transfer, reason })?;
            return Ok((Use::Drop, Some(News::Acknowledged(subject))));
        }
        // One that is torn or gone: a file with the same name takes its place, or it is removed when it is looked at.
        if self.ownership.relies_on(stick.writable())
            && let Some(found) = self.present.remove(&key)
            && BundleFile::open(stick, &found).is_ok()
        {
            self.present.insert(key, found);
            return Ok((Use::Skip(subject, expires), None));
        }
        if let Err(news) = self.permits(stick, octets) {
            let news = self.fail(layer, (transfer, key), news)?;
            return Ok((Use::Drop, Some(news)));
        }
        let part = stick.begin(key).and_then(|mut part| {
            part.write(&head)?;
            Ok(part)
        });
        match part {
            Ok(part) => Ok((Use::Write(part, subject, expires), None)),
            Err(error) => {
                let news = self.fail(layer, (transfer, key), News::Trouble(error))?;
                Ok((Use::Drop, Some(news)))
            }
        }
    }

    /// Whether another bundle of so many octets may go onto the medium.
    fn permits(&self, stick: &Stick, octets: u64) -> Result<(), News> {
        match stick.writable() {
            Writable::Yes => {}
            Writable::Full => return Err(News::Full("no room for this node's directory".into())),
            Writable::No => return Err(News::ReadOnly),
        }
        if self.kept.len() >= KEPT_MAX {
            return Err(News::Full(format!(
                "the node keeps {KEPT_MAX} bundles on it"
            )));
        }
        (stick.fits(octets)).map_err(|no_room| News::Full(no_room.to_string()))
    }

    /// The medium does not take a bundle, which stays with the node.
    fn fail(
        &mut self,
        layer: &mut Layer,
        (transfer, key): (u64, Key),
        news: News,
    ) -> io::Result<News> {
        if self.refused.len() < REFUSED_MAX {
            self.refused.insert(key);
        }
        let reason = NO_RESOURCES;
        layer.say(&Said::Failed { transfer, reason })?;
        Ok(news)
    }

    /// All octets of a bundle are here.
    fn end(
        &mut self,
        stick: &Stick,
        layer: &mut Layer,
        incoming: Incoming,
    ) -> io::Result<Option<News>> {
        let transfer = incoming.transfer;
        match incoming.use_ {
            Use::Write(part, subject, expires) => match part.finish(stick.own(), subject.key()) {
                Ok(found) => {
                    self.has_file(found);
                    self.finished.push((transfer, subject, expires, true));
                    Ok(None)
                }
                Err(error) => {
                    let about = (transfer, subject.key());
                    self.fail(layer, about, News::Trouble(error)).map(Some)
                }
            },
            Use::Skip(subject, expires) => {
                self.finished.push((transfer, subject, expires, false));
                Ok(None)
            }
            Use::Head(_) | Use::Drop => Ok(None),
        }
    }

    /// Makes finished files durable, and tells the node; those that are new.
    pub fn flush(&mut self, stick: &Stick, layer: &mut Layer) -> Result<Vec<Subject>, FlushError> {
        if self.finished.is_empty() {
            return Ok(Vec::new());
        }
        stick.sync(stick.own()).map_err(FlushError::Stick)?;
        let mut written = Vec::new();
        for (transfer, subject, expires, is_new) in std::mem::take(&mut self.finished) {
            let said = match self.ownership {
                Ownership::HandOver => Said::Sent { transfer },
                Ownership::Keep => {
                    self.kept.insert(subject.key(), Kept { transfer, expires });
                    Said::Kept { transfer }
                }
            };
            self.refused.remove(&subject.key());
            layer.say(&said).map_err(FlushError::Node)?;
            if is_new {
                written.push(subject);
            }
        }
        Ok(written)
    }
}

/// The side that failed at a flush.
#[derive(Debug)]
pub enum FlushError {
    /// The medium.
    Stick(io::Error),
    /// The node.
    Node(io::Error),
}

const fn incoming_of(incoming: &Incoming) -> (u64, u64, u64) {
    (incoming.transfer, incoming.octets, incoming.received)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_on_a_medium_that_cannot_be_written_becomes_no_only_copy() {
        for (ownership, writable, relies) in [
            (Ownership::Keep, Writable::Yes, true),
            (Ownership::Keep, Writable::No, true),
            (Ownership::HandOver, Writable::Yes, true),
            (Ownership::HandOver, Writable::Full, false),
            (Ownership::HandOver, Writable::No, false),
        ] {
            assert_eq!(ownership.relies_on(writable), relies);
        }
    }
}
