//! The limit of open files, and its division among kinds of connections: connections are files, and many systems allow
//! 1024 unasked.

use dhow_node::config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Operators' connections at a time.
const OPERATORS_MAX: usize = 64;

/// Applications' connections at a time, counted apart so that neighbours cannot lock them out.
const APPLICATIONS_MAX: usize = 256;

/// Neighbours' connections at a time that were accepted.
const NEIGHBOURS_MAX: usize = 1024;

/// Files that the node opens for itself once it is ready: those of its threads, of its store, of names that are looked up, and one
/// for each connection that is accepted while another gives way.
const OWN_FILES: usize = 16;

/// Files that are open before anything is accepted, about.
const FIRST_FILES: usize = 64;

/// Files without which a node could serve nobody.
const FILES_MIN: u64 = 32;

/// Too few files may be open for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{allowed} files may be open at a time, and a node needs {FILES_MIN}")]
pub struct TooFewFiles {
    /// Files that the system lets this process open.
    pub allowed: u64,
}

impl TooFewFiles {
    /// The hint for people.
    pub const HINT: &str = "raise the limit of open files (ulimit -n)";
}

/// Connections of links that an operator adds.
const ADDED: usize = 64;

/// Connections that links may have at a time: their sessions, attempts that are to take the place of each of these, and some
/// that are being given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialled {
    /// Those of links in the node file.
    pub configured: usize,
    /// Those to neighbours that are found, and the sockets of beacons.
    pub found: usize,
}

impl Dialled {
    const fn files(self) -> usize {
        self.configured + ADDED + self.found
    }

    /// Share out so many files among links of operators and those to found neighbours: the links of the node file have theirs first, since beacons
    /// of strangers may tell of any number of neighbours.
    fn share(self, files: usize) -> (usize, usize) {
        let configured = self.configured.min(files);
        let left = files - configured;
        let added = match self.found {
            0 => ADDED.min(left),
            _ => ADDED.min(left / 2),
        };
        let found = self.found.min(left - added);
        let added = ADDED.min(left - found);
        (configured + added, found)
    }
}

/// The connections that a node dials.
#[must_use]
pub fn dialled(node: &Config) -> Dialled {
    /// Attempts of a link that nobody waits for any more, or not for long, and sessions that end.
    const PASSING: usize = 4;
    let links = node.links.iter();
    let configured: usize = links
        .map(|link| 2 * usize::from(link.sessions) + PASSING)
        .sum();
    // Of a neighbour that is found, its session and an attempt to have another; and the sockets of beacons.
    let found = node.discover.iter();
    let found: usize = found
        .map(|it| {
            it.neighbours
                .saturating_mul(2)
                .saturating_add(it.destinations)
        })
        .map(|count| usize::try_from(count).unwrap_or(usize::MAX))
        .sum();
    Dialled { configured, found }
}

/// Connections of each kind, at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The places of operators.
    pub operators: usize,
    /// The places of applications.
    pub applications: usize,
    /// Dialled by links of operators.
    pub links: usize,
    /// Dialled by links to neighbours that are found.
    pub found: usize,
    /// The places of neighbours that dial this node.
    pub neighbours: usize,
}

impl Places {
    /// The places that a node wants which dials so many connections at a time.
    const fn wanted(dialled: Dialled) -> Self {
        Self {
            operators: OPERATORS_MAX,
            applications: APPLICATIONS_MAX,
            links: dialled.configured + ADDED,
            found: dialled.found,
            neighbours: NEIGHBOURS_MAX,
        }
    }

    const fn files(self) -> usize {
        self.operators + self.applications + self.links + self.found + self.neighbours + OWN_FILES
    }

    /// Share out the files that may yet be opened: operators have theirs first, then applications, then links, and
    /// neighbours that dial this node what is left. Each has one place at least, whatever that leads to.
    fn of(free: usize, dialled: Dialled) -> Self {
        let free = free.saturating_sub(OWN_FILES);
        let operators = (free / 4).clamp(2, OPERATORS_MAX);
        let free = free.saturating_sub(operators);
        let applications = (free / 2).clamp(1, APPLICATIONS_MAX);
        let free = free.saturating_sub(applications);
        // A node that dials and lets nobody in would be of little use to its neighbours.
        let (links, found) = dialled.share(dialled.files().min(free / 4 * 3));
        let found = found.max(dialled.found.min(1));
        let links = links.min(free.saturating_sub(found + 1)).max(1);
        let neighbours = (free.saturating_sub(links + found)).clamp(1, NEIGHBOURS_MAX);
        Self {
            operators,
            applications,
            links,
            found,
            neighbours,
        }
    }
}

/// Allow as many open files as a node wants that dials so many connections at a time, as far as the system lets this process.
///
/// # Errors
/// It lets it have too few.
pub fn allow(dialled: Dialled) -> Result<(), TooFewFiles> {
    let limits = getrlimit(Resource::Nofile);
    let wanted = Places::wanted(dialled).files() + FIRST_FILES;
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
    // `None` is no limit.
    let Some(allowed) = limits.current.filter(|current| *current < wanted) else {
        return Ok(());
    };
    let most = limits.maximum.unwrap_or(wanted).min(wanted);
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(most),
            maximum: limits.maximum,
        },
    );
    let allowed = match raised {
        Ok(()) => most,
        Err(_) => allowed,
    };
    match allowed < FILES_MIN {
        true => Err(TooFewFiles { allowed }),
        false => Ok(()),
    }
}

/// Share out what may yet be opened, and tell where that is less than a node wants that dials so many connections at a time.
#[must_use]
pub fn share(dialled: Dialled) -> Places {
    let wanted = Places::wanted(dialled);
    let Some(allowed) = getrlimit(Resource::Nofile).current else {
        return wanted;
    };
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(FIRST_FILES, Iterator::count);
    let places = Places::of(allowed.saturating_sub(open), dialled);
    if places != wanted {
        let Places {
            operators,
            applications,
            links,
            found,
            neighbours,
        } = places;
        tracing::warn!(
            allowed,
            operators,
            applications,
            links,
            found,
            neighbours,
            "few open files are allowed, so that few connections of each kind are taken (see ulimit -n)"
        );
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn dialled(configured: usize, found: usize) -> Dialled {
        Dialled { configured, found }
    }

    #[test]
    fn all_have_what_they_want_where_enough_files_are_allowed() {
        for links in [
            dialled(0, 0),
            dialled(5, 0),
            dialled(5, 514),
            dialled(500, 1),
        ] {
            let wanted = Places::wanted(links);
            assert_eq!(Places::of(wanted.files(), links), wanted);
            assert_eq!(Places::of(usize::MAX / 2, links), wanted);
            let fewer = Places::of(wanted.files() - 1, links);
            assert_eq!(fewer.neighbours, NEIGHBOURS_MAX - 1);
            assert_eq!(
                Places {
                    neighbours: NEIGHBOURS_MAX,
                    ..fewer
                },
                wanted
            );
        }
    }

    #[test]
    fn together_they_have_no_more_than_is_left_and_each_has_something() {
        for free in 0..3_000 {
            for links in [dialled(0, 0), dialled(1, 514), dialled(1_000, 10)] {
                let places = Places::of(free, links);
                assert!(
                    free < OWN_FILES + 8 || places.files() <= free,
                    "{free}: {places:?}"
                );
                assert!(places.operators >= 2 && places.applications > 0 && places.neighbours > 0);
                assert!(places.links > 0 && (places.found > 0 || links.found == 0));
            }
        }
        let few = Places::of(44, dialled(3, 0));
        assert_eq!(
            (few.operators, few.applications, few.links, few.neighbours),
            (7, 10, 6, 5)
        );
    }

    #[test]
    fn links_of_the_node_file_have_places_before_those_that_are_found() {
        for free in 44..3_000 {
            let (alone, crowded) = (
                Places::of(free, dialled(6, 0)),
                Places::of(free, dialled(6, 2_048)),
            );
            assert!(crowded.links >= alone.links.min(6), "{free}: {crowded:?}");
            // An operator may add links, and beacons be true.
            let left = alone.links - alone.links.min(6);
            assert!(
                crowded.links - 6 >= left / 2 && crowded.found >= left / 2,
                "{free}: {crowded:?}"
            );
        }
    }
}
