//! `dhow channel`: a link with a rate, a delay and losses between two network namespaces.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use dhow_channel::channel::Contact;
use dhow_channel::{Counters, Loss, Part, Profile, ProfileError, Rate, RateTrace};
use dhow_scenario::read_rate_trace;
use dhow_testbed::emulate::{EmulateError, Emulator, Place, TraceStart};
use serde_json::{Value, json};

use crate::arguments::{Common, parse_duration, parse_rate, parse_size};
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::quantity;

/// The longest mean burst of losses, packets: as scenarios have it.
const LOSS_BURST_MAX_PACKETS: i64 = 1_000_000;

const AFTER_HELP: &str = "\
Example, as root:
  ip netns add east; ip netns add west
  dhow channel --left east:d0/10.9.0.1/30 --right west:d0/10.9.0.2/30 --rate 24Mbit --delay 50ms";

/// Join two network namespaces by a link with a rate, a delay and losses
///
/// Makes an interface in each namespace and carries packets between them until Ctrl-C, which removes both. The first line on stdout says that the link is ready, the last what became of packets. Needs root.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Channel {
    /// One end: NAMESPACE:INTERFACE/ADDRESS/PREFIX; no namespace before the colon means the current one
    #[arg(long, value_name = "PLACE")]
    left: Place,
    /// The other end
    #[arg(long, value_name = "PLACE")]
    right: Place,
    /// Rate of each direction: 24Mbit, 1Gbit; octets of IP packets are counted
    #[arg(long, value_parser = parse_rate, required_unless_present = "rate_trace")]
    rate: Option<u64>,
    /// File of times at which 1504 octets may leave, for each direction: one a line, in milliseconds, as in mahimahi; repeated after the last
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    rate_trace: Option<PathBuf>,
    /// Time that a packet is on its way, each direction
    #[arg(long, value_parser = parse_duration, default_value = "0ms")]
    delay: Duration,
    /// Longest random time added to the delay; packets keep their order
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0ms")]
    jitter: Duration,
    /// Fraction of packets that are lost: 0.01
    #[arg(long, value_name = "PART", value_parser = parse_part, default_value = "0")]
    loss: Part,
    /// Mean number of packets lost in a row (Gilbert-Elliott model); 1: each by itself
    #[arg(long, value_name = "PACKETS", default_value_t = 1, requires = "loss", value_parser = clap::value_parser!(u32).range(1..=LOSS_BURST_MAX_PACKETS))]
    loss_burst: u32,
    /// Fraction of packets that arrive twice, each by itself: 0.01
    #[arg(long, value_name = "PART", value_parser = parse_part, default_value = "0")]
    duplicate: Part,
    /// Fraction of packets that are delayed, each by itself, so that later ones overtake them: 0.01
    #[arg(long, value_name = "PART", value_parser = parse_part, default_value = "0")]
    reorder: Part,
    /// Time added to the delay and jitter of such packets
    #[arg(long, value_name = "TIME", value_parser = parse_hold_up, default_value = "10ms", requires = "reorder")]
    reorder_by: Duration,
    /// Octets that may wait at each end [default: what the rate moves in two delays, 256 KiB to 256 MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    queue: Option<u64>,
    /// Largest packet, octets
    #[arg(long, value_name = "OCTETS", default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    /// Seed of what is left to chance: with the same seed the same packets are lost, late, doubled or delayed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Directory for packets under way, of which no more than 64 MiB of each direction are in memory: rate times delay must have room there
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    spool: PathBuf,
    /// Read lines from stdin: `down` ends the contact, `up` begins it; the interfaces stay up and notice nothing
    #[arg(long)]
    stdin: bool,
}

impl Channel {
    /// Runs the link until it is interrupted.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let trace = self.rate_trace.as_deref().map(read_rate_trace);
        let trace = trace.transpose().map_err(|error| {
            let failure = Failure::usage(error.to_string());
            match &error.hint {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        })?;
        let profile = self.profile(trace.as_ref())?;
        let ends = (&self.left, &self.right);
        let mut emulator =
            Emulator::open(ends.0, ends.1, self.mtu, profile, self.seed, &self.spool)
                .map_err(|error| failed(&error))?;
        if let Some(trace) = trace {
            emulator = emulator.with_trace(trace, TraceStart::default());
        }
        if self.stdin {
            let stdin = std::io::stdin().as_fd().try_clone_to_owned();
            let stdin = stdin.map_err(|error| {
                Failure::refused(format!("cannot read standard input: {error}"))
            })?;
            emulator = emulator.with_control(stdin);
        }
        self.say_ready(common, profile)?;
        let outcome = emulator.run(interrupt::is_requested, tell);
        let (rightward, leftward) = emulator.counters();
        match common.form() {
            Form::Json => output::json(&json!({
                "rightward": counters_json(rightward),
                "leftward": counters_json(leftward),
            }))?,
            Form::Text => output::text(&format!(
                "to the right  {}\nto the left   {}\n",
                counters_text(rightward),
                counters_text(leftward)
            ))?,
        }
        match outcome {
            Ok(()) => Ok(Ending::Interrupted),
            Err(error) => Err(failed(&error)),
        }
    }

    fn profile(&self, trace: Option<&RateTrace>) -> Result<Profile, Failure> {
        let wrong = |error: ProfileError| Failure::usage(format!("cannot make a link: {error}"));
        let rate = match trace {
            Some(trace) => trace.mean(),
            None => Rate::from_octets_per_s(self.rate.unwrap_or(0)).map_err(wrong)?,
        };
        let loss = Loss::bursts(self.loss.per_billion(), self.loss_burst);
        let loss =
            loss.map_err(|error| wrong(error).with_hint("give longer bursts, or a smaller loss"))?;
        let profile = Profile::new(rate, self.delay)
            .with_jitter(self.jitter)
            .with_loss(loss)
            .with_duplicates(self.duplicate)
            .with_reordering(self.reorder, self.reorder_by);
        Ok(match self.queue {
            Some(octets) => profile.with_queue_octets(octets),
            None => profile,
        })
    }

    fn say_ready(&self, common: &Common, profile: Profile) -> Result<(), Failure> {
        match common.form() {
            Form::Json => output::json(&json!({
                "ready": true,
                "left": self.left.to_string(),
                "right": self.right.to_string(),
                "rate_octets_per_s": profile.rate.octets_per_s(),
                "delay_ms": self.delay.as_secs_f64() * 1000.0,
                "queue_octets": profile.queue_octets,
                "mtu_octets": self.mtu,
            })),
            Form::Text => output::line(&format!(
                "ready: {} – {}, {}{}, {} delay in each direction, a queue of {}",
                self.left,
                self.right,
                quantity::bit_rate(profile.rate.octets_per_s(), Duration::from_secs(1)),
                match self.rate_trace {
                    Some(_) => " on average",
                    None => "",
                },
                quantity::elapsed(self.delay),
                quantity::size(profile.queue_octets)
            )),
        }
    }
}

fn tell(said: &Result<Contact, String>) {
    match said {
        Ok(Contact::Up) => output::talk("contact begins"),
        Ok(Contact::Down) => output::talk("contact ends"),
        Err(line) => output::note(&format!("'{line}' is neither up nor down")),
    }
}

fn failed(error: &EmulateError) -> Failure {
    let failure = Failure::refused(format!("cannot run the link: {error}"));
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn counters_json(counters: Counters) -> Value {
    json!({
        "delivered": counters.delivered,
        "delivered_octets": counters.delivered_octets,
        "overflowed": counters.overflowed,
        "lost": counters.lost,
        "cut": counters.cut,
        "duplicated": counters.duplicated,
        "reordered": counters.reordered,
    })
}

fn counters_text(counters: Counters) -> String {
    format!(
        "packets: {} delivered with {}, {} dropped by a full queue, {} lost, {} cut off, {} doubled, {} delayed",
        quantity::thousands(counters.delivered),
        quantity::size(counters.delivered_octets),
        quantity::thousands(counters.overflowed),
        quantity::thousands(counters.lost),
        quantity::thousands(counters.cut),
        quantity::thousands(counters.duplicated),
        quantity::thousands(counters.reordered)
    )
}

/// A part of a whole, `0.01` or `1%`, exact to one of a billion.
fn parse_part(text: &str) -> Result<Part, String> {
    const DIGITS: usize = 9;
    let (number, digits) = match text.strip_suffix('%') {
        Some(percent) => (percent, DIGITS - 2),
        None => (text, DIGITS),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = !whole.is_empty()
        && (whole.to_owned() + fraction)
            .bytes()
            .all(|c| c.is_ascii_digit());
    if !is_number || fraction.len() > digits || whole.len() > 3 {
        return Err(format!("'{text}' is not a fraction such as 0.01 or 1%"));
    }
    let parts = format!("{whole}{fraction:0<digits$}").parse::<u64>();
    let parts = parts.ok().and_then(|parts| u32::try_from(parts).ok());
    let part = parts.and_then(|parts| Part::of_billion(parts).ok());
    part.ok_or_else(|| format!("'{text}' is more than all packets; one of a hundred is 0.01 or 1%"))
}

/// A time of something at least: what is held up by nothing is overtaken by nothing.
fn parse_hold_up(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("reordered packets need a time above 0, such as 10ms".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use dhow_channel::profile::BILLION;

    use super::*;

    #[test]
    fn packets_are_parts_of_a_whole() {
        for (text, per_billion) in [
            ("0", 0),
            ("0.01", 10_000_000),
            ("1%", 10_000_000),
            ("0.000000001", 1),
            ("1", BILLION),
            ("100%", BILLION),
        ] {
            let part = parse_part(text).map(Part::per_billion);
            assert_eq!(part, Ok(per_billion), "{text}");
        }
        for text in ["", "1.1", "101%", "-1", "x", "0.0000000001", "1e-3", "."] {
            assert!(parse_part(text).is_err(), "{text}");
        }
    }
}
