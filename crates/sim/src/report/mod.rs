//! Results of runs, for people and for other programs: one page with pictures, and tables beside it.
//!
//! [`page`](page()) puts the page together; `words` has the results of a run in sentences, `spread` those of all seeds, `lists`
//! has the page's tables, `dhow_page` draws. A [`Summary`] is the part that is kept of a run that is not shown by itself.

mod lists;
mod page;
mod spread;
mod summary;
mod tables;
mod words;

pub use page::page;
pub use summary::Summary;
pub use tables::{Tables, tables};
