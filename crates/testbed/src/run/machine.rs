//! On what a run ran: the machine, its kernel, and the time.

use std::fs;
use std::num::NonZero;
use std::thread;
use std::time::SystemTime;

use serde_json::{Value, json};

/// The machine: kernel, processor, cores, memory and load.
#[must_use]
pub fn described() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let system = rustix::system::uname();
    let processors = read("/proc/cpuinfo");
    let model = processors
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(':'))
        .map_or("", |(_, name)| name.trim());
    let memory = read("/proc/meminfo");
    let kib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    json!({
        "host": system.nodename().to_string_lossy(),
        "kernel": format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
        "machine": system.machine().to_string_lossy(),
        "processor": model,
        "cores": thread::available_parallelism().map_or(1, NonZero::get),
        "memory_octets": kib.map(|kib| kib.saturating_mul(1024)),
        "load_average": read("/proc/loadavg").trim(),
    })
}

/// The machine's time now (RFC 3339), to the second.
#[must_use]
pub fn timestamp() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
