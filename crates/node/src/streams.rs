//! Connections that a driver opened or accepted: the sessions on them, and their timers.

use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_link::stream::{DownReason, LinkCommand, LinkEvent, PeerIdentities};
use dhow_link::{Gather, StreamSession};

use crate::adjacencies::layer::Told;
use crate::adjacencies::links;
use crate::adjacencies::session_id::SessionId;
use crate::api::ClientSession;
use crate::api::seam::{ClientCommand, ClientEvent};
use crate::delivery::client::Client;
use crate::driver::{Action, Occurrence, StreamId};
use crate::node::{Node, Stage};
use crate::routing::{Contact, Hop};
use crate::view::{Activity, Unwritten};

impl Node {
    /// An application's connection is there.
    pub(crate) fn welcome(&mut self, stream: StreamId) {
        let session = ClientSession::new(self.held.endpoints().local().node_id().clone())
            .with_default_lifetime_ms(self.config.default_lifetime_ms);
        self.delivery.welcome(stream, Client::new(session));
        self.attention.attend(stream);
    }

    pub(crate) fn handle_octets(&mut self, now: Now, stream: StreamId, octets: Bytes) {
        let session = SessionId::over(stream);
        if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
            neighbour.heard = now.monotonic;
            neighbour.session.handle_octets(now, octets);
            if let Some(id) = neighbour.link
                && self
                    .adjacencies
                    .link_mut(id)
                    .is_some_and(|link| link.trust(session))
            {
                self.adjacencies.stop_dialling(&mut self.outbox, id);
            }
        } else if let Some(client) = self.delivery.client_mut(stream) {
            client.session.handle_octets(now, octets);
        } else {
            self.hear_program(now, stream, octets);
        }
        self.attention.attend(stream);
    }

    pub(crate) fn secured(&mut self, now: Now, session: SessionId, identities: PeerIdentities) {
        self.adjacencies.command(
            &mut self.attention,
            now,
            session,
            LinkCommand::Secured { identities },
        );
    }

    pub(crate) fn insecure(&mut self, now: Now, session: SessionId) {
        self.adjacencies
            .command(&mut self.attention, now, session, LinkCommand::Insecure);
    }

    pub(crate) fn disconnected(&mut self, now: Now, stream: StreamId) {
        let session = SessionId::over(stream);
        if self.adjacencies.has_neighbour(session) {
            self.adjacencies
                .command(&mut self.attention, now, session, LinkCommand::Disconnected);
            self.attend_all(now);
            if self.adjacencies.has_neighbour(session) {
                self.part(now, session, DownReason::Disconnected);
            }
        } else if self.delivery.has_client(stream) {
            self.delivery.answer(
                &mut self.attention,
                now,
                stream,
                ClientCommand::Disconnected,
            );
            self.attend_all(now);
            self.dismiss(now, stream);
        } else {
            self.part_with_program(stream);
        }
        self.adjacencies.forget(session);
    }

    /// Ask for a stream's octets to be written.
    pub(crate) fn flush(&mut self, stream: StreamId) {
        if !self
            .adjacencies
            .flush(&mut self.outbox, SessionId::over(stream))
        {
            self.delivery.flush(&mut self.outbox, stream);
            self.flush_program(stream);
        }
    }

    /// Add up to about `limit` octets that a stream is to write to `out`. The octets given here count as sent.
    pub fn poll_octets(&mut self, now: Now, stream: StreamId, limit: usize, out: &mut Gather) {
        let (held, pieces) = (out.octets(), out.pieces().len());
        self.write_octets(now, stream, limit, out);
        if let Some(recorder) = &mut self.recorder {
            let new = out.pieces().get(pieces..).unwrap_or_default();
            recorder.written(now, stream, (limit, held), new);
        }
    }

    fn write_octets(&mut self, now: Now, stream: StreamId, limit: usize, out: &mut Gather) {
        let before = out.octets();
        let session = SessionId::over(stream);
        if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
            neighbour.session.poll_octets(now, limit, out);
            neighbour.flush_pending = out.octets() > before && neighbour.session.may_have_octets();
            if neighbour.has_moved_on() {
                self.adjacencies.serve(session);
            }
        } else if let Some(client) = self.delivery.client_mut(stream) {
            client.session.poll_octets(now, limit, out);
            client.flush_pending = out.octets() > before;
        } else if let Some(parting) = self.adjacencies.parting_mut(session) {
            parting.poll_octets(now, limit, out);
            if out.octets() == before {
                self.adjacencies.forget(session);
            }
            return;
        } else {
            return self.write_program(stream, limit, out);
        }
        // Sending may end what a session waits for, moves its timers, and may even end the session.
        let happened = self.listen(now, stream);
        self.arm(stream);
        if happened {
            self.flush(stream);
        }
        self.attend_all(now);
    }

    /// False once all that a stream is to write has been given, so that it need not be asked again.
    #[must_use]
    pub fn may_have_octets(&self, stream: StreamId) -> bool {
        let neighbour = self.adjacencies.neighbour(SessionId::over(stream));
        neighbour.is_none_or(|neighbour| neighbour.session.may_have_octets())
    }

    /// The octets of bundles that a stream is to write, as far as their transfers are opened.
    #[must_use]
    pub fn unwritten(&self, stream: StreamId) -> Unwritten {
        let neighbour = self.adjacencies.neighbour(SessionId::over(stream));
        let session = neighbour.map(|neighbour| &neighbour.session);
        session.map_or_else(Unwritten::default, |session| Unwritten {
            begun_octets: session.leaving_octets(),
            queued_octets: session.queued_octets(),
        })
    }

    /// True where a stream's octets are known to be written when `poll_octets` is called again: nobody acknowledges them, and a bundle is let go of
    /// then. The driver calls it only when all that it was given is written.
    #[must_use]
    pub fn counts_written(&self, stream: StreamId) -> bool {
        let neighbour = self.adjacencies.neighbour(SessionId::over(stream));
        neighbour.is_some_and(|neighbour| neighbour.session.counts_written())
    }

    /// The use of a stream that is no session, as those never are whose peers do not say who they are.
    #[must_use]
    pub fn activity(&self, stream: StreamId) -> Activity {
        let Some(neighbour) = self.adjacencies.neighbour(SessionId::over(stream)) else {
            return Activity::Nothing;
        };
        let heard = neighbour.heard;
        match (neighbour.session.is_arriving(), neighbour.bundles_received) {
            (true, _) => Activity::Arriving(heard),
            (false, 0) => Activity::Nothing,
            (false, _) => Activity::Idle(heard),
        }
    }

    /// False while a stream's octets should stay in its socket: the store is behind, or the session has
    /// as much under way as it may.
    #[must_use]
    pub fn takes_octets(&self, stream: StreamId) -> bool {
        self.takes_octets_within(stream, self.config.store_queue_octets)
    }

    /// The same, where no more octets of applications are to wait for the store than these: what they give stands before what
    /// others give after it.
    #[must_use]
    pub fn takes_octets_within(&self, stream: StreamId, of_clients: u64) -> bool {
        if let Some(neighbour) = self.adjacencies.neighbour(SessionId::over(stream)) {
            // Acknowledgments for what this node sends come in here too: a full store queue may hold
            // them back for as long as one flush takes.
            return neighbour.session.wants_octets()
                && (self
                    .held
                    .backlog()
                    .has_room(stream, self.config.store_queue_octets)
                    || planted(Mutant::QueueWithoutBound));
        }
        if self.programs.get(stream).is_some() {
            return self.wants_of_program(stream);
        }
        self.delivery.client(stream).is_none_or(|client| {
            client.session.wants_octets()
                && (client.subscribed
                    || (self
                        .held
                        .backlog()
                        .has_room(stream, self.config.store_queue_octets)
                        && self.held.backlog().has_room_for_client(stream, of_clients)))
        })
    }

    /// Carry out what sessions say, arm their timers, and ask for their octets to be written, until none has more to say. The octets that a
    /// session says often leads to a command to it, or to another one.
    pub(crate) fn attend_all(&mut self, now: Now) {
        while let Some(stream) = self.attention.next() {
            self.attend_to(now, stream);
        }
    }

    fn attend_to(&mut self, now: Now, stream: StreamId) {
        self.listen(now, stream);
        self.place_early(SessionId::over(stream));
        self.arm(stream);
        self.flush(stream);
    }

    /// Carry out what a session says; false when it says nothing.
    pub(crate) fn listen(&mut self, now: Now, stream: StreamId) -> bool {
        let mut happened = false;
        let session = SessionId::over(stream);
        self.adjacencies.tell_faults(&mut self.outbox, session);
        while let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
            let Some(event) = neighbour.session.poll_event() else {
                return happened;
            };
            happened = true;
            match event {
                Told::Link(event) => self.handle_link_event(now, session, event),
                Told::Placed { transfer, run } => self.receive_placed(session, transfer, run),
            }
        }
        while let Some(event) = self
            .delivery
            .client_mut(stream)
            .and_then(|client| client.session.poll_event())
        {
            happened = true;
            self.handle_client_event(now, stream, event);
        }
        happened
    }

    /// Set a stream's timer to what its session wants.
    pub(crate) fn arm(&mut self, stream: StreamId) {
        let neighbour = self.adjacencies.rearm(SessionId::over(stream));
        let rearmed = neighbour
            .or_else(|| self.delivery.rearm(stream, self.config.memory_octets))
            .or_else(|| self.programs.rearm(stream));
        if let Some([wanted, armed]) = rearmed {
            self.attention.rearm(stream, armed, wanted);
        }
    }

    pub(crate) fn stream_timeout(&mut self, now: Now, stream: StreamId) {
        if let Some(neighbour) = self.adjacencies.neighbour_mut(SessionId::over(stream)) {
            neighbour.timeout = None;
            neighbour.session.handle_timeout(now);
        } else if let Some(client) = self.delivery.client_mut(stream) {
            client.timeout = None;
            client.session.handle_timeout(now);
        } else {
            self.program_timeout(now, stream);
        }
        self.attention.attend(stream);
    }

    fn handle_link_event(&mut self, now: Now, session: SessionId, event: LinkEvent) {
        match event {
            LinkEvent::StartTls => self.outbox.act(Action::StartTls {
                stream: session.stream(),
            }),
            LinkEvent::Up(parameters) => {
                let index = self
                    .held
                    .endpoints_mut()
                    .acquire(parameters.peer.endpoint());
                let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
                    return;
                };
                let link = neighbour.link;
                neighbour.peer = Some(index);
                neighbour.since = Some(now.monotonic);
                neighbour.hops = link.map(Hop::Link).into_iter().collect();
                // Carriers go to the peer by themselves, so a tunnel is no way to it.
                let is_tunnel = neighbour.session.is_tunnel();
                if !is_tunnel {
                    neighbour.hops.push(Hop::Peer(parameters.peer.clone()));
                }
                neighbour.parameters = Some(parameters.clone());
                let keeps_transfers = neighbour.session.keeps_transfers();
                let mut is_shut = false;
                if let Some(link) = link.and_then(|link| self.adjacencies.link_mut(link)) {
                    link.peer = Some(parameters.peer.clone());
                    link.last_error = None;
                    is_shut = keeps_transfers && link.is_absent();
                }
                if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
                    neighbour.is_shut = is_shut;
                }
                if !is_tunnel && !is_shut && self.adjacencies.establish(&parameters.peer, session) {
                    self.forwarding
                        .contact_changed(now, &parameters.peer, Contact::Up);
                }
                self.adjacencies.serve(session);
                self.forwarding.wake_sent(
                    &mut self.held,
                    &mut self.adjacencies,
                    &mut self.delivery,
                    &mut self.outbox,
                    session,
                );
                self.outbox.occurred(Occurrence::SessionUp {
                    stream: session.stream(),
                    link,
                    parameters,
                });
                self.adjacencies
                    .supersede(&mut self.attention, &mut self.outbox, now, session);
                if let Some(link) = link {
                    self.follow_link(now, link);
                }
            }
            LinkEvent::Segment {
                transfer,
                octets,
                start,
                end,
                length,
            } => {
                self.receive_transfer(
                    now,
                    session,
                    transfer,
                    octets,
                    crate::reception::Ends { start, end, length },
                );
            }
            LinkEvent::Abandoned { transfer, refused } => {
                self.abandon_transfer(now, session, transfer, refused);
            }
            LinkEvent::Unverified { transfer } => {
                if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
                    neighbour.unverified = Some(transfer);
                }
            }
            LinkEvent::Acknowledged { .. } => {}
            LinkEvent::ReconnectionDelay { delay } => {
                let link = self.adjacencies.neighbour(session).and_then(|it| it.link);
                if let Some(link) = link.and_then(|link| self.adjacencies.link_mut(link)) {
                    link.postpone(now.monotonic, delay);
                }
            }
            LinkEvent::Rejected { reason, message } => {
                let peer = self
                    .adjacencies
                    .neighbour(session)
                    .and_then(|it| it.peer_id());
                let peer = peer.cloned();
                self.outbox.occurred(Occurrence::MessageRejected {
                    peer,
                    message,
                    reason,
                });
            }
            LinkEvent::Transmitted { transfer } | LinkEvent::Sent { transfer } => {
                self.transmitted(now, session, transfer);
            }
            LinkEvent::Kept { transfer } => self.kept_by_peer(now, session, transfer),
            LinkEvent::Failed {
                transfer,
                refused,
                acknowledged,
            } => self.failed(now, session, transfer, (refused, acknowledged)),
            LinkEvent::Ending => {
                if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
                    neighbour.ending = true;
                }
                // Bundles that wait for this session may have another way.
                self.adjacencies.serve_everybody();
            }
            LinkEvent::Down(reason) => self.part(now, session, reason),
        }
    }

    fn handle_client_event(&mut self, now: Now, stream: StreamId, event: ClientEvent) {
        match event {
            ClientEvent::Configure(configure) => {
                self.delivery
                    .configure(&mut self.held, &mut self.attention, now, stream, configure)
            }
            ClientEvent::Send { request, send } => {
                self.begin_transmission(now, stream, request, send)
            }
            ClientEvent::Payload {
                request,
                octets,
                end,
            } => {
                self.continue_transmission(now, stream, request, octets, end);
            }
            ClientEvent::Confirmed(delivery) => self.confirmed(now, stream, delivery),
            ClientEvent::Declined(delivery) => self.declined(now, stream, delivery),
            ClientEvent::Close(reason) => {
                self.outbox
                    .occurred(Occurrence::ClientClosed { stream, reason });
                self.outbox.act(Action::Close { stream });
            }
        }
    }

    /// A neighbour's session is over: what it had under way is somebody else's again.
    fn part(&mut self, now: Now, session: SessionId, reason: DownReason) {
        let Some(neighbour) = self.adjacencies.neighbour(session) else {
            return;
        };
        let (link, since, peer) = (
            neighbour.link,
            neighbour.since,
            neighbour.peer_id().cloned(),
        );
        let tcpcl = neighbour.session.session();
        let is_one_way = neighbour.session.counts_written();
        let heard = since.and_then(|_| neighbour.last_heard());
        let spoken = tcpcl.map(|tcpcl| (tcpcl.version(), tcpcl.peer_version()));
        let transfers: Vec<_> = neighbour.receptions.keys().copied().collect();
        for transfer in transfers {
            self.abandon_reception(now, session, transfer, None);
        }
        self.return_outgoing(now, session);
        match session.is_tunnel() {
            true => self.close_tunnel(now, session),
            false => self.outbox.act(Action::Close {
                stream: session.stream(),
            }),
        }
        let said = match spoken {
            Some((version, answered)) => links::told(version, answered, &reason),
            None => reason.to_string(),
        };
        // A stranger had no session; that a connection on which it brings bundles ends in order is no news.
        let is_in_order = matches!(reason, DownReason::Disconnected | DownReason::Terminated(_));
        let is_news = is_one_way && !is_in_order;
        let doubt = (since.is_none() && !is_in_order).then(|| reason.clone());
        if spoken.is_some() || since.is_some() || is_news {
            self.outbox.occurred(Occurrence::SessionDown {
                stream: session.stream(),
                link,
                reason,
            });
        }
        let jitter = self.random.next();
        if let (Some(id), Some(reason)) = (link, doubt) {
            self.doubt_beacon(now, id, &reason);
        }
        if let Some(link) = link.and_then(|link| self.adjacencies.link_mut(link)) {
            if let Some((version, answered)) = spoken {
                link.spoke(version, answered);
            }
            link.disconnected(now.monotonic, session, since, jitter);
            link.heard = link.heard.max(heard);
            // A session that gave way to another of its link is no error of it.
            if !is_in_order || link.sessions.is_empty() {
                link.last_error = Some(said);
            }
        }
        if let Some(peer) = peer
            && self.adjacencies.separate(&peer, session)
        {
            self.forwarding.contact_changed(now, &peer, Contact::Down);
            self.discovery.remind(now.monotonic, &peer);
        }
        let armed = self
            .adjacencies
            .neighbour(session)
            .and_then(|neighbour| neighbour.timeout);
        self.attention.rearm(session.stream(), armed, None);
        if let Some(index) = self
            .adjacencies
            .neighbour(session)
            .and_then(|neighbour| neighbour.peer)
        {
            self.held.endpoints_mut().release(index);
        }
        self.adjacencies.bid_farewell(session);
        // Another way may be the best one now.
        self.adjacencies.serve_everybody();
    }

    /// Finish transfers in progress, end all sessions, take nothing new.
    pub(crate) fn shut_down(&mut self, now: Now) {
        if self.stage == Stage::ShuttingDown {
            return self.give_up_transfers(now);
        }
        self.stage = Stage::ShuttingDown;
        self.depart();
        let sessions: Vec<SessionId> = self.adjacencies.neighbours().map(|(it, _)| it).collect();
        for session in sessions {
            self.adjacencies
                .terminate(&mut self.attention, now, session);
        }
    }

    /// Peers are told of transfers that are given up, over layers where these outlast the silence of their sender.
    fn give_up_transfers(&mut self, now: Now) {
        let sessions = self.adjacencies.neighbours().map(|(it, _)| it);
        for session in sessions.collect::<Vec<SessionId>>() {
            if self.adjacencies.keeps_transfers(session) {
                self.adjacencies
                    .terminate(&mut self.attention, now, session);
            }
        }
    }

    /// True once a `Shutdown` has been carried out: no session is left and everything is durable.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        (self.adjacencies.count() == 0)
            && self.held.backlog().octets() == 0
            && self.held.arrivals().is_empty()
    }
}
