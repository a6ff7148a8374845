//! A body of many pieces, each of which is asked for when the connection has taken the one before.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};

use super::ask::Gone;

/// The part of a body that has not been asked for.
pub(super) trait Rest: Sized + Send + 'static {
    /// The next piece, and the rest behind it, if there is one.
    fn next(self) -> impl Future<Output = Result<(Bytes, Option<Self>), Gone>> + Send;
}

type Next<R> = Pin<Box<dyn Future<Output = Result<(Bytes, Option<R>), Gone>> + Send>>;

/// A body of many pieces.
pub(super) struct Pieces<R> {
    /// Asks when it is first polled, and not before.
    next: Option<Next<R>>,
}

impl<R: Rest> Pieces<R> {
    /// All of a rest.
    pub(super) fn of(rest: R) -> Self {
        Self {
            next: Some(Box::pin(rest.next())),
        }
    }

    /// A first piece, and the rest behind it.
    pub(super) fn behind(first: Bytes, rest: R) -> Self {
        Self {
            next: Some(Box::pin(std::future::ready(Ok((first, Some(rest)))))),
        }
    }
}

impl<R: Rest> Body for Pieces<R> {
    type Data = Bytes;
    type Error = Gone;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Gone>>> {
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
