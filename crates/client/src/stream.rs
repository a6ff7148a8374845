//! The octet stream to a node, of either kind.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
};

use crate::address::Address;

/// A connected stream.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Connect before `end`; `WouldBlock` or `TimedOut` when the time is over first.
    pub(crate) fn connect(address: &Address, end: Instant) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                let flags = SocketFlags::CLOEXEC;
                let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                // A listener that accepts nothing lets no more than its backlog connect; all others wait.
                set_socket_timeout(&socket, Timeout::Send, Some(left_until(end)))?;
                connect(&socket, &SocketAddrUnix::new(path)?)?;
                Ok(Self::Unix(UnixStream::from(socket)))
            }
            Address::Tcp(address) => {
                let mut outcome = Err(io::ErrorKind::NotFound.into());
                for address in address.to_socket_addrs()? {
                    outcome = TcpStream::connect_timeout(&address, left_until(end));
                    if outcome.is_ok() {
                        break;
                    }
                }
                let stream = outcome?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    /// Bounds the time that a write waits for the node to take an octet.
    pub(crate) fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(
            self.descriptor(),
            Timeout::Send,
            Some(timeout),
        )?)
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Read the octets that are there, without waiting; `WouldBlock` when there are none.
    pub(crate) fn read_now(&self, out: &mut [u8]) -> io::Result<usize> {
        let (octets, _) = rustix::net::recv(self.descriptor(), out, RecvFlags::DONTWAIT)?;
        Ok(octets)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }

    /// Say that nothing more will be written.
    pub(crate) fn end_writing(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

/// Time left, of which a system call always gets some.
fn left_until(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
        .max(Duration::from_millis(1))
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(out),
            Self::Tcp(stream) => stream.read(out),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(octets),
            Self::Tcp(stream) => stream.write(octets),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(slices),
            Self::Tcp(stream) => stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
