//! `dhow top`: a live view of a node in a terminal.
//!
//! [`reading`] turns what a node tells into rows, [`feed`] asks it in threads of its own, [`screen`] is the state of the view and what keys do,
//! [`draw`] puts it on a terminal. Start at [`live`], the loop between them.

use std::time::Duration;

use clap::Args;

use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};

#[cfg(feature = "top")]
mod columns;
#[cfg(feature = "top")]
mod draw;
#[cfg(feature = "top")]
mod feed;
#[cfg(feature = "top")]
mod live;
#[cfg(feature = "top")]
mod reading;
#[cfg(feature = "top")]
mod screen;

/// Watch a node: links, queues, contacts and events as they change
///
/// Tab moves between tables, arrows within one; s sorts by the next column, / filters, u and d take the selected link up and down, w explains why the selected destination waits, p pauses, ? lists all keys, q quits. While the node is away its last figures stay, and it is asked again.
#[derive(Args, Debug)]
pub struct Top {
    /// The time between two readings, 100ms to 1h
    #[arg(long, default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval) {
        Ok(interval)
    } else {
        Err("an interval is 100ms to 1h".to_owned())
    }
}

impl Top {
    /// Shows the node until the person quits.
    #[cfg(feature = "top")]
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        live::run(common, self.interval)
    }

    /// Says which feature this program lacks.
    #[cfg(not(feature = "top"))]
    pub fn run(&self, _: &Common) -> Result<Ending, Failure> {
        let _ = self.interval;
        Err(
            Failure::usage("this dhow was built without the feature `top`").with_hint(
                "build it with `cargo build --features top`, or use `dhow status` and `dhow links`",
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_two_edges() {
        assert!(parse_interval("99ms").is_err() && parse_interval("3601s").is_err());
        assert_eq!(parse_interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_interval("1h"), Ok(Duration::from_secs(3600)));
    }
}
