//! Two results of runs, compared: how much each figure differs, and whether by more than its noise.
//!
//! Start at [`Comparison`]; a [`Side`] is one result, an [`Estimate`] what both have of one figure, [`page`](page()) the comparison as a page, and
//! [`differing`] what the results were made of that is not the same.

mod differing;
mod estimate;
mod page;
mod pairing;
mod seeds;
mod side;

pub use differing::{Differing, differing};
pub use estimate::{Better, Estimate, Interval, Verdict};
pub use page::page;
pub use pairing::{Alone, Compared, Comparison, Loss};
pub use side::{CompareError, Side};
