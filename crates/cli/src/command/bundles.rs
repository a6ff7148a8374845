//! `dhow bundles`: what is stored, by destination or one by one.

use clap::Args;

use super::listing::{Column, Listing, Show};
use crate::admin::Admin;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};

/// List stored bundles, by destination or one by one
#[derive(Args, Debug)]
pub struct Bundles {
    /// List at most this many bundles one by one
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "100")]
    each: Option<u32>,
}

const DESTINATIONS: Listing = Listing {
    path: "/v1/destinations",
    columns: &[
        Column("DESTINATION", "destination", Show::Plain),
        Column("BUNDLES", "bundles", Show::Count),
        Column("OCTETS", "octets", Show::Size),
        Column("NEXT EXPIRY", "next_expiry_ms", Show::Span),
        Column("NEXT HOP", "next_hop", Show::Plain),
        Column("", "local", Show::Either("here", "")),
    ],
    none: "no bundle is stored",
};

const BUNDLES: Listing = Listing {
    path: "/v1/bundles",
    columns: &[
        Column("BUNDLE", "id", Show::Plain),
        Column("DESTINATION", "destination", Show::Plain),
        Column("PAYLOAD", "payload_octets", Show::Size),
        Column("EXPIRES IN", "expires_in_ms", Show::Span),
        Column("FROM", "previous", Show::Plain),
        Column("STATE", "in_flight", Show::Either("in flight", "waiting")),
    ],
    none: "no bundle is stored",
};

impl Bundles {
    /// Prints them.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let Some(limit) = self.each else {
            return DESTINATIONS.run(common);
        };
        let answer =
            Admin::of(common.node.as_ref())?.read(&format!("{}?limit={limit}", BUNDLES.path))?;
        match common.form() {
            Form::Json => output::json(&answer)?,
            Form::Text => BUNDLES.print(&answer)?,
        }
        Ok(Ending::Done)
    }
}
