//! `dhow otr`: the receiver of packets of `dhow otg`, by the options of the ORBIT Traffic Receiver.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use dhow_testbed::traffic::{Account, DatagramReader, Flow, Received, Receiver, datagrams_dropped};
use serde_json::{Value, json};

use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::measured::Measured;
use crate::output::{self, Form};
use crate::packet_point::{PacketPoint, TCP_IN, UDP_IN};
use crate::quantity;
use crate::socket_address::resolve;

const AFTER_HELP: &str = "\
Example:
  dhow otr --udp:local_host 0.0.0.0 --udp:local_port 3000 --duration 40s";

/// Receive packets and count them, as OTR does
///
/// The options with colons are those of OTR2. The first line on stdout says that it is ready; what it received follows after --duration or --count, or on Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Otr {
    /// Protocol that carries the packets
    #[arg(short = 'g', long = "sink", alias = "protocol", short_alias = 'p', value_enum, default_value_t = Sink::Udp)]
    sink: Sink,
    /// Address to receive at
    #[arg(
        long = "udp:local_host",
        alias = "tcp:local_host",
        value_name = "HOST",
        default_value = "localhost"
    )]
    local_host: String,
    /// Port to receive at; 0 is any
    #[arg(
        long = "udp:local_port",
        alias = "tcp:local_port",
        value_name = "PORT",
        default_value_t = 3000
    )]
    local_port: u16,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// End after this many packets
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Say at the end what came of each flow as figures, a line of JSON each, and nothing else on stdout
    #[arg(long)]
    figures: bool,
    #[command(flatten)]
    measured: Measured,
    #[command(flatten)]
    ignored: Ignored,
}

/// Options of the originals that say how they talk; they are taken, and change nothing.
#[derive(Args, Debug)]
pub struct Ignored {
    #[arg(short = 'd', long = "debug-level", hide = true)]
    _debug: Option<i32>,
    #[arg(short = 'l', long = "logfile", hide = true)]
    _log: Option<PathBuf>,
}

/// A protocol that carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sink {
    /// UDP datagrams
    Udp,
    /// TCP connections
    Tcp,
    /// Nothing: no packet ever comes
    Null,
}

impl Otr {
    /// Receives until something says that it is to end.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let at = resolve(&self.local_host, self.local_port)?;
        let cannot =
            |error: io::Error| Failure::refused(format!("cannot receive at {at}: {error}"));
        let receiver = Receiver {
            duration: self.duration,
            count: self.count,
        };
        let measuring = self.measured.begin("otr2", common)?;
        let point = if self.sink == Sink::Tcp {
            &TCP_IN
        } else {
            &UDP_IN
        };
        let meter = &mut PacketPoint::open(measuring.as_ref(), point)?;
        let stop = interrupt::is_requested;
        let (received, dropped) = match self.sink {
            Sink::Udp => {
                let socket = UdpSocket::bind(at).map_err(cannot)?;
                let here = socket.local_addr().map_err(cannot)?;
                let mut reader = DatagramReader::new(socket).map_err(cannot)?;
                self.say_ready(common, here)?;
                let received = receiver
                    .run_datagrams(&mut reader, meter, stop)
                    .map_err(cannot)?;
                (received, datagrams_dropped(here))
            }
            Sink::Tcp => {
                let listener = TcpListener::bind(at).map_err(cannot)?;
                self.say_ready(common, listener.local_addr().map_err(cannot)?)?;
                let received = receiver
                    .run_streams(&listener, meter, stop)
                    .map_err(cannot)?;
                (received, None)
            }
            Sink::Null => {
                self.say_ready(common, at)?;
                (self.wait(), None)
            }
        };
        let told = self.tell(common, &received, dropped);
        if let Some(measuring) = measuring {
            measuring.end();
        }
        told?;
        Ok(if interrupt::is_requested() {
            Ending::Interrupted
        } else {
            Ending::Done
        })
    }

    fn say_ready(&self, common: &Common, at: SocketAddr) -> Result<(), Failure> {
        match common.form() {
            _ if self.figures => Ok(()),
            Form::Json => {
                output::json(&json!({"ready": true, "address": at.ip(), "port": at.port()}))
            }
            Form::Text => output::line(&format!("ready: receiving at {at}")),
        }
    }

    fn tell(
        &self,
        common: &Common,
        received: &Received,
        dropped: Option<u64>,
    ) -> Result<(), Failure> {
        let mut flows = received.tally.flows();
        if self.figures {
            return flows
                .try_for_each(|(_, _, flow)| output::figures(&Account::from(flow).figures()));
        }
        match common.form() {
            Form::Json => output::json(&json!({
                "packets": received.tally.packets(),
                "strangers": received.tally.strangers,
                "broken_connections": received.broken,
                "dropped_by_kernel": dropped,
                "elapsed_s": received.elapsed.as_secs_f64(),
                "flows": flows.map(|(name, from, flow)| flow_json(name, from, flow)).collect::<Vec<_>>(),
            })),
            Form::Text => {
                for (name, from, flow) in flows {
                    output::line(&flow_text(name, from, flow))?;
                }
                output::line(&format!(
                    "{} packets in all; {} no packets of a flow; {} dropped because they were not read in time",
                    quantity::thousands(received.tally.packets()),
                    quantity::thousands(received.tally.strangers),
                    dropped.map_or_else(|| "unknown how many".to_owned(), quantity::thousands),
                ))
            }
        }
    }

    /// Receives nothing for as long as it is wanted.
    fn wait(&self) -> Received {
        let start = std::time::Instant::now();
        while !interrupt::is_requested()
            && self
                .duration
                .is_none_or(|duration| start.elapsed() < duration)
        {
            std::thread::sleep(interrupt::LOOK);
        }
        Received {
            elapsed: start.elapsed(),
            ..Received::default()
        }
    }
}

fn flow_json(name: u64, from: SocketAddr, flow: &Flow) -> Value {
    let delay = flow.delay.map(|delay| {
        json!({
            "min": seconds(delay.least_ns),
            "avg": seconds(delay.mean_ns()),
            "max": seconds(delay.most_ns),
        })
    });
    json!({
        "flow": name,
        "from": from.to_string(),
        "packets": flow.packets,
        "octets": flow.octets,
        "lost": flow.lost,
        "out_of_order": flow.out_of_order,
        "duplicates": flow.duplicates,
        "active_s": flow.elapsed().as_secs_f64(),
        "jitter_s": flow.jitter_ns / 1e9,
        "delay_s": delay,
    })
}

fn flow_text(name: u64, from: SocketAddr, flow: &Flow) -> String {
    let delay = flow.delay.map_or_else(String::new, |delay| {
        format!("; {:.3} ms on the way", seconds(delay.mean_ns()) * 1e3)
    });
    format!(
        "flow {name} from {from}: {} packets with {} in {}, {}; {} lost, {} out of order, {} duplicates{delay}, jitter {:.3} ms",
        quantity::thousands(flow.packets),
        quantity::size(flow.octets),
        quantity::elapsed(flow.elapsed()),
        quantity::bit_rate(flow.octets, flow.elapsed()),
        quantity::thousands(flow.lost),
        quantity::thousands(flow.out_of_order),
        quantity::thousands(flow.duplicates),
        flow.jitter_ns / 1e6,
    )
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "shown to a nanosecond for times of days"
)]
fn seconds(nanos: i128) -> f64 {
    nanos as f64 / 1e9
}
