//! Packets in both directions: from the queue into bundles, and from bundles to the device.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use dhow_bundle::EndpointId;
use dhow_client::{Created, Delivery, Error, Refusal, SendHead, Sender};
use serde::Serialize;
use tun_rs::SyncDevice;

use super::absence::{Absence, Seen};
use super::packets;
use super::queue::{Batch, Queue};
use crate::application::{Arrival, Subscription};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::notes::Notes;
use crate::output;
use crate::quantity;
use crate::steady_sender::{PATIENCE, SteadySender};

/// Octets of packets that leave in one bundle, at most, but for one that is larger.
const BUNDLE_OCTETS: usize = 64 << 10;

/// Octets of a bundle that is taken from the other end, at most.
const TAKEN_OCTETS: u64 = 16 << 20;

/// Bundles that the node has not answered, at most: packets that come meanwhile leave together.
const UNANSWERED: usize = 4;

/// The time for which answers are still waited for after Ctrl-C: shorter than the time after which it ends the command.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Counts of packets, octets of them and bundles in both directions, and of what was lost here.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Counts {
    sent_packets: u64,
    sent_octets: u64,
    sent_bundles: u64,
    received_packets: u64,
    received_octets: u64,
    received_bundles: u64,
    /// Packets for which the queue had no room, or that the other end could not read.
    dropped_packets: u64,
    /// Packets in bundles that the node refused.
    refused_packets: u64,
    /// Packets that the device did not take, and bundles that have none or are not the other end's.
    not_taken: u64,
}

impl Counts {
    /// The counts for people.
    pub fn text(&self, device: &str) -> String {
        let count = |packets: u64, octets: u64, bundles: u64| {
            format!(
                "{} packets ({}) in {} bundles",
                quantity::thousands(packets),
                quantity::size(octets),
                quantity::thousands(bundles)
            )
        };
        let lost = self.dropped_packets + self.refused_packets + self.not_taken;
        format!(
            "{device}: sent {}, received {}, lost {} here",
            count(self.sent_packets, self.sent_octets, self.sent_bundles),
            count(
                self.received_packets,
                self.received_octets,
                self.received_bundles
            ),
            quantity::thousands(lost)
        )
    }
}

#[derive(Debug, Default)]
struct Tally {
    sent_packets: AtomicU64,
    sent_octets: AtomicU64,
    sent_bundles: AtomicU64,
    received_packets: AtomicU64,
    received_octets: AtomicU64,
    received_bundles: AtomicU64,
    refused_packets: AtomicU64,
    not_taken: AtomicU64,
}

/// Why packets or bundles are lost here; those of each cause are told by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// The node has no room for a bundle.
    Refused,
    /// A bundle is not the other end's.
    Stranger,
    /// A bundle is too large.
    TooLarge,
    /// Octets are no packet.
    NoPacket,
    /// The device does not take a packet.
    Device,
    /// The node is away.
    Away,
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn length(octets: &[u8]) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}

/// A tunnel at work.
pub struct Traffic<'a> {
    device: &'a SyncDevice,
    queue: &'a Queue,
    remote: &'a EndpointId,
    /// Octets of a payload that the node takes, at most.
    octets_max: usize,
    tally: Tally,
    notes: Mutex<Notes<Cause>>,
    /// Whether one direction has ended, and so does the other.
    is_over: AtomicBool,
}

impl<'a> Traffic<'a> {
    /// Nothing has been carried; the node takes payloads of `octets_max` at most, where it says so.
    pub fn new(
        device: &'a SyncDevice,
        queue: &'a Queue,
        remote: &'a EndpointId,
        octets_max: Option<u64>,
    ) -> Self {
        let most = octets_max.and_then(|it| usize::try_from(it).ok());
        Self {
            device,
            queue,
            remote,
            octets_max: most.map_or(BUNDLE_OCTETS, |most| most.min(BUNDLE_OCTETS)),
            tally: Tally::default(),
            notes: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// The traffic so far.
    pub fn counts(&self) -> Counts {
        let tally = &self.tally;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            sent_packets: of(&tally.sent_packets),
            sent_octets: of(&tally.sent_octets),
            sent_bundles: of(&tally.sent_bundles),
            received_packets: of(&tally.received_packets),
            received_octets: of(&tally.received_octets),
            received_bundles: of(&tally.received_bundles),
            dropped_packets: self.queue.dropped(),
            refused_packets: of(&tally.refused_packets),
            not_taken: of(&tally.not_taken),
        }
    }

    /// Carries packets in both directions until Ctrl-C, or until one direction fails.
    pub fn carry(
        &self,
        head: &SendHead,
        sender: SteadySender<Batch>,
        subscription: Subscription,
    ) -> Result<Ending, Failure> {
        let (sent, received) = thread::scope(|scope| {
            let receiving = scope.spawn(|| self.until_over(self.receive(subscription)));
            let sent = self.until_over(self.send(head, sender));
            let received = receiving.join();
            (
                sent,
                received.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
        });
        sent?;
        received?;
        Ok(Ending::Interrupted)
    }

    fn until_over(&self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        outcome
    }

    fn goes_on(&self) -> bool {
        !interrupt::is_requested() && !self.is_over.load(Ordering::Relaxed)
    }

    fn send(&self, head: &SendHead, mut sender: SteadySender<Batch>) -> Result<(), Failure> {
        let mut write = |sender: &mut Sender, batch: &Batch| -> Result<(), Error> {
            sender.send_octets(head, &batch.octets).map(|_| ())
        };
        while self.goes_on() {
            while let Some((batch, answer)) = sender.poll_answer(&mut write)? {
                self.answered(&batch, answer)?;
            }
            if sender.unanswered() >= UNANSWERED {
                if let Some((batch, answer)) = sender.next_answer(LOOK, &mut write)? {
                    self.answered(&batch, answer)?;
                }
                continue;
            }
            let batch = self.queue.take(self.octets_max, LOOK);
            let batch = batch.map_err(|error| {
                Failure::refused(format!("the network device gives no more packets: {error}"))
                    .with_hint("somebody may have removed it; the same command makes it again")
            })?;
            if batch.packets > 0 {
                sender.send(batch, &mut write)?;
                sender.flush(&mut write)?;
            }
        }
        let ended = Instant::now();
        while sender.unanswered() > 0 && ended.elapsed() < LAST_ANSWERS {
            if let Some((batch, answer)) = sender.next_answer(LOOK, &mut write)? {
                self.answered(&batch, answer)?;
            }
        }
        Ok(())
    }

    /// The node has answered; a refusal that is none of the moment is one of all packets that come after these.
    fn answered(&self, batch: &Batch, answer: Result<Created, Refusal>) -> Result<(), Failure> {
        match answer {
            Ok(_) => {
                add(&self.tally.sent_bundles, 1);
                add(&self.tally.sent_packets, batch.packets);
                add(&self.tally.sent_octets, length(&batch.octets));
            }
            Err(refusal) => {
                add(&self.tally.refused_packets, batch.packets);
                if !refusal.is_temporary() {
                    return Err(
                        Failure::refused(format!("the node takes no packets: {refusal}"))
                            .with_hint("the tunnel can begin with options that the node allows"),
                    );
                }
                self.note(Cause::Refused, &format!("packets are lost: {refusal}"));
            }
        }
        Ok(())
    }

    fn receive(&self, mut subscription: Subscription) -> Result<(), Failure> {
        let mut absence = Absence::default();
        while self.goes_on() {
            if let Arrival::Delivery(receipt) =
                subscription.poll(LOOK, |delivery| self.take(delivery))?
                && let Some(receipt) = receipt
            {
                subscription.confirm(receipt);
            }
            match absence.look(Instant::now(), subscription.is_away(), PATIENCE) {
                Seen::Same => {}
                Seen::Gone => self.note(Cause::Away, "the node is away: no packets come"),
                Seen::Back => self.note(Cause::Away, "the node is back: packets come again"),
                Seen::TooLong => {
                    let away = quantity::elapsed(PATIENCE);
                    let what = format!("the node has been away for more than {away}");
                    return Err(Failure::refused(what)
                        .with_hint("once it runs, the same command makes the tunnel again"));
                }
            }
        }
        Ok(())
    }

    /// Gives the packets of a bundle to the system; what to confirm, where it was read to its end.
    fn take(&self, mut delivery: Delivery<'_>) -> Option<dhow_client::Receipt> {
        let receipt = delivery.receipt();
        let (id, octets) = (&delivery.head().id, delivery.head().payload_octets);
        if id.source != *self.remote {
            self.lose(
                Cause::Stranger,
                &format!("bundle {id} is not of {}", self.remote),
            );
            return Some(receipt);
        }
        if octets > TAKEN_OCTETS {
            self.lose(
                Cause::TooLarge,
                &format!("bundle {id} is too large for packets"),
            );
            return Some(receipt);
        }
        let id = id.to_string();
        let mut payload = Vec::new();
        let read = delivery.read_to_end(&mut payload);
        if !read.is_ok_and(|read| u64::try_from(read) == Ok(octets)) {
            return None;
        }
        add(&self.tally.received_bundles, 1);
        for packet in packets::of(&payload) {
            let Ok(packet) = packet else {
                self.lose(
                    Cause::NoPacket,
                    &format!("bundle {id} has something that is no IP packet"),
                );
                break;
            };
            match self.device.send(packet) {
                Ok(_) => {
                    add(&self.tally.received_packets, 1);
                    add(&self.tally.received_octets, length(packet));
                }
                Err(error) => self.lose(
                    Cause::Device,
                    &format!("the device takes no packet: {error}"),
                ),
            }
        }
        Some(receipt)
    }

    fn lose(&self, cause: Cause, why: &str) {
        add(&self.tally.not_taken, 1);
        self.note(cause, why);
    }

    fn note(&self, cause: Cause, text: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = notes.note(Instant::now(), cause, text) {
            output::note(&text);
        }
    }
}
