//! The events and reports of a client or server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::traffic::{Account, Arrived, Delay};

/// The receiver of events and reports. Its methods are to return as soon as they can.
pub trait Observer: Send {
    /// Two ends have found each other.
    fn connection(&mut self, connection: &Connection);
    /// A datagram left, or arrived.
    fn packet(&mut self, packet: &Packet);
    /// An interval is over, or the connection is.
    fn transfer(&mut self, transfer: &Transfer);
    /// The server's own account came to the client.
    fn server_report(&mut self, transfer: &Transfer);
}

/// Two ends that have found each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its number in this process.
    pub id: u32,
    /// The address of this end.
    pub local: SocketAddr,
    /// The other.
    pub foreign: SocketAddr,
}

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The number of the connection.
    pub id: u32,
    /// Its number.
    pub number: u32,
    /// Octets of its payload.
    pub octets: u32,
    /// When it was here, nanoseconds since 1970.
    pub at_ns: u64,
    /// When it was sent by its sender's clock, nanoseconds since 1970.
    pub sent_ns: u64,
}

/// The transfer of an interval, or of a whole connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// The number of its connection.
    pub id: u32,
    /// True for the whole connection.
    pub is_total: bool,
    /// When the interval begins, from the connection's start.
    pub begin: Duration,
    /// When it ends.
    pub end: Duration,
    /// Octets of payload; of a connection's client, those that were acknowledged.
    pub octets: u64,
    /// Datagrams, where they are.
    pub datagrams: Option<Report>,
}

impl Transfer {
    /// The transfer, as the testbed is told of it.
    #[must_use]
    pub fn account(&self) -> Account {
        let arrived = |report: Report| {
            let jitter_ns = report.jitter_ns?;
            Some(Arrived {
                lost: report.lost,
                duplicates: report.duplicates,
                jitter_ns,
                delay: report.delay,
            })
        };
        Account {
            octets: self.octets,
            acknowledged: None,
            packets: self.datagrams.map(|it| it.sent.saturating_sub(it.lost)),
            elapsed: self.end.saturating_sub(self.begin),
            arrived: self.datagrams.and_then(arrived),
        }
    }
}

/// The report of a server on datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Datagrams that were sent, as far as their numbers tell.
    pub sent: u64,
    /// Datagrams of them that are missing.
    pub lost: u64,
    /// Datagrams that came after one with a higher number.
    pub out_of_order: u64,
    /// Datagrams that came again, of which nothing else counts any; none at the sender, and not in what a server answers.
    pub duplicates: Option<u64>,
    /// The jitter of datagrams (RFC 3550 6.4.1), nanoseconds; none at the sender.
    pub jitter_ns: Option<f64>,
    /// The time for which all that came so far were on the way; none at the sender, and not in what a server answers.
    pub delay: Option<Delay>,
}

/// Nobody is told.
impl Observer for () {
    fn connection(&mut self, _: &Connection) {}
    fn packet(&mut self, _: &Packet) {}
    fn transfer(&mut self, _: &Transfer) {}
    fn server_report(&mut self, _: &Transfer) {}
}
