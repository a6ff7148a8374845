//! The states of a session at its sender and at its receiver: RFC 5326 8.
//!
//! ```text
//! sender:                        block to send
//!              +------------ CLOSED (not begun) ------------+
//!              | no red part                                | red part
//!              V                                            V
//!         +---------+                                  +---------+
//!         | FG_XMIT |                                  | RP_XMIT |--- EORP, EOB sent --+
//!         +---------+                                  +---------+                     |
//!              | EOB sent                                   | EORP sent               |
//!              |                                            V                         |
//!              |                                       +---------+                    |
//!              |                                       | GP_XMIT |                    |
//!              |                                       +---------+                    |
//!              |                                            | EOB sent                |
//!              V            red part acknowledged           V                         |
//!           CLOSED <------------------------------- +-------------+ <-----------------+
//!              ^                                    | WAIT_RP_ACK |
//!              | CAS received, limit exceeded       +-------------+
//!         +---------+
//!         | CS_SENT | <- from every state that is not CLOSED: cancelled here, limit exceeded
//!         +---------+    (CR received: CLOSED at once)
//!
//! receiver:                      first data segment
//!                            CLOSED ------------+
//!                                               V
//!                                          +--------+  EOB received   +-------------+
//!                                          | DS_REC |---------------->| WAIT_RP_REC |
//!                                          +--------+                 +-------------+
//!                                               |                            | red part received, reports
//!                                               |                            | acknowledged
//!                                               V                            V
//!         +---------+  CAR received,   from both: cancelled here,         CLOSED
//!         | CR_SENT |  limit exceeded  miscolored, no such service,
//!         +---------+ ------> CLOSED   limit exceeded: CR_SENT (CS received: CLOSED at once)
//! ```
//!
//! Reports and timers of checkpoints and reports interrupt a state and return to it (markers RX and CP), so they are no
//! states here. `RCV_RP` and `RCV_GP` last for one segment, and are none either.

/// The states of a session at its sender (RFC 5326 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// Nothing was sent: the other engine does not know the session.
    Ready,
    /// `FG_XMIT`.
    FullyGreen,
    /// `RP_XMIT`.
    RedPart,
    /// `GP_XMIT`.
    GreenPart,
    /// `WAIT_RP_ACK`.
    WaitRedAck,
    /// `CS_SENT`.
    CancelSent,
    /// `CLOSED`, at the end.
    Closed,
}

/// An event that moves a session at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderTrigger {
    /// The first segment of a block without red part leaves.
    BegunGreen,
    /// The first segment of a block with red part leaves.
    BegunRed,
    /// The end of the red part was sent, and green octets follow.
    RedEndSent,
    /// The end of the block was sent.
    BlockEndSent,
    /// The red part is claimed as a whole, and all was sent.
    RedClaimed,
    /// The session is cancelled here.
    Cancelled,
    /// The cancellation was acknowledged, or was sent too often; or the receiver cancelled.
    Over,
}

/// The transition table; `None` where the trigger cannot occur.
pub(super) const fn sender(state: Sender, trigger: SenderTrigger) -> Option<Sender> {
    Some(match (state, trigger) {
        (Sender::Ready, SenderTrigger::BegunGreen) => Sender::FullyGreen,
        (Sender::Ready, SenderTrigger::BegunRed) => Sender::RedPart,
        (Sender::RedPart, SenderTrigger::RedEndSent) => Sender::GreenPart,
        (Sender::RedPart | Sender::GreenPart, SenderTrigger::BlockEndSent) => Sender::WaitRedAck,
        (Sender::FullyGreen, SenderTrigger::BlockEndSent)
        | (Sender::WaitRedAck, SenderTrigger::RedClaimed) => Sender::Closed,
        (
            Sender::FullyGreen | Sender::RedPart | Sender::GreenPart | Sender::WaitRedAck,
            SenderTrigger::Cancelled,
        ) => Sender::CancelSent,
        (
            Sender::Ready
            | Sender::FullyGreen
            | Sender::RedPart
            | Sender::GreenPart
            | Sender::WaitRedAck
            | Sender::CancelSent,
            SenderTrigger::Over,
        ) => Sender::Closed,
        _ => return None,
    })
}

/// The states of a session at its receiver (RFC 5326 8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    /// `DS_REC`.
    Receiving,
    /// `WAIT_RP_REC`.
    WaitRed,
    /// `CR_SENT`.
    CancelSent,
    /// `CLOSED`.
    Closed,
}

/// An event that moves a session at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiverTrigger {
    /// The end of the block came.
    BlockEndReceived,
    /// The red part is there, and every report of it acknowledged.
    RedReported,
    /// The session is cancelled here.
    Cancelled,
    /// The cancellation was acknowledged, or was sent too often; or the sender cancelled; or no more of a green part
    /// comes.
    Over,
}

/// The transition table; `None` where the trigger cannot occur.
pub(super) const fn receiver(state: Receiver, trigger: ReceiverTrigger) -> Option<Receiver> {
    Some(match (state, trigger) {
        (Receiver::Receiving, ReceiverTrigger::BlockEndReceived) => Receiver::WaitRed,
        (Receiver::WaitRed, ReceiverTrigger::RedReported)
        | (Receiver::Receiving | Receiver::WaitRed | Receiver::CancelSent, ReceiverTrigger::Over) => {
            Receiver::Closed
        }
        (Receiver::Receiving | Receiver::WaitRed, ReceiverTrigger::Cancelled) => {
            Receiver::CancelSent
        }
        _ => return None,
    })
}

impl Sender {
    /// Follow the table.
    pub(super) fn step(&mut self, trigger: SenderTrigger) {
        let next = sender(*self, trigger);
        assert!(next.is_some(), "the diagram knows {trigger:?} in {self:?}");
        *self = next.unwrap_or(*self);
    }

    /// Octets of the block may still leave.
    pub(super) const fn is_sending(self) -> bool {
        !matches!(self, Self::CancelSent | Self::Closed)
    }
}

impl Receiver {
    /// Follow the table.
    pub(super) fn step(&mut self, trigger: ReceiverTrigger) {
        let next = receiver(*self, trigger);
        assert!(next.is_some(), "the diagram knows {trigger:?} in {self:?}");
        *self = next.unwrap_or(*self);
    }

    /// Octets of the block are taken.
    pub(super) const fn is_receiving(self) -> bool {
        matches!(self, Self::Receiving | Self::WaitRed)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    /// RFC 5326 8: the tables as a whole, so that a change of them is seen.
    #[test]
    fn the_transition_tables_are_the_recorded_ones() {
        let mut table = String::new();
        for state in [
            Sender::Ready,
            Sender::FullyGreen,
            Sender::RedPart,
            Sender::GreenPart,
            Sender::WaitRedAck,
            Sender::CancelSent,
            Sender::Closed,
        ] {
            for trigger in [
                SenderTrigger::BegunGreen,
                SenderTrigger::BegunRed,
                SenderTrigger::RedEndSent,
                SenderTrigger::BlockEndSent,
                SenderTrigger::RedClaimed,
                SenderTrigger::Cancelled,
                SenderTrigger::Over,
            ] {
                if let Some(next) = sender(state, trigger) {
                    table.push_str(&format!("sender: {state:?} + {trigger:?} -> {next:?}\n"));
                }
            }
        }
        for state in [
            Receiver::Receiving,
            Receiver::WaitRed,
            Receiver::CancelSent,
            Receiver::Closed,
        ] {
            for trigger in [
                ReceiverTrigger::BlockEndReceived,
                ReceiverTrigger::RedReported,
                ReceiverTrigger::Cancelled,
                ReceiverTrigger::Over,
            ] {
                if let Some(next) = receiver(state, trigger) {
                    table.push_str(&format!("receiver: {state:?} + {trigger:?} -> {next:?}\n"));
                }
            }
        }
        assert_eq!(table, include_str!("../../tests/data/state_table_ltp.txt"));
    }
}
