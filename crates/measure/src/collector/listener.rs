//! Clients that connect: one thread reads all of them, as a thread each would cost memory of its own.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::session::{Heard, Session};
use super::{Notice, Shared};

/// The time between two looks for the listener's end, and for clients that say nothing.
const LOOK: Duration = Duration::from_millis(50);

/// The same while a client waits for room, or still says something as the collector ends.
const CLOSE_LOOK: Duration = Duration::from_millis(5);

/// Octets that one read takes.
const READ_OCTETS: usize = 32 << 10;

pub struct Listener {
    listener: TcpListener,
    shared: Arc<Shared>,
    sessions: Vec<Session>,
    next: u64,
    /// Whether nobody is accepted any more.
    is_closed: bool,
}

impl Listener {
    pub fn new(listener: TcpListener, shared: Shared) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            shared: Arc::new(shared),
            sessions: Vec::new(),
            next: 0,
            is_closed: false,
        })
    }

    /// Takes clients until the collector ends, then reads what those still say that are here.
    pub fn run(mut self) {
        let mut buffer = vec![0; READ_OCTETS];
        while !(self.is_closed && self.sessions.is_empty()) {
            let is_stopped = self.shared.stop.load(Ordering::Relaxed);
            let mut heard = self.wait().into_iter();
            if !self.is_closed {
                // A client that connected, sent and left since the last look is still to be taken. An obstacle to accepting one (it left,
                // descriptors ran out) is gone later.
                while let Some(outcome) = self.accept() {
                    if outcome.is_err() {
                        thread::sleep(CLOSE_LOOK);
                        break;
                    }
                }
                self.is_closed = is_stopped;
            }
            self.sessions.retain_mut(|session| {
                // A session that has just come is looked at, too.
                let heard = heard.next().unwrap_or(Heard::Something);
                session.look(heard, &mut buffer)
            });
        }
    }

    /// Waits for a client or for what one says, a while at most; which sessions have something to be read.
    fn wait(&self) -> Vec<Heard> {
        let is_stopped = self.shared.stop.load(Ordering::Relaxed);
        let patience = match is_stopped || self.sessions.iter().any(Session::waits_for_room) {
            true => CLOSE_LOOK,
            false => LOOK,
        };
        let awaited = self.sessions.iter().filter_map(Session::awaits);
        let mut awaited: Vec<PollFd<'_>> = awaited
            .map(|stream| PollFd::new(stream, PollFlags::IN))
            .collect();
        if !self.is_closed {
            awaited.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let patience = Timespec::try_from(patience).ok();
        if poll(&mut awaited, patience.as_ref()).is_err() {
            // A signal came, or memory is short: all are looked at.
            return Vec::new();
        }
        let mut events = awaited.iter().map(PollFd::revents);
        let sessions = self.sessions.iter().map(|session| {
            let events = session.awaits().and_then(|_| events.next());
            match events.is_some_and(|events| !events.is_empty()) {
                true => Heard::Something,
                false => Heard::Nothing,
            }
        });
        sessions.collect()
    }

    /// Takes a client that has connected; none where nobody has.
    fn accept(&mut self) -> Option<io::Result<()>> {
        match self.listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(Err(error)),
            Ok((stream, peer)) => Some(self.admit(stream, peer)),
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let clients_max = self.shared.terms.clients_max;
        if self.sessions.len() >= clients_max {
            (self.shared.tell)(Notice::Refused {
                peer,
                reason: format!("{clients_max} clients are here already"),
            });
            return Ok(());
        }
        let session = Session::new(self.next, stream, peer, Arc::clone(&self.shared))?;
        self.next += 1;
        self.sessions.push(session);
        Ok(())
    }
}
