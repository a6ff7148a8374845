//! A store of the plainest kind: one log in memory, everything durable at the next sync.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::{BundleKey, Extent, Extents, Piece, StoreCommand, StoreEvent};

#[derive(Default)]
pub struct StoreInMemory {
    /// Bundles by where they begin in the log.
    bundles: BTreeMap<u64, Bytes>,
    places: BTreeMap<BundleKey, u64>,
    arriving: BTreeMap<BundleKey, BytesMut>,
    end: u64,
}

impl StoreInMemory {
    /// Carries out a batch, and tells of it as a store does: one event for each commit and deletion, and one for
    /// each bundle that is still arriving.
    pub fn sync(&mut self, commands: &mut Vec<StoreCommand>) -> Vec<StoreEvent> {
        let mut events = Vec::new();
        let mut grown = Vec::new();
        for command in commands.drain(..) {
            match command {
                StoreCommand::Append { key, octets, .. } => {
                    let octets = match octets {
                        Piece::Octets(octets) => octets,
                        Piece::Extent(extent) => self.read(&[extent]),
                    };
                    self.arriving
                        .entry(key)
                        .or_default()
                        .extend_from_slice(&octets);
                    grown.push(key);
                }
                StoreCommand::Commit { key, .. } => {
                    let octets = self
                        .arriving
                        .remove(&key)
                        .expect("octets come before their commit");
                    let extent = Extent {
                        offset: self.end,
                        length: u64::try_from(octets.len()).unwrap(),
                    };
                    self.bundles.insert(extent.offset, octets.freeze());
                    self.places.insert(key, extent.offset);
                    self.end += extent.length;
                    let extents = Extents::One(extent);
                    events.push(StoreEvent::Stored { key, extents });
                }
                StoreCommand::Abandon { key } => {
                    self.arriving.remove(&key);
                    events.push(StoreEvent::Deleted { key });
                }
                StoreCommand::Delete { key, .. } => {
                    let place = self
                        .places
                        .remove(&key)
                        .expect("only what is held is deleted");
                    self.bundles.remove(&place);
                    events.push(StoreEvent::Deleted { key });
                }
                StoreCommand::Reserve { time, sequence } => {
                    events.push(StoreEvent::Reserved { time, sequence });
                }
                StoreCommand::Verify { key } => events.push(StoreEvent::Verified { key }),
                StoreCommand::AppendAt { .. } | StoreCommand::Note { .. } => {
                    unreachable!("nothing comes early, and routes remember nothing")
                }
                StoreCommand::Watch { .. }
                | StoreCommand::Divide { .. }
                | StoreCommand::Released { .. } => {}
                StoreCommand::Share { .. } => {
                    unreachable!("only bundles that take long to arrive are shared")
                }
            }
        }
        grown.dedup();
        events.extend(grown.into_iter().filter_map(|key| {
            let octets = u64::try_from(self.arriving.get(&key)?.len()).unwrap();
            Some(StoreEvent::Durable { key, octets })
        }));
        events
    }

    /// The octets of all extents in order; one extent is not copied.
    pub fn read(&self, extents: &[Extent]) -> Bytes {
        if let [extent] = extents {
            return self.slice(*extent);
        }
        let mut out = BytesMut::new();
        for &extent in extents {
            out.extend_from_slice(&self.slice(extent));
        }
        out.freeze()
    }

    fn slice(&self, extent: Extent) -> Bytes {
        let (start, bundle) = self
            .bundles
            .range(..=extent.offset)
            .next_back()
            .expect("extents lie in bundles");
        let from = usize::try_from(extent.offset - start).unwrap();
        bundle.slice(from..from + usize::try_from(extent.length).unwrap())
    }
}
