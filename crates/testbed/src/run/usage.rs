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
    /// Time that it waited for disks: 0 where the kernel does not count it.
    disk_wait_ticks: u64,
}

impl Thread {
    /// That of which `status`, `schedstat` and `stat` tell so much.
    fn told(status: &str, waited: &str, stat: &str) -> Self {
        let waited = waited.split_whitespace().nth(1);
        Self {
            voluntary: named(status, "voluntary_ctxt_switches:"),
            forced: named(status, "nonvoluntary_ctxt_switches:"),
            wait_ns: waited.and_then(|nanos| nanos.parse().ok()).unwrap_or(0),
            disk_wait_ticks: Stat::of(stat).map_or(0, |stat| stat.field(42)),
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
    /// That of a process; none where it has ended.
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
            let thread = Thread::told(&read("status"), &read("schedstat"), &read("stat"));
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

    /// Time that its threads waited for disks, one beside the other; 0 where the kernel does not count it.
    pub(super) fn disk_wait_ticks(&self) -> u64 {
        self.threads.values().map(|it| it.disk_wait_ticks).sum()
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
        assert_eq!((usage.user_ticks, usage.disk_wait_ticks()), (5, 6));
    }

    #[test]
    fn a_thread_tells_of_its_own_waits() {
        let stat: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        let stat = format!("77 (store (1) x) {}", stat.join(" "));
        let status = "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t3\n";
        let thread = Thread::told(status, "1 600 7", &stat);
        let waits = (thread.wait_ns, thread.disk_wait_ticks);
        assert_eq!((thread.voluntary, thread.forced, waits), (5, 3, (600, 42)));
    }
}
