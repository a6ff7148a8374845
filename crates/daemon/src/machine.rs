//! What the machine has: the defaults of what takes memory or disk space follow from it.

use std::path::Path;

/// Where a container or a service finds its limit of memory: control groups of version 2, and of version 1.
const LIMITS: [&str; 2] = [
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
];

/// Octets of memory that this process may use, as far as the system says: the machine's, or less where a control group
/// has less.
#[must_use]
pub fn memory_octets() -> u64 {
    let machine = rustix::system::sysinfo();
    let memory = machine.totalram.saturating_mul(u64::from(machine.mem_unit));
    LIMITS
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok())
        .fold(memory, u64::min)
}

/// Octets that the file system of a path, or of the nearest directory above it that is there, has left for this user; none
/// where it does not say.
#[must_use]
pub fn disk_octets(path: &Path) -> u64 {
    path.ancestors()
        .find_map(|place| rustix::fs::statvfs(place).ok())
        .map_or(0, |system| system.f_bavail.saturating_mul(system.f_frsize))
}
