use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::Priority;
use dhow_bundle::cbor::Reader;
use dhow_bundle::storage::{
    BundleKey, Extent, Extents, Medium, StoreEvent, StoreRefusal, StoredBundle,
};
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, FragmentRange, Instant, Now};
use dhow_link::stream::PeerIdentities;
use proptest::prelude::*;

use super::item::Item;
use super::*;
use crate::changes::{ChangedLink, ChangedListener, Changes, LiveSettings};
use crate::config::{
    Acknowledge, Acknowledgments, Config, DialTime, DiscoverConfig, DiscoverId, DropPolicy,
    Enabled, ExternalConfig, ExternalPolicy, ExternalRouting, FirstRead, Framing, LinkConfig,
    LinkId, ListenerConfig, ListenerId, PayloadChecksum, Protocol, ReadingPolicy, Reports, Route,
    RouterKind, Routing, SendOrder, SessionPolicy, SourceLimits, Tls, UdpPolicy,
};
use crate::contacts::{ContactTable, PlannedContact};
use crate::driver::{Carrier, Event, OperatorCommand, Path, Purpose, StreamId, Telling, Ticket};
use crate::view::LinkOrigin;

fn id() -> BundleId {
    BundleId {
        source: "ipn:1.5".parse().unwrap(),
        creation: CreationTimestamp {
            time: DtnTime::from_millis(800_000_000_000),
            sequence: 3,
        },
        fragment: Some(FragmentRange {
            offset: 10,
            length: 20,
        }),
    }
}

pub(super) fn config() -> Config {
    let policy = SessionPolicy {
        tls: Tls::Required,
        peer: Some("dtn://beta/".parse().unwrap()),
        reading: ReadingPolicy::Lenient,
        fragment_octets: Some(9),
        acknowledge: Acknowledge::NextHop,
        order: SendOrder::Expiry,
        relay: Enabled::No,
        accept_sources: vec!["ipn:4.*".to_string()],
        highest_priority: Some(Priority::Expedited(7)),
        ..SessionPolicy::default()
    };
    Config {
        custody: crate::config::CustodyPolicy::default(),
        node_ids: vec!["ipn:1.0".parse().unwrap(), "dtn://alpha/".parse().unwrap()],
        links: vec![LinkConfig {
            name: "beta".to_string(),
            policy: policy.clone(),
            enabled: Enabled::Yes,
            sessions: 2,
            backoff_min_ms: 50,
            backoff_max_ms: 1000,
            protocol: Protocol::default(),
            dial: DialTime::Contacts,
        }],
        listeners: vec![ListenerConfig {
            policy,
            protocol: Protocol::default(),
        }],
        routes: vec![Route {
            to: "ipn:4.*".to_string(),
            via: "beta".to_string(),
            priority: -7,
        }],
        quota_octets: 1 << 40,
        quota_bundles: 1000,
        memory_octets: 1 << 30,
        store_queue_octets: 1 << 20,
        reports: Reports::default(),
        echo_service: Some(7),
        perf_service: None,
        answers_per_second: 100,
        perf_sources: Vec::new(),
        payload_checksum: PayloadChecksum::default(),
        default_lifetime_ms: 86_400_000,
        highest_priority: Some(Priority::Bulk),
        source_limits: SourceLimits {
            octets: Some(7),
            bundles: None,
        },
        removed_bound: 10,
        first_read: FirstRead::HeaderBlocks,
        external: ExternalConfig {
            policy: ExternalPolicy {
                questions: 3,
                answer_ms: 1,
                fallback_ms: 2,
            },
            routing: vec![ExternalRouting {
                to: "ipn:7.*".into(),
                program: "hops".into(),
            }],
        },
        routing: vec![Routing {
            to: "ipn:*".into(),
            router: RouterKind::Flood,
            copies: 5,
            acknowledgments: Acknowledgments::Anyone,
            drop: DropPolicy::Largest,
        }],
        contacts: contacts(),
        discover: vec![DiscoverConfig {
            accept: vec!["ipn:*".into()],
            dtn2: Enabled::Yes,
            ..DiscoverConfig::usual(LinkConfig::usual("beta".into()))
        }],
        seed: u64::MAX,
    }
}

/// Some of each kind.
fn changes() -> Changes {
    let mut config = config();
    Changes {
        links_deleted: vec!["gamma".into()],
        links: vec![ChangedLink {
            origin: LinkOrigin::Added,
            config: config.links.remove(0),
        }],
        listeners_closed: vec![ListenerId(3)],
        listeners: vec![ChangedListener {
            id: ListenerId(3),
            config: config.listeners.remove(0),
        }],
        routes_deleted: config.routes.clone(),
        routes: config.routes,
        contacts_deleted: contacts().iter().collect(),
        contacts: contacts().iter().collect(),
        settings: Some(LiveSettings {
            reports: config.reports,
            payload_checksum: config.payload_checksum,
            default_lifetime_ms: 1,
            highest_priority: config.highest_priority,
        }),
    }
}

fn contacts() -> ContactTable {
    let mut contacts = ContactTable::default();
    let contact = PlannedContact {
        from: "ipn:1.0".parse().unwrap(),
        to: "dtn://beta/".parse().unwrap(),
        start: DtnTime::from_millis(800_000_000_000),
        end: DtnTime::from_millis(800_000_600_000),
        octets_per_s: 125_000,
        light_time_ms: 1_300,
    };
    contacts.insert(contact).unwrap();
    contacts
}

/// One of each event, and one of each choice within them.
fn events() -> Vec<Event> {
    let extent = |offset| Extent { offset, length: 5 };
    let bundle = StoredBundle {
        id: id(),
        destination: "ipn:977.4.1".parse().unwrap(),
        report_to: "dtn:none".parse().unwrap(),
        version: 7,
        flags: 4,
        lifetime_ms: 1000,
        age_at_reception_ms: 2,
        received: DtnTime::UNKNOWN,
        header_octets: 90,
        payload_octets: 1 << 33,
        total_adu_octets: 0,
        previous: Some("dtn://beta/".parse().unwrap()),
        reads_aggregated_reports: false,
        priority: Priority::Expedited(3),
        note: Bytes::new(),
    };
    let key = BundleKey(3);
    let (stream, ticket, link) = (StreamId(1 << 63), Ticket(2), LinkId(1));
    let many = Extents::Many([extent(0), extent(70_000)].into());
    let stores = [
        StoreEvent::Durable { key, octets: 9 },
        StoreEvent::DurableParts {
            key,
            octets: 9,
            behind: 4,
        },
        StoreEvent::Written {
            key,
            extents: vec![extent(1)],
        },
        StoreEvent::Stored {
            key,
            extents: Extents::One(extent(2)),
        },
        StoreEvent::Deleted { key },
        StoreEvent::Reserved {
            time: DtnTime::from_millis(4),
            sequence: 5,
        },
        StoreEvent::Relocated {
            key,
            extents: many.clone(),
        },
        StoreEvent::Refused {
            key,
            refusal: StoreRefusal::Full,
        },
        StoreEvent::Refused {
            key,
            refusal: StoreRefusal::Disk,
        },
        StoreEvent::Verified { key },
        StoreEvent::Corrupt { key },
    ];
    let listener = ListenerId(0);
    let purposes = [
        Purpose::Dialled { link },
        Purpose::Accepted { listener },
        Purpose::Client,
        Purpose::Program,
    ];
    let paths = [Path::Open, Path::Lost, Path::Dark, Path::Unknown];
    let (to, via) = ("ipn:4.*".to_string(), "beta".to_string());
    let commands = [
        OperatorCommand::LinkUp(via.clone()),
        OperatorCommand::LinkDown(via.clone()),
        OperatorCommand::RouteAdd(config().routes.remove(0)),
        OperatorCommand::RouteDelete { to, via },
        OperatorCommand::BundleDrop(id()),
        OperatorCommand::LinkAdd {
            name: "added".into(),
            like: "next".into(),
            peer: "ipn:5.0".parse().ok(),
        },
        OperatorCommand::LinkDelete("added".into()),
        OperatorCommand::Change(Box::new(changes())),
    ];
    let octets = Bytes::from_static(b"octets");
    let identities = PeerIdentities {
        node_ids: config().node_ids,
        dns_matches: Some(true),
        address_matches: None,
    };
    let rest = [
        Event::Recovered {
            bundle: Box::new(bundle),
            extents: many,
        },
        Event::Opened {
            reserved_time: DtnTime::from_millis(6),
            reserved_sequence: 7,
            removed: vec![(id(), DtnTime::from_millis(8))],
        },
        Event::Read {
            ticket,
            octets: Some(octets.clone()),
        },
        Event::Read {
            ticket,
            octets: None,
        },
        Event::Octets {
            stream,
            octets: octets.clone(),
        },
        Event::Secured { stream, identities },
        Event::Insecure { stream },
        Event::Disconnected { stream },
        Event::DialFailed {
            link,
            reason: "no route".to_string(),
        },
        Event::NetworkChanged,
        Event::TellsPaths,
        Event::CarrierChanged {
            link,
            carrier: Carrier::Present,
        },
        Event::CarrierChanged {
            link,
            carrier: Carrier::Absent,
        },
        Event::Shutdown,
        Event::Store(StoreEvent::Capacity {
            octets: 10,
            medium: Medium::Disk,
        }),
        Event::Store(StoreEvent::Capacity {
            octets: 11,
            medium: Medium::Memory,
        }),
        Event::Datagrams {
            stream,
            datagrams: vec![octets, Bytes::new()],
        },
        Event::Left {
            stream,
            datagrams: 2,
        },
        Event::Narrowed {
            stream,
            octets: 1_232,
        },
        Event::Connected {
            stream,
            purpose: Purpose::Heard { listener },
        },
        Event::Beacon {
            place: DiscoverId(1),
            from: "192.0.2.1:4551".parse().unwrap(),
            octets: Bytes::from_static(b"beacon"),
        },
        Event::Beacon {
            place: DiscoverId(0),
            from: "[fe80::1%3]:4551".parse().unwrap(),
            octets: Bytes::new(),
        },
    ];
    let stores = stores.into_iter().map(Event::Store);
    let connected = |purpose| Event::Connected { stream, purpose };
    let checked = |path| Event::PathChecked { stream, path };
    let operator = |command| Event::Operator { ticket, command };
    stores
        .chain(purposes.into_iter().map(connected))
        .chain(paths.into_iter().map(checked))
        .chain(commands.into_iter().map(operator))
        .chain(rest)
        .collect()
}

/// All entries of a recording's frames, each of which is whole.
fn entries(octets: &[u8]) -> Vec<Entry> {
    let (head, mut rest) = octets.split_first_chunk::<FILE_HEAD_OCTETS>().unwrap();
    frame::check_file_head(head).unwrap();
    let mut entries = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<FRAME_HEAD_OCTETS>() {
        let head = FrameHead::decode(head).unwrap();
        let (content, after) = after.split_at(usize::try_from(head.length).unwrap());
        assert!(head.fits(content));
        let mut reader = Reader::new(content);
        while let Some(entry) = Entry::next(&mut reader).unwrap() {
            entries.push(entry);
        }
        rest = after;
    }
    assert!(rest.is_empty());
    entries
}

#[test]
fn every_event_comes_out_as_it_went_in() {
    let now = Now {
        monotonic: Instant::from_nanos(5),
        dtn: DtnTime::from_millis(6),
    };
    let mut recorder = Recorder::new("dhow 1", &config(), Telling::Exceptions, Content::Whole);
    let mut octets = Vec::new();
    let mut expected = vec![
        format!(
            "{:?}",
            Entry::Start {
                program: "dhow 1".to_string(),
                content: Content::Whole,
                telling: Telling::Exceptions,
                config: Box::new(config()),
            }
        ),
        format!("{:?}", Entry::Time { now }),
    ];
    for event in events() {
        recorder.handle(now, &event, Stored::Own);
        recorder.take(&mut octets);
        expected.push(format!("{:?}", Entry::Event { event }));
    }
    recorder.finish(Finish::Node, &mut octets);
    expected.push(format!(
        "{:?}",
        Entry::End {
            finish: Finish::Node
        }
    ));
    let entries: Vec<_> = entries(&octets)
        .iter()
        .map(|it| format!("{it:?}"))
        .collect();
    assert_eq!(entries, expected);
}

/// Recordings from before the protocol was written are read as they were.
#[test]
fn a_protocol_is_recorded_where_it_is_not_the_default() {
    let mut config = config();
    config.links[0].dial = DialTime::Always;
    let written = |config: &Config| {
        let mut octets = Vec::new();
        config.write(&mut octets);
        octets
    };
    let usual = written(&config);
    for (protocol, more) in [
        (Protocol::Tcpcl4, 0),
        (Protocol::Tcpcl3, 3),
        (Protocol::Auto, 3),
        (Protocol::Udp(UdpPolicy::default()), 16),
        (Protocol::framed(Framing::Stcp), 11),
        (Protocol::framed(Framing::StcpDraft), 11),
        (Protocol::framed(Framing::Mtcp), 11),
        (Protocol::framed(Framing::Encapsulation), 11),
    ] {
        config.links[0].protocol = protocol;
        let octets = written(&config);
        assert_eq!(octets.len(), usual.len() + more);
        let read = Config::read(&mut Reader::new(&octets)).unwrap();
        assert_eq!(read.links[0].protocol, protocol);
        assert_eq!(written(&read), octets);
        config.links[0].protocol = Protocol::default();
        config.listeners[0].protocol = protocol;
        let octets = written(&config);
        assert_eq!(octets.len(), usual.len() + more);
        let read = Config::read(&mut Reader::new(&octets)).unwrap();
        assert_eq!(read.listeners[0].protocol, protocol);
        config.listeners[0].protocol = Protocol::default();
    }
}

/// Recordings from before there were routers, and contact tables, are read as they were.
#[test]
fn routers_and_contacts_are_recorded_where_there_are_any() {
    let none = Config {
        routing: Vec::new(),
        contacts: ContactTable::default(),
        ..config()
    };
    let written = |config: &Config| {
        let mut octets = Vec::new();
        config.write(&mut octets);
        octets
    };
    let usual = written(&none);
    for (routing, contacts, is_longer) in [
        (Vec::new(), ContactTable::default(), false),
        (config().routing, ContactTable::default(), true),
        (Vec::new(), contacts(), true),
        (config().routing, contacts(), true),
    ] {
        let config = Config {
            routing,
            contacts,
            ..none.clone()
        };
        let octets = written(&config);
        assert_eq!(octets.len() > usual.len(), is_longer);
        let read = Config::read(&mut Reader::new(&octets)).unwrap();
        assert_eq!(
            (&read.routing, &read.contacts),
            (&config.routing, &config.contacts)
        );
    }
}

/// `docs/recording.md` shows the same octets.
#[test]
fn a_recording_has_the_octets_of_the_document() {
    let mut octets = frame::file_head().to_vec();
    let mut content = Vec::new();
    let now = Now {
        monotonic: Instant::from_nanos(5),
        dtn: DtnTime::UNKNOWN,
    };
    let stream = StreamId(1);
    Entry::Time { now }.write(&mut content);
    let event = Event::Octets {
        stream,
        octets: Bytes::from_static(b"dtn!"),
    };
    Entry::write_event(&mut content, &event);
    octets.extend(FrameHead::of(&content).unwrap().encode());
    octets.extend(content);
    let hex: Vec<_> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    let head = "64686f772d7265630300000042af03b7";
    let frame = "130000005af79b70d3b3c26d";
    // The clocks show 5 ns and no time of day; stream 1 brings "dtn!".
    let entries = ["9f019f0500ffff", "9f029f05014464746e21ffff"].concat();
    assert_eq!(hex.concat(), [head, frame, &entries].concat());
}

#[test]
fn zeros_stand_for_what_is_left_out() {
    // ["ab", 3, "c"]
    let octets = [0x83, 0x42, b'a', b'b', 0x03, 0x41, b'c'];
    let read = Bytes::read(&mut Reader::new(&octets)).unwrap();
    assert_eq!(read, b"ab\0\0\0c"[..]);
    // More zeros than any event has.
    let octets = [0x81, 0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let refused = Bytes::read(&mut Reader::new(&octets)).unwrap_err();
    assert_eq!(refused, ItemError::TooManyOctets);
}

#[test]
fn a_head_of_another_version_is_told_from_a_rotten_one() {
    use frame::{FileHeadError, check_file_head, file_head};
    let head = file_head();
    assert_eq!(check_file_head(&head), Ok(()));
    for at in 0..head.len() {
        let mut rotten = head;
        rotten[at] ^= 1;
        assert!(check_file_head(&rotten).is_err(), "octet {at}");
    }
    assert_eq!(
        check_file_head(b"#!/bin/sh\nexit 0"),
        Err(FileHeadError::NoRecording)
    );
    let mut newer = head;
    newer[8] = 9;
    let check = FrameHead::of(&newer[..12]).unwrap().checksum;
    newer[12..].copy_from_slice(&check.to_le_bytes());
    assert_eq!(check_file_head(&newer), Err(FileHeadError::Version(9)));
}

/// `fuzz/corpus/recording` has what is read here, a file an event; it is written with `UPDATE_SNAPSHOTS` set.
#[test]
fn every_file_of_the_corpus_is_read_or_refused() {
    extern crate std;
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recording");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        for (number, event) in events().iter().enumerate() {
            let mut octets = Vec::new();
            Entry::write_event(&mut octets, event);
            std::fs::write(folder.join(format!("event-{number:02}")), octets).unwrap();
        }
        let mut octets = Vec::new();
        let entry = Entry::Start {
            program: "dhow 1".to_string(),
            content: Content::Without,
            telling: Telling::Everything,
            config: Box::new(config()),
        };
        entry.write(&mut octets);
        std::fs::write(folder.join("start"), octets).unwrap();
    }
    let files = std::fs::read_dir(folder).unwrap();
    let read =
        |file: std::fs::DirEntry| oracle::check_entries(&std::fs::read(file.path()).unwrap());
    let entries: usize = files.map(|file| read(file.unwrap())).sum();
    assert!(
        entries > events().len(),
        "{entries}: the corpus is not there"
    );
}

proptest! {
    /// Any octets are an entry or none, and nothing panics.
    #[test]
    fn any_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = oracle::check_entries(&octets);
    }

    /// The same of octets that are nearly an entry.
    #[test]
    fn nearly_an_entry_is_read_or_refused(at in any::<prop::sample::Index>(), to in any::<u8>(), which in any::<prop::sample::Index>()) {
        let events = events();
        let mut octets = Vec::new();
        Entry::write_event(&mut octets, which.get(&events));
        let at = at.index(octets.len());
        octets[at] = to;
        let _ = oracle::check_entries(&octets);
    }
}
