//! The schema of the scenario file: every section and key, once.

mod generated;
mod happening;
mod kinds;
mod moving;
mod study;
mod written;

use dhow_document::schema::Section;

/// Node numbers end here (RFC 9758: 2^32 - 1 is the one of the local node).
pub const NODE_NUMBER_MAX: i64 = 0xffff_fffe;

/// Nodes that one generator makes, at most.
const COUNT_MAX: i64 = 1_000_000;

/// Every section.
pub const SECTIONS: &[Section] = &[
    written::TOP,
    written::NODE,
    generated::NODES,
    generated::LINE,
    generated::RING,
    generated::STAR,
    generated::GRID,
    generated::FIELD,
    moving::RADIO,
    moving::GROUP,
    generated::BUS,
    generated::MISSION,
    written::LINK,
    written::CONTACT,
    written::CONTACT_PLAN,
    written::ROUTE,
    written::ROUTING,
    happening::TRAFFIC,
    moving::MESSAGES,
    happening::CRASH,
    happening::CLOCK_STEP,
    happening::FAULTS,
    happening::PAUSE,
    happening::STOP,
    study::PROGRAM,
    study::VALUES,
    study::SWEEP,
    study::VARIANT,
    study::RUNS,
    study::FULL,
    study::ENERGY,
    study::REPORT,
];

/// The JSON Schema (draft 2020-12) of the scenario file.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    dhow_document::json_schema("Dhow scenario", SECTIONS, &["stop"])
}
