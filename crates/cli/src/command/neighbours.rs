//! `dhow neighbours`: nodes of which beacons told, and the peers of links.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::listing::{Column, Listing, Show};
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::{interrupt, output};

/// The time between two lists with `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// List neighbours: those found by beacons, and those of links
///
/// A neighbour is `verified` once it has a session under TLS, in which it proved what the node file asks for; before that its node ID is `claimed`.
#[derive(Args, Debug)]
pub struct Neighbours {
    /// List them again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

const LISTING: Listing = Listing {
    path: "/v1/neighbours",
    columns: &[
        Column("NEIGHBOUR", "node_id", Show::Plain),
        Column("ORIGIN", "origin", Show::Plain),
        Column("ADDRESS", "address", Show::Plain),
        Column("PROTOCOL", "protocol", Show::Plain),
        Column("BEACONS", "format", Show::Plain),
        Column("HEARD", "heard_ago_ms", Show::Span),
        Column("PERIOD", "period_ms", Show::Span),
        Column("LINK", "link", Show::Plain),
        Column("SESSIONS", "sessions", Show::Count),
        Column("IDENTITY", "verified", Show::Either("verified", "claimed")),
        Column("LAST ERROR", "last_error", Show::IfAny),
    ],
    none: "no neighbour is known",
};

impl Neighbours {
    /// Prints the neighbours.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let ending = LISTING.run(common)?;
        if !self.watch {
            return Ok(ending);
        }
        while !interrupt::is_requested() {
            let next = Instant::now() + WATCH_INTERVAL;
            while Instant::now() < next && !interrupt::is_requested() {
                thread::sleep(interrupt::LOOK);
            }
            if interrupt::is_requested() {
                break;
            }
            if common.form() == output::Form::Text {
                output::line("")?;
            }
            LISTING.run(common)?;
        }
        Ok(Ending::Interrupted)
    }
}
