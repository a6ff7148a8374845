//! The states of a held bundle: the retention constraints of RFC 9171 (5.2 to 5.9), and beside them the states that
//! come of storing first and forgetting last.
//!
//! ```text
//!                         octets come in
//!                               |
//!                               V
//!                         +----------+   a part of another is durable   +------+
//!                         | Arriving |--------------------------------->| Kept |
//!                         +----------+                                  +------+
//!                               | durable                                   | no more of it comes
//!                               V                                           |
//!   a restart finds it  +-----------------+                                 |
//!  -------------------->| DispatchPending |<--------------------------------+
//!                       +-----------------+
//!                         |  |  |  ^   | a fragment for an endpoint here    +--------------+
//!           no hop has it |  |  |  |   +----------------------------------->| Reassembling |
//!                         |  |  |  +----------------------------------------|              |
//!                         V  |  |       the whole is there                  +--------------+
//!               +---------+  |  |                                                  ^
//!               | Waiting |  |  +-----------+                                      |
//!               +---------+  |              |                          a fragment of the whole is damaged:
//!                 |    ^     |              V                          from Waiting, AwaitingRetry
//!           taken |    |     | taken   +---------------+
//!                 V    |     V         | AwaitingRetry |----> DispatchPending, after its time
//!               +----------------+     +---------------+
//!               |    InFlight    |----------^
//!               +----------------+   not now
//!                 | has left, and nobody acknowledges it, or who has custody of it
//!                 V
//!               +------+
//!               | Sent |----> DispatchPending, for a session over another link
//!               +------+
//!
//!   +-------------+
//!   | Quarantined |<-- the octets are damaged: from DispatchPending, Waiting, AwaitingRetry, Reassembling
//!   +-------------+
//!   +----------+
//!   | Deleting |<-- taken by a hop or an application, expired, not wanted, not kept: from every state
//!   +----------+
//! ```

use crate::held::Held;
use crate::outbox::Outbox;
use alloc::format;

use dhow_bundle::Instant;
use dhow_bundle::storage::BundleKey;

use crate::driver::Occurrence;
use crate::held::bundles::Entry;

/// The state of a held bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its octets are coming in, or its commit is not durable yet.
    Arriving,
    /// A fragment that holds the first octets of a bundle that is still coming in.
    Kept,
    /// The bundle is durable, and its way is not known yet (RFC 9171 5.2, 5.6: dispatch pending).
    DispatchPending,
    /// The bundle waits in its destination's queue for a hop or a subscriber (RFC 9171 5.4: forward pending).
    Waiting,
    /// The bundle is with a session, a subscriber or a service of this node.
    InFlight,
    /// A fragment for an endpoint here that waits for the others (RFC 9171 5.9: reassembly pending).
    Reassembling,
    /// A neighbour or an application could not take it, or the store is asked whether it is intact; a timer wakes it at the latest.
    AwaitingRetry {
        /// When the timer does.
        until: Instant,
    },
    /// The bundle has left over a link that promises nothing, and is kept: for a session over another link, or until it expires. Or this node is its
    /// custodian and waits for a signal (RFC 5050 5.10: custody accepted).
    Sent,
    /// Its octets are damaged on disk: it is neither sent nor delivered, and kept for a person who can mend it.
    Quarantined,
    /// Its deletion was asked for and is not durable yet.
    Deleting,
}

/// The events that move a bundle from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The store has made a fragment of a bundle that is coming in durable.
    PartStored,
    /// The store has made it durable, or nothing comes behind a part that was kept.
    Stored,
    /// No hop takes it at once.
    Queued,
    /// A session, a subscriber or a service of this node takes it.
    Taken,
    /// The bundle is a fragment whose unit is not whole.
    PartOfUnit,
    /// The bundle stands for a unit that is whole.
    UnitWhole,
    /// Another fragment of its whole is damaged.
    UnitBroken,
    /// The bundle is tried again later.
    RetryLater {
        /// The time of the next try.
        until: Instant,
    },
    /// All of it has left over a link that promises nothing, or is with the next hop while this node is its custodian.
    Left,
    /// The bundle has rested, or the event that it rested for has come; or a session over another link.
    Woken,
    /// Octets of the bundle are damaged.
    Damaged,
    /// Nothing retains it any more.
    Deleted,
}

/// The transition table; `None` where the trigger cannot occur. The rest of a trigger that is known is a
/// comparison.
#[inline(always)]
const fn next(state: State, trigger: Trigger) -> Option<State> {
    use State as S;
    use Trigger as T;
    Some(match (state, trigger) {
        (S::Arriving, T::PartStored) => S::Kept,
        (S::Arriving | S::Kept, T::Stored)
        | (S::Reassembling, T::UnitWhole)
        | (S::AwaitingRetry { .. } | S::Sent, T::Woken) => S::DispatchPending,
        (S::DispatchPending | S::InFlight, T::Queued) => S::Waiting,
        (S::DispatchPending | S::Waiting, T::Taken) => S::InFlight,
        (S::DispatchPending, T::PartOfUnit)
        | (S::Waiting | S::AwaitingRetry { .. } | S::Reassembling, T::UnitBroken) => {
            S::Reassembling
        }
        (S::DispatchPending | S::InFlight, T::RetryLater { until }) => S::AwaitingRetry { until },
        (S::InFlight, T::Left) => S::Sent,
        (
            S::DispatchPending | S::Waiting | S::AwaitingRetry { .. } | S::Reassembling,
            T::Damaged,
        ) => S::Quarantined,
        (
            S::Arriving
            | S::Kept
            | S::DispatchPending
            | S::Waiting
            | S::InFlight
            | S::Reassembling
            | S::AwaitingRetry { .. }
            | S::Sent
            | S::Quarantined,
            T::Deleted,
        ) => S::Deleting,
        _ => return None,
    })
}

/// The state of one bundle, which only the table moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention(State);

/// A trigger that the table does not have for the state that a bundle is in: a mistake in this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Impossible {
    pub(crate) state: State,
    pub(crate) trigger: Trigger,
}

impl Retention {
    /// The state of a bundle whose octets begin to come in.
    pub(crate) const ARRIVING: Self = Self(State::Arriving);

    /// The state of a bundle that an earlier run stored.
    pub(crate) const RECOVERED: Self = Self(State::DispatchPending);

    pub(crate) const fn state(self) -> State {
        self.0
    }

    /// Four bits for it; where it lasts until a time, that is kept beside them.
    pub(crate) const fn code(self) -> u8 {
        match self.0 {
            State::Arriving => 0,
            State::Kept => 1,
            State::DispatchPending => 2,
            State::Waiting => 3,
            State::InFlight => 4,
            State::Reassembling => 5,
            State::AwaitingRetry { .. } => 6,
            State::Sent => 7,
            State::Quarantined => 8,
            State::Deleting => 9,
        }
    }

    /// The state with this code, until `until` where it lasts until a time.
    pub(crate) fn of_code(code: u8, until: impl FnOnce() -> Instant) -> Self {
        Self(match code {
            0 => State::Arriving,
            1 => State::Kept,
            2 => State::DispatchPending,
            3 => State::Waiting,
            4 => State::InFlight,
            5 => State::Reassembling,
            6 => State::AwaitingRetry { until: until() },
            7 => State::Sent,
            8 => State::Quarantined,
            _ => State::Deleting,
        })
    }

    /// Move on; the state stays where the table has no transition.
    #[inline(always)]
    pub(crate) fn advance(&mut self, trigger: Trigger) -> Result<(), Impossible> {
        let state = self.0;
        self.0 = next(state, trigger).ok_or(Impossible { state, trigger })?;
        Ok(())
    }
}

impl Held {
    /// The state of a bundle that is held.
    pub(crate) fn state(&self, key: BundleKey) -> Option<State> {
        self.bundles.entry(key).map(Entry::state)
    }

    /// Move a bundle on. False where its state does not allow that: it stays as it is, and somebody is told of the mistake.
    #[inline(always)]
    pub(crate) fn advance(&mut self, out: &mut Outbox, key: BundleKey, trigger: Trigger) -> bool {
        let Some(entry) = self.bundles.entry_mut(key) else {
            return false;
        };
        match entry.advance(trigger) {
            Ok(()) => true,
            Err(impossible) => {
                self.transition_refused(out, key, impossible);
                false
            }
        }
    }

    #[cold]
    pub(crate) fn transition_refused(
        &mut self,
        out: &mut Outbox,
        key: BundleKey,
        impossible: Impossible,
    ) {
        let Impossible { state, trigger } = impossible;
        out.counters.transitions_refused += 1;
        if let Some(id) = self.bundles.entry(key).map(|entry| self.bundle_id(entry)) {
            let transition = format!("{state:?} + {trigger:?}");
            out.occurred(Occurrence::TransitionRefused { id, transition });
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    /// RFC 9171 5: the table as a whole, so that a change of it is seen.
    #[test]
    fn the_transition_table_is_the_recorded_one() {
        let until = Instant::START;
        let states = [
            State::Arriving,
            State::Kept,
            State::DispatchPending,
            State::Waiting,
            State::InFlight,
            State::Reassembling,
            State::AwaitingRetry { until },
            State::Sent,
            State::Quarantined,
            State::Deleting,
        ];
        let triggers = [
            Trigger::PartStored,
            Trigger::Stored,
            Trigger::Queued,
            Trigger::Taken,
            Trigger::PartOfUnit,
            Trigger::UnitWhole,
            Trigger::UnitBroken,
            Trigger::RetryLater { until },
            Trigger::Left,
            Trigger::Woken,
            Trigger::Damaged,
            Trigger::Deleted,
        ];
        let name = |of: String| of.split(' ').next().map(String::from).unwrap_or_default();
        let mut table = String::new();
        for state in states {
            for trigger in triggers {
                if let Some(next) = next(state, trigger) {
                    let [state, trigger, next] = [
                        format!("{state:?}"),
                        format!("{trigger:?}"),
                        format!("{next:?}"),
                    ]
                    .map(name);
                    table.push_str(&format!("{state} + {trigger} -> {next}\n"));
                }
            }
        }
        assert_eq!(table, include_str!("../../tests/data/retention_table.txt"));
    }
}
