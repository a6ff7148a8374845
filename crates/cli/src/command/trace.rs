//! `dhow trace`: the path that a bundle takes, from the reports of the nodes on it.

use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::v7::admin::{Assertion, StatusReport};
use dhow_bundle::{BundleFlags, BundleId, DtnTime, EndpointId, NodeId};
use dhow_client::{Address, Registration, SendHead};
use serde::Serialize;
use serde_json::Value;

use crate::address::locate;
use crate::admin::Admin;
use crate::application::{self, Arrival, Subscription, status_reports};
use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::output::{self, Form};
use crate::report_kind::{REPORTS_OFF, REPORTS_OFF_AFTER};
use crate::{calendar, quantity};

/// Show the path that a bundle takes, from status reports
///
/// Sends a small bundle that asks every node on its way for reports, and shows them as they come, until it is delivered or deleted. Exits with 1 when no report says that it was delivered. Nodes report only what their configuration names. With --json, a line for each event: bundle, node, event, time_dtn_ms, after_ms, reason, reason_text.
#[derive(Args, Debug)]
pub struct Trace {
    /// The endpoint to send to
    destination: EndpointId,
    /// Wait this long
    #[arg(long, value_name = "DURATION", default_value = "1min", value_parser = parse_duration)]
    timeout: Duration,
}

/// The payload of the bundle.
const PAYLOAD: &[u8] = b"dhow trace";

/// Reports that may be on their way from the node at a time.
const WINDOW: u32 = 64;

/// One assertion of one node, as `--json` shows it.
#[derive(Debug, Serialize)]
struct Step {
    bundle: String,
    node: String,
    event: &'static str,
    /// DTN milliseconds by that node's clock, where it tells.
    time_dtn_ms: Option<u64>,
    /// Milliseconds from the bundle's creation to `time_dtn_ms`.
    after_ms: Option<u64>,
    /// RFC 9171 9.5.
    reason: u64,
    reason_text: String,
}

/// The time by which the bundle outlives the command's timeout, so that its place can still be asked at the end.
const LONGER: Duration = Duration::from_secs(5);

impl Trace {
    /// Sends and listens.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let address = locate(common.node.as_ref())?;
        let client = application::connect(&address, Some(self.timeout))?;
        let here = application::random_endpoint(client.node_id())?;
        let registration = Registration::new(here).with_window(WINDOW);
        let timeout = Some(self.timeout);
        let mut subscription = Subscription::begin(&address, registration.clone(), timeout)?;
        let flags = BundleFlags::ALL_REPORTS | BundleFlags::STATUS_TIME_REQUESTED;
        let head = SendHead::to(self.destination.clone())
            .with_lifetime(self.timeout.saturating_add(LONGER))
            .with_flags(flags.bits());
        let mut sender = client
            .sender(&registration)
            .map_err(|error| application::failure("send from the endpoint", &error))?;
        let answer = sender
            .send_octets(&head, PAYLOAD)
            .and_then(|_| sender.next_answer(None))
            .map_err(|error| application::failure("send", &error))?;
        let created = match answer.map(|answer| answer.outcome) {
            Some(Ok(created)) => created,
            Some(Err(refusal)) => return Err(Failure::refused(format!("cannot send: {refusal}"))),
            None => return Err(Failure::refused("cannot send: the node gave no answer")),
        };
        let id = BundleId {
            source: created.source,
            creation: created.creation,
            fragment: None,
        };
        if common.form() == Form::Text {
            output::line(&format!("bundle {id} to {}", self.destination))?;
        }
        let here = id.source.node_id();
        let ending = self
            .listen(&mut subscription, &id, common.form())
            .map_err(|silence| match silence {
                Silence::Failed(failure) => failure,
                Silence::Untaken => self.untaken(),
                Silence::Short { reports } => self.explain(reports, held(&address, &id), here),
            });
        subscription.finish();
        ending
    }

    fn listen(
        &self,
        subscription: &mut Subscription,
        id: &BundleId,
        form: Form,
    ) -> Result<Ending, Silence> {
        let begun = Instant::now();
        let (mut reports, mut arrived, mut noted) = (0_u64, false, false);
        while begun.elapsed() < self.timeout {
            if interrupt::is_requested() {
                return Ok(Ending::Interrupted);
            }
            if reports == 0 && !noted && begun.elapsed() >= REPORTS_OFF_AFTER {
                noted = true;
                output::note(&format!("no report came so far: {REPORTS_OFF}"));
            }
            let arrival = subscription.poll(LOOK, |mut delivery| {
                (
                    status_reports(&mut delivery),
                    delivery.head().id.source.clone(),
                    delivery.receipt(),
                )
            })?;
            let Arrival::Delivery((told, reporter, receipt)) = arrival else {
                continue;
            };
            subscription.confirm(receipt);
            for report in told.iter().filter(|report| report.bundle == *id) {
                reports += 1;
                for step in steps(report, &reporter) {
                    step.print(form)?;
                }
                arrived |=
                    reporter.node_id() == self.destination.node_id() && report.received.is_some();
                if report.delivered.is_some() {
                    return Ok(Ending::Done);
                }
                if report.deleted.is_some() {
                    return Err(Silence::Failed(Failure::refused(format!(
                        "the bundle was deleted at {reporter}: {}",
                        report.reason
                    ))));
                }
            }
        }
        Err(match arrived {
            true => Silence::Untaken,
            false => Silence::Short { reports },
        })
    }

    /// The bundle came to the destination's node, and nothing further is known of it.
    fn untaken(&self) -> Failure {
        Failure::refused(format!(
            "the bundle came to the node of {}, and no report says that it was delivered",
            self.destination
        ))
        .with_hint("nobody may be registered there, or that node does not report deliveries")
    }

    /// Why nothing was heard of the destination's node, where this node can tell.
    fn explain(&self, reports: u64, held: Option<String>, here: Option<NodeId>) -> Failure {
        let failure = Failure::refused(if reports == 0 {
            "no report came".to_owned()
        } else {
            format!("no report came from the node of {}", self.destination)
        });
        match held {
            Some(state) => {
                let here = here.map_or_else(|| "this node".to_owned(), |node| node.to_string());
                failure.with_hint(format!(
                    "the bundle is still at {here}, {state}; see `dhow routes` and `dhow links`"
                ))
            }
            None if reports == 0 => failure.with_hint(REPORTS_OFF),
            None => {
                failure.with_hint("it may not generate reports, or the bundle is still on its way")
            }
        }
    }
}

/// Why the path is not known to its end.
enum Silence {
    Failed(Failure),
    /// The destination's node has the bundle.
    Untaken,
    /// So many reports came, and none from the destination's node.
    Short {
        reports: u64,
    },
}

impl From<Failure> for Silence {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The time that the node may take to say where the bundle is, once the time to wait is over.
const LOOK_TIME: Duration = Duration::from_secs(2);

/// Bundles looked through for the one that is traced.
const LOOKED_THROUGH: u32 = 100_000;

/// The state of the bundle at this node; `None` when it is not there, or nobody can be asked.
fn held(node: &Address, id: &BundleId) -> Option<String> {
    let list = Admin::of(Some(node))
        .and_then(|admin| {
            admin
                .within(LOOK_TIME)
                .read(&format!("/v1/bundles?limit={LOOKED_THROUGH}"))
        })
        .ok()?;
    let text = id.to_string();
    let bundle = list
        .as_array()?
        .iter()
        .find(|bundle| bundle.get("id").and_then(Value::as_str) == Some(&text))?;
    let state = bundle.get("state").and_then(Value::as_str);
    let in_flight = bundle.get("in_flight").and_then(Value::as_bool);
    Some(match state {
        Some(state) => state.replace('_', " "),
        None if in_flight == Some(true) => "in flight".to_owned(),
        None => "waiting".to_owned(),
    })
}

fn steps(report: &StatusReport, reporter: &EndpointId) -> Vec<Step> {
    let created = report.bundle.creation.time;
    let assertions: [(&'static str, Option<Assertion>); 4] = [
        ("received", report.received),
        ("forwarded", report.forwarded),
        ("delivered", report.delivered),
        ("deleted", report.deleted),
    ];
    let told = assertions.into_iter().filter_map(|(event, assertion)| {
        Some((event, assertion?.time.filter(|time| time.is_known())))
    });
    told.map(|(event, time)| Step {
        bundle: report.bundle.to_string(),
        node: reporter.to_string(),
        event,
        time_dtn_ms: time.map(DtnTime::as_millis),
        after_ms: time
            .filter(|_| created.is_known())
            .map(|time| time.as_millis().saturating_sub(created.as_millis())),
        reason: report.reason.code(),
        reason_text: report.reason.to_string(),
    })
    .collect()
}

impl Step {
    fn print(&self, form: Form) -> Result<(), Failure> {
        if form == Form::Json {
            return output::json(self);
        }
        let time = self.time_dtn_ms.map_or_else(
            || "time not reported".to_owned(),
            |time| calendar::utc(DtnTime::from_millis(time)),
        );
        let after = self
            .after_ms
            .map_or_else(String::new, |after| format!("  +{}", quantity::span(after)));
        let reason = if self.reason == 0 {
            String::new()
        } else {
            format!("  ({})", self.reason_text)
        };
        output::line(&format!(
            "  {:20} {:9}  {time}{after}{reason}",
            self.node, self.event
        ))
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::CreationTimestamp;
    use dhow_bundle::v7::admin::ReasonCode;

    use super::*;

    #[test]
    fn each_assertion_is_a_step_with_its_time_if_it_has_one() {
        let report = StatusReport {
            received: Some(Assertion {
                time: Some(DtnTime::from_millis(1500)),
            }),
            forwarded: None,
            delivered: Some(Assertion { time: None }),
            deleted: None,
            reason: ReasonCode::from_code(0),
            bundle: BundleId {
                source: EndpointId::Null,
                creation: CreationTimestamp {
                    time: DtnTime::from_millis(1000),
                    sequence: 0,
                },
                fragment: None,
            },
        };
        let steps = steps(&report, &"ipn:4.0".parse().unwrap());
        let told: Vec<_> = steps
            .iter()
            .map(|step| (step.event, step.time_dtn_ms, step.after_ms))
            .collect();
        assert_eq!(
            told,
            [
                ("received", Some(1500), Some(500)),
                ("delivered", None, None)
            ]
        );
    }
}
