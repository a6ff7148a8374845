//! `dhow ping`: the round trip to an echo service.

mod probe;
mod statistics;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::{EndpointId, Priority};
use dhow_client::{Delivery, Receipt, Registration, SendHead, Sender};
use serde_json::json;

use self::probe::{PROBE_OCTETS, Probe};
use self::statistics::Statistics;
use crate::address::locate;
use crate::application::{self, Arrival, Subscription};
use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::output::{self, Form};

/// Measure the round trip to an echo service
///
/// Sends until --count or Ctrl-C, then prints the summary; exits with 1 if nothing came back.
#[derive(Args, Debug)]
pub struct Ping {
    /// The endpoint of an echo service: ipn:4.7
    destination: EndpointId,
    /// End after this many bundles [default: go on until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Time from one bundle to the next
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    interval: Duration,
    /// Time to wait for answers after the last, and for the node here to answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    timeout: Duration,
    /// Lifetime of each on its way
    #[arg(long, value_name = "DURATION", default_value = "1min", value_parser = parse_duration)]
    lifetime: Duration,
    /// Order in which they leave nodes, and their answers too: bulk, normal, expedited or expedited:ORDINAL (0 to 254)
    #[arg(long, value_name = "PRIORITY", default_value = "normal")]
    priority: Priority,
}

/// Pings that may be unanswered at a time; beyond it the oldest count as lost.
const UNANSWERED_MAX: usize = 65_536;

/// Answers that may be on their way from the node at a time.
const WINDOW: u32 = 64;

impl Ping {
    /// Sends and counts.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let address = locate(common.node.as_ref())?;
        let client = application::connect(&address, Some(self.timeout))?;
        let here = application::random_endpoint(client.node_id())?;
        let registration = Registration::new(here.clone()).with_window(WINDOW);
        let timeout = Some(self.timeout);
        let subscription = Subscription::begin(&address, registration.clone(), timeout)?;
        let sender = client
            .sender(&registration)
            .map_err(|error| application::failure("send from the endpoint", &error))?;
        let mut flight = Flight {
            ping: self,
            form: common.form(),
            sender,
            subscription,
            run: application::random()?,
            begun: Instant::now(),
            sent: 0,
            unanswered: BTreeMap::new(),
            statistics: Statistics::default(),
        };
        if common.form() == Form::Text {
            output::line(&format!(
                "ping {} from {here}, {PROBE_OCTETS} octets",
                self.destination
            ))?;
        }
        let ending = flight.fly()?;
        let statistics = flight.statistics;
        flight.subscription.finish();
        match common.form() {
            Form::Json => output::json(&statistics.summary())?,
            Form::Text => output::text(&format!(
                "--- {} ---\n{}",
                self.destination,
                statistics.summary().text()
            ))?,
        }
        Ok(if ending == Ending::Done && !statistics.any_received() {
            Ending::Incomplete
        } else {
            ending
        })
    }
}

/// Pings under way.
#[derive(Debug)]
struct Flight<'a> {
    ping: &'a Ping,
    form: Form,
    sender: Sender,
    subscription: Subscription,
    /// Tells this run's probes from all others.
    run: [u8; 16],
    begun: Instant,
    sent: u64,
    unanswered: BTreeMap<u64, Instant>,
    statistics: Statistics,
}

impl Flight<'_> {
    fn fly(&mut self) -> Result<Ending, Failure> {
        let mut next = self.begun;
        loop {
            if interrupt::is_requested() {
                return Ok(Ending::Interrupted);
            }
            let now = Instant::now();
            let all_sent = self.ping.count.is_some_and(|count| self.sent >= count);
            if !all_sent && now >= next {
                self.send()?;
                next = now + self.ping.interval;
            }
            let until = if all_sent {
                next - self.ping.interval + self.ping.timeout
            } else {
                next
            };
            if all_sent && (self.statistics.all_received() || now >= until) {
                return Ok(Ending::Done);
            }
            let wait = until
                .saturating_duration_since(Instant::now())
                .clamp(Duration::from_millis(1), LOOK);
            match self.subscription.poll(wait, read)? {
                Arrival::Delivery((probe, source, receipt)) => {
                    self.subscription.confirm(receipt);
                    if let Some(probe) = probe.filter(|probe| probe.run == self.run) {
                        self.answered(&probe, &source)?;
                    }
                }
                Arrival::Nothing | Arrival::Lost => {}
            }
            self.hear()?;
        }
    }

    fn send(&mut self) -> Result<(), Failure> {
        self.sent += 1;
        let probe = Probe {
            run: self.run,
            sequence: self.sent,
            left: self.begun.elapsed(),
        };
        let head = SendHead::to(self.ping.destination.clone())
            .with_lifetime(self.ping.lifetime)
            .with_priority(self.ping.priority);
        self.sender
            .send_octets(&head, &probe.encode())
            .and_then(|_| self.sender.flush())
            .map_err(|error| application::failure("send", &error))?;
        self.statistics.sent();
        self.unanswered.insert(self.sent, Instant::now());
        if self.unanswered.len() > UNANSWERED_MAX {
            self.unanswered.pop_first();
        }
        Ok(())
    }

    /// Takes the node's answers to the pings that were sent.
    fn hear(&mut self) -> Result<(), Failure> {
        while let Some(answer) = self
            .sender
            .poll_answer()
            .map_err(|error| application::failure("hear from the node", &error))?
        {
            answer
                .outcome
                .map_err(|refusal| Failure::refused(format!("cannot send: {refusal}")))?;
        }
        Ok(())
    }

    fn answered(&mut self, probe: &Probe, source: &EndpointId) -> Result<(), Failure> {
        let round_trip = self.begun.elapsed().saturating_sub(probe.left);
        let repeated = self.unanswered.remove(&probe.sequence).is_none();
        if repeated {
            self.statistics.repeated();
        } else {
            self.statistics.received(round_trip);
        }
        let ms = round_trip.as_secs_f64() * 1000.0;
        match self.form {
            Form::Json => output::json(
                &json!({"source": source.to_string(), "sequence": probe.sequence, "rtt_ms": (ms * 1000.0).round() / 1000.0, "repeated": repeated}),
            ),
            Form::Text => output::line(&format!(
                "{PROBE_OCTETS} octets from {source}: seq={} rtt={ms:.3} ms{}",
                probe.sequence,
                if repeated { " (repeated)" } else { "" }
            )),
        }
    }
}

/// The probe that a delivery carries, where it came from, and what confirms it.
fn read(mut delivery: Delivery<'_>) -> (Option<Probe>, EndpointId, Receipt) {
    let (source, receipt) = (delivery.head().id.source.clone(), delivery.receipt());
    let mut payload = [0; PROBE_OCTETS];
    let whole = usize::try_from(delivery.head().payload_octets) == Ok(PROBE_OCTETS)
        && delivery.read_exact(&mut payload).is_ok();
    (
        whole.then(|| Probe::decode(&payload)).flatten(),
        source,
        receipt,
    )
}
