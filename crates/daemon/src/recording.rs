//! A node's recording on its way into a file: a thread of its own writes what collects.
//!
//! The node waits for the thread where it is far behind: a recording may slow a node, and has no gaps.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use dhow_node::Node;
use dhow_node::recording::{Content, Finish, Recorder};

/// Octets that wait to be written, at most: beyond it the node waits too.
const QUEUE_OCTETS: usize = 16 << 20;

/// Octets that a recorder keeps to itself while a store tells its bundles.
const KEPT_OCTETS: usize = 1 << 20;

/// An order for a recording: its file, bound and content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingOrder {
    /// The file; it is made, and none that exists is overwritten.
    pub path: PathBuf,
    /// Octets of the file, at most: then the recording ends and the node goes on.
    pub limit_octets: u64,
    /// Whether payloads are in it.
    pub content: Content,
}

/// A recording that is being written.
#[derive(Debug)]
pub struct Recording {
    order: RecordingOrder,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Octets given to the thread so far.
    octets: u64,
    /// Octets that are about to be given to the file.
    batch: Vec<u8>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is something to write, or nothing will be any more.
    arrived: Condvar,
    /// There is room again.
    room: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    octets: Vec<u8>,
    closed: bool,
    failed: bool,
}

/// Whether a recording goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Going {
    /// More is recorded.
    On,
    /// The recording has its size, or could not be written: nothing more is.
    No,
}

impl Recording {
    /// Makes the file, which only its owner may read, and the thread.
    ///
    /// # Errors
    /// The file exists or cannot be made, or there is no thread.
    pub fn create(order: RecordingOrder) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&order.path)?;
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new()
            .name("recording".to_owned())
            .spawn({
                let (shared, path) = (Arc::clone(&shared), order.path.clone());
                move || {
                    if let Err(error) = shared.write(file) {
                        tracing::error!(path = %path.display(), "the recording ends here, it cannot be written: {error}");
                        shared.lock().failed = true;
                        shared.room.notify_all();
                    }
                }
            })?;
        Ok(Self {
            order,
            shared,
            thread: Some(thread),
            octets: 0,
            batch: Vec::new(),
        })
    }

    /// Whether payloads are recorded.
    #[must_use]
    pub const fn content(&self) -> Content {
        self.order.content
    }

    /// Takes from a node the octets that it has recorded since the last time.
    pub fn keep(&mut self, node: &mut Node) -> Going {
        let Some(recorder) = node.recorder() else {
            return Going::No;
        };
        recorder.take(&mut self.batch);
        if self.write() == Going::On {
            return Going::On;
        }
        drop(node.take_recorder());
        Going::No
    }

    /// Keeps octets as [`keep`](Self::keep), where so much has collected that memory is to be spared.
    pub fn keep_much(&mut self, node: &mut Node) {
        let much = |recorder: &mut Recorder| recorder.octets() >= KEPT_OCTETS;
        if node.recorder().is_some_and(much) {
            self.keep(node);
        }
    }

    /// The node has ended, and its recording with it.
    pub fn finish(mut self, node: &mut Node) {
        if let Some(recorder) = node.take_recorder() {
            recorder.finish(Finish::Node, &mut self.batch);
            self.write();
        }
    }

    /// Gives the batch to the thread, unless the file has its size with what it has.
    fn write(&mut self) -> Going {
        if self.batch.is_empty() {
            return Going::On;
        }
        let end = Recorder::end(Finish::Limit);
        let octets = amount(self.batch.len());
        let whole = self.octets.saturating_add(octets);
        let is_full = whole.saturating_add(amount(end.len())) > self.order.limit_octets;
        if is_full {
            let path = self.order.path.display();
            tracing::warn!(%path, limit = self.order.limit_octets, "the recording has reached its size limit and ends here");
            self.batch = end;
        }
        self.octets = whole;
        let mut queue = self.shared.lock();
        while queue.octets.len() >= QUEUE_OCTETS && !queue.failed {
            queue = (self.shared.room)
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if queue.failed {
            self.batch.clear();
            return Going::No;
        }
        if queue.octets.is_empty() {
            std::mem::swap(&mut queue.octets, &mut self.batch);
            self.shared.arrived.notify_one();
        } else {
            // The thread has been woken already and has not come yet.
            queue.octets.append(&mut self.batch);
        }
        if is_full { Going::No } else { Going::On }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.arrived.notify_one();
        if let Some(thread) = self.thread.take() {
            // A fault of the recording was told.
            let _ = thread.join();
        }
        if self.octets == 0 {
            // The node did not start: the name is free again.
            let _ = std::fs::remove_file(&self.order.path);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what comes until nothing does.
    fn write(&self, mut file: File) -> io::Result<()> {
        let mut octets = Vec::new();
        loop {
            let mut queue = self.lock();
            while queue.octets.is_empty() {
                if queue.closed {
                    return Ok(());
                }
                queue = (self.arrived)
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut queue.octets, &mut octets);
            drop(queue);
            self.room.notify_all();
            file.write_all(&octets)?;
            octets.clear();
        }
    }
}

fn amount(octets: usize) -> u64 {
    u64::try_from(octets).unwrap_or(u64::MAX)
}
