//! The report on runs, for people: one page that opens from a disk.
//!
//! Start at [`page`](page()); a [`Study`] is one scenario's runs with the [`Question`] that is asked of them, a [`RunSummary`] one run in short and a
//! [`Course`] one over time, a [`Measure`] what is measured of each. `curves` shows it against what was set, `course` one run over time, `both` real sockets beside virtual
//! time, `doubt` why a number says less than it seems to, `cut` what links could carry at most, `line` what `runs.csv` has of it, `limit` which resource a run had none left of, `hosts` what each host used and waited for, `processors` how slow they were made, `several` many measures of each point in one table, `repeats` the mean of each point's runs without a page, `cost` what a megabyte took, `verdict` whether it went as was expected, and `repetition` what is needed to run it again.

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
