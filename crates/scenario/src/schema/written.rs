//! Sections of single nodes, links and contacts.

use dhow_bundle::RouterKind;
use dhow_bundle::router::{Acknowledgments, DropPolicy};
use dhow_document::contact_plan::FORMATS;
use dhow_document::schema::{Absent, Kind, Occurs, Section, key, required, with_default};

use super::NODE_NUMBER_MAX;
use super::kinds::{HOST_KEYS, LINK_KEYS, LINK_RATE_DELAY, NODE_KEYS, START, WHOSE};

/// The keys before any section.
pub(super) const TOP: Section = Section {
    name: "",
    occurs: Occurs::Top,
    meaning: "",
    groups: &[&[
        key(
            "name",
            Kind::Text,
            Absent::Means("the file's name"),
            "\"Village bus\"",
            "Name for people.",
        ),
        with_default(
            "seed",
            Kind::Integer(0, i64::MAX),
            "1",
            "Seed of everything that is left to chance.",
        ),
        with_default(
            "every_seed",
            Kind::Boolean,
            "false",
            "Generators draw a new network for each seed of a run; otherwise the network follows from the seed of the file, and all runs share it.",
        ),
        with_default(
            "fidelity",
            Kind::Choice(&["octet", "bundle"]),
            "\"octet\"",
            "\"octet\": every octet is there, in sessions and on disks. \"bundle\": of payloads only the length, and no log on disks, for a hundred thousand nodes.",
        ),
        key(
            "congestion_control",
            Kind::Text,
            Absent::Means("that of the system; in virtual time much like BBR"),
            "\"bbr\"",
            "The congestion control of TCP: on the hosts of a testbed (tcp_congestion_control) one of those that the kernel has and lets namespaces use, and in virtual time \"bbr\", \"reno\" or \"cubic\". Without it, simulated connections have no slow start, lose as BBR sees it, and do not slow down.",
        ),
    ]],
};

/// `[[node]]`.
pub(super) const NODE: Section = Section {
    name: "node",
    occurs: Occurs::Many,
    meaning: "A node.",
    groups: &[
        &[
            required("name", Kind::Text, "\"east\"", "Its name in this file."),
            key(
                "number",
                Kind::Integer(1, NODE_NUMBER_MAX),
                Absent::Means("its place among all nodes, from 1"),
                "7",
                "The node is ipn:NUMBER.0.",
            ),
            key(
                "host",
                Kind::Text,
                Absent::Means("one of its own"),
                "\"east\"",
                "The node whose host it is on as well: it has that one's network, processor, memory and disk, and a store of its own; on a testbed only.",
            ),
        ],
        NODE_KEYS,
        HOST_KEYS,
    ],
};

/// `[[link]]`.
pub(super) const LINK: Section = Section {
    name: "link",
    occurs: Occurs::Many,
    meaning: "A link between two nodes, the same in both directions; without contacts it is always there.",
    groups: &[
        &[
            required(
                "between",
                Kind::TextList,
                "[\"east\", \"west\"]",
                "Two nodes, of which the first dials.",
            ),
            key(
                "name",
                Kind::Text,
                Absent::Means("FIRST-SECOND"),
                "\"wire\"",
                "Its name in this file.",
            ),
            key(
                "over",
                Kind::Text,
                Absent::Means("a wire of its own"),
                "\"radio\"",
                "The link between the same hosts whose wire it shares, with its rate, its delay, all else that it is, and its contacts; on a testbed only.",
            ),
        ],
        LINK_RATE_DELAY,
        LINK_KEYS,
    ],
};

/// `[[route]]`.
pub(super) const ROUTE: Section = Section {
    name: "route",
    occurs: Occurs::Many,
    meaning: "A route of a node, beside those over the fewest links, which have priority 0 and come before others of it. A neighbour that is up is always its own best next hop.",
    groups: &[&[
        WHOSE,
        required(
            "to",
            Kind::Text,
            "\"west\"",
            "The node to which bundles go.",
        ),
        required(
            "via",
            Kind::Text,
            "\"north\"",
            "The neighbour that is next.",
        ),
        with_default(
            "priority",
            Kind::Integer(-0x8000_0000, 0x7fff_ffff),
            "0",
            "Routes of a higher priority come first, and of the same those that are named first. A bundle that may not go there, since it came from there or does not fit, takes the next one.",
        ),
    ]],
};

/// `[[routing]]`.
pub(super) const ROUTING: Section = Section {
    name: "routing",
    occurs: Occurs::Many,
    meaning: "Router, which decides which neighbours of a node get a bundle; without it, routes do.",
    groups: &[&[
        WHOSE,
        key(
            "to",
            Kind::Text,
            Absent::Means("every node without a line of its own"),
            "\"west\"",
            "The node to which bundles go; with * every node of such a name.",
        ),
        required(
            "router",
            Kind::Choice(RouterKind::NAMES),
            "\"flood\"",
            "Routes, one neighbour at a time; flood: each neighbour gets a copy, once, and one stays until the bundle expires or its destination has it; spray-and-wait: 'copies' of them, and no more; prophet: those get one that have met the destination more often, or nodes that have; epidemic: flood, and copies end once the bundle is where it was to go; maxprop: the same, bundles of few hops and likely paths first (docs/routing.md).",
        ),
        key(
            "copies",
            Kind::Integer(1, 65_536),
            Absent::Means("8"),
            "8",
            "Of spray-and-wait: the copies of a bundle that is made there.",
        ),
        key(
            "acknowledgments",
            Kind::Choice(Acknowledgments::NAMES),
            Absent::Means("none with flood, else verified"),
            "\"anyone\"",
            "The nodes that are believed when they say that a bundle has reached its destination, so that copies of it end: as in a node file; sessions here have no TLS, so with verified each neighbour is believed about its own bundles alone.",
        ),
        with_default(
            "drop",
            Kind::Choice(DropPolicy::NAMES),
            "\"none\"",
            "The copies that a full store deletes to make room: of other nodes' bundles, or of all; none: it refuses (docs/routing.md).",
        ),
    ]],
};

/// `[[contact]]`.
pub(super) const CONTACT: Section = Section {
    name: "contact",
    occurs: Occurs::Many,
    meaning: "Time in which a link can be used; it has a 'for' or an 'end'.",
    groups: &[&[
        required("link", Kind::Text, "\"east-west\"", "The link."),
        START,
        key(
            "for",
            Kind::Duration,
            Absent::Means("until 'end'"),
            "\"5min\"",
            "Its length.",
        ),
        key(
            "end",
            Kind::Duration,
            Absent::Means("as long as 'for'"),
            "\"1h\"",
            "Its end.",
        ),
        key(
            "every",
            Kind::Duration,
            Absent::Means("it is the only one"),
            "\"12h\"",
            "Again and again, so long from one beginning to the next.",
        ),
    ]],
};

/// `[[contact_plan]]`.
pub(super) const CONTACT_PLAN: Section = Section {
    name: "contact_plan",
    occurs: Occurs::Many,
    meaning: "Contacts in a file of their own. Its nodes are this file's of those names, or where it has none, of those numbers; links that this file does not have come with it.",
    groups: &[
        &[
            required(
                "file",
                Kind::Path,
                "\"plan.txt\"",
                "The file, relative to this one.",
            ),
            key(
                "format",
                Kind::Choice(FORMATS),
                Absent::Means("what the file looks like"),
                "\"ion\"",
                "ION's 'a contact' and 'a range' lines, HDTN's JSON, The ONE's CONN lines, or a table of two nodes, a beginning and an end in seconds (iMotes at CRAWDAD).",
            ),
            key(
                "rate",
                Kind::Rate,
                Absent::Means(
                    "the plan's, which is refused where contacts of two nodes have several",
                ),
                "\"1Mbit\"",
                "Rate of the links that come with it, bits a second, in both directions and all contacts.",
            ),
            key(
                "delay",
                Kind::TextOrList,
                Absent::Means("the plan's"),
                "\"10ms\"",
                "Delay of the links that come with it.",
            ),
        ],
        LINK_KEYS,
    ],
};
