//! Bundles as they leave for a next hop: re-encoded for it, and translated where it does not speak their version of the Bundle Protocol
//! (docs/gateway.md).
//!
//! A bundle is held in the version that it came in, and translated each time that it leaves, with the payload where it lies in the store. One that
//! has no form in the other version stays, marked, for a next hop that speaks its own.

use alloc::boxed::Box;
use alloc::string::ToString;

use bytes::Bytes;
use dhow_bundle::gateway::{AgeDialect, Crossed, Edit, Untranslatable, crossed, record_crossed};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::v7::forward::ForwardedPayloadCrc;
use dhow_bundle::{CrcType, Header, HopEdit, Now, Version};

use crate::adjacencies::Adjacencies;
use crate::adjacencies::neighbour::Neighbour;
use crate::adjacencies::session_id::SessionId;
use crate::checksums::Ending;
use crate::driver::{Occurrence, Untranslated};
use crate::forwarding::Forwarding;
use crate::forwarding::copies::CopyEnd;
use crate::node::Node;
use crate::sending::must_not_fragment;

/// Status report reason code of a bundle whose hop count exceeds its limit (RFC 9171 table 1).
pub(crate) const HOP_LIMIT_EXCEEDED: u8 = 9;

/// A whole bundle as it leaves for a next hop.
pub(crate) struct Leaving {
    /// All octets before its payload.
    pub(crate) head: Bytes,
    /// Octets of the bundle.
    pub(crate) total: u64,
    /// The octets after its payload.
    pub(crate) ending: Ending,
    /// Its payload, where it leaves with another than it has.
    pub(crate) record: Option<Bytes>,
    /// Whether the bundle leaves in the other version.
    pub(crate) is_translated: bool,
}

impl Leaving {
    /// Whether fragments of the bundle may leave in its stead.
    pub(crate) fn may_be_cut(&self, header: &Header) -> bool {
        self.record.is_none()
            && header.payload_octets() > 1
            && !must_not_fragment(header.primary.flags.bits())
    }

    /// The first octet of the bundle's payload that leaves: a record that is translated has none of them, so none count as taken when a
    /// transfer fails.
    pub(crate) fn start(&self) -> u64 {
        self.record.as_ref().map_or(0, |_| u64::MAX)
    }

    /// Whether the payload is to be compared with the store's checksums first, if that was not done for a while: nobody behind this node would
    /// notice that it is wrong. `whole` says that it was read, and compared with the bundle's own checksum.
    pub(crate) fn needs_verification(&self, header: &Header, whole: bool) -> bool {
        match whole {
            true => self.is_translated && header.payload.crc_type == CrcType::None,
            false => self.is_translated || !self.ending.has_checksum(header),
        }
    }

    /// The octets behind the head of a bundle that is in memory: its payload, and what follows it.
    pub(crate) fn body(&self, header: &Header, octets: &Bytes) -> [Bytes; 2] {
        let stored = octets.slice(header.octets.len().min(octets.len())..);
        match &self.record {
            None => self.ending.of_octets(stored, header.payload_octets()),
            Some(record) => {
                let length = u64::try_from(record.len()).unwrap_or(u64::MAX);
                self.ending.of_octets(record.clone(), length)
            }
        }
    }
}

/// A fragment as it leaves: the octets around its payload.
pub(crate) struct LeavingFragment {
    pub(crate) head: Bytes,
    pub(crate) end: Bytes,
}

impl Neighbour {
    /// Whether bundles of a version leave for this neighbour as they are.
    pub(crate) fn speaks(&self, version: Version) -> bool {
        self.policy.bundle_versions.has(version)
    }
}

impl Adjacencies {
    /// Whether bundles of a version leave translated over a session.
    pub(crate) fn translates(&self, session: SessionId, version: Version) -> bool {
        let neighbour = self.neighbour(session);
        neighbour.is_some_and(|neighbour| !neighbour.speaks(version))
    }

    /// The block that the neighbour of a session takes for the age of bundles of version 6.
    pub(crate) fn age_dialect(&self, session: SessionId) -> AgeDialect {
        let neighbour = self.neighbour(session);
        neighbour.map_or(AgeDialect::default(), |it| it.policy.age_dialect)
    }

    /// The facts about this node and about a hop to a neighbour that speaks only the other version.
    fn crossing(&self, session: SessionId, header: &Header) -> Option<Edit> {
        let neighbour = self.neighbour(session)?;
        (!neighbour.speaks(header.version())).then(|| Edit {
            age_dialect: neighbour.policy.age_dialect,
            ..Edit::default()
        })
    }

    /// The octets around a fragment's payload, which is the part that the edit says.
    pub(crate) fn leaving_fragment(
        &self,
        session: SessionId,
        header: &Header,
        hop: &HopEdit,
        payload: &[u8],
    ) -> Result<LeavingFragment, Untranslatable> {
        if let Some(edit) = self.crossing(session, header) {
            let edit = Edit {
                payload_crc: checksum(hop, Some(payload)),
                ..edit
            };
            let crossed = crossed(header, hop, edit)?;
            return Ok(LeavingFragment {
                head: crossed.octets().clone(),
                end: crossed.end(payload),
            });
        }
        let outgoing = header.forwarded(hop);
        let mut crc = outgoing.payload_crc();
        crc.update(payload);
        let mut end = crc.trailer();
        let trailer = header.forwarded_trailer(hop);
        if !trailer.is_empty() {
            end = [end, trailer].concat().into();
        }
        Ok(LeavingFragment {
            head: outgoing.octets,
            end,
        })
    }
}

impl Forwarding {
    /// A whole bundle as it leaves over a session; `octets` are its header at least, and else all of it.
    pub(crate) fn leaving(
        &mut self,
        adjacencies: &Adjacencies,
        session: SessionId,
        (header, octets): (&Header, &Bytes),
        hop: &HopEdit,
    ) -> Result<Leaving, Untranslatable> {
        let Some(edit) = adjacencies.crossing(session, header) else {
            let (head, total) = self.head(header, hop);
            return Ok(Leaving {
                head,
                total,
                ending: adjacencies.ending(session, header, hop),
                record: None,
                is_translated: false,
            });
        };
        let payload = payload_of(header, octets);
        let record = match (&payload, header.is_administrative()) {
            (_, false) => None,
            // A fragment of a record is refused with that reason.
            (Some(payload), true) if header.primary.fragment.is_none() => {
                Some(record_crossed(header.version(), payload)?)
            }
            (_, true) => return Err(Untranslatable::Record),
        };
        let seen = record.as_ref().or(payload.as_ref());
        let edit = Edit {
            record_octets: record.as_ref().and_then(|it| u64::try_from(it.len()).ok()),
            payload_crc: checksum(hop, seen.map(|it| &**it)),
            ..edit
        };
        let crossed: Crossed = crossed(header, hop, edit)?;
        Ok(Leaving {
            head: crossed.octets().clone(),
            total: crossed.total_octets(),
            ending: Ending::Replaced(crossed.end(seen.map_or(&[], |it| &**it))),
            record,
            is_translated: true,
        })
    }
}

impl Node {
    /// A bundle that a session took has no form in the version that its neighbour speaks: it waits for another next hop, and this neighbour is not
    /// tried again. If its hops are used up, it is deleted.
    pub(crate) fn cannot_cross(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        why: &Untranslatable,
    ) {
        self.refuse_crossing(now, session, key, why);
        if matches!(why, Untranslatable::HopLimit { .. }) {
            return self.give_back(now, session, key, None);
        }
        if self.forwarding.copies().router(key).is_some() {
            return self.copy_back(now, session, key, CopyEnd::Barred);
        }
        self.divert(now, key, 0, None);
    }

    /// Note, count and tell that a bundle has no form in the version that a session's neighbour speaks.
    pub(crate) fn refuse_crossing(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        why: &Untranslatable,
    ) {
        if matches!(why, Untranslatable::HopLimit { .. }) {
            // RFC 9171 4.4.3: it is deleted, as soon as the session has given it back.
            return self.delete_or_mark(now, key, HOP_LIMIT_EXCEEDED);
        }
        let Some(entry) = self.held.entry_mut(key) else {
            return;
        };
        entry.mark_untranslatable();
        self.outbox.counters.untranslatable += 1;
        let to = self.adjacencies.peer_of(session);
        let id = self.held.entry(key).map(|entry| self.held.bundle_id(entry));
        if let Some((id, to)) = id.zip(to) {
            let why = why.to_string();
            let untranslated = Box::new(Untranslated { id, to, why });
            (self.outbox).occurred(Occurrence::Untranslatable(untranslated));
        }
    }
}

/// The payload of a bundle that is whole in these octets.
fn payload_of(header: &Header, octets: &Bytes) -> Option<Bytes> {
    let start = header.octets.len();
    let length = usize::try_from(header.payload_octets()).ok()?;
    let end = start.checked_add(length)?;
    // Octets behind the payload of a larger bundle were read in its place.
    let whole = u64::try_from(octets.len()).ok()? >= header.total_octets();
    (whole && end <= octets.len()).then(|| octets.slice(start..end))
}

/// The checksum of a payload that crosses: none can be computed of one that is not in memory.
fn checksum(hop: &HopEdit, payload: Option<&[u8]>) -> Option<CrcType> {
    match (hop.payload_crc, payload) {
        (ForwardedPayloadCrc::SameType, Some(_)) => None,
        (ForwardedPayloadCrc::Omitted, _) | (_, None) => Some(CrcType::None),
    }
}
