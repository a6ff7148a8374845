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
                Kind::Choice(&["shortest-path", "route", "straight", "working-day", "none"]),
                "\"shortest-path\"",
                "Movement: to random points of a map by the shortest path, from stop to stop of a route, in straight lines to random places, from home to work and out in the evening, or not at all.",
            ),
            key(
                "map",
                Kind::PathList,
                Absent::Means("no map; 'width_m' and 'height_m' say where hosts are"),
                "[\"streets.wkt\"]",
                "Files, relative to this one, of the streets that they use: well-known text (LINESTRING and MULTILINESTRING, metres) or OpenStreetMap's XML or PBF (ways with the tag highway). Streets with a point in common are connected.",
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
            key(
                "interests",
                Kind::TextList,
                Absent::Means("all points of the map are as likely"),
                "[\"0.3 parks.wkt\"]",
                "With movement = \"shortest-path\": parts of all ways, each with a file, relative to this one, of points (well-known text, POINT) to one of which they lead; each is the nearest point of the map.",
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
        WORKING_DAY_KEYS,
        BATTERY_KEYS,
        NODE_KEYS,
        HOST_KEYS,
    ],
};

/// Keys of groups with movement = "working-day".
const WORKING_DAY_KEYS: &[Key] = &[
    key(
        "homes",
        Kind::Path,
        Absent::Means("any point of the map"),
        "\"homes.wkt\"",
        "With movement = \"working-day\": a file of points at which homes are (well-known text, POINT). Each host has one by chance, and is within 50 m of it, both ways.",
    ),
    key(
        "offices",
        Kind::Path,
        Absent::Means("'office_count' points of the map"),
        "\"offices.wkt\"",
        "With movement = \"working-day\": a file of points at which offices are. Each host has one by chance.",
    ),
    with_default(
        "office_count",
        Kind::Integer(1, 10_000),
        "50",
        "Offices, where no file says where they are.",
    ),
    with_default(
        "office_m",
        Kind::Integer(0, 10_000),
        "100",
        "The sides of an office, metres: hosts have a desk there and go to and fro between it and other places.",
    ),
    with_default(
        "work_day",
        Kind::Duration,
        "\"8h\"",
        "Time at the office each day.",
    ),
    with_default(
        "desk_time",
        Kind::Durations,
        "\"10s..100000s\"",
        "Time at a desk, or at another place of the office: distributed as Pareto's are, so that few are long.",
    ),
    with_default(
        "desk_coefficient",
        Kind::Part,
        "0.5",
        "Pareto's coefficient of these times: the greater, the fewer are long.",
    ),
    key(
        "meeting_spots",
        Kind::Path,
        Absent::Means("'meeting_spot_count' points of the map"),
        "\"spots.wkt\"",
        "With movement = \"working-day\": a file of points at which people meet in the evening. Hosts have them in turns.",
    ),
    with_default(
        "meeting_spot_count",
        Kind::Integer(1, 10_000),
        "10",
        "Meeting spots, where no file says where they are.",
    ),
    with_default(
        "evening",
        Kind::Part,
        "0.5",
        "The part of evenings that a host spends in company: it waits at its meeting spot until others are there, an hour at most, walks with them over 10 to 100 streets, and stays.",
    ),
    with_default(
        "company_least",
        Kind::Integer(1, 1_000),
        "1",
        "Hosts that go out together, at least.",
    ),
    with_default(
        "company_most",
        Kind::Integer(1, 1_000),
        "3",
        "Hosts that go out together, at most.",
    ),
    with_default(
        "evening_stay",
        Kind::Durations,
        "\"1h..2h\"",
        "Time for which they stay where they went.",
    ),
    with_default(
        "day_shift",
        Kind::Duration,
        "\"2h\"",
        "Standard deviation of the time at which a host leaves home, around midnight and each multiple of 24 hours from the beginning; each host has one of its own.",
    ),
    with_default(
        "own_car",
        Kind::Part,
        "0",
        "The part of hosts that go by car; others walk.",
    ),
    with_default(
        "car_speed",
        Kind::Speeds,
        "\"7m/s..14m/s\"",
        "Speed by car; between two speeds each way has its own.",
    ),
];

/// Keys of groups whose hosts have batteries.
const BATTERY_KEYS: &[Key] = &[
    key(
        "battery",
        Kind::Text,
        Absent::Means("energy without an end"),
        "\"5000J\"",
        "Energy of each host's battery, full at the beginning: pJ, nJ, uJ, mJ or J. A host whose battery is empty has no contacts. In virtual time only.",
    ),
    with_default(
        "scan_power",
        Kind::Text,
        "\"0W\"",
        "Power that looking for others takes all the time: uW, mW, W or kW.",
    ),
    with_default(
        "send_power",
        Kind::Text,
        "\"0W\"",
        "Power while a host sends over a connection, beside that: uW, mW, W or kW.",
    ),
    with_default(
        "receive_power",
        Kind::Text,
        "\"0W\"",
        "Power while it receives: uW, mW, W or kW.",
    ),
    key(
        "recharge",
        Kind::Duration,
        Absent::Means("never"),
        "\"24h\"",
        "Time after which batteries are full again, from the beginning, and each time after that.",
    ),
];

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
