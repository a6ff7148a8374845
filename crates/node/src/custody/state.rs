//! The state of custody of one bundle at this node (RFC 5050 5.10 to 5.12).
//!
//! ```text
//!   this node is to take it        +------+        custody is refused
//!  .-------------------------------| None |-------------------------------.
//!  V                               +------+                               V
//! +-----------+       the store refuses it |                        +---------+
//! | Requested |----------------------------+----------------------->| Refused |
//! +-----------+                            |                        +---------+
//!  | it is durable: a signal is owed       | a restart finds custody in its note
//!  V                                       V
//! +----------+                  +-----------------+
//! | Accepted |                  | AwaitingForward |----------------------.
//! +----------+                  +-----------------+                      |
//!  | it is sent         it is sent |   ^ a hop refuses custody,          |
//!  |                               |   | or no signal comes in time      | a hop has it of what was
//!  V                               V   |                                 | sent before
//! +--------------------------------------+                               |
//! |            AwaitingSignal            |                               |
//! +--------------------------------------+                               |
//!                     | a hop has it                                     |
//!                     V                                                  |
//!               +----------+                                             |
//!               | Released |<--------------------------------------------'
//!               +----------+
//!                 ^ delivered, deleted or expired: from Requested, Accepted, AwaitingSignal, AwaitingForward;
//!                   a hop has it of what is just being sent: from Accepted, and AwaitingForward follows it where the hop refuses custody
//! ```
//!
//! A bundle in None, Released or Refused has no entry: nothing here retains it.

/// The state of custody of a bundle at this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustodyState {
    /// This node has nothing to do with custody of it.
    None,
    /// This node is to take custody, and the bundle is not durable here yet.
    Requested,
    /// Custody is this node's, and all of the bundle was not sent yet. It may be on its way: a signal may overtake the acknowledgment of the transfer.
    Accepted,
    /// The bundle was sent; a custody signal is expected, and a timer runs.
    AwaitingSignal,
    /// The bundle is to be sent again. A signal for the transmission before may still come.
    AwaitingForward,
    /// Custody is somebody else's, or nobody's any more.
    Released,
    /// This node did not take custody.
    Refused,
}

/// The events that move custody of a bundle from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// This node is asked to take custody, and is going to.
    Asked,
    /// The bundle is durable here.
    Stored,
    /// Custody is not taken, or the store refuses the bundle.
    Declined,
    /// The bundle was sent to a hop.
    Sent,
    /// A signal says that a hop has the bundle.
    TakenThere,
    /// A signal says that a hop does not take custody.
    RefusedThere,
    /// No signal came in time.
    TimedOut,
    /// A restart finds custody in the bundle's note.
    Recovered,
    /// The bundle is delivered, deleted or expired.
    Removed,
}

impl CustodyState {
    /// The transition table; none where the trigger cannot occur.
    pub(super) const fn next(self, trigger: Trigger) -> Option<Self> {
        use CustodyState as S;
        use Trigger as T;
        Some(match (self, trigger) {
            (S::None, T::Asked) => S::Requested,
            (S::None | S::Requested, T::Declined) => S::Refused,
            (S::None, T::Recovered) => S::AwaitingForward,
            (S::Requested, T::Stored) => S::Accepted,
            (S::Accepted | S::AwaitingSignal | S::AwaitingForward, T::Sent) => S::AwaitingSignal,
            (S::Accepted | S::AwaitingSignal | S::AwaitingForward, T::TakenThere) => S::Released,
            (S::Accepted | S::AwaitingSignal | S::AwaitingForward, T::RefusedThere)
            | (S::AwaitingSignal, T::TimedOut) => S::AwaitingForward,
            (S::Requested | S::Accepted | S::AwaitingSignal | S::AwaitingForward, T::Removed) => {
                S::Released
            }
            _ => return None,
        })
    }

    /// True where nothing is kept of a bundle in this state.
    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::None | Self::Released | Self::Refused)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    /// RFC 5050 5.10 to 5.12: the table as a whole, so that a change of it is seen.
    #[test]
    fn the_transition_table_is_the_recorded_one() {
        use CustodyState as S;
        use Trigger as T;
        let states = [
            S::None,
            S::Requested,
            S::Accepted,
            S::AwaitingSignal,
            S::AwaitingForward,
            S::Released,
            S::Refused,
        ];
        let triggers = [
            T::Asked,
            T::Stored,
            T::Declined,
            T::Sent,
            T::TakenThere,
            T::RefusedThere,
            T::TimedOut,
            T::Recovered,
            T::Removed,
        ];
        let mut table = String::new();
        for state in states {
            for trigger in triggers {
                if let Some(next) = state.next(trigger) {
                    table.push_str(&format!("{state:?} + {trigger:?} -> {next:?}\n"));
                }
            }
        }
        assert_eq!(table, include_str!("../../tests/data/custody_table.txt"));
    }
}
