//! `dhow bundle decode`: a bundle's octets, read and judged.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use clap::Args;
use dhow_bundle::v7::admin::{AdministrativeRecord, RecordRefusal};
use dhow_bundle::{BundleFlags, Deviation, Header, PayloadVerifier, Reading, Refusal};
use serde::Serialize;

use super::description::Description;
use super::hex::HexReader;
use crate::arguments::Common;
use crate::digest::Sha256;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;

/// Decode a bundle, and say why if it must be refused
///
/// Exits with 0 when the bundle is accepted; with 1 when it is refused, with the rule that it breaks and the section of the standard. Imperfections that
/// a node takes are named, and the bundle is accepted.
#[derive(Args, Debug)]
pub struct Decode {
    /// The file holds hexadecimal digits
    #[arg(long)]
    hex: bool,
    /// Accept the published list of imperfections too
    #[arg(long)]
    lenient: bool,
    /// The file, or - for stdin
    file: PathBuf,
}

/// Octets read at a time.
const PIECE_OCTETS: usize = 256 * 1024;

/// Octets kept to be read a second time: headers end before, and so do administrative records.
const KEPT_OCTETS: usize = 1 << 20;

/// Payload octets of an administrative record that are kept to be read: records have some dozens.
const RECORD_OCTETS: u64 = 256 * 1024;

/// The refusal of a bundle, as `--json` prints it.
#[derive(Serialize)]
struct Judgement<'a> {
    accepted: bool,
    rule: &'a str,
    section: &'a str,
}

/// Why there is no description.
enum Obstacle {
    Unread(io::Error),
    Refused { rule: String, section: &'static str },
    Interrupted,
}

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Self {
        Self::Unread(error)
    }
}

impl From<Refusal> for Obstacle {
    fn from(refusal: Refusal) -> Self {
        Self::Refused {
            rule: refusal.to_string(),
            section: refusal.section(),
        }
    }
}

/// A payload that is no administrative record although the bundle's flags say so (RFC 9171 6.1).
impl From<RecordRefusal> for Obstacle {
    fn from(refusal: RecordRefusal) -> Self {
        Self::Refused {
            rule: format!("the administrative record is not valid: {refusal}"),
            section: "RFC 9171 6.1",
        }
    }
}

impl Decode {
    /// Reads the bundle and prints what it is.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let unread = |error: io::Error| {
            Failure::refused(format!("cannot read {}: {error}", self.file.display()))
        };
        let (source, octets) = open(&self.file).map_err(unread)?;
        let reading = if self.lenient {
            Reading::Lenient
        } else {
            Reading::Strict
        };
        let progress = Progress::octets(octets, "decoding");
        let mut source = Recorder::new(source);
        let described = self.read(&mut source, reading, &progress);
        progress.finish();
        match described {
            Ok(description) => {
                match common.form() {
                    Form::Json => output::json(&description)?,
                    Form::Text => output::text(&description.text())?,
                }
                Ok(Ending::Done)
            }
            Err(Obstacle::Refused { rule, section }) => {
                if common.form() == Form::Json {
                    output::json(&Judgement {
                        accepted: false,
                        rule: &rule,
                        section,
                    })?;
                }
                let failure =
                    Failure::refused(format!("cannot accept the bundle: {rule} ({section})"));
                Err(
                    if reading == Reading::Strict && self.is_lenient_enough(source) {
                        failure.with_hint(
                            "--lenient accepts it: some deployed programs send such bundles",
                        )
                    } else {
                        failure
                    },
                )
            }
            Err(Obstacle::Unread(error)) => Err(unread(error)),
            Err(Obstacle::Interrupted) => Ok(Ending::Interrupted),
        }
    }

    fn read(
        &self,
        source: impl Read,
        reading: Reading,
        progress: &Progress,
    ) -> Result<Description, Obstacle> {
        if self.hex {
            read(HexReader::new(source), reading, progress)
        } else {
            read(source, reading, progress)
        }
    }

    /// Whether lenient reading would accept what strict reading refused.
    fn is_lenient_enough(&self, source: Recorder) -> bool {
        source.again().is_some_and(|octets| {
            let progress = Progress::octets(None, "decoding");
            self.read(octets, Reading::Lenient, &progress).is_ok()
        })
    }
}

/// A source whose first octets can be read again.
struct Recorder {
    source: Box<dyn Read>,
    kept: Vec<u8>,
    /// More was read than is kept.
    is_past: bool,
}

impl Recorder {
    const fn new(source: Box<dyn Read>) -> Self {
        Self {
            source,
            kept: Vec::new(),
            is_past: false,
        }
    }

    /// Everything from the beginning, unless too much was read.
    fn again(self) -> Option<impl Read> {
        (!self.is_past).then(|| io::Cursor::new(self.kept).chain(self.source))
    }
}

impl Read for Recorder {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(out)?;
        if self.kept.len() + length > KEPT_OCTETS {
            self.is_past = true;
            self.kept = Vec::new();
        }
        if !self.is_past {
            self.kept
                .extend_from_slice(out.get(..length).unwrap_or_default());
        }
        Ok(length)
    }
}

fn open(path: &Path) -> io::Result<(Box<dyn Read>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(path)?;
    let octets = file.metadata()?.len();
    Ok((Box::new(file), Some(octets)))
}

/// Reads one bundle to the end of `source`; the payload passes through and is not kept.
fn read(
    mut source: impl Read,
    reading: Reading,
    progress: &Progress,
) -> Result<Description, Obstacle> {
    let mut piece = vec![0_u8; PIECE_OCTETS];
    let (header, rest) = read_header(&mut source, reading, &mut piece)?;
    let mut payload = Payload {
        left: header.payload_octets(),
        digest: Sha256::default(),
        verifier: PayloadVerifier::new(&header),
        record: None,
        trailer: Vec::new(),
    };
    if header
        .primary
        .flags
        .contains(BundleFlags::ADMINISTRATIVE_RECORD)
        && header.primary.fragment.is_none()
        && header.payload_octets() <= RECORD_OCTETS
    {
        payload.record = Some(Vec::new());
    }
    payload.take(&rest, header.trailer_octets());
    loop {
        if interrupt::is_requested() {
            return Err(Obstacle::Interrupted);
        }
        let length = source.read(&mut piece)?;
        if length == 0 {
            break;
        }
        payload.take(
            piece.get(..length).unwrap_or_default(),
            header.trailer_octets(),
        );
        progress.advance(u64::try_from(length).unwrap_or_default());
    }
    payload.verifier.finish(&payload.trailer)?;
    let (record, deviation) = payload.record.map(read_record).transpose()?.unzip();
    Ok(Description::new(
        &header,
        payload.digest.hexadecimal(),
        record.as_ref(),
        deviation.flatten(),
    ))
}

/// An administrative record, with the imperfection that it has. A node takes a bundle by its blocks, whatever its records look like, and
/// applications read these leniently.
fn read_record(octets: Vec<u8>) -> Result<(AdministrativeRecord, Option<Deviation>), Obstacle> {
    let octets = Bytes::from(octets);
    let record = AdministrativeRecord::decode(&octets, Reading::Lenient)?;
    let is_strict = AdministrativeRecord::decode(&octets, Reading::Strict).is_ok();
    // It is the only one that a record may have.
    Ok((record, (!is_strict).then_some(Deviation::IntegerForBoolean)))
}

/// Reads until the header blocks are complete; what follows them comes with them.
fn read_header(
    source: &mut impl Read,
    reading: Reading,
    piece: &mut [u8],
) -> Result<(Header, Bytes), Obstacle> {
    let mut seen = BytesMut::new();
    loop {
        let length = source.read(piece)?;
        seen.extend_from_slice(piece.get(..length).unwrap_or_default());
        let octets = seen.clone().freeze();
        if let Some(header) = Header::decode(&octets, reading)? {
            let rest = octets.slice(header.octets.len()..);
            return Ok((header, rest));
        }
        if length == 0 {
            return Err(Refusal::Truncated.into());
        }
    }
}

/// The part of a bundle after its header.
struct Payload {
    /// Octets of payload still to come.
    left: u64,
    digest: Sha256,
    verifier: PayloadVerifier,
    record: Option<Vec<u8>>,
    trailer: Vec<u8>,
}

impl Payload {
    fn take(&mut self, octets: &[u8], trailer_octets: u64) {
        let length = usize::try_from(self.left).map_or(octets.len(), |left| left.min(octets.len()));
        let (payload, after) = octets.split_at_checked(length).unwrap_or((octets, &[]));
        self.left = self
            .left
            .saturating_sub(u64::try_from(length).unwrap_or_default());
        self.digest.update(payload);
        self.verifier.update(payload);
        if let Some(record) = &mut self.record {
            record.extend_from_slice(payload);
        }
        // One octet more than the trailer shows that something follows; the rest need not be kept.
        let room = usize::try_from(trailer_octets)
            .unwrap_or(0)
            .saturating_add(1)
            .saturating_sub(self.trailer.len());
        self.trailer.extend(after.iter().take(room));
    }
}
