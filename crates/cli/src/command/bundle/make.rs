//! `dhow bundle make`: a bundle's octets, without any node.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use dhow_bundle::v7::admin::AdministrativeRecord;
use dhow_bundle::{
    BundleBuilder, BundleFlags, CrcType, CreationTimestamp, DtnTime, EndpointId, OutgoingHeader,
    Reading,
};

use crate::arguments::{Common, parse_duration, parse_number};
use crate::calendar;
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, UnfinishedFile};
use crate::output::{self, Form};
use crate::portion::Source;
use crate::progress::Progress;
use crate::quantity;
use crate::report_kind::ReportKind;

/// Write an encoded bundle
#[derive(Args, Debug)]
pub struct Make {
    /// Source endpoint
    source: EndpointId,
    /// Destination endpoint
    destination: EndpointId,
    /// The payload, or - for stdin
    file: PathBuf,
    /// File to which the bundle is written; - for stdout
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// Time for which it is of use
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = parse_duration)]
    lifetime: Duration,
    /// Report-to endpoint [default: the source]
    #[arg(long, value_name = "ENDPOINT")]
    report_to: Option<EndpointId>,
    /// Status reports asked for
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    report: Vec<ReportKind>,
    /// More bundle processing control flags, a number (0x4: must not be fragmented)
    #[arg(long, value_name = "BITS", value_parser = parse_number)]
    flags: Option<u64>,
    /// CRC of the blocks; `none` leaves it out of the payload block only, because the primary block must have one
    #[arg(long, value_enum, default_value_t = Crc::Crc32C)]
    crc: Crc,
    /// Add a hop count block: forwarded at most this often
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    hop_limit: Option<u8>,
    /// Add a bundle age block: milliseconds since the bundle was created
    #[arg(long, value_name = "MS")]
    age: Option<u64>,
    /// Creation time in DTN milliseconds and sequence number [default: now, 0]; time 0: no accurate clock
    #[arg(long, value_name = "MS/SEQUENCE", value_parser = parse_creation)]
    creation: Option<CreationTimestamp>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Crc {
    None,
    #[value(name = "16")]
    Crc16,
    #[value(name = "32c")]
    Crc32C,
}

fn parse_creation(text: &str) -> Result<CreationTimestamp, String> {
    let (time, sequence) = text.split_once('/').ok_or("it has the form MS/SEQUENCE")?;
    Ok(CreationTimestamp {
        time: DtnTime::from_millis(parse_number(time)?),
        sequence: parse_number(sequence)?,
    })
}

/// Octets copied at a time.
const PIECE_OCTETS: usize = 256 * 1024;

impl Make {
    /// Writes the bundle.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        if BundleFlags::from_bits(self.flags.unwrap_or(0)).contains(BundleFlags::FRAGMENT) {
            return Err(refused(
                "the flag 0x1 says that it is a fragment, and it is made whole",
                "RFC 9171 4.3.1",
            ));
        }
        let source = Source::open(&self.file)?;
        let header = self
            .builder()
            .header(source.octets())
            .map_err(|refusal| refused(&refusal.to_string(), refusal.section()))?;
        if self.flags().contains(BundleFlags::ADMINISTRATIVE_RECORD) {
            check_record(&source)?;
        }
        let written = if self.out == Path::new("-") {
            write(&header, &source, &mut io::stdout().lock())?
        } else {
            self.write_file(&header, &source)?
        };
        if written == Ending::Done && self.out != Path::new("-") {
            match common.form() {
                Form::Json => output::json(
                    &serde_json::json!({"path": self.out.display().to_string(), "octets": header.total_octets()}),
                )?,
                Form::Text => output::talk(&format!(
                    "wrote {}, {}",
                    self.out.display(),
                    quantity::size(header.total_octets())
                )),
            }
        }
        Ok(written)
    }

    fn flags(&self) -> BundleFlags {
        ReportKind::flags(&self.report) | BundleFlags::from_bits(self.flags.unwrap_or(0))
    }

    fn builder(&self) -> BundleBuilder {
        let creation = self.creation.unwrap_or_else(|| CreationTimestamp {
            time: calendar::now(),
            sequence: 0,
        });
        let lifetime_ms = u64::try_from(self.lifetime.as_millis()).unwrap_or(u64::MAX);
        let (crc, payload_crc) = match self.crc {
            // RFC 9171 4.3.1: the primary block has a CRC (or a Block Integrity Block).
            Crc::None => (CrcType::Crc32C, CrcType::None),
            Crc::Crc16 => (CrcType::Crc16, CrcType::Crc16),
            Crc::Crc32C => (CrcType::Crc32C, CrcType::Crc32C),
        };
        let mut builder = BundleBuilder::new(
            self.source.clone(),
            self.destination.clone(),
            creation,
            lifetime_ms,
        )
        .with_flags(self.flags())
        .with_crc_type(crc)
        .with_payload_crc_type(payload_crc);
        if let Some(endpoint) = &self.report_to {
            builder = builder.with_report_to(endpoint.clone());
        }
        if let Some(age_ms) = self.age {
            builder = builder.with_age(age_ms);
        }
        if let Some(limit) = self.hop_limit {
            builder = builder.with_hop_limit(limit);
        }
        builder
    }

    /// Writes beside the file's place and gives it its name when it is whole.
    fn write_file(&self, header: &OutgoingHeader, source: &Source) -> Result<Ending, Failure> {
        let fail = |error: io::Error| {
            Failure::refused(format!("cannot write {}: {error}", self.out.display()))
        };
        let mut partial = self.out.clone().into_os_string();
        partial.push(format!(".{}.part", std::process::id()));
        let mut file = File::create(&partial).map_err(fail)?;
        let unfinished = UnfinishedFile::new(partial.into());
        let ending = write(header, source, &mut file)?;
        if ending == Ending::Done {
            std::fs::rename(unfinished.path(), &self.out).map_err(fail)?;
            unfinished.keep();
        }
        Ok(ending)
    }
}

fn refused(rule: &str, section: &str) -> Failure {
    Failure::refused(format!("cannot make the bundle: {rule} ({section})"))
}

/// Octets of an administrative record, at most: records have some dozens.
const RECORD_OCTETS: u64 = 256 * 1024;

/// RFC 9171 6.1: the payload of a bundle whose flags say so is an administrative record.
fn check_record(source: &Source) -> Result<(), Failure> {
    let no_record = |why: &str| {
        refused(
            &format!(
                "the flag 0x2 says that its payload is an administrative record, and it is none: {why}"
            ),
            "RFC 9171 6.1",
        )
    };
    if source.octets() > RECORD_OCTETS {
        return Err(no_record("it is too long"));
    }
    let mut octets = Vec::new();
    source
        .read_whole()
        .and_then(|mut payload| payload.read_to_end(&mut octets))
        .map_err(|error| {
            Failure::refused(format!("cannot read {}: {error}", source.path().display()))
        })?;
    AdministrativeRecord::decode(&Bytes::from(octets), Reading::Strict)
        .map(|_| ())
        .map_err(|refusal| no_record(&refusal.to_string()))
}

fn write(
    header: &OutgoingHeader,
    source: &Source,
    out: &mut impl Write,
) -> Result<Ending, Failure> {
    let unread = |error: io::Error| {
        Failure::refused(format!("cannot read {}: {error}", source.path().display()))
    };
    let unwritten = |error: io::Error| Failure::output(&error);
    let progress = Progress::octets(Some(source.octets()), "writing");
    let mut crc = header.payload_crc();
    out.write_all(&header.octets).map_err(unwritten)?;
    let mut payload = source.read_whole().map_err(unread)?;
    let mut piece = vec![0_u8; PIECE_OCTETS];
    while crc.left_octets() > 0 {
        if interrupt::is_requested() {
            return Ok(Ending::Interrupted);
        }
        let length = payload.read(&mut piece).map_err(unread)?;
        if length == 0 {
            return Err(unread(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it became shorter while it was read",
            )));
        }
        let octets = piece.get(..length).unwrap_or_default();
        crc.update(octets);
        out.write_all(octets).map_err(unwritten)?;
        progress.advance(u64::try_from(length).unwrap_or_default());
    }
    out.write_all(&crc.trailer())
        .and_then(|()| out.flush())
        .map_err(unwritten)?;
    Ok(Ending::Done)
}
