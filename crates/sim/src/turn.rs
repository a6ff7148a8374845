//! A node's turn: it has been told something, and everything that it asks for is done.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::FragmentRange;
use dhow_bundle::router::DropPolicy;
use dhow_bundle::storage::{Extents, Piece, StoreCommand, StoreEvent};
use dhow_node::driver::{Action, Carrier, Event, Occurrence, Path, Ticket};

use crate::clients::CLIENT;
use crate::connection::length;
use crate::ledger::BundleName;
use crate::machine::{Retry, Running};
use crate::network::is_traffic;
use crate::oracle::{Given, Room, crowded, overfull};
use crate::queue::{Life, MachineIndex, Occurrent};
use crate::trace::What;
use crate::world::{HOPS_TOLD, World};

/// The time for which a store that refuses everything waits before it tries again, as the daemon's does.
const STORE_RETRY: Duration = Duration::from_secs(1);

impl World {
    /// Tells a node something and does what follows.
    pub(crate) fn tell(&mut self, at: MachineIndex, event: Event) {
        if let Some(running) = self.running_mut(at) {
            running.inbox.push_back(event);
            self.turn(at);
        }
    }

    pub(crate) fn running_mut(&mut self, at: MachineIndex) -> Option<&mut Running> {
        self.machines.get_mut(at.at())?.running.as_mut()
    }

    /// Whether a machine is up, in this life.
    pub(crate) fn lives(&self, at: MachineIndex, life: Life) -> bool {
        let machine = self.machines.get(at.at());
        machine.is_some_and(|machine| machine.running.is_some() && machine.life == life)
    }

    /// Everything that a node has to be told and asks for, until nothing is left.
    pub(crate) fn turn(&mut self, at: MachineIndex) {
        let now = self.now;
        loop {
            let Some(running) = self.running_mut(at) else {
                return;
            };
            let shown = running.now(now);
            if let Some(action) = running.node.poll(shown) {
                self.carry_out(at, action);
                continue;
            }
            let Some(event) = self.next_event(at) else {
                break;
            };
            self.note_event(at, &event);
            if let Some(running) = self.running_mut(at) {
                running.node.handle(shown, event);
            }
        }
        self.arm(at);
    }

    /// The next event for a node that wants nothing done.
    fn next_event(&mut self, at: MachineIndex) -> Option<Event> {
        loop {
            let event = self.running_mut(at)?.inbox.pop_front();
            if event.is_some() || !self.feed(at) && !self.begin_flush(at) {
                return event;
            }
        }
    }

    /// Sets the timer, where it is wanted earlier than it is set for.
    fn arm(&mut self, at: MachineIndex) {
        let now = self.now;
        let machine = self.machines.get(at.at());
        let Some((machine, armed)) = machine.zip(self.armed.get_mut(at.at())) else {
            return;
        };
        let life = machine.life;
        let Some(running) = &machine.running else {
            return;
        };
        let Some(due) = running.node.poll_timeout() else {
            return;
        };
        let due = running.clock.truth(due).max(now);
        if armed.is_none_or(|(then, armed)| then != life || due < armed) {
            *armed = Some((life, due));
            self.queue.push(due, Occurrent::Timer(at, life));
        }
    }

    pub(crate) fn timer(&mut self, at: MachineIndex, life: Life) {
        let now = self.now;
        let armed = self.armed.get(at.at()).copied().flatten();
        // Most of those for which another was set meanwhile are in the queue for long.
        if armed != Some((life, now)) || !self.lives(at, life) {
            return;
        }
        if let Some(armed) = self.armed.get_mut(at.at()) {
            *armed = None;
        }
        let Some(running) = self.running_mut(at) else {
            return;
        };
        let shown = running.now(now);
        if running
            .node
            .poll_timeout()
            .is_some_and(|due| due <= shown.monotonic)
        {
            running.node.handle_timeout(shown);
            self.note(at, What::Timer, 0, &[]);
        }
        self.turn(at);
    }

    pub(crate) fn note_event(&mut self, at: MachineIndex, event: &Event) {
        let amount = |octets: &Bytes| u64::try_from(octets.len()).unwrap_or(u64::MAX);
        match event {
            Event::Octets { stream, octets } => {
                let what = if stream.0 & CLIENT == 0 {
                    What::Octets
                } else {
                    What::Application
                };
                self.note(at, what, amount(octets), octets);
            }
            Event::Datagrams { datagrams, .. } => {
                for datagram in datagrams {
                    self.note(at, What::Datagram, amount(datagram), datagram);
                }
            }
            Event::Left { datagrams, .. } => self.note(at, What::Left, *datagrams, &[]),
            Event::Store(event) => {
                let key = match event {
                    StoreEvent::Durable { key, .. }
                    | StoreEvent::DurableParts { key, .. }
                    | StoreEvent::Written { key, .. }
                    | StoreEvent::Stored { key, .. }
                    | StoreEvent::Deleted { key }
                    | StoreEvent::Relocated { key, .. }
                    | StoreEvent::Refused { key, .. }
                    | StoreEvent::Verified { key }
                    | StoreEvent::Corrupt { key }
                    | StoreEvent::Noted { key, .. } => u64::from(key.0),
                    StoreEvent::Reserved { sequence, .. } => *sequence,
                    StoreEvent::Capacity { octets, .. } => *octets,
                };
                self.note(at, What::Stored, key, &[]);
            }
            Event::Read { octets, .. } => {
                let count = octets.as_ref().map_or(0, amount);
                self.note(at, What::Read, count, &[]);
            }
            Event::Connected { stream, .. } => self.note(at, What::Connected, stream.0, &[]),
            Event::Disconnected { stream } => self.note(at, What::Disconnected, stream.0, &[]),
            Event::DialFailed { link, .. } => {
                self.note(at, What::DialFailed, u64::from(link.0), &[]);
            }
            Event::CarrierChanged { link, carrier } => {
                let what = match carrier {
                    Carrier::Present => What::CarrierFound,
                    Carrier::Absent => What::CarrierLost,
                };
                self.note(at, what, u64::from(link.0), &[]);
            }
            Event::NetworkChanged => self.note(at, What::Network, 0, &[]),
            Event::PathChecked { stream, .. } => self.note(at, What::Path, stream.0, &[]),
            _ => {}
        }
    }

    fn carry_out(&mut self, at: MachineIndex, action: Action) {
        match action {
            Action::Store(command) => self.ask_store(at, command),
            Action::Read { ticket, extents } => self.begin_read(at, ticket, extents),
            Action::Dial { link } => self.dial(at, link),
            Action::StopDialling { link } => self.stop_dialling(at, link),
            Action::CheckPath { stream } => {
                let is_connection = stream.0 & CLIENT == 0 && !Self::is_conversation(stream);
                let path = if is_connection {
                    self.path(at, stream)
                } else {
                    Path::Open
                };
                if let Some(running) = self.running_mut(at) {
                    running.inbox.push_back(Event::PathChecked { stream, path });
                }
            }
            Action::Flush { stream } if stream.0 & CLIENT != 0 => self.write_client(at, stream),
            Action::Flush { stream } if Self::is_conversation(stream) => {
                self.flush_datagrams(at, stream);
            }
            // No scenario has TLS.
            Action::Flush { stream } | Action::StartTls { stream } => self.flush_stream(at, stream),
            Action::Abort { stream } | Action::Close { stream }
                if Self::is_conversation(stream) =>
            {
                self.end_conversation(stream);
            }
            Action::Abort { stream } => self.abort(at, stream),
            Action::Close { stream } if stream.0 & CLIENT != 0 => {
                self.write_client(at, stream);
                self.close_client(at, stream);
            }
            Action::Close { stream } => self.close(at, stream),
            Action::Answer { .. } => {}
            Action::Occurred(occurrence) => self.occurred(at, &occurrence),
            // No scenario has neighbours that are found.
            Action::Announce(..) | Action::LinkFound(_) => {}
        }
    }

    fn occurred(&mut self, at: MachineIndex, occurrence: &Occurrence) {
        match occurrence {
            Occurrence::Delivered { id, .. } if is_traffic(&id.source) => {
                let running = self
                    .machines
                    .get(at.at())
                    .and_then(|it| it.running.as_ref());
                if let Some(hops) = running.and_then(|it| it.node.hops(id)) {
                    // The source counts no hop.
                    let place = (usize::from(hops) + 1).min(HOPS_TOLD - 1);
                    if let Some(count) = self.counts.hops.get_mut(place) {
                        *count += 1;
                    }
                }
            }
            Occurrence::Received { .. } => self.counts.received += 1,
            Occurrence::Forwarded { id, .. } => {
                self.counts.forwarded += 1;
                self.counts.relayed += u64::from(is_traffic(&id.source));
            }
            Occurrence::Duplicate { .. } => self.counts.duplicates += 1,
            Occurrence::StoreRefused { .. } => self.counts.store_refusals += 1,
            Occurrence::Deleted { reason: 1, .. } => self.counts.expired += 1,
            // Depleted storage (RFC 9171 table 1).
            Occurrence::Deleted { id, reason: 4 } if is_traffic(&id.source) => {
                self.counts.dropped += 1;
            }
            _ => {}
        }
    }

    fn ask_store(&mut self, at: MachineIndex, command: StoreCommand) {
        if let StoreCommand::Delete { key, .. } = command {
            self.judge_letting_go(at, key);
            self.judge_dropping(at, key);
            self.count_store_time(at, key);
        }
        let lost = match command {
            StoreCommand::Commit { .. }
            | StoreCommand::Note { .. }
            | StoreCommand::Delete { .. }
            | StoreCommand::Abandon { .. } => {
                let times = (self.now, self.tolerance());
                let station = self.voyages.as_ref().and_then(|it| it.station(at));
                let given: Given<'_> =
                    &|name, range| station.is_some_and(|it| it.has_given(name, range));
                let beside = (&mut self.ledger, given);
                self.kept.handle_command(at, &command, beside, times)
            }
            _ => None,
        };
        let room = self.room(at);
        let given = match &command {
            StoreCommand::Append { key, .. } | StoreCommand::AppendAt { key, .. } => {
                self.kept.handle_append(at, *key, command.octets());
                self.kept.given_octets(at, room)
            }
            _ => 0,
        };
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        let mut beyond = crowded(&machine.blueprint.config, given);
        if let Some(running) = &mut machine.running {
            let octets = match &command {
                StoreCommand::Append {
                    octets: Piece::Octets(octets),
                    ..
                }
                | StoreCommand::AppendAt { octets, .. } => length(octets),
                _ => 0,
            };
            if octets > 0 {
                running.batch_octets += octets;
                let waiting = running.batch_octets + running.flushing_octets;
                beyond = beyond.or_else(|| overfull(&machine.blueprint.config, waiting));
            }
            running.batch.push(command);
        }
        if let Some(what) = beyond {
            let sentence = format!("node {}: {what}", self.name(at));
            self.accuse("within", sentence, &[at]);
        }
        if let Some(lost) = lost
            && !self.may_lose(at, lost.unit)
        {
            let how = format!("is deleted by {}, which has the last copy", self.name(at));
            self.accuse_lost(&[lost], &how, Some(at));
        }
    }

    /// When the room of bundles that are deleted is there for others.
    pub(crate) fn room(&self, at: MachineIndex) -> Room {
        let config = self.machines.get(at.at()).map(|it| &it.blueprint.config);
        let drops =
            config.is_some_and(|it| it.routing.iter().any(|it| it.drop != DropPolicy::None));
        match drops {
            true => Room::AtOnce,
            false => Room::OnceDeleted,
        }
    }

    fn begin_read(&mut self, at: MachineIndex, ticket: Ticket, extents: Extents) {
        let now = self.now;
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        if machine.read.is_zero() && machine.stalled <= now {
            let octets = match machine.failing.read(now) {
                true => None,
                false => machine.storage.read(&extents),
            };
            if let Some(running) = &mut machine.running {
                running.inbox.push_back(Event::Read { ticket, octets });
            }
            return;
        }
        let done = machine.stalled.max(now) + machine.read;
        let life = machine.life;
        if let Some(running) = &mut machine.running {
            running.reads.push_back((ticket, extents));
            self.queue.push(done, Occurrent::Read(at, life));
        }
    }

    pub(crate) fn answer_read(&mut self, at: MachineIndex, life: Life) {
        if !self.lives(at, life) {
            return;
        }
        let read = self
            .running_mut(at)
            .and_then(|running| running.reads.pop_front());
        let Some((ticket, extents)) = read else {
            return;
        };
        let now = self.now;
        let machine = self.machines.get_mut(at.at());
        let octets = machine.and_then(|machine| {
            let fails = machine.failing.read(now);
            machine.storage.read(&extents).filter(|_| !fails)
        });
        self.tell(at, Event::Read { ticket, octets });
    }

    /// Gives the store what has collected, unless its disk is busy; false when there is nothing to be done.
    fn begin_flush(&mut self, at: MachineIndex) -> bool {
        let now = self.now;
        let per_billion = if self.faults_are_over() {
            0
        } else {
            self.faults.crash_at_flush_per_billion
        };
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return false;
        };
        let Some(running) = &mut machine.running else {
            return false;
        };
        let is_due = running.retry == Retry::Due || running.is_unsettled;
        if running.flushing || running.batch.is_empty() && !is_due {
            return false;
        }
        if running.retry == Retry::Due {
            running.retry = Retry::None;
        }
        if let Some(station) = self.voyages.as_mut().and_then(|it| it.station_mut(at)) {
            station.begin_batch();
            for command in &running.batch {
                if let StoreCommand::Commit { bundle, .. } = command {
                    let length = bundle.payload_octets;
                    let whole = FragmentRange { offset: 0, length };
                    let range = bundle.id.fragment.unwrap_or(whole);
                    station.store(BundleName::of(&bundle.id), range);
                }
            }
        }
        let before = machine.storage.flushes();
        let events = running.begin_batch(&mut machine.storage, now);
        running.inbox.extend(events.into_iter().map(Event::Store));
        if machine.failing.flush(now) {
            machine.storage.fail(true);
        }
        let flushes = machine.storage.sync();
        machine.storage.fail(false);
        running.flushing = true;
        running.has_flushed = machine.storage.flushes() > before;
        let taken = machine.flush * u32::try_from(flushes).unwrap_or(u32::MAX);
        let begun = machine.stalled.max(now);
        let done = begun + taken;
        self.counts.flushes += flushes;
        self.queue.push(done, Occurrent::Flushed(at, machine.life));
        if machine.entropy.happens(per_billion) {
            let within = u64::try_from(done.since(now).as_nanos()).unwrap_or(u64::MAX);
            let after = Duration::from_nanos(machine.entropy.below(within.max(1)));
            self.queue
                .push(now + after, Occurrent::FlushCrash(at, machine.life));
        }
        true
    }

    pub(crate) fn flushed(&mut self, at: MachineIndex, life: Life) {
        if !self.lives(at, life) {
            return;
        }
        let Some(machine) = self.machines.get_mut(at.at()) else {
            return;
        };
        let Some(running) = &mut machine.running else {
            return;
        };
        running.flushing = false;
        running.flushing_octets = 0;
        let mut events = Vec::new();
        machine.storage.settle(&mut events);
        running.is_unsettled = machine.storage.is_unsettled();
        let has_failed = machine.storage.has_failed();
        if has_failed {
            machine.troubled = machine.troubled.max(self.now + STORE_RETRY);
        }
        if let Some(station) = self.voyages.as_mut().and_then(|it| it.station_mut(at)) {
            let mut covered = BTreeSet::new();
            if has_failed && running.has_flushed {
                let said = events.iter();
                covered.extend(said.filter_map(|event| self.kept.committed(at, event)));
            }
            station.end_batch(running.has_flushed && !has_failed, &covered);
        }
        if has_failed && running.retry == Retry::None {
            running.retry = Retry::Planned;
            let again = self.now + STORE_RETRY;
            self.queue.push(again, Occurrent::Retry(at, life));
        }
        let mut unfounded = Vec::new();
        let said = events.iter();
        let stored: Vec<BundleName> = said
            .filter_map(|event| self.kept.committed(at, event))
            .collect();
        for event in &events {
            let beside = (&machine.storage, &mut self.ledger);
            unfounded.extend(self.kept.handle_event(at, event, beside, self.now));
        }
        running.inbox.extend(events.into_iter().map(Event::Store));
        for name in stored {
            self.judge_spread(at, name);
        }
        self.accuse_lost(
            &unfounded,
            "is taken for damaged, and nothing rotted",
            Some(at),
        );
        self.turn(at);
    }
}
