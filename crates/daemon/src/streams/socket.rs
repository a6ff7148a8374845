//! A connected socket, in the clear or under TLS.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use socket2::SockRef;
use tokio::io::AsyncWrite;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;
use tokio_util::io::poll_read_buf;

use super::backlog::BOUND_START;
use super::path::Ends;

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// TCP in the clear.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TCP under TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connected socket on its way to another thread, in the clear.
#[derive(Debug)]
pub enum Detached {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// A Unix socket.
    Unix(std::os::unix::net::UnixStream),
}

impl Detached {
    /// The socket, for the thread that calls.
    ///
    /// # Errors
    /// The thread's runtime takes no more sockets.
    pub fn attach(self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream)?),
            Self::Unix(stream) => Socket::Unix(UnixStream::from_std(stream)?),
        })
    }
}

impl Socket {
    /// Take a socket in the clear from the thread that calls, for another.
    ///
    /// # Errors
    /// The system refused, or TLS has begun.
    pub fn detach(self) -> io::Result<Detached> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(Detached::Tcp),
            Self::Unix(stream) => stream.into_std().map(Detached::Unix),
            Self::Tls(_) => Err(io::Error::other("TLS has begun")),
        }
    }

    /// A TCP connection that sends without waiting for more to send (TCP_NODELAY), and takes no more than it may send soon.
    #[must_use]
    pub fn tcp(stream: TcpStream) -> Self {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY cannot be set: {error}");
        }
        let socket = Self::Tcp(stream);
        socket.let_wait(BOUND_START);
        socket
    }

    /// So many octets, about, may wait in the kernel to be sent.
    pub fn let_wait(&self, octets: u32) {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Unix(_) => return,
        };
        if let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(octets) {
            tracing::debug!("TCP_NOTSENT_LOWAT cannot be set: {error}");
        }
    }

    /// The peer's address, where it has one.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok(),
            Self::Unix(_) => None,
            Self::Tls(stream) => stream.get_ref().0.peer_addr().ok(),
        }
    }

    /// The addresses between which it runs, where it has some.
    #[must_use]
    pub fn ends(&self) -> Option<Ends> {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Unix(_) => return None,
            Self::Tls(stream) => stream.get_ref().0,
        };
        Some(Ends {
            own: stream.local_addr().ok()?,
            peer: stream.peer_addr().ok()?,
        })
    }

    /// Let closing reset the connection: what lies unsent in the kernel is dropped, not sent when the path
    /// is back.
    pub fn reset_on_close(&self) {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Unix(_) => return,
        };
        if let Err(error) = stream.set_zero_linger() {
            tracing::debug!("SO_LINGER cannot be set: {error}");
        }
    }

    /// Read the octets that are there into the room of `buffer`; 0 at the stream's end.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => poll_read_buf(Pin::new(stream), context, buffer),
            Self::Unix(stream) => poll_read_buf(Pin::new(stream), context, buffer),
            Self::Tls(stream) => poll_read_buf(Pin::new(stream.as_mut()), context, buffer),
        }
    }

    /// Write the slices by one call; how many octets were taken comes back.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(context, slices),
        }
    }

    /// Send what TLS still holds.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    /// End the sending half, under TLS with its closure alert.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
