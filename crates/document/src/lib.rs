//! Files that people write: TOML of which every key is known.
//!
//! A [`schema`] lists every section and key once, with its kind, unit, default and meaning. Reading ([`document`]), values set from
//! outside the file (`setting`), all that holds in the end (`settled`) and the JSON Schema for editors ([`json_schema()`]) follow it. A fault is told with its line and with
//! what was probably meant ([`fault`]). Contact plans that other programs write are read here as well ([`contact_plan`]). This room never opens a file; what the values mean is for others.
//!
//! ```
//! use std::path::Path;
//! use dhow_document::schema::{Kind, Occurs, Section, required, with_default};
//! use dhow_document::Document;
//!
//! const SECTIONS: &[Section] = &[
//!     Section { name: "", occurs: Occurs::Top, meaning: "", groups: &[] },
//!     Section {
//!         name: "boat",
//!         occurs: Occurs::Many,
//!         meaning: "One that sails.",
//!         groups: &[&[
//!             required("name", Kind::Text, "\"dhow\"", "What she is called."),
//!             with_default("load", Kind::Size, "\"2kB\"", "What she carries, octets."),
//!         ]],
//!     },
//! ];
//! let document = Document::read(Path::new("boats.toml"), "[[boat]]\nname = \"dhow\"\n", SECTIONS)?;
//! let boat = document.all("boat").next().expect("there is one");
//! assert_eq!((boat.text("name"), boat.size("load")), (Some("dhow"), Some(2000)));
//! # Ok::<(), dhow_document::FileError>(())
//! ```

pub mod calendar;
pub mod contact_plan;
pub mod document;
pub mod fault;
pub mod json_schema;
mod loose;
pub mod quantity;
pub mod schema;
mod setting;
mod settled;
mod syntax;
mod value;

pub use document::{Document, Entries};
pub use fault::{FileError, nearest, there_are};
pub use json_schema::json_schema;
pub use loose::Loose;
