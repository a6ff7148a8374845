//! The streams that are open, with the node's orders for the task of each.

use std::collections::BTreeMap;
use std::task::Waker;

use dhow_node::driver::StreamId;

use super::path::Ends;

/// All that the node wants of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Whether there are octets to poll.
    pub flush: bool,
    /// Whether TLS is to start once everything polled is written.
    pub start_tls: bool,
    /// Whether the stream is to be closed once everything polled is written.
    pub close: bool,
    /// Whether the stream is to be closed at once, whatever is unwritten.
    pub cut: bool,
}

/// One stream.
#[derive(Debug, Default)]
struct Stream {
    /// The addresses between which it runs, where it has some.
    ends: Option<Ends>,
    waker: Option<Waker>,
    wishes: Wishes,
    /// Whether the task stopped reading because the node takes no octets.
    paused: bool,
}

impl Stream {
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

/// All streams that are open.
#[derive(Debug, Default)]
pub struct Streams {
    open: BTreeMap<StreamId, Stream>,
    paused: Vec<StreamId>,
}

impl Streams {
    /// A stream was opened, between `ends` where it has some.
    pub fn open(&mut self, stream: StreamId, ends: Option<Ends>) {
        let entry = Stream {
            ends,
            ..Stream::default()
        };
        self.open.insert(stream, entry);
    }

    /// A stream is gone.
    pub fn close(&mut self, stream: StreamId) {
        self.open.remove(&stream);
    }

    /// Streams that are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// The addresses between which a stream runs, where it has some.
    #[must_use]
    pub fn ends(&self, stream: StreamId) -> Option<Ends> {
        self.open.get(&stream).and_then(|stream| stream.ends)
    }

    /// Whether a stream is open and is to stay so.
    #[must_use]
    pub fn stays(&self, stream: StreamId) -> bool {
        let stream = self.open.get(&stream);
        stream.is_some_and(|stream| !stream.wishes.close)
    }

    /// Tells the task that has this waker what the node wants of its stream, of which `flush` is taken as
    /// heard; it is woken when there is more.
    pub fn hear(&mut self, stream: StreamId, waker: &Waker) -> Wishes {
        let Some(stream) = self.open.get_mut(&stream) else {
            return Wishes {
                close: true,
                ..Wishes::default()
            };
        };
        if !stream
            .waker
            .as_ref()
            .is_some_and(|known| known.will_wake(waker))
        {
            stream.waker = Some(waker.clone());
        }
        let wishes = stream.wishes;
        stream.wishes.flush = false;
        wishes
    }

    /// The wish for TLS is being granted.
    pub fn tls_started(&mut self, stream: StreamId) {
        if let Some(stream) = self.open.get_mut(&stream) {
            stream.wishes.start_tls = false;
        }
    }

    /// Wishes something of a stream, if it is open, and wakes its task.
    pub fn wish(&mut self, stream: StreamId, wish: impl FnOnce(&mut Wishes)) {
        if let Some(stream) = self.open.get_mut(&stream) {
            wish(&mut stream.wishes);
            stream.wake();
        }
    }

    /// Wishes that a stream be closed at once; false where it is not open.
    pub fn cut(&mut self, stream: StreamId) -> bool {
        self.wish(stream, |wishes| {
            wishes.close = true;
            wishes.cut = true;
        });
        self.open.contains_key(&stream)
    }

    /// Wishes that every stream be closed.
    pub fn close_all(&mut self) {
        for stream in self.open.values_mut() {
            stream.wishes.close = true;
            stream.wake();
        }
    }

    /// A stream's task stops reading until the node takes octets.
    pub fn pause(&mut self, stream: StreamId) {
        if let Some(entry) = self.open.get_mut(&stream)
            && !entry.paused
        {
            entry.paused = true;
            self.paused.push(stream);
        }
    }

    /// Wakes the streams that stopped reading and may go on.
    pub fn resume(&mut self, takes_octets: impl Fn(StreamId) -> bool) {
        let open = &mut self.open;
        self.paused.retain(|stream| {
            let Some(entry) = open.get_mut(stream) else {
                return false;
            };
            if !takes_octets(*stream) {
                return true;
            }
            entry.paused = false;
            entry.wake();
            false
        });
    }
}
