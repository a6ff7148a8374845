//! Bundles that come in other bundles (draft-ietf-dtn-bibect-03): what a peer at the other end of a tunnel encapsulated comes in as a transfer of the
//! tunnel's, read from the encapsulating bundle, which stays until the other is durable here.
//!
//! Records of nodes that are no peers are not looked at: a link says whose bundles are taken, and how.

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::v7::admin::bibe::{BibeRecord, BibeRefusal, BibeTypes, BpduHead};
use dhow_link::stream::{RefuseReason, TransferId};

use crate::adjacencies::session_id::SessionId;
use crate::adjacencies::tunnel::Coming;
use crate::node::Node;
use crate::reception::{Ends, Refused};
use crate::sending::RETRANSMIT_RETRY;

impl Node {
    /// Octets of an encapsulating bundle are here, or the disk has not given them.
    pub(crate) fn hear_encapsulating(
        &mut self,
        now: Now,
        (session, key): (SessionId, BundleKey),
        transfer: Option<TransferId>,
        octets: Option<Bytes>,
    ) {
        // A tunnel that was closed has given all back.
        let Some(tunnel) = self.adjacencies.tunnel_mut(session) else {
            return;
        };
        tunnel.end_reading(key);
        match (transfer, octets) {
            (None, Some(octets)) => self.open_record(now, session, key, octets),
            (None, None) => drop(self.retry_after(now, key, RETRANSMIT_RETRY)),
            (Some(transfer), octets) => {
                let Some(coming) = tunnel.coming(transfer) else {
                    return;
                };
                match octets {
                    Some(octets) => self.read_on(now, (session, transfer), coming, octets, false),
                    None => {
                        tunnel.give_up(transfer);
                        let refused = Some(RefuseReason::Retransmit);
                        self.abandon_reception(now, session, transfer, refused);
                        self.retry_after(now, key, RETRANSMIT_RETRY);
                    }
                }
            }
        }
    }

    /// The beginning of a peer's administrative record is here.
    fn open_record(&mut self, now: Now, session: SessionId, key: BundleKey, octets: Bytes) {
        let outcome = match BibeTypes::peek(&octets) {
            Some(BibeRecord::Bpdu) => self.open_bpdu(now, session, key, &octets),
            Some(BibeRecord::Signal) => {
                let source = self.held.entry(key).map(|entry| entry.source());
                let peer = source.map(|source| self.held.endpoints().id(source).clone());
                let custody = self.held.custody_mut().value_mut();
                let heard = peer.map(|peer| custody.handle_bibe_signal(&peer, &octets));
                self.delivered(now, key);
                heard.unwrap_or(Ok(()))
            }
            // Another record says nothing to the node.
            None => {
                self.delivered(now, key);
                Ok(())
            }
        };
        if let Err(refusal) = outcome {
            self.outbox.counters.refused += 1;
            if let Some(from) = self.adjacencies.peer_of(session) {
                let why = alloc::format!("{refusal} (draft-ietf-dtn-bibect-03)");
                let refused = Refused::not_acceptable(why);
                self.outbox.occurred(refused.occurrence(from));
            }
        }
    }

    fn open_bpdu(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        octets: &Bytes,
    ) -> Result<(), BibeRefusal> {
        let length = self.held.payload_length(key);
        let head = BpduHead::decode(octets).and_then(|head| {
            let (head, head_octets) = head.ok_or(BibeRefusal::BundleCut)?;
            head.check_payload(head_octets, length)?;
            Ok((head, head_octets))
        });
        let (head, head_octets) = match head {
            Ok(head) => head,
            Err(refusal) => {
                self.delivered(now, key);
                return Err(refusal);
            }
        };
        let Some(tunnel) = self.adjacencies.tunnel_mut(session) else {
            return Ok(());
        };
        let coming = Coming {
            outer: key,
            head,
            read: u64::try_from(head_octets).unwrap_or(u64::MAX),
        };
        let transfer = tunnel.begin(coming);
        let rest = octets.slice(head_octets.min(octets.len())..);
        self.read_on(now, (session, transfer), coming, rest, true);
        Ok(())
    }

    /// The next octets of a bundle in another.
    fn read_on(
        &mut self,
        now: Now,
        (session, transfer): (SessionId, TransferId),
        coming: Coming,
        octets: Bytes,
        start: bool,
    ) {
        let read = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        let read = coming.read.saturating_add(read);
        let end = read >= self.held.payload_length(coming.outer);
        if !end && let Some(tunnel) = self.adjacencies.tunnel_mut(session) {
            tunnel.pause(transfer, read);
        }
        let ends = Ends {
            start,
            end,
            length: start.then_some(coming.head.bundle_octets),
        };
        self.receive(now, session, transfer, octets, ends);
        self.attention.attend(session.stream());
    }
}
