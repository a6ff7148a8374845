//! Conversations by datagrams: those with the peers of links over UDP, and those with strangers.

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_link::Batch;
use dhow_link::datagram::Limit;
use dhow_link::ltp::Known;

use crate::adjacencies::session_id::SessionId;
use crate::config::{LinkId, LtpAuthentication, Protocol};
use crate::driver::StreamId;
use crate::node::Node;

impl Node {
    /// Datagrams came from a neighbour. A reader of many at once does not know how much may lie behind gaps: octets of the first datagrams go to
    /// the store before the others take its room.
    pub(crate) fn handle_datagrams(&mut self, now: Now, session: SessionId, datagrams: &[Bytes]) {
        let mut rest = datagrams;
        while !rest.is_empty() {
            let count = self.adjacencies.handle_datagrams(
                &mut self.attention,
                &self.config,
                now,
                session,
                rest,
            );
            rest = rest.get(count..).unwrap_or_default();
            if !rest.is_empty() {
                self.listen(now, session.stream());
                self.place_early(session);
            }
        }
    }

    /// Datagrams that a conversation is to send, within `limit`, in `out`, which is emptied first; `Event::Left` says when they have left. To be
    /// asked until it gives none.
    pub fn poll_datagrams(&mut self, now: Now, stream: StreamId, limit: Limit, out: &mut Batch) {
        out.clear();
        let session = SessionId::over(stream);
        if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
            neighbour.session.poll_datagrams(now, limit, out);
            neighbour.flush_pending = !out.is_empty();
            if neighbour.has_moved_on() {
                self.adjacencies.serve(session);
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.given(now, stream, limit, out);
        }
        let happened = self.listen(now, stream);
        self.arm(stream);
        if happened {
            self.flush(stream);
        }
        self.attend_all(now);
    }

    /// Whether the LTP engine of a conversation began a session of this number: by it a driver finds the conversation that a report is for.
    #[must_use]
    pub fn knows_session(&self, stream: StreamId, number: u64) -> Known {
        let neighbour = self.adjacencies.neighbour(SessionId::over(stream));
        neighbour.map_or(Known::Never, |it| it.session.knows_session(number))
    }

    /// The IDs of the LTP engines here and there of a link, and the authentication that its conversations have room for; `None` where it is none
    /// over LTP.
    #[must_use]
    pub fn engines(&self, link: LinkId) -> Option<((u64, u64), LtpAuthentication)> {
        let config = &self.adjacencies.link(link)?.config;
        match config.protocol {
            Protocol::Ltp(policy) => {
                let engines = self.engines_with(&policy, config.policy.peer.as_ref());
                Some((engines, policy.authentication))
            }
            _ => None,
        }
    }

    /// The streams of a link's sessions.
    #[must_use]
    pub fn streams_of(&self, link: LinkId) -> Vec<StreamId> {
        let link = self.adjacencies.link(link);
        let sessions = link.map_or(&[][..], |link| link.sessions.as_slice());
        sessions.iter().map(|session| session.stream()).collect()
    }

    /// Whether a stream has no session that is to stay.
    #[must_use]
    pub fn is_ending(&self, stream: StreamId) -> bool {
        let neighbour = self.adjacencies.neighbour(SessionId::over(stream));
        neighbour.is_none_or(|it| it.ending)
    }

    /// Conversations with addresses that are no link's.
    #[must_use]
    pub fn strangers(&self) -> Vec<StreamId> {
        let heard = self.adjacencies.neighbours();
        heard
            .filter(|(_, it)| it.link.is_none() && it.session.is_datagrams())
            .map(|(session, _)| session.stream())
            .collect()
    }
}
