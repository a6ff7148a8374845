//! Reading an export as a whole: its record of each bundle is held against the bundle's own octets, since a store believes it.

use std::io::Read;

use bytes::Bytes;
use dhow_bundle::cbor::Reader;
use dhow_bundle::storage::{NOTE_OCTETS, StoredBundle};
use dhow_bundle::{Header, MAX_HEADER_OCTETS, PayloadVerifier, Reading};
use dhow_node::recording::item::Item as _;
use serde::{Deserialize, Serialize};

use super::frame::{ExportError, Frames, Kind};

/// The head of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The node whose store it was.
    pub node: Option<String>,
    /// When it was begun, DTN time, milliseconds; 0 without an accurate clock.
    pub dtn_ms: u64,
    /// Bundles in the store then.
    pub bundles: u64,
    /// Octets of the bundles.
    pub octets: u64,
}

/// The end of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The number of bundles.
    pub bundles: u64,
    /// Octets of the bundles.
    pub octets: u64,
    /// Bundles that left the node, or could not be read, while it was written.
    pub gone: u64,
    /// Bundles that were damaged in the store, and are not in it.
    pub damaged: u64,
    /// The creation time up to which the node may have given any out.
    pub reserved_dtn_ms: u64,
    /// The sequence number likewise.
    pub reserved_sequence: u64,
}

/// The kind of a bundle of an export, once it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it is there, and as it was made.
    Sound,
    /// The bundle left the node while it was written, or the disk did not give it.
    Gone,
    /// Its octets are not what its record, or its own checksums, say.
    Damaged(&'static str),
}

/// The fate of the bundles of an export that is read.
pub trait Taker {
    /// A bundle begins.
    fn begin(&mut self, bundle: StoredBundle);
    /// Octets of the bundle.
    fn octets(&mut self, octets: &[u8]);
    /// The bundle ends; only a sound one counts.
    fn end(&mut self, verdict: Verdict);
}

/// Takes nothing.
pub struct Nobody;

impl Taker for Nobody {
    fn begin(&mut self, _: StoredBundle) {}
    fn octets(&mut self, _: &[u8]) {}
    fn end(&mut self, _: Verdict) {}
}

/// Octets behind a payload that are compared with their checksums, at most.
const TRAILER_OCTETS_MAX: usize = 1 << 20;

/// The bundle that is read, as far as it is known.
struct Open {
    bundle: StoredBundle,
    octets: u64,
    part: Part,
}

/// The part of a bundle that is read.
enum Part {
    Header(Vec<u8>),
    Rest(Box<Rest>),
    /// Octets that are no bundle came.
    Broken,
}

/// The part behind a header.
struct Rest {
    header: Header,
    verifier: PayloadVerifier,
    trailer: Vec<u8>,
}

impl Open {
    fn take(&mut self, octets: &[u8]) {
        self.octets = (self.octets).saturating_add(u64::try_from(octets.len()).unwrap_or(0));
        let header = match &mut self.part {
            Part::Broken => return,
            Part::Rest(rest) => return rest.take(octets),
            Part::Header(header) => {
                header.extend_from_slice(octets);
                Bytes::copy_from_slice(header)
            }
        };
        match Header::decode(&header, Reading::Lenient) {
            Ok(Some(read)) => {
                let from = usize::try_from(read.header_octets()).unwrap_or(usize::MAX);
                let mut rest = Rest {
                    verifier: PayloadVerifier::new(&read),
                    header: read,
                    trailer: Vec::new(),
                };
                rest.take(header.get(from..).unwrap_or_default());
                self.part = Part::Rest(Box::new(rest));
            }
            Ok(None) if header.len() <= MAX_HEADER_OCTETS => {}
            Ok(None) | Err(_) => self.part = Part::Broken,
        }
    }

    /// Whether its record says what its octets say, and these what their checksums do.
    fn verdict(self) -> Verdict {
        let Part::Rest(rest) = self.part else {
            return Verdict::Damaged("its octets are no bundle");
        };
        let Rest {
            header,
            verifier,
            trailer,
        } = *rest;
        let (bundle, primary) = (&self.bundle, &header.primary);
        let is_same = bundle.id == header.id()
            && bundle.destination == primary.destination
            && bundle.report_to == primary.report_to
            && bundle.version == header.version().number()
            && bundle.lifetime_ms == primary.lifetime_ms
            && bundle.header_octets == header.header_octets()
            && bundle.payload_octets == header.payload_octets()
            && bundle.note.len() <= NOTE_OCTETS;
        let is_length = match header.has_open_end() {
            true => self.octets >= header.total_octets(),
            false => self.octets == header.total_octets(),
        };
        if !is_same || !is_length {
            return Verdict::Damaged("its record is of another bundle");
        }
        let is_closed = !header.has_open_end() && trailer.len() < TRAILER_OCTETS_MAX;
        if is_closed && verifier.finish(&trailer).is_err() {
            return Verdict::Damaged("its payload does not match its checksum");
        }
        Verdict::Sound
    }
}

impl Rest {
    fn take(&mut self, octets: &[u8]) {
        let left = usize::try_from(self.verifier.left_octets()).unwrap_or(usize::MAX);
        let (payload, behind) = octets.split_at(left.min(octets.len()));
        self.verifier.update(payload);
        let room = TRAILER_OCTETS_MAX.saturating_sub(self.trailer.len());
        let behind = behind.get(..room.min(behind.len())).unwrap_or_default();
        self.trailer.extend_from_slice(behind);
    }
}

/// Reads a whole export; its head and end come back.
///
/// # Errors
/// When it is cut, damaged or not what a node writes. Bundles given to `taker` before do not count then.
pub fn read(
    from: impl Read,
    taker: &mut impl Taker,
    progress: &mut impl FnMut(u64),
) -> Result<(Head, End), ExportError> {
    let mut frames = Frames::begin(from)?;
    let mut head = None;
    let mut open: Option<Open> = None;
    let mut found = End::default();
    loop {
        let at = frames.at();
        let nonsense = |what: &str| ExportError::Nonsense {
            at,
            what: what.to_owned(),
        };
        let (kind, octets) = frames.take_next()?;
        match (kind, &mut open, &head) {
            (Kind::Head, None, None) => {
                let read = serde_json::from_slice::<Head>(octets);
                head = Some(read.map_err(|_| nonsense("its head is none"))?);
            }
            (_, _, None) => return Err(nonsense("it has no head")),
            (Kind::Bundle, None, _) => {
                let mut reader = Reader::new(octets);
                let bundle = StoredBundle::read(&mut reader)
                    .map_err(|_| nonsense("the record of a bundle cannot be read"))?;
                taker.begin(bundle.clone());
                open = Some(Open {
                    bundle,
                    octets: 0,
                    part: Part::Header(Vec::new()),
                });
            }
            (Kind::Octets, Some(open), _) => {
                open.take(octets);
                taker.octets(octets);
            }
            (Kind::Whole, Some(_), _) => {
                if let Some(whole) = open.take() {
                    found.bundles += 1;
                    found.octets = found.octets.saturating_add(whole.octets);
                    taker.end(whole.verdict());
                }
            }
            (Kind::Gone, Some(_), _) => {
                found.gone += 1;
                taker.end(Verdict::Gone);
                open = None;
            }
            (Kind::End, None, Some(head)) => {
                let end = serde_json::from_slice::<End>(octets);
                let end = end.map_err(|_| nonsense("its end is none"))?;
                let counts = |end: &End| (end.bundles, end.octets, end.gone);
                if counts(&end) != counts(&found) {
                    return Err(nonsense("its end says another number of bundles"));
                }
                if frames.has_more()? {
                    let what = "octets follow its end: exports are imported one after the other";
                    return Err(nonsense(what));
                }
                progress(frames.at());
                return Ok((head.clone(), end));
            }
            _ => return Err(nonsense("a frame is out of its place")),
        }
        progress(frames.at());
    }
}
