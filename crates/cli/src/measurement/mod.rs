//! Measurements against a perf service (`docs/perf-service.md`): bundles go there as fast as they may, and
//! its summaries tell how they came.
//!
//! This room never knows what is shown of it. Start reading at [`plan`] (what is sent), then `flight` (a
//! measurement under way), `stream` (one of its sending connections), [`received`] (what summaries tell
//! together), [`best_size`] (many short ones).

pub mod best_size;
mod flight;
pub mod plan;
pub mod received;
mod stream;

pub use flight::{Flight, News, WINDOW};
pub use plan::{Limit, Plan, Rate};
