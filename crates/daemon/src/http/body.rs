//! Bodies of requests and answers, between tasks of HTTP and the threads that talk to the node.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use tokio::sync::mpsc;

/// Pieces of a body that may wait between the two sides.
const PIECES_WAITING: usize = 4;

/// The time in which the next piece of a request's body must come.
const PIECE_TIMEOUT: Duration = Duration::from_secs(60);

/// A request's body as a thread reads it.
pub struct Incoming {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl Incoming {
    /// The octets of `body`, which a task of this runtime takes as they are read.
    pub fn of(body: Body) -> Self {
        let (give, pieces) = mpsc::channel(PIECES_WAITING);
        tokio::task::spawn_local(pump(body, give));
        Self {
            pieces,
            current: Bytes::new(),
        }
    }
}

async fn pump(mut body: Body, give: mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let piece = match tokio::time::timeout(PIECE_TIMEOUT, body.frame()).await {
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
            Ok(None) => return,
            Ok(Some(Err(error))) => Err(io::Error::other(error)),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(octets) => Ok(octets),
                // Trailers.
                Err(_) => continue,
            },
        };
        let failed = piece.is_err();
        if give.send(piece).await.is_err() || failed {
            return;
        }
    }
}

impl Read for Incoming {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.current = piece?,
            }
        }
        let octets = out.len().min(self.current.len());
        if let Some(place) = out.get_mut(..octets) {
            self.current.copy_to_slice(place);
        }
        Ok(octets)
    }
}

/// A body whose octets come from a thread: as many as were announced, or an error.
pub struct Outgoing {
    pieces: mpsc::Receiver<Bytes>,
    left: u64,
}

impl Outgoing {
    /// A body of so many octets, and where its pieces go.
    pub fn new(octets: u64) -> (mpsc::Sender<Bytes>, Self) {
        let (give, pieces) = mpsc::channel(PIECES_WAITING);
        (
            give,
            Self {
                pieces,
                left: octets,
            },
        )
    }
}

impl hyper::body::Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(match ready!(self.pieces.poll_recv(context)) {
            Some(piece) => {
                let octets = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                self.left = self.left.saturating_sub(octets);
                Ok(Frame::data(piece))
            }
            None => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }
}
