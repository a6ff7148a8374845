//! Contact plans as other programs write them: which node can reach which, when, how fast and how far away.
//!
//! A [`Plan`] has its lines as they are written, each of one direction, with nodes by number and times from the plan's beginning.
//! The use of them is for others: links of a network that is simulated, or the contact table of a node.
//!
//! ```
//! use std::path::Path;
//! use std::time::Duration;
//! use dhow_document::contact_plan::Plan;
//!
//! let text = "a contact +10 +20 1 2 2000\na range +0 +60 1 2 3\n";
//! let plan = Plan::read(Path::new("plan.ionrc"), text, None, Duration::from_secs(60))?;
//! assert_eq!((plan.contacts[0].from, plan.contacts[0].rate), (1, Some(2_000)));
//! assert_eq!(plan.ranges[0].delay, Duration::from_secs(3));
//! # Ok::<(), dhow_document::FileError>(())
//! ```

mod hdtn;
mod ion;
mod one;
mod table;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use crate::FileError;

/// Octets that a plan may have: far above any real one, so that a wrong path is not read whole.
pub const PLAN_OCTETS_MAX: u64 = 1 << 30;

/// The program that a plan is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The lines of ION's `ionadmin`: `a contact`, `a range` and `@`. Others of its commands are passed over.
    Ion,
    /// HDTN's JSON.
    Hdtn,
    /// The ONE's connectivity traces.
    One,
    /// Tables of two nodes, a beginning and an end, as those of iMotes at CRAWDAD.
    Table,
}

/// Names of formats in files.
pub const FORMATS: &[&str] = &["ion", "hdtn", "one", "table"];

impl Format {
    /// The format of a name in [`FORMATS`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "ion" => Some(Self::Ion),
            "hdtn" => Some(Self::Hdtn),
            "one" => Some(Self::One),
            "table" => Some(Self::Table),
            _ => None,
        }
    }

    /// The format that a text looks like by its first line.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut lines = text.lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
        let first = first.unwrap_or_default();
        if first.starts_with('{') {
            Self::Hdtn
        } else if first.split_whitespace().nth(1) == Some("CONN") {
            Self::One
        } else if first.starts_with(|letter: char| letter.is_ascii_digit())
            && table::columns(first).len() > 3
        {
            Self::Table
        } else {
            Self::Ion
        }
    }

    const fn hint(self) -> &'static str {
        match self {
            Self::Hdtn => {
                "a contact has \"source\", \"dest\", \"startTime\", \"endTime\", \"rateBitsPerSec\" and \"owlt\""
            }
            Self::Table => "a line is 'NODE NODE START END', in seconds",
            Self::One => "a line is 'SECONDS CONN NODE NODE up' or '… down'",
            Self::Ion => {
                "a line is 'a contact START END NODE NODE OCTETS_PER_SECOND' or 'a range START END NODE NODE SECONDS'"
            }
        }
    }
}

/// A contact plan, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Its contacts.
    pub contacts: Vec<Contact>,
    /// Distances.
    pub ranges: Vec<Range>,
    /// Unix time of the plan's beginning, where its times are of the calendar: that of its first contact or range.
    pub unix_start: Option<Duration>,
}

/// A time in which one node can send to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The line that says it, from 1.
    pub line: usize,
    /// The number of the node that sends.
    pub from: u32,
    /// The number of another node, which receives.
    pub to: u32,
    /// Its beginning.
    pub start: Duration,
    /// Its end, after the beginning.
    pub end: Duration,
    /// Octets a second, at least 1; none where the format says no rates.
    pub rate: Option<u64>,
}

/// The distance of one node from another for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The line that says it, from 1.
    pub line: usize,
    /// The number of the node that sends.
    pub from: u32,
    /// The number of another node, which receives.
    pub to: u32,
    /// Its beginning.
    pub start: Duration,
    /// Its end, after the beginning.
    pub end: Duration,
    /// The time that an octet takes from the one node to the other.
    pub delay: Duration,
}

/// A fault of a line, and its number.
type Wrong = (usize, String);

impl Plan {
    /// Reads a plan of this format, or of the one that it looks like. Connections without an end last until `end`.
    ///
    /// # Errors
    /// The first fault, with its line and a hint.
    pub fn read(
        path: &Path,
        text: &str,
        format: Option<Format>,
        end: Duration,
    ) -> Result<Self, FileError> {
        let format = format.unwrap_or_else(|| Format::of(text));
        let read = match format {
            Format::Ion => ion::read(text),
            Format::Hdtn => hdtn::read(text),
            Format::One => one::read(text, end),
            Format::Table => table::read(text),
        };
        read.map_err(|(line, what)| FileError::at(path, line, what).with_hint(format.hint()))
    }

    /// Counts times from this one, of Unix time, which they were counted in so far.
    fn rebase(&mut self, unix_start: Duration) {
        let contacts = self.contacts.iter_mut();
        let times = contacts.flat_map(|it| [&mut it.start, &mut it.end]);
        let ranges = self.ranges.iter_mut();
        let more = ranges.flat_map(|it| [&mut it.start, &mut it.end]);
        for time in times.chain(more) {
            *time = time.saturating_sub(unix_start);
        }
        self.unix_start = Some(unix_start);
    }

    /// True where a contact is one of node 0: The ONE counts its hosts from 0, and no node has that number.
    #[must_use]
    pub fn counts_from_0(&self) -> bool {
        self.contacts.iter().any(|it| it.from == 0 || it.to == 0)
    }

    /// The same plan with each node's number one higher.
    #[must_use]
    pub fn counted_from_1(mut self) -> Self {
        let contacts = self.contacts.iter_mut();
        let ends = contacts.flat_map(|it| [&mut it.from, &mut it.to]);
        let ranges = self.ranges.iter_mut();
        let far_ends = ranges.flat_map(|it| [&mut it.from, &mut it.to]);
        for number in ends.chain(far_ends) {
            *number = number.saturating_add(1);
        }
        self
    }
}

/// Two nodes by their numbers.
fn ends(from: u32, to: u32) -> Result<(u32, u32), String> {
    if from == to {
        return Err(format!("node {from} needs no contact with itself"));
    }
    Ok((from, to))
}

fn node(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is not a node number"))
}
