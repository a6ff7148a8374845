//! `dhow version`: the version of this program, and the protocols that it speaks.

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

/// Parts of the program that it can be built without, and whether this one has each.
const FEATURES: [(&str, bool); 3] = [
    ("otlp", cfg!(feature = "otlp")),
    ("postgres", cfg!(feature = "postgres")),
    ("top", cfg!(feature = "top")),
];

/// Show the program's version, and the protocols that it speaks
///
/// With --json: version, commit, bundle_versions, protocols (convergence layers, by their names in node files), routers, features (parts that it can be built without), system and processor.
#[derive(Args, Debug)]
pub struct Version {}

impl Version {
    /// Prints the version.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let features = FEATURES.into_iter().filter(|(_, is_there)| *is_there);
        let features: Vec<&str> = features.map(|(name, _)| name).collect();
        match common.form() {
            Form::Json => output::json(&json!({
                "version": env!("CARGO_PKG_VERSION"),
                "commit": COMMIT,
                "bundle_versions": BUNDLE_VERSIONS,
                "protocols": Protocol::NAMES,
                "routers": RouterKind::NAMES,
                "features": features,
                "system": std::env::consts::OS,
                "processor": std::env::consts::ARCH,
            }))?,
            Form::Text => output::text(&format!(
                "dhow {BUILD}\nbundle protocol  6, 7\nprotocols        {}\nrouters          {}\nfeatures         {}\n",
                Protocol::NAMES.join(", "),
                RouterKind::NAMES.join(", "),
                match features.is_empty() {
                    true => "none".to_owned(),
                    false => features.join(", "),
                }
            ))?,
        }
        Ok(Ending::Done)
    }
}
