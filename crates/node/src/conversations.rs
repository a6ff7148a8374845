//! Conversations by datagrams: those with the peers of links over UDP, and those with strangers.

use alloc::vec::Vec;

use dhow_bundle::Now;
use dhow_link::Batch;
use dhow_link::datagram::Limit;

use crate::adjacencies::session_id::SessionId;
use crate::driver::StreamId;
use crate::node::Node;

impl Node {
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
