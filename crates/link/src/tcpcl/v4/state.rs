//! The states of a session: RFC 9174 3.3.
//!
//! ```text
//!                      TCP connected
//!                            |
//!                            V
//!                      +-----------+    both CAN_TLS     +----------+
//!                      |  Contact  |-------------------->| Securing |
//!                      +-----------+                     +----------+
//!                            | no TLS                         | handshake done
//!                            V                                |
//!                      +------------+                         |
//!                      | Initiation |<------------------------+
//!                      +------------+
//!                            | both SESS_INITs agree
//!                            V
//!                        +--------+     new transfer      +--------+
//!                        |  Idle  |---------------------->|  Live  |
//!                        |        |<----------------------|        |
//!                        +--------+     transfers done    +--------+
//!                            | SESS_TERM sent                 | SESS_TERM sent
//!                            V                                |
//!                        +--------+                           |
//!                        | Ending |<--------------------------+
//!                        +--------+
//!                            | SESS_TERM received, transfers done
//!                            V
//!                        +--------+   from every state: refusal, peer's fault, time-out,
//!                        | Closed |<- failed handshake, connection lost
//!                        +--------+
//! ```

use crate::tcpcl::timer::Stage;

/// A session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for the peer's contact header (RFC 9174 4.1).
    Contact,
    /// Waiting for the TLS handshake, which the driver does (RFC 9174 4.4.3).
    Securing,
    /// Waiting for the peer's `SESS_INIT` (RFC 9174 4.6).
    Initiation,
    /// Established, no transfer under way.
    Idle,
    /// Established, with transfers under way.
    Live,
    /// `SESS_TERM` was sent; transfers under way finish, none begins (RFC 9174 6.1).
    Ending,
    /// Over.
    Closed,
}

/// An event that moves a session from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// The contact headers agree on a session without TLS.
    PlainAgreed,
    /// The contact headers agree on TLS.
    TlsAgreed,
    /// The TLS handshake is done and the peer's certificate acceptable.
    HandshakeDone,
    /// Both `SESS_INIT`s are there and acceptable.
    InitAgreed,
    /// A transfer began.
    TransferBegun,
    /// The last transfer is over.
    TransfersDone,
    /// We sent `SESS_TERM`.
    TermSent,
    /// Both sides sent `SESS_TERM` and all transfers are over.
    Drained,
    /// The session cannot go on.
    Broken,
}

/// The transition table; `None` where the trigger cannot occur.
pub(super) const fn next(state: State, trigger: Trigger) -> Option<State> {
    Some(match (state, trigger) {
        (State::Contact, Trigger::PlainAgreed) | (State::Securing, Trigger::HandshakeDone) => {
            State::Initiation
        }
        (State::Contact, Trigger::TlsAgreed) => State::Securing,
        (State::Initiation, Trigger::InitAgreed) | (State::Live, Trigger::TransfersDone) => {
            State::Idle
        }
        (State::Idle, Trigger::TransferBegun) => State::Live,
        (State::Idle | State::Live, Trigger::TermSent) => State::Ending,
        (State::Ending, Trigger::Drained) => State::Closed,
        (
            State::Contact
            | State::Securing
            | State::Initiation
            | State::Idle
            | State::Live
            | State::Ending,
            Trigger::Broken,
        ) => State::Closed,
        _ => return None,
    })
}

impl State {
    /// Both sides have agreed on parameters and the session is not over.
    #[must_use]
    pub const fn is_established(self) -> bool {
        matches!(self, Self::Idle | Self::Live | Self::Ending)
    }

    /// The phase that the session's clocks know it by.
    pub(super) const fn stage(self) -> Stage {
        match self {
            Self::Contact | Self::Securing | Self::Initiation => Stage::SettingUp,
            Self::Idle => Stage::Idle,
            Self::Live => Stage::Live,
            Self::Ending => Stage::Ending,
            Self::Closed => Stage::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    /// RFC 9174 3.3: the table as a whole, so that a change of it is seen.
    #[test]
    fn the_transition_table_is_the_recorded_one() {
        let states = [
            State::Contact,
            State::Securing,
            State::Initiation,
            State::Idle,
            State::Live,
            State::Ending,
            State::Closed,
        ];
        let triggers = [
            Trigger::PlainAgreed,
            Trigger::TlsAgreed,
            Trigger::HandshakeDone,
            Trigger::InitAgreed,
            Trigger::TransferBegun,
            Trigger::TransfersDone,
            Trigger::TermSent,
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
        assert_eq!(table, include_str!("../../../tests/data/state_table.txt"));
    }
}
