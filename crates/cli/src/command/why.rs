//! `dhow why`: the reasons for which a bundle, or the bundles for an endpoint, wait.

use clap::Args;
use serde_json::Value;

use crate::admin::{Admin, path_segment};
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};
use crate::quantity;

/// Explain why a bundle waits, or the bundles for an endpoint
///
/// Says each cause with what would change it: no route; each next hop with its link, its last error, the next attempt and the next planned contact; a neighbour that refused it; a pause before the next attempt; fragments that are missing; an application that does not take it. An endpoint may be asked about before anything is sent to it.
#[derive(Args, Debug)]
pub struct Why {
    /// A bundle, as `dhow bundles --each` shows it, or an endpoint ID
    #[arg(value_name = "BUNDLE|ENDPOINT")]
    subject: String,
}

impl Why {
    /// Asks the node and prints its answer.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let path = format!("/v1/why/{}", path_segment(&self.subject));
        let answer = Admin::of(common.node.as_ref())?.read(&path)?;
        match common.form() {
            Form::Json => output::json(&answer)?,
            Form::Text => output::text(&told(&answer))?,
        }
        Ok(Ending::Done)
    }
}

/// A neighbour of which nothing was heard for so long and two light times may be gone, though its session is still there, milliseconds.
const SILENCE_MS: u64 = 5_000;

/// A sentence of what is so, and what would change it.
struct Sentence {
    says: String,
    hint: Option<String>,
}

impl Sentence {
    fn of(says: impl Into<String>) -> Self {
        let says = says.into();
        Self { says, hint: None }
    }

    fn with_hint(self, hint: impl Into<String>) -> Self {
        let hint = Some(hint.into());
        Self { hint, ..self }
    }
}

/// The causes as sentences, each with what would change it.
pub fn told(answer: &Value) -> String {
    let destination = text(answer, "destination");
    let mut lines = match answer.get("bundle").filter(|bundle| !bundle.is_null()) {
        Some(bundle) => format!(
            "{} for {destination}: {}, expires in {}\n",
            text(bundle, "id"),
            text(bundle, "state").replace('_', " "),
            span(bundle, "expires_in_ms"),
        ),
        None => format!("{destination}: {}\n", present(answer)),
    };
    if let Some(router) = answer.get("router").and_then(Value::as_str) {
        lines.push_str(&format!("the router {router} decides\n"));
    }
    let causes = answer.get("causes").and_then(Value::as_array);
    let is_here = is_here(answer);
    for cause in causes.into_iter().flatten() {
        for sentence in sentences(cause, destination, is_here) {
            lines.push_str(&format!("- {}\n", sentence.says));
            if let Some(hint) = sentence.hint {
                lines.push_str(&format!("  {hint}\n"));
            }
        }
    }
    lines
}

/// States of bundles here, as the node counts them, with the words for one and for several.
const STATES: [(&str, &str, &str); 5] = [
    ("waiting", "waiting", "waiting"),
    (
        "in_flight",
        "on the way and not acknowledged yet",
        "on the way and not acknowledged yet",
    ),
    (
        "fragments",
        "that is a fragment of what is not whole",
        "that are fragments of what is not whole",
    ),
    (
        "sent",
        "that has left and is kept (until a custody signal comes, or without acknowledgments)",
        "that have left and are kept (until a custody signal comes, or without acknowledgments)",
    ),
    (
        "damaged",
        "that is damaged on disk",
        "that are damaged on disk",
    ),
];

/// Bundles for an endpoint that are in a state.
fn counted(answer: &Value, state: &str) -> Option<u64> {
    number(answer, state).filter(|count| *count > 0)
}

/// Whether a bundle for an endpoint is here.
fn is_here(answer: &Value) -> bool {
    let mut states = STATES.iter().map(|(state, _, _)| *state).chain(["resting"]);
    answer.get("bundle").is_some_and(|bundle| !bundle.is_null())
        || states.any(|state| counted(answer, state).is_some())
}

/// The bundles here for an endpoint, in words.
fn present(answer: &Value) -> String {
    let mut parts = Vec::new();
    parts.extend(STATES.iter().filter_map(|(state, one, several)| {
        let count = counted(answer, state)?;
        let what = if count == 1 { one } else { several };
        Some(format!("{} {what}", bundles(count)))
    }));
    parts.extend(counted(answer, "resting").map(|count| {
        let (next, when) = (bundles(count), span(answer, "retry_in_ms"));
        match count {
            1 => format!("{next} that is tried again in {when}"),
            _ => format!("{next} that are tried again, the first in {when}"),
        }
    }));
    match parts.is_empty() {
        true => "nothing is here".to_owned(),
        false => parts.join(", "),
    }
}

fn sentences(cause: &Value, destination: &str, is_here: bool) -> Vec<Sentence> {
    let one = |sentence| Vec::from([sentence]);
    let take = match is_here {
        true => format!("take what waits: dhow recv {destination}"),
        false => format!("receive what comes: dhow recv {destination}"),
    };
    match text(cause, "cause") {
        "no_route" => one(
            Sentence::of(format!("no route leads to {destination}")).with_hint(format!(
                "add one: dhow route add '{destination}' --via LINK (dhow links shows the links)"
            )),
        ),
        "no_neighbour" => one(Sentence::of("no neighbour has a session")
            .with_hint("it is offered as soon as one has")),
        "not_chosen" => one(Sentence::of(format!(
            "the router gives it to none of {} neighbours now: they have had it, or are not better",
            number(cause, "neighbours").unwrap_or(0)
        ))),
        "awaiting_router" => one(Sentence::of("the program that decides has not answered")
            .with_hint("dhow status shows whether it is connected")),
        "next_hop" => cause.get("next_hop").map(next_hop).unwrap_or_default(),
        "not_registered" => one(Sentence::of(format!(
            "no application has registered {destination}"
        ))
        .with_hint(take)),
        "no_subscriber" => one(Sentence::of(format!(
            "{destination} is registered, and no application takes deliveries"
        ))
        .with_hint(take)),
        "delivering" => one(Sentence::of(
            "an application takes what waits, one after the other, and has not confirmed this",
        )),
        "sending" => one(Sentence::of(match listed(cause, "to") {
            to if to.is_empty() => "it is being read from the store, to be sent".to_owned(),
            to => format!("it is being sent to {to}, which has not acknowledged it"),
        })),
        "resting" => one(Sentence::of(format!(
            "it waits for its next attempt, in {}",
            span(cause, "retry_in_ms")
        ))),
        "refused" => one(refused(cause)),
        "sent" => one(Sentence::of(
            "it has left over a link that acknowledges nothing, and is kept until it expires or another link is there",
        )),
        "awaiting_signal" => one(Sentence::of(
            "the next hop has it, and has not said whether it takes custody",
        )),
        "reassembling" => one(Sentence::of(format!(
            "fragments are missing: {} of {} octets of the whole are here",
            quantity::thousands(number(cause, "octets").unwrap_or(0)),
            quantity::thousands(number(cause, "total_octets").unwrap_or(0)),
        ))
        .with_hint("it is delivered once the others have come")),
        "damaged" => one(Sentence::of(
            "its octets are damaged on disk: it is neither sent nor delivered",
        )
        .with_hint("the disk needs attention")),
        other => one(Sentence::of(other.replace('_', " "))),
    }
}

fn refused(cause: &Value) -> Sentence {
    if let Some(reason) = cause.get("cancelled").and_then(Value::as_str) {
        return cancelled(cause, reason);
    }
    let reason = text(cause, "reason");
    let says = format!(
        "{} refused it {} ago: {}",
        text(cause, "by"),
        span(cause, "ago_ms"),
        reason.replace('_', " ")
    );
    match reason {
        "no_resources" => {
            Sentence::of(says).with_hint("it has no room: it is asked again every half second")
        }
        "source_full" => Sentence::of(says)
            .with_hint("bundles of this source are tried again every half second to 8 s, and others pass; source_held of its [store] decides"),
        "not_acceptable" => {
            Sentence::of(says).with_hint("its log says why; its accept and quota settings decide")
        }
        _ => Sentence::of(says),
    }
}

/// A block of LTP that was cancelled.
fn cancelled(cause: &Value, reason: &str) -> Sentence {
    let (why, hint) = match reason {
        "USR_CNCLD" => (
            "it does not want the bundle",
            "its log says why; a bundle above its largest_block leaves in fragments with largest_block of the link here",
        ),
        "SYS_CNCLD" => (
            "it has no room, or another trouble",
            "it is asked again every half second; a peer that never takes a block of this size needs largest_block of the link here",
        ),
        "UNREACH" => (
            "its client service is not there",
            "the node there may not run: it is asked again in a minute",
        ),
        _ => (
            "an answer did not come in time, or too much is lost",
            "rate, light_time and key of the link must fit at both ends",
        ),
    };
    let (by, ago) = (text(cause, "by"), span(cause, "ago_ms"));
    Sentence::of(format!(
        "the block for {by} was cancelled {ago} ago: {why} ({reason})"
    ))
    .with_hint(hint)
}

/// The obstacles between a bundle and a next hop.
fn next_hop(hop: &Value) -> Vec<Sentence> {
    let name = text(hop, "name");
    let is_up = number(hop, "sessions").unwrap_or(0) > 0;
    let mut sentences = Vec::new();
    if !is_up {
        sentences.push(absent(hop, name));
    } else if let Some(ms) = number(hop, "full_for_ms") {
        let says = format!(
            "{name} has no room, and is asked again in {}",
            quantity::span(ms)
        );
        sentences.push(Sentence::of(says));
    }
    let bars = hop.get("bars").and_then(Value::as_array);
    sentences.extend(bars.into_iter().flatten().map(|bar| barred(bar, name)));
    if is_up && sentences.is_empty() {
        sentences.push(present_hop(hop, name));
    }
    sentences
}

/// A next hop that has a session, and from which nothing may have come for long.
fn present_hop(hop: &Value, name: &str) -> Sentence {
    let link = hop.get("link");
    let light_time = number(hop, "light_time_ms").unwrap_or(0);
    let expected = SILENCE_MS.saturating_add(light_time.saturating_mul(2));
    match link.and_then(|link| number(link, "heard_ago_ms")) {
        Some(ms) if ms >= expected => Sentence::of(format!(
            "{name} is up, and nothing was heard of it for {}",
            quantity::span(ms)
        ))
        .with_hint(match light_time {
            0 => "what waits leaves in its turn; an answer over a long path takes twice the light time, which no contact names here".to_owned(),
            _ => format!(
                "what waits leaves in its turn; an answer takes twice the light time of {}",
                quantity::span(light_time)
            ),
        }),
        _ => Sentence::of(format!("{name} is up: what waits leaves in its turn")),
    }
}

/// A next hop without a session.
fn absent(hop: &Value, name: &str) -> Sentence {
    let mut says = format!("{name}: ");
    let mut hint = None;
    let link = hop.get("link").filter(|link| !link.is_null());
    let enabled = |link: &&Value| link.get("enabled") != Some(&Value::Bool(false));
    match link {
        None => {
            says.push_str("no session");
            hint = Some("it must dial, or needs a link of its own: dhow link add".to_owned());
        }
        Some(link) if !enabled(&link) => {
            says.push_str("the link is taken down");
            hint = Some(format!("bring it up: dhow link up {}", text(link, "name")));
        }
        Some(link) => {
            let planned = ["contact_begins_in_ms", "contact_ended_ago_ms"];
            let waits_for_contact = planned.iter().any(|key| number(hop, key).is_some())
                && link.get("last_error").is_none_or(Value::is_null);
            says.push_str(match text(link, "state") {
                "dialling" => "the link is being dialled",
                "absent" if waits_for_contact => "no contact now",
                "absent" => "the link has no way to its neighbour now",
                _ => "the link is down",
            });
            if let Some(error) = link.get("last_error").and_then(Value::as_str) {
                says.push_str(&format!(", {error}"));
            }
            if let Some(ms) = number(link, "retry_in_ms") {
                let failures = number(link, "failures").unwrap_or(0);
                says.push_str(&format!(", dialled again in {}", quantity::span(ms)));
                match failures {
                    0 => {}
                    1 => says.push_str(" (1 attempt failed)"),
                    _ => says.push_str(&format!(" ({failures} attempts failed)")),
                }
            }
        }
    }
    if let Some(ms) = number(hop, "contact_ends_in_ms") {
        says.push_str(&format!(
            "; a planned contact is on for {}",
            quantity::span(ms)
        ));
    } else if let Some(ms) = number(hop, "contact_begins_in_ms") {
        says.push_str(&format!(
            "; the next planned contact begins in {}",
            quantity::span(ms)
        ));
    } else if let Some(ms) = number(hop, "contact_ended_ago_ms")
        // A link that is dialled at any time waits for no contact.
        && link.is_none_or(|link| text(link, "state") == "absent")
    {
        says.push_str(&format!(
            "; the last planned contact ended {} ago, and none comes",
            quantity::span(ms)
        ));
        let plan = || "plan another one: dhow contact add".to_owned();
        hint.get_or_insert_with(plan);
    }
    Sentence { says, hint }
}

fn barred(bar: &Value, name: &str) -> Sentence {
    match text(bar, "bar") {
        "came_from_there" => {
            Sentence::of(format!("{name} is where it came from: it never goes back"))
        }
        "too_large" => Sentence::of(format!(
            "{name} takes {} octets in one transfer; a bundle of {} must not be fragmented",
            quantity::thousands(number(bar, "transfer_mru_octets").unwrap_or(0)),
            quantity::thousands(number(bar, "octets").unwrap_or(0)),
        ))
        .with_hint("raise transfer_mru there"),
        "other_version" => Sentence::of(format!(
            "{name} speaks another version of the Bundle Protocol, in which this bundle has no form"
        )),
        "has_left" => Sentence::of(format!(
            "it has left over {name}, which acknowledges nothing"
        )),
        other => Sentence::of(format!("{name}: {}", other.replace('_', " "))),
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("-")
}

fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name).and_then(Value::as_u64)
}

fn span(value: &Value, name: &str) -> String {
    number(value, name).map_or_else(|| "-".to_owned(), quantity::span)
}

fn listed(value: &Value, name: &str) -> String {
    let all = value
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    all.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

fn bundles(count: u64) -> String {
    match count {
        1 => "1 bundle".to_owned(),
        count => format!("{} bundles", quantity::thousands(count)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_cause_is_a_sentence_with_what_would_change_it() {
        let answer = json!({
            "destination": "ipn:3.1", "bundle": null, "waiting": 3, "router": null,
            "causes": [{"cause": "next_hop", "next_hop": {
                "name": "beta", "sessions": 0, "full_for_ms": null, "contact_ends_in_ms": null,
                "contact_begins_in_ms": 3_600_000, "bars": [],
                "link": {"name": "beta", "enabled": true, "state": "waiting", "retry_in_ms": 1_200,
                    "failures": 7, "last_error": "connection refused"},
            }}],
        });
        assert_eq!(
            told(&answer),
            "ipn:3.1: 3 bundles waiting\n- beta: the link is down, connection refused, dialled again in 1.2 s (7 attempts failed); the next planned contact begins in 1 h\n"
        );
        let over = |state: &str, error: Option<&str>| {
            let link =
                json!({"name": "mars", "enabled": true, "state": state, "last_error": error});
            let hop = json!({"name": "mars", "sessions": 0, "contact_ended_ago_ms": 10_000, "link": link, "bars": []});
            told(
                &json!({"destination": "ipn:4.1", "waiting": 1, "causes": [{"cause": "next_hop", "next_hop": hop}]}),
            )
        };
        assert_eq!(
            over("absent", None),
            "ipn:4.1: 1 bundle waiting\n- mars: no contact now; the last planned contact ended 10 s ago, and none comes\n  plan another one: dhow contact add\n"
        );
        let no_route = over("absent", Some("no route to host"));
        assert!(no_route.contains("no way to its neighbour now, no route"));
        assert!(!over("waiting", Some("connection refused")).contains("planned"));
        let up = |heard_ago_ms: u64, light_time_ms: u64| {
            let link = json!({"name": "beta", "enabled": true, "state": "up", "heard_ago_ms": heard_ago_ms});
            let hop = json!({"name": "beta", "sessions": 1, "light_time_ms": light_time_ms, "link": link, "bars": []});
            told(
                &json!({"destination": "ipn:3.1", "waiting": 1, "causes": [{"cause": "next_hop", "next_hop": hop}]}),
            )
        };
        assert!(up(4_999, 0).ends_with("\n- beta is up: what waits leaves in its turn\n"));
        assert!(up(18_000, 0).contains("\n- beta is up, and nothing was heard of it for 18 s\n"));
        assert!(up(44_999, 20_000).ends_with("\n- beta is up: what waits leaves in its turn\n"));
        assert!(up(45_000, 20_000).ends_with("takes twice the light time of 20 s\n"));
        let one = |state: &str, count: u64| {
            let causes = [json!({"cause": "not_registered"})];
            told(&json!({"destination": "ipn:3.1", state: count, "causes": causes}))
        };
        assert!(one("sent", 1).contains("1 bundle that has left and is kept ("));
        assert!(one("sent", 2).contains("2 bundles that have left and are kept ("));
        assert!(one("waiting", 1).ends_with("take what waits: dhow recv ipn:3.1\n"));
        assert!(one("waiting", 0).ends_with("receive what comes: dhow recv ipn:3.1\n"));
        let nothing =
            json!({"destination": "ipn:9.1", "waiting": 0, "causes": [{"cause": "no_route"}]});
        assert_eq!(
            told(&nothing),
            "ipn:9.1: nothing is here\n- no route leads to ipn:9.1\n  add one: dhow route add 'ipn:9.1' --via LINK (dhow links shows the links)\n"
        );
    }

    #[test]
    fn a_cancelled_block_has_the_word_of_its_reason() {
        let cause = |cancelled: Value| {
            let cause = json!({"cause": "refused", "by": "ipn:3.0", "reason": "unknown", "cancelled": cancelled, "ago_ms": 1_000});
            told(&json!({"destination": "ipn:3.1", "waiting": 1, "causes": [cause]}))
        };
        for (reason, words) in [
            (
                "USR_CNCLD",
                "it does not want the bundle (USR_CNCLD)\n  its log says why",
            ),
            (
                "SYS_CNCLD",
                "it has no room, or another trouble (SYS_CNCLD)\n  it is asked again",
            ),
            (
                "UNREACH",
                "its client service is not there (UNREACH)\n  the node there",
            ),
            (
                "RLEXC",
                "too much is lost (RLEXC)\n  rate, light_time and key",
            ),
        ] {
            let told = cause(json!(reason));
            assert!(
                told.contains("the block for ipn:3.0 was cancelled 1 s ago: "),
                "{told}"
            );
            assert!(told.contains(words), "{told}");
        }
        assert!(cause(Value::Null).contains("ipn:3.0 refused it 1 s ago: unknown\n"));
    }
}
