//! The sender: reads frames from its log, computes their checksums, and writes them while the window is open.

use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::frame::{ACKNOWLEDGMENT_OCTETS, Acknowledgment};
use crate::log::Mode;
use crate::origin::Origin;
use crate::processor::cpu_seconds;
use crate::queue::PIECE_OCTETS;
use crate::receiver::PATIENCE;

/// Acknowledgments read at once, at most.
const ACKNOWLEDGMENTS: usize = 64;

/// The frames that a sender sends.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The place of the frames before they leave: in memory, or in a file.
    pub mode: Mode,
    /// The log's file, unless in memory.
    pub log: PathBuf,
    /// Octets of the log, at most; it is read round and round.
    pub log_octets: u64,
    /// Payload octets of a frame.
    pub size: usize,
    /// Frames.
    pub count: u64,
    /// Octets sent and not acknowledged, at most.
    pub window_octets: u64,
}

/// The result of a sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Octets sent and acknowledged, headers included.
    pub octets: u64,
    /// Frames acknowledged.
    pub frames: u64,
    /// From the first octet to the last acknowledgment.
    pub seconds: f64,
    /// Processor time in that time, user and system.
    pub cpu_s: f64,
}

/// Sends everything and returns when all is acknowledged.
///
/// # Errors
/// The log is damaged, the connection failed, or the receiver left.
pub fn send(address: SocketAddr, terms: &Terms) -> Result<Sent, Failure> {
    if terms.window_octets < u64::try_from(PIECE_OCTETS).unwrap_or(u64::MAX) {
        return Err(Failure::Option(
            "the window must be 128 KiB at least: what one write hands over",
        ));
    }
    let mut origin = Origin::new(terms)?;
    let stream = TcpStream::connect(address).map_err(Failure::Stream)?;
    stream.set_nodelay(true).map_err(Failure::Stream)?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .map_err(Failure::Stream)?;
    stream
        .set_write_timeout(Some(PATIENCE))
        .map_err(Failure::Stream)?;

    let before = cpu_seconds();
    let start = Instant::now();
    let mut sent = 0;
    let mut acknowledged = Acknowledgments::new(&stream);
    while let Some(piece) = origin.piece()? {
        let octets = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        acknowledged.read(RecvFlags::DONTWAIT, sent)?;
        while sent + octets - acknowledged.last.octets > terms.window_octets {
            acknowledged.read(RecvFlags::empty(), sent)?;
        }
        (&stream).write_all(piece).map_err(Failure::Stream)?;
        sent += octets;
    }
    stream.shutdown(Shutdown::Write).map_err(Failure::Stream)?;
    while acknowledged.last.octets < sent {
        acknowledged.read(RecvFlags::empty(), sent)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let Acknowledgment { octets, frames } = acknowledged.last;
    Ok(Sent {
        octets,
        frames,
        seconds,
        cpu_s: cpu_seconds() - before,
    })
}

/// The acknowledgments that come back.
struct Acknowledgments<'a> {
    stream: &'a TcpStream,
    /// The last whole one.
    last: Acknowledgment,
    buffer: [u8; ACKNOWLEDGMENT_OCTETS * ACKNOWLEDGMENTS],
    filled: usize,
}

impl<'a> Acknowledgments<'a> {
    fn new(stream: &'a TcpStream) -> Self {
        Self {
            stream,
            last: Acknowledgment::default(),
            buffer: [0; _],
            filled: 0,
        }
    }

    /// Reads what has come, or waits for something when `flags` say so.
    fn read(&mut self, flags: RecvFlags, sent: u64) -> Result<(), Failure> {
        match recv(
            self.stream,
            self.buffer.get_mut(self.filled..).unwrap_or_default(),
            flags,
        ) {
            Ok((0, _)) => Err(Failure::Unacknowledged {
                acknowledged: self.last.octets,
                sent,
            }),
            Ok((octets, _)) => {
                self.take(octets);
                Ok(())
            }
            Err(Errno::AGAIN) if flags.is_empty() => Err(Failure::Silent),
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::Stream(error.into())),
        }
    }

    fn take(&mut self, octets: usize) {
        self.filled += octets;
        let (whole, rest) = self
            .buffer
            .get(..self.filled)
            .unwrap_or_default()
            .as_chunks();
        if let Some(last) = whole.last() {
            self.last = Acknowledgment::read(last);
        }
        let (end, rest) = (self.filled, rest.len());
        self.buffer.copy_within(end - rest..end, 0);
        self.filled = rest;
    }
}
