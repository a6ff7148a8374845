//! The events that nodes are told, one by one.

use dhow_sim::Run;

use crate::failure::Failure;
use crate::interrupt;
use crate::output;

/// Events between two looks at the person, before anything is printed.
const EVENTS_PER_LOOK: u64 = 10_000;

/// Prints what nodes are told from an event on, until the run is over.
pub fn print(run: &mut Run, from: u64) -> Result<(), Failure> {
    let mut before = 0;
    while run.progress().events < from {
        let left = from - run.progress().events;
        if interrupt::is_requested() || !run.advance(left.min(EVENTS_PER_LOOK)) {
            return Ok(());
        }
    }
    while !interrupt::is_requested() && run.advance(1) {
        let Some((count, name, step)) = run.last_step() else {
            continue;
        };
        if count > before {
            let event = run.progress().events;
            output::line(&format!("{event} {name} {step}"))?;
            before = count;
        }
    }
    Ok(())
}
