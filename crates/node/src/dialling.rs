//! Links whose sessions are missing: their neighbours are dialled, and tunnels opened.

use dhow_bundle::Now;

use crate::adjacencies::links;
use crate::config::LinkId;
use crate::driver::{Action, Purpose};
use crate::node::{Node, Stage};

impl Node {
    /// Dial what is due.
    pub(crate) fn dial(&mut self, now: Now) {
        if self.stage != Stage::Working {
            return;
        }
        for link in self.adjacencies.link_ids() {
            if !self
                .adjacencies
                .link(link)
                .is_some_and(|it| it.is_due(now.monotonic))
            {
                continue;
            }
            let jitter = self.random.next();
            let (dials, is_tunnel) = (self.adjacencies.link_mut(link)).map_or((0, false), |it| {
                let dials = it.dials_wanted(now.monotonic, jitter);
                (dials, links::is_tunnel(&it.config))
            });
            for _ in 0..dials {
                match is_tunnel {
                    true => self.open_tunnel(now, link),
                    false => self.outbox.act(Action::Dial { link }),
                }
            }
        }
    }

    /// The link of a tunnel is to be up: there is nobody to dial.
    fn open_tunnel(&mut self, now: Now, link: LinkId) {
        let session = self.adjacencies.next_tunnel();
        self.meet(now, session.stream(), &Purpose::Dialled { link });
    }
}
