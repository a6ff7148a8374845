//! A body of many pieces, each of which is asked for when the connection has taken the one before.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};

/// The part of a body that has not been asked for.
pub trait Rest: Sized + Send + 'static {
    /// Why a body ends before its end.
    type Error;

    /// The next piece, and the rest behind it, if there is one.
    fn next(self) -> impl Future<Output = Taken<Self>> + Send;
}

/// A piece, and the rest behind it.
pub type Taken<R> = Result<(Bytes, Option<R>), <R as Rest>::Error>;

type Next<R> = Pin<Box<dyn Future<Output = Taken<R>> + Send>>;

/// A body of many pieces.
pub struct Pieces<R: Rest> {
    /// Asks when it is first polled, and not before.
    next: Option<Next<R>>,
}

impl<R: Rest> Pieces<R>
where
    R::Error: Send,
{
    /// All of a rest.
    pub fn of(rest: R) -> Self {
        Self {
            next: Some(Box::pin(rest.next())),
        }
    }

    /// A first piece, and the rest behind it.
    pub fn behind(first: Bytes, rest: R) -> Self {
        Self {
            next: Some(Box::pin(std::future::ready(Ok((first, Some(rest)))))),
        }
    }
}

impl<R: Rest> Body for Pieces<R> {
    type Data = Bytes;
    type Error = R::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, R::Error>>> {
        let Some(next) = &mut self.next else {
            return Poll::Ready(None);
        };
        let outcome = ready!(next.as_mut().poll(context));
        self.next = None;
        Poll::Ready(Some(outcome.map(|(octets, rest)| {
            self.next = rest.map(|rest| -> Next<R> { Box::pin(rest.next()) });
            Frame::data(octets)
        })))
    }
}
