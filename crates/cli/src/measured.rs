//! Where a command's measurements go: by the options and the environment that programs with OML have.

use clap::Args;
use dhow_measure::{Client, Point, Settings, Stream, Target};

use crate::failure::Failure;
use crate::output;

/// The options of programs with OML.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Measurements")]
pub struct Measured {
    /// Where measurements go: tcp:HOST:PORT or file:PATH; nowhere if absent
    #[arg(
        long,
        value_name = "TARGET",
        env = "OML_COLLECT",
        hide_env_values = true
    )]
    oml_collect: Option<Target>,
    /// Who measures
    #[arg(
        long,
        value_name = "NAME",
        env = "OML_NAME",
        hide_env_values = true,
        default_value = "dhow"
    )]
    oml_id: String,
    /// Of which experiment
    #[arg(
        long,
        alias = "oml-exp-id",
        value_name = "NAME",
        env = "OML_DOMAIN",
        hide_env_values = true,
        default_value = "dhow"
    )]
    oml_domain: String,
}

/// Measurements of a command that go somewhere.
pub struct Measuring {
    client: Client,
}

impl Measured {
    /// Begins to measure for an application, where measurements go anywhere.
    pub fn begin(&self, app: &str) -> Result<Option<Measuring>, Failure> {
        let Some(target) = &self.oml_collect else {
            return Ok(None);
        };
        let settings = Settings::new(target.clone(), &self.oml_domain, &self.oml_id, app);
        let client = Client::connect(settings)
            .map_err(|error| Failure::refused(format!("cannot measure: {error}")))?;
        Ok(Some(Measuring { client }))
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
