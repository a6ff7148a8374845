//! Neighbours by datagrams.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::blocks::Blocks;
use crate::adjacencies::datagrams::{Datagrams, EARLY_OCTETS, EARLY_SHARE};
use crate::adjacencies::session_id::SessionId;
use crate::attention::Attention;
use crate::config::Config;
use crate::driver::Occurrence;
use crate::outbox::Outbox;
use bytes::Bytes;
use dhow_bundle::Now;

impl Adjacencies {
    /// Tell what was wrong with datagrams, and count it and the bundles that this cost.
    pub(crate) fn tell_faults(&mut self, out: &mut Outbox, session: SessionId) {
        while let Some(link) =
            (self.neighbours.get_mut(&session)).and_then(|it| it.session.datagrams())
        {
            out.counters.refused += link.take_refused();
            let Some((rule, count)) = link.poll_fault() else {
                return;
            };
            out.counters.datagram_faults += count;
            out.occurred(Occurrence::DatagramsDropped {
                stream: session.stream(),
                rule,
                count,
            });
        }
    }

    /// Octets that may come early, of all neighbours.
    pub(crate) fn early_octets_bound(config: &Config) -> u64 {
        EARLY_OCTETS.min(config.memory_octets / EARLY_SHARE)
    }

    /// Datagrams came from a neighbour, of which the first are handled; how many comes back. One that has no more room for what came early loses it, as it
    /// may anywhere on its way.
    pub(crate) fn handle_datagrams(
        &mut self,
        attention: &mut Attention,
        config: &Config,
        now: Now,
        session: SessionId,
        datagrams: &[Bytes],
    ) -> usize {
        let most_octets = Self::early_octets_bound(config);
        if let Some(neighbour) = self.neighbours.get_mut(&session)
            && let Some(link) = neighbour.session.datagrams()
        {
            neighbour.heard = now.monotonic;
            let of_others = self.early_octets.saturating_sub(neighbour.early_octets);
            attention.attend(session.stream());
            return link.handle_datagrams(now, datagrams, most_octets.saturating_sub(of_others));
        }
        datagrams.len()
    }

    /// The blocks that come from a neighbour, where its layer has some.
    pub(crate) fn blocks_mut(&mut self, session: SessionId) -> Option<&mut Blocks> {
        let neighbour = self.neighbours.get_mut(&session)?;
        neighbour.session.datagrams()?.blocks_mut()
    }

    /// Datagrams for a neighbour have left.
    pub(crate) fn handle_left(
        &mut self,
        attention: &mut Attention,
        now: Now,
        session: SessionId,
        datagrams: u64,
    ) {
        self.converse(attention, session, |link| link.handle_left(now, datagrams));
    }

    /// The path to a neighbour takes no longer datagrams than these.
    pub(crate) fn narrowed(
        &mut self,
        attention: &mut Attention,
        now: Now,
        session: SessionId,
        octets: u64,
    ) {
        self.converse(attention, session, |link| link.narrowed(now, octets));
    }

    pub(crate) fn converse(
        &mut self,
        attention: &mut Attention,
        session: SessionId,
        with: impl FnOnce(&mut Datagrams),
    ) {
        let neighbour = self.neighbours.get_mut(&session);
        if let Some(link) = neighbour.and_then(|it| it.session.datagrams()) {
            with(link);
            attention.attend(session.stream());
        }
    }
}
