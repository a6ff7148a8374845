//! The resources that a process has used: the counters in proc(5) of it and of its threads.

use std::collections::BTreeMap;
use std::fs;

/// Octets of that in which the kernel tells of memory.
pub(super) const KIB: u64 = 1_024;

/// The number of the system call futex, and of what it is asked for, without its flags.
const FUTEX: &str = if cfg!(target_arch = "x86_64") {
    "202"
} else {
    "98"
};
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_LOCK_PI2: u64 = 13;

/// The word of a lock that is taken and that others wait for.
const TAKEN_AND_WANTED: u64 = 2;

/// Looks for which a wait for a lock may last to be counted: 10 s.
const LOCK_LOOKS_MAX: u64 = 100;

/// Words of which a thread's waits are kept.
const WORDS_MAX: usize = 64;

/// The resources that a process has used so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) user_ticks: u64,
    pub(super) system_ticks: u64,
    pub(super) major_faults: u64,
    pub(super) read_octets: u64,
    pub(super) written_octets: u64,
    pub(super) rss_octets: u64,
    /// Its threads, with those that have ended: the kernel forgets them.
    threads: BTreeMap<u32, Thread>,
}

/// The counters that only a thread itself has.
#[derive(Clone, Debug, Default)]
struct Thread {
    /// Switches that it made since it had nothing to do.
    voluntary: u64,
    /// Switches that were made though it had.
    forced: u64,
    /// Time that it could have run and had no processor, limits of its group included: nanoseconds.
    wait_ns: u64,
    /// Time that it waited for disks: 0 where the kernel does not count it.
    disk_wait_ticks: u64,
    /// The part of it that cannot be: now and then a kernel (6.18 is one) counts all time since the machine began as one wait.
    impossible_ticks: u64,
    /// Its waits for locks, as they were seen.
    locks: Locks,
}

/// Waits of a thread for locks, as looks saw them.
#[derive(Clone, Debug, Default)]
struct Locks {
    /// The address of the word that may be that of a lock for which it waits now.
    word: Option<u64>,
    /// Looks at which it was in the wait that it is in now.
    present: u64,
    /// Looks at which it was in waits that have ended, for words that may be those of locks.
    past: BTreeMap<u64, Past>,
    /// Looks at which it was in a wait for a lock that has ended.
    ended: u64,
}

/// Waits that have ended, for one word.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    waits: u64,
    /// Looks that do not count yet.
    looks: u64,
}

impl Locks {
    /// The state after another look, before which the thread may have been running.
    fn after(self, before: Self, has_run: bool) -> Self {
        let goes_on = before.word == self.word && !has_run;
        let mut after = Self {
            word: self.word,
            ..before
        };
        if let Some(word) = before.word.filter(|_| !goes_on) {
            after.end(word);
        }
        if after.word.is_some() {
            after.present += 1;
        }
        after
    }

    /// A wait for a word has ended. The word of a lock that many want is found in the same state again and again, while that of a condition
    /// is a number that each call changes: so the first wait counts with the second.
    fn end(&mut self, word: u64) {
        let present = std::mem::take(&mut self.present);
        if present > LOCK_LOOKS_MAX {
            return;
        }
        if self.past.len() >= WORDS_MAX && !self.past.contains_key(&word) {
            self.past.clear();
        }
        let past = self.past.entry(word).or_default();
        past.waits += 1;
        past.looks += present;
        if past.waits > 1 {
            self.ended += std::mem::take(&mut past.looks);
        }
    }
}

/// The address of the word for which a thread in this system call waits (`/proc/PID/task/TID/syscall`), where the word may be a lock.
/// Locks of the C library, of Rust and of Go have a 2 in the word while they are taken and others wait (futex(2)), and threads wait
/// for them without an end; or the kernel has the lock.
fn lock_waited_for(syscall: &str) -> Option<u64> {
    let mut words = syscall.split_whitespace();
    let is_futex = words.next() == Some(FUTEX);
    let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (word, operation, value, patience) = (number()?, number()?, number()?, number()?);
    let is_lock = match operation & FUTEX_COMMAND {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => value == TAKEN_AND_WANTED && patience == 0,
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => true,
        _ => false,
    };
    (is_futex && is_lock).then_some(word)
}

impl Thread {
    /// The thread of which `status`, `schedstat` and `stat` tell so much.
    fn told(status: &str, waited: &str, stat: &str, syscall: &str) -> Self {
        let waited = waited.split_whitespace().nth(1);
        Self {
            voluntary: named(status, "voluntary_ctxt_switches:"),
            forced: named(status, "nonvoluntary_ctxt_switches:"),
            wait_ns: waited.and_then(|nanos| nanos.parse().ok()).unwrap_or(0),
            disk_wait_ticks: Stat::of(stat).map_or(0, |stat| stat.field(42)),
            impossible_ticks: 0,
            locks: Locks {
                word: lock_waited_for(syscall),
                ..Locks::default()
            },
        }
    }
}

/// The numbers of a `stat`, of a process or of a thread.
struct Stat(Vec<u64>);

impl Stat {
    fn of(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields = fields.split_whitespace();
        Some(Self(
            fields.map(|field| field.parse().unwrap_or(0)).collect(),
        ))
    }

    /// The field of a number as proc(5) counts them, from 3 on: the first behind the name.
    fn field(&self, number: usize) -> u64 {
        self.0.get(number - 3).copied().unwrap_or(0)
    }
}

impl Usage {
    /// The usage of a process; none where it has ended.
    pub(super) fn of(process: u32) -> Option<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}"));
        let stat = Stat::of(&read("stat").ok()?)?;
        let io = read("io").unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
        let threads = threads.flatten().filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let read = |file: &str| {
                let text = fs::read_to_string(entry.path().join(file));
                text.unwrap_or_default()
            };
            let (status, stat) = (read("status"), read("stat"));
            let thread = Thread::told(&status, &read("schedstat"), &stat, &read("syscall"));
            Some((number, thread))
        });
        Some(Self {
            user_ticks: stat.field(14),
            system_ticks: stat.field(15),
            major_faults: stat.field(12),
            rss_octets: stat.field(24).saturating_mul(page_octets()),
            read_octets: named(&io, "read_bytes:"),
            written_octets: named(&io, "write_bytes:"),
            threads: threads.collect(),
        })
    }

    /// Takes what a later look found, and keeps what threads had used that have ended since. No wait for a disk is longer than `most_ticks`.
    pub(super) fn grow(&mut self, later: Self, most_ticks: u64) {
        let mut threads = std::mem::take(&mut self.threads);
        for (number, mut thread) in later.threads {
            let before = threads.remove(&number).unwrap_or_default();
            let has_run = thread.voluntary != before.voluntary;
            thread.locks = thread.locks.after(before.locks, has_run);
            let waited = thread
                .disk_wait_ticks
                .saturating_sub(before.disk_wait_ticks);
            let impossible = if waited > most_ticks { waited } else { 0 };
            thread.impossible_ticks = before.impossible_ticks + impossible;
            threads.insert(number, thread);
        }
        *self = Self { threads, ..later };
    }

    /// Switches from it to another process: all, and those since it had nothing to do.
    pub(super) fn switches(&self) -> (u64, u64) {
        let voluntary = self.threads.values().map(|it| it.voluntary).sum();
        let forced: u64 = self.threads.values().map(|it| it.forced).sum();
        (voluntary + forced, voluntary)
    }

    /// Time that its threads could have run and had no processor, one beside the other: nanoseconds.
    pub(super) fn wait_ns(&self) -> u64 {
        self.threads.values().map(|it| it.wait_ns).sum()
    }

    /// Looks at which its threads waited for locks, one beside the other.
    pub(super) fn lock_looks(&self) -> u64 {
        self.threads.values().map(|it| it.locks.ended).sum()
    }

    /// Time that its threads waited for disks, one beside the other; 0 where the kernel does not count it.
    pub(super) fn disk_wait_ticks(&self) -> u64 {
        let threads = self.threads.values();
        let ticks = threads.map(|it| it.disk_wait_ticks.saturating_sub(it.impossible_ticks));
        ticks.sum()
    }
}

/// Octets of a page of this machine.
pub(super) fn page_octets() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(KIB)
}

/// The number behind a name at the beginning of a line; 0 where there is none.
pub(super) fn named(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_has_used_something_and_one_that_is_none_has_not() {
        let own = Usage::of(std::process::id()).expect("it runs");
        let (all, voluntary) = own.switches();
        assert!(
            own.rss_octets > 100_000 && all >= voluntary && all > 0,
            "{own:?}"
        );
        assert!(Usage::of(u32::MAX).is_none());
    }

    #[test]
    fn a_thread_that_ended_still_counts() {
        let thread = |voluntary, wait_ns| Thread {
            voluntary,
            forced: 1,
            wait_ns,
            disk_wait_ticks: 2,
            impossible_ticks: 0,
            locks: Locks::default(),
        };
        let mut usage = Usage {
            threads: [(7, thread(10, 100)), (8, thread(20, 200))].into(),
            ..Usage::default()
        };
        let later = Usage {
            user_ticks: 5,
            threads: [(7, thread(11, 150)), (9, thread(1, 1))].into(),
            ..Usage::default()
        };
        usage.grow(later, 10);
        assert_eq!((usage.switches(), usage.wait_ns()), ((35, 32), 351));
        assert_eq!((usage.user_ticks, usage.disk_wait_ticks()), (5, 6));
    }

    #[test]
    fn a_wait_for_a_disk_that_is_longer_than_can_be_is_none() {
        let look = |disk_wait_ticks| Usage {
            threads: [(
                7,
                Thread {
                    disk_wait_ticks,
                    ..Thread::default()
                },
            )]
            .into(),
            ..Usage::default()
        };
        let mut usage = Usage::default();
        for (told, ticks) in [(5, 5), (15, 15), (3_900_015, 15), (3_900_018, 18)] {
            usage.grow(look(told), 10);
            assert_eq!(usage.disk_wait_ticks(), ticks);
        }
    }

    #[test]
    fn a_thread_tells_of_its_own_waits() {
        let stat: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        let stat = format!("77 (store (1) x) {}", stat.join(" "));
        let status = "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t3\n";
        let thread = Thread::told(status, "1 600 7", &stat, "running");
        let waits = (thread.wait_ns, thread.disk_wait_ticks);
        assert_eq!((thread.voluntary, thread.forced, waits), (5, 3, (600, 42)));
    }

    #[test]
    fn a_word_that_says_taken_and_wanted_is_a_lock() {
        for (syscall, is_lock) in [
            ("0x7f00 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f3b", true),
            ("0x7f00 0x89 0x2 0x0 0x0 0xffffffff 0x7ffd 0x7f3b", true),
            ("0x7f00 0x86 0x0 0x0 0x0 0x0 0x7ffd 0x7f3b", true),
            // A condition, one that waits for so long at most, a thread that is parked, and one that wakes others.
            ("0x7f00 0x89 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f3b", false),
            ("0x7f00 0x89 0x2 0x7fc4 0x0 0xffffffff 0x7ffd 0x7f3b", false),
            (
                "0x7f00 0x89 0xffffffff 0x0 0x0 0xffffffff 0x7ffd 0x7f3b",
                false,
            ),
            ("0x7f00 0x81 0x2 0x0 0x0 0x0 0x7ffd 0x7f3b", false),
        ] {
            let syscall = format!("{FUTEX} {syscall}");
            let word = is_lock.then_some(0x7f00);
            assert_eq!(lock_waited_for(&syscall), word, "{syscall}");
        }
        assert_eq!(lock_waited_for("0 0x7f00 0x80 0x2 0x0"), None);
        assert_eq!(lock_waited_for("running"), None);
    }

    /// The waits after a look that found a thread waiting for a word, or for none.
    fn looked(locks: Locks, word: Option<u64>, has_run: bool) -> Locks {
        let look = Locks {
            word,
            ..Locks::default()
        };
        look.after(locks, has_run)
    }

    #[test]
    fn waits_for_a_lock_count_once_they_have_ended_and_one_that_never_ends_is_none() {
        let mut locks = Locks::default();
        for (word, has_run, ended) in [
            (Some(7), true, 0),
            (Some(7), false, 0),
            // The first has ended, and another has begun.
            (Some(7), true, 0),
            (None, true, 3),
            (None, true, 3),
            (Some(7), true, 3),
            (Some(8), true, 4),
        ] {
            locks = looked(locks, word, has_run);
            assert_eq!(locks.ended, ended);
        }
        for _ in 0..=LOCK_LOOKS_MAX {
            locks = looked(locks, Some(7), false);
        }
        assert_eq!(looked(locks, None, true).ended, 4);
    }

    #[test]
    fn a_wait_for_a_word_that_is_not_so_again_is_no_lock() {
        // A condition's number was 2 for a while, at one address after the other.
        let mut locks = Locks::default();
        for word in 1..=200 {
            locks = looked(locks, Some(word), true);
            locks = looked(locks, Some(word), false);
            locks = looked(locks, None, true);
        }
        assert_eq!(locks.ended, 0);
        assert!(locks.past.len() <= WORDS_MAX);
    }
}
