//! What reports show of a run, in its line of `runs.csv`.

use super::measure::Measure;
use super::told::Course;
use crate::results::{Results, ResultsError, Run};

/// A run with what was measured of it, by the tables that it has.
///
/// # Errors
/// When they cannot be read.
pub fn measured(run: Run, results: &Results) -> Result<Run, ResultsError> {
    let told = Course::read(run, results)?.told;
    Ok(Run {
        goodput_bit_s: Measure::Goodput.of(&told),
        delivery: Measure::Delivery.of(&told),
        delay_median_s: Measure::Delay(50).of(&told),
        delay_p95_s: Measure::Delay(95).of(&told),
        drain_s: Measure::Drain.of(&told),
        ..told.run
    })
}
