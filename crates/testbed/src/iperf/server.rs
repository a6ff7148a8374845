//! The server: any number of clients, one after the other or at a time.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::LOOK;
use super::datagram::{Account, Header};
use super::interval::Intervals;
use super::observer::{Connection, Observer, Packet, Report};
use crate::traffic::{Arrival, DatagramReader, Flow};

/// Clients of datagrams that are known at a time; further ones are not heard.
const CLIENTS_MAX: usize = 1_024;

/// Connections that are read at a time, each by a thread; further ones wait.
const CONNECTIONS_MAX: usize = 64;

/// Octets that are read of a connection at once.
const READ_OCTETS: usize = 128 << 10;

/// The time for which the account of a client that ended is kept, in case the answer was lost.
const KEPT: Duration = Duration::from_secs(10);

/// iperf counts from 0 or from 1, as its version has it.
const FIRST_NUMBER_MAX: u32 = 1;

/// A client that says nothing for so long has ended.
const SILENCE: Duration = Duration::from_secs(60);

/// A server.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// The first connection's number.
    pub first_id: u32,
    /// The length of an interval; `None` for no intervals.
    pub every: Option<Duration>,
    /// The time after which the server ends.
    pub duration: Option<Duration>,
}

/// A client that sends datagrams.
struct Session {
    id: u32,
    flow: Flow,
    intervals: Intervals,
    start: Instant,
    heard: Instant,
    /// The answer that it got when it ended.
    ended: Option<Account>,
}

impl Session {
    fn report(&self) -> Report {
        Report {
            sent: self.flow.sent(),
            lost: self.flow.lost,
            out_of_order: self.flow.out_of_order,
            duplicates: Some(self.flow.duplicates),
            jitter_ns: Some(self.flow.jitter_ns),
            delay: self.flow.delay,
        }
    }

    fn end(&mut self, observer: &mut impl Observer) -> Account {
        let account = Account {
            octets: self.flow.octets,
            elapsed: self.flow.elapsed(),
            report: self.report(),
        };
        self.intervals.set_report(account.report);
        observer.transfer(&self.intervals.total(account.elapsed));
        self.ended = Some(account);
        account
    }
}

/// All clients that send datagrams.
struct Sessions<'a, O> {
    observer: &'a mut O,
    every: Option<Duration>,
    next_id: u32,
    local: SocketAddr,
    by_client: BTreeMap<SocketAddr, Session>,
}

impl<O: Observer> Sessions<'_, O> {
    /// A datagram came; the answer comes back.
    fn take(&mut self, arrival: &Arrival<'_>) -> Option<Vec<u8>> {
        let header = Header::decode(arrival.payload)?;
        let is_over = |session: &Session| session.ended.is_some() && !header.is_last;
        if self.by_client.get(&arrival.from).is_some_and(is_over) {
            // A late datagram belongs to an account that has been given; only a first number begins another session of
            // the same address and port.
            if header.number > FIRST_NUMBER_MAX {
                return None;
            }
            self.by_client.remove(&arrival.from);
        }
        if !self.by_client.contains_key(&arrival.from) {
            if header.is_last || self.by_client.len() >= CLIENTS_MAX {
                return None;
            }
            self.open(arrival.from, header.number);
        }
        let session = self.by_client.get_mut(&arrival.from)?;
        session.heard = Instant::now();
        if header.is_last {
            let account = match session.ended {
                Some(account) => account,
                None => {
                    // The last datagram has the number that the next one would have had.
                    session.flow.end(header.number.into());
                    session.end(self.observer)
                }
            };
            return Some(account.answer(arrival.payload));
        }
        let octets = u32::try_from(arrival.payload.len()).unwrap_or(u32::MAX);
        let octets_before = session.flow.octets;
        session.flow.count(
            header.number.into(),
            octets.into(),
            arrival.at_ns,
            Some(header.sent_ns),
        );
        let octets_more = session.flow.octets - octets_before;
        session.intervals.add(octets_more);
        self.observer.packet(&Packet {
            id: session.id,
            number: header.number,
            octets,
            at_ns: arrival.at_ns,
            sent_ns: header.sent_ns,
        });
        None
    }

    fn open(&mut self, from: SocketAddr, number: u32) {
        let id = self.next_id;
        self.next_id += 1;
        let now = Instant::now();
        self.by_client.insert(
            from,
            Session {
                id,
                flow: Flow::from_number(number.min(FIRST_NUMBER_MAX).into()),
                intervals: Intervals::new(id, self.every),
                start: now,
                heard: now,
                ended: None,
            },
        );
        self.observer.connection(&Connection {
            id,
            local: self.local,
            foreign: from,
        });
    }

    /// Tells of intervals, and lets go of clients that have ended.
    fn look(&mut self) {
        for session in self
            .by_client
            .values_mut()
            .filter(|session| session.ended.is_none())
        {
            session.intervals.set_report(session.report());
            while let Some(transfer) = session.intervals.poll(session.start.elapsed()) {
                self.observer.transfer(&transfer);
            }
            if session.heard.elapsed() >= SILENCE {
                session.end(self.observer);
            }
        }
        self.by_client
            .retain(|_, session| session.ended.is_none() || session.heard.elapsed() < KEPT);
    }

    fn end(&mut self) {
        for session in self
            .by_client
            .values_mut()
            .filter(|session| session.ended.is_none())
        {
            session.end(self.observer);
        }
    }
}

impl Server {
    /// Receives datagrams until `stop` says so.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn run_datagrams(
        &self,
        reader: &mut DatagramReader,
        observer: &mut impl Observer,
        stop: impl Fn() -> bool,
    ) -> io::Result<()> {
        let start = Instant::now();
        let mut sessions = Sessions {
            observer,
            every: self.every,
            next_id: self.first_id,
            local: reader.socket().local_addr()?,
            by_client: BTreeMap::new(),
        };
        let mut answers = Vec::new();
        while !stop() && !self.is_over(start) {
            reader.receive(|arrival| {
                let answer = sessions.take(&arrival);
                answers.extend(answer.map(|answer| (arrival.from, answer)));
            })?;
            for (to, answer) in answers.drain(..) {
                // If the answer is lost, the client asks again.
                let _ = reader.socket().send_to(&answer, to);
            }
            sessions.look();
        }
        sessions.end();
        Ok(())
    }

    /// Receives connections until `stop` says so.
    ///
    /// # Errors
    /// When nothing can be accepted any more.
    pub fn run_streams(
        &self,
        listener: &TcpListener,
        observer: &Mutex<impl Observer>,
        stop: impl Fn() -> bool + Sync,
    ) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let start = Instant::now();
        let mut next_id = self.first_id;
        let is_over = || stop() || self.is_over(start);
        std::thread::scope(|scope| {
            let mut readers = Vec::new();
            while !is_over() {
                readers
                    .retain(|reader: &std::thread::ScopedJoinHandle<'_, ()>| !reader.is_finished());
                let accepted = (readers.len() < CONNECTIONS_MAX).then(|| listener.accept());
                match accepted {
                    Some(Ok((stream, from))) => {
                        let (id, every, is_over) = (next_id, self.every, &is_over);
                        next_id += 1;
                        readers.push(scope.spawn(move || {
                            // A connection that breaks has ended; its result has been told.
                            let _ = read(stream, from, id, every, observer, is_over);
                        }));
                    }
                    Some(Err(error)) if is_fatal(&error) => return Err(error),
                    Some(Err(_)) | None => std::thread::sleep(LOOK / 10),
                }
            }
            Ok(())
        })
    }

    fn is_over(&self, start: Instant) -> bool {
        self.duration
            .is_some_and(|duration| start.elapsed() >= duration)
    }
}

fn is_fatal(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
    )
}

/// Reads a connection to its end.
fn read(
    mut stream: TcpStream,
    from: SocketAddr,
    id: u32,
    every: Option<Duration>,
    observer: &Mutex<impl Observer>,
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    let tell = || observer.lock().unwrap_or_else(PoisonError::into_inner);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
    tell().connection(&Connection {
        id,
        local: stream.local_addr()?,
        foreign: from,
    });
    let start = Instant::now();
    let mut intervals = Intervals::new(id, every);
    let mut buffer = vec![0; READ_OCTETS];
    let outcome = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(octets) => intervals.add(u64::try_from(octets).unwrap_or(u64::MAX)),
            Err(error) if is_fatal(&error) => break Err(error),
            Err(_) => {}
        }
        while let Some(transfer) = intervals.poll(start.elapsed()) {
            tell().transfer(&transfer);
        }
        if is_over() {
            break Ok(());
        }
    };
    tell().transfer(&intervals.total(start.elapsed()));
    outcome
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::iperf::{Client, Load, Transfer};
    use crate::traffic::{Bursts, Pace, Pattern, Schedule};

    #[derive(Default)]
    struct Heard {
        connections: Vec<Connection>,
        packets: Vec<Packet>,
        transfers: Vec<Transfer>,
        reports: Vec<Transfer>,
    }

    impl Observer for Heard {
        fn connection(&mut self, connection: &Connection) {
            self.connections.push(*connection);
        }
        fn packet(&mut self, packet: &Packet) {
            self.packets.push(*packet);
        }
        fn transfer(&mut self, transfer: &Transfer) {
            self.transfers.push(*transfer);
        }
        fn server_report(&mut self, transfer: &Transfer) {
            self.reports.push(*transfer);
        }
    }

    const SERVER: Server = Server {
        first_id: 1,
        every: Some(Duration::from_millis(100)),
        duration: None,
    };

    #[test]
    fn a_server_tells_its_client_what_arrived() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        let mut reader = DatagramReader::new(socket).unwrap();
        let is_over = AtomicBool::new(false);
        let (mut told, client_told) = (Heard::default(), Mutex::new(Heard::default()));
        thread::scope(|scope| {
            scope.spawn(|| {
                let sending = UdpSocket::bind("127.0.0.1:0").unwrap();
                sending.connect(at).unwrap();
                let pattern = Pattern {
                    octets: 1_000,
                    pace: Pace::BitsPerS(8_000_000),
                    bursts: Bursts::Always,
                };
                let client = Client {
                    id: 1,
                    load: Load::Octets(300_000),
                    every: Some(Duration::from_millis(100)),
                };
                let schedule = Schedule::new(pattern, 1).unwrap();
                let answered = client.run_datagrams(&sending, schedule, &client_told, || false);
                assert!(answered.unwrap());
                is_over.store(true, Ordering::Relaxed);
            });
            let stop = || is_over.load(Ordering::Relaxed);
            SERVER.run_datagrams(&mut reader, &mut told, stop).unwrap();
        });
        let client_told = client_told.into_inner().unwrap();
        for told in [&told, &client_told] {
            assert_eq!((told.connections.len(), told.packets.len()), (1, 300));
            let (total, intervals) = told.transfers.split_last().unwrap();
            assert_eq!((total.is_total, total.octets), (true, 300_000));
            assert!(intervals.len() >= 2, "300 ms have intervals of 100 ms");
            assert!(intervals.iter().map(|each| each.octets).sum::<u64>() <= 300_000);
        }
        let report = client_told.reports[0].datagrams.unwrap();
        assert_eq!((report.sent, report.lost, report.out_of_order), (300, 0, 0));
        assert_eq!(client_told.reports[0].octets, 300_000);
        assert!(
            told.packets
                .iter()
                .all(|packet| packet.at_ns >= packet.sent_ns / 1_000 * 1_000)
        );
    }

    #[test]
    fn what_comes_after_the_last_datagram_changes_no_account_and_a_new_beginning_does() {
        let at = SocketAddr::from(([127, 0, 0, 1], 5_001));
        let mut told = Heard::default();
        let mut sessions = Sessions {
            observer: &mut told,
            every: None,
            next_id: 1,
            local: at,
            by_client: BTreeMap::new(),
        };
        let mut take = |number, is_last| {
            let mut payload = Header::new(number, 0, is_last).encode().to_vec();
            payload.resize(100, 0);
            let answer = sessions.take(&Arrival {
                payload: &payload,
                from: at,
                at_ns: 1,
            });
            answer.map(|answer| Account::decode(&answer).unwrap())
        };
        for number in 0..3 {
            assert_eq!(take(number, false), None);
        }
        // Datagram 3 was lost just before the last one, and another came again.
        take(1, false);
        let account = take(4, true).unwrap();
        let report = account.report;
        assert_eq!((account.octets, report.sent, report.lost), (300, 4, 1));
        take(3, false);
        assert_eq!(take(4, true), Some(account));
        take(0, false);
        assert_eq!(take(1, true).map(|account| account.octets), Some(100));
        assert_eq!(told.connections.len(), 2);
        let again = told.transfers[0].datagrams.unwrap().duplicates;
        assert_eq!((again, told.packets.len()), (Some(1), 5));
    }

    #[test]
    fn octets_of_connections_are_counted_at_both_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let is_over = AtomicBool::new(false);
        let (told, client_told) = (Mutex::new(Heard::default()), Mutex::new(Heard::default()));
        thread::scope(|scope| {
            scope.spawn(|| {
                let client = Client {
                    id: 1,
                    load: Load::Octets(1_000_001),
                    every: None,
                };
                let stream = TcpStream::connect(at).unwrap();
                client
                    .run_stream(stream, 8_192, Some(80_000_000), &client_told, || false)
                    .unwrap();
                let end = Instant::now() + Duration::from_secs(10);
                while told
                    .lock()
                    .unwrap()
                    .transfers
                    .last()
                    .is_none_or(|last| !last.is_total)
                {
                    assert!(Instant::now() < end, "the server tells nothing");
                    thread::yield_now();
                }
                is_over.store(true, Ordering::Relaxed);
            });
            let stop = || is_over.load(Ordering::Relaxed);
            Server {
                every: None,
                ..SERVER
            }
            .run_streams(&listener, &told, stop)
            .unwrap();
        });
        for told in [
            told.into_inner().unwrap(),
            client_told.into_inner().unwrap(),
        ] {
            let octets: Vec<u64> = told.transfers.iter().map(|each| each.octets).collect();
            assert_eq!(octets, [1_000_001]);
            // 1 MB at 10 MB/s; the server begins to count when it looks for connections.
            assert!(told.transfers[0].end >= Duration::from_millis(60));
        }
    }
}
