//! The measurement points of OTG and OTR: a row for each packet.

use dhow_measure::{Column, Point, Stream, Type, Value};
use dhow_testbed::traffic::{Meter, Sample};

use crate::failure::Failure;
use crate::measured::Measuring;

/// The fields of all points of packets.
static COLUMNS: [Column; 6] = [
    Column::new(
        "ts",
        Type::Double,
        "s",
        "when, since 1970: handed to the kernel, or received by it",
    ),
    Column::new("flow_id", Type::Guid, "", "name of the flow"),
    Column::new("seq_no", Type::Uint32, "", "number in the flow, from 1"),
    Column::new("pkt_length", Type::Uint32, "B", "octets of payload"),
    Column::new(
        "dst_host",
        Type::Text,
        "",
        "where it goes; at a receiver, where it came from",
    ),
    Column::new("dst_port", Type::Uint32, "", "port of that"),
];

const fn point(name: &'static str, about: &'static str) -> Point {
    Point {
        name,
        about,
        columns: &COLUMNS,
    }
}

/// A datagram left.
pub static UDP_OUT: Point = point("udp_out", "a datagram left");
/// A datagram arrived.
pub static UDP_IN: Point = point("udp_in", "a datagram arrived");
/// A packet left over a connection.
pub static TCP_OUT: Point = point("tcp_out", "a packet left over a connection");
/// A packet arrived over a connection.
pub static TCP_IN: Point = point("tcp_in", "a packet arrived over a connection");

/// A point of packets; it measures where measurements go anywhere.
pub struct PacketPoint {
    stream: Option<Stream>,
    /// The last peer's address as text: it hardly ever changes.
    host: (std::net::IpAddr, String),
}

impl PacketPoint {
    /// The point, open where there is something to measure into.
    pub fn open(measuring: Option<&Measuring>, point: &Point) -> Result<Self, Failure> {
        let unspecified = std::net::IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED);
        Ok(Self {
            stream: measuring
                .map(|measuring| measuring.stream(point))
                .transpose()?,
            host: (unspecified, unspecified.to_string()),
        })
    }
}

impl Meter for PacketPoint {
    fn packet(&mut self, sample: &Sample) {
        let Some(stream) = &self.stream else { return };
        let address = sample.peer.ip();
        if self.host.0 != address {
            self.host = (address, address.to_string());
        }
        stream.inject(&[
            Value::Double(sample.at_s()),
            Value::Guid(sample.flow),
            Value::Uint32(sample.number),
            Value::Uint32(sample.octets),
            Value::Text(&self.host.1),
            Value::Uint32(sample.peer.port().into()),
        ]);
    }
}
