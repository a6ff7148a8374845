//! Memory: what a node counts is what it takes, and beyond its quota it refuses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a test says what is wrong by failing"
)]

#[allow(
    dead_code,
    reason = "each test program uses what it needs of the world"
)]
#[path = "all/world/mod.rs"]
mod world;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use dhow_bundle::storage::{BundleKey, Extent, Extents, StoreCommand, StoreEvent, StoredBundle};
use dhow_bundle::{BundleBuilder, BundleId, CreationTimestamp, DtnTime, EndpointId, Instant, Now};
use dhow_link::stream::RefuseReason;
use dhow_node::Node;
use dhow_node::config::ListenerId;
use dhow_node::driver::{Action, Event, Occurrence, Purpose, StreamId};

/// Octets that the store takes for each bundle, which the node counts and does not hold.
const STORE_OCTETS: i64 = 24;

thread_local! {
    static ALLOCATED: Cell<i64> = const { Cell::new(0) };
}

/// Counts octets that a thread has allocated and not given back.
struct Counting;

fn note(octets: usize, sign: i64) {
    let octets = i64::try_from(octets).unwrap_or(i64::MAX);
    ALLOCATED.with(|it| it.set(it.get() + sign * octets));
}

#[allow(unsafe_code, reason = "there is no other way to count allocations")]
// SAFETY: everything is the system's allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note(layout.size(), -1);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocated() -> i64 {
    ALLOCATED.with(Cell::get)
}

fn now(seconds: u64) -> Now {
    Now {
        monotonic: Instant::START + Duration::from_secs(seconds),
        dtn: world::EPOCH.saturating_add_millis(seconds * 1_000),
    }
}

#[derive(Clone, Copy, Debug)]
enum Names {
    /// All bundles are of one flow.
    OneFlow,
    /// Each is for an `ipn` node of its own.
    Numbers,
    /// Each has a destination, a source and a report-to endpoint of its own, with long names.
    Long,
}

impl Names {
    /// Destination, source, report-to endpoint.
    fn of(self, number: u64) -> [EndpointId; 3] {
        let ipn = |node: u64| format!("ipn:{node}.1").parse().unwrap();
        let long = |role: &str| {
            format!("dtn://{role}{number:08}{}/e", "x".repeat(800))
                .parse()
                .unwrap()
        };
        match self {
            Self::OneFlow => [ipn(70), ipn(71), EndpointId::Null],
            Self::Numbers => [ipn(1_000 + number), ipn(71), EndpointId::Null],
            Self::Long => [long("to"), long("from"), long("tell")],
        }
    }
}

fn stored(names: Names, number: u64) -> StoredBundle {
    let [destination, source, report_to] = names.of(number);
    StoredBundle {
        id: BundleId {
            source,
            creation: CreationTimestamp {
                time: world::EPOCH,
                sequence: number,
            },
            fragment: None,
        },
        destination,
        report_to,
        version: 7,
        flags: 0,
        // Some expire in seconds of their own.
        lifetime_ms: 86_400_000 + number % 5_000 * 1_100,
        age_at_reception_ms: 0,
        received: world::EPOCH,
        header_octets: 100,
        payload_octets: 100,
        total_adu_octets: 0,
        previous: Some("ipn:66.0".parse().unwrap()),
        reads_aggregated_reports: false,
        priority: dhow_bundle::Priority::Normal,
        note: Bytes::new(),
    }
}

/// A node that holds so many bundles, which an earlier run stored; and the octets that it has allocated for them.
fn holding(names: Names, count: i64) -> (Node, i64, u64) {
    let mut config = world::config(1);
    config.reports.generate = 0;
    let mut node = Node::new(config);
    let (empty, counted_empty) = (allocated(), node.memory_octets());
    for number in 0..count.unsigned_abs() {
        let bundle = Box::new(stored(names, number));
        let extents = Extents::One(Extent {
            offset: number * 512,
            length: 201,
        });
        node.handle(now(0), Event::Recovered { bundle, extents });
    }
    node.handle(
        now(0),
        Event::Opened {
            reserved_time: DtnTime::UNKNOWN,
            reserved_sequence: 0,
            removed: Vec::new(),
        },
    );
    while node.poll(now(0)).is_some() {}
    let taken = allocated() - empty + count * STORE_OCTETS;
    let counted = node.memory_octets() - counted_empty;
    (node, taken, counted)
}

#[test]
fn what_is_counted_is_what_is_taken() {
    for names in [Names::OneFlow, Names::Numbers, Names::Long] {
        for count in [3_000_i64, 20_000] {
            let before = allocated();
            let (node, taken, counted) = holding(names, count);
            let counted = i64::try_from(counted).unwrap();
            println!(
                "{names:?}: {} octets a bundle are counted, {} taken",
                counted / count,
                taken / count
            );
            assert!(
                (counted - taken).abs() * 5 <= taken,
                "{names:?} {count}: {counted} are counted, {taken} taken"
            );
            drop(node);
            assert!((allocated() - before).abs() < 10_000);
        }
    }
}

/// Beyond its endpoint IDs, which many share, the index of the node and of the store has 160 octets a bundle.
#[test]
fn a_bundle_takes_160_octets_of_index() {
    for count in [100_000_i64, 140_000, 200_000] {
        let (_node, taken, _) = holding(Names::OneFlow, count);
        println!("{} octets a bundle of {count}", taken / count);
        assert!(taken <= 160 * count, "{} octets", taken / count);
    }
}

/// A node without a driver, whose store does all at once.
struct Bare {
    node: Node,
    now: Now,
    occurrences: Vec<Occurrence>,
    stored: u64,
}

impl Bare {
    fn new(memory_octets: u64) -> Self {
        let mut config = world::config(1);
        config.memory_octets = memory_octets;
        let mut bare = Self {
            node: Node::new(config),
            now: now(0),
            occurrences: Vec::new(),
            stored: 0,
        };
        bare.handle(Event::Opened {
            reserved_time: DtnTime::UNKNOWN,
            reserved_sequence: 0,
            removed: Vec::new(),
        });
        bare
    }

    fn handle(&mut self, event: Event) {
        self.node.handle(self.now, event);
        self.pump();
    }

    fn pump(&mut self) {
        while let Some(action) = self.node.poll(self.now) {
            let event = match action {
                Action::Store(StoreCommand::Commit { key, .. }) => {
                    self.stored += 1;
                    self.event_stored(key)
                }
                Action::Store(StoreCommand::Abandon { key } | StoreCommand::Delete { key, .. }) => {
                    StoreEvent::Deleted { key }
                }
                Action::Occurred(occurrence) => {
                    self.occurrences.push(occurrence);
                    continue;
                }
                _ => continue,
            };
            self.node.handle(self.now, Event::Store(event));
        }
    }

    fn event_stored(&self, key: BundleKey) -> StoreEvent {
        let extents = Extents::One(Extent {
            offset: self.stored * 4_096,
            length: 4_000,
        });
        StoreEvent::Stored { key, extents }
    }

    fn meet(&mut self) -> StreamId {
        let stream = StreamId(1);
        let purpose = Purpose::Accepted {
            listener: ListenerId(0),
        };
        self.handle(Event::Connected { stream, purpose });
        let mut hello = BytesMut::from(&b"dtn!\x04\x00"[..]);
        let name = b"ipn:66.0";
        hello.put_u8(7);
        hello.put_u16(0);
        hello.put_u64(1 << 20);
        hello.put_u64(1 << 40);
        hello.put_u16(u16::try_from(name.len()).unwrap());
        hello.put_slice(name);
        hello.put_u32(0);
        self.octets(stream, hello.freeze());
        stream
    }

    fn octets(&mut self, stream: StreamId, octets: Bytes) {
        self.handle(Event::Octets { stream, octets });
    }

    /// A bundle of which all endpoints are its own.
    fn offer(&mut self, stream: StreamId, number: u64) {
        let [destination, source, report_to] = Names::Long.of(number);
        let creation = CreationTimestamp {
            time: self.now.dtn,
            sequence: number,
        };
        let bundle = BundleBuilder::new(source, destination, creation, 60_000)
            .with_report_to(report_to)
            .bundle(b"small")
            .unwrap();
        let mut segment = BytesMut::new();
        segment.put_u8(1);
        segment.put_u8(3);
        segment.put_u64(number);
        segment.put_u32(0);
        segment.put_u64(u64::try_from(bundle.len()).unwrap());
        segment.put_slice(&bundle);
        self.octets(stream, segment.freeze());
    }

    fn refusals(&self) -> Vec<(RefuseReason, &str)> {
        let refused = self.occurrences.iter().filter_map(|it| match it {
            Occurrence::RefusedIncoming { reason, why, .. } => Some((*reason, why.as_str())),
            _ => None,
        });
        refused.collect()
    }
}

#[test]
fn names_that_nobody_else_has_fill_the_quota_of_memory_and_no_more() {
    const QUOTA: u64 = 1 << 20;
    let mut bare = Bare::new(QUOTA);
    let stream = bare.meet();
    let before = allocated();
    for number in 0..2_000 {
        bare.offer(stream, number);
        // The memory that a bundle needs is known once its header is here.
        assert!(bare.node.memory_octets() <= QUOTA + 8_192, "{number}");
    }
    let taken = allocated() - before;
    let refusals = bare.refusals();
    assert!(refusals.len() > 1_000 && bare.stored > 100);
    let (reason, why) = refusals[0];
    assert_eq!(reason, RefuseReason::NoResources);
    assert!(why.contains("[node] memory"), "{why}");
    // Refusals are remembered here, too.
    assert!(taken < 3 << 20, "{taken} octets were taken");
    // Once they have expired there is room again, and no less than before.
    let first = bare.stored;
    bare.now = now(61);
    bare.node.handle_timeout(bare.now);
    bare.pump();
    assert!(bare.node.memory_octets() < QUOTA / 4);
    bare.occurrences.clear();
    for number in 2_000..4_000 {
        bare.offer(stream, number);
    }
    assert!(bare.stored >= 2 * first - 2 && !bare.refusals().is_empty());
    bare.node.check_invariants().unwrap();
}
