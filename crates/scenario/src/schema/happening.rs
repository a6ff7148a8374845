//! Sections of events: traffic, faults, and the end.

use dhow_document::schema::{Absent, Key, Kind, Occurs, Section, key, required, with_default};

use super::COUNT_MAX;
use super::kinds::WHOSE;

/// The time of what happens once.
const AT: Key = required(
    "at",
    Kind::Duration,
    "\"90min\"",
    "Time from the start of the run.",
);

/// `[[traffic]]`.
pub(super) const TRAFFIC: Section = Section {
    name: "traffic",
    occurs: Occurs::Many,
    meaning: "Bundles that one node sends to another.",
    groups: &[&[
        required(
            "from",
            Kind::Text,
            "\"east\"",
            "Sender; with * every node of such a name.",
        ),
        required(
            "to",
            Kind::Text,
            "\"west\"",
            "Receiver; with * one node of such a name, drawn for each sender.",
        ),
        key(
            "within",
            Kind::Integer(1, COUNT_MAX),
            Absent::Means("however many"),
            "4",
            "Greatest distance of the receiver, links.",
        ),
        key(
            "size",
            Kind::Sizes,
            Absent::Means("what 'list' says"),
            "\"2kB..50kB\"",
            "Octets of payload, at least 16; all between two sizes are as likely.",
        ),
        key(
            "count",
            Kind::Integer(0, i64::MAX),
            Absent::Means("as many as there is time for"),
            "100",
            "Number of bundles that each sends.",
        ),
        key(
            "total",
            Kind::Size,
            Absent::Means("as 'count' says"),
            "\"15MB\"",
            "Octets of payload that each sends at least, instead of 'count': as many bundles as have that much on average.",
        ),
        key(
            "every",
            Kind::Duration,
            Absent::Means("all at once"),
            "\"1min\"",
            "From one bundle to the next.",
        ),
        key(
            "mean",
            Kind::Duration,
            Absent::Means("all at once"),
            "\"20min\"",
            "Mean time from one bundle to the next (a Poisson process).",
        ),
        key(
            "list",
            Kind::Text,
            Absent::Means("'size', 'count', 'every', 'mean' and 'burst' say it"),
            "\"mail.txt\"",
            "A file, found from where this one is, of what is sent: in each line a time from the start of the traffic and a size (90s 2kB), in order.",
        ),
        with_default(
            "burst",
            Kind::Integer(1, COUNT_MAX),
            "1",
            "Number of bundles sent at once each time.",
        ),
        with_default(
            "start",
            Kind::Durations,
            "\"0\"",
            "Time at which the first is sent; between two times each sender has its own.",
        ),
        key(
            "reports",
            Kind::ChoiceList(&["reception", "forwarding", "delivery", "deletion"]),
            Absent::Means("none"),
            "[\"delivery\", \"deletion\"]",
            "Of what nodes are asked to report to the one that sends (RFC 9171 6.1.1).",
        ),
        with_default(
            "aggregate",
            Kind::Boolean,
            "false",
            "Whether reports may come together, in aggregated ones (docs/aggregated-reports.md); on a testbed only.",
        ),
        with_default(
            "version",
            Kind::Integer(6, 7),
            "7",
            "Version of the Bundle Protocol: 7 (RFC 9171), or 6 (RFC 5050), whose lifetimes are whole seconds.",
        ),
        with_default(
            "custody",
            Kind::Boolean,
            "false",
            "Whether bundles ask for custody (RFC 5050 5.10): each custodian keeps them until the next one says that it has them; of version 6.",
        ),
        with_default(
            "class",
            Kind::Choice(&["bulk", "normal", "expedited"]),
            "\"normal\"",
            "Class of service (docs/priority.md): \"expedited\" leaves before all others, \"bulk\" after them.",
        ),
        with_default(
            "must_not_fragment",
            Kind::Boolean,
            "false",
            "Whether bundles must not be fragmented (RFC 9171 4.2.3): they go only where they fit.",
        ),
        key(
            "at_once",
            Kind::Size,
            Absent::Means("none"),
            "\"15kB\"",
            "Payloads of up to this many octets are handed to the node in one piece with the request, others piece by piece; in a simulation.",
        ),
        with_default(
            "lifetime",
            Kind::Duration,
            "\"1d\"",
            "Lifetime of bundles, at least 1 ms.",
        ),
    ]],
};

/// `[[crash]]`.
pub(super) const CRASH: Section = Section {
    name: "crash",
    occurs: Occurs::Many,
    meaning: "A node's power fails.",
    groups: &[&[
        required(
            "node",
            Kind::Text,
            "\"east\"",
            "Name of the node; * stands for any characters: every node that matches.",
        ),
        AT,
        with_default(
            "down",
            Kind::Duration,
            "\"10s\"",
            "Time for which the node is off.",
        ),
    ]],
};

/// `[[clock_step]]`.
pub(super) const CLOCK_STEP: Section = Section {
    name: "clock_step",
    occurs: Occurs::Many,
    meaning: "A node's clock jumps.",
    groups: &[&[
        WHOSE,
        AT,
        required(
            "by",
            Kind::Offset,
            "\"-1h\"",
            "Size of the step ahead; back where it begins with -.",
        ),
    ]],
};

/// `[faults]`.
pub(super) const FAULTS: Section = Section {
    name: "faults",
    occurs: Occurs::Once,
    meaning: "Failures by chance.",
    groups: &[&[
        key(
            "crash_every",
            Kind::Duration,
            Absent::Means("never"),
            "\"1d\"",
            "Mean time between two crashes of one node.",
        ),
        with_default(
            "crash_at_flush",
            Kind::Part,
            "0",
            "The part of flushes in which a node crashes.",
        ),
        with_default(
            "crash_down",
            Kind::Duration,
            "\"10s\"",
            "Mean time for which a node that crashed is off.",
        ),
        key(
            "stall_every",
            Kind::Duration,
            Absent::Means("never"),
            "\"6h\"",
            "Mean time between two stalls of one disk.",
        ),
        with_default(
            "stall_for",
            Kind::Duration,
            "\"1s\"",
            "Mean length of a stall.",
        ),
        key(
            "reset_every",
            Kind::Duration,
            Absent::Means("never"),
            "\"8h\"",
            "Mean time between two moments at which a link's connections are reset.",
        ),
        with_default(
            "lying_disks",
            Kind::Boolean,
            "false",
            "Disks say that they have flushed and have not.",
        ),
        key(
            "rot_every",
            Kind::Duration,
            Absent::Means("never"),
            "\"10d\"",
            "Mean time between two octets of one disk that change by themselves, of what was flushed a while ago.",
        ),
        key(
            "full_every",
            Kind::Duration,
            Absent::Means("never"),
            "\"2d\"",
            "Mean time between two moments at which one disk is full, so that nothing can be written.",
        ),
        with_default(
            "full_for",
            Kind::Duration,
            "\"1min\"",
            "Mean time for which a disk stays full.",
        ),
        with_default(
            "read_fails",
            Kind::Part,
            "0",
            "The fraction of a disk's reads for outgoing bundles that fail.",
        ),
        with_default(
            "flush_fails",
            Kind::Part,
            "0",
            "The part of a disk's flushes that fail.",
        ),
        key(
            "client_crash_every",
            Kind::Duration,
            Absent::Means("never"),
            "\"1h\"",
            "Mean time between two crashes of one node's applications; deliveries that they had not confirmed come again.",
        ),
        with_default(
            "decline",
            Kind::Part,
            "0",
            "The part of deliveries that applications decline, so that they come again.",
        ),
        key(
            "until",
            Kind::Duration,
            Absent::Means("for ever"),
            "\"5d\"",
            "After this nothing fails any more.",
        ),
    ]],
};

/// `[pause]`.
pub(super) const PAUSE: Section = Section {
    name: "pause",
    occurs: Occurs::Once,
    meaning: "Pause of the time of a run, until the load that waits for a contact is where it is to wait; on a testbed only.",
    groups: &[&[
        with_default("at", Kind::Duration, "\"0\"", "At which time of the run."),
        required(
            "until_stored_at",
            Kind::Text,
            "\"beta\"",
            "Until all that was sent is stored at this node and others on its host.",
        ),
    ]],
};

/// `[stop]`.
pub(super) const STOP: Section = Section {
    name: "stop",
    occurs: Occurs::Once,
    meaning: "End of a run, and what is expected at it.",
    groups: &[&[
        required("at", Kind::Duration, "\"8d\"", "After so long."),
        with_default(
            "when_delivered",
            Kind::Boolean,
            "false",
            "As soon as every bundle has been delivered.",
        ),
        with_default(
            "when_ended",
            Kind::Boolean,
            "false",
            "As soon as all programs have ended; on a testbed only.",
        ),
        with_default(
            "may_refuse",
            Kind::Boolean,
            "false",
            "A payload that a node refuses does not fail the run; on a testbed only.",
        ),
        with_default(
            "expects_all",
            Kind::Boolean,
            "false",
            "It is a fault when a bundle that was accepted and has not expired is not delivered by then.",
        ),
    ]],
};
