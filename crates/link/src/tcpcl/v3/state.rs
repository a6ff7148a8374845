//! The states of a session: RFC 7242 3 to 6.
//!
//! ```text
//!                      TCP connected, contact header sent
//!                            |
//!                            V
//!                      +-----------+
//!                      |  Contact  |
//!                      +-----------+
//!                            | both contact headers agree
//!                            V
//!                        +--------+      new bundle       +--------+
//!                        |  Idle  |---------------------->|  Live  |
//!                        |        |<----------------------|        |
//!                        +--------+     bundles done      +--------+
//!                            | end wanted, by either          | end wanted, by either
//!                            V                                |
//!                      +-----------+                          |
//!                      | Finishing |<-------------------------+
//!                      +-----------+
//!                            | own bundles done, SHUTDOWN sent
//!                            V
//!                        +--------+
//!                        | Ending |
//!                        +--------+
//!                            | SHUTDOWN received, peer's bundles done
//!                            V
//!                        +--------+   from every state: refusal, peer's fault, time-out,
//!                        | Closed |<- connection lost
//!                        +--------+
//! ```

use crate::tcpcl::timer::Stage;

/// A session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for the peer's contact header (RFC 7242 4.1).
    Contact,
    /// Established, no bundle under way.
    Idle,
    /// Established, with bundles under way.
    Live,
    /// No bundle of ours begins; those under way finish before SHUTDOWN, after which no data may follow (RFC 7242 3).
    Finishing,
    /// SHUTDOWN was sent; the peer's bundles under way finish (RFC 7242 6.1).
    Ending,
    /// Over.
    Closed,
}

/// The events that move a session from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// The contact headers agree.
    HeadersAgreed,
    /// A bundle began.
    TransferBegun,
    /// The last bundle is over.
    TransfersDone,
    /// One side wants the session to end.
    EndWanted,
    /// We sent SHUTDOWN.
    ShutdownSent,
    /// Both sides sent SHUTDOWN and all bundles are over.
    Drained,
    /// The session cannot go on.
    Broken,
}

/// The transition table; `None` where the trigger cannot occur.
pub(super) const fn next(state: State, trigger: Trigger) -> Option<State> {
    Some(match (state, trigger) {
        (State::Contact, Trigger::HeadersAgreed) | (State::Live, Trigger::TransfersDone) => {
            State::Idle
        }
        (State::Idle, Trigger::TransferBegun) => State::Live,
        (State::Idle | State::Live, Trigger::EndWanted) => State::Finishing,
        (State::Finishing, Trigger::ShutdownSent) => State::Ending,
        (State::Ending, Trigger::Drained)
        | (
            State::Contact | State::Idle | State::Live | State::Finishing | State::Ending,
            Trigger::Broken,
        ) => State::Closed,
        _ => return None,
    })
}

impl State {
    /// Both sides have agreed on parameters and the session is not over.
    #[must_use]
    pub const fn is_established(self) -> bool {
        matches!(
            self,
            Self::Idle | Self::Live | Self::Finishing | Self::Ending
        )
    }

    /// The phase that the session's clocks know it by.
    pub(super) const fn stage(self) -> Stage {
        match self {
            Self::Contact => Stage::SettingUp,
            Self::Idle => Stage::Idle,
            Self::Live => Stage::Live,
            Self::Finishing | Self::Ending => Stage::Ending,
            Self::Closed => Stage::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    /// RFC 7242 3 to 6: the table as a whole, so that a change of it is seen.
    #[test]
    fn the_transition_table_is_the_recorded_one() {
        let states = [
            State::Contact,
            State::Idle,
            State::Live,
            State::Finishing,
            State::Ending,
            State::Closed,
        ];
        let triggers = [
            Trigger::HeadersAgreed,
            Trigger::TransferBegun,
            Trigger::TransfersDone,
            Trigger::EndWanted,
            Trigger::ShutdownSent,
            Trigger::Drained,
            Trigger::Broken,
        ];
        let mut table = String::new();
        for state in states {
            for trigger in triggers {
                if let Some(next) = next(state, trigger) {
                    table.push_str(&format!("{state:?} + {trigger:?} -> {next:?}\n"));
                }
            }
        }
        assert_eq!(
            table,
            include_str!("../../../tests/data/state_table_v3.txt")
        );
    }
}
