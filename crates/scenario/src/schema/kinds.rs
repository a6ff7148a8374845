//! What nodes and links are like: keys that sections share.

use dhow_document::schema::{Absent, Key, Kind, key, never, with_default};

/// What a node is like.
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
    with_default(
        "segment",
        Kind::Size,
        "\"64KiB\"",
        "Octets of a segment of its store: a multiple of 4096 from 64KiB to 1GiB.",
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
        "How long its disk takes for a flush.",
    ),
    with_default(
        "read",
        Kind::Duration,
        "\"0\"",
        "How long its disk takes for a read that memory does not have; 0: memory has all.",
    ),
    with_default(
        "clock",
        Kind::Choice(&["known", "none"]),
        "\"known\"",
        "What it knows of the time; \"none\": nothing but how long it has been running (RFC 9171 4.2.7).",
    ),
    key(
        "clock_offset",
        Kind::Offset,
        Absent::Means("its clock is right"),
        "\"-3s\"",
        "How far its clock is ahead of the true time.",
    ),
    key(
        "clock_drift_ppm",
        Kind::Integer(-100_000, 100_000),
        Absent::Means("its clock is right"),
        "80",
        "How much too fast its clock runs, parts in a million.",
    ),
];

pub(super) const RATE: Key = key(
    "rate",
    Kind::Rate,
    Absent::Refused,
    "\"1Mbit\"",
    "How fast octets leave, in each direction, bits a second.",
);

pub(super) const DELAY: Key = with_default(
    "delay",
    Kind::TextOrList,
    "\"0\"",
    "How long octets are on their way; as a list how long from when on, changing evenly between: [\"0 4min\", \"390d 22min\"].",
);

/// What a link is like, beside its rate and delay.
pub(super) const LINK_KEYS: &[Key] = &[
    with_default(
        "loss",
        Kind::Part,
        "0",
        "The part of packets that are lost. Sessions run over streams of octets: what is lost comes again later, and all behind it waits.",
    ),
    with_default(
        "loss_burst",
        Kind::Integer(1, 1_000_000),
        "1",
        "How many packets in a row are lost, in the mean (the model of Gilbert and Elliott); 1: each by itself.",
    ),
    with_default(
        "jitter",
        Kind::Duration,
        "\"0\"",
        "How much later than by the delay octets may arrive; all between is as likely, and none overtake others.",
    ),
    never(
        "duplicate",
        "sessions run over streams, where TCP hides duplicates; real nodes meet them over 'dhow channel --duplicate'",
    ),
    never(
        "reorder",
        "sessions run over streams, where TCP hides reordering; real nodes meet it over 'dhow channel --reorder'",
    ),
    with_default(
        "at_end",
        Kind::Choice(&["reset", "silence"]),
        "\"reset\"",
        "What becomes of connections when a contact ends: both sides are told, or nobody is and they go on with the next.",
    ),
    with_default(
        "retry",
        Kind::Duration,
        "\"1s\"",
        "The dialling node's longest pause between two attempts.",
    ),
    with_default(
        "keepalive",
        Kind::Duration,
        "\"30s\"",
        "Keepalive interval of sessions, whole seconds up to 65535s (RFC 9174 5.1.1), not less than the longest round trip; 0 for none. Where it is not set, at least four of the longest round trips.",
    ),
];

pub(super) const LINK_RATE_DELAY: &[Key] = &[RATE, DELAY];
