//! The calls of a node in which everything counted is executed: functions that a profiler can name.

use dhow_bundle::Now;
use dhow_link::Gather;
use dhow_node::Node;
use dhow_node::driver::{Action, Event, StreamId};

/// [`Node::handle`].
#[inline(never)]
pub fn counted_handle(node: &mut Node, now: Now, event: Event) {
    node.handle(now, event);
}

/// [`Node::poll`].
#[inline(never)]
pub fn counted_poll(node: &mut Node, now: Now) -> Option<Action> {
    node.poll(now)
}

/// [`Node::poll_octets`].
#[inline(never)]
pub fn counted_poll_octets(
    node: &mut Node,
    now: Now,
    stream: StreamId,
    most: usize,
    out: &mut Gather,
) {
    node.poll_octets(now, stream, most, out);
}
