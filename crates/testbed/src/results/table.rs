//! Files of results as they are read: a directory of results may be anybody's, and any of its names may be a pipe, a device, or a file without an end.

use std::io::{self, Read};
use std::path::Path;

use dhow_scenario::regular_file::RegularFile;

/// Octets of a table, at most: one of ten million payloads has less than a quarter of it.
const TABLE_OCTETS_MAX: u64 = 4 << 30;

/// Octets from one line end of a table to the next, at most: names of nodes and programs are far shorter.
const LINE_OCTETS_MAX: usize = 1 << 20;

/// Octets of a file that is read whole, at most: the manifest of as many runs as a study may have has less.
pub(crate) const TEXT_OCTETS_MAX: u64 = 512 << 20;

/// A table as it is read.
pub(crate) type Table = csv::Reader<Lines<RegularFile>>;

/// Opens a table, and reads its headings: rows that are read without them are none where these cannot be read.
///
/// # Errors
/// When there is none, it is no regular file, or it is longer than one may be.
pub(crate) fn open(path: &Path) -> io::Result<Table> {
    let file = RegularFile::open(path, TABLE_OCTETS_MAX)?;
    let mut table = csv::Reader::from_reader(Lines::new(file));
    table.headers()?;
    Ok(table)
}

/// Octets with line ends among them.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    inner: R,
    /// Octets since the last line end.
    since: usize,
}

impl<R> Lines<R> {
    pub(crate) const fn new(inner: R) -> Self {
        Self { inner, since: 0 }
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let octets = self.inner.read(buffer)?;
        for line in buffer.iter().take(octets).map(|octet| *octet == b'\n') {
            self.since = if line { 0 } else { self.since + 1 };
            if self.since > LINE_OCTETS_MAX {
                let what = format!("a line has more than {LINE_OCTETS_MAX} octets");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        Ok(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(octets: Vec<u8>) -> io::Result<usize> {
        Lines::new(octets.as_slice()).read_to_end(&mut Vec::new())
    }

    #[test]
    fn a_line_is_as_long_as_it_may_be_and_not_longer() {
        let line = [vec![b'x'; LINE_OCTETS_MAX], b"\n".to_vec()].concat();
        assert_eq!(read(line.repeat(3)).unwrap(), line.len() * 3);
        let longer = [line.clone(), vec![b'x'], line].concat();
        let error = read(longer).unwrap_err();
        assert!(error.to_string().starts_with("a line has more than"));
    }
}
