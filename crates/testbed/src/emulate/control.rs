//! The commands that the starter of an emulator writes to it: `down` and `up`, a line each.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use dhow_channel::channel::Contact;

/// Octets of a line that is understood; longer ones are skipped.
const LINE_OCTETS_MAX: usize = 64;

/// The reading end.
#[derive(Debug)]
pub struct Control {
    source: OwnedFd,
    line: Vec<u8>,
    ended: bool,
}

impl Control {
    pub const fn new(source: OwnedFd) -> Self {
        Self {
            source,
            line: Vec::new(),
            ended: false,
        }
    }

    /// The file descriptor from which lines come; `None` once there will be no more.
    pub fn source(&self) -> Option<BorrowedFd<'_>> {
        (!self.ended).then(|| self.source.as_fd())
    }

    /// Reads the lines that are there, once, and returns the contacts that they name.
    pub fn read(&mut self) -> io::Result<Vec<Result<Contact, String>>> {
        let mut buffer = [0; 256];
        let octets = match rustix::io::read(self.source.as_fd(), &mut buffer) {
            Ok(octets) => octets,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        self.ended = octets == 0;
        let mut said = Vec::new();
        for &octet in buffer.get(..octets).unwrap_or_default() {
            if octet == b'\n' {
                said.push(contact(&self.line));
                self.line.clear();
            } else if self.line.len() < LINE_OCTETS_MAX {
                self.line.push(octet);
            }
        }
        Ok(said)
    }
}

fn contact(line: &[u8]) -> Result<Contact, String> {
    match line.trim_ascii() {
        b"up" => Ok(Contact::Up),
        b"down" => Ok(Contact::Down),
        other => Err(String::from_utf8_lossy(other).into_owned()),
    }
}
