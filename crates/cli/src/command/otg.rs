//! `dhow otg`: packets of a chosen pattern, by the options of the ORBIT Traffic Generator.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, Receiver as Lines};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use dhow_testbed::traffic::{
    Account, Bursts, Carrier, CommandError, DatagramWriter, Header, Meter, Null, Pace, Pattern,
    Planned, Schedule, Sender, Sent, StreamWriter, check_planned, parse_bits, parse_seconds,
};
use serde_json::json;

use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::measured::Measured;
use crate::output::{self, Form};
use crate::packet_point::{PacketPoint, TCP_OUT, UDP_OUT};
use crate::quantity;
use crate::socket_address::{connect_from, local_for, resolve};

/// Lines of standard input that wait to be followed; beyond that the writer waits.
const LINES_MAX: usize = 1_024;

const AFTER_HELP: &str = "\
Lines on standard input: pause, resume, exit, or an option of the generator with its value (cbr:rate 1000000).

Example:
  dhow otg --udp:dst_host 10.0.0.2 --cbr:size 1470 --cbr:rate 54e6 --duration 30s";

/// Send packets of a chosen pattern, as OTG does
///
/// The options with colons are those of OTG2; rates are bit/s of payload and times seconds. It ends after --duration or --count, by `exit` on standard input, or by Ctrl-C, and then says on stdout what it sent.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Otg {
    /// Protocol that carries the packets
    #[arg(short, long, value_enum, default_value_t = Protocol::Udp)]
    protocol: Protocol,
    /// Pattern in which packets leave
    #[arg(short, long, value_enum, default_value_t = Generator::Cbr)]
    generator: Generator,
    #[command(flatten)]
    constant: ConstantOptions,
    #[command(flatten)]
    bursts: BurstOptions,
    #[command(flatten)]
    pareto: ParetoOptions,
    #[command(flatten)]
    way: Destination,
    /// Number of the flow [default: random]
    #[arg(long = "flow:id", value_name = "NUMBER")]
    flow: Option<u64>,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// End after this many packets
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Follow a command at a time from the start: --at '30s cbr:rate 1000000'
    #[arg(long, value_name = "TIME COMMAND", value_parser = parse_planned)]
    at: Vec<Planned>,
    /// Seed of the random lengths of bursts and pauses
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Say at the end what was sent as figures, a line of JSON each
    #[arg(long)]
    figures: bool,
    #[command(flatten)]
    measured: Measured,
    #[command(flatten)]
    ignored: crate::command::otr::Ignored,
}

/// A protocol that carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// UDP datagrams
    Udp,
    /// A TCP connection; each packet follows its length
    Tcp,
    /// Nothing: packets are only measured
    Null,
}

/// When packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Generator {
    /// One after the other at a constant rate
    Cbr,
    /// In exponentially distributed bursts and pauses
    #[value(alias = "expoo", alias = "exp")]
    Expo,
    /// In bursts and pauses of Pareto distributions
    Pareto,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Constant rate (-g cbr)")]
struct ConstantOptions {
    /// Octets of a packet
    #[arg(long = "cbr:size", value_name = "OCTETS", default_value_t = 512)]
    cbr_size: u32,
    /// bit/s
    #[arg(long = "cbr:rate", value_name = "BIT/S", value_parser = parse_bits, default_value = "4096")]
    cbr_rate: u64,
    /// Seconds between packets, instead of a rate
    #[arg(long = "cbr:interval", value_name = "SECONDS", value_parser = parse_seconds, conflicts_with = "cbr_rate")]
    cbr_interval: Option<Duration>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Exponential bursts (-g expo)")]
struct BurstOptions {
    /// Octets of a packet
    #[arg(
        long = "exp:size",
        alias = "expo:size",
        alias = "expoo:size",
        value_name = "OCTETS",
        default_value_t = 512
    )]
    exp_size: u32,
    /// bit/s within a burst
    #[arg(long = "exp:rate", alias = "expo:rate", alias = "expoo:rate", value_name = "BIT/S", value_parser = parse_bits, default_value = "0")]
    exp_rate: u64,
    /// Mean length of bursts, seconds
    #[arg(long = "exp:ontime", alias = "expo:ontime", alias = "expoo:ontime", value_name = "SECONDS", value_parser = parse_seconds, default_value = "0")]
    exp_ontime: Duration,
    /// Mean length of pauses, seconds
    #[arg(long = "exp:offtime", alias = "expo:offtime", alias = "expoo:offtime", value_name = "SECONDS", value_parser = parse_seconds, default_value = "0")]
    exp_offtime: Duration,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Pareto bursts (-g pareto)")]
struct ParetoOptions {
    /// Octets of a packet
    #[arg(long = "pareto:size", value_name = "OCTETS", default_value_t = 512)]
    pareto_size: u32,
    /// bit/s within a burst
    #[arg(long = "pareto:rate", value_name = "BIT/S", value_parser = parse_bits, default_value = "0")]
    pareto_rate: u64,
    /// Mean length of bursts, seconds
    #[arg(long = "pareto:ontime", value_name = "SECONDS", value_parser = parse_seconds, default_value = "0")]
    pareto_ontime: Duration,
    /// Mean length of pauses, seconds
    #[arg(long = "pareto:offtime", value_name = "SECONDS", value_parser = parse_seconds, default_value = "0")]
    pareto_offtime: Duration,
    /// Shape of the distribution, more than 1: the smaller, the heavier its tail
    #[arg(long = "pareto:shape", value_name = "NUMBER", default_value_t = 1.5)]
    pareto_shape: f64,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Where to")]
struct Destination {
    /// Receiver
    #[arg(long = "udp:dst_host", alias = "tcp:dst_host", value_name = "HOST")]
    dst_host: Option<String>,
    /// Its port
    #[arg(
        long = "udp:dst_port",
        alias = "tcp:dst_port",
        value_name = "PORT",
        default_value_t = 3000
    )]
    dst_port: u16,
    /// Address to send from [default: any]
    #[arg(long = "udp:local_host", alias = "tcp:local_host", value_name = "HOST")]
    local_host: Option<String>,
    /// Port to send from; 0 is any
    #[arg(
        long = "udp:local_port",
        alias = "tcp:local_port",
        value_name = "PORT",
        default_value_t = 0
    )]
    local_port: u16,
    /// The receiver may be a broadcast address
    #[arg(long = "udp:broadcast", num_args = 0..=1, default_missing_value = "1", value_name = "0|1", value_parser = parse_switch, default_value = "0")]
    broadcast: bool,
    /// Do not wait for room: packets that find none are dropped
    #[arg(long = "udp:nonblock", num_args = 0..=1, default_missing_value = "1", value_name = "0|1", value_parser = parse_switch, default_value = "0")]
    nonblock: bool,
}

impl Otg {
    /// Sends until something says that it is to end.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let schedule = Schedule::new(self.pattern(), self.seed)
            .map_err(|error| Failure::usage(format!("cannot send such packets: {error}")))?;
        check_planned(self.pattern(), &self.at)
            .map_err(|error| Failure::usage(format!("cannot follow --at: {error}")))?;
        let flow = match self.flow {
            Some(flow) => flow,
            None => getrandom::u64()
                .map_err(|error| Failure::refused(format!("cannot draw a flow's name: {error}")))?,
        };
        let nowhere = || Failure::usage("no receiver").with_hint("name one: --udp:dst_host HOST");
        let to = match (&self.way.dst_host, self.protocol) {
            (Some(host), _) => resolve(host, self.way.dst_port)?,
            (None, Protocol::Null) => SocketAddr::from(([0, 0, 0, 0], 0)),
            (None, _) => return Err(nowhere()),
        };
        let sender = Sender {
            schedule,
            flow,
            to,
            header: Header::of_packet,
            duration: self.duration,
            count: self.count,
            planned: self.at.clone(),
        };
        let measuring = self.measured.begin("otg2", common)?;
        let point = if self.protocol == Protocol::Tcp {
            &TCP_OUT
        } else {
            &UDP_OUT
        };
        let meter = &mut PacketPoint::open(measuring.as_ref(), point)?;
        let sent = match self.protocol {
            Protocol::Null => send(sender, &mut Null, meter)?,
            Protocol::Udp => send(sender, &mut self.datagrams(to)?, meter)?,
            Protocol::Tcp => send(sender, &mut self.stream(to)?, meter)?,
        };
        let told = match self.figures {
            true => output::figures(&Account::from(&sent).figures()),
            false => tell(common, flow, &sent),
        };
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

    fn pattern(&self) -> Pattern {
        let (constant, bursts, pareto) = (&self.constant, &self.bursts, &self.pareto);
        match self.generator {
            Generator::Cbr => Pattern {
                octets: constant.cbr_size,
                pace: constant
                    .cbr_interval
                    .map_or(Pace::BitsPerS(constant.cbr_rate), Pace::Interval),
                bursts: Bursts::Always,
            },
            Generator::Expo => Pattern {
                octets: bursts.exp_size,
                pace: Pace::BitsPerS(bursts.exp_rate),
                bursts: Bursts::Exponential {
                    on: bursts.exp_ontime,
                    off: bursts.exp_offtime,
                },
            },
            Generator::Pareto => Pattern {
                octets: pareto.pareto_size,
                pace: Pace::BitsPerS(pareto.pareto_rate),
                bursts: Bursts::Pareto {
                    on: pareto.pareto_ontime,
                    off: pareto.pareto_offtime,
                    shape: pareto.pareto_shape,
                },
            },
        }
    }

    fn datagrams(&self, to: SocketAddr) -> Result<DatagramWriter, Failure> {
        let from = local_for(self.way.local_host.as_deref(), self.way.local_port, to)?;
        let open = || {
            let socket = UdpSocket::bind(from)?;
            socket.set_broadcast(self.way.broadcast)?;
            socket.connect(to)?;
            let writer = DatagramWriter::new(socket)?;
            if self.way.nonblock {
                writer.without_waiting()
            } else {
                Ok(writer)
            }
        };
        open().map_err(|error: io::Error| {
            Failure::refused(format!("cannot send from {from} to {to}: {error}"))
        })
    }

    fn stream(&self, to: SocketAddr) -> Result<StreamWriter, Failure> {
        let from = local_for(self.way.local_host.as_deref(), self.way.local_port, to)?;
        connect_from(from, to)
            .and_then(StreamWriter::new)
            .map_err(|error| {
                let failure =
                    Failure::refused(format!("cannot connect from {from} to {to}: {error}"));
                match error.kind() {
                    io::ErrorKind::ConnectionRefused => failure.with_hint(format!(
                        "start a receiver there: dhow otr --sink tcp --udp:local_port {}",
                        to.port()
                    )),
                    _ => failure,
                }
            })
    }
}

fn send(
    sender: Sender,
    carrier: &mut impl Carrier,
    meter: &mut impl Meter,
) -> Result<Sent, Failure> {
    let wrong = |error: &CommandError| output::note(&error.to_string());
    let to = sender.to;
    sender
        .run(carrier, meter, lines(), interrupt::is_requested, wrong)
        .map_err(|error| Failure::refused(format!("cannot send to {to}: {error}")))
}

/// Lines of standard input, by a thread that ends with the process. A terminal that is somebody else's at the moment is left
/// alone: reading it would stop this program.
fn lines() -> Option<Lines<String>> {
    let stdin = io::stdin();
    if stdin.is_terminal() && !is_in_foreground(&stdin) {
        return None;
    }
    let (lines, source) = mpsc::sync_channel(LINES_MAX);
    thread::spawn(move || {
        for line in stdin.lock().lines() {
            let Ok(line) = line else { return };
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    Some(source)
}

fn is_in_foreground(stdin: &io::Stdin) -> bool {
    rustix::termios::tcgetpgrp(stdin).is_ok_and(|group| group == rustix::process::getpgrp())
}

fn tell(common: &Common, flow: u64, sent: &Sent) -> Result<(), Failure> {
    let seconds = sent.elapsed.as_secs_f64();
    match common.form() {
        Form::Json => output::json(&json!({
            "flow": flow,
            "packets": sent.packets,
            "octets": sent.octets,
            "acknowledged_octets": sent.acknowledged,
            "failed": sent.failed,
            "latest_s": sent.latest.as_secs_f64(),
            "elapsed_s": seconds,
        })),
        Form::Text => output::line(&format!(
            "flow {flow}: {} packets with {} in {}, {}; {} found no way; {} late at most",
            quantity::thousands(sent.packets),
            quantity::size(sent.octets),
            quantity::elapsed(sent.elapsed),
            quantity::bit_rate(sent.acknowledged.unwrap_or(sent.octets), sent.elapsed),
            quantity::thousands(sent.failed),
            quantity::elapsed(sent.latest),
        )),
    }
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(format!("'{text}' is neither 1 nor 0")),
    }
}

fn parse_planned(text: &str) -> Result<Planned, String> {
    let (at, command) = text
        .trim()
        .split_once(char::is_whitespace)
        .ok_or_else(|| format!("'{text}' is not a time and command"))?;
    Ok(Planned {
        at: parse_duration(at)?,
        command: command
            .parse()
            .map_err(|error: CommandError| error.to_string())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_command_has_a_time() {
        let planned = parse_planned("30s cbr:rate 1000").unwrap();
        assert_eq!(planned.at, Duration::from_secs(30));
        assert!(parse_planned("pause").is_err() && parse_planned("3s jump").is_err());
    }
}
