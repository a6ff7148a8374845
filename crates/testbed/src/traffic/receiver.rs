//! The receiver of packets: datagrams on one socket, or packets of any number of connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use super::datagram::DatagramReader;
use super::header::Header;
use super::sample::{Meter, Sample, now_ns};
use super::stream::StreamReader;
use super::tally::Tally;

/// The longest time that a receiver waits between two looks at whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// The interval between looks for another connection.
const ACCEPT: Duration = Duration::from_millis(10);

/// Connections that are read at a time, each by a thread.
const CONNECTIONS_MAX: usize = 64;

/// Packets of all connections that wait to be counted: beyond that connections wait.
const WAITING_PACKETS: usize = 8_192;

/// When to end, beside being told to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receiver {
    /// After so long.
    pub duration: Option<Duration>,
    /// After so many packets.
    pub count: Option<u64>,
}

/// The packets that arrived.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Flow by flow.
    pub tally: Tally,
    /// Connections that failed, or carried something else.
    pub broken: u64,
    /// The time that it took.
    pub elapsed: Duration,
}

impl Received {
    /// A packet came.
    fn count(&mut self, payload: &[u8], at_ns: u64, from: SocketAddr, meter: &mut impl Meter) {
        let octets = payload.len();
        let Some(header) = Header::decode(payload) else {
            self.tally.strangers += 1;
            return;
        };
        self.count_header(&header, octets, at_ns, from, meter);
    }

    fn count_header(
        &mut self,
        header: &Header,
        octets: usize,
        at_ns: u64,
        from: SocketAddr,
        meter: &mut impl Meter,
    ) {
        let octets = u32::try_from(octets).unwrap_or(u32::MAX);
        match self.tally.flow(header.flow, from) {
            Some(flow) => {
                let number = flow.whole_number(header.number);
                flow.count(number, octets.into(), at_ns, header.sent_ns);
            }
            None => self.tally.strangers += 1,
        }
        meter.packet(&Sample {
            at_ns,
            flow: header.flow,
            number: header.number,
            octets,
            peer: from,
        });
    }
}

impl Receiver {
    /// Receives datagrams until the duration or the count is reached, or `stop` says so.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn run_datagrams(
        &self,
        reader: &mut DatagramReader,
        meter: &mut impl Meter,
        stop: impl Fn() -> bool,
    ) -> io::Result<Received> {
        let start = Instant::now();
        let mut received = Received::default();
        while !stop() && !self.is_over(start, &received) {
            reader.receive(|arrival| {
                received.count(arrival.payload, arrival.at_ns, arrival.from, meter);
            })?;
        }
        received.elapsed = start.elapsed();
        Ok(received)
    }

    /// Receives packets of connections until the duration or the count is reached, or `stop` says so.
    ///
    /// # Errors
    /// When nothing can be accepted any more.
    pub fn run_streams(
        &self,
        listener: &TcpListener,
        meter: &mut impl Meter,
        stop: impl Fn() -> bool,
    ) -> io::Result<Received> {
        listener.set_nonblocking(true)?;
        let start = Instant::now();
        let mut received = Received::default();
        let (packets, source) = mpsc::sync_channel(WAITING_PACKETS);
        let mut readers: Vec<thread::JoinHandle<()>> = Vec::new();
        while !stop() && !self.is_over(start, &received) {
            readers.retain(|reader| !reader.is_finished());
            if readers.len() < CONNECTIONS_MAX
                && let Some(reader) = accept(listener)?
            {
                let packets = packets.clone();
                readers.push(thread::spawn(move || read(reader, &packets)));
            }
            let wait = if readers.is_empty() {
                LOOK.min(ACCEPT)
            } else {
                ACCEPT
            };
            let first = match source.recv_timeout(wait) {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => continue,
            };
            for packet in std::iter::once(first).chain(source.try_iter().take(WAITING_PACKETS)) {
                packet.count(&mut received, meter);
            }
        }
        received.elapsed = start.elapsed();
        Ok(received)
    }

    fn is_over(&self, start: Instant, received: &Received) -> bool {
        self.duration.is_some_and(|end| start.elapsed() >= end)
            || self
                .count
                .is_some_and(|count| received.tally.packets() >= count)
    }
}

/// The items that a thread reads of its connection.
enum Read {
    Packet {
        header: Header,
        octets: usize,
        at_ns: u64,
        from: SocketAddr,
    },
    Stranger,
    Broken,
}

impl Read {
    fn count(self, received: &mut Received, meter: &mut impl Meter) {
        match self {
            Self::Packet {
                header,
                octets,
                at_ns,
                from,
            } => received.count_header(&header, octets, at_ns, from, meter),
            Self::Stranger => received.tally.strangers += 1,
            Self::Broken => received.broken += 1,
        }
    }
}

fn accept(listener: &TcpListener) -> io::Result<Option<StreamReader>> {
    match listener.accept() {
        Ok((stream, from)) => {
            stream.set_nonblocking(false)?;
            Ok(Some(StreamReader::new(stream, from)))
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock
                    | io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionAborted
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads a connection to its end. When nobody counts any more, the thread ends with the process.
fn read(mut reader: StreamReader, packets: &SyncSender<Read>) {
    loop {
        let from = reader.from();
        let read = match reader.receive() {
            Ok(Some(payload)) => {
                let at_ns = now_ns();
                Header::decode(payload).map_or(Read::Stranger, |header| Read::Packet {
                    header,
                    octets: payload.len(),
                    at_ns,
                    from,
                })
            }
            Ok(None) => return,
            Err(_) => Read::Broken,
        };
        let is_over = matches!(read, Read::Broken);
        if packets.send(read).is_err() || is_over {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpStream, UdpSocket};

    use super::*;
    use crate::traffic::{Bursts, Carrier, DatagramWriter, Null, Pace, Pattern, Schedule, Sender};
    use crate::traffic::{Sent, StreamWriter};

    const COUNT: u64 = 5_000;

    #[derive(Default)]
    struct Samples(Vec<Sample>);

    impl Meter for Samples {
        fn packet(&mut self, sample: &Sample) {
            self.0.push(*sample);
        }
    }

    fn send(mut carrier: impl Carrier, to: SocketAddr) -> Sent {
        let pattern = Pattern {
            octets: 1_000,
            pace: Pace::BitsPerS(400_000_000),
            bursts: Bursts::Always,
        };
        let sender = Sender {
            schedule: Schedule::new(pattern, 1).unwrap(),
            flow: 42,
            to,
            header: Header::of_packet,
            duration: None,
            count: Some(COUNT),
            planned: Vec::new(),
        };
        let wrong = |error: &crate::traffic::CommandError| panic!("{error}");
        sender
            .run(&mut carrier, &mut (), None, || false, wrong)
            .unwrap()
    }

    fn check(received: &Received, samples: &Samples) {
        let (name, _, flow) = received.tally.flows().next().unwrap();
        assert_eq!(
            (name, flow.packets, flow.octets),
            (42, COUNT, COUNT * 1_000)
        );
        assert_eq!(
            (flow.lost, flow.out_of_order, received.tally.strangers),
            (0, 0, 0)
        );
        assert!(flow.delay.is_some_and(|delay| delay.least_ns >= 0));
        let numbers: Vec<u32> = samples.0.iter().map(|sample| sample.number).collect();
        assert_eq!(numbers, (1..=5_000).collect::<Vec<_>>());
    }

    #[test]
    fn what_leaves_as_datagrams_is_counted_packet_by_packet() {
        let receiving = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiving.local_addr().unwrap();
        let sending = UdpSocket::bind("127.0.0.1:0").unwrap();
        sending.connect(to).unwrap();
        let mut reader = DatagramReader::new(receiving).unwrap();
        let sender = thread::spawn(move || send(DatagramWriter::new(sending).unwrap(), to));
        let mut samples = Samples::default();
        let receiver = Receiver {
            count: Some(COUNT),
            duration: Some(Duration::from_secs(20)),
        };
        let received = receiver
            .run_datagrams(&mut reader, &mut samples, || false)
            .unwrap();
        assert_eq!(sender.join().unwrap().packets, COUNT);
        check(&received, &samples);
    }

    #[test]
    fn what_leaves_over_a_connection_is_counted_packet_by_packet() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let sender = thread::spawn(move || {
            send(
                StreamWriter::new(TcpStream::connect(to).unwrap()).unwrap(),
                to,
            )
        });
        let mut samples = Samples::default();
        let receiver = Receiver {
            count: Some(COUNT),
            duration: Some(Duration::from_secs(20)),
        };
        let received = receiver
            .run_streams(&listener, &mut samples, || false)
            .unwrap();
        assert_eq!(sender.join().unwrap().packets, COUNT);
        check(&received, &samples);
    }

    #[test]
    fn datagrams_of_others_are_strangers() {
        let receiving = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiving.local_addr().unwrap();
        let sending = UdpSocket::bind("127.0.0.1:0").unwrap();
        sending.send_to(b"who are you?", to).unwrap();
        let mut reader = DatagramReader::new(receiving).unwrap();
        let receiver = Receiver {
            count: None,
            duration: Some(Duration::from_millis(150)),
        };
        let received = receiver
            .run_datagrams(&mut reader, &mut (), || false)
            .unwrap();
        assert_eq!((received.tally.strangers, received.tally.packets()), (1, 0));
    }

    #[test]
    fn a_sender_to_nowhere_is_as_fast_as_its_schedule() {
        let to = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(send(Null, to).packets, COUNT);
    }
}
