//! A recording led through again: another node is told what the recorded one was told, and must do the same.
//!
//! [`Replay`] does one entry after the other; `file` reads them and tells a file that ends early from one whose octets
//! are not what was written. Nothing here knows where the octets of a recording come from.

mod file;

use std::io::Read;

use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{Instant, NodeId, Now};
use dhow_link::datagram::Limit;
use dhow_link::{Batch, Gather};
use dhow_node::Node;
use dhow_node::driver::{Action, Event, StreamId};
use dhow_node::recording::entry::CALLS_MAX;
use dhow_node::recording::{Content, Digest, Entry, Finish};

pub use file::{FileError, RecordingFile};

/// The end of a recording that could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The recording ends as its node did.
    Finish(Finish),
    /// In the middle, with so many octets that are whole: its node was killed, or crashed.
    Cut {
        /// Octets.
        at: u64,
    },
}

/// The first entry after which another node did another thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The entry of the recording after which it was seen, counted from 1.
    pub entry: u64,
    /// The time that the clocks of the node showed.
    pub now: Now,
    /// The recorded step and the one that came.
    pub sentence: String,
}

/// Why a recording cannot be led through again.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read, or not to its end.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its entries are not in the order of a recording.
    #[error("entry {0} of the recording is at a wrong place")]
    Order(u64),
}

/// One step of a node that a replay shows.
#[derive(Debug)]
pub enum Sight<'a> {
    /// The node is told something.
    Event(&'a Event),
    /// Its timer rings.
    Timeout,
    /// The node asks for something.
    Action(&'a Action),
    /// The node writes octets to a stream.
    Octets(StreamId, u64),
}

/// The progress of a replay, as counts since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Entries of the recording.
    pub entries: u64,
    /// Things that the node was told, with its timer's.
    pub events: u64,
    /// Things that it asked for.
    pub actions: u64,
    /// Octets that it wrote to streams.
    pub octets: u64,
    /// The digest of all that it asked for and wrote.
    pub digest: u64,
}

/// A node on its way through a recording.
pub struct Replay<R> {
    file: RecordingFile<R>,
    node_id: NodeId,
    node: Node,
    program: String,
    content: Content,
    digest: Digest,
    gather: Gather,
    begun: Option<Instant>,
    now: Now,
    passed: Passed,
}

impl<R> std::fmt::Debug for Replay<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay")
            .field("passed", &self.passed)
            .finish_non_exhaustive()
    }
}

/// The outcome of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The node did what is recorded.
    Same,
    /// The node did something else; to go on makes no sense.
    Different(Difference),
    /// There are no more entries.
    End(End),
}

impl<R: Read> Replay<R> {
    /// Reads the beginning of a recording and makes its node.
    ///
    /// # Errors
    /// The source is no recording that this program can read, or it ends before it says which node it is of.
    pub fn open(source: R) -> Result<Self, ReplayError> {
        let mut file = RecordingFile::open(source)?;
        let Some(Entry::Start {
            program,
            content,
            telling,
            config,
        }) = file.next()?
        else {
            return Err(ReplayError::Order(1));
        };
        let node_id = config.node_ids.first().cloned();
        let node_id = node_id.ok_or(ReplayError::Order(1))?;
        Ok(Self {
            file,
            node_id,
            node: Node::new(*config).with_telling(telling),
            program,
            content,
            digest: Digest::default(),
            gather: Gather::new(),
            begun: None,
            now: Now::default(),
            passed: Passed {
                entries: 1,
                ..Passed::default()
            },
        })
    }

    /// The name and version of the program that recorded.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Whether payloads are in the recording.
    #[must_use]
    pub const fn content(&self) -> Content {
        self.content
    }

    /// The first ID of the node.
    #[must_use]
    pub const fn node_id(&self) -> &NodeId {
        &self.node_id
    }

    /// Octets of the recording that were read and are whole.
    #[must_use]
    pub const fn whole_octets(&self) -> u64 {
        self.file.whole_octets()
    }

    /// The progress so far.
    #[must_use]
    pub const fn passed(&self) -> Passed {
        self.passed
    }

    /// The time that the node's clocks show.
    #[must_use]
    pub const fn now(&self) -> Now {
        self.now
    }

    /// The time from the first entry to the last one, by the recorded node's clock.
    #[must_use]
    pub fn lasted(&self) -> std::time::Duration {
        let begun = self.begun.unwrap_or(self.now.monotonic);
        self.now.monotonic.since(begun)
    }

    /// Does what the next entry says, and shows it.
    ///
    /// # Errors
    /// The recording cannot be read further.
    pub fn step(&mut self, mut show: impl FnMut(Sight<'_>)) -> Result<Step, ReplayError> {
        let Some(entry) = self.file.next()? else {
            let at = self.file.whole_octets();
            return Ok(Step::End(End::Cut { at }));
        };
        self.passed.entries += 1;
        match entry {
            Entry::Time { now } => {
                self.now = now;
                self.begun.get_or_insert(now.monotonic);
            }
            Entry::Event { event } => {
                self.passed.events += 1;
                show(Sight::Event(&event));
                self.node.handle(self.now, event);
            }
            Entry::Timeout => {
                self.passed.events += 1;
                show(Sight::Timeout);
                self.node.handle_timeout(self.now);
            }
            Entry::Polled {
                calls,
                actions,
                digest,
            } if calls <= CALLS_MAX => return Ok(self.poll((calls, actions), digest, show)),
            Entry::Written {
                stream,
                limit,
                held,
                octets,
                digest,
            } => {
                let came = self.write(stream, limit, held);
                show(Sight::Octets(stream, came));
                return Ok(self.compare(digest, || match came == octets {
                    true => format!(
                        "asked for octets of stream {}, it gave other octets than when it was recorded: {came}",
                        stream.0
                    ),
                    false => format!(
                        "asked for octets of stream {}, it gave {octets} when it was recorded and gives {came} now",
                        stream.0
                    ),
                }));
            }
            Entry::Given {
                stream,
                limit,
                limit_octets,
                digest,
                ..
            } => {
                let limit = Limit {
                    datagrams: limit,
                    octets: limit_octets,
                };
                let mut given = Batch::new();
                self.node
                    .poll_datagrams(self.now, stream, limit, &mut given);
                self.digest.add_datagrams(&given, self.content);
                self.passed.octets = self.passed.octets.saturating_add(given.octets());
                show(Sight::Octets(stream, given.octets()));
                return Ok(self.compare(digest, || {
                    format!(
                        "asked for datagrams of stream {}, it gave others than when it was recorded",
                        stream.0
                    )
                }));
            }
            Entry::Start { .. } | Entry::Polled { .. } => {
                return Err(ReplayError::Order(self.passed.entries));
            }
            Entry::End { finish } => return Ok(Step::End(End::Finish(finish))),
        }
        Ok(Step::Same)
    }

    fn poll(
        &mut self,
        (calls, recorded): (u64, u64),
        digest: u64,
        mut show: impl FnMut(Sight<'_>),
    ) -> Step {
        let mut came = 0;
        for _ in 0..calls {
            let action = self.node.poll(self.now);
            self.digest.add(action.as_ref(), self.content);
            if let Some(action) = &action {
                came += 1;
                show(Sight::Action(action));
            }
        }
        self.passed.actions += came;
        self.compare(digest, || {
            format!(
                "asked {calls} times what is to be done, it named {recorded} things when it was recorded and names {came} now{}",
                if came == recorded { ", others" } else { "" }
            )
        })
    }

    /// Lets the node write octets behind `held` others; how many came.
    fn write(&mut self, stream: StreamId, limit: u64, held: u64) -> u64 {
        self.gather.clear();
        self.gather.push(Piece::Extent(Extent {
            offset: 0,
            length: held,
        }));
        let skip = self.gather.pieces().len();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.node
            .poll_octets(self.now, stream, limit, &mut self.gather);
        for piece in self.gather.pieces().iter().skip(skip) {
            self.digest.add_piece(piece, self.content);
        }
        let came = self.gather.octets().saturating_sub(held);
        self.passed.octets = self.passed.octets.saturating_add(came);
        came
    }

    fn compare(&mut self, recorded: u64, sentence: impl FnOnce() -> String) -> Step {
        self.passed.digest = self.digest.value();
        if self.passed.digest == recorded {
            return Step::Same;
        }
        Step::Different(Difference {
            entry: self.passed.entries,
            now: self.now,
            sentence: sentence(),
        })
    }
}
