//! The driver of two channels: packets from one end's device to the other's, at the time that a channel says.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant as SystemInstant};

use dhow_bundle::Instant;
use dhow_channel::channel::Contact;
use dhow_channel::{Channel, Counters, Delay, Profile, RateTrace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::control::Control;
use super::place::Place;
use super::port::{PACKET_OCTETS_MAX, Port, PortError, Taken};
use super::spool::Spool;

/// Packets read of one end before those of the other and those that arrive have their turn.
const BATCH_PACKETS: usize = 256;

/// The longest sleep of the emulator between two looks at whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// The longest time by which a packet may arrive late: packets due within it travel together, so that a busy link
/// costs some thousand turns a second and not one for each packet. A device holds 500 packets until they are read.
const GATHERING: Duration = Duration::from_micros(200);

/// Why a link cannot be emulated any longer, or at all.
#[derive(Debug, thiserror::Error)]
pub enum EmulateError {
    /// An end cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A device failed.
    #[error("interface failed: {0}")]
    Device(io::Error),
    /// The disk does not hold the packets under way.
    #[error("packets under way cannot be held on disk: {0}")]
    Spool(io::Error),
    /// The source of contacts' beginnings and ends failed.
    #[error("standard input failed: {0}")]
    Control(io::Error),
}

impl EmulateError {
    /// The advice for a person, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Port(error) => error.hint(),
            Self::Spool(_) => Some(
                "what the rate moves in the delay must have room there: free some, or choose a directory of another disk"
                    .to_owned(),
            ),
            Self::Device(_) | Self::Control(_) => None,
        }
    }
}

/// The counters so far, of packets to the right and to the left, to be read while the emulator runs.
pub type Tally = Arc<Mutex<(Counters, Counters)>>;

/// When a trace of a rate begins, once that is known.
pub type TraceStart = Arc<OnceLock<SystemInstant>>;

/// A link between two places: open for as long as this lives, at work while it runs.
pub struct Emulator {
    left: Port,
    right: Port,
    rightward: Channel<Spool>,
    leftward: Channel<Spool>,
    control: Option<Control>,
    tally: Option<Tally>,
    start: SystemInstant,
    /// When the trace of its rate begins, until it has.
    trace_start: Option<TraceStart>,
}

impl Emulator {
    /// Opens both ends; the profile holds for each direction, and the seeds of their losses differ. Packets under way beyond 64 MiB of each
    /// direction are in files without names in `directory`.
    ///
    /// # Errors
    /// When an end cannot be opened.
    pub fn open(
        left: &Place,
        right: &Place,
        mtu: u16,
        profile: Profile,
        seed: u64,
        directory: &Path,
    ) -> Result<Self, EmulateError> {
        let channel = |seed| {
            let spool = || Spool::new(directory.to_owned());
            Channel::holding(profile, seed, spool(), spool())
        };
        Ok(Self {
            left: Port::open(left, mtu)?,
            right: Port::open(right, mtu)?,
            rightward: channel(seed),
            leftward: channel(!seed),
            control: None,
            tally: None,
            start: SystemInstant::now(),
            trace_start: None,
        })
    }

    /// With lines `down` and `up` from a source ending and beginning the contact, unnoticed by both ends.
    #[must_use]
    pub fn with_control(mut self, source: OwnedFd) -> Self {
        self.control = Some(Control::new(source));
        self
    }

    /// With counters that are kept where others can see them.
    #[must_use]
    pub fn with_tally(mut self, tally: Tally) -> Self {
        self.tally = Some(tally);
        self
    }

    /// With a rate that follows a trace in each direction. It begins when `start` says, and before that is known, when the link was made.
    #[must_use]
    pub fn with_trace(mut self, trace: RateTrace, start: TraceStart) -> Self {
        self.rightward = self.rightward.with_trace(trace.clone());
        self.leftward = self.leftward.with_trace(trace);
        self.trace_start = Some(start);
        self
    }

    /// With a delay that changes in time, which begins as a trace does.
    #[must_use]
    pub fn with_delay(mut self, delay: Delay, start: TraceStart) -> Self {
        self.rightward = self.rightward.with_delay(delay.clone());
        self.leftward = self.leftward.with_delay(delay);
        self.trace_start = Some(start);
        self
    }

    /// Carries packets until `stop` says so; it is asked ten times a second at least. `said` is told of every
    /// line of its control: that a contact began or ended, or what is no such line.
    ///
    /// # Errors
    /// When a device fails.
    pub fn run(
        &mut self,
        stop: impl Fn() -> bool,
        said: impl Fn(&Result<Contact, String>),
    ) -> Result<(), EmulateError> {
        let mut buffer = [0; PACKET_OCTETS_MAX];
        while !stop() {
            let more = self.turn(&mut buffer).map_err(EmulateError::Device)?;
            let spools = [&self.rightward, &self.leftward].map(Channel::under_way);
            if let Some(failure) = spools.into_iter().flatten().find_map(Spool::failure) {
                return Err(EmulateError::Spool(failure));
            }
            if more {
                continue;
            }
            if let Some(tally) = &self.tally {
                let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                *tally = self.counters();
            }
            if self.sleep()? {
                self.obey(&said)?;
            }
        }
        Ok(())
    }

    /// The counters of packets: to the right, to the left.
    #[must_use]
    pub const fn counters(&self) -> (Counters, Counters) {
        (self.rightward.counters(), self.leftward.counters())
    }

    /// Delivers what has arrived and takes what is sent; true when there may be more at once.
    fn turn(&mut self, buffer: &mut [u8; PACKET_OCTETS_MAX]) -> io::Result<bool> {
        self.begin_trace();
        let now = self.now();
        let mut more = false;
        for (near, channel, far) in [
            (&self.left, &mut self.rightward, &self.right),
            (&self.right, &mut self.leftward, &self.left),
        ] {
            while let Some(packet) = channel.poll_packet(now) {
                if far.send(&packet)? == Taken::Not {
                    channel.handle_refusal(&packet);
                }
            }
            let mut taken = 0;
            while taken < BATCH_PACKETS
                && let Some(packet) = near.receive(buffer)?
            {
                channel.handle_packet(now, packet);
                taken += 1;
            }
            more |= taken == BATCH_PACKETS;
        }
        Ok(more)
    }

    /// Waits for packets, their time, or a line; true when there is a line.
    fn sleep(&self) -> Result<bool, EmulateError> {
        let now = self.now();
        let next = [self.rightward.poll_timeout(), self.leftward.poll_timeout()];
        let wait = next
            .into_iter()
            .flatten()
            .min()
            .map_or(LOOK, |at| at.since(now).max(GATHERING).min(LOOK));
        let mut sources = vec![
            PollFd::new(&self.left, PollFlags::IN),
            PollFd::new(&self.right, PollFlags::IN),
        ];
        if let Some(source) = self.control.as_ref().and_then(Control::source) {
            sources.push(PollFd::from_borrowed_fd(source, PollFlags::IN));
        }
        let timeout = Timespec::try_from(wait).unwrap_or_default();
        match poll(&mut sources, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(EmulateError::Device(error.into())),
        }
        let line = sources
            .get(2)
            .is_some_and(|source| !source.revents().is_empty());
        Ok(line)
    }

    fn obey(&mut self, said: impl Fn(&Result<Contact, String>)) -> Result<(), EmulateError> {
        let now = self.now();
        let Some(control) = &mut self.control else {
            return Ok(());
        };
        for line in control.read().map_err(EmulateError::Control)? {
            if let Ok(contact) = line {
                self.rightward.handle_contact(now, contact);
                self.leftward.handle_contact(now, contact);
            }
            said(&line);
        }
        Ok(())
    }

    fn begin_trace(&mut self) {
        let start = self.trace_start.as_ref().and_then(|start| start.get());
        let Some(start) = start.copied() else {
            return;
        };
        let at = Instant::START + start.saturating_duration_since(self.start);
        let now = self.now();
        self.rightward.handle_start(now, at);
        self.leftward.handle_start(now, at);
        self.trace_start = None;
    }

    fn now(&self) -> Instant {
        let nanos = self.start.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
