//! What came of runs, for people and for other programs: one page with pictures, and tables beside it.
//!
//! [`page`](page()) puts the page together; `words` says what came of a run in sentences, `spread` what came of all seeds, `lists`
//! has the page's tables, `dhow_page` draws. A [`Summary`] is what is kept of a run that is not shown by itself.

mod lists;
mod page;
mod spread;
mod summary;
mod tables;
mod words;

pub use page::page;
pub use summary::Summary;
pub use tables::{Tables, tables};
