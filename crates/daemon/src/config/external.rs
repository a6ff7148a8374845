//! Programs that are a part of the node (docs/external.md), in a node file.

use std::path::PathBuf;
use std::time::Duration;

use dhow_bundle::RouterKind;
use dhow_document::schema::{Absent, Key, Kind, Occurs, Section, key, with_default};
use dhow_document::{Document, Entries, FileError};
use dhow_node::config::{ExternalConfig, ExternalPolicy, ExternalRouting, Routing};

use super::file::millis;
use super::routing::{read_pattern, read_routing};

/// The router of destinations that a program decides about.
pub const PROGRAM: &str = "program";

/// The routers of a node file.
pub const ROUTERS: &[&str] = &[
    RouterKind::Static.name(),
    RouterKind::Flood.name(),
    RouterKind::SprayAndWait.name(),
    RouterKind::Prophet.name(),
    RouterKind::Epidemic.name(),
    RouterKind::MaxProp.name(),
    PROGRAM,
];

/// The name of the program of a `[[routing]]`.
pub(super) const NAME: Key = key(
    "program",
    Kind::Text,
    Absent::Means("no program"),
    "\"hops\"",
    "With router = \"program\", the name that the program gives when it connects to the [external] socket (docs/external.md).",
);

/// The section `[external]`.
pub(super) const SECTION: Section = Section {
    name: "external",
    occurs: Occurs::Once,
    meaning: "Programs that are a part of the node: routers, and convergence layers, which each lead to a neighbour (docs/external.md).",
    groups: &[&[
        key(
            "socket",
            Kind::Path,
            Absent::Means("no programs"),
            "\"external.sock\"",
            "Unix socket that they connect to, relative to this file; for the user that runs the node alone.",
        ),
        with_default(
            "questions",
            Kind::Integer(1, 65_536),
            "256",
            "Bundles about which a router may be asked without having answered.",
        ),
        with_default(
            "answer_timeout",
            Kind::Duration,
            "\"10s\"",
            "A router that leaves a question without an answer for this long is cut off, and so is a convergence layer in which nothing moves while a bundle is under way; at least 1s.",
        ),
        with_default(
            "fallback",
            Kind::Duration,
            "\"0s\"",
            "Bundles about which no router has decided for this long go by routes, where there are any; 0 for never.",
        ),
    ]],
};

/// Keys that say something about programs, and nothing where none can connect.
pub(super) const POLICY_KEYS: &[&str] = &["questions", "answer_timeout", "fallback"];

/// Below this a program that only waits for its turn would be cut off.
const ANSWER_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// The socket, if any, and the policy.
///
/// # Errors
/// A key means nothing without a socket, or no program could answer in time.
pub(super) fn read_external(
    document: &Document<'_>,
) -> Result<(Option<PathBuf>, ExternalPolicy), FileError> {
    let entries = document.one("external")?;
    let socket = entries.text("socket").map(|path| document.resolve(path));
    if socket.is_none()
        && let Some(key) = POLICY_KEYS.iter().find(|key| entries.has(key))
    {
        return Err(document
            .fault(
                entries.line_of(key),
                format!("'{key}' of [external] means nothing without a 'socket'"),
            )
            .with_hint("give it one: socket = \"external.sock\""));
    }
    let answer_timeout = entries.duration("answer_timeout");
    if answer_timeout < ANSWER_TIMEOUT_MIN {
        let what = "'answer_timeout' must be at least 1s: no program answers at once";
        return Err(document.fault_of(&entries, "answer_timeout", what));
    }
    let policy = ExternalPolicy {
        questions: (entries.integer("questions"))
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(1),
        answer_ms: millis(answer_timeout),
        fallback_ms: millis(entries.duration("fallback")),
    };
    Ok((socket, policy))
}

/// All of `[[routing]]`: what routers of the node decide about, and what programs do.
pub(super) fn read_routers(
    document: &Document<'_>,
    (socket, policy): (Option<&PathBuf>, ExternalPolicy),
) -> Result<(Vec<Routing>, ExternalConfig), FileError> {
    let (mut own, mut routing) = (Vec::new(), Vec::new());
    for entries in document.all("routing") {
        let program = program_of(document, entries)?;
        let Some(program) = program else {
            own.push(read_routing(document, entries)?);
            continue;
        };
        if socket.is_none() {
            return Err(document
                .fault(
                    entries.line_of("router"),
                    "programs have no socket to connect to",
                )
                .with_hint("give them one: [external] socket = \"external.sock\""));
        }
        routing.push(ExternalRouting {
            to: read_pattern(document, entries)?,
            program,
        });
    }
    Ok((own, ExternalConfig { policy, routing }))
}

/// The program that decides, if one does.
fn program_of(document: &Document<'_>, entries: &Entries) -> Result<Option<String>, FileError> {
    /// Octets of a name, at most.
    const NAME_OCTETS_MAX: usize = 64;
    let is_program = entries.text("router") == Some(PROGRAM);
    match (is_program, entries.text("program")) {
        (false, None) => Ok(None),
        (false, Some(_)) => Err(document
            .fault(entries.line_of("program"), "'program' names one that is not asked")
            .with_hint("with router = \"program\" it decides")),
        (true, None | Some("")) => Err(document
            .fault(entries.line_of("router"), "the program has no name")
            .with_hint("for example: program = \"hops\"")),
        (true, Some(name)) if ROUTERS.contains(&name) || name.len() > NAME_OCTETS_MAX => {
            Err(document
                .fault(
                    entries.line_of("program"),
                    format!("'{name}' is a router of the node itself, or longer than {NAME_OCTETS_MAX} octets"),
                )
                .with_hint("for example: program = \"hops\""))
        }
        (true, Some(name)) => Ok(Some(name.to_owned())),
    }
}
