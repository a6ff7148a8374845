//! `dhow bundle make`: a bundle's octets, without any node.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use dhow_bundle::v6;
use dhow_bundle::v7::admin::AdministrativeRecord;
use dhow_bundle::{
    BundleBuilder, BundleFlags, ClassOfService, CrcType, CreationTimestamp, DtnTime, EndpointId,
    PayloadCrc, Priority, Reading,
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
    /// Version of the Bundle Protocol
    #[arg(long, value_enum, default_value_t = Version::Seven)]
    version: Version,
    /// Lifetime; whole seconds in version 6
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
    /// Order in which nodes send it: bulk, normal, expedited or expedited:ORDINAL (0 to 254) [default: normal]
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<Priority>,
    /// CRC of the blocks, of version 7 alone [default: 32c]; `none` leaves it out of the payload block only, because the primary block must have one
    #[arg(long, value_enum, hide_default_value = true)]
    crc: Option<Crc>,
    /// Add a hop count block, of version 7 alone: forwarded at most N times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    hop_limit: Option<u8>,
    /// Add a bundle age block, of version 7 alone: milliseconds since the bundle was created
    #[arg(long, value_name = "MS")]
    age: Option<u64>,
    /// Creation time in DTN milliseconds and sequence number [default: now, 0]; time 0: no accurate clock. Version 6 has whole seconds
    #[arg(long, value_name = "MS/SEQUENCE", value_parser = parse_creation)]
    creation: Option<CreationTimestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    #[value(name = "6")]
    Six,
    #[value(name = "7")]
    Seven,
}

/// A bundle but for its payload.
struct Made {
    header: Bytes,
    total_octets: u64,
    /// The checksum of version 7, which follows the payload.
    crc: Option<PayloadCrc>,
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
                match self.version {
                    Version::Six => "RFC 5050 4.5.1",
                    Version::Seven => "RFC 9171 4.3.1",
                },
            ));
        }
        self.check_version()?;
        let source = Source::open(&self.file)?;
        let made = match self.version {
            Version::Six => self.version6(source.octets())?,
            Version::Seven => {
                let header = self.builder().header(source.octets());
                let header =
                    header.map_err(|refusal| refused(&refusal.to_string(), refusal.section()))?;
                Made {
                    total_octets: header.total_octets(),
                    crc: Some(header.payload_crc()),
                    header: header.octets,
                }
            }
        };
        if self.flags().contains(BundleFlags::ADMINISTRATIVE_RECORD) {
            check_record(&source, self.version)?;
        }
        let written = if self.out == Path::new("-") {
            write(&made, &source, &mut io::stdout().lock())?
        } else {
            self.write_file(&made, &source)?
        };
        if written == Ending::Done && self.out != Path::new("-") {
            match common.form() {
                Form::Json => output::json(
                    &serde_json::json!({"path": self.out.display().to_string(), "octets": made.total_octets}),
                )?,
                Form::Text => output::talk(&format!(
                    "wrote {}, {}",
                    self.out.display(),
                    quantity::size(made.total_octets)
                )),
            }
        }
        Ok(written)
    }

    fn flags(&self) -> BundleFlags {
        ReportKind::flags(&self.report) | BundleFlags::from_bits(self.flags.unwrap_or(0))
    }

    /// Refuses options that the version does not have.
    fn check_version(&self) -> Result<(), Failure> {
        let foreign = match self.version {
            Version::Six => [
                (self.crc.is_some(), "--crc"),
                (self.hop_limit.is_some(), "--hop-limit"),
                (self.age.is_some(), "--age"),
            ]
            .into_iter()
            .find(|(is_given, _)| *is_given),
            Version::Seven => None,
        };
        self.check_lifetime()?;
        foreign.map_or(Ok(()), |(_, option)| {
            let (version, other) = match self.version {
                Version::Six => (6, 7),
                Version::Seven => (7, 6),
            };
            let failure = Failure::usage(format!("{option} means nothing in version {version}"));
            Err(failure.with_hint(format!(
                "leave it out, or make a bundle with --version {other}"
            )))
        })
    }

    /// RFC 5050 4.5.1: a lifetime in whole seconds; of none the bundle would expire at once.
    fn check_lifetime(&self) -> Result<(), Failure> {
        let is_whole = self.lifetime.subsec_nanos() == 0 && !self.lifetime.is_zero();
        match self.version {
            Version::Six if !is_whole => Err(Failure::usage(
                "--lifetime is whole seconds in version 6, at least 1s",
            )
            .with_hint(format!(
                "for example: --lifetime {}s",
                self.lifetime.as_secs().saturating_add(1)
            ))),
            _ => Ok(()),
        }
    }

    /// The head of a bundle of version 6.
    fn version6(&self, payload_octets: u64) -> Result<Made, Failure> {
        let creation = self.creation();
        // Both versions ask for reports by the same bits.
        let mut flags = v6::BundleFlags::from_bits(self.flags().bits());
        let class = match (self.priority, flags.priority()) {
            (Some(priority), _) => priority.class(),
            (None, v6::Priority::Bulk) => v6::Priority::Normal,
            // The bits of --flags say it.
            (None, class) => class,
        };
        flags = flags.with_priority(class);
        if self.destination.is_singleton() {
            flags = flags | v6::BundleFlags::SINGLETON_DESTINATION;
        }
        let header = v6::Header::new(
            v6::PrimaryBlock {
                flags,
                destination: self.destination.clone(),
                source: self.source.clone(),
                report_to: self.report_to.as_ref().unwrap_or(&self.source).clone(),
                custodian: EndpointId::Null,
                creation: v6::CreationTime {
                    seconds: creation.time.as_millis() / 1_000,
                    sequence: creation.sequence,
                },
                lifetime_s: self.lifetime.as_secs(),
                fragment: None,
            },
            payload_octets,
        );
        let mut header =
            header.map_err(|refusal| refused(&refusal.to_string(), refusal.section()))?;
        let class = self.priority.map(ClassOfService::of);
        header
            .blocks
            .extend(class.and_then(ClassOfService::block_v6));
        let header = header.encode();
        let octets = u64::try_from(header.len()).unwrap_or(u64::MAX);
        Ok(Made {
            total_octets: octets.saturating_add(payload_octets),
            header: header.into(),
            crc: None,
        })
    }

    fn creation(&self) -> CreationTimestamp {
        self.creation.unwrap_or_else(|| CreationTimestamp {
            time: calendar::now(),
            sequence: 0,
        })
    }

    fn builder(&self) -> BundleBuilder {
        let creation = self.creation();
        let lifetime_ms = u64::try_from(self.lifetime.as_millis()).unwrap_or(u64::MAX);
        let (crc, payload_crc) = match self.crc.unwrap_or(Crc::Crc32C) {
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
        if let Some(priority) = self.priority {
            builder = builder.with_priority(priority);
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
    fn write_file(&self, made: &Made, source: &Source) -> Result<Ending, Failure> {
        let fail = |error: io::Error| {
            Failure::refused(format!("cannot write {}: {error}", self.out.display()))
        };
        let mut partial = self.out.clone().into_os_string();
        partial.push(format!(".{}.part", std::process::id()));
        let mut file = File::create(&partial).map_err(fail)?;
        let unfinished = UnfinishedFile::new(partial.into());
        let ending = write(made, source, &mut file)?;
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

/// RFC 9171 6.1, RFC 5050 6.1: the payload of a bundle whose flags say so is an administrative record.
fn check_record(source: &Source, version: Version) -> Result<(), Failure> {
    let no_record = |why: &str| {
        refused(
            &format!(
                "the flag 0x2 says that its payload is an administrative record, and it is none: {why}"
            ),
            match version {
                Version::Six => "RFC 5050 6.1",
                Version::Seven => "RFC 9171 6.1",
            },
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
    match version {
        Version::Six => v6::admin::AdministrativeRecord::decode(&octets)
            .map(|_| ())
            .map_err(|refusal| no_record(&refusal.to_string())),
        Version::Seven => AdministrativeRecord::decode(&Bytes::from(octets), Reading::Strict)
            .map(|_| ())
            .map_err(|refusal| no_record(&refusal.to_string())),
    }
}

fn write(made: &Made, source: &Source, out: &mut impl Write) -> Result<Ending, Failure> {
    let unread = |error: io::Error| {
        Failure::refused(format!("cannot read {}: {error}", source.path().display()))
    };
    let unwritten = |error: io::Error| Failure::output(&error);
    let progress = Progress::octets(Some(source.octets()), "writing");
    let mut crc = made.crc.clone();
    out.write_all(&made.header).map_err(unwritten)?;
    let mut payload = source.read_whole().map_err(unread)?;
    let mut piece = vec![0_u8; PIECE_OCTETS];
    let mut left = source.octets();
    while left > 0 {
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
        if let Some(crc) = &mut crc {
            crc.update(octets);
        }
        out.write_all(octets).map_err(unwritten)?;
        let length = u64::try_from(length).unwrap_or_default();
        left = left.saturating_sub(length);
        progress.advance(length);
    }
    let trailer = crc.map(|crc| crc.trailer()).unwrap_or_default();
    out.write_all(&trailer)
        .and_then(|()| out.flush())
        .map_err(unwritten)?;
    Ok(Ending::Done)
}
