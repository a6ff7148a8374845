//! Processor time.

use rustix::time::{ClockId, clock_gettime};

/// Seconds of processor time that this process has used, user and system, all threads.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    u32::try_from(spent.tv_sec).map_or(f64::MAX, f64::from)
        + u32::try_from(spent.tv_nsec).map_or(0.0, f64::from) / 1e9
}
