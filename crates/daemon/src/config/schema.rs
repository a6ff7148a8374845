//! The schema of the node file: every section and key, once.

use super::access::{ADMIN_GROUP, API_GROUP, READ_GROUP};
use super::bibe;
use super::contacts::{CONTACT, CONTACT_PLAN};
use super::custody::SECTION as CUSTODY;
use super::discover::SECTION as DISCOVER;
use super::external::SECTION as EXTERNAL;
use super::gateway::{AGE_DIALECT, BUNDLE_VERSIONS};
use super::http::{HTTP, TOKEN};
use super::limits::{
    ACCEPT_BUNDLES, ACCEPT_RATE, HELD, HELD_BUNDLES, SOURCE_HELD, SOURCE_HELD_BUNDLES,
};
use super::ltp::KEYS as LTP;
use super::routing::{ROUTE, ROUTING};
use super::telemetry::SECTION as TELEMETRY;
use dhow_bundle::protocol::{OnSent, Protocol};
use dhow_document::schema::{Absent, Key, Kind, Occurs, Section, key, required, with_default};

/// Names of the kinds of status report, with their bundle processing control flags (RFC 9171 4.2.3).
pub const REPORT_KINDS: &[&str] = &["reception", "custody", "forward", "delivery", "deletion"];
/// When TLS is used.
pub const TLS: &[&str] = &["required", "preferred", "never"];

/// Names of the points that a node can measure.
pub const POINTS: &[&str] = &[
    "received",
    "created",
    "forwarded",
    "transfer",
    "delivered",
    "deleted",
    "refused",
    "session",
    "contact",
    "state",
    "neighbour",
    "queue",
    "store",
    "commit",
];

const U32_MAX: i64 = 0xffff_ffff;

/// The octets that a listener's and a link's sessions may do.
const POLICY: &[Key] = &[
    with_default(
        "stall_timeout",
        Kind::Duration,
        "\"20s\"",
        "A TCP connection that acknowledges nothing of what is sent for this long is given up; 0 leaves it to the system.",
    ),
    with_default(
        "keepalive",
        Kind::Duration,
        "\"30s\"",
        "Keepalive interval offered to the peer, whole seconds up to 65535s (RFC 9174 5.1.1); 0 for none. A link of STCP, which sends keep-alives unasked, has 15s where this is not written.",
    ),
    with_default(
        "segment_mru",
        Kind::Size,
        "\"1MiB\"",
        "Largest segment taken from the peer, octets.",
    ),
    key(
        "transfer_mru",
        Kind::Size,
        Absent::Means("the quota, at most 16GiB"),
        "\"1GiB\"",
        "Largest bundle taken from the peer, octets; never more than the quota. The peer sends larger ones as fragments, and may take memory for one of this length.",
    ),
    with_default(
        "segment",
        Kind::Size,
        "\"256KiB\"",
        "Largest segment sent, octets; the peer's own limit binds too. A segment is acknowledged as a whole: a transfer that is cut goes on behind the last one.",
    ),
    with_default(
        "idle_timeout",
        Kind::Duration,
        "\"0s\"",
        "A session without transfers for this long is ended, whole seconds (RFC 9174 6.1); 0 for never.",
    ),
    with_default(
        "answer_timeout",
        Kind::Duration,
        "\"10s\"",
        "Time within which a session must be set up after its connection, and longest silence of one that is ending; then it is given up. Whole seconds from 1s. RFC 9174 4.1 asks for at most 60s, but a link whose round trip is longer needs several of its round trips here, in 'connect_timeout' and in 'keepalive', at both ends.",
    ),
    with_default(
        "transfer_timeout",
        Kind::Duration,
        "\"5min\"",
        "A session is ended, to free its room, when nothing more of a begun bundle arrives for this long, in whole seconds; the part that arrived is kept if 'resume' is true. 0 for never.",
    ),
    with_default(
        "tls",
        Kind::Choice(TLS),
        "\"never\"",
        "When TLS 1.3 protects sessions (RFC 9174 4.4); \"required\" and \"preferred\" need a [tls] section.",
    ),
    with_default(
        "require_node_id",
        Kind::Boolean,
        "false",
        "Refuse a session whose certificate does not prove the peer's node ID (RFC 9174 4.4.4.3); needs tls = \"required\", since a session without TLS proves nothing.",
    ),
    key(
        "peer",
        Kind::Text,
        Absent::Means("any peer is taken"),
        "\"ipn:3.0\"",
        "The only node ID that the peer may have; without require_node_id it is the one that the peer claims. STCP and MTCP have no claim: bundles that come to such a listener count as the named node's.",
    ),
    with_default(
        "reading",
        Kind::Choice(&["strict", "lenient"]),
        "\"strict\"",
        "Reading of imperfect bundles and acknowledgments; \"lenient\" accepts a published list of known faults of other implementations.",
    ),
    key(
        "fragment",
        Kind::Size,
        Absent::Means("only where the peer's largest transfer demands it"),
        "\"64KiB\"",
        "Send bundles as fragments of at most this many octets of payload (RFC 9171 5.8).",
    ),
    key(
        "window",
        Kind::Size,
        Absent::Means("a 16th of [node] memory, from 4MiB to 128MiB"),
        "\"128MiB\"",
        "Octets sent and not yet acknowledged, at most, per session; over LTP those of them that are in memory. Within this limit, as many as the peer acknowledges in 10ms and six times the delay of an acknowledgment.",
    ),
    with_default(
        "window_bundles",
        Kind::Integer(1, 1_000_000),
        "65536",
        "Bundles sent and not yet acknowledged, at most, per session.",
    ),
    with_default(
        "cut_through",
        Kind::Boolean,
        "true",
        "Send bundles of 256 KiB and more on to the peer while they still come in, where its session has nothing else to do.",
    ),
    with_default(
        "resume",
        Kind::Boolean,
        "true",
        "Keep what was acknowledged of a transfer that fails, as a fragment, and send only the rest again, where the peer does so too (docs/tcpcl-extensions.md).",
    ),
    with_default(
        "strip_checksum",
        Kind::Boolean,
        "false",
        "Send payload blocks without their checksum, also of bundles that only pass, for peers that refuse those with one (DTNME); the primary block keeps its own. Nodes beyond the peer cannot then detect an altered payload.",
    ),
    with_default(
        "acknowledge",
        Kind::Choice(&["here", "next-hop"]),
        "\"here\"",
        "Time at which a bundle is acknowledged to the peer: \"here\", once it is durable here; \"next-hop\", once the next hop has it too, if it is forwarded while it arrives.",
    ),
    with_default(
        "order",
        Kind::Choice(&["arrival", "expiry"]),
        "\"arrival\"",
        "The waiting bundle that leaves first: \"arrival\", the one that came first, while sources take turns; \"expiry\", the one that expires first.",
    ),
    with_default(
        "accept_relayed",
        Kind::Boolean,
        "true",
        "Take bundles whose source is another node than the peer.",
    ),
    with_default(
        "relay",
        Kind::Boolean,
        "true",
        "Forward bundles that came from the peer to third nodes.",
    ),
    BUNDLE_VERSIONS,
    AGE_DIALECT,
    key(
        "accept_sources",
        Kind::TextList,
        Absent::Means("every source is taken"),
        "[\"ipn:1.*\"]",
        "Endpoint-ID patterns (docs/patterns.md) of the only sources whose bundles are taken from the peer.",
    ),
    HIGHEST_PRIORITY,
    ACCEPT_RATE,
    ACCEPT_BUNDLES,
    HELD,
    HELD_BUNDLES,
];

const HIGHEST_PRIORITY: Key = key(
    "highest_priority",
    Kind::Text,
    Absent::Means("any priority"),
    "\"normal\"",
    "Greatest priority (docs/priority.md): bulk, normal, or expedited:ORDINAL. A neighbour's bundle of a higher priority is lowered to it here; an application that asks for a higher one is refused.",
);

/// Every section in the order in which a commented file shows them.
pub const SECTIONS: &[Section] = &[
    Section {
        name: "",
        occurs: Occurs::Top,
        meaning: "",
        groups: &[&[with_default(
            "version",
            Kind::Integer(1, 1),
            "1",
            "Version of this file's format.",
        )]],
    },
    Section {
        name: "node",
        occurs: Occurs::Once,
        meaning: "Identity of this node.",
        groups: &[&[
            required(
                "id",
                Kind::TextOrList,
                "\"ipn:2.0\"",
                "Node ID, or a list of several: the first is the one that neighbours see.",
            ),
            with_default(
                "clock",
                Kind::Choice(&["system", "none"]),
                "\"system\"",
                "\"system\" trusts the machine's clock; \"none\" says that it is not accurate, and bundles carry their age instead (RFC 9171 4.2.7).",
            ),
            key(
                "memory",
                Kind::Size,
                Absent::Means(
                    "a quarter of what the machine has, or the control group where that has less",
                ),
                "\"1GiB\"",
                "Octets of memory that the node may take, at least 4MiB: the index of what is stored, endpoint IDs, what is on its way to applications and to the disk, and the log's octets in memory. Beyond it bundles are refused; a store whose index needs more is not opened. The program itself takes some more.",
            ),
            with_default(
                "payload_checksum",
                Kind::Choice(&["crc32c", "none"]),
                "\"crc32c\"",
                "The checksum of the payload block of bundles that this node makes (RFC 9171 4.2.1); \"none\" for destinations that refuse blocks with one (DTNME), see 'strip_checksum' too.",
            ),
            with_default(
                "threads",
                Kind::Integer(1, 64),
                "1",
                "Threads for the node and its connections, beside the store's. The node itself has one; with more, the others read, write and encrypt. One is best on one or two processor cores.",
            ),
            with_default(
                "answers_per_second",
                Kind::Integer(1, U32_MAX),
                "100",
                "Bundles by which the echo and perf services answer one source within a second, at most. Sources that are echo or perf services themselves, by their number or name or because they answered an answer within the last minute, are not answered.",
            ),
            with_default(
                "log",
                Kind::Text,
                "\"info\"",
                "Level of the log on stderr: error, warn, info, debug or trace, also by part. `dhow node run --log` and RUST_LOG stand above it.",
            ),
        ]],
    },
    Section {
        name: "store",
        occurs: Occurs::Once,
        meaning: "Store of bundles.",
        groups: &[&[
            with_default(
                "path",
                Kind::Path,
                "\"store\"",
                "Directory of the store, relative to this file; made when missing, used by one node at a time.",
            ),
            with_default(
                "durability",
                Kind::Choice(&["sync", "contact", "os", "memory"]),
                "\"sync\"",
                "\"sync\" acknowledges what is on the disk (flushes are shared). The others are unsafe: \"contact\" puts flushes off until the contact ends (60s or 256MiB at most), so that a power failure loses what was acknowledged since the last one; \"os\" acknowledges what the operating system holds, \"memory\" keeps nothing across a restart.",
            ),
            with_default(
                "quota",
                Kind::Size,
                "\"10GiB\"",
                "Octets of bundles stored, at most, and no more than the disk has room for; beyond it bundles are refused, never dropped. The last eighth, at most 64MiB, is for bundles that end here and for neighbours for which bundles wait.",
            ),
            key(
                "quota_bundles",
                Kind::Integer(1, U32_MAX),
                Absent::Means("what [node] memory leaves for the index, at 512 octets a bundle"),
                "1000000",
                "Bundles stored, at most.",
            ),
            SOURCE_HELD,
            SOURCE_HELD_BUNDLES,
            key(
                "segment",
                Kind::Size,
                Absent::Means("64MiB, less with a small quota"),
                "\"64MiB\"",
                "Octets of one log segment, fixed when the store is made; a multiple of 4KiB from 64KiB to 1GiB.",
            ),
            key(
                "prepare",
                Kind::Size,
                Absent::Means(
                    "a sixteenth of the quota, of the memory or of the disk's free space, whichever is least, at most 256MiB",
                ),
                "\"256MiB\"",
                "Octets of free segments that an idle store writes ahead, so that a burst finds them in place; 0 for none.",
            ),
            key(
                "queue",
                Kind::Size,
                Absent::Means("a 16th of [node] memory, from 512KiB to 128MiB"),
                "\"128MiB\"",
                "Octets that may wait for the disk, at most; beyond it sockets are not read. Octets from applications are limited further, to what the disk writes in 10ms and four flushes.",
            ),
            key(
                "memory",
                Kind::Size,
                Absent::Means(
                    "a quarter of what 'queue' leaves of [node] memory, from 256KiB to 1GiB",
                ),
                "\"256MiB\"",
                "Octets of the log kept in memory, at most: the octets stored last, and those read ahead. With durability \"sync\" the log goes past the system's page cache; 0 for the page cache.",
            ),
            with_default(
                "removed_bound",
                Kind::Integer(0, 100_000_000),
                "100000",
                "Identities of removed bundles remembered until they expire, so that a late copy is known for one.",
            ),
            with_default(
                "flush_delay",
                Kind::Duration,
                "\"0s\"",
                "Time added to every flush of the disk: a test aid that makes a fast disk behave like a slow one.",
            ),
        ]],
    },
    Section {
        name: "api",
        occurs: Occurs::Once,
        meaning: "Socket for applications (AAP 2.0). The admin socket is always this socket's path with \".admin\" appended.",
        groups: &[&[
            with_default(
                "socket",
                Kind::Path,
                "\"dhow.sock\"",
                "Unix socket, relative to this file.",
            ),
            API_GROUP,
            key(
                "tcp",
                Kind::Text,
                Absent::Means("no TCP"),
                "\"127.0.0.1:4242\"",
                "Address for applications over TCP too; everybody who reaches it may send and receive.",
            ),
            with_default(
                "default_lifetime",
                Kind::Duration,
                "\"1d\"",
                "Lifetime of bundles whose sender names none.",
            ),
            HIGHEST_PRIORITY,
        ]],
    },
    Section {
        name: "admin",
        occurs: Occurs::Once,
        meaning: "Administration and metrics: who may use the admin socket, and TCP beside it.",
        groups: &[&[
            ADMIN_GROUP,
            READ_GROUP,
            key(
                "tcp",
                Kind::Text,
                Absent::Means("no TCP"),
                "\"127.0.0.1:4243\"",
                "Address of the HTTP interface; needs a token.",
            ),
            key(
                "token",
                Kind::Text,
                Absent::Means("no token, and no TCP"),
                "\"choose-a-long-secret\"",
                "Every request over TCP must carry \"Authorization: Bearer TOKEN\".",
            ),
        ]],
    },
    HTTP,
    TOKEN,
    Section {
        name: "listen",
        occurs: Occurs::Many,
        meaning: "An address where neighbours connect, and what they may do there.",
        groups: &[
            &[
                with_default(
                    "protocol",
                    Kind::Choice(Protocol::LISTENERS),
                    "\"tcpcl\"",
                    "The convergence layer: \"tcpcl\" is TCPCLv4 (RFC 9174) and TCPCLv3 (RFC 7242), whichever the neighbour begins with; \"udp\" takes bundles as datagrams (RFC 7122, docs/udpcl.md), from whoever sends them, and is where links over UDP send from. \"ltp\" is where the peers of links over LTP are heard, and where these links send from (RFC 5326, docs/ltp.md): what other engines send is dropped and counted. \"stcp\", \"stcp-draft\", \"mtcp\" and \"encapsulation\" take bundles one after the other (docs/stcp.md), from whoever connects.",
                ),
                required(
                    "address",
                    Kind::Text,
                    "\"127.0.0.1:4556\"",
                    "Address and port; \"[::]:4556\" is every IPv6 and IPv4 address, port 0 any free port.",
                ),
                with_default(
                    "connections_per_address",
                    Kind::Integer(1, 1024),
                    "64",
                    "Connections from one address (IPv6: one /64 network) at a time, at most, those at other listeners included: a further one replaces one that is not a session yet, or is closed. Over STCP and MTCP, which have no sessions, it replaces one that has brought no bundle, the one that is idle longest, or, where each is within a bundle, the one that is silent longest. Neighbours behind one NAT address share them.",
                ),
            ],
            POLICY,
        ],
    },
    Section {
        name: "link",
        occurs: Occurs::Many,
        meaning: "A neighbour that this node connects to, and what its sessions may do.",
        groups: &[
            &[
                required(
                    "name",
                    Kind::Text,
                    "\"gamma\"",
                    "A name for routes and commands, unique in this file.",
                ),
                with_default(
                    "protocol",
                    Kind::Choice(Protocol::NAMES),
                    "\"tcpcl\"",
                    "The convergence layer: \"tcpcl\" is TCPCLv4 (RFC 9174), \"tcpcl3\" is TCPCLv3 (RFC 7242), which has no TLS, and \"auto\" begins with version 4 and takes 3 where the neighbour does not speak it. \"udp\" sends datagrams (RFC 7122, docs/udpcl.md): nothing is acknowledged, and bundles may be lost. \"ltp\" sends blocks of the Licklider Transmission Protocol over UDP (RFC 5326, docs/ltp.md), which are acknowledged and sent again where they are lost. \"stcp\" (STCP of ION, HDTN and DTNME), \"stcp-draft\" (STCP of its draft), \"mtcp\" and \"encapsulation\" (CCSDS 133.1-B-3) send bundles one after the other over TCP (docs/stcp.md): nothing is acknowledged, and none are received. \"bibe\" needs no address: bundles leave in others, which take their own way to the 'peer' (draft-ietf-dtn-bibect-03, docs/bibe.md).",
                ),
                key(
                    "address",
                    Kind::Text,
                    Absent::Means("none; only a link with protocol = \"bibe\" may lack it"),
                    "\"192.0.2.3:4556\"",
                    "Host (a name is resolved at every attempt) and port; without a port 4556, of LTP 1113. With \"bibe\" it is refused.",
                ),
                key(
                    "mtu",
                    Kind::Size,
                    Absent::Means("1232 over UDP, 1400 over LTP"),
                    "1472",
                    "Over UDP and LTP, octets of payload in the largest datagram, from 128 to 65507; smaller ones are sent where the system knows that the path takes no more. Longer bundles leave in segments, which over UDP only peers of draft-ietf-dtn-udpcl understand.",
                ),
                key(
                    "rate",
                    Kind::Rate,
                    Absent::Means("10Mbit over UDP and LTP"),
                    "\"10Mbit\"",
                    "Over UDP and LTP, payload that leaves in a second, at most. Nothing else slows the sender: the path must take it.",
                ),
                key(
                    "on_sent",
                    Kind::Choice(OnSent::NAMES),
                    Absent::Means(
                        "\"forget\" over UDP, STCP and MTCP, and over LTP where not all is red",
                    ),
                    "\"forget\"",
                    "Fate of a bundle sent without acknowledgment (UDP, STCP, MTCP, and LTP with green data): \"forget\" removes it; \"keep\" holds it until it expires, sends it over another link that comes up, and over this one once more after a restart.",
                ),
                with_default(
                    "enabled",
                    Kind::Boolean,
                    "true",
                    "Whether the link is up when the node starts.",
                ),
                with_default(
                    "dial",
                    Kind::Choice(&["always", "contacts"]),
                    "\"always\"",
                    "When the link is dialled: \"always\", whenever a session is missing; \"contacts\", only during contacts from this node to its 'peer' ([[contact]], [[contact_plan]]).",
                ),
                with_default(
                    "sessions",
                    Kind::Integer(1, 16),
                    "1",
                    "Parallel sessions held open.",
                ),
                with_default(
                    "backoff_min",
                    Kind::Duration,
                    "\"50ms\"",
                    "First wait before connecting again after an attempt that failed; it doubles with every failure.",
                ),
                with_default(
                    "backoff_max",
                    Kind::Duration,
                    "\"1s\"",
                    "Longest wait before connecting again, also while an attempt is unanswered or a session's path is lost. At most this much of a contact is lost if its beginning is not known.",
                ),
                with_default(
                    "connect_timeout",
                    Kind::Duration,
                    "\"3s\"",
                    "An attempt to connect is given up after this long; above the longest round trip.",
                ),
                with_default(
                    "path_check",
                    Kind::Duration,
                    "\"2s\"",
                    "A connection over which nothing comes for this long, whole seconds from 1s, is probed every second (TCP keepalive, some 100 octets); when that is not answered the link is dialled anew beside it; 0 for never.",
                ),
            ],
            bibe::KEYS,
            LTP,
            POLICY,
        ],
    },
    DISCOVER,
    ROUTE,
    ROUTING,
    EXTERNAL,
    CONTACT,
    CONTACT_PLAN,
    Section {
        name: "tls",
        occurs: Occurs::Once,
        meaning: "This node's certificate and whom it trusts, for sessions with TLS. Both sides show a certificate.",
        groups: &[&[
            required(
                "certificate",
                Kind::Path,
                "\"node.crt\"",
                "PEM file with this node's certificate (its node ID as BundleEID, RFC 9174 4.4.1) and the intermediates.",
            ),
            required(
                "key",
                Kind::Path,
                "\"node.key\"",
                "PEM file with its private key.",
            ),
            required(
                "authorities",
                Kind::PathList,
                "[\"authority.crt\"]",
                "PEM files with the authorities whose certificates are believed.",
            ),
        ]],
    },
    Section {
        name: "reports",
        occurs: Occurs::Once,
        meaning: "Status reports that this node generates when a bundle asks for them (RFC 9171 5.1: by default none).",
        groups: &[&[
            key(
                "generate",
                Kind::ChoiceList(REPORT_KINDS),
                Absent::Default("[]"),
                "[\"delivery\"]",
                "The kinds: \"reception\", \"forward\", \"delivery\", \"deletion\"; \"custody\" of bundles of version 6.",
            ),
            with_default(
                "per_second",
                Kind::Integer(1, U32_MAX),
                "10000",
                "Bundles with reports a second, at most; reports above it are counted and not made.",
            ),
            with_default(
                "collect",
                Kind::Duration,
                "\"100ms\"",
                "Longest time for which reports to an endpoint that reads aggregated ones wait for each other, to travel in one bundle; 0 sends each by itself. A report never waits longer than its bundle would live.",
            ),
            with_default(
                "collect_most",
                Kind::Integer(1, 65_536),
                "4096",
                "Reports that wait for each other, at most.",
            ),
        ]],
    },
    CUSTODY,
    Section {
        name: "echo",
        occurs: Occurs::Once,
        meaning: "The service that answers \"dhow ping\".",
        groups: &[&[
            with_default("enabled", Kind::Boolean, "true", "Whether it answers."),
            with_default(
                "service",
                Kind::Integer(1, U32_MAX),
                "7",
                "Its service number on ipn node IDs; on dtn ones its name is \"echo\".",
            ),
        ]],
    },
    Section {
        name: "perf",
        occurs: Occurs::Once,
        meaning: "The service that counts what \"dhow perf\" sends, and answers with summaries.",
        groups: &[&[
            with_default(
                "enabled",
                Kind::Boolean,
                "true",
                "Whether it counts and answers.",
            ),
            with_default(
                "service",
                Kind::Integer(1, U32_MAX),
                "5201",
                "Its service number on ipn node IDs; on dtn ones its name is \"perf\".",
            ),
            key(
                "accept_sources",
                Kind::TextList,
                Absent::Means("every source is counted"),
                "[\"ipn:1.*\"]",
                "Endpoint-ID patterns of the only sources whose bundles are counted and answered.",
            ),
        ]],
    },
    Section {
        name: "measure",
        occurs: Occurs::Once,
        meaning: "Measurements of this node, and their destination (docs/measurement.md).",
        groups: &[&[
            key(
                "collect",
                Kind::Text,
                Absent::Means("nothing is measured"),
                "\"tcp:127.0.0.1:3003\"",
                "A collector (\"dhow collect\", or any other of OML's protocol), a file: \"file:PATH\", or an endpoint to which bundles carry it: \"bundles:ipn:9.3003\".",
            ),
            with_default(
                "lifetime",
                Kind::Duration,
                "\"24h\"",
                "Lifetime of such bundles.",
            ),
            with_default(
                "domain",
                Kind::Text,
                "\"dhow\"",
                "The collector's database that it is for: letters, digits, \"_\", \"-\" and \".\".",
            ),
            key(
                "sender",
                Kind::Text,
                Absent::Means("the node's first ID"),
                "\"beta\"",
                "Name of this sender of measurements at the collector.",
            ),
            key(
                "token",
                Kind::Text,
                Absent::Means("none is said"),
                "\"a long random text\"",
                "Token that the collector asks for, where it does.",
            ),
            key(
                "points",
                Kind::ChoiceList(POINTS),
                Absent::Means("all of them"),
                "[\"received\", \"state\"]",
                "Measurement points. \"received\", \"created\", \"forwarded\", \"transfer\" and \"delivered\" are a row for every bundle, \"commit\" one for every flush of the disk.",
            ),
            with_default(
                "interval",
                Kind::Duration,
                "\"1s\"",
                "Time between two measurements of \"state\", \"neighbour\", \"queue\" and \"store\", from 10ms.",
            ),
            with_default(
                "spool",
                Kind::Size,
                "\"64MiB\"",
                "Octets that wait on disk, in the directory for temporary files, while the collector is away.",
            ),
        ]],
    },
    TELEMETRY,
];

/// The JSON Schema (draft 2020-12) of the node file.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    dhow_document::json_schema("Dhow node file", SECTIONS, &["node"])
}
