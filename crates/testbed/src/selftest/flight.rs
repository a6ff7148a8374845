//! Packets that say when they left, over a link; and when they arrived.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::failure::LabError;
use crate::namespace;
use crate::place::Layout;

/// The port to which packets go.
const PORT: u16 = 9_000;

/// Octets of IPv4 and UDP headers of a packet.
const HEADERS: u64 = 28;

/// Octets of packets that may wait for the receiver.
const RECEIVED_OCTETS: usize = 16 << 20;

/// The time for which packets may arrive after the last one left.
const QUIET: Duration = Duration::from_millis(300);

/// Octets of a packet at least: its number and when it left.
const NAME_OCTETS: usize = 16;

/// The packets to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Packets.
    pub count: u32,
    /// Octets of each, without headers, at least 16.
    pub octets: usize,
    /// Packets a second.
    pub per_second: u32,
}

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub number: u64,
    pub sent: Duration,
    pub arrived: Duration,
}

/// The result of a load.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub load: Load,
    /// The arrivals in the order in which they came.
    pub arrivals: Vec<Arrival>,
}

impl Load {
    /// Octets of a packet on the link.
    pub(super) fn packet_octets(&self) -> u64 {
        u64::try_from(self.octets).unwrap_or(0) + HEADERS
    }
}

impl Flight {
    /// Sends a load over the only link of a lab, from its first host to its second, and waits for what is on its way so long; nothing where
    /// `goes_on` says no before.
    pub(super) fn over(
        layout: &Layout,
        load: Load,
        delay: Duration,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Self>, LabError> {
        let failed = |error: io::Error| LabError::io("cannot send packets", &error);
        let ([first, second], Some(link)) = (
            [0, 1].map(|host| {
                layout
                    .hosts
                    .get(host)
                    .map_or("", |it| it.namespace.as_str())
            }),
            layout.links.first(),
        ) else {
            return Err(LabError::new("the lab has no link"));
        };
        let [from, to] = link.ends.each_ref().map(|end| end.address);
        let sender = namespace::within(first, || UdpSocket::bind((from, 0))).map_err(failed)?;
        let receiver = namespace::within(second, || UdpSocket::bind((to, PORT))).map_err(failed)?;
        // A receiver that others keep from the processor is no loss of the link's.
        set_socket_recv_buffer_size_force(&receiver, RECEIVED_OCTETS)
            .map_err(|error| failed(error.into()))?;
        receiver
            .set_read_timeout(Some(Duration::from_millis(20)))
            .map_err(failed)?;
        let start = Instant::now();
        let done = AtomicBool::new(false);
        let arrivals = thread::scope(|scope| {
            let taken = scope.spawn(|| take(&receiver, start, &done));
            let sent = send(&sender, (to, PORT).into(), load, start, goes_on);
            let end = Instant::now() + delay + QUIET;
            while goes_on() && Instant::now() < end {
                thread::sleep(QUIET.min(end.saturating_duration_since(Instant::now())));
            }
            done.store(true, Ordering::Relaxed);
            match taken.join() {
                Ok(arrivals) => sent.map(|()| arrivals),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        let arrivals = arrivals.map_err(failed)?;
        Ok(goes_on().then_some(Self { load, arrivals }))
    }
}

fn send(
    socket: &UdpSocket,
    to: std::net::SocketAddr,
    load: Load,
    start: Instant,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> io::Result<()> {
    let mut packet = vec![0; load.octets.max(NAME_OCTETS)];
    let begun = start.elapsed();
    for number in 0..load.count {
        let due = begun + Duration::from_secs(1) * number / load.per_second.max(1);
        let early = due.saturating_sub(start.elapsed());
        if !early.is_zero() {
            thread::sleep(early);
            if !goes_on() {
                break;
            }
        }
        let sent = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let name = u64::from(number)
            .to_le_bytes()
            .into_iter()
            .chain(sent.to_le_bytes());
        for (place, octet) in packet.iter_mut().zip(name) {
            *place = octet;
        }
        socket.send_to(&packet, to)?;
    }
    Ok(())
}

fn take(socket: &UdpSocket, start: Instant, done: &AtomicBool) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let mut buffer = [0; 2_048];
    while !done.load(Ordering::Relaxed) {
        let Ok(octets) = socket.recv(&mut buffer) else {
            continue;
        };
        let arrived = start.elapsed();
        let packet = buffer.get(..octets).unwrap_or_default();
        let read = packet.split_first_chunk::<8>().and_then(|(number, rest)| {
            let (sent, _) = rest.split_first_chunk::<8>()?;
            Some(Arrival {
                number: u64::from_le_bytes(*number),
                sent: Duration::from_nanos(u64::from_le_bytes(*sent)),
                arrived,
            })
        });
        arrivals.extend(read);
    }
    arrivals
}
