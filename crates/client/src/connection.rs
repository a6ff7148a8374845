//! Messages and payloads over a stream, buffered in both directions.

use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use dhow_node::api::frame::FrameReader;
use dhow_node::api::wire::put_message;
use prost::Message;

use crate::error::Error;
use crate::stream::Stream;

/// Octets of one read buffer; several reads share it.
const READ_OCTETS: usize = 256 * 1024;

/// Octets left in a read buffer below which it is replaced.
const READ_OCTETS_MIN: usize = 16 * 1024;

/// Octets that are collected before they are written.
pub(crate) const WRITE_OCTETS: usize = 64 * 1024;

/// Least patience: a system call that is to wait for no time at all would wait for ever.
const PATIENCE_MIN: Duration = Duration::from_millis(1);

/// The time that a write waits at once; reading and giving up have their turns between.
const WRITE_STEP: Duration = Duration::from_millis(20);

/// The fate of octets that come while the node takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhileWriting {
    /// The octets are read: answers, of which there are no more than requests.
    Read,
    /// Octets stay in the socket: payloads, however long.
    Leave,
}

/// The longest time to wait for octets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Not at all.
    No,
    /// Until then.
    Until(Instant),
    /// Waits as long as it takes.
    Forever,
}

impl Wait {
    /// Waits from now for `timeout`; for ever without one.
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
    while_writing: WhileWriting,
    /// The time for which the node may take and give no octet while this side waits for it.
    patience: Duration,
    /// When octets last came or went.
    moved: Instant,
}

impl Connection {
    pub(crate) fn new(stream: Stream, patience: Duration) -> Result<Self, Error> {
        let mut connection = Self {
            stream,
            reader: FrameReader::new(),
            room: BytesMut::new(),
            out: BytesMut::new(),
            timeout: None,
            while_writing: WhileWriting::Leave,
            patience,
            moved: Instant::now(),
        };
        connection.set_patience(patience)?;
        Ok(connection)
    }

    /// The time for which the node may take and give no octet while this side waits for it.
    pub(crate) fn set_patience(&mut self, patience: Duration) -> Result<(), Error> {
        self.patience = patience.max(PATIENCE_MIN);
        let step = WRITE_STEP.min(self.patience);
        self.stream.set_write_timeout(step).map_err(lost)
    }

    /// From now on, octets that come while the node takes nothing are read.
    pub(crate) fn read_while_writing(&mut self) {
        self.while_writing = WhileWriting::Read;
    }

    /// The time for which the node may still be silent.
    pub(crate) fn patience_left(&self) -> Duration {
        self.patience.saturating_sub(self.moved.elapsed())
    }

    /// The wait until which the node is to take or give an octet.
    pub(crate) fn patient(&self) -> Wait {
        Wait::for_most(Some(self.patience))
    }

    /// No octet has come or gone for as long as this side's patience lasts.
    pub(crate) fn is_silent(&self) -> bool {
        self.moved.elapsed() >= self.patience
    }

    /// The error that the node does not answer.
    pub(crate) const fn silent(&self) -> Error {
        Error::Silent(self.patience)
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
                self.set_timeout(Some(self.patience))?;
                return match retry(|| self.stream.read(out)) {
                    Ok(0) => Err(Error::Disconnected(None)),
                    Ok(octets) => Ok(octets),
                    Err(error) => Err(self.failed(error)),
                };
            }
            self.fill_patiently()?;
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
                None => self.fill_patiently()?,
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

    /// The buffer that collects messages for writing.
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
        self.write_through(&[])
    }

    /// Write what was collected and `octets` behind it, which are not copied.
    pub(crate) fn write_through(&mut self, octets: &[u8]) -> Result<(), Error> {
        let mut out = std::mem::take(&mut self.out);
        let outcome = self.write_all(&mut [IoSlice::new(&out), IoSlice::new(octets)]);
        out.clear();
        self.out = out;
        outcome
    }

    /// Write slices, with as few system calls as the system allows.
    fn write_all(&mut self, mut left: &mut [IoSlice<'_>]) -> Result<(), Error> {
        let begun = Instant::now();
        // Without this, two empty slices would be written.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.stream.write_vectored(left) {
                Ok(0) => return Err(lost(ErrorKind::WriteZero.into())),
                Ok(octets) => {
                    IoSlice::advance_slices(&mut left, octets);
                    self.moved = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_too_late(&error) => {
                    if self.moved.max(begun).elapsed() >= self.patience {
                        return Err(self.silent());
                    }
                    // The node may take nothing before its answers are taken.
                    if self.while_writing == WhileWriting::Read {
                        self.fill(Wait::No)?;
                    }
                }
                Err(error) => return Err(lost(error)),
            }
        }
        Ok(())
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

    /// Read what comes within this side's patience.
    fn fill_patiently(&mut self) -> Result<(), Error> {
        match self.fill(self.patient())? {
            true => Ok(()),
            false => Err(self.silent()),
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
                self.moved = Instant::now();
                Ok(true)
            }
            Err(error) if is_too_late(&error) => Ok(false),
            Err(error) => Err(lost(error)),
        }
    }

    /// Why a call that this side's patience bounds has failed.
    fn failed(&self, error: io::Error) -> Error {
        match is_too_late(&error) {
            true => self.silent(),
            false => lost(error),
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

/// True if the time to wait was over before any octet came or left.
pub(crate) fn is_too_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
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
