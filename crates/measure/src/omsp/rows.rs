//! Rows as they wait for the database: no allocation a row, cells beside each other, texts in one arena.

use std::ops::Range;

/// A stream of one session, for as long as its definition holds.
pub type StreamKey = u32;

/// A cell of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value: a number that is none, the GUID 0.
    Null,
    /// An integer that fits 64 bits with a sign.
    Int(i64),
    /// An integer without a sign.
    Uint(u64),
    /// A number.
    Double(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(&'a str),
    /// Octets.
    Blob(&'a [u8]),
}

/// A cell whose text lies in the arena. Rows of one look at a session are far from 4 GiB.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Null,
    Int(i64),
    Uint(u64),
    Double(f64),
    Bool(bool),
    Text(Place),
    Blob(Place),
}

/// A place in an arena, and the length of the octets there.
type Place = (u32, u32);

fn place(start: usize, end: usize) -> Place {
    let short = |octets| u32::try_from(octets).unwrap_or(u32::MAX);
    (short(start), short(end - start))
}

fn range((start, length): Place) -> Range<usize> {
    let long = |octets| usize::try_from(octets).unwrap_or(usize::MAX);
    long(start)..long(start).saturating_add(long(length))
}

#[derive(Clone, Copy, Debug)]
struct Head {
    sequence: i64,
    time_s: f64,
    stream: StreamKey,
    cells: u32,
}

impl Head {
    fn first_cell(&self) -> usize {
        usize::try_from(self.cells).unwrap_or(usize::MAX)
    }
}

/// Rows of one session.
#[derive(Debug, Default)]
pub struct Rows {
    heads: Vec<Head>,
    cells: Vec<Kept>,
    texts: String,
    blobs: Vec<u8>,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The stream that it is of.
    pub stream: StreamKey,
    /// Its number within the stream, as the client counts.
    pub sequence: i64,
    /// Seconds since the client's start time.
    pub time_s: f64,
    rows: &'a Rows,
    start: usize,
    end: usize,
}

impl<'a> Row<'a> {
    /// The row's cells in the order of its fields.
    pub fn cells(&self) -> impl ExactSizeIterator<Item = Cell<'a>> + use<'a> {
        let rows = self.rows;
        let kept = rows.cells.get(self.start..self.end).unwrap_or_default();
        kept.iter().map(move |cell| rows.cell(*cell))
    }
}

impl Rows {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Memory that they take, octets.
    pub const fn octets(&self) -> usize {
        self.heads.capacity() * size_of::<Head>()
            + self.cells.capacity() * size_of::<Kept>()
            + self.texts.capacity()
            + self.blobs.capacity()
    }

    /// The row at a place.
    pub fn row(&self, place: usize) -> Option<Row<'_>> {
        let head = self.heads.get(place)?;
        let next = self.heads.get(place + 1);
        Some(Row {
            stream: head.stream,
            sequence: head.sequence,
            time_s: head.time_s,
            rows: self,
            start: head.first_cell(),
            end: next.map_or(self.cells.len(), Head::first_cell),
        })
    }

    /// All of them in their order.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> + '_ {
        (0..self.len()).filter_map(|place| self.row(place))
    }

    /// The first three cells of the last row, where they are texts.
    pub(super) fn last_texts(&self) -> Option<(&str, &str, &str)> {
        let row = self.row(self.len().checked_sub(1)?)?;
        let mut cells = row.cells();
        match (cells.next()?, cells.next()?, cells.next()?) {
            (Cell::Text(first), Cell::Text(second), Cell::Text(third)) => {
                Some((first, second, third))
            }
            _ => None,
        }
    }

    /// Takes the last row back; its texts stay in the arena until all go.
    pub(super) fn pop(&mut self) {
        if let Some(head) = self.heads.pop() {
            self.cells.truncate(head.first_cell());
        }
    }

    fn cell(&self, kept: Kept) -> Cell<'_> {
        match kept {
            Kept::Null => Cell::Null,
            Kept::Int(number) => Cell::Int(number),
            Kept::Uint(number) => Cell::Uint(number),
            Kept::Double(number) => Cell::Double(number),
            Kept::Bool(truth) => Cell::Bool(truth),
            Kept::Text(place) => Cell::Text(self.texts.get(range(place)).unwrap_or_default()),
            Kept::Blob(place) => Cell::Blob(self.blobs.get(range(place)).unwrap_or_default()),
        }
    }

    /// Begins a row; what `cells` then adds belongs to it, and where it fails nothing of it stays.
    pub(super) fn add<E>(
        &mut self,
        stream: StreamKey,
        sequence: i64,
        time_s: f64,
        cells: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let (start, texts, blobs) = (self.cells.len(), self.texts.len(), self.blobs.len());
        match cells(self) {
            Ok(()) => {
                self.heads.push(Head {
                    stream,
                    sequence,
                    time_s,
                    cells: u32::try_from(start).unwrap_or(u32::MAX),
                });
                Ok(())
            }
            Err(error) => {
                self.cells.truncate(start);
                self.texts.truncate(texts);
                self.blobs.truncate(blobs);
                Err(error)
            }
        }
    }

    pub(super) fn null(&mut self) {
        self.cells.push(Kept::Null);
    }

    pub(super) fn int(&mut self, number: i64) {
        self.cells.push(Kept::Int(number));
    }

    pub(super) fn uint(&mut self, number: u64) {
        self.cells.push(Kept::Uint(number));
    }

    pub(super) fn double(&mut self, number: f64) {
        self.cells.push(if number.is_nan() {
            Kept::Null
        } else {
            Kept::Double(number)
        });
    }

    pub(super) fn bool(&mut self, truth: bool) {
        self.cells.push(Kept::Bool(truth));
    }

    pub(super) fn guid(&mut self, guid: u64) {
        self.cells.push(if guid == 0 {
            Kept::Null
        } else {
            Kept::Uint(guid)
        });
    }

    /// A text in pieces, so that escapes can be undone without a copy of their own.
    pub(super) fn text<'p>(&mut self, pieces: impl Iterator<Item = &'p str>) {
        let start = self.texts.len();
        self.texts.extend(pieces);
        self.cells.push(Kept::Text(place(start, self.texts.len())));
    }

    pub(super) fn blob<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.blobs.len();
        write(&mut self.blobs)?;
        self.cells.push(Kept::Blob(place(start, self.blobs.len())));
        Ok(())
    }
}
