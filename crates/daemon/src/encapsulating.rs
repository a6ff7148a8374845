//! LTP between datagrams and streams of encapsulation packets (CCSDS 133.1-B-3): a node, or `dhow ltp`, has datagrams, and its peer at the other end of a
//! stream packets. Start at [`Joint`].
//!
//! A datagram is one packet. One that a stream does not take, or that comes while there is none, is lost, as it might be over UDP: LTP sends it again.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dhow_link::encapsulation::{LTP, PacketFault, Units, write_header};
use dhow_link::ltp::Addressee;
use socket2::{SockRef, TcpKeepalive};

/// Octets of the longest datagram (IPv4).
const DATAGRAM_OCTETS: u64 = 65_507;

/// Packets that wait for a stream, at most.
const WAITING_PACKETS: usize = 4_096;

/// Octets that are read of a stream at a time.
const CHUNK_OCTETS: usize = 256 << 10;

/// The longest wait before the next look at whether it goes on.
const LOOK: Duration = Duration::from_millis(100);

/// The silence after which a peer of TCP is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(15);

/// The shortest and the longest wait before a stream is connected again.
const RETRY: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(8)];

/// An end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A connection of TCP to an address.
    Tcp(SocketAddr),
    /// The first one that comes to an address of this machine, and the next when that has ended.
    TcpListen(SocketAddr),
    /// A connection to a Unix socket.
    Unix(PathBuf),
    /// The first one that comes to a Unix socket that is made here.
    UnixListen(PathBuf),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::TcpListen(address) => write!(f, "tcp-listen:{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::UnixListen(path) => write!(f, "unix-listen:{}", path.display()),
        }
    }
}

/// Why a stream, or the datagrams, cannot be had at all.
#[derive(Debug, thiserror::Error)]
pub enum EncapsulateError {
    /// The datagrams' address cannot be had.
    #[error("cannot receive datagrams at {0}: {1}")]
    Datagrams(SocketAddr, io::Error),
    /// A stream cannot be listened for.
    #[error("cannot listen at {0}: {1}")]
    Listen(End, io::Error),
}

/// Something to be told while it goes on.
#[derive(Debug)]
pub enum Told<'a> {
    /// A stream is connected.
    Up(&'a End),
    /// A stream has ended, or could not be connected.
    Down(&'a End, &'a str),
}

/// Packets by their fate.
#[derive(Debug, Default)]
pub struct Tally {
    /// Datagrams that left as packets.
    pub out: AtomicU64,
    /// Packets that came and left as datagrams.
    pub arrived: AtomicU64,
    /// Datagrams for which there was no stream, or no room in it.
    pub lost: AtomicU64,
    /// Datagrams from other hosts, or without a segment.
    pub ignored: AtomicU64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// A place where datagrams of one node and streams to one peer are joined.
pub struct Joint {
    socket: UdpSocket,
    node: SocketAddr,
    streams: Vec<Stream>,
    tally: Tally,
}

/// A stream, whether it is connected or not.
struct Stream {
    end: End,
    listener: Option<Listener>,
    connection: Mutex<Option<Connection>>,
    waiting: SyncSender<Bytes>,
    taken: Mutex<Receiver<Bytes>>,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

#[derive(Debug)]
enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Joint {
    /// Takes datagrams at an address from the host of `node`, to which datagrams leave. Segments for the receiver of a block take the first stream, and
    /// those for the sender of one the second, where there is one: some peers have an engine for each.
    ///
    /// # Errors
    /// When an address cannot be had.
    pub fn open(
        listen: SocketAddr,
        node: SocketAddr,
        ends: Vec<End>,
    ) -> Result<Self, EncapsulateError> {
        let failed = |error| EncapsulateError::Datagrams(listen, error);
        let socket = UdpSocket::bind(listen).map_err(failed)?;
        socket.set_read_timeout(Some(LOOK)).map_err(failed)?;
        let streams = ends.into_iter().map(Stream::new);
        Ok(Self {
            socket,
            node,
            streams: streams.collect::<Result<_, _>>()?,
            tally: Tally::default(),
        })
    }

    /// The address at which datagrams are taken.
    ///
    /// # Errors
    /// When the system does not know.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Packets so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Carries packets for as long as `goes_on` says, and tells of streams that begin and end.
    pub fn run(&self, goes_on: &(dyn Fn() -> bool + Sync), tell: &(dyn Fn(Told<'_>) + Sync)) {
        thread::scope(|scope| {
            for stream in &self.streams {
                scope.spawn(|| self.read(stream, goes_on, tell));
                scope.spawn(|| self.write(stream, goes_on));
            }
            self.take(goes_on);
        });
    }

    /// Takes datagrams.
    fn take(&self, goes_on: &(dyn Fn() -> bool + Sync)) {
        let mut buffer = [0; 65_535];
        while goes_on() {
            let Ok((octets, from)) = self.socket.recv_from(&mut buffer) else {
                continue;
            };
            let datagram = buffer.get(..octets).unwrap_or_default();
            let stream = match Addressee::of(datagram).filter(|_| from.ip() == self.node.ip()) {
                Some(Addressee::ReceiverFrom(_)) => self.streams.first(),
                Some(Addressee::Sender { .. }) => self.streams.last(),
                None => None,
            };
            let Some(stream) = stream else {
                add(&self.tally.ignored);
                continue;
            };
            let mut packet = BytesMut::with_capacity(octets + 8);
            write_header(&mut packet, LTP, u64::try_from(octets).unwrap_or(u64::MAX));
            packet.extend_from_slice(datagram);
            if stream.waiting.try_send(packet.freeze()).is_err() {
                add(&self.tally.lost);
            }
        }
    }

    /// Writes packets into a stream.
    fn write(&self, stream: &Stream, goes_on: &(dyn Fn() -> bool + Sync)) {
        let waiting = stream.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while goes_on() {
            let packet = match waiting.recv_timeout(LOOK) {
                Ok(packet) => packet,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let connection = stream.connection().as_ref().map(Connection::again);
            let Some(Ok(mut connection)) = connection else {
                add(&self.tally.lost);
                continue;
            };
            match write_all(&mut connection, &packet, goes_on) {
                Ok(()) => add(&self.tally.out),
                Err(_) => {
                    // The reader tells why, and connects again.
                    connection.end();
                    add(&self.tally.lost);
                }
            }
        }
    }

    /// Connects a stream, reads its packets, and does so again when it has ended.
    fn read(
        &self,
        stream: &Stream,
        goes_on: &(dyn Fn() -> bool + Sync),
        tell: &(dyn Fn(Told<'_>) + Sync),
    ) {
        let [shortest, longest] = RETRY;
        let mut retry = shortest;
        let mut said = String::new();
        while goes_on() {
            let connected = stream
                .connect(goes_on)
                .and_then(|connection| match connection {
                    None => Ok(None),
                    Some(connection) => {
                        connection.set_timeouts()?;
                        *stream.connection() = Some(connection.again()?);
                        Ok(Some(connection))
                    }
                });
            let why = match connected {
                Ok(None) => continue,
                Ok(Some(mut connection)) => {
                    tell(Told::Up(&stream.end));
                    said.clear();
                    let (arrived, why) = self.read_all(&mut connection, goes_on);
                    if let Some(connection) = stream.connection().take() {
                        connection.end();
                    }
                    if arrived > 0 {
                        retry = shortest;
                    }
                    why
                }
                Err(error) => {
                    // Where none can be accepted, as without descriptors, the next look is not at once.
                    wait(LOOK, goes_on);
                    error.to_string()
                }
            };
            // One reason again and again is told once.
            if goes_on() && said != why {
                tell(Told::Down(&stream.end, &why));
                said = why;
            }
            if stream.listener.is_none() {
                wait(retry, goes_on);
                retry = (retry * 2).min(longest);
            }
        }
    }

    /// Reads the packets of a connection to its end; their number and why it ended come back.
    fn read_all(
        &self,
        connection: &mut Connection,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> (u64, String) {
        let mut units = Units::new(LTP, DATAGRAM_OCTETS);
        let mut buffer = vec![0; CHUNK_OCTETS];
        let mut arrived = 0;
        while goes_on() {
            let octets = match connection.read(&mut buffer) {
                Ok(0) => return (arrived, "the peer ended it".to_owned()),
                Ok(octets) => octets,
                Err(error) if is_passing(&error) => continue,
                Err(error) => return (arrived, error.to_string()),
            };
            let mut chunk = Bytes::copy_from_slice(buffer.get(..octets).unwrap_or_default());
            loop {
                let unit: Result<Option<Bytes>, PacketFault> = units.next(&mut chunk);
                match unit {
                    Ok(None) => break,
                    Ok(Some(unit)) => {
                        arrived += 1;
                        match self.socket.send_to(&unit, self.node) {
                            Ok(_) => add(&self.tally.arrived),
                            Err(_) => add(&self.tally.lost),
                        }
                    }
                    Err(fault) => return (arrived, fault.to_string()),
                }
            }
        }
        (arrived, String::new())
    }
}

impl Stream {
    fn new(end: End) -> Result<Self, EncapsulateError> {
        let listener = match &end {
            End::Tcp(_) | End::Unix(_) => Ok(None),
            End::TcpListen(address) => TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(Some(Listener::Tcp(listener)))
            }),
            End::UnixListen(path) => listen_at(path).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(Some(Listener::Unix(listener, path.clone())))
            }),
        };
        let listener = listener.map_err(|error| EncapsulateError::Listen(end.clone(), error))?;
        let (waiting, taken) = sync_channel(WAITING_PACKETS);
        Ok(Self {
            end,
            listener,
            connection: Mutex::default(),
            waiting,
            taken: Mutex::new(taken),
        })
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection; nothing where none has come yet.
    fn connect(&self, goes_on: &(dyn Fn() -> bool + Sync)) -> io::Result<Option<Connection>> {
        let accepted = match (&self.listener, &self.end) {
            (Some(Listener::Tcp(listener)), _) => {
                listener.accept().map(|(stream, _)| Connection::Tcp(stream))
            }
            (Some(Listener::Unix(listener, _)), _) => listener
                .accept()
                .map(|(stream, _)| Connection::Unix(stream)),
            (None, End::Tcp(address) | End::TcpListen(address)) => {
                return TcpStream::connect_timeout(address, RETRY[1])
                    .map(|it| Some(Connection::Tcp(it)));
            }
            (None, End::Unix(path) | End::UnixListen(path)) => {
                return UnixStream::connect(path).map(|it| Some(Connection::Unix(it)));
            }
        };
        match accepted {
            Ok(connection) => Ok(Some(connection)),
            Err(error) if is_passing(&error) => {
                wait(LOOK, goes_on);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

impl Connection {
    fn again(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    fn set_timeouts(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE))?;
                stream.set_read_timeout(Some(LOOK))?;
                stream.set_write_timeout(Some(LOOK))
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(LOOK))?;
                stream.set_write_timeout(Some(LOOK))
            }
        }
    }

    fn end(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buffer),
            Self::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all of a packet, however long the peer takes.
fn write_all(
    connection: &mut Connection,
    mut packet: &[u8],
    goes_on: &(dyn Fn() -> bool + Sync),
) -> io::Result<()> {
    while !packet.is_empty() {
        match connection.write(packet) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(octets) => packet = packet.get(octets..).unwrap_or_default(),
            Err(error) if is_passing(&error) && goes_on() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A Unix socket, also where one that nobody listens at any more is in its place.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let is_left = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket())
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    if is_left {
        fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

/// Nothing to read and no room to write now, or a signal.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn wait(time: Duration, goes_on: &(dyn Fn() -> bool + Sync)) {
    let end = std::time::Instant::now() + time;
    while goes_on() {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(LOOK));
    }
}
