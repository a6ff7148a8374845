//! A client's session from its octets: header, definitions of streams, rows; what cannot be a row is counted and skipped.

use std::str;

use super::ROW_OCTETS_MAX;
use super::binary::{self, Body, Frame};
use super::header::{Encoding, Header, HeaderError, Reader, SCHEMAS_MAX, read_definition};
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

/// Packets that are looked for within the one that a session's end cut.
const SALVAGES_MAX: usize = 16;

/// What a session said since the last look.
#[derive(Debug, Default)]
pub struct Batch {
    /// Streams that were defined, before any of their rows.
    pub definitions: Vec<Definition>,
    /// Rows in their order.
    pub rows: Rows,
    /// What was refused.
    pub refused: Tally,
}

impl Batch {
    /// True where nothing was said.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty() && self.rows.is_empty() && self.refused.is_empty()
    }
}

/// A stream of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// What rows name it by.
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
    /// What is no packet is skipped to the next beginning of one.
    Resync,
}

/// Reads one session. It holds at most one row ([`ROW_OCTETS_MAX`]) and what was fed last.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// What was fed and not understood yet.
    pending: Vec<u8>,
    /// Octets of `pending` in which no line ends.
    scanned: usize,
    header_octets: usize,
    header: Option<Header>,
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
            streams: vec![None; SCHEMAS_MAX],
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

    /// What was said since the last call.
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

    /// Takes octets as they came.
    ///
    /// # Errors
    /// The header is refused, or streams are defined without end: the session is to be ended.
    pub fn feed(&mut self, octets: &[u8]) -> Result<(), SessionError> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(octets);
        let mut at = 0;
        loop {
            let rest = pending.get(at..).unwrap_or_default();
            match self.step(rest)? {
                0 => break,
                taken => {
                    at += taken;
                    self.scanned = 0;
                }
            }
        }
        pending.drain(..at);
        self.pending = pending;
        Ok(())
    }

    /// The session has ended: what was cut is counted.
    pub fn finish(&mut self) {
        if matches!(self.state, State::Text) && !self.pending.is_empty() {
            self.refuse(None, Reason::Truncated);
        }
        // The length of the packet that is not complete may be what is wrong: there may be whole ones within.
        for _ in 0..SALVAGES_MAX {
            if !matches!(self.state, State::Binary) || self.pending.is_empty() {
                break;
            }
            self.refuse(None, Reason::Truncated);
            self.state = State::Resync;
            self.pending.drain(..1);
            if self.feed(&[]).is_err() {
                break;
            }
        }
        self.pending.clear();
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
            State::Resync => self.resync(rest),
        }
    }

    /// Where the first line ends; looks at every octet once.
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
        let Some(place) = self.streams.get_mut(usize::from(index)) else {
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
            self.refuse(None, Reason::TooLong);
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
        let index = octets
            .split(|c| *c == b'\t')
            .nth(1)
            .and_then(|index| str::from_utf8(index).ok()?.parse().ok());
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
        let (head_octets, body_octets) = match binary::frame(rest, ROW_OCTETS_MAX) {
            Frame::Partial => return Ok(0),
            Frame::Whole { head, body } => (head, body),
            Frame::Not(reason) => {
                self.refuse(None, reason);
                self.state = State::Resync;
                return Ok(1);
            }
        };
        let end = head_octets + body_octets;
        let octets = rest.get(head_octets..end).unwrap_or_default();
        let mut body = Body::new(octets);
        let head = body.head();
        let whole = head.is_ok_and(|(count, _)| {
            let mut checked = Body::new(octets);
            checked.head().is_ok() && checked.check(count).is_ok()
        });
        match head {
            Ok((count, head)) if whole => {
                self.row(head, |rows, schema| body.values(rows, count, schema))?;
                Ok(end)
            }
            // Its length cannot be believed either.
            _ => {
                self.refuse(head.ok().map(|(_, head)| head.index), Reason::Packet);
                self.state = State::Resync;
                Ok(1)
            }
        }
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

#[cfg(test)]
mod tests {
    use super::super::rows::Cell;
    use super::*;

    const TEXT: &[u8] = include_bytes!("../../tests/data/otg-text.omsp");
    const BINARY: &[u8] = include_bytes!("../../tests/data/otg-binary.omsp");
    const FILTERS: &[u8] = include_bytes!("../../tests/data/otg-filters-text.omsp");

    type Refused = Vec<(Option<u8>, Reason, u64)>;

    /// Rows by index, and what was refused.
    fn read(octets: &[u8], piece: usize) -> (Vec<usize>, Refused) {
        let mut decoder = Decoder::default();
        for piece in octets.chunks(piece) {
            decoder.feed(piece).unwrap();
        }
        decoder.finish();
        let batch = decoder.take();
        let mut counts = vec![0; 4];
        for row in batch.rows.iter() {
            let defined = batch.definitions.iter().find(|d| d.stream == row.stream);
            counts[usize::from(defined.unwrap().index)] += 1;
        }
        (counts, batch.refused.iter().collect())
    }

    #[test]
    fn recorded_sessions_are_read_in_pieces_of_any_size() {
        for piece in [1, 7, 100, usize::MAX] {
            assert_eq!(
                read(TEXT, piece),
                (vec![6, 3, 19, 0], vec![(Some(2), Reason::Nul, 1)])
            );
            assert_eq!(read(BINARY, piece), (vec![4, 0, 15, 0], vec![]));
            assert_eq!(read(FILTERS, piece), (vec![0, 4, 3, 0], vec![]));
        }
    }

    const HEADER: &str = "protocol: 5\ndomain: d\nstart-time: 1\nsender-id: s\napp-name: a\nschema: 1 a_p x:int32 y:string \n";

    fn text(rows: &str) -> (Vec<usize>, Refused) {
        read(format!("{HEADER}\n{rows}").as_bytes(), usize::MAX)
    }

    #[test]
    fn a_bad_line_is_counted_and_the_lines_after_it_are_kept() {
        let long = "y".repeat(ROW_OCTETS_MAX);
        let rows = format!(
            "0.1\t1\t1\t5\ta\nrubbish\n\n0.1\t9\t1\t5\n0.1\t1\t2\t0x10\ta\n0.1\t1\t3\t5\n0.1\t1\t4\t5\t{long}\n0.2\t1\t5\t6\tb\n0.3\t1\t6"
        );
        let (counts, refused) = text(&rows);
        assert_eq!(counts[1], 2);
        assert_eq!(
            refused,
            [
                (None, Reason::Head, 1),
                (None, Reason::Truncated, 1),
                (Some(1), Reason::FieldCount, 1),
                (Some(1), Reason::Value, 1),
                (Some(1), Reason::TooLong, 1),
                (Some(9), Reason::UnknownStream, 1),
            ]
        );
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut decoder = Decoder::default();
        decoder.feed(format!("{HEADER}\n").as_bytes()).unwrap();
        for _ in 0..100 {
            decoder.feed(&[b'x'; 65536]).unwrap();
            assert!(decoder.pending.len() <= ROW_OCTETS_MAX);
        }
        decoder.feed(b"\n0.1\t1\t1\t5\ta\n").unwrap();
        let batch = decoder.take();
        assert_eq!((batch.rows.len(), batch.refused.total()), (1, 1));
    }

    #[test]
    fn a_stream_may_be_defined_after_the_header_and_anew() {
        let rows = "0.1\t0\t1\t.\tschema\t2 a_late z:double\n0.2\t2\t1\t1.5\n0.3\t0\t2\t.\tschema\t2 a_late z:bool\n0.4\t2\t2\tT\n\
            0.5\t0\t3\t.\tdomain\tother\n0.6\t0\t4\t.a_p.x\tunit\tm\n";
        let (counts, refused) = text(rows);
        assert_eq!((counts, refused), (vec![1, 0, 2, 0], vec![]));
    }

    #[test]
    fn streams_defined_without_end_end_the_session_before_they_take_much_memory() {
        let mut decoder = Decoder::default();
        decoder.feed(format!("{HEADER}\n").as_bytes()).unwrap();
        let defined = (0..DEFINITIONS_MAX).take_while(|number| {
            let fields: String = (0..128)
                .map(|f| format!(" a_long_name_{number}_{f}:int32"))
                .collect();
            let row = format!("0.1\t0\t1\t.\tschema\t2 a_late{fields}\n");
            decoder.feed(row.as_bytes()).is_ok()
        });
        assert!((100..300).contains(&defined.count()));
    }

    #[test]
    fn packets_are_found_again_after_junk_and_within_a_wrong_length() {
        let start = BINARY
            .windows(3)
            .position(|w| w == [0xAA, 0xAA, 1])
            .unwrap();
        let (header, packets) = BINARY.split_at(start);
        let good = read(BINARY, usize::MAX).0;
        let junk = [header, b"junk\xAA\xAA\x01\x00", packets].concat();
        let (counts, refused) = read(&junk, usize::MAX);
        assert_eq!(counts, good);
        assert!(!refused.is_empty());
        // A length that reaches past the end swallows nothing but its own packet.
        let mut wrong = BINARY.to_vec();
        wrong[start + 3] = 0xFF;
        let (counts, refused) = read(&wrong, 10);
        assert_eq!(counts, [good[0] - 1, good[1], good[2], good[3]]);
        assert_eq!(refused, [(None, Reason::Truncated, 1)]);
    }

    #[test]
    fn a_header_that_cannot_be_is_refused() {
        for (from, to) in [
            ("protocol: 5", "protocol: 6"),
            ("protocol: 5", "protocol: 0"),
            ("domain: d", "domain: ../../x"),
            ("domain: d", "domain: /etc/x"),
            ("domain: d", "domain: .hidden"),
            ("domain: d\n", ""),
            ("app-name: a", "app-name"),
            ("app-name: a", "app-name: a\0b"),
            ("app-name: a", &format!("app-name: {}", "a".repeat(129))),
            ("content: text", "content: morse"),
            ("1 a_p", "1 a-lin"),
            ("1 a_p", "256 a_p"),
            ("x:int32", "x:int33"),
        ] {
            let header = format!("{HEADER}content: text\n\n").replace(from, to);
            assert!(Decoder::default().feed(header.as_bytes()).is_err(), "{to}");
        }
        let old = "protocol: 1\nexperiment-id: d\nstart_time: 1\nsender-id: s\nsomething: new\nschema: 1 a x:long\n\n0.1\t1\t1\t-5\n";
        let mut decoder = Decoder::default();
        decoder.feed(old.as_bytes()).unwrap();
        let batch = decoder.take();
        let cells: Vec<Cell<'_>> = batch.rows.row(0).unwrap().cells().collect();
        assert_eq!(cells, [Cell::Int(-5)]);
    }
}
