//! The output of a node: the actions that its driver is to carry out, and the events that it counts.

use alloc::collections::VecDeque;

use dhow_bundle::storage::StoreCommand;

use crate::driver::{Action, Occurrence, Telling, Ticket};
use crate::view::Counters;

/// Actions that wait for the driver when no more bundles are chosen for sessions: what waits in a long line has left
/// the processor's caches when its turn comes.
const TURN_ACTIONS: usize = 128;

/// Actions in the order in which they are to be carried out.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) actions: VecDeque<Action>,
    pub(crate) next_ticket: u64,
    pub(crate) telling: Telling,
    pub(crate) counters: Counters,
}

impl Outbox {
    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(crate) fn store(&mut self, command: StoreCommand) {
        self.act(Action::Store(command));
    }

    pub(crate) fn occurred(&mut self, occurrence: Occurrence) {
        self.act(Action::Occurred(occurrence));
    }

    /// False once so much is to be done that sessions had better be served when it is.
    pub(crate) fn has_turn_left(&self) -> bool {
        self.actions.len() < TURN_ACTIONS
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }
}
