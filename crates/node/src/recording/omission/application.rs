//! An application's connection that passes by: the payloads of its bundles are left out.

use bytes::Bytes;
use dhow_bundle::EndpointId;
use prost::Message as _;

use super::runs::Runs;
use crate::api::frame::FrameReader;
use crate::api::wire::{AapMessage, Body};
use crate::local::{Local, Locality};

/// Follows what an application says, as its session does.
#[derive(Debug, Default)]
pub(super) struct ApplicationOmission {
    reader: FrameReader,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// A message comes.
    #[default]
    Message,
    /// So many octets of a payload come.
    Payload(u64, Owner),
    /// Answers come, which have no payloads.
    Answers,
    /// Its session reads no further.
    Lost,
}

/// The reader of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The node itself, so that it is not left out.
    Node,
    Another,
}

impl ApplicationOmission {
    /// The next octets of the connection.
    pub(super) fn pass(&mut self, octets: &Bytes, local: &Local, runs: &mut Runs) {
        self.reader.push(octets.clone());
        let mut rest = &octets[..];
        while !rest.is_empty() {
            let before = self.reader.octets();
            let owner = match self.stage {
                Stage::Message => {
                    self.stage = match self.reader.take_message() {
                        Ok(Some(message)) => behind(message, local),
                        Ok(None) => Stage::Message,
                        Err(_) => Stage::Lost,
                    };
                    Owner::Node
                }
                Stage::Payload(left, owner) => {
                    let payload = self.reader.take_payload(left).unwrap_or_default();
                    let taken = u64::try_from(payload.len()).unwrap_or(u64::MAX);
                    self.stage = match left.saturating_sub(taken) {
                        0 => Stage::Message,
                        left => Stage::Payload(left, owner),
                    };
                    owner
                }
                Stage::Answers => {
                    self.reader.clear();
                    return runs.keep(rest);
                }
                Stage::Lost => {
                    self.reader.clear();
                    return runs.omit(rest.len());
                }
            };
            let (passed, behind) = rest.split_at((before - self.reader.octets()).min(rest.len()));
            match owner {
                Owner::Node => runs.keep(passed),
                Owner::Another => runs.omit(passed.len()),
            }
            rest = behind;
        }
    }
}

/// The item that follows a message.
fn behind(message: Bytes, local: &Local) -> Stage {
    let Ok(message) = AapMessage::decode(message) else {
        return Stage::Lost;
    };
    match message.body {
        Some(Body::Config(config)) if config.is_subscriber => Stage::Answers,
        Some(Body::Adu(adu)) if adu.payload_length > 0 => {
            let destination = adu.dst_eid.parse::<EndpointId>();
            let locality = destination.map(|it| local.locality(&local.resolve(it)));
            let owner = match locality {
                Ok(Locality::Administrative | Locality::Perf | Locality::Routing) => Owner::Node,
                _ => Owner::Another,
            };
            Stage::Payload(adu.payload_length, owner)
        }
        _ => Stage::Message,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::api::wire::{BundleAdu, ConnectionConfig, put_message};

    /// The octets of an application in chunks of some size, as they are recorded.
    fn recorded(said: &[u8], cut: usize) -> Vec<u8> {
        let mut omission = ApplicationOmission::default();
        let mut out = Vec::new();
        for piece in said.chunks(cut) {
            let mut runs = Runs::default();
            omission.pass(
                &Bytes::copy_from_slice(piece),
                &Local::new(&super::super::super::tests::config()),
                &mut runs,
            );
            let mut item = Vec::new();
            runs.write(&mut item);
            let mut reader = dhow_bundle::cbor::Reader::new(&item);
            let octets = <Bytes as super::super::super::item::Item>::read(&mut reader).unwrap();
            assert_eq!(octets.len(), piece.len());
            out.extend_from_slice(&octets);
        }
        out
    }

    #[test]
    fn payloads_are_found_in_any_chunks() {
        let mut said = Vec::new();
        let config = ConnectionConfig {
            endpoint_id: "42".into(),
            ..ConnectionConfig::default()
        };
        put_message(&AapMessage::new(Body::Config(config)), &mut said);
        let mut expected = said.clone();
        for payload in [&b"PAYLOAD"[..], b"", b"MORE"] {
            let adu = BundleAdu {
                dst_eid: "ipn:2.1".into(),
                payload_length: payload.len().try_into().unwrap(),
                ..BundleAdu::default()
            };
            let mut message = Vec::new();
            put_message(&AapMessage::new(Body::Adu(adu)), &mut message);
            said.extend_from_slice(&message);
            said.extend_from_slice(payload);
            expected.extend_from_slice(&message);
            expected.resize(said.len(), 0);
        }
        for cut in 1..=said.len() {
            assert_eq!(recorded(&said, cut), expected, "cut at {cut}");
        }
    }

    #[test]
    fn answers_of_subscribers_are_kept() {
        let mut said = Vec::new();
        let config = ConnectionConfig {
            is_subscriber: true,
            endpoint_id: "42".into(),
            ..ConnectionConfig::default()
        };
        put_message(&AapMessage::new(Body::Config(config)), &mut said);
        // Read as a message of another kind, these would announce a payload.
        said.extend_from_slice(b"\x04\x1a\x02\x28\x09\x02\x08\x01");
        for cut in 1..=said.len() {
            assert_eq!(recorded(&said, cut), said, "cut at {cut}");
        }
    }
}
