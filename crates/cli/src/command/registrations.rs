//! `dhow registrations`: the endpoints that applications hold.

use clap::Args;

use super::listing::{Column, Listing, Show};
use crate::arguments::Common;
use crate::failure::{Ending, Failure};

/// List registered endpoints
#[derive(Args, Debug)]
pub struct Registrations {}

const LISTING: Listing = Listing {
    path: "/v1/registrations",
    columns: &[
        Column("ENDPOINT", "endpoint", Show::Plain),
        Column("SUBSCRIBERS", "subscribers", Show::Count),
        Column("WHILE PASSIVE", "failure_action", Show::Plain),
        Column("WAITING", "waiting", Show::Count),
    ],
    none: "no endpoint is registered",
};

impl Registrations {
    /// Prints the registrations.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        LISTING.run(common)
    }
}
