//! Files of many sizes, written and read: what the disk under a store does.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::Figure;
use super::tcp::forget;

/// Octets that are written or read at once.
const PIECE: usize = 64 << 10;

/// Files of one test, at most.
const FILES_MAX: u64 = 100_000;

/// A test of a disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Where files are made; they are removed at the end.
    pub directory: PathBuf,
    /// Octets of each file.
    pub file: u64,
    /// Octets of all files.
    pub octets: u64,
}

impl Disk {
    /// Writes the files, reads them from the disk, and reads them once more from memory.
    ///
    /// # Errors
    /// When the disk fails, or there would be too many files.
    pub fn run(&self) -> io::Result<Vec<Figure>> {
        let file = self.file.max(1);
        let count = self.octets.div_ceil(file);
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
        let of = |what: &str| format!("{what}, files of {words}");
        let piece = vec![0x5a; PIECE];
        let begin = Instant::now();
        for path in paths {
            write(path, file, &piece)?;
        }
        let cached = begin.elapsed().as_secs_f64();
        for path in paths {
            File::open(path)?.sync_all()?;
        }
        let written = begin.elapsed().as_secs_f64();
        for path in paths {
            forget(&File::open(path)?)?;
        }
        let read = read_all(paths)?;
        let again = read_all(paths)?;
        let delay = Figure {
            figure: of("delay of writing"),
            value: written,
            unit: "s".to_owned(),
        };
        Ok(vec![
            Figure::rate(of("write into memory"), octets, cached),
            Figure::rate(of("write"), octets, written),
            delay,
            Figure::rate(of("read"), octets, read),
            Figure::rate(of("read from memory"), octets, again),
        ])
    }
}

fn write(path: &Path, octets: u64, piece: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut left = octets;
    while left > 0 {
        let here = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        file.write_all(piece.get(..here).unwrap_or_default())?;
        left -= u64::try_from(here).unwrap_or(left);
    }
    Ok(())
}

fn read_all(paths: &[PathBuf]) -> io::Result<f64> {
    let mut piece = vec![0; PIECE];
    let begin = Instant::now();
    for path in paths {
        let mut file = File::open(path)?;
        while file.read(&mut piece)? > 0 {}
    }
    Ok(begin.elapsed().as_secs_f64())
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
            octets: 100_000,
        };
        let figures = disk.run().unwrap();
        let names: Vec<&str> = figures.iter().map(|it| it.figure.as_str()).collect();
        assert_eq!(
            names[1..3],
            ["write, files of 2 kB", "delay of writing, files of 2 kB"]
        );
        assert!(figures.iter().all(|it| it.value > 0.0), "{figures:?}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        let many = Disk {
            file: 1,
            octets: 1 << 40,
            ..disk
        };
        assert!(many.run().unwrap_err().to_string().contains("too many"));
    }
}
