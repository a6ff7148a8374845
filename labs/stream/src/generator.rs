//! The generator: makes bundles as fast as the neighbour takes them, all with the same payload.

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::Piece;
use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime, EndpointId, HeaderTemplate};
use dhow_link::stream::{LinkCommand, LinkEvent, RefuseReason, TransferId};
use serde::Serialize;

use crate::connection::{Connection, now, seconds};
use crate::failure::Failure;

/// Octets of bundles on their way at a time, and bundles.
const WINDOW_OCTETS: u64 = 128 << 20;
const WINDOW_BUNDLES: u64 = 1 << 16;

/// Octets given to the session at a time, when it has no more.
const AHEAD_OCTETS: u64 = 2 << 20;

/// The lifetime of each bundle, milliseconds.
const LIFETIME_MS: u64 = 3_600_000;

/// Payloads up to this are sent from where their header is.
const SMALL_OCTETS: u64 = 4096;

/// Octets of small bundles put together in one piece of memory.
const BATCH_OCTETS: usize = 64 << 10;

/// The result of a generator.
#[derive(Debug, Serialize)]
pub struct Generated {
    /// Bundles that the neighbour has acknowledged.
    pub bundles: u64,
    /// When the first left, seconds of the monotonic clock.
    pub began: f64,
    /// When the last was acknowledged.
    pub ended: f64,
}

/// Bundles of one source to one destination over one session.
pub struct Generator {
    connection: Connection,
    source: EndpointId,
    destination: EndpointId,
    next_transfer: u64,
    last_time: u64,
}

/// Bundles that differ in their sequence number only.
struct Mould {
    template: HeaderTemplate,
    time: DtnTime,
    payload: Bytes,
    trailer: Bytes,
    length: u64,
    /// The buffer in which small bundles are put together.
    batch: BytesMut,
}

impl Generator {
    /// Over a session that is established.
    #[must_use]
    pub const fn new(connection: Connection, source: EndpointId, destination: EndpointId) -> Self {
        Self {
            connection,
            source,
            destination,
            next_transfer: 0,
            last_time: 0,
        }
    }

    /// Sends so many bundles with payloads of `size` octets, and waits until all are acknowledged.
    ///
    /// # Errors
    /// The session failed, or the neighbour refused one.
    pub fn send(&mut self, count: u64, size: usize) -> Result<Generated, Failure> {
        let mut mould = self.mould(size)?;
        let began = seconds();
        let (mut sent, mut acknowledged) = (0, 0);
        while acknowledged < count {
            let mut ahead = 0;
            while self.connection.is_dry()
                && ahead < AHEAD_OCTETS
                && sent < count
                && sent - acknowledged < WINDOW_BUNDLES
                && (sent - acknowledged).saturating_mul(mould.length) < WINDOW_OCTETS
            {
                self.give(&mut mould, sent);
                sent += 1;
                ahead += mould.length;
            }
            match self.connection.step()? {
                Some(LinkEvent::Transmitted { .. }) => acknowledged += 1,
                Some(LinkEvent::Failed {
                    transfer, refused, ..
                }) => return Err(Failure::Refused(transfer.0, reason(refused))),
                _ => {}
            }
        }
        Ok(Generated {
            bundles: acknowledged,
            began,
            ended: seconds(),
        })
    }

    fn mould(&mut self, size: usize) -> Result<Mould, Failure> {
        // Two orders of one millisecond are told apart.
        let time = now().dtn.as_millis().max(self.last_time + 1);
        self.last_time = time;
        let time = DtnTime::from_millis(time);
        let created = CreationTimestamp { time, sequence: 0 };
        let (source, destination) = (self.source.clone(), self.destination.clone());
        let builder = BundleBuilder::new(source, destination, created, LIFETIME_MS);
        let payload: Bytes = (0..=u8::MAX).cycle().take(size).collect();
        let template = HeaderTemplate::new(&builder, length(payload.len()))?;
        let mut crc = template.payload_crc();
        crc.update(&payload);
        Ok(Mould {
            template,
            time,
            trailer: crc.trailer(),
            payload,
            length: 0,
            batch: BytesMut::new(),
        })
    }

    /// Gives the session one more bundle.
    fn give(&mut self, mould: &mut Mould, sequence: u64) {
        let transfer = TransferId(self.next_transfer);
        self.next_transfer += 1;
        let pieces = mould.cast(sequence);
        let length = pieces.iter().map(|octets| length(octets.len())).sum();
        mould.length = length;
        self.connection
            .command(LinkCommand::Transmit { transfer, length });
        for octets in pieces.into_iter().filter(|octets| !octets.is_empty()) {
            let octets = Piece::Octets(octets);
            self.connection
                .command(LinkCommand::Supply { transfer, octets });
        }
    }
}

impl Mould {
    /// The bundle with this sequence number, in pieces.
    fn cast(&mut self, sequence: u64) -> [Bytes; 3] {
        let time = self.time;
        let mut header = Vec::new();
        self.template
            .write(CreationTimestamp { time, sequence }, &mut header);
        if length(self.payload.len()) > SMALL_OCTETS {
            return [header.into(), self.payload.clone(), self.trailer.clone()];
        }
        if self.batch.capacity() < header.len() + self.payload.len() + self.trailer.len() {
            self.batch = BytesMut::with_capacity(BATCH_OCTETS);
        }
        self.batch.extend_from_slice(&header);
        self.batch.extend_from_slice(&self.payload);
        self.batch.extend_from_slice(&self.trailer);
        [self.batch.split().freeze(), Bytes::new(), Bytes::new()]
    }
}

/// Why a bundle was refused (RFC 9174 table 7).
const fn reason(refused: Option<RefuseReason>) -> &'static str {
    match refused {
        None => "the session ended",
        Some(RefuseReason::Completed) => "it has it",
        Some(RefuseReason::NoResources | RefuseReason::SourceFull) => "it has no room",
        Some(RefuseReason::Retransmit) => "it wants it again",
        Some(RefuseReason::NotAcceptable) => "not acceptable",
        Some(RefuseReason::ExtensionFailure) => "an extension failed",
        Some(RefuseReason::SessionTerminating) => "it ends the session",
        Some(RefuseReason::Unknown | RefuseReason::Other(_)) => "it does not say why",
    }
}

fn length(octets: usize) -> u64 {
    u64::try_from(octets).unwrap_or(u64::MAX)
}
