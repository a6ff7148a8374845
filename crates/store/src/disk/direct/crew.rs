//! Threads for one kind of work.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::{Shared, lock};

/// Threads that read ahead, and as many that write: a disk is faster when it is asked for more than one thing at a time.
pub(super) const THREADS: usize = 2;

/// Threads for one kind of work, begun when there first is some.
#[derive(Debug, Default)]
pub(super) struct Crew(Mutex<Vec<JoinHandle<()>>>);

impl Crew {
    /// True when there is at least one thread for the work; there will be `count` where the system gives them.
    pub(super) fn is_there(
        &self,
        count: usize,
        name: &str,
        shared: &Arc<Shared>,
        work: fn(&Shared),
    ) -> bool {
        let mut threads = lock(&self.0);
        while threads.len() < count {
            let shared = Arc::clone(shared);
            let thread = std::thread::Builder::new().name(format!("disk-{name}"));
            match thread.spawn(move || work(&shared)) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        !threads.is_empty()
    }

    pub(super) fn end(&self) {
        for thread in lock(&self.0).drain(..) {
            // A thread that failed has nothing that anybody waits for.
            let _ = thread.join();
        }
    }
}
