//! Links that are dialled during planned contacts alone.

use core::time::Duration;

use dhow_bundle::{DtnTime, Instant, Now};

use crate::config::{DialTime, LinkConfig, LinkId};
use crate::driver::Carrier;
use crate::node::Node;

/// The longest time until the contacts of links are looked at again: the wall clock may be set meanwhile.
const LOOK: Duration = Duration::from_secs(60);

/// When contacts of these links are to be looked at for the first time.
pub(crate) fn first_look(links: &[LinkConfig]) -> Option<Instant> {
    let mut links = links.iter();
    let is_any =
        links.any(|link| link.dial == DialTime::Contacts || link.protocol.keeps_transfers());
    is_any.then_some(Instant::START)
}

impl Node {
    /// Tell links of contacts that have begun or ended, if it is time to look.
    pub(crate) fn follow_contacts(&mut self, now: Now) {
        if !self.adjacencies.contacts_are_due(now) {
            return;
        }
        let mut due = now.monotonic + LOOK;
        for id in self.adjacencies.link_ids() {
            let contact = self.contact_of(id, now.dtn);
            if let Some((contact, _)) = contact {
                (self.adjacencies).contact_turned(
                    &mut self.attention,
                    &mut self.outbox,
                    now,
                    id,
                    contact,
                );
            }
            let changes = [
                contact.and_then(|(_, change)| change),
                self.tell_link_state(now, id),
            ];
            for change in changes.into_iter().flatten() {
                due = due.min(instant_of(now, change));
            }
        }
        self.adjacencies.look_at_contacts(due);
    }

    /// Tell the sessions of a link of the state of their path now, and look at contacts again when the plan changes that.
    pub(crate) fn follow_link(&mut self, now: Now, id: LinkId) {
        if let Some(change) = self.tell_link_state(now, id) {
            (self.adjacencies).look_at_contacts_by(instant_of(now, change));
        }
    }

    /// Whether a contact with a link's peer is on, and when that changes, as far as is planned; none of links that are dialled at any time.
    fn contact_of(&self, id: LinkId, at: DtnTime) -> Option<(Carrier, Option<DtnTime>)> {
        let config = &self.adjacencies.link(id)?.config;
        if config.dial == DialTime::Always {
            return None;
        }
        let (own, contacts) = (&self.config.node_ids, &self.config.contacts);
        let peer = config.policy.peer.as_ref()?;
        let mut current = own.iter().filter_map(|own| contacts.current(own, peer, at));
        if let Some(contact) = current.next() {
            return Some((Carrier::Present, Some(contact.end)));
        }
        let next = own.iter().filter_map(|own| contacts.next(own, peer, at));
        Some((Carrier::Absent, next.map(|contact| contact.start).min()))
    }
}

/// The instant of a time that has not passed.
fn instant_of(now: Now, at: DtnTime) -> Instant {
    let ahead_ms = at.as_millis().saturating_sub(now.dtn.as_millis());
    now.monotonic + Duration::from_millis(ahead_ms)
}
