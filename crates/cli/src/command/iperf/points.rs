//! The measurement points of iperf's OML edition.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use dhow_measure::{Column, Point, Stream, Type, Value};
use dhow_testbed::iperf::{Connection, Packet, Transfer};

use super::Side;
use crate::failure::Failure;
use crate::measured::Measuring;

const PID: Column = Column::new("pid", Type::Int32, "", "process");
const ID: Column = Column::new(
    "connection_id",
    Type::Int32,
    "",
    "the connection's number in the process",
);
const BEGIN: Column = Column::new(
    "begin_interval",
    Type::Double,
    "s",
    "when the interval begins, from the connection's start",
);
const END: Column = Column::new("end_interval", Type::Double, "s", "when it ends");

static APPLICATION: Point = Point {
    name: "application",
    about: "the program started",
    columns: &[
        PID,
        Column::new("version", Type::Text, "", "version of the program"),
        Column::new("cmdline", Type::Text, "", "its words"),
        Column::new("starttime_s", Type::Int32, "s", "when, since 1970"),
        Column::new("starttime_us", Type::Int32, "us", "and microseconds"),
    ],
};

static SETTINGS: Point = Point {
    name: "settings",
    about: "what the program was told",
    columns: &[
        PID,
        Column::new("server_mode", Type::Int32, "", "1 for a server"),
        Column::new(
            "bind_address",
            Type::Text,
            "",
            "address of this end, where one was named",
        ),
        Column::new(
            "multicast",
            Type::Int32,
            "",
            "1 where datagrams go to a group",
        ),
        Column::new("multicast_ttl", Type::Int32, "", "hops that they may take"),
        Column::new(
            "transport_protocol",
            Type::Int32,
            "",
            "its number in IP: 6 TCP, 17 UDP",
        ),
        Column::new(
            "window_size",
            Type::Int32,
            "B",
            "octets that a socket keeps; 0 as the system has it",
        ),
        Column::new(
            "buffer_size",
            Type::Int32,
            "B",
            "octets of a datagram or block",
        ),
    ],
};

static CONNECTION: Point = Point {
    name: "connection",
    about: "two ends found each other",
    columns: &[
        PID,
        ID,
        Column::new("local_address", Type::Text, "", "address of this end"),
        Column::new("local_port", Type::Int32, "", "port of this end"),
        Column::new(
            "foreign_address",
            Type::Text,
            "",
            "address of the other end",
        ),
        Column::new("foreign_port", Type::Int32, "", "port of the other end"),
    ],
};

static TRANSFER: Point = Point {
    name: "transfer",
    about: "an interval is over, or the connection is",
    columns: &[
        PID,
        ID,
        BEGIN,
        END,
        Column::new("size", Type::Uint64, "B", "octets of payload"),
    ],
};

static LOSSES: Point = Point {
    name: "losses",
    about: "an interval is over, or the connection is, at the receiver of datagrams",
    columns: &[
        PID,
        ID,
        BEGIN,
        END,
        Column::new(
            "total_datagrams",
            Type::Int32,
            "",
            "those that were sent, as far as their numbers tell",
        ),
        Column::new(
            "lost_datagrams",
            Type::Int32,
            "",
            "those of them that are missing",
        ),
    ],
};

static JITTER: Point = Point {
    name: "jitter",
    about: "an interval is over, or the connection is, at the receiver of datagrams",
    columns: &[
        PID,
        ID,
        BEGIN,
        END,
        Column::new("jitter", Type::Double, "ms", "RFC 3550 6.4.1"),
    ],
};

static PACKETS: Point = Point {
    name: "packets",
    about: "a datagram left, or arrived",
    columns: &[
        PID,
        ID,
        Column::new("packet_id", Type::Int32, "", "its number"),
        Column::new("packet_size", Type::Int32, "B", "octets of its payload"),
        Column::new(
            "packet_time_s",
            Type::Int32,
            "s",
            "when it was here, since 1970",
        ),
        Column::new("packet_time_us", Type::Int32, "us", "and microseconds"),
        Column::new(
            "packet_sent_time_s",
            Type::Int32,
            "s",
            "when it was sent by its sender's clock, since 1970",
        ),
        Column::new("packet_sent_time_us", Type::Int32, "us", "and microseconds"),
    ],
};

/// All points, open.
pub struct Points {
    pid: i32,
    application: Stream,
    settings: Stream,
    connection: Stream,
    transfer: Stream,
    losses: Stream,
    jitter: Stream,
    packets: Stream,
}

impl Points {
    pub fn new(measuring: &Measuring) -> Result<Self, Failure> {
        Ok(Self {
            pid: i32::try_from(std::process::id()).unwrap_or_default(),
            application: measuring.stream(&APPLICATION)?,
            settings: measuring.stream(&SETTINGS)?,
            connection: measuring.stream(&CONNECTION)?,
            transfer: measuring.stream(&TRANSFER)?,
            losses: measuring.stream(&LOSSES)?,
            jitter: measuring.stream(&JITTER)?,
            packets: measuring.stream(&PACKETS)?,
        })
    }

    pub fn application(&self, words: &str) {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let (s, us) = parts(now);
        let version = concat!("dhow ", env!("CARGO_PKG_VERSION"));
        self.application.inject(&[
            Value::from(self.pid),
            Value::from(version),
            Value::from(words),
            Value::from(s),
            Value::from(us),
        ]);
    }

    pub fn settings(
        &self,
        side: Side,
        bound: &str,
        ttl: u32,
        is_udp: bool,
        window: u64,
        octets: usize,
    ) {
        let int = |number: u64| Value::from(i32::try_from(number).unwrap_or(i32::MAX));
        self.settings.inject(&[
            Value::from(self.pid),
            int((side == Side::Server).into()),
            Value::from(bound),
            int(0),
            int(ttl.into()),
            int(if is_udp { 17 } else { 6 }),
            int(window),
            int(u64::try_from(octets).unwrap_or(u64::MAX)),
        ]);
    }

    pub fn connection(&self, connection: &Connection) {
        let address = |end: &SocketAddr| end.ip().to_string();
        let (local, foreign) = (address(&connection.local), address(&connection.foreign));
        self.connection.inject(&[
            Value::from(self.pid),
            id(connection.id),
            Value::from(local.as_str()),
            Value::from(i32::from(connection.local.port())),
            Value::from(foreign.as_str()),
            Value::from(i32::from(connection.foreign.port())),
        ]);
    }

    pub fn transfer(&self, transfer: &Transfer) {
        let begin = Value::from(transfer.begin.as_secs_f64());
        let end = Value::from(transfer.end.as_secs_f64());
        let head = || [Value::from(self.pid), id(transfer.id), begin, end];
        let inject = |stream: &Stream, values: &[Value<'_>]| {
            let all: Vec<Value<'_>> = head().into_iter().chain(values.iter().copied()).collect();
            stream.inject(&all);
        };
        inject(&self.transfer, &[Value::from(transfer.octets)]);
        let Some((report, jitter_ns)) = transfer
            .datagrams
            .and_then(|report| Some((report, report.jitter_ns?)))
        else {
            return;
        };
        let int = |number: u64| Value::from(i32::try_from(number).unwrap_or(i32::MAX));
        inject(&self.losses, &[int(report.sent), int(report.lost)]);
        inject(&self.jitter, &[Value::from(jitter_ns / 1e6)]);
    }

    pub fn packet(&self, packet: &Packet) {
        let (s, us) = parts(Duration::from_nanos(packet.at_ns));
        let (sent_s, sent_us) = parts(Duration::from_nanos(packet.sent_ns));
        self.packets.inject(&[
            Value::from(self.pid),
            id(packet.id),
            Value::from(packet.number.cast_signed()),
            Value::from(i32::try_from(packet.octets).unwrap_or(i32::MAX)),
            Value::from(s),
            Value::from(us),
            Value::from(sent_s),
            Value::from(sent_us),
        ]);
    }
}

fn id(number: u32) -> Value<'static> {
    Value::from(i32::try_from(number).unwrap_or(i32::MAX))
}

/// Seconds and microseconds, each a whole number: what doubles of a measurement packet could not tell.
fn parts(time: Duration) -> (i32, i32) {
    let seconds = i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
    (
        seconds,
        i32::try_from(time.subsec_micros()).unwrap_or_default(),
    )
}
