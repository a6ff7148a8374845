//! Who comes: a thread a client, up to a bound.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::session::Session;
use super::{Notice, Shared};

/// How often a listener looks for clients and for its end.
const LOOK: Duration = Duration::from_millis(20);

/// Octets of a session's stack: it calls nothing that nests.
const STACK_OCTETS: usize = 256 << 10;

pub struct Listener {
    listener: TcpListener,
    shared: Arc<Shared>,
    sessions: Vec<JoinHandle<()>>,
    next: u64,
}

impl Listener {
    pub fn new(listener: TcpListener, shared: Shared) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            shared: Arc::new(shared),
            sessions: Vec::new(),
            next: 0,
        })
    }

    /// Takes clients until the collector ends, then waits for those that are here.
    pub fn run(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            // What keeps one client from being accepted (it left, descriptors ran out) is gone later.
            if self.accept().is_err() {
                thread::sleep(LOOK);
            }
            self.sessions.retain(|session| !session.is_finished());
        }
        // Whoever connected, sent and left since the last look is still to be taken.
        while self.sessions.len() < self.shared.terms.clients_max && self.accept().is_ok() {}
        for session in self.sessions {
            // A session that ended badly said so itself.
            let _ = session.join();
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let (stream, peer) = self.listener.accept()?;
        if self.sessions.len() >= self.shared.terms.clients_max {
            (self.shared.tell)(Notice::Refused {
                peer,
                reason: format!("{} clients are here already", self.shared.terms.clients_max),
            });
            return Ok(());
        }
        stream.set_nonblocking(false)?;
        let session = Session::new(self.next, stream, peer, Arc::clone(&self.shared))?;
        self.next += 1;
        let thread = thread::Builder::new()
            .stack_size(STACK_OCTETS)
            .spawn(move || session.run())?;
        self.sessions.push(thread);
        Ok(())
    }
}
