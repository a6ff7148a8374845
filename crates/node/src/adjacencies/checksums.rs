//! Payload checksums of bundles over a session.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::session_id::SessionId;
use crate::checksums::Ending;
use crate::config::Enabled;
use dhow_bundle::v7::forward::ForwardedPayloadCrc;
use dhow_bundle::{Header, HopEdit};

impl Adjacencies {
    /// The checksum of payload blocks that leave over a session.
    pub(crate) fn payload_crc(&self, session: SessionId) -> ForwardedPayloadCrc {
        let neighbour = self.neighbours.get(&session);
        match neighbour.is_some_and(|it| it.policy.strip_checksum == Enabled::Yes) {
            true => ForwardedPayloadCrc::Omitted,
            false => ForwardedPayloadCrc::SameType,
        }
    }

    /// The octets after the payload of this bundle when it leaves whole over a session.
    pub(crate) fn ending(&self, session: SessionId, header: &Header, edit: &HopEdit) -> Ending {
        if header.has_open_end() {
            return Ending::Replaced(header.forwarded_trailer(edit));
        }
        match header.loses_payload_crc(self.payload_crc(session)) {
            true => Ending::bare(),
            false => Ending::Stored,
        }
    }
}
