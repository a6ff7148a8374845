//! The client: one connection of datagrams or octets.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::LOOK;
use super::datagram::{Account, HEADER_OCTETS, Header};
use super::interval::Intervals;
use super::observer::{Connection, Observer, Packet, Report, Transfer};
use crate::traffic::{
    Acknowledged, DatagramWriter, Meter, PACKET_HEADER_OCTETS, Sample, Schedule, Sender, now_ns,
};

/// Copies of the last datagram that are sent at most while the server does not answer.
const LAST_DATAGRAMS: u32 = 10;

/// Datagrams that a client sends: to receivers, a number with the highest of 32 bits is that of the last one.
const DATAGRAMS_MAX: u64 = 1 << 31;

/// The time to wait for an answer to each copy.
const ANSWER_WAIT: Duration = Duration::from_millis(250);

/// The time that a client waits for the next acknowledgment, when all octets are given.
const ACKNOWLEDGMENT_WAIT: Duration = Duration::from_secs(10);

/// The time that it sleeps meanwhile.
const ACKNOWLEDGMENT_LOOK: Duration = Duration::from_millis(1);

/// Octets of the longest answer.
const ANSWER_OCTETS_MAX: usize = 2_048;

/// When a client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// After so long.
    Time(Duration),
    /// After so many octets.
    Octets(u64),
}

/// One connection of a client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its number in this process.
    pub id: u32,
    /// The amount to send, by time or by octets.
    pub load: Load,
    /// The length of an interval; `None` for no intervals.
    pub every: Option<Duration>,
}

impl Client {
    /// Sends datagrams by a schedule from a connected socket, and asks the server what arrived: false when it did not answer.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn run_datagrams(
        &self,
        socket: &UdpSocket,
        schedule: Schedule,
        observer: &Mutex<impl Observer>,
        stop: impl Fn() -> bool,
    ) -> io::Result<bool> {
        let to = socket.peer_addr()?;
        self.tell_connection(observer, socket.local_addr()?, to);
        let octets = u64::from(schedule.pattern().octets);
        let (duration, count) = match self.load {
            Load::Time(time) => (Some(time), None),
            Load::Octets(all) => (None, Some(all.div_ceil(octets))),
        };
        let count = count.unwrap_or(u64::MAX).min(DATAGRAMS_MAX);
        let sender = Sender {
            schedule,
            flow: 0,
            to,
            header,
            duration,
            count: Some(count),
            planned: Vec::new(),
        };
        let counter = RefCell::new(Counter::new(self, observer));
        let look = || {
            counter.borrow_mut().look();
            stop()
        };
        let mut writer = DatagramWriter::new(socket.try_clone()?)?;
        let sent = sender.run(&mut writer, &mut &counter, None, look, |_| {});
        let counter = counter.into_inner();
        // Datagrams that left before the failure are reported like all others.
        let last = sent
            .as_ref()
            .map_or(counter.packets, |sent| sent.packets + sent.failed);
        counter.end(Some(Report {
            sent: last,
            ..Report::default()
        }));
        sent?;
        // Numbers begin at 0, so this is the next one.
        let answer = ask(socket, u32::try_from(last).unwrap_or(u32::MAX), octets)?;
        if let Some(account) = answer {
            lock(observer).server_report(&Transfer {
                id: self.id,
                is_total: true,
                begin: Duration::ZERO,
                end: account.elapsed,
                octets: account.octets,
                datagrams: Some(account.report),
            });
        }
        Ok(answer.is_some())
    }

    /// Sends octets over a connection, blocks of so many at a time; no faster than a rate in bit/s, where one is given. Octets count
    /// once they are acknowledged: in a time those until its end, of a number of octets all, which are waited for.
    ///
    /// # Errors
    /// When the connection fails, or the kernel does not say what is acknowledged.
    pub fn run_stream(
        &self,
        mut stream: TcpStream,
        block_octets: usize,
        bits_per_s: Option<u64>,
        observer: &Mutex<impl Observer>,
        stop: impl Fn() -> bool,
    ) -> io::Result<()> {
        self.tell_connection(observer, stream.local_addr()?, stream.peer_addr()?);
        stream.set_write_timeout(Some(LOOK))?;
        let block = vec![0; block_octets];
        let mut acknowledged = Acknowledged::of(&stream)?;
        let mut counter = Counter::new(self, observer);
        let outcome = loop {
            if stop() {
                break Ok(());
            }
            let now = counter.start.elapsed();
            let rest = match self.load {
                Load::Time(time) if now >= time => break Ok(()),
                Load::Octets(all) if acknowledged.given() >= all => break Ok(()),
                Load::Time(_) => u64::MAX,
                Load::Octets(all) => all - acknowledged.given(),
            };
            if let Some(wait) =
                bits_per_s.and_then(|rate| time_of(acknowledged.given(), rate).checked_sub(now))
            {
                std::thread::sleep(wait.min(LOOK));
                counter.look_at(&mut acknowledged);
                continue;
            }
            let length = block.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
            match stream.write(block.get(..length).unwrap_or_default()) {
                Ok(octets) => acknowledged.give(octets),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                // Octets that left before the failure are reported like all others.
                Err(error) => break Err(error),
            }
            counter.look_at(&mut acknowledged);
        };
        let outcome = outcome.and_then(|()| match self.load {
            Load::Time(_) => {
                acknowledged.count();
                stream.shutdown(std::net::Shutdown::Write)
            }
            // The end has the other side acknowledge the last octets at once.
            Load::Octets(_) => {
                stream.shutdown(std::net::Shutdown::Write)?;
                wait_for_all(&mut acknowledged, &mut counter, &stop);
                stream.take_error()?.map_or(Ok(()), Err)
            }
        });
        counter.count(&acknowledged);
        counter.end(None);
        outcome
    }

    fn tell_connection(
        &self,
        observer: &Mutex<impl Observer>,
        local: SocketAddr,
        foreign: SocketAddr,
    ) {
        lock(observer).connection(&Connection {
            id: self.id,
            local,
            foreign,
        });
    }
}

/// Waits until all octets are acknowledged, the connection is no more, or nothing is acknowledged any longer.
fn wait_for_all(
    acknowledged: &mut Acknowledged,
    counter: &mut Counter<'_, impl Observer>,
    stop: impl Fn() -> bool,
) {
    let mut since = Instant::now();
    let mut before = acknowledged.known();
    while !stop()
        && since.elapsed() < ACKNOWLEDGMENT_WAIT
        && let Some(known) = acknowledged.count()
        && known < acknowledged.given()
    {
        if known > before {
            (since, before) = (Instant::now(), known);
        }
        counter.look_at(acknowledged);
        std::thread::sleep(ACKNOWLEDGMENT_LOOK);
    }
}

/// iperf counts from 0, where its headers have no more than these octets.
const fn number_of(sample: u32) -> u32 {
    sample.wrapping_sub(1)
}

/// A packet's first octets as iperf has them.
fn header(_: u64, number: u32, at_ns: u64) -> [u8; PACKET_HEADER_OCTETS] {
    let mut octets = [0; PACKET_HEADER_OCTETS];
    let header: [u8; HEADER_OCTETS] = Header::new(number_of(number), at_ns, false).encode();
    for (place, octet) in octets.iter_mut().zip(header) {
        *place = octet;
    }
    octets
}

/// Tells the server that it was the last datagram, until it answers.
fn ask(socket: &UdpSocket, last: u32, octets: u64) -> io::Result<Option<Account>> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(ANSWER_WAIT))?;
    let mut answer = [0; ANSWER_OCTETS_MAX];
    for _ in 0..LAST_DATAGRAMS {
        let mut datagram = Header::new(last, now_ns(), true).encode().to_vec();
        // As long as the others: servers of iperf 2 count it in the place of the first.
        datagram.resize(usize::try_from(octets).unwrap_or(HEADER_OCTETS), 0);
        // A server that is not there is one that does not answer.
        let _ = socket.send(&datagram);
        if let Ok(octets) = socket.recv(&mut answer) {
            return Ok(answer.get(..octets).and_then(Account::decode));
        }
    }
    Ok(None)
}

/// The time that so many octets take at a rate.
fn time_of(octets: u64, bits_per_s: u64) -> Duration {
    let nanos = u128::from(octets) * 8 * 1_000_000_000 / u128::from(bits_per_s.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts what a client sends, and tells of intervals.
struct Counter<'a, O> {
    id: u32,
    observer: &'a Mutex<O>,
    intervals: Intervals,
    packets: u64,
    /// Octets of a connection that were counted.
    counted: u64,
    start: Instant,
}

impl<'a, O: Observer> Counter<'a, O> {
    fn new(client: &Client, observer: &'a Mutex<O>) -> Self {
        Self {
            id: client.id,
            observer,
            intervals: Intervals::new(client.id, client.every),
            packets: 0,
            counted: 0,
            start: Instant::now(),
        }
    }

    fn look(&mut self) {
        while let Some(transfer) = self.intervals.poll(self.start.elapsed()) {
            lock(self.observer).transfer(&transfer);
        }
    }

    /// Tells of intervals of a connection, by what is acknowledged when they end.
    fn look_at(&mut self, acknowledged: &mut Acknowledged) {
        if self.intervals.is_due(self.start.elapsed()) {
            acknowledged.count();
            self.count(acknowledged);
            self.look();
        }
    }

    /// Counts the octets that are acknowledged.
    fn count(&mut self, acknowledged: &Acknowledged) {
        self.intervals.add(acknowledged.known() - self.counted);
        self.counted = acknowledged.known();
    }

    fn end(mut self, report: Option<Report>) {
        self.look();
        let mut total = self.intervals.total(self.start.elapsed());
        total.datagrams = report;
        lock(self.observer).transfer(&total);
    }
}

impl<O: Observer> Meter for &RefCell<Counter<'_, O>> {
    fn packet(&mut self, sample: &Sample) {
        let mut counter = self.borrow_mut();
        counter.look();
        counter.packets += 1;
        counter.intervals.add(sample.octets.into());
        lock(counter.observer).packet(&Packet {
            id: counter.id,
            number: number_of(sample.number),
            octets: sample.octets,
            at_ns: sample.at_ns,
            sent_ns: sample.at_ns,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[derive(Default)]
    struct Totals {
        totals: Vec<Transfer>,
        /// Octets of intervals.
        octets: u64,
    }

    impl Observer for Totals {
        fn connection(&mut self, _: &Connection) {}
        fn packet(&mut self, _: &Packet) {}
        fn transfer(&mut self, transfer: &Transfer) {
            if transfer.is_total {
                self.totals.push(*transfer);
            } else {
                self.octets += transfer.octets;
            }
        }
        fn server_report(&mut self, _: &Transfer) {}
    }

    #[test]
    fn a_connection_that_fails_has_told_what_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let client = Client {
            id: 1,
            load: Load::Time(Duration::from_secs(10)),
            every: Some(Duration::from_millis(10)),
        };
        let told = Mutex::new(Totals::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut receiving, _) = listener.accept().unwrap();
                while lock(&told).octets < 10_000 {
                    std::io::Read::read_exact(&mut receiving, &mut [0; 1_000]).unwrap();
                }
                // Octets that are unread at its end reset the connection.
            });
            let outcome = client.run_stream(stream, 1_000, None, &told, || false);
            assert!(outcome.is_err());
        });
        let totals = told.into_inner().unwrap().totals;
        assert_eq!(totals.len(), 1);
        assert!(totals[0].octets >= 10_000);
    }
}
