//! Programs that are a part of the node: they come to the external socket, and routers among them are asked (docs/external.md).

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{NodeId, Now};
use dhow_link::{Gather, external};

use crate::adjacencies::layer::Layer;
use crate::adjacencies::neighbour::Neighbour;
use crate::adjacencies::session_id::SessionId;
use crate::config::{DEFAULT_TRANSFER_MRU, Enabled, SessionPolicy};
use crate::driver::{Action, Occurrence, StreamId};
use crate::external::connections::Part;
use crate::external::router::Wish;
use crate::external::wire::{Question, Said, Told, VERSION};
use crate::held::bundles::Removal;
use crate::held::retention::State;
use crate::node::{Node, Stage};
use crate::routing::{Hop, RouterId};

/// The time in which a program says which part of the node it is.
const GREETING_TIME: Duration = Duration::from_secs(10);

/// Octets and bundles that a program may have on their way to a neighbour without having answered.
const WINDOW_OCTETS: u64 = 16 << 20;
const WINDOW_BUNDLES: u32 = 64;

impl Node {
    /// A program's connection is there.
    pub(crate) fn welcome_program(&mut self, now: Now, stream: StreamId) {
        self.programs.welcome(stream, now.monotonic + GREETING_TIME);
        self.attention.attend(stream);
    }

    /// Octets came from a program.
    pub(crate) fn hear_program(&mut self, now: Now, stream: StreamId, octets: Bytes) {
        if let Some(connection) = self.programs.get_mut(stream) {
            connection.reader.push(octets);
        }
        loop {
            let Some(connection) = self.programs.get_mut(stream) else {
                return;
            };
            if matches!(connection.part, Part::Over(_)) {
                return;
            }
            let said = match connection.reader.take() {
                Ok(None) => return,
                Ok(Some(frame)) => Said::read(&frame).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            let part = match &connection.part {
                Part::Router(id) => Some(*id),
                Part::Unknown(_) | Part::Over(_) => None,
            };
            match (said, part) {
                (Ok(said), Some(id)) => {
                    if let Some(external) = self.forwarding.external_mut(id) {
                        external.hear(now.monotonic, said);
                    }
                    self.adjacencies.serve_peers();
                }
                (Ok(Said::Router { name, .. }), None) => self.begin_router(stream, &name),
                (
                    Ok(Said::Neighbour {
                        name,
                        peer,
                        mtu_octets,
                        ..
                    }),
                    None,
                ) => {
                    return self.begin_neighbour(now, stream, name, (peer, mtu_octets));
                }
                (Ok(_), None) => self.end_program(stream, "it has not said which part it takes"),
                (Err(error), _) => self.end_program(stream, &error),
            }
        }
    }

    /// A program says that it is the router of this name.
    fn begin_router(&mut self, stream: StreamId, name: &str) {
        let Some(id) = self.forwarding.external_named(name) else {
            let reason = alloc::format!("the node file names no program '{name}' as a router");
            return self.end_program(stream, &reason);
        };
        let nodes = &self.config.node_ids;
        let Some(external) = self.forwarding.external_mut(id) else {
            return;
        };
        if external.session().is_some() {
            let reason = alloc::format!("router '{name}' is there already");
            return self.end_program(stream, &reason);
        }
        external.begin(stream, nodes);
        if let Some(connection) = self.programs.get_mut(stream) {
            connection.part = Part::Router(id);
        }
        let name = name.into();
        self.outbox.occurred(Occurrence::ProgramUp { stream, name });
    }

    /// A program says that it leads to a neighbour: that is one like others from now on.
    fn begin_neighbour(
        &mut self,
        now: Now,
        stream: StreamId,
        name: String,
        (peer, mtu_octets): (NodeId, u64),
    ) {
        if self.config.node_ids.contains(&peer) {
            return self.end_program(stream, "the neighbour is this node itself");
        }
        if self.stage != Stage::Working {
            return self.end_program(stream, "the node is ending");
        }
        let Some(connection) = self.programs.remove(stream) else {
            return;
        };
        self.attention.rearm(stream, connection.timeout, None);
        let answer_ms = self.config.external.policy.answer_ms;
        let policy = SessionPolicy {
            transfer_mru: DEFAULT_TRANSFER_MRU.min(self.config.quota_octets).max(1),
            window_octets: WINDOW_OCTETS,
            window_bundles: WINDOW_BUNDLES,
            cut_through: Enabled::No,
            ..SessionPolicy::default()
        };
        let mut welcome = Vec::new();
        let told = Told::Welcome {
            version: VERSION,
            nodes: &self.config.node_ids,
            questions: WINDOW_BUNDLES.into(),
            answer_ms,
            patterns: &[],
        };
        told.put(&mut welcome);
        let config = external::Config {
            transfer_mru: policy.transfer_mru,
            answer_timeout: Duration::from_millis(answer_ms),
        };
        let way = (peer, mtu_octets);
        let layer = external::Session::new(way, connection.reader, &welcome, config, now);
        let layer = Layer::Program(Box::new(layer));
        let neighbour = Neighbour::new(layer, (&policy, policy.transfer_mru), None, now);
        self.outbox.occurred(Occurrence::ProgramUp { stream, name });
        self.adjacencies.welcome(SessionId::over(stream), neighbour);
        self.attention.attend(stream);
    }

    /// The node ends a program's connection, and says why.
    pub(crate) fn end_program(&mut self, stream: StreamId, reason: &str) {
        let Some(connection) = self.programs.get_mut(stream) else {
            return;
        };
        let part = core::mem::replace(&mut connection.part, Part::Over(Vec::new()));
        let mut last = Vec::new();
        let mut name = String::new();
        match part {
            Part::Over(octets) => {
                connection.part = Part::Over(octets);
                return;
            }
            Part::Router(id) => {
                if let Some(external) = self.forwarding.external_mut(id) {
                    last = external.end();
                    name = external.name().into();
                }
            }
            Part::Unknown(_) => {}
        }
        Told::Bye { reason }.put(&mut last);
        connection.part = Part::Over(last);
        let reason = reason.into();
        self.outbox.occurred(Occurrence::ProgramDown {
            stream,
            name,
            reason,
        });
        self.outbox.counters.programs_ended += 1;
        self.attention.attend(stream);
        self.flush_program(stream);
        self.outbox.act(Action::Close { stream });
    }

    /// A program's connection is gone. False where the stream is none.
    pub(crate) fn part_with_program(&mut self, stream: StreamId) -> bool {
        let Some(connection) = self.programs.remove(stream) else {
            return false;
        };
        self.attention.rearm(stream, connection.timeout, None);
        let mut name = String::new();
        match connection.part {
            Part::Router(id) => {
                if let Some(external) = self.forwarding.external_mut(id) {
                    external.end();
                    name = external.name().into();
                }
            }
            Part::Over(_) => return true,
            Part::Unknown(_) => {}
        }
        let reason = "it has closed the connection".into();
        self.outbox.occurred(Occurrence::ProgramDown {
            stream,
            name,
            reason,
        });
        true
    }

    /// Ask for a program's octets to be written.
    pub(crate) fn flush_program(&mut self, stream: StreamId) {
        let Some(connection) = self.programs.get_mut(stream) else {
            return;
        };
        let has_octets = match &connection.part {
            Part::Router(id) => (self.forwarding.external(*id)).is_some_and(|it| it.has_octets()),
            Part::Over(octets) => !octets.is_empty(),
            Part::Unknown(_) => false,
        };
        if has_octets && !connection.flush_pending {
            connection.flush_pending = true;
            self.outbox.act(Action::Flush { stream });
        }
    }

    /// Octets for a program.
    pub(crate) fn write_program(&mut self, stream: StreamId, limit: usize, out: &mut Gather) {
        let Some(connection) = self.programs.get_mut(stream) else {
            return;
        };
        let octets = match &mut connection.part {
            Part::Router(id) => (self.forwarding.external_mut(*id)).map(|it| it.take_octets(limit)),
            Part::Over(octets) => Some(core::mem::take(octets)),
            Part::Unknown(_) => None,
        };
        let octets = octets.unwrap_or_default();
        connection.flush_pending = !octets.is_empty();
        if !octets.is_empty() {
            out.push(Piece::Octets(octets.into()));
        }
    }

    /// False while what a program says is to wait in its socket.
    pub(crate) fn wants_of_program(&self, stream: StreamId) -> bool {
        let part = self.programs.get(stream).map(|it| &it.part);
        match part {
            Some(Part::Router(id)) => self
                .forwarding
                .external(*id)
                .is_some_and(|it| it.wants_octets()),
            Some(Part::Unknown(_)) => true,
            Some(Part::Over(_)) | None => false,
        }
    }

    /// A program has not said in time which part it takes.
    pub(crate) fn program_timeout(&mut self, now: Now, stream: StreamId) {
        let Some(connection) = self.programs.get_mut(stream) else {
            return;
        };
        connection.timeout = None;
        if let Part::Unknown(until) = connection.part
            && until <= now.monotonic
        {
            self.end_program(stream, "it has not said which part it takes");
        }
    }

    /// Do what routers wish, and ask them.
    pub(crate) fn attend_programs(&mut self, now: Now) {
        for id in self.forwarding.external_ids() {
            let Some(external) = self.forwarding.external_mut(id) else {
                continue;
            };
            external.attend(now.monotonic);
            let session = external.session();
            if let Some((stream, fault)) = session.zip(external.take_fault()) {
                self.end_program(stream, &fault);
            }
            self.tell_contacts(now, id);
            while self.outbox.has_turn_left()
                && let Some(wish) = self
                    .forwarding
                    .external_mut(id)
                    .and_then(|it| it.poll_wish())
            {
                self.grant(now, wish);
            }
            while let Some((number, key)) =
                (self.forwarding.external_mut(id)).and_then(|it| it.poll_question())
            {
                if let Some(question) = self.question(now, number, key)
                    && let Some(external) = self.forwarding.external_mut(id)
                {
                    external.ask(now.monotonic, question);
                }
            }
            if let Some(stream) = session {
                self.flush_program(stream);
            }
        }
    }

    fn tell_contacts(&mut self, now: Now, id: RouterId) {
        while let Some((peer, is_up)) =
            (self.forwarding.external_mut(id)).and_then(|it| it.poll_contact())
        {
            let (link, octets_per_s) = self.way_to(now, &peer);
            let told = Told::Neighbour {
                peer: &peer,
                is_up,
                link: &link,
                octets_per_s,
            };
            if let Some(external) = self.forwarding.external_mut(id) {
                external.tell(&told);
            }
        }
    }

    /// The name of the link to a neighbour, and the rate of the contact with it that is planned now, octets a second; 0 for unknown.
    fn way_to(&self, now: Now, peer: &NodeId) -> (String, u64) {
        let hop = Hop::Peer(peer.clone());
        let link = self.adjacencies.sessions_over(&hop).find_map(|it| it.link);
        let link = link.map_or_else(String::new, |it| self.adjacencies.hop_name(&Hop::Link(it)));
        let here = self.held.endpoints().local().counterpart(peer);
        let contact = self.config.contacts.current(here, peer, now.dtn);
        (link, contact.map_or(0, |it| it.octets_per_s))
    }

    fn question(&self, now: Now, number: u64, key: BundleKey) -> Option<Question> {
        let entry = self.held.entry(key)?;
        let endpoints = self.held.endpoints();
        let left = entry.expires() - now.monotonic;
        Some(Question {
            number,
            destination: endpoints.id(entry.destination()).to_string(),
            source: endpoints.id(entry.source()).to_string(),
            creation: entry.creation(),
            fragment: entry.fragment().map(|it| it.range),
            octets: entry.octets(),
            lifetime_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            previous: (entry.previous())
                .map_or_else(String::new, |it| endpoints.id(it).to_string()),
            given: Vec::new(),
        })
    }

    fn grant(&mut self, now: Now, wish: Wish) {
        match wish {
            Wish::Leave(key) => self.leave_router(key),
            Wish::FallBack(key) => {
                if self
                    .forwarding
                    .has_route(&self.held, &self.adjacencies, key)
                    && self.forwarding.awaits_decision(key)
                {
                    self.outbox.counters.fallbacks += 1;
                    self.leave_router(key);
                }
            }
            Wish::Return(key) => {
                if self.forwarding.return_to_router(&mut self.held, key) {
                    self.wait_again(key);
                }
            }
            Wish::Spent(key) => {
                let router = self.forwarding.copies().router(key);
                let router = router.and_then(|id| self.forwarding.external(id));
                let is_spent = router.is_some_and(|it| it.is_spent(key));
                if is_spent && self.held.state(key) == Some(State::Waiting) {
                    self.delete(now, key, Removal::Forwarded, None);
                }
            }
            Wish::Discard(key, reason) => self.delete_or_mark(now, key, reason),
        }
    }

    fn leave_router(&mut self, key: BundleKey) {
        if self.forwarding.leave_router(&self.held, key) {
            self.wait_again(key);
        }
    }

    /// A bundle that waits goes into its queue, or to its router.
    fn wait_again(&mut self, key: BundleKey) {
        self.forwarding.wait(
            &mut self.held,
            &mut self.adjacencies,
            &mut self.delivery,
            key,
        );
    }
}
