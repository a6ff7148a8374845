//! Messages and payloads over a stream, buffered in both directions.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use dhow_node::api::frame::FrameReader;
use dhow_node::api::wire::put_message;
use prost::Message;

use crate::error::Error;
use crate::stream::Stream;

/// Octets of one read buffer; several reads share it.
const READ_OCTETS: usize = 256 * 1024;

/// With less than this left in it, a read buffer is replaced.
const READ_OCTETS_MIN: usize = 16 * 1024;

/// Octets that are collected before they are written.
pub(crate) const WRITE_OCTETS: usize = 64 * 1024;

/// How long to wait for octets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Not at all.
    No,
    /// Until then.
    Until(Instant),
    /// As long as it takes.
    Forever,
}

impl Wait {
    /// From now, for `timeout`; for ever without one.
    pub(crate) fn for_most(timeout: Option<Duration>) -> Self {
        timeout
            .and_then(|timeout| Instant::now().checked_add(timeout))
            .map_or(Self::Forever, Self::Until)
    }
}

/// A connection to a node.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    reader: FrameReader,
    /// Room for what is read next; all of it initialised.
    room: BytesMut,
    /// Messages not yet written.
    out: BytesMut,
    /// The timeout that the stream has now.
    timeout: Option<Duration>,
}

impl Connection {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            reader: FrameReader::new(),
            room: BytesMut::new(),
            out: BytesMut::new(),
            timeout: None,
        }
    }

    /// The first octet of the stream, which stands before any message.
    pub(crate) fn read_first(&mut self, wait: Wait) -> Result<Option<u8>, Error> {
        if !self.fill(wait)? {
            return Ok(None);
        }
        Ok(self
            .reader
            .take_payload(1)
            .and_then(|octets| octets.first().copied()))
    }

    /// The next message; `None` when the time is over.
    pub(crate) fn read_message<T: Message + Default>(
        &mut self,
        wait: Wait,
    ) -> Result<Option<T>, Error> {
        loop {
            match self.reader.take_message() {
                Ok(Some(octets)) => {
                    return T::decode(octets)
                        .map(Some)
                        .map_err(|error| Error::Protocol(error.to_string()));
                }
                Ok(None) => {
                    if !self.fill(wait)? {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(Error::Protocol(error.to_string())),
            }
        }
    }

    /// Up to `most` octets of payload into `out`; waits for the first of them.
    pub(crate) fn read_payload(&mut self, most: u64, out: &mut [u8]) -> Result<usize, Error> {
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(out.len());
        let Some(out) = out.get_mut(..length).filter(|out| !out.is_empty()) else {
            return Ok(0);
        };
        while self.reader.is_drained() {
            if length >= READ_OCTETS_MIN {
                self.set_timeout(None)?;
                return retry(|| self.stream.read(out)).map_err(lost).and_then(
                    |octets| match octets {
                        0 => Err(Error::Disconnected(None)),
                        _ => Ok(octets),
                    },
                );
            }
            self.fill(Wait::Forever)?;
        }
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let octets = self.reader.take_payload(length).unwrap_or_default();
        if let Some(out) = out.get_mut(..octets.len()) {
            out.copy_from_slice(&octets);
        }
        Ok(octets.len())
    }

    /// Drop `octets` of payload.
    pub(crate) fn skip_payload(&mut self, octets: u64) -> Result<(), Error> {
        let mut left = octets;
        while left > 0 {
            match self.reader.take_payload(left) {
                Some(octets) => {
                    left = left.saturating_sub(u64::try_from(octets.len()).unwrap_or(u64::MAX))
                }
                None => {
                    self.fill(Wait::Forever)?;
                }
            }
        }
        Ok(())
    }

    /// True when nothing that was read waits to be taken.
    pub(crate) fn is_drained(&self) -> bool {
        self.reader.is_drained()
    }

    /// Collect a message for writing.
    pub(crate) fn put(&mut self, message: &impl Message) {
        put_message(message, &mut self.out);
    }

    /// Where messages are collected for writing.
    pub(crate) fn collected(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// Collect payload octets for writing.
    pub(crate) fn put_octets(&mut self, octets: &[u8]) {
        self.out.extend_from_slice(octets);
    }

    /// Octets collected.
    pub(crate) fn pending(&self) -> usize {
        self.out.len()
    }

    /// Write what was collected.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        let outcome = self.stream.write_all(&self.out).map_err(lost);
        self.out.clear();
        outcome
    }

    /// Write what was collected and `octets` behind it, which are not copied.
    pub(crate) fn write_through(&mut self, octets: &[u8]) -> Result<(), Error> {
        let outcome = self.stream.write_both(&self.out, octets).map_err(lost);
        self.out.clear();
        outcome
    }

    /// Say that nothing more will be written.
    pub(crate) fn end_writing(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.stream.end_writing().map_err(lost)
    }

    /// Read octets and throw them away until the node has closed.
    pub(crate) fn discard_until_closed(&mut self, wait: Wait) {
        self.reader.clear();
        while let Ok(true) = self.fill(wait) {
            self.reader.clear();
        }
    }

    /// Read what the stream has; false when the time was over first.
    fn fill(&mut self, wait: Wait) -> Result<bool, Error> {
        if self.room.len() < READ_OCTETS_MIN {
            self.room = BytesMut::zeroed(READ_OCTETS);
        }
        let outcome = match wait {
            Wait::No => retry(|| self.stream.read_now(&mut self.room)),
            Wait::Until(end) => {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return self.fill(Wait::No);
                }
                self.set_timeout(Some(left))?;
                retry(|| self.stream.read(&mut self.room))
            }
            Wait::Forever => {
                self.set_timeout(None)?;
                retry(|| self.stream.read(&mut self.room))
            }
        };
        match outcome {
            Ok(0) => Err(Error::Disconnected(None)),
            Ok(octets) => {
                let octets: Bytes = self.room.split_to(octets).freeze();
                self.reader.push(octets);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(false)
            }
            Err(error) => Err(lost(error)),
        }
    }

    fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        if self.timeout != timeout {
            self.stream.set_read_timeout(timeout).map_err(lost)?;
            self.timeout = timeout;
        }
        Ok(())
    }
}

fn lost(error: io::Error) -> Error {
    Error::Disconnected(Some(error))
}

/// Try again when a signal came between.
fn retry<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
