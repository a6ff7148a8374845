//! `dhow perf`: the rate at which bundles come to a node.

mod figures;

use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::EndpointId;
use dhow_client::Registration;

use self::figures::{Ended, Figures};
use crate::address::locate;
use crate::application;
use crate::arguments::{Common, parse_duration, parse_lifetime, parse_size};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::measurement::plan::{self, SIZE_MIN};
use crate::measurement::{Flight, Limit, News, Plan, Rate};

/// Measure how fast bundles arrive at a node
///
/// Sends bundles to the perf service of a node for --duration, or --count of them, and prints every --interval what the service says has come: goodput by the receiver's clock, delay where both clocks are right, bundles outstanding. Then the summary, with what was lost or came twice; exits with 1 if not all came. Ctrl-C prints the summary so far and exits with 130. With --json, a line for each interval (event interval: from_s, to_s, received, bundles_per_s, mbit_per_s, delay_ms, outstanding) and one for the summary (event summary).
#[derive(Args, Debug)]
pub struct Perf {
    /// The node to measure to, or the endpoint of its perf service: ipn:4.0
    destination: EndpointId,
    /// Payload octets of each bundle, at least 52
    #[arg(long, value_name = "SIZE", default_value = "1kB", value_parser = parse_perf_size)]
    size: u64,
    /// Send this many bundles
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Send for this long
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_lifetime)]
    duration: Duration,
    /// Sending connections, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    streams: u16,
    /// Send no faster: bundles a second as in 500, or payload as in 10Mbit [default: as fast as it goes]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Payload on its way at a time, at most; a path of 1 Gbit/s and 1 s needs 128MiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    window: u64,
    /// Time from one report to the next, 100 ms to 1 h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// Longest silence of the service after the last bundle was sent, and of the node here
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    timeout: Duration,
    /// Lifetime of each bundle on its way
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_lifetime)]
    lifetime: Duration,
    /// Source endpoint [default: a random service of the node]
    #[arg(long, value_name = "ENDPOINT")]
    from: Option<EndpointId>,
}

fn parse_perf_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        // A payload stands in memory once for each stream.
        octets if octets > 1 << 30 => Err("at most 1GiB is possible".to_owned()),
        octets if octets >= SIZE_MIN => Ok(octets),
        _ => Err(format!("at least {SIZE_MIN} octets are required")),
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        interval if interval < Duration::from_millis(100) => {
            Err("at least 100 ms is required".to_owned())
        }
        interval if interval > Duration::from_secs(3600) => {
            Err("at most 1 h is possible".to_owned())
        }
        interval => Ok(interval),
    }
}

impl Perf {
    /// Measures and prints.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let address = locate(common.node.as_ref())?;
        let plan = self.plan(&address)?;
        let mut flight = Flight::begin(&address, &plan)?;
        let mut figures = Figures::new(common.form(), &plan);
        interrupt::say_at_end(|| "interrupted: the node took no more bundles".to_owned());
        let watched = self.watch(&mut flight, &mut figures);
        let ended = *watched.as_ref().unwrap_or(&Ended::Failed);
        let answered = flight.received().is_answered();
        if answered || !matches!(ended, Ended::Silent | Ended::Failed) {
            figures.summary(&flight, ended)?;
        }
        let (outstanding, sent) = (flight.outstanding(), flight.accepted());
        let ending = flight.end();
        watched?;
        ending?;
        match ended {
            Ended::Interrupted => Ok(Ending::Interrupted),
            _ if !answered => Err(self.unanswered(&plan, sent)),
            _ if outstanding == 0 => Ok(Ending::Done),
            _ => Ok(Ending::Incomplete),
        }
    }

    fn plan(&self, address: &dhow_client::Address) -> Result<Plan, Failure> {
        let source = match &self.from {
            Some(EndpointId::Null) => {
                return Err(Failure::usage("an anonymous bundle cannot be answered")
                    .with_hint("name an endpoint of the node with --from"));
            }
            Some(endpoint) => endpoint.clone(),
            None => application::random_endpoint(
                application::connect(address, Some(self.timeout))?.node_id(),
            )?,
        };
        Ok(Plan {
            service: plan::service(&self.destination),
            registration: Registration::new(source).with_window(crate::measurement::WINDOW),
            size: self.size,
            limit: self.count.map_or(Limit::Time(self.duration), Limit::Count),
            streams: self.streams,
            rate: self.rate,
            window_octets: self.window,
            interval: self.interval,
            lifetime: self.lifetime,
            timeout: self.timeout,
        })
    }

    /// Prints what comes until there is a reason to end.
    fn watch(&self, flight: &mut Flight, figures: &mut Figures) -> Result<Ended, Failure> {
        let mut tick = self.interval;
        let mut heard = Instant::now();
        loop {
            if interrupt::is_requested() {
                flight.stop();
                figures.interval(flight)?;
                return Ok(Ended::Interrupted);
            }
            let elapsed = flight.elapsed();
            if elapsed >= tick {
                figures.interval(flight)?;
                while tick <= elapsed {
                    tick += self.interval;
                }
            }
            let wait = tick
                .saturating_sub(elapsed)
                .clamp(Duration::from_millis(1), LOOK);
            if flight.poll(wait)? == News::Some || flight.is_moving() {
                heard = Instant::now();
            }
            // Streams end by themselves when the user interrupts: then nothing is complete.
            if flight.is_complete() && !interrupt::is_requested() {
                figures.interval(flight)?;
                return Ok(Ended::Complete);
            }
            if flight.has_failed() && !interrupt::is_requested() {
                figures.interval(flight)?;
                return Ok(Ended::Failed);
            }
            if heard.elapsed() >= self.timeout {
                flight.stop();
                figures.interval(flight)?;
                return Ok(Ended::Silent);
            }
        }
    }

    fn unanswered(&self, plan: &Plan, sent: u64) -> Failure {
        Failure::refused(format!(
            "no answer from {} to {sent} bundles within {}",
            plan.service,
            crate::quantity::elapsed(self.timeout)
        ))
        .with_hint("the way there may be down (--timeout waits longer), or the node's [perf] service be off")
    }
}
