//! Neighbours that mean harm, by hand: what they announce and do not send, and how small they cut what they send.

#[allow(
    dead_code,
    reason = "each test program uses what it needs of the world"
)]
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use dhow_bundle::storage::{Medium, Piece, StoreCommand, StoreEvent};
use dhow_bundle::{
    BlockFlags, BlockType, BundleBuilder, BundleFlags, CreationTimestamp, DtnTime, Instant, Now,
    Version, v6,
};
use dhow_link::Gather;
use dhow_link::stream::DownReason;
use dhow_node::Node;
use dhow_node::config::{ListenerId, SessionPolicy};
use dhow_node::driver::{Action, Event, Occurrence, OperatorCommand, Purpose, StreamId, Ticket};

const START: u8 = 2;
const END: u8 = 1;

const NOW: Now = Now {
    monotonic: Instant::START,
    dtn: crate::world::EPOCH,
};

/// A node without a driver: its commands to its store and its words of itself are kept.
struct Bare {
    node: Node,
    commands: Vec<StoreCommand>,
    occurrences: Vec<Occurrence>,
}

impl Bare {
    fn new(quota_octets: u64) -> Self {
        let mut config = crate::world::config(1);
        config.quota_octets = quota_octets;
        config.reports.generate = BundleFlags::ALL_REPORTS.bits();
        let mut bare = Self {
            node: Node::new(config),
            commands: Vec::new(),
            occurrences: Vec::new(),
        };
        bare.handle(Event::Opened {
            reserved_time: DtnTime::UNKNOWN,
            reserved_sequence: 0,
            removed: Vec::new(),
        });
        bare
    }

    fn handle(&mut self, event: Event) {
        self.node.handle(NOW, event);
        self.carry_out(NOW);
    }

    /// So many seconds after all else, time alone does what it does.
    fn wait(&mut self, seconds: u64) {
        let now = Now {
            monotonic: NOW.monotonic + Duration::from_secs(seconds),
            dtn: DtnTime::from_millis(crate::world::EPOCH.as_millis() + seconds * 1_000),
        };
        self.node.handle_timeout(now);
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Now) {
        while let Some(action) = self.node.poll(now) {
            match action {
                Action::Store(command) => self.commands.push(command),
                Action::Occurred(occurrence) => self.occurrences.push(occurrence),
                _ => {}
            }
        }
        self.node.check_invariants().unwrap();
    }

    /// A neighbour has connected and its session is up.
    fn meet(&mut self, stream: u64) -> StreamId {
        let stream = StreamId(stream);
        let purpose = Purpose::Accepted {
            listener: ListenerId(0),
        };
        self.handle(Event::Connected { stream, purpose });
        let mut hello = BytesMut::from(&b"dtn!\x04\x00"[..]);
        let name = format!("ipn:{}.0", 60 + stream.0);
        hello.put_u8(7);
        hello.put_u16(0);
        hello.put_u64(1 << 20);
        hello.put_u64(1 << 40);
        hello.put_u16(u16::try_from(name.len()).unwrap());
        hello.put_slice(name.as_bytes());
        hello.put_u32(0);
        self.handle(Event::Octets {
            stream,
            octets: hello.freeze(),
        });
        stream
    }

    fn segment(&mut self, stream: StreamId, transfer: u64, flags: u8, octets: &[u8]) {
        let mut segment = BytesMut::new();
        segment.put_u8(1);
        segment.put_u8(flags);
        segment.put_u64(transfer);
        if flags & START != 0 {
            segment.put_u32(0);
        }
        segment.put_u64(u64::try_from(octets.len()).unwrap());
        segment.put_slice(octets);
        let octets = segment.freeze();
        self.handle(Event::Octets { stream, octets });
    }

    /// The store answers everything.
    fn answer(&mut self) {
        for command in std::mem::take(&mut self.commands) {
            let event = match command {
                StoreCommand::Abandon { key } | StoreCommand::Delete { key, .. } => {
                    StoreEvent::Deleted { key }
                }
                _ => continue,
            };
            self.handle(Event::Store(event));
        }
    }

    fn refusals(&self) -> usize {
        let refused = |it: &&Occurrence| matches!(it, Occurrence::RefusedIncoming { .. });
        self.occurrences.iter().filter(refused).count()
    }

    fn appended(&self) -> Vec<u64> {
        let commands = self.commands.iter();
        commands
            .filter_map(|command| match command {
                StoreCommand::Append { octets, .. } => Some(octets.length()),
                _ => None,
            })
            .collect()
    }
}

fn builder(sequence: u64) -> BundleBuilder {
    let creation = CreationTimestamp {
        time: crate::world::EPOCH,
        sequence,
    };
    let (source, destination) = ("ipn:66.1".parse().unwrap(), "ipn:1.5".parse().unwrap());
    BundleBuilder::new(source, destination, creation, 60_000)
}

/// Header blocks that announce `payload` octets.
fn header(sequence: u64, payload: u64) -> Bytes {
    builder(sequence).header(payload).unwrap().octets
}

#[test]
fn what_is_announced_and_not_sent_keeps_nobody_out() {
    let mut bare = Bare::new(100 << 20);
    for peer in 0..6 {
        let stream = bare.meet(peer);
        bare.segment(stream, 0, START, &header(peer, 90 << 20));
    }
    let honest = bare.meet(99);
    let bundle = builder(99).bundle(&vec![7; 50 << 20]).unwrap();
    for (number, part) in (0..).zip(bundle.chunks(1 << 20)) {
        let is_last = (number + 1) * (1 << 20) >= bundle.len();
        let flags = if number == 0 { START } else { 0 } | if is_last { END } else { 0 };
        bare.segment(honest, 0, flags, part);
    }
    assert_eq!(bare.refusals(), 0);
    let is_kept = |it: &StoreCommand| matches!(it, StoreCommand::Commit { .. });
    assert!(bare.commands.iter().any(is_kept));
}

/// The quota may be configured so, or be what a small disk has room for.
#[test]
fn neighbours_that_begin_and_bring_nothing_hold_little_of_a_small_quota() {
    let quota = 16 << 20;
    begin_and_bring_nothing(Bare::new(quota), quota);
    let mut bare = Bare::new(10 << 30);
    bare.handle(Event::Store(StoreEvent::Capacity {
        octets: quota,
        medium: Medium::Disk,
    }));
    begin_and_bring_nothing(bare, quota);
}

fn begin_and_bring_nothing(mut bare: Bare, quota: u64) {
    for peer in 0..60 {
        let stream = bare.meet(peer);
        bare.segment(stream, 0, START, &header(peer, 1_200_000));
    }
    assert_eq!(bare.refusals(), 0);
    let (_, octets) = bare.node.stored();
    assert!(octets < quota / 4, "{octets}");
    let honest = bare.meet(99);
    let bundle = builder(99).bundle(&vec![7; 1 << 20]).unwrap();
    bare.segment(honest, 0, START | END, &bundle);
    assert_eq!(bare.refusals(), 0);
}

#[test]
fn whoever_brings_more_than_there_is_room_for_is_refused_and_leaves_the_room_to_others() {
    let quota = 20 << 20;
    let mut bare = Bare::new(quota);
    let (one, other) = (bare.meet(0), bare.meet(1));
    for (sequence, stream) in [(0, one), (1, other)] {
        bare.segment(stream, 0, START, &header(sequence, 15 << 20));
    }
    let piece = vec![0; 1 << 20];
    for _ in 0..15 {
        for stream in [one, other] {
            bare.segment(stream, 0, 0, &piece);
            let (_, octets) = bare.node.stored();
            assert!(octets <= quota, "both are counted");
        }
    }
    assert_eq!(bare.refusals(), 1, "one of the two has all the room");
    bare.answer();
    // The rest of the refused one is dropped; a small bundle has room.
    bare.segment(one, 1, START | END, &[]);
    let small = bare.meet(2);
    let before = bare.refusals();
    bare.segment(small, 0, START | END, &builder(9).bundle(b"x").unwrap());
    assert_eq!(bare.refusals(), before);
}

#[test]
fn segments_of_one_octet_reach_the_store_together() {
    let mut bare = Bare::new(100 << 20);
    let stream = bare.meet(0);
    let bundle = builder(0).bundle(&[7; 20_000]).unwrap();
    let last = bundle.len() - 1;
    for (place, octet) in bundle.iter().enumerate() {
        let flags = if place == 0 { START } else { 0 } | if place == last { END } else { 0 };
        bare.segment(stream, 0, flags, &[*octet]);
    }
    let appended = bare.appended();
    assert!(appended.len() < 10, "{} commands", appended.len());
    assert_eq!(
        appended.iter().sum::<u64>(),
        u64::try_from(bundle.len()).unwrap()
    );
    assert_eq!(bare.refusals(), 0);
}

/// RFC 9171 5.6 step 4: the block's own flag asks for the report, whatever the bundle asks for.
#[test]
fn a_block_that_cannot_be_processed_is_reported_where_it_asks_for_that() {
    for (flags, reports) in [
        (BlockFlags::REPORT_IF_UNPROCESSABLE, 1),
        (BlockFlags::NONE, 0),
    ] {
        let mut bare = Bare::new(1 << 20);
        let stream = bare.meet(0);
        let bundle = builder(0)
            .with_block(BlockType(200), flags, Bytes::from_static(b"\x00"))
            .bundle(b"x")
            .unwrap();
        bare.segment(stream, 0, START | END, &bundle);
        assert_eq!(bare.node.counters().reports, reports);
    }
}

/// A bundle of version 6 with a block behind its payload, whose data have so many octets.
fn with_trailer(sequence: u64, payload: &[u8], trailer: usize) -> Bytes {
    let octets = builder(sequence)
        .with_version(Version::V6)
        .bundle(b"")
        .unwrap();
    let mut header = v6::Header::decode(&octets).unwrap().unwrap();
    header.payload_octets = u64::try_from(payload.len()).unwrap();
    header.payload_flags = v6::BlockFlags::NONE;
    let mut octets = header.encode();
    octets.extend_from_slice(payload);
    let block = v6::Block {
        block_type: v6::BlockType(200),
        flags: v6::BlockFlags::LAST,
        references: Vec::new(),
        content: vec![7; trailer].into(),
    };
    block.encode(&mut octets);
    octets.into()
}

/// RFC 5050 4: blocks may follow the payload, and nothing says how many octets before they are there.
#[test]
fn blocks_behind_a_payload_count_once_they_are_there() {
    for (payload, cut) in [(10, usize::MAX), (10, 1), (10, 7), (100_000, 4_000)] {
        let mut bare = Bare::new(1 << 20);
        let stream = bare.meet(0);
        let bundle = with_trailer(0, &vec![7; payload], 300);
        let last = bundle.len().div_ceil(cut.min(bundle.len())) - 1;
        for (place, part) in bundle.chunks(cut.min(bundle.len())).enumerate() {
            let flags = if place == 0 { START } else { 0 } | if place == last { END } else { 0 };
            bare.segment(stream, 0, flags, part);
        }
        assert_eq!(bare.refusals(), 0);
        let octets = u64::try_from(bundle.len()).unwrap();
        assert_eq!(bare.appended().iter().sum::<u64>(), octets);
        assert_eq!(bare.node.stored(), (1, octets));
        let kept = bare.commands.iter().find_map(|it| match it {
            StoreCommand::Commit { bundle, .. } => Some(bundle.version),
            _ => None,
        });
        assert_eq!(kept, Some(6));
    }
}

#[test]
fn a_trailer_that_never_ends_or_finds_no_room_is_refused() {
    let mut bare = Bare::new(100_000);
    let stream = bare.meet(0);
    bare.segment(
        stream,
        0,
        START | END,
        &builder(7).bundle(&[7; 35_000]).unwrap(),
    );
    let before = bare.node.stored();
    let bundle = with_trailer(0, &[7; 35_000], 40_000);
    bare.segment(stream, 1, START | END, &bundle);
    assert_eq!(bare.refusals(), 1, "the trailer has no room");
    bare.answer();
    assert_eq!(bare.node.stored(), before);

    let mut bare = Bare::new(10 << 20);
    let stream = bare.meet(0);
    bare.segment(stream, 0, START, &with_trailer(0, b"x", 0));
    for _ in 0..20 {
        bare.segment(stream, 0, 0, &[0; 10_000]);
    }
    assert_eq!(bare.refusals(), 1, "it has a bound");
    bare.answer();
    assert_eq!(bare.node.stored(), (0, 0));

    // Cut within the trailer, and octets behind the last block.
    let whole = with_trailer(1, b"x", 30);
    for octets in [
        whole.slice(..whole.len() - 1),
        [&whole[..], b"x"].concat().into(),
    ] {
        let before = bare.refusals();
        let stream = bare.meet(u64::try_from(octets.len()).unwrap());
        bare.segment(stream, 0, START | END, &octets);
        assert_eq!(bare.refusals(), before + 1);
    }
    bare.answer();
    assert_eq!(bare.node.stored(), (0, 0));
}

/// RFC 9174 5.1.2.
#[test]
fn a_message_that_the_neighbour_rejects_is_told_of() {
    let mut bare = Bare::new(1 << 20);
    let stream = bare.meet(0);
    let octets = Bytes::from_static(&[6, 2, 1]);
    bare.handle(Event::Octets { stream, octets });
    let told = bare.occurrences.iter().any(|it| {
        matches!(it, Occurrence::MessageRejected { peer: Some(peer), message: 1, reason: 2 }
            if peer.to_string() == "ipn:60.0")
    });
    assert!(told, "{:?}", bare.occurrences);
}

/// Octets of what the store was given and has not answered.
fn waiting(bare: &Bare) -> u64 {
    bare.appended().iter().sum()
}

#[test]
fn transfers_that_end_early_leave_their_octets_in_the_bound_of_a_stalled_disk() {
    let bound = crate::world::config(1).store_queue_octets;
    let mut bare = Bare::new(1 << 30);
    let piece = vec![7; 64 << 10];
    let last = u64::try_from(piece.len()).unwrap() + 1_000;
    for peer in 0..20 {
        let stream = bare.meet(peer);
        if bare.node.takes_octets(stream) {
            bare.segment(stream, 0, START, &header(peer, 90 << 20));
        }
        for _ in 0..9 {
            if bare.node.takes_octets(stream) {
                bare.segment(stream, 0, 0, &piece);
            }
        }
        bare.handle(Event::Disconnected { stream });
        let waiting = waiting(&bare);
        assert!(waiting <= bound + last, "{waiting} where {bound} may");
    }
    // The disk works again: everything has room.
    bare.answer();
    assert!(bare.node.is_at_rest());
    let stream = bare.meet(99);
    assert!(bare.node.takes_octets(stream));
}

/// RFC 9174 4.6: peers make room for what is announced, so that is no more than can be taken.
#[test]
fn the_transfer_mru_that_is_announced_is_the_quota_or_less() {
    let announced = |quota_octets: u64, edit: &dyn Fn(&mut SessionPolicy)| {
        let mut config = crate::world::config(1);
        config.quota_octets = quota_octets;
        edit(&mut config.listeners[0].policy);
        let mut node = Node::new(config);
        let stream = StreamId(0);
        let purpose = Purpose::Accepted {
            listener: ListenerId(0),
        };
        let hello =
            b"dtn!\x04\x00\x07\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0\x07ipn:9.0\0\0\0\0";
        let octets = Bytes::from_static(hello);
        node.handle(NOW, Event::Connected { stream, purpose });
        node.handle(NOW, Event::Octets { stream, octets });
        let mut out = Gather::default();
        node.poll_octets(NOW, stream, 1024, &mut out);
        let pieces = out.pieces().iter();
        let said: Vec<u8> = pieces
            .flat_map(|piece| match piece {
                Piece::Octets(octets) => octets.to_vec(),
                Piece::Extent(_) => panic!("nothing is stored"),
            })
            .collect();
        // RFC 9174 4.6: behind the contact header, the message's type, its keepalive and its segment MRU.
        u64::from_be_bytes(said[6 + 1 + 2 + 8..][..8].try_into().unwrap())
    };
    let usual = |_: &mut SessionPolicy| ();
    assert_eq!(announced(10 << 30, &usual), 10 << 30);
    assert_eq!(announced(1 << 50, &usual), 16 << 30);
    assert_eq!(announced(100_000, &usual), 100_000);
    assert_eq!(announced(1 << 50, &|it| it.transfer_mru = 1 << 40), 1 << 40);
    assert_eq!(announced(1 << 20, &|it| it.transfer_mru = 1 << 40), 1 << 20);
    assert_eq!(announced(1 << 20, &|it| it.transfer_mru = 5_000), 5_000);
}

#[test]
fn what_begins_and_comes_no_further_is_shown_and_gives_its_room_back() {
    let mut bare = Bare::new(100 << 20);
    let stream = bare.meet(0);
    let bundle = builder(0).bundle(&[7; 20_000]).unwrap();
    bare.segment(stream, 0, START, &bundle[..5_000]);
    let shown = bare.node.sessions().remove(0).arriving.unwrap();
    assert_eq!(
        shown.id.to_string(),
        format!("ipn:66.1/{}/0", crate::world::EPOCH.as_millis())
    );
    let octets = u64::try_from(bundle.len()).unwrap();
    assert_eq!((shown.octets, shown.received_octets), (octets, 5_000));
    assert_eq!(bare.node.stored().0, 1);
    bare.wait(299);
    assert_eq!(bare.node.sessions().len(), 1);
    bare.wait(300);
    assert!(bare.node.sessions().is_empty());
    let is_told = |it: &Occurrence| matches!(it, Occurrence::SessionDown { reason, .. } if *reason == DownReason::TransferTimeout);
    assert!(bare.occurrences.iter().any(is_told));
    bare.answer();
    assert_eq!(bare.node.stored(), (0, 0));
}

#[test]
fn what_is_coming_in_can_be_dropped() {
    let mut bare = Bare::new(100 << 20);
    let stream = bare.meet(0);
    let bundle = builder(0).bundle(&[7; 20_000]).unwrap();
    bare.segment(stream, 0, START, &bundle[..5_000]);
    let id = bare.node.sessions().remove(0).arriving.unwrap().id;
    let drop = |bare: &mut Bare| {
        bare.handle(Event::Operator {
            ticket: Ticket(0),
            command: OperatorCommand::BundleDrop(id.clone()),
        });
    };
    drop(&mut bare);
    assert_eq!(
        (bare.refusals(), &bare.node.sessions()[0].arriving),
        (1, &None)
    );
    bare.answer();
    assert_eq!(bare.node.stored(), (0, 0));
    // The rest comes and is nothing; what follows is taken.
    bare.segment(stream, 0, END, &bundle[5_000..]);
    bare.segment(stream, 1, START | END, &builder(1).bundle(b"x").unwrap());
    let is_kept = |it: &StoreCommand| matches!(it, StoreCommand::Commit { .. });
    assert_eq!(bare.commands.iter().filter(|it| is_kept(it)).count(), 1);
    assert_eq!(bare.refusals(), 1);
}
