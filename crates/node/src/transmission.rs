//! Bundles that applications of this node send (RFC 9171 5.2).

use alloc::boxed::Box;
use alloc::format;
use dhow_bundle::mutant::{Mutant, planted};

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{
    BundleBuilder, BundleFlags, CrcType, CreationTimestamp, EndpointId, HeaderTemplate, Now,
    PayloadCrc, PrimaryBlock, Priority, SmallBuffer, Version, v6,
};

use crate::api::seam::{ApiRefusal, RequestId, SendRequest};
use crate::driver::StreamId;
use crate::held::arrivals::Origin;
use crate::local::Locality;
use crate::node::{Node, Stage};
use crate::reception::SUMMED_OCTETS;
use crate::reservation::Comes;

/// Payloads up to this size are written to the store together with their header blocks: copying costs
/// less than handing over three pieces, and a small slice does not keep the buffer that it came in.
const JOIN_OCTETS: usize = 4 * 1024;

/// Octets of the room in which bundles are joined one behind the other, at most.
const JOINED_OCTETS: usize = 64 * 1024;

/// The number of times that a bundle of this node may be forwarded: the most that RFC 9171 4.4.3 has, since rows of nodes are long. A routing loop
/// ends by it, and is slow before that: a bundle that comes back waits longer each time.
pub(crate) const HOP_LIMIT: u8 = 255;

/// Flags that an application may ask for (RFC 9171 4.2.3). Of version 6 all of these but the times of reports, which it always has, and
/// [`ASKABLE_V6`].
const ASKABLE: u64 = BundleFlags::MUST_NOT_FRAGMENT.bits()
    | BundleFlags::ACKNOWLEDGMENT_REQUESTED.bits()
    | BundleFlags::STATUS_TIME_REQUESTED.bits()
    | BundleFlags::ALL_REPORTS.bits();

/// Flags of version 6 beside them (RFC 5050 4.2): custody, reports of it, and the class of service.
const ASKABLE_V6: u64 = v6::BundleFlags::CUSTODY_REQUESTED.bits()
    | v6::BundleFlags::REPORT_CUSTODY.bits()
    | v6::BundleFlags::NONE
        .with_priority(v6::Priority::Reserved)
        .bits();

/// A bundle whose payload an application is sending. A connection sends one after the other.
pub(crate) struct Transmission {
    pub(crate) request: RequestId,
    key: BundleKey,
    crc: PayloadCrc,
}

/// The template of a connection's bundles: the fields that the newest request asked for, checked, with its header encoded
/// but for the creation timestamp. Most bundles of a connection differ in nothing else.
pub(crate) struct Preparation {
    prepared: Option<Box<Prepared>>,
    /// The header of the bundle that is begun, while it is not given to the store.
    header: alloc::vec::Vec<u8>,
    /// The buffer in which small bundles are joined.
    joined: SmallBuffer,
}

impl Default for Preparation {
    fn default() -> Self {
        Self {
            prepared: None,
            header: alloc::vec::Vec::new(),
            joined: SmallBuffer::new(JOINED_OCTETS),
        }
    }
}

struct Prepared {
    asked: SendRequest,
    primary: PrimaryBlock,
    priority: Priority,
    /// Whether the bundle says that its report-to endpoint reads aggregated reports.
    announces: bool,
    template: HeaderTemplate,
}

impl Prepared {
    fn new(
        asked: SendRequest,
        send: SendRequest,
        creation: CreationTimestamp,
        checksum: CrcType,
    ) -> Result<Self, ApiRefusal> {
        let source = send.source.unwrap_or(EndpointId::Null);
        let flags = BundleFlags::from_bits(send.flags);
        let announces = send.aggregated_reports
            && send.version == Version::V7
            && flags.intersects(BundleFlags::ALL_REPORTS);
        let mut builder = BundleBuilder::new(source, send.destination, creation, send.lifetime_ms)
            .with_version(send.version)
            .with_flags(flags)
            .with_payload_crc_type(checksum)
            .with_hop_limit(HOP_LIMIT);
        if let Some(priority) = send.priority {
            builder = builder.with_priority(priority);
        }
        if announces {
            builder = builder.with_aggregated_reports();
        }
        if let Some(report_to) = send.report_to {
            builder = builder.with_report_to(report_to);
        } else if !flags.intersects(BundleFlags::ALL_REPORTS) {
            // Nobody reports: the source need not travel twice.
            builder = builder.with_report_to(EndpointId::Null);
        }
        let template = HeaderTemplate::new(&builder, send.payload_octets).map_err(|refusal| {
            ApiRefusal::InvalidRequest(format!("{refusal} ({})", refusal.section()))
        })?;
        Ok(Self {
            asked,
            primary: builder.primary().clone(),
            priority: builder.priority(),
            announces,
            template,
        })
    }

    /// True when a bundle with this creation timestamp has the same blocks.
    const fn fits(&self, creation: CreationTimestamp) -> bool {
        self.template.is_timed() == creation.time.is_known()
    }
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
                let before = self
                    .delivery
                    .client_mut(stream)
                    .and_then(|client| client.transmission.replace(transmission));
                if let Some(before) = before {
                    self.break_off(now, before);
                }
            }
            Err(refusal) => self.delivery.transmission_done(
                &mut self.attention,
                now,
                stream,
                request,
                Err(refusal),
            ),
        }
    }

    fn create(
        &mut self,
        now: Now,
        stream: StreamId,
        request: RequestId,
        send: SendRequest,
    ) -> Result<Transmission, ApiRefusal> {
        let mut preparation = self
            .delivery
            .client_mut(stream)
            .map(|client| core::mem::take(&mut client.preparation))
            .unwrap_or_default();
        let made = self.begin(now, stream, &mut preparation, send);
        if let Some(client) = self.delivery.client_mut(stream) {
            client.preparation = preparation;
        }
        let (key, crc) = made?;
        self.held
            .begin_arrival(key, Origin::Client { stream, request });
        Ok(Transmission { request, key, crc })
    }

    /// Make the header of a bundle, and hold it.
    fn begin(
        &mut self,
        now: Now,
        stream: StreamId,
        preparation: &mut Preparation,
        asked: SendRequest,
    ) -> Result<(BundleKey, PayloadCrc), ApiRefusal> {
        let known = preparation
            .prepared
            .take()
            .filter(|prepared| prepared.asked == asked && self.stage == Stage::Working);
        let (source, checked) = match &known {
            Some(prepared) => (prepared.primary.source.clone(), None),
            None => {
                let send = self.check_request(stream, asked.clone())?;
                (send.source.clone().unwrap_or(EndpointId::Null), Some(send))
            }
        };
        let creation = self.held.next_creation(&mut self.outbox, now, &source);
        let prepared = match known.filter(|prepared| prepared.fits(creation)) {
            Some(prepared) => prepared,
            // RFC 9171 4.4.2: where the clock has been set or lost, there are other blocks than before.
            None => {
                let send = match checked {
                    Some(send) => send,
                    None => self.check_request(stream, asked.clone())?,
                };
                Box::new(Prepared::new(
                    asked,
                    send,
                    creation,
                    self.payload_checksum(),
                )?)
            }
        };
        self.cast(now, preparation, prepared, creation)
    }

    /// Write a header with this creation timestamp, and hold its bundle.
    fn cast(
        &mut self,
        now: Now,
        preparation: &mut Preparation,
        mut prepared: Box<Prepared>,
        creation: CreationTimestamp,
    ) -> Result<(BundleKey, PayloadCrc), ApiRefusal> {
        let crc = prepared.template.payload_crc();
        preparation.header.clear();
        prepared.template.write(creation, &mut preparation.header);
        prepared.primary.creation = creation;
        let header_octets = u64::try_from(preparation.header.len()).unwrap_or(u64::MAX);
        let payload_octets = prepared.template.payload_octets();
        let total = header_octets
            .saturating_add(payload_octets)
            .saturating_add(prepared.template.trailer_octets());
        let comes = Comes::Given(&prepared.primary.destination);
        self.make_room(now, total, comes)
            .map_err(|refused| ApiRefusal::NoResources(refused.why))?;
        let key = self.held.hold_made(
            now,
            prepared.asked.version,
            &prepared.primary,
            [header_octets, payload_octets, total],
            (prepared.priority, prepared.announces),
        );
        let flags = v6::BundleFlags::from_bits(prepared.primary.flags.bits());
        if prepared.asked.version == Version::V6
            && flags.contains(v6::BundleFlags::CUSTODY_REQUESTED)
            && self.forwarding.router_of(&self.held, key).is_none()
        {
            // RFC 5050 5.2: the source is the first custodian.
            self.held.begin_custody(&mut self.outbox, key, None);
        }
        preparation.prepared = Some(prepared);
        Ok((key, crc))
    }

    /// The request of an application, made complete; or the reason why it may not.
    fn check_request(
        &self,
        stream: StreamId,
        mut send: SendRequest,
    ) -> Result<SendRequest, ApiRefusal> {
        if self.stage != Stage::Working {
            return Err(ApiRefusal::NoResources("the node is shutting down".into()));
        }
        send.destination = self.held.endpoints().local().resolve(send.destination);
        if send.destination.is_null() {
            return Err(ApiRefusal::InvalidRequest(
                "nothing can be sent to the null endpoint".into(),
            ));
        }
        let source = match send.source.take() {
            Some(source) => self.held.endpoints().local().resolve(source),
            None => self.delivery.own_endpoint(stream)?,
        };
        if !source.is_null()
            && self.held.endpoints().local().locality(&source) != Locality::Application
        {
            let why = format!("{source} is not an application endpoint of this node");
            return Err(ApiRefusal::InvalidRequest(why));
        }
        let own = self
            .delivery
            .client(stream)
            .and_then(|client| client.endpoint.as_ref());
        if own.is_none_or(|(_, endpoint)| *endpoint != source)
            && !self
                .delivery
                .registrations()
                .allows(self.held.endpoints().find(&source), "")
        {
            let why = format!("{source} is held by another application");
            return Err(ApiRefusal::Unauthorized(why));
        }
        let askable = match send.version {
            Version::V6 => ASKABLE & !BundleFlags::STATUS_TIME_REQUESTED.bits() | ASKABLE_V6,
            Version::V7 => ASKABLE,
        };
        let unknown = send.flags & !askable;
        if unknown != 0 {
            let why = format!(
                "bundle flags {unknown:#x} are not an application's to set (RFC 9171 4.2.3)"
            );
            return Err(ApiRefusal::InvalidRequest(why));
        }
        let priority =
            (send.priority).unwrap_or_else(|| Priority::of_flags(send.version, send.flags));
        if let Some(most) = self.config.highest_priority.filter(|most| priority > *most) {
            let why = format!(
                "priority {priority} is not an application's to ask for here: {most} at most ([api] highest_priority)"
            );
            return Err(ApiRefusal::Unauthorized(why));
        }
        if source.is_null() && send.flags & BundleFlags::ALL_REPORTS.bits() != 0 {
            let why = "an anonymous bundle cannot ask for status reports (RFC 9171 4.2.3)";
            return Err(ApiRefusal::InvalidRequest(why.into()));
        }
        if send.lifetime_ms == 0 || planted(Mutant::LifetimeOfNode) {
            send.lifetime_ms = self.config.default_lifetime_ms;
        }
        send.source = Some(source);
        Ok(send)
    }

    /// The next octets of a payload.
    pub(crate) fn continue_transmission(
        &mut self,
        now: Now,
        stream: StreamId,
        request: RequestId,
        octets: Bytes,
        end: bool,
    ) {
        let Some(client) = self.delivery.client_mut(stream) else {
            return;
        };
        let Some(transmission) = client
            .transmission
            .as_mut()
            .filter(|transmission| transmission.request == request)
        else {
            return;
        };
        let crc = if octets.len() < SUMMED_OCTETS {
            transmission.crc.update(&octets);
            None
        } else {
            transmission.crc.update_with_own(&octets)
        };
        let key = transmission.key;
        let preparation = &mut client.preparation;
        let header = &mut preparation.header;
        if end && !header.is_empty() && octets.len() <= JOIN_OCTETS {
            // The octets before the payload and those behind it, in one buffer that is used again.
            let before = header.len();
            transmission.crc.write_trailer(header);
            let joined = &mut preparation.joined;
            joined.reserve(header.len() + octets.len());
            let (before, trailer) = header.split_at(before);
            joined.put(before);
            joined.put(&octets);
            joined.put(trailer);
            header.clear();
            let joined = joined.give();
            client.transmission = None;
            let ahead = self
                .forwarding
                .is_first(&self.held, key)
                .then(|| joined.clone());
            self.held
                .append(&mut self.outbox, key, Piece::Octets(joined));
            self.held
                .commit(&mut self.adjacencies, &mut self.outbox, key);
            if let Some(octets) = ahead {
                self.forwarding.leave_before_sync(
                    &mut self.held,
                    &mut self.adjacencies,
                    &mut self.outbox,
                    now,
                    key,
                    &octets,
                );
            }
            return;
        }
        let header = (!header.is_empty()).then(|| Bytes::from(core::mem::take(header)));
        let trailer = end.then(|| transmission.crc.trailer());
        if end {
            client.transmission = None;
        }
        let pieces = [(header, None), (Some(octets), crc), (trailer, None)];
        for (piece, crc) in pieces {
            if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
                self.held
                    .append_summed(&mut self.outbox, key, Piece::Octets(piece), crc);
            }
        }
        if end {
            self.held
                .commit(&mut self.adjacencies, &mut self.outbox, key);
            let entry = self
                .held
                .entry(key)
                .filter(|_| planted(Mutant::AcceptedAtOnce));
            let created =
                entry.map(|it| (self.held.endpoints().id(it.source()).clone(), it.creation()));
            if let Some(created) = created {
                self.delivery.transmission_done(
                    &mut self.attention,
                    now,
                    stream,
                    request,
                    Ok(created),
                );
            }
        }
    }

    /// The application has gone, and the rest of a payload will not come.
    pub(crate) fn break_off(&mut self, now: Now, transmission: Transmission) {
        self.abandon(now, transmission.key);
    }
}
