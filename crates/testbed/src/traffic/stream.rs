//! Packets over TCP: each behind its length, four octets, big-endian.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::acknowledged::Acknowledged;
use super::carrier::{Carrier, Ending, Outcome, Packet};
use super::schedule::Pattern;

/// The time that a call waits for room.
const PATIENCE: Duration = Duration::from_millis(100);

/// Calls that wait for room at the end.
const LAST_CALLS: u32 = 10;

/// Octets that are read of a connection at once.
const READ_OCTETS: usize = 256 << 10;

/// The sending end. It holds what the connection has not taken yet of one packet.
#[derive(Debug)]
pub struct StreamWriter {
    stream: TcpStream,
    waiting: Vec<u8>,
    written: usize,
    acknowledged: Acknowledged,
}

impl StreamWriter {
    /// Sends over a connection.
    ///
    /// # Errors
    /// When the connection cannot be set up, or the kernel does not say what is acknowledged.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            acknowledged: Acknowledged::of(&stream)?,
            stream,
            waiting: Vec::new(),
            written: 0,
        })
    }

    /// Writes what waits; true when nothing does any more.
    fn flush(&mut self) -> io::Result<bool> {
        while let Some(rest) = self
            .waiting
            .get(self.written..)
            .filter(|rest| !rest.is_empty())
        {
            match self.stream.write(rest) {
                Ok(octets) => {
                    self.written += octets;
                    self.acknowledged.give(octets);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.waiting.clear();
        self.written = 0;
        Ok(true)
    }

    /// Lets go of packets of which nothing is written, so that nothing is taken for sent that may never leave: how many stay. `ends` is
    /// where each packet ends in what waits.
    fn keep_begun(&mut self, ends: &[usize]) -> usize {
        let whole = ends.partition_point(|end| *end <= self.written);
        let whole_octets = whole.checked_sub(1).and_then(|last| ends.get(last));
        let is_begun = self.written > whole_octets.copied().unwrap_or_default();
        let kept = whole + usize::from(is_begun);
        let end = kept.checked_sub(1).and_then(|last| ends.get(last));
        self.waiting.truncate(end.copied().unwrap_or_default());
        kept
    }
}

impl Carrier for StreamWriter {
    fn send(&mut self, packets: &[Packet]) -> io::Result<Outcome> {
        if !self.flush()? {
            return Ok(Outcome::default());
        }
        let mut ends = Vec::with_capacity(packets.len());
        for packet in packets {
            let length = u32::try_from(packet.octets).unwrap_or(u32::MAX);
            self.waiting.extend_from_slice(&length.to_be_bytes());
            self.waiting.extend_from_slice(packet.head());
            self.waiting.resize(self.waiting.len() + packet.zeros(), 0);
            ends.push(self.waiting.len());
        }
        let left = match self.flush()? {
            true => packets.len(),
            false => self.keep_begun(&ends),
        };
        Ok(Outcome {
            left,
            ..Outcome::default()
        })
    }

    fn finish(&mut self) -> io::Result<Ending> {
        for _ in 0..LAST_CALLS {
            if self.flush()? {
                return Ok(Ending::Whole);
            }
        }
        Ok(Ending::Cut)
    }

    fn unacknowledged(&mut self) -> Option<u64> {
        self.acknowledged.count();
        Some(self.acknowledged.given() - self.acknowledged.known())
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct StreamReader {
    stream: BufReader<TcpStream>,
    from: SocketAddr,
    payload: Vec<u8>,
}

impl StreamReader {
    /// Reads a connection from the other side.
    #[must_use]
    pub fn new(stream: TcpStream, from: SocketAddr) -> Self {
        Self {
            stream: BufReader::with_capacity(READ_OCTETS, stream),
            from,
            payload: Vec::new(),
        }
    }

    /// The address of its sender.
    #[must_use]
    pub const fn from(&self) -> SocketAddr {
        self.from
    }

    /// The next packet's payload; none at the end.
    ///
    /// # Errors
    /// When the connection fails, ends within a packet, or carries what is none.
    pub fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = u32::from_be_bytes(length);
        if length > Pattern::OCTETS_MAX {
            let what = format!("a packet of {length} octets is longer than any of ours");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        self.payload
            .resize(usize::try_from(length).unwrap_or_default(), 0);
        self.stream.read_exact(&mut self.payload)?;
        Ok(Some(&self.payload))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::traffic::header::HEADER_OCTETS;
    use crate::traffic::{Bursts, Header, Pace, Schedule, Sender};

    #[test]
    fn packets_keep_their_ends_in_a_stream_that_is_full_at_times() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sending = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiving, from) = listener.accept().unwrap();
        let mut writer = StreamWriter::new(sending).unwrap();
        let packets: Vec<Packet> = (0..2_000_u32)
            .map(|number| Packet {
                header: [u8::try_from(number % 251).unwrap(); HEADER_OCTETS],
                octets: usize::try_from(20 + number * 29 % 9_000).unwrap(),
            })
            .collect();
        let expected: Vec<(usize, u8)> = packets
            .iter()
            .map(|packet| (packet.octets, packet.header[0]))
            .collect();
        let sender = std::thread::spawn(move || {
            let mut rest = &packets[..];
            while !rest.is_empty() {
                let batch = &rest[..rest.len().min(32)];
                let left = writer.send(batch).unwrap().left;
                rest = &rest[left..];
            }
            assert_eq!(writer.finish().unwrap(), Ending::Whole);
        });
        let mut reader = StreamReader::new(receiving, from);
        let mut found = Vec::new();
        while let Some(payload) = reader.receive().unwrap() {
            found.push((payload.len(), payload[0]));
        }
        sender.join().unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_connection_does_not_take_to_the_end_was_not_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let mut writer = StreamWriter::new(TcpStream::connect(to).unwrap()).unwrap();
        let (receiving, from) = listener.accept().unwrap();
        let pattern = Pattern {
            octets: 60_000,
            pace: Pace::BitsPerS(1_000_000_000_000),
            bursts: Bursts::Always,
        };
        let sender = Sender {
            schedule: Schedule::new(pattern, 1).unwrap(),
            flow: 1,
            to,
            header: Header::of_packet,
            duration: Some(Duration::from_millis(300)),
            count: None,
            planned: Vec::new(),
        };
        // Nobody reads, so the connection is full long before the end.
        let sent = sender.run(&mut writer, &mut (), None, || false, |_| {});
        let sent = sent.unwrap();
        // More is given to the connection than its receiver has.
        assert!(sent.acknowledged.is_some_and(|octets| octets < sent.octets));
        drop(writer);
        let mut reader = StreamReader::new(receiving, from);
        let mut came = 0;
        while let Ok(Some(_)) = reader.receive() {
            came += 1;
        }
        assert!(came > 0);
        assert_eq!(sent.packets, came);
    }
}
