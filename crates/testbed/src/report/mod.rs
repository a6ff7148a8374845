//! The report on runs, for people: one page that opens from a disk.
//!
//! Start at [`page`](page()); a [`Study`] is one scenario's runs with the [`Question`] that is asked of them, a [`RunSummary`] one run in short and a
//! [`Course`] one over time, a [`Measure`] what is measured of each. `curves` shows it against the values set, `course` one run over time, `both` real sockets beside virtual
//! time, `doubt` why a number says less than it seems to, `cut` what links could carry at most, `line` its columns in `runs.csv`, `limit` the resource of which a run had none left, `hosts` the resources of each host and its waits, `processors` how slow they were made, `several` many measures of each point in one table, `repeats` the mean of each point's runs without a page, `cost` the cost of a megabyte, `verdict` whether the expected course holds, and `repetition` the needs of another run.

mod both;
mod cause;
mod cost;
mod course;
mod curves;
mod cut;
mod doubt;
mod hosts;
mod limit;
mod line;
mod measure;
mod named;
mod page;
mod panels;
mod processors;
mod repeats;
mod repetition;
mod several;
mod statistics;
mod study;
mod summary;
mod verdict;
mod worth;

pub use line::measured;
pub use measure::Measure;
pub(crate) use measure::{Reading, placed};
pub use named::Named;
pub use page::page;
pub use repeats::{Estimated, Repeats, Row};
pub(crate) use statistics::{Spread, quantile};
pub use study::{Expected, Others, Question, ReportError, Study};
pub use summary::{Course, Day, Flow, Passed, RunSummary, Wait};
pub(crate) use worth::{axis_of, worth};
