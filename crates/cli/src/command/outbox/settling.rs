//! Files that differ from those that the node has, until they have stayed the same for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use dhow_client::folder::RelativePath;

use super::ledger::Ledger;
use super::scan::Scan;
use crate::tree::Stamp;

/// First and longest time for which a file is left that could not be sent.
const HOLD: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Files that differ from those that the node has; as many as a look at the folder finds.
#[derive(Debug)]
pub struct Settling {
    settle: Duration,
    removals: Removals,
    seen: BTreeMap<RelativePath, Seen>,
}

/// The treatment of files that are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removals {
    /// Removals are sent.
    Told,
    /// Files stay where they were sent.
    Left,
}

/// A difference, as it was seen last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The file; `None` where it is gone.
    stamp: Option<Stamp>,
    /// The time since which the file has been so.
    since: Instant,
    /// The time before which the file is not sent, and the time for which it was left.
    held: Option<(Instant, Duration)>,
}

/// Changes that are to be told.
#[derive(Debug, Default)]
pub struct Due {
    /// Files.
    pub files: Vec<(RelativePath, Stamp)>,
    /// Files that are gone.
    pub removed: Vec<RelativePath>,
    /// Changes that have to wait.
    pub waiting: usize,
}

impl Due {
    /// Takes the removals out of files that have the same names but for the case: an inbox whose file system does not tell upper from lower
    /// case has no room for the new name before the old one is gone.
    pub fn take_renamed(&mut self) -> Vec<RelativePath> {
        if self.removed.is_empty() {
            return Vec::new();
        }
        let folded = |path: &RelativePath| path.as_str().to_lowercase();
        let files: BTreeSet<String> = self.files.iter().map(|(path, _)| folded(path)).collect();
        self.removed
            .extract_if(.., |path| files.contains(&folded(path)))
            .collect()
    }
}

impl Settling {
    /// Changes are told once they have stayed the same for this long.
    pub const fn new(settle: Duration, removals: Removals) -> Self {
        Self {
            settle,
            removals,
            seen: BTreeMap::new(),
        }
    }

    /// Compares a look at the folder with what the node has.
    pub fn look(&mut self, scan: &Scan, ledger: &Ledger, now: Instant) -> Due {
        let before = std::mem::take(&mut self.seen);
        let changed = (scan.files.iter())
            .filter(|(path, stamp)| ledger.sent(path).is_none_or(|sent| sent.stamp != **stamp))
            .map(|(path, stamp)| (path, Some(*stamp)));
        let removals = self.removals;
        let gone = (ledger.paths())
            .filter(|path| removals == Removals::Told && scan.is_gone(path))
            .map(|path| (path, None));
        let mut due = Due::default();
        for (path, stamp) in changed.chain(gone) {
            let seen = match before.get(path) {
                Some(seen) if seen.stamp == stamp => *seen,
                _ => Seen {
                    stamp,
                    since: now,
                    held: None,
                },
            };
            self.seen.insert(path.clone(), seen);
            let is_held = seen.held.is_some_and(|(until, _)| now < until);
            match stamp {
                _ if is_held || now.duration_since(seen.since) < self.settle => due.waiting += 1,
                Some(stamp) => due.files.push((path.clone(), stamp)),
                None => due.removed.push(path.clone()),
            }
        }
        due
    }

    /// A file changed while it was read: it begins anew.
    pub fn forget(&mut self, path: &RelativePath) {
        self.seen.remove(path);
    }

    /// A change could not be told: it is left for a while, each time for longer. True the first time.
    pub fn hold(&mut self, path: &RelativePath, now: Instant) -> bool {
        let [first, longest] = HOLD;
        let Some(seen) = self.seen.get_mut(path) else {
            return true;
        };
        let delay = (seen.held).map_or(first, |(_, delay)| (delay * 2).min(longest));
        let is_first = seen.held.is_none();
        seen.held = now.checked_add(delay).map(|until| (until, delay));
        is_first
    }
}

#[cfg(test)]
mod tests {
    use dhow_client::folder::FileTime;

    use super::super::ledger::Sent;
    use super::*;

    fn stamp(octets: u64) -> Stamp {
        Stamp {
            octets,
            modified: FileTime::EPOCH,
            mode: 0o644,
            changed: (0, 0),
            inode: 1,
        }
    }

    fn scan(files: &[(&str, u64)]) -> Scan {
        let files = files.iter().map(|(path, octets)| {
            let path = RelativePath::new(path).unwrap();
            (path, stamp(*octets))
        });
        let mut scan = Scan::default();
        scan.files = files.collect();
        scan
    }

    fn due(due: &Due) -> (Vec<&str>, Vec<&str>, usize) {
        (
            due.files.iter().map(|(path, _)| path.as_str()).collect(),
            due.removed.iter().map(RelativePath::as_str).collect(),
            due.waiting,
        )
    }

    #[test]
    fn a_change_is_due_once_it_has_stayed_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(&directory.path().join("state.db")).unwrap();
        let mut settling = Settling::new(Duration::from_secs(1), Removals::Told);
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let found = settling.look(&scan(&[("a", 1), ("b", 1)]), &ledger, at(0));
        assert_eq!(due(&found), (vec![], vec![], 2));
        let found = settling.look(&scan(&[("a", 1), ("b", 2)]), &ledger, at(999));
        assert_eq!(due(&found), (vec![], vec![], 2));
        let found = settling.look(&scan(&[("a", 1), ("b", 2)]), &ledger, at(1000));
        assert_eq!(due(&found), (vec!["a"], vec![], 1));
        let a = RelativePath::new("a").unwrap();
        let sent = Sent {
            stamp: stamp(1),
            sha256: [0; 32],
        };
        ledger.record(&[(a.clone(), Some(sent))]).unwrap();
        let found = settling.look(&scan(&[("a", 1), ("b", 2)]), &ledger, at(2000));
        assert_eq!(due(&found), (vec!["b"], vec![], 0));
        // Gone, back as it was, and gone for good.
        for (ms, files) in [(3000, &[][..]), (3500, &[("a", 1)]), (3600, &[])] {
            let found = settling.look(&scan(files), &ledger, at(ms));
            assert_eq!(found.removed, []);
        }
        let found = settling.look(&scan(&[]), &ledger, at(4600));
        assert_eq!(due(&found), (vec![], vec!["a"], 0));
        let mut silent = Settling::new(Duration::ZERO, Removals::Left);
        let found = silent.look(&scan(&[]), &ledger, at(0));
        assert_eq!(due(&found), (vec![], vec![], 0));
    }

    #[test]
    fn a_name_that_changes_its_case_alone_is_removed_before_it_is_sent() {
        let path = |text: &str| RelativePath::new(text).unwrap();
        let mut due = Due {
            files: ["Dir/new", "b", "\u{c9}"]
                .map(|it| (path(it), stamp(1)))
                .into(),
            removed: ["a", "dir/New", "\u{e9}"].map(path).into(),
            waiting: 0,
        };
        assert_eq!(due.take_renamed(), ["dir/New", "\u{e9}"].map(path));
        assert_eq!(due.removed, [path("a")]);
        assert_eq!(due.files.len(), 3);
    }

    #[test]
    fn a_file_that_could_not_be_sent_is_left_for_longer_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&directory.path().join("state.db")).unwrap();
        let mut settling = Settling::new(Duration::ZERO, Removals::Left);
        let begun = Instant::now();
        let at = |s| begun + Duration::from_secs(s);
        let path = RelativePath::new("a").unwrap();
        let files = [("a", 1)];
        settling.look(&scan(&files), &ledger, at(0));
        assert!(settling.hold(&path, at(0)));
        let found = settling.look(&scan(&files), &ledger, at(0));
        assert_eq!((found.files.len(), found.waiting), (0, 1));
        assert_eq!(settling.look(&scan(&files), &ledger, at(1)).files.len(), 1);
        assert!(!settling.hold(&path, at(1)));
        assert_eq!(settling.look(&scan(&files), &ledger, at(2)).files.len(), 0);
        assert_eq!(settling.look(&scan(&files), &ledger, at(3)).files.len(), 1);
        for _ in 0..10 {
            settling.hold(&path, at(3));
        }
        assert_eq!(settling.look(&scan(&files), &ledger, at(62)).files.len(), 0);
        assert_eq!(settling.look(&scan(&files), &ledger, at(63)).files.len(), 1);
        // Another state of it is tried at once.
        settling.hold(&path, at(63));
        let found = settling.look(&scan(&[("a", 2)]), &ledger, at(63));
        assert_eq!(found.files.len(), 1);
    }
}
