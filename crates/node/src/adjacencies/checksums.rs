//! Which payload checksum a session's bundles get.

use crate::adjacencies::Adjacencies;
use crate::checksums::Ending;
use crate::config::Enabled;
use crate::driver::StreamId;
use dhow_bundle::Header;
use dhow_bundle::v7::forward::ForwardedPayloadCrc;

impl Adjacencies {
    /// The checksum of payload blocks that leave over a session.
    pub(crate) fn payload_crc(&self, stream: StreamId) -> ForwardedPayloadCrc {
        let neighbour = self.neighbours.get(&stream);
        match neighbour.is_some_and(|it| it.policy.strip_checksum == Enabled::Yes) {
            true => ForwardedPayloadCrc::Omitted,
            false => ForwardedPayloadCrc::SameType,
        }
    }

    /// The octets after the payload of this bundle when it leaves whole over a session.
    pub(crate) fn ending(&self, stream: StreamId, header: &Header) -> Ending {
        match header.loses_payload_crc(self.payload_crc(stream)) {
            true => Ending::Bare,
            false => Ending::Stored,
        }
    }
}
