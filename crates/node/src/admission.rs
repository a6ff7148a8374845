//! Whether an incoming bundle is taken, known, or deleted at once (RFC 9171 5.6, and the policies of
//! the link or listener that it came over).

use crate::held::bundles::{HeldTime, NewEntry, Received};
use crate::held::removed::was_never_here;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{BlockFlags, DtnTime, Header, HopCount, Now, Priority};
use dhow_link::stream::RefuseReason;

use crate::adjacencies::session_id::SessionId;
use crate::config::Enabled;
use crate::driver::Occurrence;
use crate::held::FRESH;
use crate::held::bundles::{Entry, Fragment, Identity, Removal};
use crate::held::endpoints::EndpointIndex;
use crate::held::removed::Recollection;
use crate::held::retention::State;
use crate::held::rivals::RIVALS;
use crate::local::Locality;
use crate::node::{Node, Stage};
use crate::reception::Refused;
use crate::reports::{ReportKind, Subject, aggregates};
use crate::reservation::Comes;

/// Whether a copy of an incoming bundle is here to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copy {
    Held,
    /// The copy comes in, and the bundle that comes now does so beside it.
    Comes,
    Gone,
}

/// A copy of which nothing but the beginning has come is alone for so long.
const FIRST_OCTETS: Duration = Duration::from_secs(1);

/// A copy that will be whole in so long is waited for, while it is younger than [`ALONE`].
const SOON: Duration = Duration::from_secs(5);

/// The age of a copy from which on others may come in beside it, however little of it is missing.
const ALONE: Duration = Duration::from_secs(10);

/// The fate of an incoming bundle.
pub(crate) enum Admission {
    /// The bundle is taken.
    New(BundleKey),
    /// This node has it or had it: the sender may forget it.
    Known,
    /// The bundle is accepted and deleted at once, as its flags or its age demand.
    Delete,
}

impl Node {
    /// The refusal of a bundle of which another copy is whole, and not durable or not deleted yet.
    fn with_the_disk(&self, key: BundleKey) -> Refused {
        let why = "another copy of the bundle is on its way to or from the disk";
        Refused::for_copy(
            (&self.held, key),
            &self.forwarding,
            RefuseReason::NoResources,
            why,
        )
    }

    /// Decide about an incoming bundle by its header.
    pub(crate) fn admit(
        &mut self,
        now: Now,
        session: SessionId,
        header: &Header,
    ) -> Result<Admission, Refused> {
        let from = self.check_policy(session, header)?;
        self.check_rate(now, session, from, header)?;
        let id = header.id();
        self.held.check_retracted(&id)?;
        self.end_older(now, from, session, &id);
        let (mut returns, mut rival) = (0, None);
        let hops = header
            .hop_count()
            .and_then(|hops| u8::try_from(hops.count).ok());
        // Copies are told apart by their hops only where every node counts them.
        let counted = || hops.filter(|_| !header.has_been_in_v6());
        // RFC 9171 4.2.3: a bundle without source is not identified by its creation timestamp, which
        // another node may have given out as well.
        if !id.source.is_null()
            && let Some(source) = self.held.endpoints().find(&id.source)
        {
            let identity = Identity {
                source,
                creation: id.creation,
                fragment: id.fragment,
            };
            let whole = Identity {
                fragment: None,
                ..identity
            };
            if let Some(key) = self.held.find(&identity) {
                match self.meet_copy(now, key, (session, from), (hops, counted()))? {
                    Copy::Held => {
                        self.forwarding.copy_known(&self.adjacencies, key, session);
                        self.tell_redundant(now, Some(key), header);
                        self.duplicate(id);
                        return Ok(Admission::Known);
                    }
                    Copy::Comes => rival = self.held.find(&identity),
                    Copy::Gone => {}
                }
            }
            let delivered = Some(Recollection::Delivered);
            let recollection = self.held.removed().recall(&identity, now.monotonic);
            let has_whole = || self.held.removed().recall(&whole, now.monotonic) == delivered;
            if recollection == delivered
                || (id.fragment.is_some()
                    && !planted(Mutant::FragmentOfDeliveredTaken)
                    && has_whole())
            {
                self.tell_redundant(now, None, header);
                self.duplicate(id);
                return Ok(Admission::Known);
            }
            if id.fragment.is_some() && self.forwarding.is_in_hand(&self.held, &whole) {
                let why = "an application has the whole of it in hand, which is not stored";
                return Err(Refused::new(RefuseReason::NoResources, why));
            }
            if let Some(Recollection::Left {
                returns: before,
                hops: then,
            }) = recollection
            {
                if was_never_here(counted(), then) {
                    self.tell_redundant(now, None, header);
                    self.duplicate(id);
                    return Ok(Admission::Known);
                }
                returns = before.saturating_add(1);
            }
        }
        if self
            .forwarding
            .is_known_there(&self.held, now, &id, &header.primary.destination)
        {
            self.duplicate(id);
            return Ok(Admission::Known);
        }
        if returns == 0 && self.held.left_a_moment_ago(now, &id, header) {
            returns = 1;
        }
        let age_ms = age_on_reception(header, now);
        let reason_to_delete = self.reason_to_delete(header, age_ms, now, returns);
        if let Some(reason) = reason_to_delete {
            self.report(
                now,
                &Subject::of_header(header),
                ReportKind::Deleted,
                reason,
            );
            if reason == 1 {
                self.outbox.counters.expired += 1;
            } else {
                self.outbox.counters.deleted += 1;
            }
            self.outbox.occurred(Occurrence::Deleted { id, reason });
            return Ok(Admission::Delete);
        }
        self.held.check_whole(&self.config, header)?;
        self.check_shares(session, from, header)?;
        let octets = header.total_octets();
        let comes = Comes::Over(session, &header.primary.destination);
        self.make_room(now, octets, comes)?;
        let total_octets = header.total_adu_octets();
        let fragment = id.fragment.map(|range| Fragment {
            range,
            total_octets,
        });
        let remaining_ms = header.primary.lifetime_ms.saturating_sub(age_ms);
        let source = self.held.endpoints_mut().acquire(&id.source);
        // Reports go to the source, most often.
        let report_to = match header.primary.report_to == id.source {
            true => self.held.endpoints_mut().retain(source),
            false => self.held.endpoints_mut().acquire(&header.primary.report_to),
        };
        let entry = NewEntry {
            source,
            destination: self
                .held
                .endpoints_mut()
                .acquire(&header.primary.destination),
            report_to,
            previous: Some(self.held.endpoints_mut().retain(from)),
            creation: id.creation,
            fragment,
            version: header.version(),
            flags: header.primary.flags.bits(),
            reads_aggregated_reports: aggregates(header),
            priority: self.priority_of(session, header),
            lifetime_ms: header.primary.lifetime_ms,
            held: HeldTime::Arriving(Received {
                at: now.monotonic,
                dtn: now.dtn,
                age_ms,
            }),
            expires: now.monotonic + core::time::Duration::from_millis(remaining_ms),
            header_octets: header.header_octets(),
            payload_octets: header.payload_octets(),
            octets,
            sound_until: now.monotonic + FRESH,
            returns,
            hops,
        };
        let key = self.held.insert_beside(rival, entry);
        self.take_custody(key, header);
        if planted(Mutant::AcknowledgedBeforeStored)
            && self
                .held
                .endpoints()
                .locality_of(&header.primary.destination)
                != Locality::Remote
        {
            self.acknowledge_arrival(now, key);
        }
        if self.forwarding.counts_copies(&header.primary.destination)
            && let Some(permits) = header.permits()
        {
            self.held.set_permits(key, permits);
        }
        Ok(Admission::New(key))
    }

    /// The order in which a neighbour's bundle leaves this node: as it says, and no more than the neighbour may.
    fn priority_of(&self, session: SessionId, header: &Header) -> Priority {
        let neighbour = self.adjacencies.neighbour(session);
        let most = neighbour.and_then(|it| it.policy.highest_priority);
        header.priority().min(most.unwrap_or(Priority::MOST))
    }

    fn duplicate(&mut self, id: dhow_bundle::BundleId) {
        self.outbox.counters.duplicates += 1;
        self.outbox.occurred(Occurrence::Duplicate { id });
    }

    /// A bundle that is held already came again. It counts as held only when it will stay held: what is
    /// on its way from or to the disk, or to a neighbour that may be about to acknowledge it, is not.
    fn meet_copy(
        &mut self,
        now: Now,
        key: BundleKey,
        from: (SessionId, EndpointIndex),
        (hops, counted): (Option<u8>, Option<u8>),
    ) -> Result<Copy, Refused> {
        let state = self.held.state(key);
        if state == Some(State::Quarantined) {
            // The copy is better than the one here: it is taken when it comes again.
            self.delete(now, key, Removal::Deleted, None);
        }
        let Some(entry) = self.held.entry(key) else {
            return Ok(Copy::Gone);
        };
        let remote = self.held.endpoints().locality(entry.destination()) == Locality::Remote;
        let (state, removal) = (entry.state(), entry.removal());
        let is_taken = removal != Removal::Deleted && was_never_here(counted, entry.hops());
        match state {
            State::Arriving if planted(Mutant::CopyTakenWhileArriving) => Ok(Copy::Held),
            State::Arriving => self.meet_arriving(now, key, from),
            State::Deleting if is_taken => Ok(Copy::Held),
            State::Kept | State::Deleting => Err(self.with_the_disk(key)),
            State::InFlight
                if remote
                    && self.forwarding.copies().router(key).is_none()
                    && !self.held.was_never_here(key, counted) =>
            {
                let why = "another copy of the bundle is on its way to a neighbour";
                Err(Refused::new(RefuseReason::NoResources, why))
            }
            _ => {
                // The copy ends here, so that the bundle is what is left of it as well: wherever the copy was, it is known for one that
                // has gone further.
                if let Some(entry) = self.held.entry_mut(key) {
                    entry.set_hops(entry.hops().max(hops));
                }
                Ok(Copy::Held)
            }
        }
    }

    /// A bundle that is coming in begins to come once more.
    ///
    /// A neighbour that begins it again has given up its other transfer, or lost it. Neighbours that know nothing of each other do not take it
    /// from each other: a copy that is nearly whole is waited for, for a while, and beside any other the new one comes in, until one is whole.
    fn meet_arriving(
        &mut self,
        now: Now,
        key: BundleKey,
        (session, from): (SessionId, EndpointIndex),
    ) -> Result<Copy, Refused> {
        let mut copies = self.held.rivals(key);
        copies.push(key);
        if !copies.iter().all(|copy| self.comes_on(*copy)) {
            return Err(self.with_the_disk(key));
        }
        let previous = |copy: &BundleKey| self.held.entry(*copy).and_then(Entry::previous);
        let (again, others): (Vec<_>, Vec<_>) = copies.into_iter().partition(|copy| {
            let is_its_own = previous(copy) == Some(from) && !self.comes_once(*copy);
            is_its_own || planted(Mutant::CopiesTakenFromEachOther)
        });
        let comes_again = self
            .adjacencies
            .neighbour(session)
            .is_some_and(|it| it.session.acknowledges());
        if comes_again && others.iter().any(|copy| self.is_soon_whole(now, *copy)) {
            let why = "another copy of the bundle is coming in and will soon be whole";
            return Err(Refused::for_copy(
                (&self.held, key),
                &self.forwarding,
                RefuseReason::Retransmit,
                why,
            ));
        }
        if others.len() >= RIVALS {
            let why = format!("{RIVALS} other copies of the bundle are coming in");
            return Err(Refused::for_copy(
                (&self.held, key),
                &self.forwarding,
                RefuseReason::NoResources,
                why,
            ));
        }
        for copy in again {
            self.interrupt(now, copy);
        }
        match others.is_empty() {
            true => Ok(Copy::Gone),
            false => Ok(Copy::Comes),
        }
    }

    /// Whether a copy that began a short time ago will be whole in a short time, as fast as it has come so far.
    fn is_soon_whole(&self, now: Now, key: BundleKey) -> bool {
        let (Some(entry), Some(arrival)) = (self.held.entry(key), self.held.arrivals().get(key))
        else {
            return false;
        };
        let age = now.monotonic.since(entry.received());
        is_soon_whole(age, arrival.appended, entry.octets())
    }

    /// The neighbour that a bundle comes from, if that may bring it.
    fn check_policy(&self, session: SessionId, header: &Header) -> Result<EndpointIndex, Refused> {
        if self.stage != Stage::Working {
            let why = "the node is shutting down";
            return Err(Refused::new(RefuseReason::SessionTerminating, why));
        }
        let Some(neighbour) = self.adjacencies.neighbour(session) else {
            return Err(Refused::not_acceptable("the session is gone"));
        };
        let (source, destination) = (&header.primary.source, &header.primary.destination);
        // RFC 9758 5.4: ipn:!.S never comes from outside.
        if source.is_local_node() || destination.is_local_node() {
            return Err(Refused::not_acceptable(
                "a LocalNode endpoint ID came from outside (RFC 9758 5.4)",
            ));
        }
        if destination.is_null() {
            return Err(Refused::not_acceptable(
                "the destination is the null endpoint (RFC 9171 4.2.5)",
            ));
        }
        if neighbour.policy.relay == Enabled::No
            && self.held.endpoints().locality_of(destination) == Locality::Remote
        {
            return Err(Refused::not_acceptable(
                "this link does not relay to other nodes",
            ));
        }
        if neighbour.policy.accept_relayed == Enabled::No
            && source.node_id().as_ref() != neighbour.sender_id()
        {
            return Err(Refused::not_acceptable(
                "this link takes bundles of its peer alone",
            ));
        }
        let (octets, most) = (header.total_octets(), neighbour.policy.transfer_mru);
        if octets > most {
            return Err(Refused::not_acceptable(format!(
                "a bundle of {octets} octets is larger than transfer_mru of this link, {most}"
            )));
        }
        let most = neighbour.block_octets();
        if octets > most {
            return Err(Refused::not_acceptable(format!(
                "a bundle of {octets} octets is larger than largest_block of this link, {most}"
            )));
        }
        let sources = &neighbour.accept_sources;
        if !neighbour.policy.accept_sources.is_empty()
            && !sources.iter().any(|pattern| pattern.matches(source))
        {
            return Err(Refused::not_acceptable(format!(
                "this link takes no bundles from {source}"
            )));
        }
        let established = neighbour.peer;
        established.ok_or_else(|| Refused::not_acceptable("the session is not established"))
    }

    /// The status report reason for which a bundle is deleted on reception, if it is.
    fn reason_to_delete(
        &mut self,
        header: &Header,
        age_ms: u64,
        now: Now,
        returns: u8,
    ) -> Option<u64> {
        // RFC 9171 5.5: a bundle expires when its age exceeds its lifetime.
        if age_ms > header.primary.lifetime_ms {
            return Some(1);
        }
        // RFC 9171 4.4.3: a bundle whose hop count exceeds its limit is deleted.
        if header.hop_count().is_some_and(HopCount::is_exceeded) {
            return Some(9);
        }
        // RFC 9171 5.6 step 4: blocks that this node cannot process; the block asks for the report, whatever
        // the bundle asks for.
        for flags in header.unsupported_blocks() {
            // Of one that is back this node has reported.
            if flags.contains(BlockFlags::REPORT_IF_UNPROCESSABLE) && returns == 0 {
                let subject = Subject::of_header(header);
                self.report_asked(now, &subject, ReportKind::Received, 11);
            }
            if flags.contains(BlockFlags::DELETE_IF_UNPROCESSABLE) {
                return Some(11);
            }
        }
        None
    }
}

/// Whether a copy of this age will be whole in a short time, as fast as so many of all its octets have come.
fn is_soon_whole(age: Duration, came: u64, octets: u64) -> bool {
    let left = u128::from(octets.saturating_sub(came));
    match came {
        0 => age < FIRST_OCTETS,
        came => {
            let until_whole = age.as_nanos().saturating_mul(left) / u128::from(came);
            age < ALONE && until_whole <= SOON.as_nanos()
        }
    }
}

/// RFC 9171 5.5: by the creation time where that and this node's clock are known, else by the bundle age
/// block. A creation time in the future says nothing about the age.
fn age_on_reception(header: &Header, now: Now) -> u64 {
    let created = header.primary.creation.time;
    let block_ms = match planted(Mutant::AgeBlockIgnored) {
        true => 0,
        false => header.age_ms().unwrap_or(0),
    };
    let is_known = created.is_known() || planted(Mutant::ExpiryByWrongClock);
    if is_known && now.dtn.is_known() && now.dtn >= created {
        now.dtn.as_millis() - created.as_millis()
    } else {
        block_ms
    }
}

/// When a bundle that expires at an instant expires by the wall clock.
pub(crate) fn dtn_expiry(expires: dhow_bundle::Instant, now: Now) -> DtnTime {
    if !now.dtn.is_known() {
        return DtnTime::from_millis(u64::MAX);
    }
    let left = u64::try_from((expires - now.monotonic).as_millis()).unwrap_or(u64::MAX);
    now.dtn.saturating_add_millis(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NANOSECOND: Duration = Duration::from_nanos(1);

    #[test]
    fn a_copy_that_is_whole_in_five_seconds_at_its_pace_is_waited_for() {
        let second = Duration::from_secs(1);
        assert!(is_soon_whole(second, 100, 600));
        assert!(!is_soon_whole(second, 100, 601), "a hundredth more");
        assert!(!is_soon_whole(second, 99, 600), "a hundredth slower");
        assert!(is_soon_whole(second * 2, 1_000, 3_500));
        assert!(!is_soon_whole(second * 2, 1_000, 3_501));
        assert!(is_soon_whole(second, 600, 600), "it is whole");
        // All came at once: nothing can be said of the pace, and the rest is soon there.
        assert!(is_soon_whole(Duration::ZERO, 1, u64::MAX));
        assert!(!is_soon_whole(second, 1, u64::MAX));
    }

    #[test]
    fn a_copy_of_ten_seconds_is_waited_for_no_more() {
        assert!(is_soon_whole(ALONE - NANOSECOND, 999, 1_000));
        assert!(!is_soon_whole(ALONE, 999, 1_000), "a thousandth is missing");
        assert!(!is_soon_whole(ALONE, 1_000, 1_000), "nothing is");
    }

    #[test]
    fn a_copy_of_which_nothing_has_come_is_waited_for_a_second() {
        assert!(is_soon_whole(Duration::ZERO, 0, 1));
        assert!(is_soon_whole(FIRST_OCTETS - NANOSECOND, 0, u64::MAX));
        assert!(!is_soon_whole(FIRST_OCTETS, 0, 1));
    }
}
