//! Which sessions, of neighbours and applications, are to be attended to, and when.

use alloc::collections::BTreeSet;

use dhow_bundle::Instant;

use crate::door::StreamId;

/// Whether what sessions say is being carried out further up on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attending {
    Yes,
    No,
}

/// Sessions that have something to say, and the timers of all.
pub(crate) struct Attention {
    /// When sessions want their `handle_timeout`.
    pub(crate) timeouts: BTreeSet<(Instant, StreamId)>,
    pub(crate) to_attend: BTreeSet<StreamId>,
    pub(crate) attending: Attending,
}

impl Default for Attention {
    fn default() -> Self {
        Self {
            timeouts: BTreeSet::new(),
            to_attend: BTreeSet::new(),
            attending: Attending::No,
        }
    }
}
