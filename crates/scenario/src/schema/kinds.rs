//! Properties of nodes and links: keys that sections share.

use dhow_bundle::protocol::{OnSent, Protocol};
use dhow_document::schema::{Absent, Key, Kind, key, required, with_default};

/// The node that a section is about, or all of such a name.
pub(super) const WHOSE: Key = required(
    "node",
    Kind::Text,
    "\"east\"",
    "Name of the node; * stands for any characters: every node that matches.",
);

/// The time at which something begins.
pub(super) const START: Key = with_default(
    "start",
    Kind::Duration,
    "\"0\"",
    "Its beginning, from the start of the run.",
);

/// Keys of a node.
pub(super) const NODE_KEYS: &[Key] = &[
    with_default(
        "quota",
        Kind::Size,
        "\"64MB\"",
        "Octets that its store takes; the last eighth of them, at most 64 MiB, is for exchanges with neighbours and not for applications.",
    ),
    with_default(
        "bundles",
        Kind::Integer(1, 1_000_000_000),
        "100000",
        "Bundles that its store takes.",
    ),
    key(
        "source_held_bundles",
        Kind::Integer(1, 1_000_000_000),
        Absent::Means("no limit but 'bundles'"),
        "1000",
        "Bundles of one source endpoint that may be in its store at a time: further ones of neighbours are refused.",
    ),
    with_default(
        "removed_bound",
        Kind::Integer(0, 100_000_000),
        "100000",
        "Identities of removed bundles that it remembers until they expire, so that a late copy is known for one.",
    ),
    with_default(
        "segment",
        Kind::Size,
        "\"64KiB\"",
        "Octets of a segment of its store: a multiple of 4096 from 64KiB to 1GiB. Half of one has the identities of removed bundles, some 30 octets each.",
    ),
    with_default(
        "segment_mru",
        Kind::Size,
        "\"1MiB\"",
        "Largest segment that its sessions take (RFC 9174 4.6), octets, at least 1024.",
    ),
    with_default(
        "transfer_mru",
        Kind::Size,
        "\"1TiB\"",
        "Largest bundle that its sessions take (RFC 9174 4.6), octets, at least 1024; larger ones come in fragments.",
    ),
    with_default(
        "cut_through",
        Kind::Boolean,
        "true",
        "Whether it sends bundles of 256 KiB and more on while they still come in: over TCPCL, and over LTP where all of a block is red.",
    ),
    with_default(
        "custody",
        Kind::Boolean,
        "true",
        "Whether it becomes custodian of bundles of version 6 that ask for it (RFC 5050 5.10).",
    ),
    with_default(
        "custody_aggregate",
        Kind::Boolean,
        "true",
        "Whether bundles leave it with its number for them, so that one signal may tell of many.",
    ),
    with_default(
        "custody_delay",
        Kind::Duration,
        "\"15s\"",
        "Time for which a custody signal waits for others, to travel with them.",
    ),
    with_default(
        "custody_retry",
        Kind::Duration,
        "\"30s\"",
        "After which time a bundle is sent again of which no custody signal came, at least 1s; twice as long each time.",
    ),
    key(
        "disk",
        Kind::Size,
        Absent::Means("as many as its store asks for"),
        "\"2MB\"",
        "Octets that its disk has for the log of its store: 8 KiB and at least six segments.",
    ),
    with_default(
        "flush",
        Kind::Duration,
        "\"5ms\"",
        "Duration of a flush of its disk.",
    ),
    with_default(
        "read",
        Kind::Duration,
        "\"0\"",
        "Duration of a read of its disk, of octets that memory does not have; 0: memory has all.",
    ),
    with_default(
        "clock",
        Kind::Choice(&["known", "none"]),
        "\"known\"",
        "Its knowledge of the time; \"none\": only the time since its start (RFC 9171 4.2.7).",
    ),
    key(
        "clock_offset",
        Kind::Offset,
        Absent::Means("its clock is right"),
        "\"-3s\"",
        "Time by which its clock is ahead of the true time.",
    ),
    key(
        "clock_drift_ppm",
        Kind::Integer(-100_000, 100_000),
        Absent::Means("its clock is right"),
        "80",
        "Excess rate of its clock, parts in a million.",
    ),
];

/// Keys of a node's host on a testbed.
pub(super) const HOST_KEYS: &[Key] = &[
    with_default(
        "kind",
        Kind::Choice(&["dhow", "command"]),
        "\"dhow\"",
        "\"command\": a host without a node, for programs; on a testbed only.",
    ),
    key(
        "cpu",
        Kind::Text,
        Absent::Means("as much as there is"),
        "\"10%\"",
        "Processor time that it may take, of one core, at least 0.1%; or a rate (\"24Mbit\"): as much as takes TCP between disks to that rate, which the testbed finds before the runs. On a testbed only.",
    ),
    key(
        "cpu_from",
        Kind::Duration,
        Absent::Means("from the beginning"),
        "\"8s\"",
        "From which time of the run on 'cpu' holds; on a testbed only.",
    ),
    key(
        "cpu_until",
        Kind::Duration,
        Absent::Means("to the end"),
        "\"80s\"",
        "Until which time of the run 'cpu' holds; on a testbed only.",
    ),
    key(
        "memory",
        Kind::Size,
        Absent::Means("as much as there is"),
        "\"64MiB\"",
        "Memory that its programs may take together, at least 4MiB; on a testbed only.",
    ),
    key(
        "disk_rate",
        Kind::Size,
        Absent::Means("as fast as it goes"),
        "\"5MB\"",
        "Octets that it may write to its disk in a second; on a testbed only.",
    ),
    key(
        "disk_operations",
        Kind::Integer(1, 1_000_000_000),
        Absent::Means("as many as it does"),
        "80",
        "Reads, and as many writes, that it may ask its disk for in a second; on a testbed only.",
    ),
    key(
        "settings",
        Kind::TextList,
        Absent::Means("none"),
        "[\"store.durability=contact\"]",
        "Keys of the node's own configuration file, set over what the testbed writes there; on a testbed only.",
    ),
];

pub(super) const RATE: Key = required(
    "rate",
    Kind::Rate,
    "\"1Mbit\"",
    "Rate in each direction, bits a second.",
);

pub(super) const DELAY: Key = with_default(
    "delay",
    Kind::TextOrList,
    "\"0\"",
    "Delay of octets on their way; as a list, the delay from each time on, changing evenly between: [\"0 4min\", \"390d 22min\"].",
);

/// Keys of a link, beside its rate and delay.
pub(super) const LINK_KEYS: &[Key] = &[
    with_default(
        "loss",
        Kind::Part,
        "0",
        "The fraction of packets that are lost. Sessions run over streams of octets: lost octets come again later, and all behind them waits. Over UDP they never come, and over LTP the nodes send them again.",
    ),
    with_default(
        "loss_burst",
        Kind::Integer(1, 1_000_000),
        "1",
        "Mean number of packets lost in a row (Gilbert-Elliott model); 1: each by itself.",
    ),
    with_default(
        "jitter",
        Kind::Duration,
        "\"0\"",
        "Time by which octets may be later than the delay; every value up to it is as likely, and none overtake others.",
    ),
    with_default(
        "duplicate",
        Kind::Part,
        "0",
        "The fraction of packets that arrive twice; on a testbed, and over UDP and LTP, only.",
    ),
    with_default(
        "reorder",
        Kind::Part,
        "0",
        "The fraction of packets that are held up, so that later ones overtake them; on a testbed, and over UDP and LTP, only.",
    ),
    with_default(
        "reorder_by",
        Kind::Duration,
        "\"10ms\"",
        "Time added to the delay and jitter of such packets; on a testbed, and over UDP and LTP, only.",
    ),
    key(
        "queue",
        Kind::Size,
        Absent::Means("what the rate moves in two delays, at least 256KiB and at most 256MiB"),
        "\"64KiB\"",
        "Octets that may wait at each end; packets beyond it are lost; on a testbed only.",
    ),
    with_default(
        "by",
        Kind::Choice(&["auto", "emulator", "tbf", "netem", "veth"]),
        "\"auto\"",
        "Maker of the link on a testbed; \"auto\": tbf for a link of 20Mbit and more that has nothing but a rate and no contact shorter than 500ms, else the emulator.",
    ),
    with_default(
        "at_end",
        Kind::Choice(&["reset", "silence"]),
        "\"reset\"",
        "Fate of connections when a contact ends: reset at both sides, or silent until the next contact.",
    ),
    with_default(
        "retry",
        Kind::Duration,
        "\"1s\"",
        "The dialling node's longest pause between two attempts.",
    ),
    with_default(
        "dial",
        Kind::Choice(&["always", "contacts"]),
        "\"always\"",
        "Whether its nodes use it at any time, or only in its contacts, which they then know: over TCP they dial only then, and over LTP what they wait for stands still meanwhile. In a simulation.",
    ),
    with_default(
        "keepalive",
        Kind::Duration,
        "\"30s\"",
        "Keepalive interval of sessions, whole seconds up to 65535s (RFC 9174 5.1.1), not less than the longest round trip; 0 for none. Where it is not set, at least four of the longest round trips.",
    ),
    with_default(
        "protocol",
        Kind::Choice(Protocol::OF_SCENARIOS),
        "\"tcpcl\"",
        "Protocol of the dialling node: TCPCLv4 (RFC 9174), TCPCLv3 (RFC 7242), or version 4 and 3 where the other does not speak it; or \"udp\": both send datagrams (RFC 7122), of which none is acknowledged; or \"ltp\": both send blocks of LTP (RFC 5326) in datagrams, of which the red part is acknowledged (docs/ltp.md); or \"stcp\", \"stcp-draft\", \"mtcp\" or \"encapsulation\": both dial, and send bundles one after the other over TCP (docs/stcp.md), of which none is acknowledged.",
    ),
    with_default(
        "mtu",
        Kind::Size,
        "\"1232B\"",
        "Largest datagram of a link over UDP or LTP, octets of UDP payload, 128 to 65507; on a testbed no more than 1472.",
    ),
    with_default(
        "send_rate",
        Kind::Rate,
        "\"10Mbit\"",
        "Greatest rate at which each node sends over UDP or LTP, bits of UDP payload a second; what the link does not carry waits in the socket. Over LTP, and on a testbed, a node sends no faster than a link that keeps a rate carries datagrams of `mtu` octets; over LTP it sends as fast where this is not said.",
    ),
    with_default(
        "on_sent",
        Kind::Choice(OnSent::NAMES),
        "\"forget\"",
        "Fate of a bundle that has left over UDP, STCP or MTCP, or over LTP with a green part: it is removed, or held until it expires, for another link that comes up.",
    ),
    with_default(
        "red",
        Kind::Text,
        "\"all\"",
        "Over LTP, the part of each block that is acknowledged, and sent again where it is lost: \"all\", \"none\", or octets from its start, as in \"10kB\". The light time is the link's delay.",
    ),
    with_default(
        "aggregate",
        Kind::Boolean,
        "true",
        "Over LTP, whether small bundles that wait leave as one block, where all of it is red.",
    ),
    with_default(
        "bundle_versions",
        Kind::NumberList(&[6, 7]),
        "[6, 7]",
        "Versions of the Bundle Protocol that both ends send over it: bundles of another leave translated (docs/gateway.md). With both they leave as they are.",
    ),
];

pub(super) const LINK_RATE_DELAY: &[Key] = &[
    key(
        RATE.name,
        RATE.kind,
        Absent::Means("as 'rate_trace' says; one of the two is there"),
        RATE.example,
        RATE.meaning,
    ),
    key(
        "rate_trace",
        Kind::Path,
        Absent::Means("'rate' holds all the time"),
        "\"cell.trace\"",
        "A file, relative to this one, of moments at which 1504 octets may leave, in each direction: a whole number of milliseconds in each line, as mahimahi has them. After the last it begins anew.",
    ),
    DELAY,
];
