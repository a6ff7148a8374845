//! The memory and disk of this machine: the defaults of settings about them follow from it.

use std::path::{Path, PathBuf};

/// The directory of control groups, and the file in which each process finds its own.
const GROUPS: &str = "/sys/fs/cgroup";
const OWN_GROUPS: &str = "/proc/self/cgroup";

/// Below this much memory, octets, huge pages cost more than they bring: each holds 2 MiB for what may be a few
/// thousand octets in use, and a node of 64 MB was seen to need twice its memory.
const SMALL_OCTETS: u64 = 512 << 20;

/// The same of the quota that a node file gives.
const SMALL_QUOTA_OCTETS: u64 = 256 << 20;

/// Memory that this process may use, as far as the system says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Octets that the process may use.
    pub octets: u64,
    /// The file that says so where a control group has less than the machine.
    pub group: Option<PathBuf>,
}

/// The machine's memory, or less where a control group has less.
#[must_use]
pub fn memory() -> Allowance {
    let machine = rustix::system::sysinfo();
    let all = Allowance {
        octets: machine.totalram.saturating_mul(u64::from(machine.mem_unit)),
        group: None,
    };
    let own = std::fs::read_to_string(OWN_GROUPS).unwrap_or_default();
    limits(&own).into_iter().fold(all, |least, path| {
        let limit = std::fs::read_to_string(&path).unwrap_or_default();
        match limit.trim().parse() {
            Ok(octets) if octets < least.octets => Allowance {
                octets,
                group: Some(path),
            },
            _ => least,
        }
    })
}

/// Octets of memory that this process may use.
#[must_use]
pub fn memory_octets() -> u64 {
    memory().octets
}

/// Octets of memory that this process has taken at once, at most so far; none where the system does not say.
#[must_use]
pub fn peak_octets() -> Option<u64> {
    status_octets("VmHWM:")
}

/// Octets of memory that this process has and no file; none where the system does not say.
#[must_use]
pub fn anonymous_octets() -> Option<u64> {
    status_octets("RssAnon:")
}

fn status_octets(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Does without huge pages where memory is small, or this process may take little of it.
pub fn spare_memory(quota_octets: u64) {
    if memory_octets() < SMALL_OCTETS || quota_octets < SMALL_QUOTA_OCTETS {
        // A kernel that has no huge pages has none to do without.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}

/// The files that may hold a limit of memory for processes in these groups (cgroups(7)): the groups' own and those above
/// them, up to the root, which is a container's own group as seen from within.
fn limits(own_groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in own_groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, name) = if controllers.is_empty() {
            (PathBuf::from(GROUPS), "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            let root = Path::new(GROUPS).join("memory");
            (root, "memory.limit_in_bytes")
        } else {
            continue;
        };
        for group in Path::new(group).ancestors() {
            let group = group.strip_prefix("/").unwrap_or(group);
            files.push(root.join(group).join(name));
        }
    }
    files
}

/// Octets that the file system of a path, or of the nearest directory above it that is there, has left for this user; none
/// where it does not say.
#[must_use]
pub fn disk_octets(path: &Path) -> u64 {
    path.ancestors()
        .find_map(|place| rustix::fs::statvfs(place).ok())
        .map_or(0, |system| system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_looked_for_in_the_groups_of_this_process_and_above_them() {
        let files = |text| {
            let files = limits(text).into_iter();
            files
                .map(|file| file.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            files("0::/system.slice/dhow.service\n"),
            [
                "/sys/fs/cgroup/system.slice/dhow.service/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            files("5:cpu,memory:/small\n4:cpuset:/\n0::/\n"),
            [
                "/sys/fs/cgroup/memory/small/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert!(files("nonsense\n").is_empty());
    }
}
