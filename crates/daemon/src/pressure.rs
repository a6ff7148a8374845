//! Memory that the system wants back: caches and pools shrink when it is short of some, or when they have been of no use for a while.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::Core;
use crate::extents::ExtentReader;
use crate::machine;
use crate::storing::Answers;

/// Time between two looks whether anybody wants memory.
const LOOK: Duration = Duration::from_secs(5);

/// Looks without anything that came, went or was stored, after which caches and pools are of no use.
const IDLE_LOOKS: u32 = 12;

/// The file in which the system says for how long somebody waited for memory.
const PRESSURE: &str = "/proc/pressure/memory";

/// Part of the last ten seconds for which somebody waited, hundredths of a percent, from which on memory is short.
const SHORT_PER_MYRIAD: u64 = 500;

/// Memory that a control group has is short from so many fourths of it on that this process has for itself.
const SHORT_FOURTHS: u64 = 3;

/// Gives memory back for as long as the node runs.
pub async fn watch(core: Core, answers: Answers, reader: ExtentReader) {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let group = machine::memory();
    let mut before = None;
    let mut idle = 0;
    loop {
        ticks.tick().await;
        let done = core.look(|_, _, counts| (counts.octets_in, counts.octets_out));
        let syncs = answers.counts().syncs.load(Ordering::Relaxed);
        let done = Some((done, syncs));
        idle = if done == before { idle + 1 } else { 0 };
        before = done;
        let is_short = || is_short(&group);
        if idle == IDLE_LOOKS || (idle < IDLE_LOOKS && is_short()) {
            reader.give_back();
            settle().await;
        }
    }
}

/// Lets the allocator give back free memory. It does so as it works, a while after the memory became free; a node that has nothing
/// to do would keep all of it.
async fn settle() {
    /// Longer than the allocator waits (mimalloc's `purge_delay` is one second).
    const WAIT: Duration = Duration::from_millis(1_500);
    /// Rounds until what one thread has freed of another's is given back, too.
    const ROUNDS: u32 = 3;
    /// So much comes from the system, not from memory that the allocator has; none of it is touched.
    const OCTETS: usize = 64 << 20;
    for _ in 0..ROUNDS {
        tokio::time::sleep(WAIT).await;
        drop(std::hint::black_box(Vec::<u8>::with_capacity(OCTETS)));
    }
}

/// Whether the system wants memory.
fn is_short(allowance: &machine::Allowance) -> bool {
    let waited = std::fs::read_to_string(PRESSURE)
        .ok()
        .and_then(|text| waited_per_myriad(&text));
    if waited.is_some_and(|waited| waited >= SHORT_PER_MYRIAD) {
        return true;
    }
    let Some(file) = &allowance.group else {
        return false;
    };
    let own = file.parent().map(|group| group.join("memory.pressure"));
    let waited = own
        .as_deref()
        .and_then(|file: &Path| std::fs::read_to_string(file).ok())
        .and_then(|text| waited_per_myriad(&text));
    waited.is_some_and(|waited| waited >= SHORT_PER_MYRIAD)
        || machine::anonymous_octets()
            .is_some_and(|octets| octets / SHORT_FOURTHS >= allowance.octets / 4)
}

/// Part of the last ten seconds for which some process waited, as the kernel tells it (`some avg10=0.12 avg60=…`).
fn waited_per_myriad(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("avg10="))?;
    let (whole, part) = value.split_once('.')?;
    let whole: u64 = whole.parse().ok()?;
    let part: u64 = part.get(..2)?.parse().ok()?;
    whole.checked_mul(100)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_figures_are_read() {
        let text = "some avg10=12.34 avg60=0.00 avg300=0.00 total=1\nfull avg10=99.00 avg60=0.00\n";
        assert_eq!(waited_per_myriad(text), Some(1_234));
        assert_eq!(waited_per_myriad("some avg10=0.05 avg60=1.00"), Some(5));
        for other in [
            "",
            "some",
            "some avg10=",
            "some avg10=1",
            "some avg10=x.y",
            "some avg10=1.2",
        ] {
            assert_eq!(waited_per_myriad(other), None, "{other}");
        }
    }
}
