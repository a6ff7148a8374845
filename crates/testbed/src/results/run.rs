//! One run of a scenario, in a line.

use std::fmt;
use std::str::FromStr;

use dhow_scenario::scenario::Stop;
use serde::{Deserialize, Serialize};

/// The backend of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// In network namespaces of this machine, by real time.
    #[default]
    Netns,
    /// In one process, in virtual time.
    Sim,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Netns => "netns",
            Self::Sim => "sim",
        })
    }
}

/// The status of a run at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Status {
    /// The run came to its end.
    Done,
    /// Something failed; the sentence says what.
    Failed(String),
    /// The run was ended before its end.
    #[default]
    Interrupted,
}

impl Status {
    /// The failure of a run in which payloads were refused; nothing where none was, or where that may be.
    pub(crate) fn of_refused(refused: u64, sent: u64, stop: Stop) -> Option<Self> {
        (refused > 0 && !stop.may_refuse).then(|| {
            Self::Failed(format!(
                "{refused} of {sent} payloads were refused (hint: 'quota' of nodes, or may_refuse of [stop])"
            ))
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Failed(what) => write!(f, "failed: {what}"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl From<Status> for String {
    fn from(status: Status) -> Self {
        status.to_string()
    }
}

impl TryFrom<String> for Status {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "done" => Ok(Self::Done),
            "interrupted" => Ok(Self::Interrupted),
            _ => match text.strip_prefix("failed: ") {
                Some(what) => Ok(Self::Failed(what.to_owned())),
                None => Err(format!("'{text}' is not a status of a run")),
            },
        }
    }
}

/// The settings of a run: values of keys, as `--set` takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Point(pub Vec<(String, String)>);

impl Point {
    /// The value of a key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (key, value)) in self.0.iter().enumerate() {
            let between = if place == 0 { "" } else { ";" };
            write!(f, "{between}{key}={value}")?;
        }
        Ok(())
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let settings = text.split(';').filter(|setting| !setting.is_empty());
        let settings = settings.map(|setting| match setting.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(format!("'{setting}' sets nothing: KEY=VALUE does")),
        });
        settings.collect::<Result<_, _>>().map(Self)
    }
}

impl From<Point> for String {
    fn from(point: Point) -> Self {
        point.to_string()
    }
}

impl TryFrom<String> for Point {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// One run: a line of `runs.csv`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Run {
    /// Its name, which is that of its directory: `0001`, in the order of the plan.
    pub run: String,
    /// The backend on which it ran.
    pub backend: Backend,
    /// The values that the sweep set.
    pub point: Point,
    /// The number of the repeat, from 1.
    pub repeat: u32,
    /// Its seed.
    pub seed: u64,
    /// Its status.
    pub status: Status,
    /// When it began (RFC 3339), on this machine's clock.
    pub started: String,
    /// The time for which its network was there, seconds: virtual time in a simulation.
    pub duration_s: f64,
    /// The time that it took on this machine, with all that was before and after it, seconds.
    pub wall_s: f64,
    /// Payloads that applications gave to nodes.
    pub sent: u64,
    /// Payloads that nodes accepted.
    pub accepted: u64,
    /// Payloads that nodes refused.
    pub refused: u64,
    /// Payloads that were delivered.
    pub delivered: u64,
    /// Payloads that were delivered otherwise than they were sent, or more often than once.
    pub wrong: u64,
    /// Payloads that were accepted and expired before they were delivered.
    pub expired: u64,
    /// Octets of those that were delivered.
    pub delivered_octets: u64,
    /// Measurements that reached the collector.
    pub samples: u64,
    /// Measurements that are known to have been lost on their way there.
    pub samples_lost: u64,
    /// Time of processors for a megabyte delivered, seconds; empty where nothing was, and in virtual time.
    pub cpu_s_per_mb: Option<f64>,
    /// Time in which links were there for a megabyte delivered, seconds.
    pub link_s_per_mb: Option<f64>,
    /// Energy for a megabyte delivered, joules; empty without `[energy]`.
    pub joules_per_mb: Option<f64>,
    /// Payload that was delivered, by the time in which it could pass; empty without payloads.
    pub goodput_bit_s: Option<f64>,
    /// The share of payloads that were delivered, of 1; empty without payloads.
    pub delivery: Option<f64>,
    /// The median of times from sending to delivery; empty where nothing was delivered.
    pub delay_median_s: Option<f64>,
    /// The time within which 95 of 100 that were delivered were; empty where nothing was.
    pub delay_p95_s: Option<f64>,
    /// The time until all was delivered; empty where not all was.
    pub drain_s: Option<f64>,
    /// The hash of all events of a run in virtual time, 16 hexadecimal digits: the same wherever it is repeated. Empty on sockets.
    #[serde(default)]
    pub trace_hash: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_and_statuses_are_read_as_they_are_written() {
        for text in ["", "traffic.size=2kB", "a.b=1;c==;d=x y"] {
            assert_eq!(text.parse::<Point>().unwrap().to_string(), text);
        }
        assert!("size".parse::<Point>().is_err());
        for text in ["done", "interrupted", "failed: node beta: exit 1"] {
            assert_eq!(Status::try_from(text.to_owned()).unwrap().to_string(), text);
        }
        assert!(Status::try_from("doen".to_owned()).is_err());
    }
}
