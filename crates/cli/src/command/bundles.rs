//! `dhow bundles`: stored bundles, by destination or one by one.

use clap::Args;
use serde_json::{Value, json};

use super::listing::{Column, Listing, Show};
use crate::admin::Admin;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};
use crate::quantity;

/// List stored bundles, by destination or one by one
#[derive(Args, Debug)]
pub struct Bundles {
    /// List bundles one by one, all or at most this many; what is left out is counted on stderr
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000000", value_parser = clap::value_parser!(u64).range(1..))]
    each: Option<u64>,
}

/// Bundles that a node lists at most.
const LISTED_MAX: u64 = 1_000_000;

const DESTINATIONS: Listing = Listing {
    path: "/v1/destinations",
    columns: &[
        Column("DESTINATION", "destination", Show::Plain),
        Column("BUNDLES", "bundles", Show::Count),
        Column("OCTETS", "octets", Show::Size),
        Column("NEXT EXPIRY", "next_expiry_ms", Show::Span),
        Column("NEXT HOP", "next_hop", Show::Plain),
        Column("LOCAL", "local", Show::Either("yes", "no")),
    ],
    none: "no bundle is stored",
};

const BUNDLES: Listing = Listing {
    path: "/v1/bundles",
    columns: &[
        Column("BUNDLE", "id", Show::Plain),
        Column("DESTINATION", "destination", Show::Plain),
        Column("PAYLOAD", "payload_octets", Show::Size),
        Column("PRIORITY", "priority", Show::Plain),
        Column("EXPIRES IN", "expires_in_ms", Show::Span),
        Column("FROM", "previous", Show::Plain),
        Column("STATE", "state", Show::Word),
    ],
    none: "no bundle is stored",
};

/// Prints destinations; for people a destination without a next hop that is up says whether anything leads there.
fn by_destination(common: &Common) -> Result<Ending, Failure> {
    let mut answer = Admin::of(common.node.as_ref())?.read(DESTINATIONS.path)?;
    if common.form() == Form::Json {
        output::json(&answer)?;
        return Ok(Ending::Done);
    }
    let entries = answer.as_array_mut().into_iter().flatten();
    for entry in entries.filter_map(Value::as_object_mut) {
        if entry.get("local") == Some(&Value::Bool(true)) {
            entry.insert("next_hop".to_owned(), Value::Null);
        } else if entry.get("routed") == Some(&Value::Bool(false)) {
            entry.insert("next_hop".to_owned(), json!("no route"));
        }
    }
    DESTINATIONS.print(&answer)?;
    Ok(Ending::Done)
}

impl Bundles {
    /// Prints the bundles.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let Some(limit) = self.each else {
            return by_destination(common);
        };
        let limit = limit.min(LISTED_MAX);
        let admin = Admin::of(common.node.as_ref())?;
        let answer = admin.read(&format!("{}?limit={limit}", BUNDLES.path))?;
        match common.form() {
            Form::Json => output::json(&answer)?,
            Form::Text => BUNDLES.print(&with_states(answer.clone()))?,
        }
        let listed = answer.as_array().map_or(0, Vec::len);
        let listed = u64::try_from(listed).unwrap_or(u64::MAX);
        if listed >= limit {
            let node = admin.read("/v1/node")?;
            let stored = node.pointer("/store/bundles").and_then(Value::as_u64);
            if let Some(more @ 1..) = stored.and_then(|stored| stored.checked_sub(listed)) {
                output::talk(&format!("{} more", quantity::thousands(more)));
            }
        }
        Ok(Ending::Done)
    }
}

/// The list with a state for each bundle, also of a node that tells only what is in flight.
fn with_states(mut list: Value) -> Value {
    for bundle in list.as_array_mut().into_iter().flatten() {
        if bundle.get("state").is_none()
            && let Some(bundle) = bundle.as_object_mut()
        {
            let in_flight = bundle.get("in_flight").and_then(Value::as_bool);
            let state = if in_flight == Some(true) {
                "in_flight"
            } else {
                "waiting"
            };
            bundle.insert("state".to_owned(), json!(state));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_the_nodes_own_word_or_whether_it_is_in_flight() {
        let list = json!([{"state": "damaged", "in_flight": false}, {"in_flight": true}, {"in_flight": false}]);
        let states: Vec<String> = with_states(list)
            .as_array()
            .unwrap()
            .iter()
            .map(|bundle| Show::Word.text(&bundle["state"]))
            .collect();
        assert_eq!(states, ["damaged", "in flight", "waiting"]);
    }
}
