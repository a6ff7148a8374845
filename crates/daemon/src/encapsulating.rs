//! LTP between datagrams and streams of encapsulation packets (CCSDS 133.1-B-3): a node, or `dhow ltp`, has datagrams, and its peer at the other end of a
//! stream packets. Start at [`Joint`].
//!
//! A datagram is one packet. One that a stream does not take, or that comes while there is none, is lost, as it might be over UDP: LTP sends it again.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use dhow_link::encapsulation::{LTP, PacketFault, Units, write_header};
use dhow_link::ltp::Addressee;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::streams::listener::{
    ListenError, SocketFile, connect_at_once, make_room_for_socket, set_path_check,
    set_stall_timeout,
};

/// Octets of the longest datagram (IPv4).
const DATAGRAM_OCTETS: u64 = 65_507;

/// Packets that wait for a stream, at most.
const WAITING_PACKETS: usize = 4_096;

/// Octets that are read of a stream at a time.
const CHUNK_OCTETS: usize = 256 << 10;

/// The longest wait before the next look at whether it goes on.
const LOOK: Duration = Duration::from_millis(100);

/// The silence after which a peer of TCP is asked whether it is still there, and another connection that waits takes the place of one.
const SILENCE: Duration = Duration::from_secs(15);

/// The time in which the peer of a connection over TCP acknowledges nothing, or takes nothing, before the connection is given up.
const STALL: Duration = Duration::from_secs(30);

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
    /// A Unix socket cannot be listened at.
    #[error(transparent)]
    Socket(#[from] ListenError),
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
    /// The silence after which a connection gives way to another that waits.
    silence: Duration,
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
    Unix {
        listener: UnixListener,
        /// The socket's file goes with the listener.
        _file: SocketFile,
    },
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
            silence: SILENCE,
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
                    let (arrived, why) = self.read_all(stream, &mut connection, goes_on);
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
        stream: &Stream,
        connection: &mut Connection,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> (u64, String) {
        let mut units = Units::new(LTP, DATAGRAM_OCTETS);
        let mut buffer = vec![0; CHUNK_OCTETS];
        let (mut arrived, mut heard) = (0, Instant::now());
        while goes_on() {
            let octets = match connection.read(&mut buffer) {
                Ok(0) => return (arrived, "the peer ended it".to_owned()),
                Ok(octets) => octets,
                Err(error) if is_passing(&error) => {
                    if heard.elapsed() >= self.silence && stream.is_another_waiting() {
                        let why = "nothing comes in it, and another connection takes its place";
                        return (arrived, why.to_owned());
                    }
                    continue;
                }
                Err(error) => return (arrived, error.to_string()),
            };
            heard = Instant::now();
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
        if let End::UnixListen(path) = &end {
            make_room_for_socket(path)?;
        }
        let listener = match &end {
            End::Tcp(_) | End::Unix(_) => Ok(None),
            End::TcpListen(address) => TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(Some(Listener::Tcp(listener)))
            }),
            End::UnixListen(path) => UnixListener::bind(path).and_then(|listener| {
                let file = SocketFile::of(path)?;
                listener.set_nonblocking(true)?;
                Ok(Some(Listener::Unix {
                    listener,
                    _file: file,
                }))
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

    /// Whether a connection waits to be accepted.
    fn is_another_waiting(&self) -> bool {
        let Some(listener) = &self.listener else {
            return false;
        };
        let mut polled = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        let at_once = Timespec::default();
        poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// A connection; nothing where none has come yet.
    fn connect(&self, goes_on: &(dyn Fn() -> bool + Sync)) -> io::Result<Option<Connection>> {
        let accepted = match (&self.listener, &self.end) {
            (Some(Listener::Tcp(listener)), _) => {
                listener.accept().map(|(stream, _)| Connection::Tcp(stream))
            }
            (Some(Listener::Unix { listener, .. }), _) => listener
                .accept()
                .map(|(stream, _)| Connection::Unix(stream)),
            (None, End::Tcp(address) | End::TcpListen(address)) => {
                return TcpStream::connect_timeout(address, RETRY[1])
                    .map(|it| Some(Connection::Tcp(it)));
            }
            (None, End::Unix(path) | End::UnixListen(path)) => {
                return connect_at_once(path)
                    .map(|it| Some(Connection::Unix(it)))
                    .map_err(|error| match error.kind() {
                        ErrorKind::WouldBlock => io::Error::other(
                            "the program that listens there does not accept connections",
                        ),
                        _ => error,
                    });
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

impl Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix { listener, .. } => listener.as_fd(),
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
                set_path_check(stream, SILENCE);
                set_stall_timeout(stream, STALL);
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

/// Nothing to read and no room to write now, or a signal.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn wait(time: Duration, goes_on: &(dyn Fn() -> bool + Sync)) {
    let end = Instant::now() + time;
    while goes_on() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;

    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    fn open(end: End) -> Result<Joint, EncapsulateError> {
        Joint::open(ANY, ANY, vec![end])
    }

    /// Ends a joint, also where a test fails.
    struct Ending<'a>(&'a AtomicBool);

    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }

    /// The news of a joint, while `meanwhile` runs, which waits until they are these.
    fn news(joint: &Joint, meanwhile: impl FnOnce(&dyn Fn(&[&str]))) -> Vec<String> {
        let (goes_on, told) = (AtomicBool::new(true), Mutex::new(Vec::new()));
        let tell = |news: Told<'_>| {
            told.lock().unwrap().push(match news {
                Told::Up(_) => "up".to_owned(),
                Told::Down(_, why) => why.to_owned(),
            });
        };
        let until = |expected: &[&str]| {
            let end = Instant::now() + Duration::from_secs(10);
            while *told.lock().unwrap() != expected {
                assert!(Instant::now() < end, "never {expected:?}: {told:?}");
                thread::sleep(Duration::from_millis(1));
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| joint.run(&|| goes_on.load(Ordering::Relaxed), &tell));
            let _end = Ending(&goes_on);
            meanwhile(&until);
        });
        told.into_inner().unwrap()
    }

    #[test]
    fn a_connection_in_which_nothing_comes_gives_way_to_another_that_waits() {
        let mut joint = open(End::TcpListen(ANY)).unwrap();
        joint.silence = Duration::ZERO;
        let Some(Listener::Tcp(listener)) = &joint.streams[0].listener else {
            unreachable!("it listens");
        };
        let to = listener.local_addr().unwrap();
        let why = "nothing comes in it, and another connection takes its place";
        let told = news(&joint, |until| {
            let mut first = TcpStream::connect(to).unwrap();
            first.set_read_timeout(Some(RETRY[1])).unwrap();
            until(&["up"]);
            let _second = TcpStream::connect(to).unwrap();
            assert_eq!(first.read(&mut [0]).unwrap(), 0);
            until(&["up", why, "up"]);
        });
        assert_eq!(told[..3], ["up", why, "up"]);
    }

    #[test]
    fn a_peer_of_tcp_that_acknowledges_nothing_is_given_up_in_time() {
        let listener = TcpListener::bind(ANY).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let connection = Connection::Tcp(stream.try_clone().unwrap());
        connection.set_timeouts().unwrap();
        let socket = socket2::SockRef::from(&stream);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(STALL));
        assert_eq!(socket.tcp_keepalive_time().unwrap(), SILENCE);
        assert!(socket.keepalive().unwrap() && socket.tcp_keepalive_interval().unwrap() < SILENCE);
    }

    #[test]
    fn a_socket_that_another_program_has_made_in_the_place_of_ones_own_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let first = open(End::UnixListen(path.clone())).unwrap();
        fs::remove_file(&path).unwrap();
        let second = open(End::UnixListen(path.clone())).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_is_told_apart_from_another_program() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let failed = || open(End::UnixListen(path.clone())).err().unwrap();
        fs::write(&path, "kept").unwrap();
        let error = failed();
        assert!(
            matches!(
                error,
                EncapsulateError::Socket(ListenError::InTheWay { .. })
            ),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        let error = failed();
        assert!(
            matches!(error, EncapsulateError::Socket(ListenError::InUse { .. })),
            "{error}"
        );
    }

    #[test]
    fn a_listener_with_a_full_backlog_keeps_nobody_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let (family, kind) = (
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
        );
        let listener = rustix::net::socket_with(family, kind, flags, None).unwrap();
        rustix::net::bind(&listener, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _waiting: Vec<_> = std::iter::from_fn(|| connect_at_once(&path).ok())
            .take(9)
            .collect();
        let error = open(End::UnixListen(path.clone())).err().unwrap();
        assert!(
            matches!(error, EncapsulateError::Socket(ListenError::InUse { .. })),
            "{error}"
        );
        let joint = open(End::Unix(path.clone())).unwrap();
        let why = "the program that listens there does not accept connections";
        assert_eq!(news(&joint, |until| until(&[why])), [why]);
    }
}
