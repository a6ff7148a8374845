//! Another configuration for a node that runs: its node file is read again, or an operator changes something.
//!
//! [`edit`] is what an operator changed at run time, [`desired`] the configuration that follows from the file and those edits, [`comparison`] the
//! differences to what runs, and [`taking_up`] what the node's thread does about them. Start reading at [`keeper`].

pub mod comparison;
pub mod desired;
pub mod edit;
pub mod keeper;
pub mod taking_up;
