//! The settings of a client: sender, domain, target, encoding, plan and spool.

use std::path::PathBuf;

use super::target::Target;
use crate::filter::Plan;
use crate::omsp::Encoding;

/// Octets that wait on disk for a collector that is away, unless something else is said.
pub const SPOOL_OCTETS: u64 = 64 << 20;

/// The settings of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The destination of measurements.
    pub target: Target,
    /// The domain: the collector's database, named with letters, digits, `_`, `-` and `.`.
    pub domain: String,
    /// The name of the sender; a collector tells clients apart by it.
    pub sender: String,
    /// The measured program; the first part of its streams' names, so letters, digits and `_`.
    pub app: String,
    /// The encoding of rows: text keeps doubles whole, packets keep 30 bits of their mantissa.
    pub encoding: Encoding,
    /// The points that are sent, and their filters.
    pub plan: Plan,
    /// The token that a collector asks for if it listens to other machines.
    pub token: Option<String>,
    /// The directory of the file in which rows wait for a collector that is away.
    pub spool_directory: PathBuf,
    /// Octets that may wait there; 0 for none.
    pub spool_octets: u64,
}

impl Settings {
    /// Text, to that place, with a spool of 64 MiB in the directory for temporary files.
    pub fn new(target: Target, domain: &str, sender: &str, app: &str) -> Self {
        Self {
            target,
            domain: domain.to_owned(),
            sender: sender.to_owned(),
            app: app.to_owned(),
            encoding: Encoding::Text,
            plan: Plan::default(),
            token: None,
            spool_directory: std::env::temp_dir(),
            spool_octets: SPOOL_OCTETS,
        }
    }

    /// Rows in that encoding.
    #[must_use]
    pub const fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// Sends points by that plan.
    #[must_use]
    pub fn with_plan(mut self, plan: Plan) -> Self {
        self.plan = plan;
        self
    }

    /// Says that token to the collector.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// At most so many octets wait in that directory.
    #[must_use]
    pub fn with_spool(mut self, directory: PathBuf, octets: u64) -> Self {
        self.spool_directory = directory;
        self.spool_octets = octets;
        self
    }
}
