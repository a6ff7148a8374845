//! Facts of a node that change while it runs, for the threads that show or check them.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use crate::http::scope::Token;

/// The facts of this moment, shared by all threads.
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<RwLock<LiveFacts>>);

/// Facts about a node that may change at any moment.
#[derive(Clone, Debug, Default)]
pub struct LiveFacts {
    /// Addresses on which neighbours are accepted.
    pub listen: Vec<String>,
    /// When this node's certificate ends, where it has one.
    pub certificate_ends: Option<SystemTime>,
    /// The token of operators over TCP.
    pub admin_token: String,
    /// The users of HTTP for applications.
    pub tokens: Arc<[Token]>,
}

impl LiveFacts {
    /// The time until this node's certificate ends, in seconds: negative once it has; `None` without one.
    #[must_use]
    pub fn certificate_left(&self) -> Option<i64> {
        let whole = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let ends = self.certificate_ends?;
        Some(match ends.duration_since(SystemTime::now()) {
            Ok(left) => whole(left),
            Err(over) => -whole(over.duration()),
        })
    }
}

impl Live {
    /// Shares these facts.
    #[must_use]
    pub fn new(facts: LiveFacts) -> Self {
        Self(Arc::new(RwLock::new(facts)))
    }

    /// Looks at the facts.
    pub fn read<T>(&self, look: impl FnOnce(&LiveFacts) -> T) -> T {
        // No change of theirs can be left half done.
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the facts.
    pub fn change(&self, change: impl FnOnce(&mut LiveFacts)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}
