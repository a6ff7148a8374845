//! The header before a file's octets: docs/folders.md, "Octets".

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dhow_bundle::cbor::{
    CborError, Reader, write_array, write_byte_string, write_text, write_unsigned,
};
use thiserror::Error;

use super::path::{PATH_OCTETS_MAX, PathRefusal, RelativePath};

/// The first item.
const MAGIC: &str = "dhow-folder";

/// Version of the format.
pub const VERSION: u64 = 1;

/// Octets of a header, at most.
pub const HEADER_OCTETS_MAX: usize = 4_199;

/// Largest sequence number and size: databases have a sign.
pub const NUMBER_MAX: u64 = (1 << 63) - 1;

/// Latest modification time, seconds: the end of the year 9999.
pub const SECONDS_MAX: u64 = 253_402_300_799;

/// Permission bits of a mode that an inbox sets.
pub const MODE_BITS: u16 = 0o777;

/// Largest mode: permissions, set-user-ID, set-group-ID and sticky bits.
const MODE_MAX: u64 = 0o7777;

/// Nanoseconds of a second.
const NANOSECONDS: u64 = 1_000_000_000;

/// Items of a header of each kind.
const FILE_ITEMS: u64 = 11;
const REMOVED_ITEMS: u64 = 6;

/// Kinds.
const FILE: u64 = 0;
const REMOVED: u64 = 1;

/// The identity of an outbox's database: 16 octets drawn when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderId(pub [u8; 16]);

/// A time of modification since 1970, of at most [`SECONDS_MAX`] seconds and less than 10^9 nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime {
    seconds: u64,
    nanoseconds: u32,
}

/// A header: a change of one path of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The outbox.
    pub folder: FolderId,
    /// Counts the changes that the outbox tells, at most [`NUMBER_MAX`]; of one path, the greatest is the newest.
    pub sequence: u64,
    /// The path that has changed.
    pub path: RelativePath,
    /// The change.
    pub change: Change,
}

/// The change of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// There is a file, whose octets follow.
    File(FileHead),
    /// There is no file any more.
    Removed,
}

/// A file, without its octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHead {
    /// Its size, octets, at most [`NUMBER_MAX`].
    pub octets: u64,
    /// Its time of modification.
    pub modified: FileTime,
    /// Its permissions, at most 0o7777.
    pub mode: u16,
    /// The SHA-256 of its octets.
    pub sha256: [u8; 32],
}

/// Why octets are no header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeaderRefusal {
    /// The payload begins otherwise.
    #[error("the payload is not a file of an outbox")]
    NoHeader,
    /// Another version of the format.
    #[error("the header has version {0}, and {VERSION} is known")]
    Version(u64),
    /// An unknown kind of change.
    #[error("the header has the unknown kind {0}")]
    Kind(u64),
    /// A path that breaks a rule.
    #[error("{0}")]
    Path(#[from] PathRefusal),
    /// A number above its bound.
    #[error("the header has {value} as {name}, and {most} is the most")]
    Number {
        /// The item.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The largest value.
        most: u64,
    },
    /// A byte string of another length than its item has.
    #[error("the header has a {name} of {octets} octets")]
    Length {
        /// The item.
        name: &'static str,
        /// Octets of its string.
        octets: usize,
    },
    /// An item that is not as required.
    #[error("the header is malformed: {0}")]
    Cbor(#[from] CborError),
}

impl FileTime {
    /// The beginning of 1970, UTC.
    pub const EPOCH: Self = Self {
        seconds: 0,
        nanoseconds: 0,
    };

    /// A time; one out of range becomes the nearest time that is not.
    #[must_use]
    pub fn clamped(seconds: i64, nanoseconds: u32) -> Self {
        match u64::try_from(seconds) {
            Err(_) => Self::EPOCH,
            Ok(seconds) => Self {
                seconds: seconds.min(SECONDS_MAX),
                nanoseconds: nanoseconds.min(999_999_999),
            },
        }
    }

    /// Whole seconds since 1970.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.seconds
    }

    /// The rest of it, nanoseconds.
    #[must_use]
    pub const fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }

    /// The time as the system has it.
    #[must_use]
    pub fn system(self) -> SystemTime {
        UNIX_EPOCH + Duration::new(self.seconds, self.nanoseconds)
    }
}

impl Header {
    /// Its octets.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let (items, kind) = match self.change {
            Change::File(_) => (FILE_ITEMS, FILE),
            Change::Removed => (REMOVED_ITEMS, REMOVED),
        };
        write_array(&mut out, items);
        write_text(&mut out, MAGIC);
        write_unsigned(&mut out, VERSION);
        write_unsigned(&mut out, kind);
        write_byte_string(&mut out, &self.folder.0);
        write_unsigned(&mut out, self.sequence);
        write_text(&mut out, self.path.as_str());
        if let Change::File(file) = &self.change {
            write_unsigned(&mut out, file.octets);
            write_unsigned(&mut out, file.modified.seconds);
            write_unsigned(&mut out, file.modified.nanoseconds.into());
            write_unsigned(&mut out, file.mode.into());
            write_byte_string(&mut out, &file.sha256);
        }
        out
    }

    /// Reads the header at the beginning of a payload, of which [`HEADER_OCTETS_MAX`] octets or all have to be there, and returns its length too.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn decode(octets: &[u8]) -> Result<(Self, usize), HeaderRefusal> {
        let mut reader = Reader::new(octets);
        let no_header = |_| HeaderRefusal::NoHeader;
        let items = reader.array().map_err(no_header)?.left();
        if text(&mut reader, MAGIC.len()).map_err(no_header)? != MAGIC {
            return Err(HeaderRefusal::NoHeader);
        }
        match reader.unsigned()? {
            VERSION => {}
            version => return Err(HeaderRefusal::Version(version)),
        }
        let kind = reader.unsigned()?;
        let expected = match kind {
            FILE => FILE_ITEMS,
            REMOVED => REMOVED_ITEMS,
            _ => return Err(HeaderRefusal::Kind(kind)),
        };
        if items != Some(expected) {
            return Err(CborError::ArrayLength { at: 0 }.into());
        }
        let folder = FolderId(fixed(&mut reader, "folder")?);
        let sequence = bounded(&mut reader, "sequence number", NUMBER_MAX)?;
        let path = RelativePath::new(&text(&mut reader, PATH_OCTETS_MAX)?)?;
        let change = match kind {
            FILE => Change::File(FileHead::read(&mut reader)?),
            _ => Change::Removed,
        };
        let header = Self {
            folder,
            sequence,
            path,
            change,
        };
        Ok((header, reader.position()))
    }
}

impl FileHead {
    fn read(reader: &mut Reader<'_>) -> Result<Self, HeaderRefusal> {
        let octets = bounded(reader, "size", NUMBER_MAX)?;
        let seconds = bounded(reader, "seconds", SECONDS_MAX)?;
        let nanoseconds = bounded(reader, "nanoseconds", NANOSECONDS - 1)?;
        let mode = bounded(reader, "mode", MODE_MAX)?;
        Ok(Self {
            octets,
            modified: FileTime {
                seconds,
                nanoseconds: u32::try_from(nanoseconds).unwrap_or_default(),
            },
            mode: u16::try_from(mode).unwrap_or_default(),
            sha256: fixed(reader, "digest")?,
        })
    }
}

/// A text string of definite length.
fn text<'a>(reader: &mut Reader<'a>, most: usize) -> Result<Cow<'a, str>, CborError> {
    let at = u64::try_from(reader.position()).unwrap_or(u64::MAX);
    match reader.text(u64::try_from(most).unwrap_or(u64::MAX))? {
        // The reader puts together what comes in chunks.
        Cow::Owned(_) => Err(CborError::Indefinite { at }),
        borrowed => Ok(borrowed),
    }
}

fn fixed<const N: usize>(
    reader: &mut Reader<'_>,
    name: &'static str,
) -> Result<[u8; N], HeaderRefusal> {
    let octets = reader.byte_string()?;
    octets.try_into().map_err(|_| HeaderRefusal::Length {
        name,
        octets: octets.len(),
    })
}

fn bounded(reader: &mut Reader<'_>, name: &'static str, most: u64) -> Result<u64, HeaderRefusal> {
    match reader.unsigned()? {
        value if value > most => Err(HeaderRefusal::Number { name, value, most }),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn folder() -> FolderId {
        FolderId(std::array::from_fn(|at| u8::try_from(at).unwrap()))
    }

    fn removed(path: &str) -> Header {
        Header {
            folder: folder(),
            sequence: 7,
            path: RelativePath::new(path).unwrap(),
            change: Change::Removed,
        }
    }

    fn file(path: &str) -> Header {
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digit = |at: usize| u8::from_str_radix(&sha256[at * 2..at * 2 + 2], 16).unwrap();
        Header {
            change: Change::File(FileHead {
                octets: 3,
                modified: FileTime::clamped(1_767_225_600, 500_000_000),
                mode: 0o644,
                sha256: std::array::from_fn(digit),
            }),
            ..removed(path)
        }
    }

    fn octets(hexadecimal: &str) -> Vec<u8> {
        let digits: Vec<char> = hexadecimal.chars().filter(|it| *it != ' ').collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap())
            .collect()
    }

    /// The example of docs/folders.md.
    #[test]
    fn the_example_of_the_document_is_what_is_written_and_read() {
        let golden = octets(
            "8b 6b 64686f772d666f6c646572 01 00 50 000102030405060708090a0b0c0d0e0f 07 67 612f622e747874 \
             03 1a 6955b900 1a 1dcd6500 19 01a4 58 20 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        );
        assert_eq!(file("a/b.txt").encode(), golden);
        let payload = [&golden[..], b"abc"].concat();
        assert_eq!(
            Header::decode(&payload),
            Ok((file("a/b.txt"), golden.len()))
        );
    }

    #[test]
    fn the_longest_header_has_the_octets_that_are_read_for_it() {
        let name = "n".repeat(super::super::NAME_OCTETS_MAX);
        let mut header = file(&vec![name.as_str(); 16].join("/"));
        header.sequence = NUMBER_MAX;
        header.change = Change::File(FileHead {
            octets: NUMBER_MAX,
            modified: FileTime::clamped(i64::MAX, u32::MAX),
            mode: 0o7777,
            sha256: [0xff; 32],
        });
        let written = header.encode();
        assert_eq!(written.len(), HEADER_OCTETS_MAX);
        assert_eq!(Header::decode(&written), Ok((header, HEADER_OCTETS_MAX)));
    }

    #[test]
    fn no_part_of_a_header_is_a_header() {
        let written = file("a/b.txt").encode();
        for length in 0..written.len() {
            assert!(Header::decode(&written[..length]).is_err(), "{length}");
        }
    }

    /// A removal of `a` with one item replaced.
    fn with(item: usize, instead: &str) -> Result<(Header, usize), HeaderRefusal> {
        let mut items = [
            "86",
            "6b 64686f772d666f6c646572",
            "01",
            "01",
            "50 000102030405060708090a0b0c0d0e0f",
            "07",
            "61 61",
        ];
        items[item] = instead;
        Header::decode(&octets(&items.concat()))
    }

    #[test]
    fn each_item_is_refused_where_it_breaks_its_rule() {
        assert_eq!(with(0, "86").unwrap().0, removed("a"));
        for (item, instead) in [(0, "a6"), (0, "00"), (1, "61 61"), (1, "01")] {
            assert_eq!(with(item, instead), Err(HeaderRefusal::NoHeader));
        }
        assert_eq!(with(2, "02"), Err(HeaderRefusal::Version(2)));
        assert_eq!(with(3, "02"), Err(HeaderRefusal::Kind(2)));
        for (item, instead) in [
            (0, "85"),
            (0, "9f"),
            (0, "8b"),
            (2, "1801"),
            (3, "00"),
            (5, "20"),
            (6, "7f 61 61 ff"),
            (6, "61 ff"),
        ] {
            assert!(
                matches!(with(item, instead), Err(HeaderRefusal::Cbor(_))),
                "{instead}"
            );
        }
        assert_eq!(
            with(4, "41 00"),
            Err(HeaderRefusal::Length {
                name: "folder",
                octets: 1
            })
        );
        assert_eq!(
            with(5, "1b 8000000000000000"),
            Err(HeaderRefusal::Number {
                name: "sequence number",
                value: 1 << 63,
                most: NUMBER_MAX
            })
        );
        assert_eq!(
            with(6, "62 2e2e"),
            Err(HeaderRefusal::Path(PathRefusal::Dots("..")))
        );
    }

    #[test]
    fn numbers_of_a_file_are_refused_one_past_their_bounds() {
        let head =
            "8b 6b 64686f772d666f6c646572 01 00 50 000102030405060708090a0b0c0d0e0f 07 61 61";
        let digest = format!("5820{}", "00".repeat(32));
        for (numbers, name) in [
            ("1b8000000000000000 00 00 00", "size"),
            ("00 1b0000003afff44180 00 00", "seconds"),
            ("00 00 1a3b9aca00 00", "nanoseconds"),
            ("00 00 00 191000", "mode"),
        ] {
            match Header::decode(&octets(&format!("{head}{numbers}{digest}"))) {
                Err(HeaderRefusal::Number { name: found, .. }) => assert_eq!(found, name),
                other => panic!("{name}: {other:?}"),
            }
        }
        let most = "1b7fffffffffffffff 1b0000003afff4417f 1a3b9ac9ff 190fff";
        assert!(Header::decode(&octets(&format!("{head}{most}{digest}"))).is_ok());
    }

    #[test]
    fn times_out_of_range_become_the_nearest() {
        assert_eq!(FileTime::clamped(-5, 7), FileTime::clamped(0, 0));
        assert_eq!(FileTime::clamped(i64::MAX, 0).seconds(), SECONDS_MAX);
        let time = FileTime::clamped(5, 7).system();
        assert_eq!(
            time.duration_since(UNIX_EPOCH).unwrap(),
            Duration::new(5, 7)
        );
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(
            folder: [u8; 16],
            sequence in 0..=NUMBER_MAX,
            path in "[a-z ä.]{1,20}x(/[a-zé.]{1,9}y){0,5}",
            file in prop::option::of((0..=NUMBER_MAX, 0..=i64::MAX, 0..1_000_000_000_u32, 0..=0o7777_u16, any::<[u8; 32]>())),
            content: Vec<u8>,
        ) {
            let change = match file {
                None => Change::Removed,
                Some((octets, seconds, nanoseconds, mode, sha256)) => Change::File(FileHead {
                    octets,
                    modified: FileTime::clamped(seconds, nanoseconds),
                    mode,
                    sha256,
                }),
            };
            let header = Header { folder: FolderId(folder), sequence, path: RelativePath::new(&path).unwrap(), change };
            let written = header.encode();
            let payload = [&written[..], &content].concat();
            prop_assert_eq!(Header::decode(&payload), Ok((header, written.len())));
        }

        #[test]
        fn any_octets_behind_a_good_beginning_are_read_or_refused(rest: Vec<u8>) {
            let _ = super::super::oracle::check_header(&rest);
            let begun = [&octets("8b 6b 64686f772d666f6c646572 01 00 50 000102030405060708090a0b0c0d0e0f 07")[..], &rest].concat();
            let _ = super::super::oracle::check_header(&begun);
        }
    }
}
