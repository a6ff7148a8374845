//! The node's side of a connection whose socket is on another thread ([`worker`](super::worker)).

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use dhow_link::Gather;
use dhow_node::driver::{Event, StreamId};

use super::connection::TURN_TIME;
use super::pipe::{News, Orders, Pipe};
use super::rest::rest;
use crate::core::Core;

/// Turns of one connection before the others of the thread get theirs.
const STEPS_PER_TURN: usize = 8;

/// Carry octets between the node and the pipe until the connection is gone.
pub async fn relay(core: Core, stream: StreamId, pipe: Arc<Pipe>) {
    let mut relay = Relay {
        core,
        stream,
        pipe,
        gather: Gather::new(),
        arrived: Vec::new(),
        more: true,
        closing: false,
    };
    while let Stop::Rest = std::future::poll_fn(|context| relay.turn(context)).await {
        rest().await;
    }
    relay.core.close_stream(stream);
}

struct Relay {
    core: Core,
    stream: StreamId,
    pipe: Arc<Pipe>,
    gather: Gather,
    arrived: Vec<Bytes>,
    /// Whether the node may have more octets than it gave last.
    more: bool,
    closing: bool,
}

/// Why a turn ended.
enum Stop {
    /// The thread's others are to have theirs.
    Rest,
    Gone,
}

enum Step {
    Progress,
    Nothing,
    Gone,
}

impl Relay {
    fn turn(&mut self, context: &mut Context<'_>) -> Poll<Stop> {
        let begun = self.core.now().monotonic;
        for _ in 0..STEPS_PER_TURN {
            match self.step(context) {
                Step::Progress if self.core.now().monotonic.since(begun) > TURN_TIME => break,
                Step::Progress => {}
                Step::Nothing => return Poll::Pending,
                Step::Gone => return Poll::Ready(Stop::Gone),
            }
        }
        Poll::Ready(Stop::Rest)
    }

    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let wishes = self.core.wishes(self.stream, context.waker());
        self.more |= wishes.flush;
        let mut orders = Orders {
            cut: wishes.cut,
            ..Orders::default()
        };
        let mut progress = wishes.cut && !self.closing;
        self.gather.clear();
        let taken = match self.more {
            true if self.core.ask(|node| node.counts_written(self.stream)) => {
                self.pipe.takes_once_written(context.waker())
            }
            true => self.pipe.takes(context.waker()),
            false => 0,
        };
        if taken > 0 {
            let limit = usize::try_from(taken).unwrap_or(usize::MAX);
            let limit = limit.min(self.core.unwritten.next_octets());
            self.core.poll_pieces(self.stream, limit, &mut self.gather);
            self.more = !self.gather.is_empty();
            progress |= self.more;
        }
        // An order holds for the time when all is written.
        if !self.more {
            orders.close = wishes.close;
            orders.start_tls = wishes.start_tls;
            progress |= wishes.start_tls || (wishes.close && !self.closing);
        }
        if wishes.start_tls && orders.start_tls {
            self.core.tls_started(self.stream);
        }
        if progress {
            self.closing |= orders.close || orders.cut;
            self.pipe.order(&self.gather, orders);
        }
        match self.hear(context) {
            Step::Nothing if progress => Step::Progress,
            step => step,
        }
    }

    /// Hands the node the octets that came from the socket.
    fn hear(&mut self, context: &mut Context<'_>) -> Step {
        if !self.closing && !self.core.takes_octets(self.stream) {
            return Step::Nothing;
        }
        match self.pipe.news(context.waker(), &mut self.arrived) {
            News::Nothing => return Step::Nothing,
            News::Ended => return Step::Gone,
            News::Octets if self.closing => self.arrived.clear(),
            News::Octets => {
                for octets in self.arrived.drain(..) {
                    self.core.handle_octets(self.stream, octets);
                }
            }
            News::Secured(Ok(identities)) => self.core.handle(Event::Secured {
                stream: self.stream,
                identities,
            }),
            News::Secured(Err(why)) => self.core.insecure(self.stream, &why),
        }
        Step::Progress
    }
}
