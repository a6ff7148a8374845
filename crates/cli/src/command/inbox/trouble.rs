//! A system that refuses: what could not be written is tried again after a while, and told once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// First and longest time until another try.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Kinds of trouble that are told, at most, until it is over.
const TOLD: usize = 100;

/// The reason for which something waits, if it does.
#[derive(Debug, Default)]
pub struct Trouble {
    /// The time of the next try.
    retry_at: Option<Instant>,
    /// The time until another try after the next failure.
    delay: Option<Duration>,
    /// The newest reason.
    words: Option<String>,
    /// Kinds of trouble that were told.
    told: BTreeSet<String>,
    is_restarting: bool,
}

impl Trouble {
    /// Something could not be written, in words: true where they are to be told, since nothing of its kind was.
    pub fn begin(&mut self, kind: String, words: &str) -> bool {
        self.postpone();
        self.words = Some(words.to_owned());
        self.told.len() < TOLD && self.told.insert(kind)
    }

    /// Another try is made after a while, if none is to be made already.
    pub fn postpone(&mut self) {
        let [first, longest] = RETRY;
        if self.retry_at.is_none() {
            let delay = self.delay.unwrap_or(first);
            self.retry_at = Instant::now().checked_add(delay);
            self.delay = Some((delay * 2).min(longest));
        }
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

    /// Everything could be written: if nothing is to be tried again, the trouble is over.
    pub fn end(&mut self) {
        if self.retry_at.is_none() {
            self.words = None;
            self.delay = None;
            self.told.clear();
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
        let full = |trouble: &mut Trouble, words| trouble.begin("full".into(), words);
        assert!(full(&mut trouble, "cannot write a"));
        assert!(!full(&mut trouble, "cannot write b"));
        assert_eq!(trouble.words(), Some("cannot write b"));
        assert!(trouble.begin("denied".into(), "cannot write b"));
        assert!(
            !full(&mut trouble, "cannot write a"),
            "kinds by turns are told once each"
        );
        assert!(!trouble.is_over(), "a second has not passed");
        trouble.end();
        assert!(trouble.words().is_some(), "bundles wait at the node");
        trouble.retry_at = Some(Instant::now());
        assert!(trouble.is_over() && !trouble.is_over() && trouble.is_restarting());
        trouble.restarted();
        trouble.end();
        assert!(trouble.words().is_none() && !trouble.is_restarting());
        assert!(full(&mut trouble, "cannot write a"));
        assert_eq!(trouble.delay, Some(RETRY[0] * 2));
    }
}
