//! The sessions, of neighbours and applications, that are to be attended to, and the times of that.

use alloc::collections::BTreeSet;

use dhow_bundle::Instant;

use crate::driver::StreamId;

/// Sessions that may have something to say, and the timers of all.
#[derive(Default)]
pub(crate) struct Attention {
    timeouts: BTreeSet<(Instant, StreamId)>,
    /// One of these sessions, and the others: most often there is one.
    one: Option<StreamId>,
    others: BTreeSet<StreamId>,
}

impl Attention {
    /// A session may have something to say.
    pub(crate) fn attend(&mut self, stream: StreamId) {
        match self.one {
            None => self.one = Some(stream),
            Some(one) if one == stream => {}
            Some(_) => drop(self.others.insert(stream)),
        }
    }

    /// The next session that may have something to say, by the number of its stream.
    pub(crate) fn next(&mut self) -> Option<StreamId> {
        match (self.one, self.others.first()) {
            (Some(one), Some(other)) if *other < one => self.others.pop_first(),
            (Some(_), _) => self.one.take(),
            (None, _) => self.others.pop_first(),
        }
    }

    /// The timer of a session was set to `armed`, and is wanted at `wanted`.
    pub(crate) fn rearm(
        &mut self,
        stream: StreamId,
        armed: Option<Instant>,
        wanted: Option<Instant>,
    ) {
        if armed == wanted {
            return;
        }
        if let Some(at) = armed {
            self.timeouts.remove(&(at, stream));
        }
        if let Some(at) = wanted {
            self.timeouts.insert((at, stream));
        }
    }

    /// When the first timer is due.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.timeouts.first().map(|&(at, _)| at)
    }

    /// A session whose timer is due, which is set no longer.
    pub(crate) fn due(&mut self, now: Instant) -> Option<StreamId> {
        let &(at, _) = self.timeouts.first()?;
        let due = (at <= now).then(|| self.timeouts.pop_first());
        due.flatten().map(|(_, stream)| stream)
    }

    /// All timers, the first first.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn timeouts(&self) -> impl Iterator<Item = (Instant, StreamId)> + Clone {
        self.timeouts.iter().copied()
    }
}
