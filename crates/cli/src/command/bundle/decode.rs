//! `dhow bundle decode`: a bundle's octets, read and judged.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use clap::Args;
use dhow_bundle::v6;
use dhow_bundle::v7::admin::{AdministrativeRecord, RecordRefusal};
use dhow_bundle::{BundleFlags, Deviation, Header, PayloadVerifier, Reading, Refusal};
use serde::Serialize;

use super::description::Description;
use super::hex::HexReader;
use super::version6::Version6;
use crate::arguments::Common;
use crate::digest::Sha256;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;

/// Decode a bundle, and say why if it must be refused
///
/// Reads versions 7 and 6 of the Bundle Protocol. Exits with 0 when the bundle is accepted; with 1 when it is refused, with the rule that it breaks and the section of the standard. Imperfections that a node tolerates are listed, and the bundle is accepted.
#[derive(Args, Debug)]
pub struct Decode {
    /// The file holds hexadecimal digits
    #[arg(long)]
    hex: bool,
    /// Also accept what nodes accept with reading = "lenient"
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

/// The description of a bundle of either version.
#[derive(Serialize)]
#[serde(untagged)]
enum Described {
    Version7(Box<Description>),
    Version6(Box<Version6>),
}

impl Described {
    fn text(&self) -> String {
        match self {
            Self::Version7(description) => description.text(),
            Self::Version6(description) => description.text(),
        }
    }
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

impl From<v6::Refusal> for Obstacle {
    fn from(refusal: v6::Refusal) -> Self {
        Self::Refused {
            rule: refusal.to_string(),
            section: refusal.section(),
        }
    }
}

impl From<v6::admin::RecordRefusal> for Obstacle {
    fn from(refusal: v6::admin::RecordRefusal) -> Self {
        Self::Refused {
            rule: format!("the administrative record is not valid: {refusal}"),
            section: "RFC 5050 6.1",
        }
    }
}

impl Decode {
    /// Reads the bundle and prints its description.
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
    ) -> Result<Described, Obstacle> {
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
    /// Whether more was read than is kept.
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
) -> Result<Described, Obstacle> {
    let mut piece = vec![0_u8; PIECE_OCTETS];
    let mut seen = BytesMut::new();
    read_more(&mut source, &mut piece, &mut seen)?;
    if seen.first() == Some(&v6::primary::VERSION) {
        let described = read_version6(source, (piece, seen), progress)?;
        return Ok(Described::Version6(described.into()));
    }
    let decode = |octets: &Bytes| Header::decode(octets, reading);
    let header = read_header(
        &mut source,
        (&mut piece, &mut seen),
        decode,
        Refusal::Truncated,
    )?;
    let rest = seen.freeze().slice(header.octets.len()..);
    let mut payload = Payload::new(header.payload_octets());
    payload.verifier = Some(PayloadVerifier::new(&header));
    if header
        .primary
        .flags
        .contains(BundleFlags::ADMINISTRATIVE_RECORD)
        && header.primary.fragment.is_none()
        && header.payload_octets() <= RECORD_OCTETS
    {
        payload.record = Some(Vec::new());
    }
    payload.take_all(
        source,
        (&mut piece, &rest),
        header.trailer_octets(),
        progress,
    )?;
    if let Some(verifier) = payload.verifier {
        verifier.finish(&payload.trailer)?;
    }
    let (record, deviation) = payload.record.map(read_record).transpose()?.unzip();
    let described = Description::new(
        &header,
        payload.digest.hexadecimal(),
        record.as_ref(),
        deviation.flatten(),
    );
    Ok(Described::Version7(described.into()))
}

/// Reads a bundle of version 6 that begins with what was seen.
fn read_version6(
    mut source: impl Read,
    (mut piece, mut seen): (Vec<u8>, BytesMut),
    progress: &Progress,
) -> Result<Version6, Obstacle> {
    let truncated = v6::Refusal::Truncated;
    let places = (&mut piece[..], &mut seen);
    let header = read_header(&mut source, places, v6::Header::decode, truncated.clone())?;
    let rest = seen.freeze().slice(header.octets.len()..);
    let mut payload = Payload::new(header.payload_octets);
    let primary = &header.primary;
    let is_record = (primary.flags).contains(v6::BundleFlags::ADMINISTRATIVE_RECORD);
    if is_record && primary.fragment.is_none() && header.payload_octets <= RECORD_OCTETS {
        payload.record = Some(Vec::new());
    }
    let room = u64::try_from(v6::trailer::MAX_TRAILER_OCTETS).unwrap_or(u64::MAX);
    payload.take_all(source, (&mut piece, &rest), room, progress)?;
    if payload.left > 0 {
        return Err(truncated.into());
    }
    let after = Bytes::from(payload.trailer);
    let trailer = v6::Trailer::decode(&header, &after)?.ok_or(truncated)?;
    if trailer.octets != after.len() {
        return Err(v6::Refusal::OctetsAfterEnd.into());
    }
    let record = payload.record.as_deref();
    let record = record
        .map(v6::admin::AdministrativeRecord::decode)
        .transpose()?;
    let digest = payload.digest.hexadecimal();
    Ok(Version6::new(&header, &trailer, digest, record.as_ref()))
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

/// Reads more octets into `seen`; false at the end.
fn read_more(source: &mut impl Read, piece: &mut [u8], seen: &mut BytesMut) -> io::Result<bool> {
    let length = source.read(piece)?;
    seen.extend_from_slice(piece.get(..length).unwrap_or_default());
    Ok(length > 0)
}

/// Reads until the header blocks are complete; what follows them comes with them.
fn read_header<H, R>(
    source: &mut impl Read,
    (piece, seen): (&mut [u8], &mut BytesMut),
    decode: impl Fn(&Bytes) -> Result<Option<H>, R>,
    truncated: R,
) -> Result<H, Obstacle>
where
    Obstacle: From<R>,
{
    loop {
        if let Some(header) = decode(&seen.clone().freeze())? {
            return Ok(header);
        }
        if !read_more(source, piece, seen)? {
            return Err(truncated.into());
        }
    }
}

/// The part of a bundle after its header.
struct Payload {
    /// Octets of payload still to come.
    left: u64,
    digest: Sha256,
    /// None where the payload has no checksum.
    verifier: Option<PayloadVerifier>,
    record: Option<Vec<u8>>,
    trailer: Vec<u8>,
}

impl Payload {
    /// A payload of so many octets.
    fn new(octets: u64) -> Self {
        Self {
            left: octets,
            digest: Sha256::default(),
            verifier: None,
            record: None,
            trailer: Vec::new(),
        }
    }

    /// Takes what was seen of it, and the rest of the source.
    fn take_all(
        &mut self,
        mut source: impl Read,
        (piece, seen): (&mut [u8], &[u8]),
        trailer_octets: u64,
        progress: &Progress,
    ) -> Result<(), Obstacle> {
        self.take(seen, trailer_octets);
        loop {
            if interrupt::is_requested() {
                return Err(Obstacle::Interrupted);
            }
            let length = source.read(piece)?;
            if length == 0 {
                return Ok(());
            }
            self.take(piece.get(..length).unwrap_or_default(), trailer_octets);
            progress.advance(u64::try_from(length).unwrap_or_default());
        }
    }

    fn take(&mut self, octets: &[u8], trailer_octets: u64) {
        let length = usize::try_from(self.left).map_or(octets.len(), |left| left.min(octets.len()));
        let (payload, after) = octets.split_at_checked(length).unwrap_or((octets, &[]));
        self.left = self
            .left
            .saturating_sub(u64::try_from(length).unwrap_or_default());
        self.digest.update(payload);
        if let Some(verifier) = &mut self.verifier {
            verifier.update(payload);
        }
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
