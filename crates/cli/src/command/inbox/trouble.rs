//! A disk that refuses: bundles that could not be written stay at the node, and are tried again after a while.

use std::io;
use std::time::{Duration, Instant};

/// First and longest time until another try.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// The reason for which bundles wait at the node, if some do.
#[derive(Debug, Default)]
pub struct Trouble {
    /// When they are asked for again.
    retry_at: Option<Instant>,
    /// The time until another try after the next failure.
    delay: Option<Duration>,
    words: Option<String>,
    is_restarting: bool,
}

impl Trouble {
    /// Something could not be written: the words to say about it, unless they were said before.
    pub fn begin(&mut self, error: &io::Error) -> Option<String> {
        let [first, longest] = RETRY;
        if self.retry_at.is_none() {
            let delay = self.delay.unwrap_or(first);
            self.retry_at = Instant::now().checked_add(delay);
            self.delay = Some((delay * 2).min(longest));
        }
        let words = format!("cannot write what was received: {error}");
        let is_new = self.words.as_ref() != Some(&words);
        self.words = Some(words.clone());
        is_new.then_some(words)
    }

    /// True once, when it is time to try again.
    pub fn is_over(&mut self) -> bool {
        let is_over = self.retry_at.is_some_and(|it| Instant::now() >= it);
        if is_over {
            self.retry_at = None;
            self.is_restarting = true;
        }
        is_over
    }

    /// Everything could be written that came: if nothing waits at the node, the trouble is over.
    pub fn end(&mut self) {
        if self.retry_at.is_none() {
            self.words = None;
            self.delay = None;
        }
    }

    /// The reason, if there is one.
    pub fn words(&self) -> Option<&str> {
        self.words.as_deref()
    }

    /// True while the connection is given up to have bundles delivered again.
    pub const fn is_restarting(&self) -> bool {
        self.is_restarting
    }

    /// The connection is there again.
    pub const fn restarted(&mut self) {
        self.is_restarting = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_trouble_is_told_once_until_it_is_over() {
        let mut trouble = Trouble::default();
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        assert!(trouble.begin(&full()).is_some());
        assert!(trouble.begin(&full()).is_none());
        assert!(
            trouble
                .begin(&io::ErrorKind::PermissionDenied.into())
                .is_some()
        );
        assert!(!trouble.is_over(), "a second has not passed");
        trouble.end();
        assert!(trouble.words().is_some(), "bundles wait at the node");
        trouble.retry_at = Some(Instant::now());
        assert!(trouble.is_over() && !trouble.is_over() && trouble.is_restarting());
        trouble.restarted();
        trouble.end();
        assert!(trouble.words().is_none() && !trouble.is_restarting());
        assert!(trouble.begin(&full()).is_some());
        assert_eq!(trouble.delay, Some(RETRY[0] * 2));
    }
}
