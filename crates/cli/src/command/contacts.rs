//! `dhow contacts`: the contact table of a node.

use clap::Args;

use super::listing::{Column, Listing, Show};
use crate::arguments::Common;
use crate::failure::{Ending, Failure};

/// List planned contacts
///
/// Each is of one direction. `now` is on, `next` begins next between its two nodes, `later` after that, and `over` is past.
#[derive(Args, Debug)]
pub struct Contacts {}

const LISTING: Listing = Listing {
    path: "/v1/contacts",
    columns: &[
        Column("FROM", "from", Show::Plain),
        Column("TO", "to", Show::Plain),
        Column("STATE", "state", Show::Plain),
        Column("START", "start_dtn_ms", Show::Time),
        Column("END", "end_dtn_ms", Show::Time),
        Column("RATE", "octets_per_s", Show::Rate),
        Column("LIGHT TIME", "light_time_ms", Show::Span),
    ],
    none: "no contact is planned",
};

impl Contacts {
    /// Prints the contacts.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        LISTING.run(common)
    }
}
