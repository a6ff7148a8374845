//! Reports as one page of HTML: pictures, tables and words that need nothing from elsewhere, on a screen and on paper.
//!
//! Start at [`Page`]; a [`Picture`] has curves in a frame of two [`Axis`], a [`List`] is a table, [`quantity`] says numbers as people read them.

mod axis;
mod list;
mod page;
mod picture;
pub mod quantity;

pub use axis::{Axis, Scale};
pub use list::{Cell, List, text, words};
pub use page::{Page, escaped};
pub use picture::{Curve, Look, Picture};
