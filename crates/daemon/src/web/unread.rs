//! A connection that ends when its peer does not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail when the peer has taken nothing for a while.
pub struct ReadInTime<S> {
    stream: S,
    timeout: Duration,
    /// Ends the wait of a write under way.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S> ReadInTime<S> {
    /// Its peer is to take something within this time whenever it is given something.
    pub const fn new(stream: S, timeout: Duration) -> Self {
        Self {
            stream,
            timeout,
            late: None,
        }
    }

    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.late = None;
            return outcome;
        }
        let timeout = self.timeout;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(timeout)));
        late.as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadInTime<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadInTime<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, octets);
        self.bounded(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.bounded(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(work)
    }

    #[test]
    fn a_write_that_nobody_reads_fails() {
        run(async {
            let (near, _far) = tokio::io::duplex(4);
            let mut near = ReadInTime::new(near, Duration::from_millis(1));
            let error = near.write_all(b"twelve octets").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_write_that_is_read_takes_as_long_as_it_takes() {
        run(async {
            let (near, mut far) = tokio::io::duplex(4);
            let mut near = ReadInTime::new(near, Duration::from_secs(60));
            let read = tokio::task::LocalSet::new();
            let octets = read.run_until(async move {
                let writer = tokio::task::spawn_local(async move {
                    near.write_all(b"twelve octets").await.unwrap();
                });
                let mut octets = Vec::new();
                far.read_to_end(&mut octets).await.unwrap();
                writer.await.unwrap();
                octets
            });
            assert_eq!(octets.await, b"twelve octets");
        });
    }
}
