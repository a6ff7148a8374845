//! A client's session from its octets: header, definitions of streams, rows; octets that cannot be a row are counted and skipped.

use std::str;

use super::ROW_OCTETS_MAX;
use super::binary::{self, BODY_HEAD_OCTETS, Body, Build, Frame};
use super::header::{Encoding, Header, HeaderError, Reader, read_definition};
use super::reason::{Reason, Tally};
use super::rows::{Rows, StreamKey};
use super::text::{self, RowHead};
use crate::schema::Schema;

/// Octets of a header, schemas included.
const HEADER_OCTETS_MAX: usize = 256 << 10;

/// Definitions of streams within a session, redefinitions included.
const DEFINITIONS_MAX: u32 = 4096;

/// Memory of all definitions of a session, octets: a header can have most of it.
const DEFINITIONS_OCTETS_MAX: usize = 1 << 20;

/// Packets that are looked for behind ones of a wrong length at a session's end.
const SALVAGES_MAX: u32 = 16;

/// Octets of memory that stay for what is not understood yet when it was more.
const SPARE_OCTETS: usize = 4 << 10;

/// Octets beside a row, that are held with it: those of a read, and of what stands before a packet.
const BESIDE_OCTETS: usize = 64 << 10;

/// The content of a session since it was last taken.
#[derive(Debug, Default)]
pub struct Batch {
    /// Streams that were defined, before any of their rows.
    pub definitions: Vec<Definition>,
    /// Rows in their order.
    pub rows: Rows,
    /// Counts of refused rows.
    pub refused: Tally,
}

impl Batch {
    /// True where nothing was said.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty() && self.rows.is_empty() && self.refused.is_empty()
    }

    /// Memory that it takes, octets.
    #[cfg(feature = "collector")]
    pub(crate) fn octets(&self) -> usize {
        let definitions = self.definitions.iter();
        let definitions = definitions.map(|it| size_of::<Definition>() + it.schema.octets());
        self.rows.octets() + definitions.sum::<usize>()
    }
}

/// A stream of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The key by which its rows name it.
    pub stream: StreamKey,
    /// Its index in the session.
    pub index: u8,
    /// Its name and fields.
    pub schema: Schema,
}

/// Why a session cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The header is refused.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Streams are defined without end.
    #[error(
        "streams are defined more than {DEFINITIONS_MAX} times, or with too many fields in all"
    )]
    TooManyDefinitions,
}

#[derive(Debug)]
enum State {
    Header(Box<Reader>),
    Text,
    /// A line that is too long is skipped to its end.
    SkipLine,
    Binary,
    /// A packet that is refused is skipped to its end: so many octets of it are still to come.
    SkipPacket(usize),
    /// Octets that are no packet are skipped to the next beginning of one.
    Resync,
}

/// Reads one session. It holds at most one row ([`ROW_OCTETS_MAX`]) and the octets fed last; memory that a row needs no more is
/// given back.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// Octets that were fed and are not decoded yet.
    pending: Vec<u8>,
    /// Octets of `pending` in which no line ends.
    scanned: usize,
    header_octets: usize,
    header: Option<Header>,
    /// Whether no more octets will come.
    has_ended: bool,
    /// Packets of a wrong length since then.
    salvages: u32,
    streams: Vec<Option<(StreamKey, Schema)>>,
    defined: StreamKey,
    defined_octets: usize,
    batch: Batch,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            state: State::Header(Box::default()),
            pending: Vec::new(),
            scanned: 0,
            header_octets: 0,
            header: None,
            has_ended: false,
            salvages: 0,
            streams: Vec::new(),
            defined: 0,
            defined_octets: 0,
            batch: Batch::default(),
        }
    }
}

impl Decoder {
    /// The client's header, once it is complete.
    pub const fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// The content of the session since the last call.
    pub fn take(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    /// Rows and octets that wait to be taken.
    pub const fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Octets that are held until more come.
    pub const fn pending_octets(&self) -> usize {
        self.pending.len()
    }

    /// Octets that the row that is held will have, where it says so.
    #[cfg(any(feature = "collector", test))]
    pub(crate) fn awaited_octets(&self) -> Option<usize> {
        match (&self.state, binary::frame(&self.pending)) {
            (State::Binary, Frame::Packet { head, body }) => Some(head.saturating_add(body)),
            _ => None,
        }
    }

    /// Does not take the row that is held, for which there is no room.
    #[cfg(any(feature = "collector", test))]
    pub(crate) fn skip_row(&mut self) {
        match self.state {
            State::Text => {
                self.refuse(text_index(&self.pending), Reason::NoRoom);
                self.state = State::SkipLine;
            }
            State::Binary => {
                let all = self.awaited_octets().unwrap_or_default();
                self.refuse(None, Reason::NoRoom);
                self.state = State::SkipPacket(all.saturating_sub(self.pending.len()));
            }
            State::Header(_) | State::SkipLine | State::SkipPacket(_) | State::Resync => return,
        }
        self.pending = Vec::new();
        self.scanned = 0;
    }

    /// Takes octets as they came.
    ///
    /// # Errors
    /// The header is refused, or streams are defined without end: the session is to be ended.
    pub fn feed(&mut self, octets: &[u8]) -> Result<(), SessionError> {
        let mut pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            let taken = self.understand(octets)?;
            pending.extend_from_slice(octets.get(taken..).unwrap_or_default());
        } else {
            reserve(&mut pending, octets.len());
            pending.extend_from_slice(octets);
            let taken = self.understand(&pending)?;
            pending.drain(..taken);
        }
        if pending.len() < pending.capacity() / 4 {
            pending.shrink_to(SPARE_OCTETS);
        }
        self.pending = pending;
        Ok(())
    }

    /// Understands what can be, and says how many octets that was.
    fn understand(&mut self, octets: &[u8]) -> Result<usize, SessionError> {
        let mut at = 0;
        loop {
            match self.step(octets.get(at..).unwrap_or_default())? {
                0 => return Ok(at),
                taken => {
                    at += taken;
                    self.scanned = 0;
                }
            }
        }
    }

    /// The session has ended: a cut row is counted.
    pub fn finish(&mut self) {
        self.has_ended = true;
        if matches!(self.state, State::Text) && !self.pending.is_empty() {
            self.refuse(text_index(&self.pending), Reason::Truncated);
        } else if !matches!(self.state, State::Header(_)) {
            // Streams may be defined once too often, and nothing comes after.
            let _ = self.feed(&[]);
        }
        self.pending = Vec::new();
    }

    fn refuse(&mut self, index: Option<u8>, reason: Reason) {
        self.batch.refused.add(index, reason);
    }

    /// Understands what is at the beginning, and says how many octets that was; 0 where more must come.
    fn step(&mut self, rest: &[u8]) -> Result<usize, SessionError> {
        match self.state {
            State::Header(_) => self.header_line(rest),
            State::Text => self.text_line(rest),
            State::SkipLine => Ok(match memchr::memchr(b'\n', rest) {
                Some(end) => {
                    self.state = State::Text;
                    end + 1
                }
                None => rest.len(),
            }),
            State::Binary => self.packet(rest),
            State::SkipPacket(octets) => {
                let skipped = octets.min(rest.len());
                self.state = match octets - skipped {
                    0 => State::Binary,
                    more => State::SkipPacket(more),
                };
                Ok(skipped)
            }
            State::Resync => self.resync(rest),
        }
    }

    /// The index of the first line end in `rest`; searches each octet once.
    fn line_end(&mut self, rest: &[u8]) -> Option<usize> {
        let unseen = rest.get(self.scanned..).unwrap_or_default();
        let end = memchr::memchr(b'\n', unseen).map(|end| end + self.scanned);
        if end.is_none() {
            self.scanned = rest.len();
        }
        end
    }

    fn header_line(&mut self, rest: &[u8]) -> Result<usize, SessionError> {
        let end = self.line_end(rest);
        let so_far = self.header_octets + end.unwrap_or(rest.len());
        if so_far > HEADER_OCTETS_MAX {
            return Err(HeaderError::TooLong(HEADER_OCTETS_MAX).into());
        }
        let Some(end) = end else { return Ok(0) };
        self.header_octets = so_far + 1;
        let line = rest.get(..end).unwrap_or_default();
        let line = str::from_utf8(line).map_err(|_| HeaderError::NotUtf8)?;
        let State::Header(reader) = &mut self.state else {
            return Ok(0);
        };
        if !line.trim().is_empty() {
            reader.line(line)?;
            return Ok(end + 1);
        }
        let header = std::mem::take(reader.as_mut()).finish()?;
        self.state = match header.content {
            Encoding::Text => State::Text,
            Encoding::Binary => State::Binary,
        };
        if header.protocol >= 4 {
            self.define(0, Schema::metadata())?;
        }
        for (index, schema) in &header.schemas {
            self.define(*index, schema.clone())?;
        }
        self.header = Some(header);
        Ok(end + 1)
    }

    fn define(&mut self, index: u8, schema: Schema) -> Result<(), SessionError> {
        // The stream 0 is metadata since version 4, whatever a client says of it.
        let is_fixed = index == 0 && self.protocol() >= 4;
        let schema = if is_fixed { Schema::metadata() } else { schema };
        let place = usize::from(index);
        if self.streams.len() <= place {
            self.streams.resize(place + 1, None);
        }
        let Some(place) = self.streams.get_mut(place) else {
            return Ok(());
        };
        if place.as_ref().is_some_and(|(_, known)| *known == schema) {
            return Ok(());
        }
        self.defined_octets += schema.octets();
        if self.defined == DEFINITIONS_MAX || self.defined_octets > DEFINITIONS_OCTETS_MAX {
            return Err(SessionError::TooManyDefinitions);
        }
        let stream = self.defined;
        self.defined += 1;
        *place = Some((stream, schema.clone()));
        self.batch.definitions.push(Definition {
            stream,
            index,
            schema,
        });
        Ok(())
    }

    fn protocol(&self) -> u8 {
        self.header.as_ref().map_or(0, |header| header.protocol)
    }

    fn text_line(&mut self, rest: &[u8]) -> Result<usize, SessionError> {
        let Some(end) = self.line_end(rest) else {
            if rest.len() <= ROW_OCTETS_MAX {
                return Ok(0);
            }
            self.refuse(text_index(rest), Reason::TooLong);
            self.state = State::SkipLine;
            return Ok(rest.len());
        };
        let line = rest.get(..end).unwrap_or_default();
        if !line.is_empty() {
            self.text_row(line)?;
        }
        Ok(end + 1)
    }

    fn text_row(&mut self, octets: &[u8]) -> Result<(), SessionError> {
        // The stream is known also where a value is damaged.
        let index = text_index(octets);
        if octets.len() > ROW_OCTETS_MAX {
            self.refuse(index, Reason::TooLong);
            return Ok(());
        }
        if memchr::memchr(0, octets).is_some() {
            self.refuse(index, Reason::Nul);
            return Ok(());
        }
        let Ok(line) = str::from_utf8(octets) else {
            self.refuse(index, Reason::NotUtf8);
            return Ok(());
        };
        let Some((head, values)) = text::read_head(line) else {
            self.refuse(index, Reason::Head);
            return Ok(());
        };
        self.row(head, |rows, schema| text::read_values(rows, schema, values))
    }

    /// Takes a row whose head is readable.
    fn row(
        &mut self,
        head: RowHead,
        values: impl FnOnce(&mut Rows, &Schema) -> Result<(), Reason>,
    ) -> Result<(), SessionError> {
        let index = head.index;
        let Some(Some((stream, schema))) = self.streams.get(usize::from(index)) else {
            self.refuse(Some(index), Reason::UnknownStream);
            return Ok(());
        };
        let outcome = self
            .batch
            .rows
            .add(*stream, head.sequence, head.time_s, |rows| {
                values(rows, schema)
            });
        if let Err(reason) = outcome {
            self.refuse(Some(index), reason);
        } else if index == 0 && self.protocol() >= 4 {
            self.metadata()?;
        }
        Ok(())
    }

    /// The row that came last is on the stream 0: it may define another one, and what the header said is not said again.
    fn metadata(&mut self) -> Result<(), SessionError> {
        const HEADER_KEYS: [&str; 6] = [
            "domain",
            "protocol",
            "start-time",
            "sender-id",
            "app-name",
            "content",
        ];
        let Some((subject, key, value)) = self.batch.rows.last_texts() else {
            return Ok(());
        };
        if subject != "." {
            return Ok(());
        }
        if HEADER_KEYS.contains(&key) {
            self.batch.rows.pop();
        } else if key == "schema" {
            let definition = read_definition(value);
            self.batch.rows.pop();
            match definition {
                Ok((index, schema)) => self.define(index, schema)?,
                Err(_) => self.refuse(Some(0), Reason::Value),
            }
        }
        Ok(())
    }

    fn packet(&mut self, rest: &[u8]) -> Result<usize, SessionError> {
        if rest.is_empty() {
            return Ok(0);
        }
        let (head_octets, body_octets) = match binary::frame(rest) {
            Frame::Packet { head, body } => (head, body),
            Frame::Partial => return Ok(self.wait_for_more(rest, None)),
            Frame::Not => return Ok(self.lose_track(None)),
        };
        let end = head_octets.saturating_add(body_octets);
        let octets = rest.get(head_octets..end.min(rest.len()));
        let octets = octets.unwrap_or_default();
        let is_too_long = body_octets > ROW_OCTETS_MAX;
        // Skipped octets are looked at no further than they must be here in any case.
        let seen = match is_too_long {
            true => octets.get(..BODY_HEAD_OCTETS).unwrap_or(octets),
            false => octets,
        };
        let build = binary::build(seen, body_octets);
        let mut body = Body::new(octets);
        let head = body.head();
        let index = head.as_ref().ok().map(|(_, head)| head.index);
        match (build, head) {
            (Build::Wrong, _) => Ok(self.wrong_packet(rest, end, index)),
            (Build::Cut { has_head: false }, _) => Ok(self.wait_for_more(rest, index)),
            (Build::Whole | Build::Cut { .. }, _) if is_too_long => {
                self.refuse(index, Reason::TooLong);
                self.state = State::SkipPacket(end);
                self.step(rest)
            }
            (Build::Whole, Ok((count, head))) => {
                self.row(head, |rows, schema| body.values(rows, count, schema))?;
                Ok(end)
            }
            (Build::Whole | Build::Cut { .. }, _) => Ok(self.wait_for_more(rest, index)),
        }
    }

    /// Not all of a packet is here; at the session's end it was cut.
    fn wait_for_more(&mut self, rest: &[u8], index: Option<u8>) -> usize {
        if !self.has_ended {
            return 0;
        }
        self.refuse(index, Reason::Truncated);
        rest.len()
    }

    /// The values of a packet are not as long as it says. If another packet follows, or nothing, the values are wrong; else its length is, and
    /// there may be whole packets within.
    fn wrong_packet(&mut self, rest: &[u8], end: usize, index: Option<u8>) -> usize {
        let is_long = end > ROW_OCTETS_MAX;
        match rest.get(end..) {
            _ if is_long => self.lose_track(index),
            Some(after) if after.starts_with(&binary::SYNC) => {
                self.refuse(index, Reason::Packet);
                end
            }
            Some([]) if self.has_ended => {
                self.refuse(index, Reason::Packet);
                end
            }
            Some([_, _, ..]) => self.lose_track(index),
            _ if !self.has_ended => 0,
            _ => {
                self.salvages += 1;
                match self.salvages > SALVAGES_MAX {
                    true => self.wait_for_more(rest, index),
                    false => self.lose_track(index),
                }
            }
        }
    }

    /// No packet is here, or none of its length: looks for the next one.
    fn lose_track(&mut self, index: Option<u8>) -> usize {
        self.refuse(index, Reason::Packet);
        self.state = State::Resync;
        1
    }

    fn resync(&mut self, rest: &[u8]) -> Result<usize, SessionError> {
        match memchr::memmem::find(rest, &binary::SYNC) {
            Some(0) => {
                self.state = State::Binary;
                self.packet(rest)
            }
            Some(place) => {
                self.state = State::Binary;
                Ok(place)
            }
            // The last octet may be the first half.
            None if rest.ends_with(&binary::SYNC[..1]) => Ok(rest.len() - 1),
            None => Ok(rest.len()),
        }
    }
}

/// The index that the beginning of a line has.
fn text_index(line: &[u8]) -> Option<u8> {
    let index = line.split(|c| *c == b'\t').nth(1)?;
    str::from_utf8(index).ok()?.parse().ok()
}

/// Has room for so many octets more: by doubling, and not for much more than a row may be.
fn reserve(pending: &mut Vec<u8>, octets: usize) {
    let needed = pending.len() + octets;
    if needed > pending.capacity() {
        let doubled = (pending.capacity() * 2).min(ROW_OCTETS_MAX + BESIDE_OCTETS);
        pending.reserve_exact(doubled.max(needed) - pending.len());
    }
}

#[cfg(test)]
mod tests;
