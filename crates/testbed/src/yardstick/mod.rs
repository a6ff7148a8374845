//! The work of TCP and of a disk without a node between: the yardsticks of nodes.
//!
//! [`tcp`] moves octets over one connection in blocks, from memory or from a file and into nothing or into a file; [`disk`]
//! writes and reads files of many sizes. Both tell [`Figure`]s, a line of JSON each, which the testbed takes from programs
//! with `output = "figures"`.

pub mod disk;
pub mod tcp;

use serde::{Deserialize, Serialize};

/// A figure as a program tells it: a line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Figure {
    /// The name of the figure.
    pub figure: String,
    /// The value.
    pub value: f64,
    /// The unit: `bit/s`, `s`.
    pub unit: String,
}

impl Figure {
    /// So many octets in a time, as bits in a second.
    #[must_use]
    pub fn rate(figure: impl Into<String>, octets: u64, seconds: f64) -> Self {
        let bits = crate::number::float(octets) * 8.0;
        let unit = "bit/s".to_owned();
        let value = bits / seconds.max(1e-9);
        let figure = figure.into();
        Self {
            figure,
            value,
            unit,
        }
    }
}
