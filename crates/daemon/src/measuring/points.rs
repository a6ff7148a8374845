//! The measurement points of a node.

use dhow_measure::{Column, Point, Type};

const fn text(name: &'static str, about: &'static str) -> Column {
    Column::new(name, Type::Text, "", about)
}

const fn count(name: &'static str, about: &'static str) -> Column {
    Column::new(name, Type::Uint64, "", about)
}

const fn octets(name: &'static str, about: &'static str) -> Column {
    Column::new(name, Type::Uint64, "B", about)
}

const BUNDLE: Column = text(
    "bundle",
    "source, creation time and sequence number, and the fragment",
);

pub static RECEIVED: Point = Point {
    name: "received",
    about: "a bundle came from a neighbour and is durable",
    columns: &[
        BUNDLE,
        text("neighbour", "its node ID"),
        octets("octets", "of the whole bundle"),
    ],
};

pub static CREATED: Point = Point {
    name: "created",
    about: "a bundle was made here and is durable",
    columns: &[BUNDLE, octets("octets", "of the whole bundle")],
};

pub static FORWARDED: Point = Point {
    name: "forwarded",
    about: "a neighbour has taken a bundle",
    columns: &[
        BUNDLE,
        text("neighbour", "its node ID"),
        octets("octets", "of the whole bundle"),
    ],
};

pub static TRANSFER: Point = Point {
    name: "transfer",
    about: "a neighbour has acknowledged a transfer: a bundle, or a fragment of it",
    columns: &[
        BUNDLE,
        text("neighbour", "its node ID"),
        octets("octets", "of the bundle, or of the fragment's payload"),
        Column::new(
            "took",
            Type::Double,
            "s",
            "from its beginning to its acknowledgment",
        ),
    ],
};

pub static DELIVERED: Point = Point {
    name: "delivered",
    about: "an application has confirmed a bundle",
    columns: &[
        BUNDLE,
        text("endpoint", "where"),
        octets("octets", "of its payload"),
    ],
};

pub static DELETED: Point = Point {
    name: "deleted",
    about: "a bundle was deleted before it reached its destination",
    columns: &[
        BUNDLE,
        count("reason", "status report reason code (RFC 9171 table 1)"),
    ],
};

pub static REFUSED: Point = Point {
    name: "refused",
    about: "a bundle was refused, here or by a neighbour",
    columns: &[
        text("by", "here or neighbour"),
        text("neighbour", "its node ID"),
        text("why", "in words"),
    ],
};

pub static SESSION: Point = Point {
    name: "session",
    about: "a session with a neighbour came up or went down",
    columns: &[
        text("state", "up or down"),
        count("stream", "its number, from the start of the node"),
        text(
            "link",
            "the link that dialled it; empty where it was accepted",
        ),
        text("neighbour", "its node ID, when it came up"),
        text("why", "why it went down"),
    ],
};

pub static CONTACT: Point = Point {
    name: "contact",
    about: "the first session came up, or the last one went down",
    columns: &[text("state", "on or over")],
};

/// Told in intervals.
pub static STATE: Point = Point {
    name: "state",
    about: "what the node holds, and what it has done since its start",
    columns: &[
        count("stored", "bundles in the store"),
        octets("stored_octets", "of them"),
        count("sessions", "sessions that are up"),
        count("received", "bundles from neighbours"),
        octets("received_octets", "of them"),
        count("created", "bundles made here"),
        count("forwarded", "bundles that neighbours took"),
        octets("forwarded_octets", "of them"),
        count("delivered", "bundles that applications confirmed"),
        count("expired", "bundles that expired"),
        count("deleted", "bundles deleted for another reason"),
        count("refused", "incoming bundles refused"),
        count("duplicates", "bundles that came again"),
        octets("octets_in", "read from sockets"),
        octets("octets_out", "written to sockets"),
    ],
};

/// Told in intervals, of each session.
pub static NEIGHBOUR: Point = Point {
    name: "neighbour",
    about: "what a session has done since it came up",
    columns: &[
        count("stream", "its number, from the start of the node"),
        text("neighbour", "its node ID"),
        count("in_flight", "transfers sent and not acknowledged"),
        count("sent", "bundles that the neighbour took"),
        octets("sent_octets", "of them"),
        count("received", "bundles that came"),
        octets("received_octets", "of them"),
    ],
};

/// Told in intervals, of each next hop that something waits for.
pub static QUEUE: Point = Point {
    name: "queue",
    about: "what waits for a next hop, the best of its destination's",
    columns: &[
        text(
            "next_hop",
            "a link's name or a node ID; empty for applications here, or without a route",
        ),
        count("waiting", "bundles"),
    ],
};

/// Told at each flush of the disk.
pub static COMMIT: Point = Point {
    name: "commit",
    about: "what was written since the flush before is durable",
    columns: &[
        count("bundles", "that are durable with it"),
        octets("octets", "of bundles, written since the flush before"),
        Column::new("busy", Type::Double, "s", "spent writing and flushing"),
        Column::new("flush", Type::Double, "s", "spent flushing"),
    ],
};

/// Told in intervals.
pub static STORE: Point = Point {
    name: "store",
    about: "what the store has done since the start of the node",
    columns: &[
        count("batches", "written"),
        count("commands", "in them"),
        count("syncs", "flushes of the disk"),
        Column::new("busy", Type::Uint64, "ns", "spent writing and flushing"),
        Column::new("longest", Type::Uint64, "ns", "that one batch took"),
        octets("log_octets", "of the log"),
        octets("free_octets", "of segments that are free"),
        count("failures", "of writes and flushes"),
    ],
};

/// All values.
pub static ALL: [&Point; 14] = [
    &RECEIVED, &CREATED, &FORWARDED, &TRANSFER, &DELIVERED, &DELETED, &REFUSED, &SESSION, &CONTACT,
    &STATE, &NEIGHBOUR, &QUEUE, &STORE, &COMMIT,
];

/// Names of those that tell of every bundle.
pub const OF_EVERY_BUNDLE: [&str; 5] =
    ["received", "created", "forwarded", "transfer", "delivered"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema::POINTS;

    #[test]
    fn the_node_file_names_every_point_and_no_other() {
        let names: Vec<&str> = ALL.iter().map(|point| point.name).collect();
        assert_eq!(names, POINTS);
        assert!(OF_EVERY_BUNDLE.iter().all(|name| POINTS.contains(name)));
        assert!(ALL.iter().all(|point| point.schema("dhow").is_ok()));
    }
}
