//! The driver of a schedule: packets leave at their time, or as soon after it as their carrier takes them.

use std::io;
use std::sync::mpsc::{Receiver as Lines, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::set_current_timer_slack;

use super::carrier::{BATCH_PACKETS, Carrier, Ending, Packet};
use super::command::{Command, CommandError, Planned};
use super::header::HEADER_OCTETS;
use super::property::change;
use super::sample::{Meter, Sample, now_ns};
use super::schedule::Schedule;

/// The longest sleep of a sender between two looks at whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// The slack of timers, nanoseconds; the kernel's own choice is 50 µs.
const SLACK_NS: std::num::NonZeroU64 = std::num::NonZeroU64::MIN;

/// One flow of packets.
#[derive(Debug)]
pub struct Sender {
    /// When which packet leaves.
    pub schedule: Schedule,
    /// The flow's name.
    pub flow: u64,
    /// The receiver's address, for measurements.
    pub to: std::net::SocketAddr,
    /// A packet's first octets: of its flow and number, sent at a time in nanoseconds since 1970.
    pub header: fn(u64, u32, u64) -> [u8; HEADER_OCTETS],
    /// The time after which the sender ends.
    pub duration: Option<Duration>,
    /// The number of packets after which the sender ends.
    pub count: Option<u64>,
    /// Commands that it gets at given times, in their order.
    pub planned: Vec<Planned>,
}

/// The totals of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets that left.
    pub packets: u64,
    /// Octets of their payloads.
    pub octets: u64,
    /// The octets that the other end's system acknowledged by the end; none where nobody acknowledges any.
    pub acknowledged: Option<u64>,
    /// Packets that found no way, and are gone.
    pub failed: u64,
    /// The largest delay of a packet behind its planned time.
    pub latest: Duration,
    /// The time that it took.
    pub elapsed: Duration,
}

/// A sender at work.
struct Run<'a, C, M> {
    sender: Sender,
    carrier: &'a mut C,
    meter: &'a mut M,
    start: Instant,
    paused_at: Option<Duration>,
    number: u64,
    sent: Sent,
    /// Octets of the packet that left last.
    last_octets: u32,
}

/// The next step of a sender.
#[derive(PartialEq, Eq)]
enum Step {
    GoOn,
    End,
}

impl Sender {
    /// Sends until the duration or the count is reached, `lines` or `stop` says so; that is asked ten times a second at least.
    /// Lines that are no commands are told to `wrong`.
    ///
    /// # Errors
    /// When the carrier will take nothing any more.
    pub fn run<C: Carrier, M: Meter>(
        self,
        carrier: &mut C,
        meter: &mut M,
        lines: Option<Lines<String>>,
        stop: impl Fn() -> bool,
        wrong: impl Fn(&CommandError),
    ) -> io::Result<Sent> {
        // A kernel that does not know it sleeps less exactly, no more.
        let _ = set_current_timer_slack(Some(SLACK_NS));
        let mut run = Run {
            sender: self,
            carrier,
            meter,
            start: Instant::now(),
            paused_at: None,
            number: 0,
            sent: Sent::default(),
            last_octets: 0,
        };
        run.sender.planned.sort_by_key(|planned| planned.at);
        run.sender.planned.reverse();
        let mut lines = lines;
        while !stop() {
            if run.obey_planned(&wrong) == Step::End || run.turn()? == Step::End {
                break;
            }
            match run.wait(&mut lines) {
                Some(line) if run.obey_line(&line, &wrong) == Step::End => break,
                _ => {}
            }
        }
        run.finish()?;
        let unacknowledged = run.carrier.unacknowledged();
        // Lengths before packets wait too, so this is no more than was acknowledged.
        run.sent.acknowledged = unacknowledged.map(|rest| run.sent.octets.saturating_sub(rest));
        run.sent.elapsed = run.start.elapsed();
        Ok(run.sent)
    }
}

impl<C: Carrier, M: Meter> Run<'_, C, M> {
    /// Sends what is due, a batch at most.
    fn turn(&mut self) -> io::Result<Step> {
        let now = self.start.elapsed();
        if self.is_over(now) {
            return Ok(Step::End);
        }
        if self.paused_at.is_some() {
            return Ok(Step::GoOn);
        }
        let mut ahead = self.sender.schedule.clone();
        let mut batch = Vec::with_capacity(BATCH_PACKETS);
        while batch.len() < BATCH_PACKETS && !self.is_last(batch.len()) {
            let due = ahead.peek();
            if due.at > now || self.sender.duration.is_some_and(|end| due.at >= end) {
                break;
            }
            batch.push(self.packet(batch.len(), due.octets));
            ahead.advance();
        }
        if batch.is_empty() {
            return Ok(Step::GoOn);
        }
        self.sent.latest = self
            .sent
            .latest
            .max(now.saturating_sub(self.sender.schedule.peek().at));
        let packets: Vec<Packet> = batch.iter().map(|(packet, _)| *packet).collect();
        let outcome = self.carrier.send(&packets)?;
        self.take_back(outcome.refused);
        let gone = outcome.left + outcome.failed;
        for (_, sample) in batch.iter().take(outcome.left) {
            self.sent.packets += 1;
            self.sent.octets += u64::from(sample.octets);
            self.last_octets = sample.octets;
            self.meter.packet(sample);
        }
        self.sent.failed += u64::try_from(outcome.failed).unwrap_or(u64::MAX);
        self.number += u64::try_from(gone).unwrap_or(u64::MAX);
        for _ in 0..gone {
            self.sender.schedule.advance();
        }
        Ok(Step::GoOn)
    }

    /// Waits until the packets under way have left; the last one counts as not sent if it has not.
    fn finish(&mut self) -> io::Result<()> {
        if self.carrier.finish()? == Ending::Cut {
            self.take_back(1);
        }
        Ok(())
    }

    /// So many of the packets that were counted as sent found no way.
    fn take_back(&mut self, packets: usize) {
        let packets = u64::try_from(packets).unwrap_or(u64::MAX);
        let octets = packets.saturating_mul(self.last_octets.into());
        self.sent.packets = self.sent.packets.saturating_sub(packets);
        self.sent.octets = self.sent.octets.saturating_sub(octets);
        self.sent.failed += packets;
    }

    fn packet(&self, place: usize, octets: u32) -> (Packet, Sample) {
        let number = self.number + u64::try_from(place).unwrap_or_default() + 1;
        // As in OTG, numbers begin anew after the last one of 32 bits.
        let number = u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default();
        let at_ns = now_ns();
        let packet = Packet {
            header: (self.sender.header)(self.sender.flow, number, at_ns),
            octets: usize::try_from(octets).unwrap_or(HEADER_OCTETS),
        };
        let sample = Sample {
            at_ns,
            flow: self.sender.flow,
            number,
            octets,
            peer: self.sender.to,
        };
        (packet, sample)
    }

    fn is_over(&self, now: Duration) -> bool {
        self.sender.duration.is_some_and(|end| now >= end) || self.is_last(0)
    }

    fn is_last(&self, more: usize) -> bool {
        let number = self.number + u64::try_from(more).unwrap_or(u64::MAX);
        self.sender.count.is_some_and(|count| number >= count)
    }

    /// Sleeps until a packet or a planned command is due; a line that comes meanwhile is returned.
    fn wait(&self, lines: &mut Option<Lines<String>>) -> Option<String> {
        let packet = self.sender.schedule.peek().at;
        let planned = self.sender.planned.last().map(|planned| planned.at);
        let packet = self.paused_at.is_none().then_some(packet);
        let next = [packet, planned, self.sender.duration]
            .into_iter()
            .flatten()
            .min();
        let now = self.start.elapsed();
        let wait = next.map_or(LOOK, |at| at.saturating_sub(now).min(LOOK));
        if let Some(source) = lines {
            match source.recv_timeout(wait) {
                Ok(line) => return Some(line),
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => *lines = None,
            }
        }
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        None
    }

    fn obey_planned(&mut self, wrong: impl Fn(&CommandError)) -> Step {
        let now = self.start.elapsed();
        while let Some(planned) = self.sender.planned.pop_if(|planned| planned.at <= now) {
            if self.obey(&planned.command, now, &wrong) == Step::End {
                return Step::End;
            }
        }
        Step::GoOn
    }

    fn obey_line(&mut self, line: &str, wrong: impl Fn(&CommandError)) -> Step {
        if line.trim().is_empty() {
            return Step::GoOn;
        }
        match line.parse() {
            Ok(command) => self.obey(&command, self.start.elapsed(), wrong),
            Err(error) => {
                wrong(&error);
                Step::GoOn
            }
        }
    }

    fn obey(&mut self, command: &Command, now: Duration, wrong: impl Fn(&CommandError)) -> Step {
        match command {
            Command::Exit => return Step::End,
            Command::Pause => self.paused_at = self.paused_at.or(Some(now)),
            Command::Resume => {
                if let Some(since) = self.paused_at.take() {
                    self.sender.schedule.shift(now.saturating_sub(since));
                }
            }
            Command::Set { name, value } => {
                let schedule = &mut self.sender.schedule;
                // A pause counts from its beginning, and is added when it ends.
                let from = self.paused_at.unwrap_or(now);
                let changed = change(schedule.pattern(), name, value);
                let done = changed.and_then(|pattern| Ok(schedule.change(from, pattern)?));
                if let Err(error) = done {
                    wrong(&error);
                }
            }
        }
        Step::GoOn
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::mpsc;

    use super::*;
    use crate::traffic::carrier::{Null, Outcome};
    use crate::traffic::header::Header;
    use crate::traffic::schedule::{Bursts, Pace, Pattern};

    fn sender(bits_per_s: u64) -> Sender {
        let pattern = Pattern {
            octets: 125,
            pace: Pace::BitsPerS(bits_per_s),
            bursts: Bursts::Always,
        };
        Sender {
            schedule: Schedule::new(pattern, 1).unwrap(),
            flow: 7,
            to: SocketAddr::from(([127, 0, 0, 1], 3_000)),
            header: Header::of_packet,
            duration: None,
            count: None,
            planned: Vec::new(),
        }
    }

    #[derive(Default)]
    struct Samples(Vec<Sample>);

    impl Meter for Samples {
        fn packet(&mut self, sample: &Sample) {
            self.0.push(*sample);
        }
    }

    fn never() -> bool {
        false
    }

    fn unexpected(error: &CommandError) {
        panic!("{error}");
    }

    #[test]
    fn every_packet_is_told_once_with_its_number_until_the_count() {
        let mut samples = Samples::default();
        let sender = Sender {
            count: Some(1_000),
            ..sender(1_000_000_000)
        };
        let sent = sender
            .run(&mut Null, &mut samples, None, never, unexpected)
            .unwrap();
        assert_eq!(
            (sent.packets, sent.octets, sent.failed),
            (1_000, 125_000, 0)
        );
        let numbers: Vec<u32> = samples.0.iter().map(|sample| sample.number).collect();
        assert_eq!(numbers, (1..=1_000).collect::<Vec<_>>());
        assert!(samples.0.is_sorted_by_key(|sample| sample.at_ns));
    }

    #[test]
    fn nothing_leaves_before_its_time_and_all_that_is_due_by_the_end_does() {
        let mut samples = Samples::default();
        // A packet each millisecond.
        let sender = Sender {
            duration: Some(Duration::from_millis(50)),
            ..sender(1_000_000)
        };
        let start = now_ns();
        sender
            .run(&mut Null, &mut samples, None, never, unexpected)
            .unwrap();
        for (due_ms, sample) in (0..).zip(&samples.0) {
            assert!(
                sample.at_ns >= start + due_ms * 1_000_000,
                "packet {due_ms}"
            );
        }
        assert!((1..=50).contains(&samples.0.len()));
    }

    /// Has room for three packets a call, and every second call for none.
    #[derive(Default)]
    struct Narrow(u64);

    impl Carrier for Narrow {
        fn send(&mut self, packets: &[Packet]) -> io::Result<Outcome> {
            self.0 += 1;
            Ok(match self.0 % 3 {
                0 => Outcome::default(),
                1 => Outcome {
                    failed: 1,
                    ..Outcome::default()
                },
                _ => Outcome {
                    left: packets.len().min(3),
                    ..Outcome::default()
                },
            })
        }
    }

    #[test]
    fn what_a_carrier_does_not_take_leaves_later_and_what_finds_no_way_is_counted() {
        let mut samples = Samples::default();
        let sender = Sender {
            count: Some(100),
            ..sender(1_000_000_000)
        };
        let sent = sender.run(
            &mut Narrow::default(),
            &mut samples,
            None,
            never,
            unexpected,
        );
        let sent = sent.unwrap();
        assert_eq!(sent.packets + sent.failed, 100);
        assert!(sent.failed > 0);
        assert!(
            samples
                .0
                .is_sorted_by(|first, second| first.number < second.number)
        );
        assert_eq!(u64::try_from(samples.0.len()).unwrap(), sent.packets);
    }

    #[test]
    fn commands_are_followed_in_their_time() {
        let (lines, source) = mpsc::channel();
        lines.send("pause\n".to_owned()).unwrap();
        lines.send("cbr:size 64".to_owned()).unwrap();
        lines.send("resume".to_owned()).unwrap();
        let mut samples = Samples::default();
        let planned = |at_ms, command: &str| Planned {
            at: Duration::from_millis(at_ms),
            command: command.parse().unwrap(),
        };
        let sender = Sender {
            planned: vec![planned(60, "exit"), planned(30, "cbr:size 32")],
            ..sender(1_000_000)
        };
        let sent = sender
            .run(&mut Null, &mut samples, Some(source), never, unexpected)
            .unwrap();
        assert!(sent.elapsed >= Duration::from_millis(60));
        let sizes: Vec<u32> = samples.0.iter().map(|sample| sample.octets).collect();
        let mut kinds = sizes.clone();
        kinds.dedup();
        assert!(kinds.ends_with(&[64, 32]), "{kinds:?}");
    }

    #[test]
    fn what_changes_in_a_pause_holds_when_it_ends_and_no_later() {
        let mut run = Run {
            sender: sender(1_000_000),
            carrier: &mut Null,
            meter: &mut (),
            start: Instant::now(),
            paused_at: None,
            number: 0,
            sent: Sent::default(),
            last_octets: 0,
        };
        for (at_s, line) in [(10, "pause"), (14, "cbr:rate 500000"), (30, "resume")] {
            run.obey(
                &line.parse().unwrap(),
                Duration::from_secs(at_s),
                unexpected,
            );
        }
        assert_eq!(run.sender.schedule.peek().at, Duration::from_secs(30));
    }

    #[test]
    fn a_command_that_cannot_be_followed_is_told_and_the_flow_goes_on() {
        let (lines, source) = mpsc::channel();
        lines.send("cbr:rate 0".to_owned()).unwrap();
        let told = std::cell::Cell::new(0);
        let sender = Sender {
            duration: Some(Duration::from_millis(20)),
            ..sender(1_000_000)
        };
        let wrong = |_: &CommandError| told.set(told.get() + 1);
        let sent = sender
            .run(&mut Null, &mut (), Some(source), never, wrong)
            .unwrap();
        assert_eq!(told.get(), 1);
        assert!(sent.packets > 1);
    }
}
