//! The environment of a run: the machine, its kernel, and the time.

use std::fs;
use std::num::NonZero;
use std::thread;
use std::time::SystemTime;

use serde_json::{Value, json};

/// The machine: system, kernel, processor, cores, memory and load.
#[must_use]
pub fn described() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let system = rustix::system::uname();
    let release = read("/etc/os-release");
    let release = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"'));
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
        "system": release,
        "kernel": kernel(),
        "machine": system.machine().to_string_lossy(),
        "processor": model,
        "cores": thread::available_parallelism().map_or(1, NonZero::get),
        "memory_octets": kib.map(|kib| kib.saturating_mul(1024)),
        "load_average": load_average(),
    })
}

/// The kernel's name and release.
pub(super) fn kernel() -> String {
    let system = rustix::system::uname();
    let (name, release) = (system.sysname(), system.release());
    format!("{} {}", name.to_string_lossy(), release.to_string_lossy())
}

/// The machine's load average over 1, 5 and 15 minutes.
pub(super) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    words.join(" ")
}

/// The machine's time now (RFC 3339), to the second.
#[must_use]
pub fn timestamp() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
