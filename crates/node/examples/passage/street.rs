//! Hosts in a line, each joined to the next by a connection that carries everything at once.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::{DtnTime, Instant, Now};
use dhow_node::config::{Config, LinkId, ListenerId};
use dhow_node::driver::{Event, OperatorCommand, Purpose, StreamId, Ticket};

use crate::application::Reader;
use crate::host::{Counting, Host};

/// Octets that a host reads from a connection at a time: what a busy socket gives.
const CHUNK_OCTETS: usize = 64 << 10;

/// The octets that a round of everything takes, so that timers run and timestamps differ.
const ROUND: Duration = Duration::from_micros(500);

/// When the street begins, on the wall clock.
const EPOCH_MS: u64 = 800_000_000_000;

/// The program at the other end of a stream.
enum Other {
    Host { at: usize, stream: StreamId },
    Application(Option<Reader>),
}

/// A host's end of a stream.
struct End {
    at: usize,
    stream: StreamId,
    other: Other,
    /// Octets that it has not read yet.
    unread: VecDeque<Bytes>,
}

pub struct Street {
    hosts: Vec<Host>,
    ends: Vec<End>,
    monotonic: Instant,
}

impl Street {
    pub fn new(configs: impl IntoIterator<Item = Config>) -> Self {
        let start = now(Instant::START);
        Self {
            hosts: configs
                .into_iter()
                .map(|config| Host::new(config, start))
                .collect(),
            ends: Vec::new(),
            monotonic: Instant::START,
        }
    }

    /// Bundles that a host holds.
    pub fn stored(&self, at: usize) -> u64 {
        self.hosts[at].node.stored().0
    }

    pub fn count(&mut self, at: usize, counting: Counting) {
        self.hosts[at].counting = counting;
    }

    /// Opens the link of a host to the next one.
    pub fn open_link(&mut self, at: usize) {
        let command = OperatorCommand::LinkUp("next".into());
        let ticket = Ticket(0);
        self.handle(at, Event::Operator { ticket, command });
    }

    /// Connects an application that has something to say and perhaps reads.
    pub fn connect_application(&mut self, at: usize, says: Vec<Bytes>, reader: Option<Reader>) {
        let stream = self.stream();
        self.ends.push(End {
            at,
            stream,
            other: Other::Application(reader),
            unread: says.into(),
        });
        let purpose = Purpose::Client;
        self.handle(at, Event::Connected { stream, purpose });
    }

    /// Lets things happen until something is so.
    pub fn until(&mut self, rounds: usize, done: impl Fn(&Self) -> bool) {
        for _ in 0..rounds {
            if done(self) {
                return;
            }
            self.round();
        }
        panic!("it never comes to an end");
    }

    fn round(&mut self) {
        self.monotonic = self.monotonic + ROUND;
        for at in 0..self.hosts.len() {
            for _ in 0..std::mem::take(&mut self.hosts[at].dials) {
                self.connect_next(at);
            }
        }
        for place in 0..self.ends.len() {
            self.write(place);
        }
        for place in 0..self.ends.len() {
            self.read(place);
        }
        let now = now(self.monotonic);
        for host in &mut self.hosts {
            host.sync(now);
        }
    }

    fn connect_next(&mut self, at: usize) {
        let (near, far) = (self.stream(), StreamId(self.stream().0 + 1));
        for (at, stream, other) in [(at, near, (at + 1, far)), (at + 1, far, (at, near))] {
            self.ends.push(End {
                at,
                stream,
                other: Other::Host {
                    at: other.0,
                    stream: other.1,
                },
                unread: VecDeque::new(),
            });
        }
        let link = LinkId(0);
        let purpose = Purpose::Dialled { link };
        self.handle(
            at,
            Event::Connected {
                stream: near,
                purpose,
            },
        );
        let listener = ListenerId(0);
        let purpose = Purpose::Accepted { listener };
        self.handle(
            at + 1,
            Event::Connected {
                stream: far,
                purpose,
            },
        );
    }

    /// The octets that one end has to write lie before the other.
    fn write(&mut self, place: usize) {
        let now = now(self.monotonic);
        let End {
            at, stream, other, ..
        } = &mut self.ends[place];
        let host = &mut self.hosts[*at];
        if !host.to_flush.remove(stream) {
            return;
        }
        let octets = host.flush(now, *stream);
        match other {
            Other::Host { at, stream } => {
                let other = (*at, *stream);
                let end = self
                    .ends
                    .iter_mut()
                    .find(|end| (end.at, end.stream) == other);
                end.expect("a connection has two ends")
                    .unread
                    .push_back(octets);
            }
            Other::Application(Some(reader)) => reader.hear(octets),
            Other::Application(None) => {}
        }
    }

    /// One end reads what lies before it, as long as its node takes it.
    fn read(&mut self, place: usize) {
        let End {
            at,
            stream,
            other,
            unread,
        } = &mut self.ends[place];
        let (at, stream) = (*at, *stream);
        if let Other::Application(Some(reader)) = other {
            unread.push_back(reader.take_octets());
        }
        while self.hosts[at].node.takes_octets(stream) {
            let Some(mut octets) = self.ends[place].unread.pop_front() else {
                return;
            };
            if octets.len() > CHUNK_OCTETS {
                let rest = octets.split_off(CHUNK_OCTETS);
                self.ends[place].unread.push_front(rest);
            }
            if !octets.is_empty() {
                self.handle(at, Event::Octets { stream, octets });
            }
        }
    }

    fn handle(&mut self, at: usize, event: Event) {
        let now = now(self.monotonic);
        self.hosts[at].handle(now, event);
    }

    fn stream(&self) -> StreamId {
        StreamId(u64::try_from(self.ends.len()).unwrap())
    }
}

fn now(monotonic: Instant) -> Now {
    let dtn = DtnTime::from_millis(EPOCH_MS + monotonic.as_nanos() / 1_000_000);
    Now { monotonic, dtn }
}
