//! stdout of which is known at any time how many octets it has taken.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::PollFlags;

use super::ready;

/// A pipe that has room has it for so many octets: they do not block (pipe(7), `PIPE_BUF`).
const PIECE_OCTETS: usize = 4096;

/// An output that nobody has to wait for, and that holds nothing back.
#[derive(Debug)]
pub struct Outlet {
    file: File,
    /// Octets that are written at a time, at most: all of them into a file, which keeps nobody waiting.
    most: usize,
}

impl Outlet {
    /// The output of this program.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn stdout() -> io::Result<Self> {
        io::stdout().as_fd().try_clone_to_owned().map(Self::new)
    }

    fn new(output: OwnedFd) -> Self {
        let file = File::from(output);
        let most = match file.metadata() {
            Ok(about) if about.is_file() => usize::MAX,
            _ => PIECE_OCTETS,
        };
        Self { file, most }
    }

    /// Writes octets from the front of these, waiting for room for a [`LOOK`](crate::interrupt::LOOK) at most; the number of those that
    /// were taken, 0 where there was no room.
    ///
    /// # Errors
    /// Those of the output, which has taken none of these octets then.
    pub fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if octets.is_empty() || !ready(&self.file, PollFlags::OUT)? {
            return Ok(0);
        }
        let piece = octets.get(..self.most).unwrap_or(octets);
        match self.file.write(piece) {
            Ok(0) => Err(ErrorKind::WriteZero.into()),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(0)
            }
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_octets_that_a_full_pipe_took_are_counted() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut outlet = Outlet::new(writer.into());
        let octets: Vec<u8> = (0..1_000_000_u32)
            .map(|it| u8::try_from(it % 251).unwrap())
            .collect();
        let mut taken = 0;
        loop {
            match outlet.write(&octets[taken..]).unwrap() {
                0 => break,
                more => taken += more,
            }
        }
        assert!((PIECE_OCTETS..octets.len()).contains(&taken), "{taken}");
        drop(outlet);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert!(read == octets[..taken]);
    }

    #[test]
    fn an_output_that_nobody_reads_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let error = Outlet::new(writer.into()).write(b"octets").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
