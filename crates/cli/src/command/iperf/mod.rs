//! `dhow iperf`: both ends of iperf 2, with the measurement points of its OML edition.

mod absent;
mod bytes;
mod points;
mod text;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use clap::Args;
use dhow_testbed::iperf::{Client, Connection, Load, Observer, Packet, Server, Transfer};
use dhow_testbed::traffic::{Bursts, DatagramReader, Pace, Pattern, Schedule};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};

use self::absent::Absent;
use self::bytes::{parse_bits, parse_bytes, parse_seconds};
use self::points::Points;
use self::text::{Style, Text};
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::measured::Measured;
use crate::output;
use crate::socket_address::{connect_from, local_for, resolve};

/// Connections of a client at a time.
const PARALLEL_MAX: i64 = 128;

/// Octets of a datagram, if nothing else is said: what fits into one packet of an Ethernet.
const DATAGRAM_OCTETS: usize = 1_470;

/// Octets of a block of a connection, if nothing else is said.
const BLOCK_OCTETS: usize = 128 << 10;

/// bit/s of datagrams, if nothing else is said.
const DATAGRAM_BITS_PER_S: u64 = 1 << 20;

const AFTER_HELP: &str = "\
K, M and G are powers of 1024, and k, m and g of 1000, as in iperf 2: -b 54M is 56623104 bit/s.

Example:
  dhow iperf -s -u
  dhow iperf -c 10.0.0.2 -u -b 54M -l 1470 -t 300";

/// Measure a path as iperf 2 does, also against its own ends
///
/// -y O prints nothing; measurements (--oml-collect) are made with it and without it.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Iperf {
    /// Send to a server
    #[arg(
        short,
        long,
        value_name = "HOST",
        required_unless_present = "server",
        conflicts_with = "server"
    )]
    client: Option<String>,
    /// Receive
    #[arg(short, long)]
    server: bool,
    /// Datagrams, not a connection
    #[arg(short, long)]
    udp: bool,
    /// Rate, bit/s [default: 1M of datagrams, no limit of a connection]
    #[arg(short, long, value_name = "BIT/S", value_parser = parse_bits)]
    bandwidth: Option<u64>,
    /// Octets of a datagram or block [default: 1470, 128K]
    #[arg(short, long, value_name = "OCTETS", value_parser = parse_bytes)]
    len: Option<u64>,
    /// Duration of sending, seconds; a server ends after this time too [default: 10]
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds)]
    time: Option<Duration>,
    /// Octets to send, instead of a duration
    #[arg(short, long, value_name = "OCTETS", value_parser = parse_bytes, conflicts_with = "time")]
    num: Option<u64>,
    /// Seconds between reports
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds)]
    interval: Option<Duration>,
    /// The server's port
    #[arg(short, long, value_name = "PORT", default_value_t = 5001)]
    port: u16,
    /// Size of the socket's buffer, octets
    #[arg(short, long, value_name = "OCTETS", value_parser = parse_bytes)]
    window: Option<u64>,
    /// Address of this end
    #[arg(short = 'B', long, value_name = "HOST")]
    bind: Option<String>,
    /// Number of parallel connections
    #[arg(short = 'P', long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=PARALLEL_MAX))]
    parallel: u32,
    /// Send small blocks at once (TCP_NODELAY)
    #[arg(short = 'N', long)]
    nodelay: bool,
    /// Hops that datagrams may take at most
    #[arg(short = 'T', long, value_name = "HOPS")]
    ttl: Option<u32>,
    /// Style of reports: O writes none, for measurements; C separates values by commas
    #[arg(short = 'y', long = "reportstyle", value_name = "STYLE")]
    style: Option<Style>,
    /// Print nothing but, at the end of each connection, what came of it as figures, a line of JSON each
    #[arg(long)]
    figures: bool,
    #[command(flatten)]
    measured: Measured,
    #[command(flatten)]
    absent: Absent,
}

/// Reports as measurements and, unless they are to be silent, on standard output.
struct Both {
    text: Option<Text>,
    figures: bool,
    points: Option<Points>,
    /// Standard output failed: it is not written to again, and why is told at the end.
    failure: Option<Failure>,
}

impl Both {
    fn print(&mut self, print: impl Fn(&mut Text) -> Result<(), Failure>) {
        let printed = self.text.as_mut().map(print);
        self.heed(printed.unwrap_or(Ok(())));
    }

    fn heed(&mut self, printed: Result<(), Failure>) {
        if let Err(failure) = printed {
            self.text = None;
            self.figures = false;
            self.failure = Some(failure);
        }
    }
}

impl Observer for Both {
    fn connection(&mut self, connection: &Connection) {
        self.print(|text| text.connection(connection));
        if let Some(points) = &self.points {
            points.connection(connection);
        }
    }

    fn packet(&mut self, packet: &Packet) {
        if let Some(points) = &self.points {
            points.packet(packet);
        }
    }

    fn transfer(&mut self, transfer: &Transfer) {
        self.print(|text| text.transfer(transfer));
        if self.figures && transfer.is_total {
            self.heed(output::figures(&transfer.account().figures()));
        }
        if let Some(points) = &self.points {
            points.transfer(transfer);
        }
    }

    fn server_report(&mut self, transfer: &Transfer) {
        self.print(|text| text.server_report(transfer));
        if let Some(points) = &self.points {
            points.transfer(transfer);
        }
    }
}

impl Iperf {
    /// Sends or receives.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        self.absent.check()?;
        let measuring = self.measured.begin("iperf", common)?;
        let points = measuring.as_ref().map(Points::new).transpose()?;
        if let Some(points) = &points {
            points.application(&std::env::args().collect::<Vec<_>>().join(" "));
        }
        let both = Mutex::new(Both {
            text: (self.style != Some(Style::Measurements) && !self.figures)
                .then(|| Text::new(self.style, self.udp)),
            figures: self.figures,
            points,
            failure: None,
        });
        let outcome = match &self.client {
            Some(host) => self.send(host, &both),
            None => self.receive(&both),
        };
        let both = both
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(measuring) = measuring {
            measuring.end();
        }
        outcome?;
        match both.failure {
            Some(failure) => Err(failure),
            None if interrupt::is_requested() => Ok(Ending::Interrupted),
            None => Ok(Ending::Done),
        }
    }

    fn send(&self, host: &str, both: &Mutex<Both>) -> Result<(), Failure> {
        let to = resolve(host, self.port)?;
        let from = local_for(self.bind.as_deref(), 0, to)?;
        self.tell(both, Side::Client, to);
        let connections = 1..=self.parallel;
        thread::scope(|scope| {
            let threads: Vec<_> = connections
                .map(|id| {
                    scope.spawn(move || match self.udp {
                        true => self.send_datagrams(id, from, to, both),
                        false => self.send_octets(id, from, to, both),
                    })
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| match thread.join() {
                    Ok(outcome) => outcome,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        })
    }

    fn send_datagrams(
        &self,
        id: u32,
        from: SocketAddr,
        to: SocketAddr,
        both: &Mutex<Both>,
    ) -> Result<(), Failure> {
        let octets = u32::try_from(self.len_octets()).unwrap_or(u32::MAX);
        let pattern = Pattern {
            octets,
            pace: Pace::BitsPerS(self.bandwidth.unwrap_or(DATAGRAM_BITS_PER_S)),
            bursts: Bursts::Always,
        };
        let schedule = Schedule::new(pattern, 1)
            .map_err(|error| Failure::usage(format!("cannot send such datagrams: {error}")))?;
        let open = || {
            let socket = UdpSocket::bind(from)?;
            self.set_up(&socket, self.ttl.map(|ttl| socket.set_ttl(ttl)))?;
            socket.connect(to)?;
            Ok(socket)
        };
        let sent = open().and_then(|socket| {
            self.client(id)
                .run_datagrams(&socket, schedule, both, interrupt::is_requested)
        });
        if !sent.map_err(|error| cannot("send to", to, &error))? {
            output::note(&format!("[{id:3}] the server did not say what arrived"));
        }
        Ok(())
    }

    fn send_octets(
        &self,
        id: u32,
        from: SocketAddr,
        to: SocketAddr,
        both: &Mutex<Both>,
    ) -> Result<(), Failure> {
        let open = || {
            let stream = connect_from(from, to)?;
            stream.set_nodelay(self.nodelay)?;
            self.set_up(&stream, self.ttl.map(|ttl| stream.set_ttl(ttl)))?;
            Ok(stream)
        };
        open()
            .and_then(|stream| {
                let octets = self.len_octets();
                self.client(id).run_stream(
                    stream,
                    octets,
                    self.bandwidth,
                    both,
                    interrupt::is_requested,
                )
            })
            .map_err(|error| cannot("send to", to, &error))
    }

    fn receive(&self, both: &Mutex<Both>) -> Result<(), Failure> {
        let at = resolve(self.bind.as_deref().unwrap_or("0.0.0.0"), self.port)?;
        let server = Server {
            first_id: 1,
            every: self.interval,
            duration: self.time,
        };
        let run = || {
            if self.udp {
                let socket = UdpSocket::bind(at)?;
                let mut reader = DatagramReader::new(socket)?;
                self.set_up(reader.socket(), None)?;
                self.tell(both, Side::Server, at);
                server.run_datagrams(&mut reader, &mut Shared(both), interrupt::is_requested)
            } else {
                let listener = TcpListener::bind(at)?;
                self.set_up(&listener, None)?;
                self.tell(both, Side::Server, at);
                server.run_streams(&listener, both, interrupt::is_requested)
            }
        };
        run().map_err(|error| cannot("receive at", at, &error))
    }

    /// Octets that sockets keep, and what else was set.
    fn set_up(
        &self,
        socket: &impl std::os::fd::AsFd,
        more: Option<io::Result<()>>,
    ) -> io::Result<()> {
        more.transpose()?;
        if let Some(octets) = self.window {
            let octets = usize::try_from(octets).unwrap_or(usize::MAX);
            set_socket_send_buffer_size(socket, octets)?;
            set_socket_recv_buffer_size(socket, octets)?;
        }
        Ok(())
    }

    fn client(&self, id: u32) -> Client {
        let time = self.time.unwrap_or(Duration::from_secs(10));
        Client {
            id,
            load: self.num.map_or(Load::Time(time), Load::Octets),
            every: self.interval,
        }
    }

    fn len_octets(&self) -> usize {
        let or = if self.udp {
            DATAGRAM_OCTETS
        } else {
            BLOCK_OCTETS
        };
        self.len
            .map_or(or, |octets| usize::try_from(octets).unwrap_or(usize::MAX))
    }

    fn tell(&self, both: &Mutex<Both>, side: Side, at: SocketAddr) {
        let mut both = both
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let octets = self.len_octets();
        both.print(|text| text.begin(side, at, octets));
        if let Some(points) = &both.points {
            let bound = self.bind.as_deref().unwrap_or_default();
            let window = self.window.unwrap_or_default();
            points.settings(side, bound, self.ttl.unwrap_or(1), self.udp, window, octets);
        }
    }
}

/// The end of a stream that this side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The sending end.
    Client,
    /// The receiving end.
    Server,
}

/// One observer for several threads, as one thread takes it.
struct Shared<'a>(&'a Mutex<Both>);

impl Shared<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Both> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Observer for Shared<'_> {
    fn connection(&mut self, connection: &Connection) {
        self.lock().connection(connection);
    }
    fn packet(&mut self, packet: &Packet) {
        self.lock().packet(packet);
    }
    fn transfer(&mut self, transfer: &Transfer) {
        self.lock().transfer(transfer);
    }
    fn server_report(&mut self, transfer: &Transfer) {
        self.lock().server_report(transfer);
    }
}

fn cannot(what: &str, address: SocketAddr, error: &io::Error) -> Failure {
    let failure = Failure::refused(format!("cannot {what} {address}: {error}"));
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            failure.with_hint("start a server there: dhow iperf -s")
        }
        io::ErrorKind::AddrInUse => {
            failure.with_hint("another program receives there; name another port with -p")
        }
        _ => failure,
    }
}
