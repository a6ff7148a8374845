//! A run's time that stands still until the load of a contact is stored at a node.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dhow_client::Address;
use dhow_scenario::Scenario;
use serde_json::Value;

use super::clock::Clock;
use crate::application::Ledger;
use crate::failure::LabError;

/// The time from one look at stored octets to the next.
const LOOK: Duration = Duration::from_millis(200);

/// The time for which nothing more may arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// When time stands still, and for whom.
pub(super) struct Pauses {
    program: PathBuf,
    state: State,
}

enum State {
    /// It will, at a time.
    Waiting(Duration, Load),
    /// It does, and this was seen last.
    Still(Load, Seen),
    /// It does not any more, or never did.
    Over,
}

/// The node that is to store all that is sent, with those on its host.
struct Load {
    node: String,
    apis: Vec<Address>,
}

#[derive(Clone, Copy)]
struct Seen {
    stored: u64,
    /// Payloads that had been given to nodes.
    sent: u64,
    /// When more was seen, and when it was looked.
    grew: Instant,
    looked: Option<Instant>,
}

impl Pauses {
    /// The pause of a scenario whose nodes serve at these addresses.
    pub(super) fn new(scenario: &Scenario, program: PathBuf, apis: &[Option<Address>]) -> Self {
        let pause = scenario.pause.and_then(|pause| {
            let at = pause.until_stored_at;
            let node = scenario.nodes.get(at.0)?;
            let owner = node.guest_of.unwrap_or(at);
            let nodes = scenario.nodes.iter().enumerate().zip(apis);
            let on_host = nodes
                .filter(|((index, node), _)| *index == owner.0 || node.guest_of == Some(owner));
            let load = Load {
                node: node.name.clone(),
                apis: on_host.filter_map(|(_, api)| api.clone()).collect(),
            };
            Some(State::Waiting(pause.at, load))
        });
        Self {
            program,
            state: pause.unwrap_or(State::Over),
        }
    }

    /// Stops the clock when it is time, and has it go on when all that was sent is stored.
    ///
    /// # Errors
    /// When nothing more arrives and something is missing.
    pub(super) fn step(&mut self, clock: &Clock, ledger: &Ledger) -> Result<(), LabError> {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::Waiting(at, load) if clock.now() >= at => {
                clock.pause();
                let seen = Seen {
                    stored: 0,
                    sent: u64::MAX,
                    grew: Instant::now(),
                    looked: None,
                };
                State::Still(load, seen)
            }
            State::Still(load, mut seen) => {
                if seen.looked.is_none_or(|at| at.elapsed() >= LOOK) {
                    let sum = ledger.tally();
                    let answered = sum.accepted + sum.refused;
                    let stored = stored(&self.program, &load)?;
                    // A sender may be between two payloads.
                    let is_all_sent = answered == sum.sent && seen.sent == sum.sent;
                    if is_all_sent && stored >= sum.accepted {
                        clock.go_on();
                        return Ok(());
                    }
                    (seen.looked, seen.sent) = (Some(Instant::now()), sum.sent);
                    if stored > seen.stored {
                        (seen.stored, seen.grew) = (stored, Instant::now());
                    }
                    if seen.grew.elapsed() > PATIENCE {
                        return Err(missing(&load, stored, sum.sent));
                    }
                }
                State::Still(load, seen)
            }
            state => state,
        };
        Ok(())
    }
}

/// Bundles in the stores of the nodes, as they say themselves.
fn stored(program: &PathBuf, load: &Load) -> Result<u64, LabError> {
    let each = load.apis.iter();
    each.map(|api| stored_at(program, load, api)).sum()
}

fn stored_at(program: &PathBuf, load: &Load, api: &Address) -> Result<u64, LabError> {
    let failed = |what: String| {
        LabError::new(format!(
            "cannot ask '{}' what it has stored: {what}",
            load.node
        ))
    };
    let output = Command::new(program)
        .args(["status", "--json", "--node"])
        .arg(match api {
            Address::Unix(path) => path.clone().into_os_string(),
            Address::Tcp(address) => address.to_string().into(),
        })
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let told: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let count = told.and_then(|told| told.pointer("/store/bundles")?.as_u64());
    count.ok_or_else(|| failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn missing(load: &Load, stored: u64, sent: u64) -> LabError {
    let what = format!(
        "'{}' has stored {stored} of {sent} payloads, and nothing came for {} s",
        load.node,
        PATIENCE.as_secs()
    );
    LabError::new(what).with_hint(
        "'quota' of nodes bounds what they store; [pause] waits for a node that all traffic comes to",
    )
}
