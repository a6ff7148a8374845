//! The thread that makes files durable and names them, so that the thread of the socket never waits for the disk.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};

use super::arriving::UnnamedFile;

/// Files that are synced at a time: they share the file system's commits.
const SYNCS: usize = 16;

/// Work for the thread, about a file that its owner calls `of`.
#[derive(Debug)]
pub(super) enum Job<Of> {
    /// Make the octets that are there durable.
    Sync(Of, Arc<File>),
    /// The file is whole: make it durable and give it the name.
    Finish(Of, UnnamedFile, String),
}

/// The outcome of a job.
#[derive(Debug)]
pub(super) enum Done<Of> {
    Synced(Of, io::Result<()>),
    Finished(Of, io::Result<PathBuf>),
}

/// The thread, from outside. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Finisher<Of> {
    jobs: Sender<Job<Of>>,
    done: Receiver<Done<Of>>,
    /// A descriptor that can be read once there is news.
    bell: Arc<OwnedFd>,
    under_way: usize,
}

impl<Of: Send + 'static> Finisher<Of> {
    /// Start it, for files of a directory.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(directory: &Path) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = Arc::new(eventfd(0, flags)?);
        let (jobs, to_do) = channel();
        let (said, done) = channel();
        let worker = Worker {
            to_do,
            said,
            bell: Arc::clone(&bell),
            directory: directory.to_owned(),
        };
        thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || worker.work())?;
        Ok(Self {
            jobs,
            done,
            bell,
            under_way: 0,
        })
    }

    /// Give it work.
    pub(super) fn begin(&mut self, job: Job<Of>) {
        self.under_way = self.under_way.saturating_add(1);
        // A thread that is gone is told of by `poll`.
        let _ = self.jobs.send(job);
    }

    /// Work that is under way.
    pub(super) const fn under_way(&self) -> usize {
        self.under_way
    }

    /// The next job that is done, if there is one.
    ///
    /// # Errors
    /// The thread has ended: nothing becomes durable any more.
    pub(super) fn poll(&mut self) -> io::Result<Option<Done<Of>>> {
        match self.done.try_recv() {
            Ok(done) => {
                self.under_way = self.under_way.saturating_sub(1);
                Ok(Some(done))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(io::Error::other(
                "the thread that makes files durable has ended",
            )),
        }
    }

    /// The bell has been heard. To be called before `poll`.
    pub(super) fn hear(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    /// The descriptor that can be read once something is done.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

struct Worker<Of> {
    to_do: Receiver<Job<Of>>,
    said: Sender<Done<Of>>,
    bell: Arc<OwnedFd>,
    directory: PathBuf,
}

impl<Of: Send> Worker<Of> {
    fn work(self) {
        while let Ok(job) = self.to_do.recv() {
            let mut jobs = vec![job];
            while jobs.len() < SYNCS
                && let Ok(job) = self.to_do.try_recv()
            {
                jobs.push(job);
            }
            self.do_all(jobs);
        }
    }

    fn do_all(&self, jobs: Vec<Job<Of>>) {
        let synced: Vec<_> = thread::scope(|scope| {
            let syncs: Vec<_> = jobs
                .iter()
                .map(Job::file)
                .map(|file| thread::Builder::new().spawn_scoped(scope, || file.sync_data()))
                .collect();
            let failed = || Err(io::Error::other("a thread ended"));
            syncs
                .into_iter()
                .map(|sync| sync?.join().unwrap_or_else(|_| failed()))
                .collect()
        });
        let mut named = Vec::new();
        for (job, synced) in jobs.into_iter().zip(synced) {
            match job {
                Job::Sync(of, _) => self.say(Done::Synced(of, synced)),
                Job::Finish(of, file, name) => {
                    named.push((of, synced.and_then(|()| file.name(&name))));
                }
            }
        }
        if named.is_empty() {
            return;
        }
        let directory = File::open(&self.directory).and_then(|it| it.sync_all());
        for (of, named) in named {
            let named = match &directory {
                Ok(()) => named,
                Err(error) => named.and_then(|path| {
                    // It is told as lost; no more can be done where that fails.
                    let _ = std::fs::remove_file(path);
                    Err(io::Error::new(error.kind(), error.to_string()))
                }),
            };
            self.say(Done::Finished(of, named));
        }
    }

    fn say(&self, done: Done<Of>) {
        if self.said.send(done).is_ok() {
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }
}

impl<Of> Job<Of> {
    const fn file(&self) -> &Arc<File> {
        match self {
            Self::Sync(_, file) => file,
            Self::Finish(_, file, _) => file.file(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_ended_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut finisher = Finisher::start(directory.path()).unwrap();
        assert!(finisher.poll().unwrap().is_none());
        // Nobody is at the other ends of these.
        (finisher.jobs, finisher.done) = (channel().0, channel().1);
        let file = UnnamedFile::create(directory.path(), "name").unwrap();
        finisher.begin(Job::Sync(7, Arc::clone(file.file())));
        assert_eq!(finisher.under_way(), 1);
        assert!(finisher.poll().is_err());
    }
}
