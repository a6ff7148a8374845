//! `dhow stream`: stdin of one command is stdout of another, over bundles (docs/stream.md).

mod order;
mod outlet;
mod receive;
mod send;
mod unsent;

use std::io;
use std::os::fd::AsFd;

use clap::Subcommand;
use dhow_client::chunk::StreamId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::arguments::Common;
use crate::digest::hexadecimal;
use crate::failure::{Ending, Failure};
use crate::interrupt::LOOK;

/// The commands for streams.
#[derive(Debug, Subcommand)]
pub enum Stream {
    Send(send::Send),
    Receive(receive::Receive),
}

impl Stream {
    /// Runs the command.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        match self {
            Self::Send(command) => command.run(common),
            Self::Receive(command) => command.run(common),
        }
    }
}

/// Hexadecimal digits of a stream's identity.
const ID_DIGITS: usize = 32;

/// The identity of a stream as people and programs see it.
fn shown(stream: StreamId) -> String {
    hexadecimal(&stream.0)
}

/// Reads what [`shown`] writes.
fn parse_stream(text: &str) -> Result<StreamId, String> {
    let is_id = text.len() == ID_DIGITS && text.bytes().all(|it| it.is_ascii_hexdigit());
    match u128::from_str_radix(text, 16) {
        Ok(number) if is_id => Ok(StreamId(number.to_be_bytes())),
        _ => Err("the identity of a stream has 32 hexadecimal digits".to_owned()),
    }
}

/// Waits for a [`LOOK`] at most until reading or writing would not block; whether it would not. A file at its end, or a broken
/// one, is ready, too.
fn ready(file: &impl AsFd, for_what: PollFlags) -> io::Result<bool> {
    let look = Timespec::try_from(LOOK).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(file, for_what)], Some(&look)) {
        Ok(ready) => Ok(ready > 0),
        // A signal came: the caller looks at what it says.
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_shown() {
        let stream = StreamId(std::array::from_fn(|at| u8::try_from(at).unwrap()));
        assert_eq!(shown(stream), "000102030405060708090a0b0c0d0e0f");
        assert_eq!(parse_stream(&shown(stream)), Ok(stream));
        for text in [
            "",
            "00",
            "+00102030405060708090a0b0c0d0e0f",
            &"0".repeat(33),
        ] {
            assert!(parse_stream(text).is_err(), "{text}");
        }
    }
}
