//! The way to a collector over TCP: connections that may break, and the collector's answers.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::retry::Retry;
use crate::omsp::header::{ACCEPTED, REFUSED};

/// The longest time that a write waits for a slow collector: the same thread must take samples meanwhile.
pub const WRITE_PATIENCE: Duration = Duration::from_millis(20);

/// The longest time to make a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// The longest time that rows are held after the header for the collector's answer, so that no row is lost to a collector that
/// refuses. Dhow's collectors answer at once, those of OML never.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// A connection to a collector, or the next attempt at one.
#[derive(Debug)]
pub struct Link {
    address: String,
    state: LinkState,
    retry: Retry,
    /// Rows are held until then.
    held_until: Instant,
    /// Why the collector refused the last session, if it said so.
    refusal: Option<String>,
}

#[derive(Debug)]
enum LinkState {
    Waiting,
    Connecting(Receiver<io::Result<TcpStream>>),
    Up(TcpStream),
}

fn is_patience(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// The state of a connection at one look.
pub enum Look {
    Away,
    New,
    Up,
}

impl Link {
    /// The link to a collector at that address, which need not be there.
    pub fn to(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            state: LinkState::Waiting,
            retry: Retry::new(),
            held_until: Instant::now(),
            refusal: None,
        }
    }

    pub const fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up(_))
    }

    /// Rows still wait for what the collector says of their header.
    pub fn holds_rows(&self) -> bool {
        Instant::now() < self.held_until
    }

    /// Why the collector refused the last session, if it said so.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Finds out whether there is a connection, and connects where it is time to.
    pub fn look(&mut self) -> Look {
        match &mut self.state {
            LinkState::Up(stream) => {
                // A collector says nothing; but it may have ended the session, and the first write after that would be lost.
                let mut said = [0; 256];
                let read = stream
                    .set_nonblocking(true)
                    .and_then(|()| stream.read(&mut said));
                let is_open = match read {
                    Ok(0) => false,
                    Ok(count) => match Answer::of(said.get(..count).unwrap_or_default()) {
                        Answer::Accepted => {
                            self.held_until = Instant::now();
                            true
                        }
                        Answer::Refused(why) => {
                            self.refusal = Some(why);
                            false
                        }
                        Answer::Other => true,
                    },
                    Err(error) => is_patience(&error),
                };
                if is_open && stream.set_nonblocking(false).is_ok() {
                    if Instant::now() >= self.held_until {
                        self.refusal = None;
                    }
                    return Look::Up;
                }
                self.fail();
                Look::Away
            }
            LinkState::Waiting if !self.retry.is_due() => Look::Away,
            LinkState::Waiting => {
                self.state = LinkState::Connecting(connect(self.address.clone()));
                Look::Away
            }
            LinkState::Connecting(outcome) => match outcome.try_recv() {
                Err(TryRecvError::Empty) => Look::Away,
                Ok(Ok(stream)) => {
                    self.held_until = Instant::now() + ANSWER_PATIENCE;
                    self.state = LinkState::Up(stream);
                    Look::New
                }
                Ok(Err(_)) | Err(TryRecvError::Disconnected) => {
                    self.fail();
                    Look::Away
                }
            },
        }
    }

    /// The connection, or the attempt at one, is of no more use.
    pub fn fail(&mut self) {
        // A session that lasted was one: only what fails again and again is tried less and less often.
        if self.is_up() && Instant::now() > self.held_until {
            self.retry.succeeded();
        }
        self.state = LinkState::Waiting;
        self.retry.failed();
    }

    /// Writes what the connection takes, and says how many octets that was.
    ///
    /// # Errors
    /// The connection broke.
    pub fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let LinkState::Up(stream) = &mut self.state else {
            return Ok(0);
        };
        match stream.write(octets) {
            Err(error) if is_patience(&error) => Ok(0),
            outcome => outcome,
        }
    }

    /// Ends the session, and waits until the collector has ended it too, which it does when it has read all.
    ///
    /// # Errors
    /// It did not within `patience`, or cut the session: the last rows may not have arrived.
    pub fn finish(&mut self, patience: Duration) -> io::Result<()> {
        let LinkState::Up(stream) = &mut self.state else {
            return Ok(());
        };
        stream.shutdown(Shutdown::Write)?;
        let end = Instant::now() + patience;
        let mut said = [0; 256];
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            stream.set_read_timeout(Some(rest.max(WRITE_PATIENCE)))?;
            match stream.read(&mut said)? {
                0 => return Ok(()),
                count => {
                    if let Answer::Refused(why) = Answer::of(said.get(..count).unwrap_or_default())
                    {
                        return Err(io::Error::other(why));
                    }
                    if rest.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
            }
        }
    }
}

/// A collector's answer to a header.
enum Answer {
    Accepted,
    Refused(String),
    Other,
}

impl Answer {
    fn of(said: &[u8]) -> Self {
        let text = String::from_utf8_lossy(said);
        let refusal = text.lines().find_map(|line| line.strip_prefix(REFUSED));
        match refusal {
            Some(why) => Self::Refused(why.to_owned()),
            None if text.lines().any(|line| line == ACCEPTED) => Self::Accepted,
            None => Self::Other,
        }
    }
}

/// Connects beside, since a network that answers nothing takes seconds to say so.
fn connect(address: String) -> Receiver<io::Result<TcpStream>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let outcome = connect_now(&address);
        // Nobody waits any more: the client ended.
        let _ = sender.send(outcome);
    });
    receiver
}

fn connect_now(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for place in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, CONNECT_PATIENCE) {
            Ok(stream) => {
                stream.set_write_timeout(Some(WRITE_PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
