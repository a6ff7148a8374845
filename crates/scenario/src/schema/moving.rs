//! Sections of groups of hosts that move, their radios, and the messages among them.

use dhow_document::schema::{Absent, Key, Kind, Occurs, Section, key, required, with_default};

use super::generated::SEVERAL;
use super::kinds::{HOST_KEYS, LINK_KEYS, LINK_RATE_DELAY, NODE_KEYS};

/// The interval of looks at which hosts are within reach.
const STEP: Key = with_default(
    "step",
    Kind::Duration,
    "\"1s\"",
    "Time between two looks at which nodes are within reach: at least 1ms.",
);

/// `[[radio]]`.
pub(super) const RADIO: Section = Section {
    name: "radio",
    occurs: Occurs::Many,
    meaning: "A radio that hosts of groups have: two hosts that have it and are within its reach have a contact. Where two share several, the one that reaches farthest.",
    groups: &[
        &[
            required("name", Kind::Text, "\"bluetooth\"", "Its name."),
            required(
                "reach_m",
                Kind::Integer(1, 1_000_000),
                "10",
                "Greatest distance of two hosts with a contact, metres.",
            ),
            STEP,
            with_default(
                "channel",
                Kind::Choice(&["pair", "radio", "reach"]),
                "\"pair\"",
                "The hosts that share the rate. \"pair\": each two hosts with a contact have it to themselves, both ways. \"radio\": a radio sends to or receives from one host at a time, as The ONE's do. \"reach\": while a host sends, none within its reach sends or receives anything else. In virtual time only, but for \"pair\".",
            ),
        ],
        LINK_RATE_DELAY,
        LINK_KEYS,
    ],
};

/// `[[group]]`.
pub(super) const GROUP: Section = Section {
    name: "group",
    occurs: Occurs::Many,
    meaning: "Hosts that move in the same way. All groups of a scenario are in one plane and meet each other.",
    groups: &[
        SEVERAL,
        &[
            required(
                "radios",
                Kind::TextList,
                "[\"bluetooth\"]",
                "The names of the radios that each of them has.",
            ),
            required(
                "movement",
                Kind::Choice(&["shortest-path", "route", "straight", "none"]),
                "\"shortest-path\"",
                "Movement: to random points of a map by the shortest path, from stop to stop of a route, in straight lines to random places, or not at all.",
            ),
            key(
                "map",
                Kind::PathList,
                Absent::Means("no map; 'width_m' and 'height_m' say where hosts are"),
                "[\"streets.wkt\"]",
                "Files, relative to this one, of the streets that they use: well-known text (LINESTRING and MULTILINESTRING, metres) or OpenStreetMap's XML (ways with the tag highway). Streets with a point in common are connected.",
            ),
            key(
                "width_m",
                Kind::Integer(1, 1_000_000),
                Absent::Means("as wide as the map"),
                "1000",
                "From west to east, metres, of where hosts are that move in straight lines or not at all.",
            ),
            key(
                "height_m",
                Kind::Integer(1, 1_000_000),
                Absent::Means("as high as the map"),
                "1000",
                "From south to north, metres.",
            ),
            key(
                "route",
                Kind::Path,
                Absent::Means("none; movement = \"route\" needs one"),
                "\"tram.wkt\"",
                "A file of the same kind whose points are the stops of a route, in order; each is the nearest point of the map. Each host begins at one of them by chance.",
            ),
            with_default(
                "way",
                Kind::Choice(&["round", "back"]),
                "\"round\"",
                "From the last stop to the first, or back by the same stops.",
            ),
            with_default(
                "speed",
                Kind::Speeds,
                "\"0.5m/s..1.5m/s\"",
                "Speed; between two speeds each way has its own.",
            ),
            with_default(
                "pause",
                Kind::Durations,
                "\"0\"",
                "Time for which a host stays at each place.",
            ),
            with_default(
                "warm_up",
                Kind::Duration,
                "\"0\"",
                "Time for which they have moved when the run begins.",
            ),
        ],
        NODE_KEYS,
        HOST_KEYS,
    ],
};

/// `[[messages]]`.
pub(super) const MESSAGES: Section = Section {
    name: "messages",
    occurs: Occurs::Many,
    meaning: "Bundles among many nodes: each time one of them, drawn by chance, sends one bundle to another.",
    groups: &[&[
        required(
            "among",
            Kind::TextList,
            "[\"p*\", \"c*\"]",
            "The nodes; with * all of such a name.",
        ),
        key(
            "to",
            Kind::TextList,
            Absent::Means("the nodes of 'among'"),
            "[\"town\"]",
            "The nodes that receive, where they are others; with * all of such a name.",
        ),
        required(
            "every",
            Kind::Durations,
            "\"25s..35s\"",
            "From one bundle to the next; between two times each has one of its own.",
        ),
        required(
            "size",
            Kind::Sizes,
            "\"500kB..1MB\"",
            "Octets of payload, at least 16; all between two sizes are as likely.",
        ),
        with_default(
            "start",
            Kind::Duration,
            "\"0\"",
            "Beginning of the time to the first.",
        ),
        key(
            "until",
            Kind::Duration,
            Absent::Means("the run is over"),
            "\"11h\"",
            "Time after which no more are sent.",
        ),
        with_default("lifetime", Kind::Duration, "\"1d\"", "Lifetime of bundles."),
    ]],
};
