//! The first part of a bundle that is still coming in, kept so that a contact that ends early has not been for
//! nothing (docs/tcpcl-extensions.md 1).
//!
//! If both sides of a session keep reactive fragments, one with the payload octets that are here is committed
//! beside the bundle from time to time; the store shares the payload between the two. The payload that such a fragment has
//! is acknowledged as soon as it is durable. A longer fragment takes the place of a shorter one, and the whole
//! bundle that of all. When the session ends within the transfer, a fragment of all that came goes the way of any
//! other bundle, and so it does after a crash, with what was committed. Octets that are refused are not kept.

use crate::held::reactive::Fate;
use dhow_bundle::mutant::{Mutant, planted};

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{EndpointId, Now};
use dhow_link::stream::LinkCommand;

use crate::driver::Occurrence;
use crate::held::arrivals::Origin;
use crate::held::bundles::Removal;
use crate::held::retention::Trigger;
use crate::node::Node;
use crate::reception::Incoming;
use crate::reports::ReportKind;

impl Node {
    /// A fragment is durable.
    pub(crate) fn part_kept(&mut self, now: Now, key: BundleKey) {
        let Some(fragment) = self.held.reactive_fragments_mut().remove(&key) else {
            return;
        };
        self.discard(now, fragment.replaces);
        match fragment.fate {
            Fate::Dropped => self.discard(now, Some(key)),
            Fate::Final => self.keep_for_good(now, key),
            Fate::Kept => {
                let shorter = self
                    .held
                    .reactive_mut()
                    .get_mut(&fragment.of)
                    .and_then(|reactive| {
                        reactive.next = None;
                        reactive.covered = fragment.covers;
                        reactive.kept.replace(key)
                    });
                self.discard(now, shorter);
                let origin = self
                    .held
                    .arrivals()
                    .get(fragment.of)
                    .map(|arrival| arrival.origin);
                if let Some(Origin::Neighbour { session, transfer }) = origin {
                    let octets = fragment.covers;
                    self.adjacencies.command(
                        &mut self.attention,
                        now,
                        session,
                        LinkCommand::Acknowledge { transfer, octets },
                    );
                }
                self.held.keep_more(
                    &mut self.adjacencies,
                    &mut self.outbox,
                    &self.config,
                    now,
                    fragment.of,
                );
            }
        }
    }

    /// The store could not keep a fragment: the shorter one stays.
    pub(crate) fn part_refused(&mut self, now: Now, key: BundleKey) {
        let Some(fragment) = self.held.reactive_fragments_mut().remove(&key) else {
            return;
        };
        match (fragment.fate, fragment.replaces) {
            (Fate::Kept, _) => {
                if let Some(reactive) = self.held.reactive_mut().get_mut(&fragment.of) {
                    reactive.next = None;
                }
            }
            (Fate::Final, Some(shorter)) => self.keep_for_good(now, shorter),
            (_, shorter) => self.discard(now, shorter),
        }
    }

    /// No more octets come of the bundle of `incoming`: its acknowledged part stays.
    pub(crate) fn end_reactive(&mut self, now: Now, of: BundleKey, incoming: Option<&Incoming>) {
        let Some(reactive) = self.held.reactive_mut().remove(&of) else {
            return;
        };
        let next = reactive
            .next
            .and_then(|next| self.held.reactive_fragments_mut().get_mut(&next));
        let Some(kept) = reactive.kept else {
            // Nothing was acknowledged, so that all of it will come again.
            if let Some(next) = next {
                next.fate = Fate::Dropped;
            }
            return;
        };
        if let Some(next) = next {
            next.fate = Fate::Final;
            next.replaces = Some(kept);
            return;
        }
        let longer = incoming
            .and_then(Incoming::part)
            .filter(|part| part.covers > reactive.covered)
            .and_then(|part| {
                self.held.store_part(
                    &mut self.adjacencies,
                    &mut self.outbox,
                    &self.config,
                    of,
                    part,
                    (Fate::Final, Some(kept)),
                )
            });
        if longer.is_none() && planted(Mutant::ReactiveFragmentDropped) {
            self.discard(now, Some(kept));
        } else if longer.is_none() {
            self.keep_for_good(now, kept);
        }
    }

    /// The parts of a bundle are not wanted: it is here as a whole, or turned out wrong.
    pub(crate) fn drop_reactive(&mut self, now: Now, of: BundleKey) {
        let Some(reactive) = self.held.reactive_mut().remove(&of) else {
            return;
        };
        self.discard(now, reactive.kept);
        if let Some(next) = reactive
            .next
            .and_then(|next| self.held.reactive_fragments_mut().get_mut(&next))
        {
            next.fate = Fate::Dropped;
        }
    }

    /// A fragment is all that came: it goes its way.
    fn keep_for_good(&mut self, now: Now, key: BundleKey) {
        self.held.advance(&mut self.outbox, key, Trigger::Stored);
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let (subject, octets) = (
            self.held
                .reported(&self.config, entry, ReportKind::Received),
            entry.octets(),
        );
        let id = self.held.told(&mut self.outbox, entry);
        let from = entry
            .previous()
            .map(|index| self.held.endpoints().id(index));
        let from = from.and_then(EndpointId::node_id);
        self.outbox.counters.count_received(now.monotonic, octets);
        self.outbox.counters.kept += 1;
        if let Some((from, id)) = from.zip(id) {
            self.outbox
                .occurred(Occurrence::Received { id, from, octets });
        }
        if let Some(subject) = subject {
            self.report(now, &subject, ReportKind::Received, 0);
        }
        self.tell_stored(key);
        self.forwarding.keep(&mut self.held, key);
        self.dispatch(now, key);
    }

    fn discard(&mut self, now: Now, key: Option<BundleKey>) {
        if let Some(key) = key {
            self.delete(now, key, Removal::Deleted, None);
        }
    }
}
