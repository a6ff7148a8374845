//! `dhow routes` and `dhow route`: the routes of bundles.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::json;

use super::listing::{Column, Listing, Show};
use crate::admin::Admin;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};

/// List routes
#[derive(Args, Debug)]
pub struct Routes {}

const LISTING: Listing = Listing {
    path: "/v1/routes",
    columns: &[
        Column("TO", "to", Show::Plain),
        Column("VIA", "via", Show::Plain),
        Column("PRIORITY", "priority", Show::Plain),
        Column("KIND", "implicit", Show::Either("implicit", "static")),
        Column("ROUTER", "router", Show::IfAny),
        Column("STATE", "usable", Show::Either("usable", "waiting")),
    ],
    none: "there is no route",
};

impl Routes {
    /// Prints the routes.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        LISTING.run(common)
    }
}

/// Add or delete a route
#[derive(Debug, Subcommand)]
pub enum Route {
    /// Add a route. It lasts until the node ends, or longer with `dhow reload --save`
    Add {
        /// Endpoint IDs that it serves, a pattern: ipn:4.*
        to: String,
        /// The link that it uses
        #[arg(long, value_name = "LINK")]
        via: String,
        /// Of equally specific patterns, the highest priority is used first
        #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
        priority: i32,
    },
    /// Delete a route; after a restart it is there again if the configuration has it
    Del {
        /// Its pattern, as `dhow routes` shows it
        to: String,
        /// The link that it uses
        #[arg(long, value_name = "LINK")]
        via: String,
    },
}

impl Route {
    /// Adds or deletes the route.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let admin = Admin::of(common.node.as_ref())?;
        let (answer, done) = match self {
            Self::Add { to, via, priority } => {
                let body = json!({"to": to, "via": via, "priority": priority});
                (
                    admin.act(&Method::POST, "/v1/routes", Some(&body))?,
                    format!("bundles for {to} go via {via}"),
                )
            }
            Self::Del { to, via } => {
                let body = json!({"to": to, "via": via});
                (
                    admin.act(&Method::DELETE, "/v1/routes", Some(&body))?,
                    format!("bundles for {to} no longer go via {via}"),
                )
            }
        };
        match common.form() {
            Form::Json => output::json(&answer)?,
            Form::Text => output::talk(&done),
        }
        Ok(Ending::Done)
    }
}
