//! `dhow trace`: the path that a bundle takes, from the reports of the nodes on it.

use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::admin::{Assertion, StatusReport};
use dhow_bundle::{BundleFlags, BundleId, DtnTime, EndpointId};
use dhow_client::{Registration, SendHead};
use serde::Serialize;

use crate::address::locate;
use crate::application::{self, Arrival, Subscription, status_report};
use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::output::{self, Form};
use crate::report_kind::{REPORTS_OFF, REPORTS_OFF_AFTER};
use crate::{calendar, quantity};

/// Show the path that a bundle takes, from status reports
///
/// Sends a small bundle that asks every node on its way for reports, and shows them as they come, until it is delivered or deleted. Exits with 1 when no report came from the destination's node. Nodes report only what their configuration names.
#[derive(Args, Debug)]
pub struct Trace {
    /// The endpoint to send to
    destination: EndpointId,
    /// Wait this long
    #[arg(long, value_name = "DURATION", default_value = "1min", value_parser = parse_duration)]
    timeout: Duration,
}

/// What the bundle carries, for whoever receives it.
const PAYLOAD: &[u8] = b"dhow trace";

/// Reports that may be on their way from the node at a time.
const WINDOW: u32 = 64;

/// One assertion of one node, as `--json` shows it.
#[derive(Debug, Serialize)]
struct Step {
    node: String,
    event: &'static str,
    /// DTN milliseconds by that node's clock, where it tells.
    time: Option<u64>,
    /// Milliseconds from the bundle's creation to `time`.
    after_ms: Option<u64>,
    reason: u64,
    #[serde(skip)]
    reason_text: String,
}

impl Trace {
    /// Sends and listens.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let address = locate(common.node.as_ref())?;
        let client = application::connect(&address)?;
        let here = application::random_endpoint(client.node_id())?;
        let registration = Registration::new(here).with_window(WINDOW);
        let mut subscription = Subscription::begin(&address, registration.clone())?;
        let flags = BundleFlags::ALL_REPORTS | BundleFlags::STATUS_TIME_REQUESTED;
        let head = SendHead::to(self.destination.clone())
            .with_lifetime(self.timeout)
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
        let ending = self.listen(&mut subscription, &id, common.form());
        subscription.finish();
        ending
    }

    fn listen(
        &self,
        subscription: &mut Subscription,
        id: &BundleId,
        form: Form,
    ) -> Result<Ending, Failure> {
        let begun = Instant::now();
        let (mut reports, mut arrived, mut noted) = (0_u64, false, false);
        while begun.elapsed() < self.timeout {
            if interrupt::is_requested() {
                return Ok(Ending::Interrupted);
            }
            if reports == 0 && !noted && begun.elapsed() >= REPORTS_OFF_AFTER {
                noted = true;
                output::note(&format!("no status report came yet: {REPORTS_OFF}"));
            }
            let arrival = subscription.poll(LOOK, |mut delivery| {
                (
                    status_report(&mut delivery),
                    delivery.head().id.source.clone(),
                    delivery.receipt(),
                )
            })?;
            let Arrival::Delivery((report, reporter, receipt)) = arrival else {
                continue;
            };
            subscription.confirm(receipt);
            let Some(report) = report.filter(|report| report.bundle == *id) else {
                continue;
            };
            reports += 1;
            for step in steps(&report, &reporter, id.creation.time) {
                step.print(form)?;
            }
            arrived |= reporter.node_id() == self.destination.node_id()
                && (report.received.is_some() || report.delivered.is_some());
            if report.delivered.is_some() {
                return Ok(Ending::Done);
            }
            if report.deleted.is_some() {
                return Err(Failure::refused(format!(
                    "the bundle was deleted at {reporter}: {}",
                    report.reason
                )));
            }
        }
        match (reports, arrived) {
            (_, true) => Ok(Ending::Done),
            (0, false) => Err(Failure::refused("no report came").with_hint(REPORTS_OFF)),
            (_, false) => Err(Failure::refused(format!(
                "no report came from the node of {}",
                self.destination
            ))
            .with_hint("it may not generate reports, or the bundle is still on its way")),
        }
    }
}

fn steps(report: &StatusReport, reporter: &EndpointId, created: DtnTime) -> Vec<Step> {
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
        node: reporter.to_string(),
        event,
        time: time.map(DtnTime::as_millis),
        after_ms: time
            .filter(|_| created.is_known())
            .map(|time| time.as_millis().saturating_sub(created.as_millis())),
        reason: report.reason.code(),
        reason_text: if report.reason.code() == 0 {
            String::new()
        } else {
            format!("  ({})", report.reason)
        },
    })
    .collect()
}

impl Step {
    fn print(&self, form: Form) -> Result<(), Failure> {
        if form == Form::Json {
            return output::json(self);
        }
        let time = self.time.map_or_else(
            || "time not told".to_owned(),
            |time| calendar::utc(DtnTime::from_millis(time)),
        );
        let after = self
            .after_ms
            .map_or_else(String::new, |after| format!("  +{}", quantity::span(after)));
        output::line(&format!(
            "  {:20} {:9}  {time}{after}{}",
            self.node, self.event, self.reason_text
        ))
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::CreationTimestamp;
    use dhow_bundle::admin::ReasonCode;

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
                creation: CreationTimestamp::default(),
                fragment: None,
            },
        };
        let steps = steps(
            &report,
            &"ipn:4.0".parse().unwrap(),
            DtnTime::from_millis(1000),
        );
        let told: Vec<_> = steps
            .iter()
            .map(|step| (step.event, step.time, step.after_ms))
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
