//! The sink: checks every bundle that comes, acknowledges it and lets it go.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use dhow_bundle::{
    BundleId, CrcType, CreationTimestamp, EndpointId, HeaderReader, PayloadVerifier, Reading,
};
use dhow_link::stream::{LinkCommand, LinkEvent};
use serde::Serialize;

use crate::connection::{Connection, seconds};
use crate::failure::Failure;

/// The bundles that a sink took.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// Different bundles, whole and with right checksums.
    pub bundles: u64,
    /// Those that came again.
    pub duplicates: u64,
    /// When the last of them was whole, seconds of the monotonic clock.
    pub ended: f64,
}

/// Takes bundles over one session.
pub struct Sink {
    connection: Connection,
    current: Incoming,
    seen: Seen,
}

/// The bundle that is coming in.
#[derive(Default)]
struct Incoming {
    octets: u64,
    reader: HeaderReader,
    /// The octets of a header that is not whole.
    begun: BytesMut,
    body: Option<PayloadVerifier>,
    /// The octets behind the payload.
    trailer: Vec<u8>,
}

/// The generator, and the sequence numbers that have come, by creation time.
#[derive(Default)]
struct Seen {
    source: Option<EndpointId>,
    sequences: HashMap<u64, Vec<u64>>,
}

/// Sequence numbers are below this: each takes a bit.
const SEQUENCES: u64 = 1 << 30;

impl Sink {
    /// Over a session that is established.
    #[must_use]
    pub fn new(connection: Connection) -> Self {
        Self {
            connection,
            current: Incoming::default(),
            seen: Seen::default(),
        }
    }

    /// Takes so many more bundles.
    ///
    /// # Errors
    /// The session failed, or what came is no bundle.
    pub fn take(&mut self, count: u64) -> Result<Taken, Failure> {
        let (mut bundles, mut duplicates) = (0, 0);
        while bundles < count {
            match self.connection.next()? {
                LinkEvent::Segment {
                    transfer,
                    octets,
                    end,
                    ..
                } => {
                    let octets = self.current.add(octets)?;
                    self.connection
                        .command(LinkCommand::Acknowledge { transfer, octets });
                    if end {
                        let id = std::mem::take(&mut self.current).finish()?;
                        match self.seen.note(id)? {
                            true => bundles += 1,
                            false => duplicates += 1,
                        }
                    }
                }
                LinkEvent::Abandoned { .. } => self.current = Incoming::default(),
                _ => {}
            }
        }
        let ended = seconds();
        self.connection.flush()?;
        Ok(Taken {
            bundles,
            duplicates,
            ended,
        })
    }
}

impl Incoming {
    /// Adds what comes next; how much that is in all.
    fn add(&mut self, octets: Bytes) -> Result<u64, Failure> {
        self.octets += u64::try_from(octets.len()).unwrap_or(u64::MAX);
        match &mut self.body {
            Some(body) => self.trailer.extend_from_slice(verify(body, &octets)),
            None => self.begin(octets)?,
        }
        Ok(self.octets)
    }

    fn begin(&mut self, octets: Bytes) -> Result<(), Failure> {
        let octets = match self.begun.is_empty() {
            true => octets,
            false => {
                self.begun.extend_from_slice(&octets);
                self.begun.clone().freeze()
            }
        };
        if !self.reader.read(&octets, Reading::Strict)? {
            self.begun = BytesMut::from(&octets[..]);
            return Ok(());
        }
        let header = self.reader.header();
        let mut body = PayloadVerifier::new(header);
        let behind = octets.get(header.octets.len()..).unwrap_or_default();
        self.trailer.extend_from_slice(verify(&mut body, behind));
        self.body = Some(body);
        // The header's octets lie in a buffer that is to be used again.
        self.reader.release();
        Ok(())
    }

    /// The identity of the bundle, with the endpoint that made it.
    fn finish(self) -> Result<BundleId, Failure> {
        let Some(body) = self.body else {
            return Err(Failure::Session(
                "a transfer ended in its header".to_owned(),
            ));
        };
        body.finish(&self.trailer)?;
        let header = self.reader.header();
        if header.payload.crc_type == CrcType::None {
            return Err(Failure::Foreign("without a checksum of its payload"));
        }
        Ok(header.id())
    }
}

/// Checks as much of the payload as is there; what follows it comes back.
fn verify<'a>(body: &mut PayloadVerifier, octets: &'a [u8]) -> &'a [u8] {
    let left = usize::try_from(body.left_octets()).unwrap_or(usize::MAX);
    let (payload, behind) = octets.split_at(left.min(octets.len()));
    body.update(payload);
    behind
}

impl Seen {
    /// Notes a bundle; false when it has come before.
    fn note(&mut self, id: BundleId) -> Result<bool, Failure> {
        let source = self.source.get_or_insert_with(|| id.source.clone());
        if *source != id.source {
            return Err(Failure::Foreign("of another source"));
        }
        if id.fragment.is_some() {
            return Err(Failure::Foreign("a fragment"));
        }
        let CreationTimestamp { time, sequence } = id.creation;
        if sequence >= SEQUENCES {
            return Err(Failure::Foreign("numbered as no generator does"));
        }
        let words = self.sequences.entry(time.as_millis()).or_default();
        let word = usize::try_from(sequence / 64).unwrap_or(usize::MAX);
        if words.len() <= word {
            words.resize(word.saturating_add(1), 0);
        }
        let bit = 1 << (sequence % 64);
        Ok(words.get_mut(word).is_some_and(|word| {
            let is_new = *word & bit == 0;
            *word |= bit;
            is_new
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread::JoinHandle;

    use dhow_bundle::{BundleBuilder, DtnTime, FragmentRange};
    use dhow_link::stream::TransferId;
    use dhow_link::tcpcl::v4::Role;

    use super::*;
    use crate::generator::Generator;

    fn created(sequence: u64) -> CreationTimestamp {
        let time = DtnTime::from_millis(1_000);
        CreationTimestamp { time, sequence }
    }

    /// Two ends of a session; the passive one is served by `serve` on a thread.
    fn pair<T: Send + 'static>(
        serve: impl FnOnce(Connection) -> T + Send + 'static,
    ) -> (Connection, JoinHandle<T>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let thread = std::thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let node_id = "ipn:3.0".parse().unwrap();
            serve(Connection::establish(socket, Role::Passive, node_id).unwrap())
        });
        let node_id = "ipn:1.0".parse().unwrap();
        let connection = Connection::establish(socket, Role::Active, node_id).unwrap();
        (connection, thread)
    }

    #[test]
    fn what_is_generated_is_taken_whatever_its_size() {
        const ORDERS: [(u64, usize); 6] = [
            (3, 0),
            (70_000, 1),
            (500, 4096),
            (500, 4097),
            (90, 1_000_000),
            (2, 3),
        ];
        let (connection, sink) = pair(|connection| {
            let mut sink = Sink::new(connection);
            ORDERS.map(|(count, _)| sink.take(count).unwrap())
        });
        let (source, destination) = ("ipn:1.1".parse().unwrap(), "ipn:3.1".parse().unwrap());
        let mut generator = Generator::new(connection, source, destination);
        let generated = ORDERS.map(|(count, size)| generator.send(count, size).unwrap());
        let taken = sink.join().unwrap();
        for ((generated, taken), (count, _)) in generated.iter().zip(&taken).zip(ORDERS) {
            assert_eq!((generated.bundles, taken.bundles), (count, count));
            assert_eq!(taken.duplicates, 0);
            assert!(generated.began <= taken.ended && taken.ended <= generated.ended);
        }
    }

    /// Octets of one transfer, sent to a sink that takes one bundle.
    fn taken(octets: Vec<u8>) -> Result<Taken, Failure> {
        let (mut connection, sink) = pair(|connection| Sink::new(connection).take(1));
        let transfer = TransferId(0);
        let length = u64::try_from(octets.len()).unwrap();
        connection.command(LinkCommand::Transmit { transfer, length });
        let octets = dhow_bundle::storage::Piece::Octets(octets.into());
        connection.command(LinkCommand::Supply { transfer, octets });
        connection.flush().unwrap();
        sink.join().unwrap()
    }

    #[test]
    fn a_bundle_with_one_wrong_bit_is_not_taken() {
        let (source, destination) = ("ipn:1.1".parse().unwrap(), "ipn:3.1".parse().unwrap());
        let builder = BundleBuilder::new(source, destination, created(7), 1_000);
        let right = builder.bundle(&[5; 300]).unwrap().to_vec();
        assert_eq!(taken(right.clone()).unwrap().bundles, 1);
        for place in [10, 40, right.len() - 100, right.len() - 3] {
            let mut wrong = right.clone();
            wrong[place] ^= 4;
            let failure = taken(wrong).unwrap_err();
            assert!(matches!(failure, Failure::Bundle(_)), "{failure}");
        }
        let failure = taken(right[..30].to_vec()).unwrap_err();
        assert!(matches!(failure, Failure::Session(_)), "{failure}");
    }

    #[test]
    fn what_comes_again_is_no_bundle_more() {
        let id = |source: &str, sequence| BundleId {
            source: source.parse().unwrap(),
            creation: created(sequence),
            fragment: None,
        };
        let mut seen = Seen::default();
        for is_new in [true, false] {
            for at in [0, 63, 64, 1_000] {
                assert_eq!(seen.note(id("ipn:1.1", at)).unwrap(), is_new);
            }
        }
        assert!(seen.note(id("ipn:1.1", 1)).unwrap());
        let fragment = BundleId {
            fragment: Some(FragmentRange {
                offset: 0,
                length: 5,
            }),
            ..id("ipn:1.1", 2)
        };
        for foreign in [fragment, id("ipn:1.2", 2), id("ipn:1.1", u64::MAX)] {
            assert!(matches!(seen.note(foreign), Err(Failure::Foreign(_))));
        }
    }
}
