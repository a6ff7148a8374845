//! The link between the node's thread and the one that has a connection's socket: two queues with bounds.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_link::Gather;
use dhow_link::stream::PeerIdentities;

/// Octets that arrived and that the node has not taken, at most: beyond it the socket is left alone, so
/// that TCP slows the peer.
const UP_OCTETS_MAX: usize = 1 << 20;

/// Octets that the node gave and that are not being written yet, at most (and one piece more).
const DOWN_OCTETS_MAX: u64 = 1 << 20;

/// A connection between its node and the thread that has its socket.
#[derive(Debug, Default)]
pub struct Pipe {
    up: Mutex<Up>,
    down: Mutex<Down>,
}

/// The queue from the socket to the node.
#[derive(Debug, Default)]
struct Up {
    octets: Vec<Bytes>,
    waiting: usize,
    secured: Option<Result<PeerIdentities, String>>,
    ended: bool,
    node: Option<Waker>,
}

/// The queue from the node to the socket.
#[derive(Debug)]
struct Down {
    pieces: Vec<Piece>,
    waiting: u64,
    /// Octets that may wait (and one piece more).
    bound: u64,
    /// Whether the pieces that were taken last are not all written.
    writing: bool,
    /// Whether the node waits until they are.
    awaited: bool,
    orders: Orders,
    socket: Option<Waker>,
}

impl Default for Down {
    fn default() -> Self {
        Self {
            pieces: Vec::new(),
            waiting: 0,
            bound: DOWN_OCTETS_MAX,
            writing: false,
            awaited: false,
            orders: Orders::default(),
            socket: None,
        }
    }
}

/// Orders for a socket beside writing to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Whether TLS starts once everything given is written.
    pub start_tls: bool,
    /// Whether the socket closes once everything given is written.
    pub close: bool,
    /// Whether the socket closes at once.
    pub cut: bool,
}

/// A message to the node in the pipe.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing yet; the task is woken when there is something.
    Nothing,
    /// Octets were put into the caller's list.
    Octets,
    /// TLS came about with these identities, or did not, and why.
    Secured(Result<PeerIdentities, String>),
    /// The connection is gone.
    Ended,
}

impl Pipe {
    /// For the node: octets and news from the socket, in order.
    pub fn news(&self, waker: &Waker, octets: &mut Vec<Bytes>) -> News {
        let mut up = lock(&self.up);
        if !up.octets.is_empty() {
            std::mem::swap(&mut up.octets, octets);
            let was_full = up.waiting >= UP_OCTETS_MAX;
            up.waiting = 0;
            drop(up);
            if was_full {
                self.wake_socket();
            }
            return News::Octets;
        }
        if let Some(secured) = up.secured.take() {
            return News::Secured(secured);
        }
        if up.ended {
            return News::Ended;
        }
        keep(&mut up.node, waker);
        News::Nothing
    }

    /// For the node: the octets that are taken to be written now; where there are none, the task is woken once there are.
    pub fn takes(&self, waker: &Waker) -> u64 {
        let takes = lock(&self.down).room();
        if takes == 0 {
            keep(&mut lock(&self.up).node, waker);
            // It may have been emptied between the two looks.
            return lock(&self.down).room();
        }
        takes
    }

    /// For the node: as [`Pipe::takes`], but none before all that was given is written.
    pub fn takes_once_written(&self, waker: &Waker) -> u64 {
        let takes = lock(&self.down).room_once_written();
        if takes == 0 {
            keep(&mut lock(&self.up).node, waker);
            return lock(&self.down).room_once_written();
        }
        takes
    }

    /// For the node: write this, and then do as ordered.
    pub fn order(&self, gather: &Gather, orders: Orders) {
        let mut down = lock(&self.down);
        down.pieces.extend_from_slice(gather.pieces());
        down.waiting = down.waiting.saturating_add(gather.octets());
        down.orders.start_tls |= orders.start_tls;
        down.orders.close |= orders.close;
        down.orders.cut |= orders.cut;
        let socket = down.socket.take();
        drop(down);
        wake(socket);
    }

    /// For the socket: what is ordered, once everything that [`Pipe::take`] gives then is written; the task
    /// is woken when there is more.
    pub fn orders(&self, waker: &Waker) -> Orders {
        let mut down = lock(&self.down);
        keep(&mut down.socket, waker);
        down.orders
    }

    /// For the socket, which has written all that it was given before: what is to be written, moved to the empty `pieces`; `bound` octets may wait from
    /// now on.
    pub fn take(&self, pieces: &mut Vec<Piece>, bound: usize) {
        let mut down = lock(&self.down);
        std::mem::swap(&mut down.pieces, pieces);
        let was_full = down.room() == 0;
        down.writing = !pieces.is_empty();
        let is_awaited = !down.writing && std::mem::take(&mut down.awaited);
        down.waiting = 0;
        down.bound = u64::try_from(bound).map_or(DOWN_OCTETS_MAX, |it| it.min(DOWN_OCTETS_MAX));
        drop(down);
        if was_full || is_awaited {
            self.wake_node();
        }
    }

    /// For the socket: whether the node takes more octets; when not, the task is woken once it does.
    pub fn has_room(&self, waker: &Waker) -> bool {
        if lock(&self.up).waiting < UP_OCTETS_MAX {
            return true;
        }
        keep(&mut lock(&self.down).socket, waker);
        lock(&self.up).waiting < UP_OCTETS_MAX
    }

    /// For the socket: these octets arrived.
    pub fn arrived(&self, octets: Bytes) {
        let mut up = lock(&self.up);
        up.waiting = up.waiting.saturating_add(octets.len());
        up.octets.push(octets);
        let node = up.node.take();
        drop(up);
        wake(node);
    }

    /// For the socket: the handshake is over.
    pub fn secured(&self, outcome: Result<PeerIdentities, String>) {
        lock(&self.down).orders.start_tls = false;
        let mut up = lock(&self.up);
        up.secured = Some(outcome);
        let node = up.node.take();
        drop(up);
        wake(node);
    }

    /// For the socket: the connection is gone.
    pub fn end(&self) {
        let mut up = lock(&self.up);
        up.ended = true;
        let node = up.node.take();
        drop(up);
        wake(node);
    }

    fn wake_node(&self) {
        let node = lock(&self.up).node.take();
        wake(node);
    }

    fn wake_socket(&self) {
        let socket = lock(&self.down).socket.take();
        wake(socket);
    }
}

impl Down {
    const fn room(&self) -> u64 {
        self.bound.saturating_sub(self.waiting)
    }

    fn room_once_written(&mut self) -> u64 {
        self.awaited = self.writing || !self.pieces.is_empty();
        match self.awaited {
            true => 0,
            false => self.bound,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(place: &mut Option<Waker>, waker: &Waker) {
    match place {
        Some(known) => known.clone_from(waker),
        None => *place = Some(waker.clone()),
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn bell() -> (Arc<Bell>, Waker) {
        let bell = Arc::new(Bell::default());
        (Arc::clone(&bell), Waker::from(bell))
    }

    fn rings(bell: &Bell) -> usize {
        bell.0.swap(0, Ordering::SeqCst)
    }

    fn gather(octets: usize) -> Gather {
        let mut gather = Gather::new();
        gather.push(Piece::Octets(vec![0; octets].into()));
        gather
    }

    #[test]
    fn octets_that_arrive_wake_the_node_and_come_before_the_end() {
        let (pipe, (bell, waker)) = (Pipe::default(), bell());
        let mut octets = Vec::new();
        assert_eq!(pipe.news(&waker, &mut octets), News::Nothing);
        pipe.arrived(Bytes::from_static(b"one"));
        assert_eq!(rings(&bell), 1);
        pipe.arrived(Bytes::from_static(b"two"));
        pipe.end();
        assert_eq!(pipe.news(&waker, &mut octets), News::Octets);
        assert_eq!(octets, ["one", "two"]);
        octets.clear();
        assert_eq!(pipe.news(&waker, &mut octets), News::Ended);
    }

    #[test]
    fn a_full_pipe_stops_the_socket_until_the_node_has_taken() {
        let (pipe, (bell, waker)) = (Pipe::default(), bell());
        pipe.arrived(vec![0; UP_OCTETS_MAX].into());
        assert!(!pipe.has_room(&waker));
        assert_eq!(pipe.news(&waker, &mut Vec::new()), News::Octets);
        assert_eq!(rings(&bell), 1);
        assert!(pipe.has_room(&waker));
    }

    #[test]
    fn a_full_pipe_stops_the_node_until_the_socket_has_taken() {
        let (pipe, (bell, waker)) = (Pipe::default(), bell());
        pipe.order(&gather(1 << 20), Orders::default());
        assert_eq!(pipe.takes(&waker), 0);
        let mut pieces = Vec::new();
        pipe.take(&mut pieces, 1_000);
        assert_eq!((pieces.len(), rings(&bell)), (1, 1));
        assert_eq!(pipe.takes(&waker), 1_000);
    }

    #[test]
    fn a_node_that_waits_for_what_is_written_is_woken_then() {
        let (pipe, (bell, waker)) = (Pipe::default(), bell());
        let mut pieces = Vec::new();
        assert_eq!(pipe.takes_once_written(&waker), 1 << 20);
        pipe.order(&gather(3), Orders::default());
        assert_eq!(pipe.takes_once_written(&waker), 0);
        pipe.take(&mut pieces, 1 << 20);
        assert_eq!((pieces.len(), rings(&bell)), (1, 0));
        assert_eq!(pipe.takes_once_written(&waker), 0);
        // The socket comes for more: all is written.
        pieces.clear();
        pipe.take(&mut pieces, 1_000);
        assert_eq!(rings(&bell), 1);
        assert_eq!(pipe.takes_once_written(&waker), 1_000);
    }

    #[test]
    fn orders_come_with_what_is_to_be_written_before_them() {
        let (pipe, (bell, waker)) = (Pipe::default(), bell());
        let mut pieces = Vec::new();
        assert_eq!(pipe.orders(&waker), Orders::default());
        let close = Orders {
            close: true,
            ..Orders::default()
        };
        pipe.order(&gather(3), close);
        assert_eq!(rings(&bell), 1);
        assert_eq!(pipe.orders(&waker), close);
        pipe.take(&mut pieces, 1_000);
        assert_eq!(pieces.len(), 1);
    }
}
