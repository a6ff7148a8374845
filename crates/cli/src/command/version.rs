//! `dhow version`: which program this is, and what it speaks.

use clap::Args;
use dhow_bundle::protocol::Protocol;
use dhow_bundle::router::RouterKind;
use serde_json::json;

use crate::arguments::Common;
use crate::build::{BUILD, COMMIT};
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};

/// Versions of the Bundle Protocol: RFC 5050 and RFC 9171.
const BUNDLE_VERSIONS: [u8; 2] = [6, 7];

/// Say which program this is, and what it speaks
///
/// With --json: version, commit, bundle_versions, protocols (convergence layers, by their names in node files), routers, system and processor.
#[derive(Args, Debug)]
pub struct Version {}

impl Version {
    /// Prints it.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        match common.form() {
            Form::Json => output::json(&json!({
                "version": env!("CARGO_PKG_VERSION"),
                "commit": COMMIT,
                "bundle_versions": BUNDLE_VERSIONS,
                "protocols": Protocol::NAMES,
                "routers": RouterKind::NAMES,
                "system": std::env::consts::OS,
                "processor": std::env::consts::ARCH,
            }))?,
            Form::Text => output::text(&format!(
                "dhow {BUILD}\nbundle protocol  6, 7\nprotocols        {}\nrouters          {}\n",
                Protocol::NAMES.join(", "),
                RouterKind::NAMES.join(", ")
            ))?,
        }
        Ok(Ending::Done)
    }
}
