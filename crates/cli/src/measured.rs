//! The destination of a command's measurements: by the options and the environment that programs with OML have.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use dhow_daemon::measuring::BundleCarrier;
use dhow_measure::config::{CONFIG_OCTETS_MAX, Config, parse_interval, parse_samples};
use dhow_measure::filter::{Plan, Window};
use dhow_measure::omsp::Encoding;
use dhow_measure::{Client, Point, Settings, Stream, Target};

use crate::address::locate;
use crate::application::{connect, random_endpoint};
use crate::arguments::Common;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::token::read_token;

/// Options of every command that measures.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Measurements (docs/measurement.md)")]
pub struct Measured {
    /// Destination: tcp:HOST:PORT, file:PATH, file:- or bundles:EID [default: nowhere]
    #[arg(
        long,
        visible_alias = "oml-server",
        value_name = "URL",
        env = "OML_COLLECT",
        hide_env_values = true
    )]
    oml_collect: Option<Target>,
    /// The collector's database that they are for [default: dhow]
    #[arg(
        long,
        visible_alias = "oml-exp-id",
        value_name = "NAME",
        env = "OML_DOMAIN",
        hide_env_values = true
    )]
    oml_domain: Option<String>,
    /// Name of this sender of measurements [default: the name of this machine]
    #[arg(long, value_name = "NAME", env = "OML_NAME", hide_env_values = true)]
    oml_id: Option<String>,
    /// An XML file (<omlc>), or its text, that says which points are sent, through which filters
    #[arg(
        long,
        value_name = "FILE",
        env = "OML_CONFIG",
        hide_env_values = true,
        conflicts_with_all = ["oml_samples", "oml_interval"]
    )]
    oml_config: Option<PathBuf>,
    /// Number of samples that make one row [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = parse_samples, conflicts_with = "oml_interval")]
    oml_samples: Option<u64>,
    /// Seconds of samples that make one row
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    oml_interval: Option<Duration>,
    /// A file with the token that the collector asks for
    #[arg(long, value_name = "FILE", env = "OML_TOKEN", hide_env_values = true)]
    oml_token: Option<PathBuf>,
    /// Octets that wait on disk while the collector is away
    #[arg(long, value_name = "SIZE", value_parser = parse_spool, default_value = "64MiB")]
    oml_spool: u64,
    /// Rows as text, with doubles in full (the default)
    #[arg(long, conflicts_with = "oml_binary")]
    oml_text: bool,
    /// Rows as packets, with 30 bits of each double and 254 octets of each text
    #[arg(long)]
    oml_binary: bool,
}

/// The lifetime of measurements as bundles.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The domain where none is named.
const DOMAIN: &str = "dhow";

/// Measurements of a command that go somewhere.
pub struct Measuring {
    client: Client,
}

impl Measured {
    /// Begins to measure for an application (letters, digits and `_`), where measurements go anywhere.
    pub fn begin(&self, app: &str, common: &Common) -> Result<Option<Measuring>, Failure> {
        let config = self.config()?;
        let Some(target) = self.oml_collect.clone().or(config.target) else {
            return Ok(None);
        };
        let domain = self.oml_domain.clone().or(config.domain);
        let sender = self.oml_id.clone().or(config.sender);
        self.check(&target)?;
        let sender = sender.unwrap_or_else(|| {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
            name.map_or_else(|_| app.to_owned(), |name| name.trim().to_owned())
        });
        let encoding = match (self.oml_binary, self.oml_text) {
            (true, _) => Encoding::Binary,
            (false, true) => Encoding::Text,
            (false, false) => config.encoding.unwrap_or_default(),
        };
        let plan = match (self.oml_samples, self.oml_interval) {
            (Some(samples), _) => Plan::All(Window::Samples(samples)),
            (None, Some(interval)) => Plan::All(Window::Interval(interval)),
            (None, None) => config.plan,
        };
        let domain = domain.as_deref().unwrap_or(DOMAIN);
        let settings = Settings::new(target, domain, &sender, app)
            .with_encoding(encoding)
            .with_plan(plan);
        let settings = match &self.oml_token {
            Some(path) => settings.with_token(&read_token(path)?),
            None => settings,
        };
        let settings = settings.with_spool(std::env::temp_dir(), self.oml_spool);
        let carrier = carrier(&settings.target, common)?;
        let client = match carrier {
            None => Client::connect(settings),
            Some(carrier) => Client::connect_over(Box::new(carrier), settings),
        };
        let client = client.map_err(|error| {
            let failure = Failure::usage(format!("cannot measure: {error}"));
            match error.hint() {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        })?;
        // Measurements that have been made are still to leave when the command is told to end.
        interrupt::allow_longer();
        Ok(Some(Measuring { client }))
    }

    /// Refuses what says nothing to bundles.
    fn check(&self, target: &Target) -> Result<(), Failure> {
        if !matches!(target, Target::Bundles(_)) {
            return Ok(());
        }
        let refusal = match (&self.oml_token, self.oml_binary) {
            (Some(_), _) => "no collector asks bundles for a token",
            (None, true) => "measurements that go as bundles are always text",
            (None, false) => return Ok(()),
        };
        Err(
            Failure::usage(format!("cannot measure: {refusal}")).with_hint(
                "leave out --oml-token (OML_TOKEN) and --oml-binary, or send to tcp:HOST:PORT",
            ),
        )
    }

    fn config(&self) -> Result<Config, Failure> {
        let Some(path) = &self.oml_config else {
            return Ok(Config::default());
        };
        // A scenario has it in itself rather than in a file beside it.
        if let Some(text) = path.to_str().filter(|text| text.starts_with('<')) {
            return Config::parse(text).map_err(|error| {
                Failure::usage(format!("cannot read the configuration: {error}"))
            });
        }
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("cannot read {}: {error}", path.display()))
        };
        let octets = std::fs::metadata(path)
            .map_err(|error| wrong(&error))?
            .len();
        if octets > u64::try_from(CONFIG_OCTETS_MAX).unwrap_or(u64::MAX) {
            return Err(wrong(&"it is too long for a configuration"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        Config::parse(&text).map_err(|error| wrong(&error))
    }
}

impl Measuring {
    /// A point's stream.
    pub fn stream(&self, point: &Point) -> Result<Stream, Failure> {
        self.client
            .stream(point)
            .map_err(|error| Failure::refused(format!("cannot measure: {error}")))
    }

    /// Ends, and says what did not arrive.
    pub fn end(self) {
        let summary = self.client.close();
        if summary.dropped > 0 {
            output::note(&format!(
                "{} of {} measurements found no room",
                summary.dropped, summary.injected
            ));
        }
        if let Some(trouble) = summary.trouble {
            output::note(&format!("measurements: {trouble}"));
        }
        if let Some(path) = summary.left {
            output::note(&format!(
                "what no collector took of the measurements is in {}",
                path.display()
            ));
        }
    }
}

/// The carrier of measurements as bundles, where they go so.
fn carrier(target: &Target, common: &Common) -> Result<Option<BundleCarrier>, Failure> {
    let Target::Bundles(endpoint) = target else {
        return Ok(None);
    };
    let destination = endpoint
        .parse()
        .map_err(|error| Failure::usage(format!("'{endpoint}' is not an endpoint: {error}")))?;
    let address = locate(common.node.as_ref())?;
    let source = random_endpoint(connect(&address, None)?.node_id())?;
    let carrier = BundleCarrier::new(address, source, destination, LIFETIME);
    Ok(Some(carrier))
}

/// Octets, or 0 for none.
fn parse_spool(text: &str) -> Result<u64, String> {
    dhow_daemon::config::parse_size(text).map_err(|error| error.to_string())
}
