//! Sections that make many nodes at once.

use dhow_document::schema::{Absent, Key, Kind, Occurs, Section, key, required, with_default};

use super::COUNT_MAX;
use super::kinds::{HOST_KEYS, LINK_KEYS, LINK_RATE_DELAY, NODE_KEYS, RATE};

/// When generated links can be used.
const CONTACTS: &[Key] = &[
    key(
        "contact_every",
        Kind::Duration,
        Absent::Means("links are always there"),
        "\"1h\"",
        "Time from one contact of a link to its next; each link's first contact is at a time drawn from the seed.",
    ),
    key(
        "contact_for",
        Kind::Durations,
        Absent::Means("links are always there"),
        "\"2min..10min\"",
        "Length of a link's contacts; between two lengths each link has its own.",
    ),
];

const PREFIX: Key = required(
    "name",
    Kind::Text,
    "\"n\"",
    "Beginning of the names of the nodes; a number follows.",
);
const COUNT: Key = required(
    "count",
    Kind::Integer(1, COUNT_MAX),
    "8",
    "Number of nodes.",
);
const FIRST: Key = with_default(
    "first",
    Kind::Integer(0, COUNT_MAX),
    "1",
    "The number in the first one's name.",
);

pub(super) const SEVERAL: &[Key] = &[PREFIX, COUNT, FIRST];

/// `[[nodes]]`.
pub(super) const NODES: Section = Section {
    name: "nodes",
    occurs: Occurs::Many,
    meaning: "Nodes without links, for contact plans and links of the file.",
    groups: &[SEVERAL, NODE_KEYS, HOST_KEYS],
};

/// `[[line]]`.
pub(super) const LINE: Section = Section {
    name: "line",
    occurs: Occurs::Many,
    meaning: "Nodes in a row, each linked with the next.",
    groups: &[
        SEVERAL,
        NODE_KEYS,
        HOST_KEYS,
        LINK_RATE_DELAY,
        LINK_KEYS,
        CONTACTS,
    ],
};

/// `[[ring]]`.
pub(super) const RING: Section = Section {
    name: "ring",
    occurs: Occurs::Many,
    meaning: "Nodes in a ring, each linked with the next.",
    groups: &[
        SEVERAL,
        NODE_KEYS,
        HOST_KEYS,
        LINK_RATE_DELAY,
        LINK_KEYS,
        CONTACTS,
    ],
};

/// `[[star]]`.
pub(super) const STAR: Section = Section {
    name: "star",
    occurs: Occurs::Many,
    meaning: "Nodes around one in the middle, each linked with it.",
    groups: &[
        SEVERAL,
        &[key(
            "hub",
            Kind::Text,
            Absent::Means("one of its own, whose name ends with \"hub\""),
            "\"town\"",
            "The node in the middle.",
        )],
        NODE_KEYS,
        HOST_KEYS,
        LINK_RATE_DELAY,
        LINK_KEYS,
        CONTACTS,
    ],
};

/// `[[grid]]`.
pub(super) const GRID: Section = Section {
    name: "grid",
    occurs: Occurs::Many,
    meaning: "Nodes in columns and rows (NAMEcolumn-row, from 1), each linked with those beside, above and below it.",
    groups: &[
        &[
            PREFIX,
            required("width", Kind::Integer(1, COUNT_MAX), "4", "Columns."),
            required("height", Kind::Integer(1, COUNT_MAX), "3", "Rows."),
        ],
        NODE_KEYS,
        HOST_KEYS,
        LINK_RATE_DELAY,
        LINK_KEYS,
        CONTACTS,
    ],
};

/// `[[field]]`.
pub(super) const FIELD: Section = Section {
    name: "field",
    occurs: Occurs::Many,
    meaning: "Nodes at random places, or walking from one to another in straight lines (random waypoint); those within reach of each other have a contact.",
    groups: &[
        SEVERAL,
        &[
            required(
                "width_m",
                Kind::Integer(1, 1_000_000),
                "2000",
                "From west to east, metres.",
            ),
            required(
                "height_m",
                Kind::Integer(1, 1_000_000),
                "2000",
                "From south to north, metres.",
            ),
            required(
                "reach_m",
                Kind::Integer(1, 1_000_000),
                "100",
                "Greatest distance of two nodes with a contact, metres.",
            ),
            key(
                "slowest_kmh",
                Kind::Integer(1, 100_000),
                Absent::Means("as fast as the fastest"),
                "3",
                "The slowest walk, km/h.",
            ),
            key(
                "fastest_kmh",
                Kind::Integer(1, 100_000),
                Absent::Means("nodes stay where they are"),
                "6",
                "The fastest walk, km/h.",
            ),
            with_default(
                "pause",
                Kind::Durations,
                "\"0\"",
                "Time for which a node stays at each place.",
            ),
            with_default(
                "step",
                Kind::Duration,
                "\"1s\"",
                "Time between two looks at which nodes are within reach: at least 1ms.",
            ),
        ],
        NODE_KEYS,
        HOST_KEYS,
        LINK_RATE_DELAY,
        LINK_KEYS,
    ],
};

/// `[[bus]]`.
pub(super) const BUS: Section = Section {
    name: "bus",
    occurs: Occurs::Many,
    meaning: "Nodes that go from stop to stop by a timetable, and have contacts there.",
    groups: &[
        &[
            PREFIX,
            with_default(
                "count",
                Kind::Integer(1, 10_000),
                "1",
                "Buses, spread evenly over the time of a tour.",
            ),
            FIRST,
            required(
                "stops",
                Kind::TextList,
                "[\"town\", \"north\"]",
                "The nodes that it calls at, in order; at least two.",
            ),
            required(
                "travel",
                Kind::TextOrList,
                "\"45min\"",
                "From one stop to the next: the same for all, or a list with one for each way.",
            ),
            with_default(
                "stay",
                Kind::Duration,
                "\"5min\"",
                "Time for which it stays at a stop.",
            ),
            with_default(
                "way",
                Kind::Choice(&["back", "round"]),
                "\"back\"",
                "\"back\": it returns the way that it came; \"round\": it goes from the last stop to the first.",
            ),
            with_default(
                "start",
                Kind::Duration,
                "\"0\"",
                "Time at which the first bus is at the first stop.",
            ),
            key(
                "every",
                Kind::Duration,
                Absent::Means("as soon as it is back"),
                "\"12h\"",
                "From the beginning of a bus's tour to that of its next.",
            ),
        ],
        NODE_KEYS,
        HOST_KEYS,
        LINK_RATE_DELAY,
        LINK_KEYS,
    ],
};

/// `[[mission]]`.
pub(super) const MISSION: Section = Section {
    name: "mission",
    occurs: Occurs::Many,
    meaning: "Stations on a planet that turns (NAMEstation1, …), an orbiter far away (NAMEorbiter), and a lander below it (NAMElander).",
    groups: &[
        &[
            required(
                "name",
                Kind::Text,
                "\"mars-\"",
                "Beginning of the names of the nodes.",
            ),
            with_default(
                "stations",
                Kind::Integer(1, 1_000),
                "3",
                "Stations, spread evenly around the planet: one at a time sees the orbiter.",
            ),
            with_default(
                "turn",
                Kind::Duration,
                "\"24h\"",
                "Duration of one turn of the planet.",
            ),
            required(
                "nearest",
                Kind::Duration,
                "\"3min\"",
                "Delay between station and orbiter when they are nearest, as they are at the start.",
            ),
            required(
                "farthest",
                Kind::Duration,
                "\"22min\"",
                "Delay between station and orbiter when they are farthest.",
            ),
            required(
                "swing",
                Kind::Duration,
                "\"780d\"",
                "From nearest to nearest.",
            ),
            with_default("orbit", Kind::Duration, "\"2h\"", "Duration of one orbit."),
            with_default(
                "hidden",
                Kind::Duration,
                "\"0\"",
                "Time in each orbit for which no station sees it, from the orbit's beginning.",
            ),
            with_default(
                "overflight",
                Kind::Duration,
                "\"10min\"",
                "Time in each orbit for which the lander sees it, around the orbit's middle.",
            ),
            key(
                "lander_rate",
                Kind::Rate,
                Absent::Means("as that of the stations"),
                "\"256kbit\"",
                "Rate between orbiter and lander, bits a second.",
            ),
            with_default(
                "lander_delay",
                Kind::Duration,
                "\"5ms\"",
                "Delay between orbiter and lander.",
            ),
            RATE,
        ],
        NODE_KEYS,
        HOST_KEYS,
        LINK_KEYS,
    ],
};
