//! Links as a whole: up, down, and gone.

use alloc::vec::Vec;

use dhow_bundle::Now;

use crate::adjacencies::session_id::SessionId;
use crate::config::LinkId;
use crate::node::Node;
use crate::view::LinkOrigin;

impl Node {
    /// A link is shown no more, and dialled no more.
    pub(crate) fn delete_link(&mut self, now: Now, id: LinkId) {
        self.take_link_down(now, id);
        let peer = self.adjacencies.forget_link(now.monotonic, id);
        for key in self.held.forget_peer(peer.as_ref()) {
            self.leave_again(now, key, None);
        }
        if (self.adjacencies.link(id)).is_some_and(|link| link.origin == LinkOrigin::Found) {
            self.adjacencies.stop_dialling(&mut self.outbox, id);
        }
    }

    pub(crate) fn bring_link_up(&mut self, now: Now, id: LinkId) {
        if let Some(link) = self.adjacencies.link_mut(id) {
            link.bring_up(now.monotonic);
        }
    }

    pub(crate) fn take_link_down(&mut self, now: Now, id: LinkId) {
        let Some(link) = self.adjacencies.link_mut(id) else {
            return;
        };
        link.take_down();
        let sessions: Vec<SessionId> = link.sessions.clone();
        for session in sessions {
            self.adjacencies
                .terminate(&mut self.attention, now, session);
        }
        // Bundles that would have gone over this link may have another way.
        self.adjacencies.serve_everybody();
    }
}
