//! Bundles that applications of this node send (RFC 9171 5.2).

use alloc::boxed::Box;
use alloc::format;
use core::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use dhow_bundle::storage::{BundleKey, Extents, Piece, StoreCommand};
use dhow_bundle::{
    BundleBuilder, BundleFlags, CreationTimestamp, EndpointId, Now, OutgoingHeader, PayloadCrc,
};

use crate::api::seam::{ApiRefusal, ClientCommand, RequestId, SendRequest};
use crate::bundles::{Entry, Removal, State};
use crate::dispatch::{Arrival, Origin};
use crate::door::StreamId;
use crate::local::Locality;
use crate::node::{Node, Stage};

/// Payloads up to this size are written to the store together with their header blocks.
const JOIN_OCTETS: usize = 16 * 1024;

/// Octets that came this long ago are still those that came; after it they are compared with their
/// checksums before an application gets them.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// How often a bundle of this node may be forwarded: more than any path has, so that a routing loop ends.
pub(crate) const HOP_LIMIT: u8 = 64;

/// Flags that an application may ask for (RFC 9171 4.2.3).
const ASKABLE: u64 = BundleFlags::MUST_NOT_FRAGMENT.bits()
    | BundleFlags::ACKNOWLEDGMENT_REQUESTED.bits()
    | BundleFlags::STATUS_TIME_REQUESTED.bits()
    | BundleFlags::ALL_REPORTS.bits()
    | BundleFlags::AGGREGATED_REPORTS.bits();

/// A bundle whose payload an application is sending.
pub(crate) struct Transmission {
    key: BundleKey,
    /// Not yet given to the store: it goes with the first payload.
    header: Option<Bytes>,
    crc: PayloadCrc,
    complete: bool,
}

impl Node {
    /// An application begins to send a bundle.
    pub(crate) fn begin_transmission(
        &mut self,
        now: Now,
        stream: StreamId,
        request: RequestId,
        send: SendRequest,
    ) {
        match self.create(now, stream, request, send) {
            Ok(transmission) => {
                if let Some(client) = self.clients.get_mut(&stream) {
                    client.transmissions.insert(request, transmission);
                }
            }
            Err(refusal) => self.transmission_done(now, stream, request, Err(refusal)),
        }
    }

    fn create(
        &mut self,
        now: Now,
        stream: StreamId,
        request: RequestId,
        send: SendRequest,
    ) -> Result<Transmission, ApiRefusal> {
        let send = self.check_request(stream, send)?;
        let source = send.source.unwrap_or(EndpointId::Null);
        let creation = self.next_creation(now, &source);
        let asked = BundleFlags::from_bits(send.flags);
        let flags = asked.without(BundleFlags::AGGREGATED_REPORTS);
        let announces = asked != flags && flags.intersects(BundleFlags::ALL_REPORTS);
        let mut builder = BundleBuilder::new(source, send.destination, creation, send.lifetime_ms)
            .with_flags(flags)
            .with_hop_limit(HOP_LIMIT);
        if announces {
            builder = builder.with_aggregated_reports();
        }
        if let Some(report_to) = send.report_to {
            builder = builder.with_report_to(report_to);
        }
        let header = builder.header(send.payload_octets).map_err(|refusal| {
            ApiRefusal::InvalidRequest(format!("{refusal} ({})", refusal.section()))
        })?;
        if let Err(refused) = self.check_room(header.total_octets()) {
            return Err(ApiRefusal::NoResources(refused.why));
        }
        let key = self.hold_new(now, &builder, &header);
        if announces && let Some(entry) = self.bundles.entry_mut(key) {
            entry.flags |= BundleFlags::AGGREGATED_REPORTS.bits();
        }
        self.arrivals
            .insert(key, Arrival::new(Origin::Client { stream, request }));
        let crc = header.payload_crc();
        Ok(Transmission {
            key,
            header: Some(header.octets),
            crc,
            complete: false,
        })
    }

    /// What an application asks for, made complete; or why it may not.
    fn check_request(
        &self,
        stream: StreamId,
        mut send: SendRequest,
    ) -> Result<SendRequest, ApiRefusal> {
        if self.stage != Stage::Working {
            return Err(ApiRefusal::NoResources("the node is shutting down".into()));
        }
        send.destination = self.local.resolve(send.destination);
        if send.destination.is_null() {
            return Err(ApiRefusal::InvalidRequest(
                "nothing can be sent to the null endpoint".into(),
            ));
        }
        let source = match send.source.take() {
            Some(source) => self.local.resolve(source),
            None => self.own_endpoint(stream)?,
        };
        if !source.is_null() && self.local.locality(&source) != Locality::Application {
            let why = format!("{source} is no application endpoint of this node");
            return Err(ApiRefusal::InvalidRequest(why));
        }
        let own = self
            .clients
            .get(&stream)
            .and_then(|client| client.endpoint.as_ref());
        if own.is_none_or(|(_, endpoint)| *endpoint != source)
            && !self.registrations.allows(self.endpoints.find(&source), "")
        {
            let why = format!("{source} is held by another application");
            return Err(ApiRefusal::Unauthorized(why));
        }
        let unknown = send.flags & !ASKABLE;
        if unknown != 0 {
            let why = format!(
                "bundle flags {unknown:#x} are not an application's to set (RFC 9171 4.2.3)"
            );
            return Err(ApiRefusal::InvalidRequest(why));
        }
        if source.is_null() && send.flags & BundleFlags::ALL_REPORTS.bits() != 0 {
            let why = "an anonymous bundle cannot ask for status reports (RFC 9171 4.2.3)";
            return Err(ApiRefusal::InvalidRequest(why.into()));
        }
        if send.lifetime_ms == 0 {
            send.lifetime_ms = self.config.default_lifetime_ms;
        }
        send.source = Some(source);
        Ok(send)
    }

    /// The next creation timestamp of a source; what it needs reserved goes to the store first.
    pub(crate) fn next_creation(&mut self, now: Now, source: &EndpointId) -> CreationTimestamp {
        let (creation, reservation) = self.creation.next(source, now.dtn);
        if let Some(reservation) = reservation {
            self.store(StoreCommand::Reserve {
                time: reservation.time,
                sequence: reservation.sequence,
            });
        }
        creation
    }

    /// Hold a bundle that this node makes.
    pub(crate) fn hold_new(
        &mut self,
        now: Now,
        builder: &BundleBuilder,
        header: &OutgoingHeader,
    ) -> BundleKey {
        let primary = builder.primary();
        let entry = Entry {
            source: self.endpoints.acquire(&primary.source),
            destination: self.endpoints.acquire(&primary.destination),
            report_to: self.endpoints.acquire(&primary.report_to),
            previous: None,
            creation: primary.creation,
            fragment: None,
            flags: primary.flags.bits(),
            lifetime_ms: primary.lifetime_ms,
            age_ms: 0,
            held_ms: 0,
            received: now.monotonic,
            received_dtn: now.dtn,
            expires: now.monotonic + Duration::from_millis(primary.lifetime_ms),
            extents: Extents::Many(Box::default()),
            header_octets: u32::try_from(header.octets.len()).unwrap_or(u32::MAX),
            payload_octets: header.payload.length,
            octets: header.total_octets(),
            order: 0,
            state: State::Arriving,
            sound_until: now.monotonic + FRESH,
            returns: 0,
            hops: Some(0),
            doomed: None,
            removal: Removal::Deleted,
        };
        self.bundles.insert(entry)
    }

    /// The next octets of a payload.
    pub(crate) fn continue_transmission(
        &mut self,
        stream: StreamId,
        request: RequestId,
        octets: Bytes,
        end: bool,
    ) {
        let Some(client) = self.clients.get_mut(&stream) else {
            return;
        };
        let Some(transmission) = client.transmissions.get_mut(&request) else {
            return;
        };
        transmission.crc.update(&octets);
        let key = transmission.key;
        let header = transmission.header.take();
        let trailer = end.then(|| transmission.crc.trailer());
        if end {
            transmission.complete = true;
        }
        match (header, trailer) {
            (Some(header), Some(trailer)) if octets.len() <= JOIN_OCTETS => {
                let mut joined =
                    BytesMut::with_capacity(header.len() + octets.len() + trailer.len());
                joined.put(header);
                joined.put(octets);
                joined.put(trailer);
                self.append(key, Piece::Octets(joined.freeze()));
            }
            (header, trailer) => {
                let pieces = header
                    .into_iter()
                    .chain(core::iter::once(octets))
                    .chain(trailer);
                for piece in pieces.filter(|piece| !piece.is_empty()) {
                    self.append(key, Piece::Octets(piece));
                }
            }
        }
        if end {
            self.commit(key);
        }
    }

    /// Answer an application's request.
    pub(crate) fn transmission_done(
        &mut self,
        now: Now,
        stream: StreamId,
        request: RequestId,
        outcome: Result<(EndpointId, CreationTimestamp), ApiRefusal>,
    ) {
        if let Some(client) = self.clients.get_mut(&stream) {
            client.transmissions.remove(&request);
        }
        self.answer(now, stream, ClientCommand::Sent { request, outcome });
    }

    /// The application has gone: a bundle whose payload is not complete is dropped; a complete one stays.
    pub(crate) fn break_off(&mut self, now: Now, transmission: Transmission) {
        if !transmission.complete {
            self.abandon(now, transmission.key);
        }
    }
}
