//! What a process has used: what proc(5) tells of it and of its threads.

use std::collections::BTreeMap;
use std::fs;

/// Octets of that in which the kernel tells of memory.
pub(super) const KIB: u64 = 1_024;

/// What a process has used so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) user_ticks: u64,
    pub(super) system_ticks: u64,
    pub(super) major_faults: u64,
    pub(super) read_octets: u64,
    pub(super) written_octets: u64,
    pub(super) rss_octets: u64,
    /// Time that it waited for disks; 0 where the kernel does not count it.
    pub(super) disk_wait_ticks: u64,
    /// Its threads, with those that have ended: the kernel forgets them.
    threads: BTreeMap<u32, Thread>,
}

/// What a thread tells by itself alone.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Switches that it made since it had nothing to do.
    voluntary: u64,
    /// Switches that were made though it had.
    forced: u64,
    /// Time that it could have run and had no processor, limits of its group included: nanoseconds.
    wait_ns: u64,
}

impl Usage {
    /// That of a process; none where it has ended.
    pub(super) fn of(process: u32) -> Option<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}"));
        let text = read("stat").ok()?;
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<u64> = fields
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        // Field 3 of proc(5) is the first behind the name.
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
        let io = read("io").unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
        let threads = threads.flatten().filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let read = |file: &str| fs::read_to_string(entry.path().join(file));
            let status = read("status").unwrap_or_default();
            let waited = read("schedstat").unwrap_or_default();
            let waited = waited.split_whitespace().nth(1);
            let thread = Thread {
                voluntary: named(&status, "voluntary_ctxt_switches:"),
                forced: named(&status, "nonvoluntary_ctxt_switches:"),
                wait_ns: waited.and_then(|nanos| nanos.parse().ok()).unwrap_or(0),
            };
            Some((number, thread))
        });
        Some(Self {
            user_ticks: field(14),
            system_ticks: field(15),
            major_faults: field(12),
            rss_octets: field(24).saturating_mul(page_octets()),
            disk_wait_ticks: field(42),
            read_octets: named(&io, "read_bytes:"),
            written_octets: named(&io, "write_bytes:"),
            threads: threads.collect(),
        })
    }

    /// Takes what a later look found, and keeps what threads had used that have ended since.
    pub(super) fn grow(&mut self, later: Self) {
        let mut threads = std::mem::take(&mut self.threads);
        threads.extend(later.threads);
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
        };
        let mut usage = Usage {
            threads: [(7, thread(10, 100)), (8, thread(20, 200))].into(),
            ..Usage::default()
        };
        usage.grow(Usage {
            user_ticks: 5,
            threads: [(7, thread(11, 150)), (9, thread(1, 1))].into(),
            ..Usage::default()
        });
        assert_eq!((usage.switches(), usage.wait_ns()), ((35, 32), 351));
        assert_eq!(usage.user_ticks, 5);
    }
}
