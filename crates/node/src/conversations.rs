//! Conversations by datagrams: those with the peers of links over UDP, and those with strangers.

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_link::Batch;
use dhow_link::datagram::Limit;
use dhow_link::ltp::Known;

use crate::adjacencies::session_id::SessionId;
use crate::config::{LtpAuthentication, Protocol};
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

    /// The IDs of the LTP engines here and there of a conversation; `None` where it is none over LTP.
    #[must_use]
    pub fn engines(&self, stream: StreamId) -> Option<(u64, u64)> {
        let neighbour = self.adjacencies.neighbour(SessionId::over(stream))?;
        match neighbour.session.protocol() {
            Protocol::Ltp(policy) => policy.engine.zip(policy.remote_engine),
            _ => None,
        }
    }

    /// The authentication of a conversation over LTP, as its engine has room for.
    #[must_use]
    pub fn ltp_authentication(&self, stream: StreamId) -> LtpAuthentication {
        let neighbour = self.adjacencies.neighbour(SessionId::over(stream));
        match neighbour.map(|it| it.session.protocol()) {
            Some(Protocol::Ltp(policy)) => policy.authentication,
            _ => LtpAuthentication::None,
        }
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
