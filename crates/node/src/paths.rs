//! Paths of sessions: the times at which a driver is asked whether a path still carries anything, and the
//! consequences where it does not.
//!
//! TCP finds out late that a path is back: it asks at growing intervals. So a lost path is dialled beside the
//! connection that believes in it, at the link's own intervals, and what is answered first goes on. A session
//! that another has replaced is cut, so that what lies unsent in its connection does not take the path's time,
//! and its bundles go over the new one at once.

use core::time::Duration;

use dhow_bundle::Now;
use dhow_link::stream::LinkCommand;

use crate::adjacencies::neighbour::IfLost;
use crate::adjacencies::session_id::SessionId;
use crate::driver::{Action, Path};
use crate::node::Node;

/// The interval at which the path of a session that says nothing is checked.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time that an interface which has just come up is given before anything is sent over it: its driver and its
/// neighbour's take some milliseconds to pass packets, and what is lost then (ARP, SYN) is sent again only
/// after a second.
pub(crate) const SETTLING: Duration = Duration::from_millis(25);

impl Node {
    /// The driver has looked at a path.
    pub(crate) fn path_checked(&mut self, now: Now, session: SessionId, path: Path) {
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return;
        };
        let if_lost = core::mem::replace(&mut neighbour.if_lost, IfLost::Keep);
        let link = neighbour.link;
        let acknowledges = neighbour.session.acknowledges();
        let lost = match path {
            Path::Open => false,
            Path::Lost | Path::Dark => true,
            // Silence alone proves nothing: the peer may be slow. With a changed network it is reason enough
            // to dial beside a session.
            Path::Unknown => {
                link.is_some() && if_lost == IfLost::Cut && neighbour.is_silent(now.monotonic)
            }
        };
        match link {
            Some(link) if lost => {
                if let Some(it) = self.adjacencies.link_mut(link) {
                    it.doubt(now.monotonic, session);
                }
                // Without a carrier all that a connection does is to have the system ask for the neighbour,
                // once a second, so that the path is found late when it is back. A carrier that is gone for
                // moments only is waited for.
                let hopeless = path == Path::Dark && if_lost == IfLost::Keep;
                if !acknowledges {
                    // Octets that its socket has may still arrive; those that it would take from now on need not be at stake.
                    self.adjacencies
                        .terminate(&mut self.attention, now, session);
                    self.attend_all(now);
                } else if hopeless || self.adjacencies.has_all_sessions(link) {
                    self.cut(now, session);
                }
            }
            Some(link) => {
                // That nothing is unanswered is no proof where nothing was sent: what was doubted once stays so
                // until it speaks or another stands beside it, and is then ended in order.
                if path == Path::Open
                    && self.adjacencies.has_all_sessions(link)
                    && let Some(it) = self.adjacencies.link_mut(link)
                {
                    it.trust(session);
                }
                self.adjacencies.retire(&mut self.attention, now, link);
            }
            None if lost && (if_lost == IfLost::Cut || self.adjacencies.has_sibling(session)) => {
                self.cut(now, session);
            }
            None => {}
        }
    }

    /// Give up a session without a word over its connection.
    fn cut(&mut self, now: Now, session: SessionId) {
        let link = self.adjacencies.neighbour(session).and_then(|it| it.link);
        self.outbox.act(Action::Abort {
            stream: session.stream(),
        });
        self.adjacencies
            .command(&mut self.attention, now, session, LinkCommand::Disconnected);
        self.attend_all(now);
        if let Some(link) = link.and_then(|link| self.adjacencies.link_mut(link)) {
            link.last_error = None;
        }
    }
}
