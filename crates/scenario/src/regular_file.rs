//! Files that somebody names, of which nothing but a regular one is read, and no more than it may have.
//!
//! A pipe or a socket may keep a reader for ever, and a device has no end. So they are refused before they are opened.

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// A regular file that ends with an error where it has more than it may.
#[derive(Debug)]
pub struct RegularFile {
    file: File,
    /// Octets that it may have.
    most: u64,
    read: u64,
}

impl RegularFile {
    /// Opens a file of at most so many octets.
    ///
    /// # Errors
    /// When there is none, it is no regular file, or it is longer.
    pub fn open(path: &Path, most: u64) -> io::Result<Self> {
        check(&fs::metadata(path)?, most)?;
        let file = File::open(path)?;
        // It may be another by now.
        check(&file.metadata()?, most)?;
        let read = 0;
        Ok(Self { file, most, read })
    }
}

impl Read for RegularFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let octets = self.file.read(buffer)?;
        self.read += u64::try_from(octets).unwrap_or(u64::MAX);
        match self.read > self.most {
            true => Err(too_long(self.most)),
            false => Ok(octets),
        }
    }
}

/// The text of a regular file of at most so many octets.
///
/// # Errors
/// When there is none, it is no regular file, longer, or no text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    RegularFile::open(path, most)?.read_to_string(&mut text)?;
    Ok(text)
}

fn check(it: &Metadata, most: u64) -> io::Result<()> {
    if let Some(kind) = irregular(it.file_type()) {
        let what = format!("it is {kind}, and only regular files are read");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    match it.len() > most {
        true => Err(too_long(most)),
        false => Ok(()),
    }
}

/// The name of what is no regular file.
fn irregular(kind: FileType) -> Option<&'static str> {
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

fn too_long(most: u64) -> io::Error {
    let what = format!("it has more than {most} octets, which are the most that are read");
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn refused(path: &Path, most: u64) -> String {
        read_text(path, most).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_regular_file_is_refused_by_its_name() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for (path, kind) in [
            (place.path(), "a directory"),
            (&socket, "a socket"),
            (&link, "a device"),
        ] {
            let what = format!("it is {kind}, and only regular files are read");
            assert_eq!(refused(path, 100), what);
        }
    }

    #[test]
    fn a_file_has_as_many_octets_as_it_may_and_not_one_more() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        for text in ["", "1234"] {
            fs::write(&path, text).unwrap();
            assert_eq!(read_text(&path, 4).unwrap(), text);
        }
        fs::write(&path, "12345").unwrap();
        assert!(refused(&path, 4).starts_with("it has more than 4 octets"));
    }

    #[test]
    fn a_file_that_grows_while_it_is_read_is_bounded_too() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "1234").unwrap();
        let mut file = RegularFile::open(&path, 4).unwrap();
        fs::write(&path, "12345").unwrap();
        let error = file.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("it has more than 4 octets"));
    }
}
