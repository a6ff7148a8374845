//! Conversations by datagrams: those with the peers of links over UDP, and those with strangers.

use crate::adjacencies::Adjacencies;
use crate::attention::Attention;
use crate::config::Config;
use crate::outbox::Outbox;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_link::Batch;
use dhow_link::datagram::Limit;

use crate::datagrams::{Datagrams, EARLY_OCTETS, EARLY_SHARE};
use crate::door::{Occurrence, StreamId};
use crate::node::Node;

impl Adjacencies {
    /// Tell what was wrong with datagrams, and count it and the bundles that this cost.
    pub(crate) fn tell_faults(&mut self, out: &mut Outbox, stream: StreamId) {
        while let Some(link) =
            (self.neighbours.get_mut(&stream)).and_then(|it| it.session.datagrams())
        {
            out.counters.refused += link.take_refused();
            let Some((rule, count)) = link.poll_fault() else {
                return;
            };
            out.counters.datagram_faults += count;
            out.occurred(Occurrence::DatagramsDropped {
                stream,
                rule,
                count,
            });
        }
    }

    /// Datagrams came from a neighbour. One that has no more room for what came early loses it, as it may anywhere on its way.
    pub(crate) fn handle_datagrams(
        &mut self,
        attention: &mut Attention,
        config: &Config,
        now: Now,
        stream: StreamId,
        datagrams: &[Bytes],
    ) {
        let most_octets = EARLY_OCTETS.min(config.memory_octets / EARLY_SHARE);
        if let Some(neighbour) = self.neighbours.get_mut(&stream)
            && let Some(link) = neighbour.session.datagrams()
        {
            neighbour.heard = now.monotonic;
            let of_others = self.early_octets.saturating_sub(neighbour.early_octets);
            link.handle_datagrams(now, datagrams, most_octets.saturating_sub(of_others));
            attention.attend(stream);
        }
    }

    /// Datagrams for a neighbour have left.
    pub(crate) fn handle_left(
        &mut self,
        attention: &mut Attention,
        now: Now,
        stream: StreamId,
        datagrams: u64,
    ) {
        self.converse(attention, stream, |link| link.handle_left(now, datagrams));
    }

    /// The path to a neighbour takes no longer datagrams than these.
    pub(crate) fn narrowed(
        &mut self,
        attention: &mut Attention,
        now: Now,
        stream: StreamId,
        octets: u64,
    ) {
        self.converse(attention, stream, |link| link.narrowed(now, octets));
    }

    pub(crate) fn converse(
        &mut self,
        attention: &mut Attention,
        stream: StreamId,
        with: impl FnOnce(&mut Datagrams),
    ) {
        let neighbour = self.neighbours.get_mut(&stream);
        if let Some(link) = neighbour.and_then(|it| it.session.datagrams()) {
            with(link);
            attention.attend(stream);
        }
    }
}

impl Node {
    /// Datagrams that a conversation is to send, within `limit`, in `out`, which is emptied first; `Event::Left` says when they have left. To be
    /// asked until it gives none.
    pub fn poll_datagrams(&mut self, now: Now, stream: StreamId, limit: Limit, out: &mut Batch) {
        out.clear();
        if let Some(neighbour) = self.adjacencies.neighbours.get_mut(&stream) {
            neighbour.session.poll_datagrams(now, limit, out);
            neighbour.flush_pending = !out.is_empty();
            if neighbour.has_moved_on() {
                self.adjacencies.to_serve.insert(stream);
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
        let heard = self.adjacencies.neighbours.iter();
        heard
            .filter(|(_, it)| it.link.is_none() && it.session.is_datagrams())
            .map(|(&stream, _)| stream)
            .collect()
    }
}
