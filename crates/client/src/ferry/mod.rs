//! Bundles as files on a medium that is carried from node to node (docs/ferry.md).
//!
//! Start reading at [`stick`] (the directories and how they change), then [`place`] (whether a medium is there), [`room`] (what one takes),
//! [`name`] (the names of files), [`note`] (acknowledgments and other small files) and [`layer`] (the connection to a node, as the convergence layer that leads to the medium). Nothing here knows a
//! route or decides which bundles are taken.

pub mod layer;
pub mod name;
pub mod note;
pub mod place;
pub mod room;
pub mod stick;

pub use layer::{Layer, Told};
pub use name::{FileKind, FileName, Key, WriterKey};
pub use note::{Acknowledgment, NoteRefusal};
pub use place::{Absence, Beginning, Place};
pub use room::Writable;
pub use stick::{Answered, Found, Part, Stick};
