//! Lines of the log about neighbours that were found and are not reached: anybody may announce any number of them, at any addresses, and each is
//! dialled for as long as it is announced.

use std::collections::BTreeMap;

use dhow_bundle::Instant;
use dhow_node::config::LinkId;

use crate::lines::{Kind, Lines};

/// The lines about a link since it was made, or since its last session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// None.
    Nothing,
    /// One of a failure.
    Failure,
}

/// The links to neighbours that were found; no more than a node has links.
#[derive(Debug, Default)]
pub struct Unreached(BTreeMap<LinkId, Told>);

impl Unreached {
    /// A beacon told of a link's neighbour: of the same as before, or the link is a new one.
    pub fn find(&mut self, link: LinkId, is_same: bool) {
        let told = self.0.entry(link).or_insert(Told::Nothing);
        if !is_same {
            *told = Told::Nothing;
        }
    }

    /// The link is one that an operator made.
    pub fn forget(&mut self, link: LinkId) {
        self.0.remove(&link);
    }

    /// Whether the link leads to a neighbour that was found.
    #[must_use]
    pub fn is_found(&self, link: LinkId) -> bool {
        self.0.contains_key(&link)
    }

    /// A session with the neighbour is up.
    pub fn reach(&mut self, link: LinkId) {
        if let Some(told) = self.0.get_mut(&link) {
            *told = Told::Nothing;
        }
    }

    /// Whether a failure to reach the neighbour may be logged: the first of each, as long as there are few. Others are counted.
    pub fn may_say(&mut self, lines: &mut Lines, link: LinkId, now: Instant) -> bool {
        match self.0.insert(link, Told::Failure) {
            Some(Told::Failure) => {
                lines.leave_out(Kind::Unreached, now);
                false
            }
            _ => lines.may_say(Kind::Unreached, None, now),
        }
    }
}
