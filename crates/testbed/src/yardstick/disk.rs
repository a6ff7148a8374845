//! Files of many sizes, written and read: the rate of the disk under a store.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::OFlags;

use super::Figure;
use super::tcp::forget;

/// Octets that are written or read at once.
const PIECE: usize = 64 << 10;

/// Files of one test, at most.
const FILES_MAX: u64 = 100_000;

/// The multiple at which octets and places of files begin and end that go past the page cache.
const BLOCK: usize = 4_096;

/// A test of a disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The directory in which files are made; they are removed at the end.
    pub directory: PathBuf,
    /// Octets of each file.
    pub file: u64,
    /// The number of files.
    pub amount: Amount,
    /// The way to the disk.
    pub way: WritePath,
    /// True if figures are named with the size of files: there are others.
    pub named: bool,
}

/// The number of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The number of files that have so many octets.
    Octets(u64),
    /// So many.
    Files(u64),
}

/// The way of octets to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePath {
    /// Through the page cache.
    Cached,
    /// Past it, in whole blocks of 4096 octets.
    Direct,
}

impl Disk {
    /// Writes files of random octets, reads them from the disk, and reads them once more: through the page cache from memory.
    ///
    /// # Errors
    /// When the disk fails, or there would be too many files.
    pub fn run(&self) -> io::Result<Vec<Figure>> {
        let file = self.file.max(1);
        let count = match self.amount {
            Amount::Octets(octets) => octets.div_ceil(file),
            Amount::Files(count) => count,
        };
        if count > FILES_MAX {
            let what = format!("{count} files are too many: at most {FILES_MAX}");
            return Err(io::Error::other(what));
        }
        let place = self.directory.join(format!("files-of-{file}"));
        fs::create_dir_all(&place)?;
        let paths: Vec<PathBuf> = (0..count)
            .map(|number| place.join(number.to_string()))
            .collect();
        let figures = self.measure(&paths, file);
        fs::remove_dir_all(&place)?;
        figures
    }

    fn measure(&self, paths: &[PathBuf], file: u64) -> io::Result<Vec<Figure>> {
        let octets = file * u64::try_from(paths.len()).unwrap_or(0);
        let words = dhow_page::quantity::size(file).replace(".0 ", " ");
        let of = |what: &str| match self.named {
            true => format!("{what}, files of {words}"),
            false => what.to_owned(),
        };
        let source = random();
        let begin = Instant::now();
        for path in paths {
            self.write(path, file, &source)?;
        }
        let cached = begin.elapsed().as_secs_f64();
        for path in paths {
            File::open(path)?.sync_all()?;
        }
        let written = begin.elapsed().as_secs_f64();
        for path in paths {
            forget(&File::open(path)?)?;
        }
        let delay = Figure {
            figure: of("delay of writing"),
            value: written,
            unit: "s".to_owned(),
        };
        let read = self.read(paths)?;
        let mut figures = vec![
            Figure::rate(of("write"), octets, written),
            delay,
            Figure::rate(of("read"), octets, read),
        ];
        if self.way == WritePath::Cached {
            let again = self.read(paths)?;
            figures.push(Figure::rate(of("read from memory"), octets, again));
            figures.push(Figure::rate(of("write into memory"), octets, cached));
        }
        Ok(figures)
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        if self.way == WritePath::Direct {
            options.custom_flags(i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0));
        }
        options
    }

    fn write(&self, path: &Path, octets: u64, source: &[u8]) -> io::Result<()> {
        let mut options = self.options();
        let mut file = options.write(true).create(true).truncate(true).open(path)?;
        let source = aligned(source);
        let (mut left, mut from) = (octets, 0);
        while left > 0 {
            let here = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let written = match self.way {
                WritePath::Cached => here,
                WritePath::Direct => here.next_multiple_of(BLOCK),
            };
            // No two pieces in a row are the same.
            from = (from + BLOCK) % (SOURCE - PIECE);
            file.write_all(source.get(from..from + written).unwrap_or_default())?;
            left -= u64::try_from(here).unwrap_or(left);
        }
        Ok(())
    }

    /// Reads all files, and says how long that took: seconds.
    fn read(&self, paths: &[PathBuf]) -> io::Result<f64> {
        let mut piece = vec![0; PIECE + BLOCK];
        let start = piece.as_ptr().align_offset(BLOCK);
        let piece = piece.get_mut(start..start + PIECE).unwrap_or_default();
        let begin = Instant::now();
        for path in paths {
            let mut file = self.options().read(true).open(path)?;
            while file.read(piece)? > 0 {}
        }
        Ok(begin.elapsed().as_secs_f64())
    }
}

/// Octets that files are written from.
const SOURCE: usize = 1 << 20;

/// Random octets, which no disk makes smaller, with room to begin at a whole block.
fn random() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let numbers = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    });
    numbers.flatten().take(SOURCE + BLOCK).collect()
}

/// The octets from the first on whose address in memory is that of a whole block.
fn aligned(octets: &[u8]) -> &[u8] {
    let start = octets.as_ptr().align_offset(BLOCK);
    octets.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_written_and_read_and_left_as_it_was() {
        let place = tempfile::tempdir().unwrap();
        let disk = Disk {
            directory: place.path().to_path_buf(),
            file: 2_000,
            amount: Amount::Octets(100_000),
            way: WritePath::Cached,
            named: true,
        };
        let names = |disk: &Disk| {
            let figures = disk.run().unwrap();
            assert!(figures.iter().all(|it| it.value > 0.0), "{figures:?}");
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
            let names = figures.into_iter().map(|it| it.figure);
            names.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(
            names(&disk),
            "write, files of 2 kB; delay of writing, files of 2 kB; read, files of 2 kB; read from memory, files of 2 kB; write into memory, files of 2 kB"
        );
        let three = Disk {
            amount: Amount::Files(3),
            named: false,
            ..disk.clone()
        };
        let all = "write; delay of writing; read; read from memory; write into memory";
        assert_eq!(names(&three), all);
        let many = Disk {
            file: 1,
            amount: Amount::Octets(1 << 40),
            ..disk
        };
        assert!(many.run().unwrap_err().to_string().contains("too many"));
    }
}
