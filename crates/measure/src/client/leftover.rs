//! Rows that no collector took, left in a file that is an OMSP session: `nc` can send it later.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::outlet::{Outlet, OutletError};
use crate::omsp::header::Header;

/// Files of this process: each has a number of its own.
static FILES: AtomicU64 = AtomicU64::new(0);

/// Names that are tried for a file.
const NAMES_MAX: u32 = 100;

/// The file of leftover rows, and the rows lost while it was written.
#[derive(Debug)]
pub struct Left {
    /// The path of the file, or the reason why there is none.
    pub path: Result<PathBuf, String>,
    /// Read errors of the spool meanwhile, with the rows lost by them.
    pub losses: Vec<OutletError>,
}

/// Writes all that waits in an outlet, behind its session's header, into a new file in the directory of its spool.
pub fn write(header: &Header, outlet: &mut Outlet) -> Left {
    let mut losses = Vec::new();
    let place = outlet.spool_directory().display().to_string();
    let wrong = |place: &str, error: &io::Error| {
        format!("cannot leave what was not delivered in {place}: {error}")
    };
    let path = match new_file(header, outlet) {
        Err(error) => Err(wrong(&place, &error)),
        Ok((path, file)) => match fill(file, header, outlet, &mut losses) {
            Ok(()) => Ok(path),
            Err(error) => {
                // Half of it is of no use, and may be in the way.
                let _ = std::fs::remove_file(&path);
                Err(wrong(&path.display().to_string(), &error))
            }
        },
    };
    Left { path, losses }
}

/// A file that was not there before: that of another client is another process's, or has another number.
fn new_file(header: &Header, outlet: &Outlet) -> io::Result<(PathBuf, File)> {
    let mut outcome = Err(io::ErrorKind::AlreadyExists.into());
    for _ in 0..NAMES_MAX {
        let name = format!(
            "{}-{}-{}-{}.omsp",
            header.domain,
            header.start_s,
            std::process::id(),
            FILES.fetch_add(1, Ordering::Relaxed)
        );
        let path = outlet.spool_directory().join(name);
        outcome = File::create_new(&path).map(|file| (path, file));
        if !matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            break;
        }
    }
    outcome
}

fn fill(
    file: File,
    header: &Header,
    outlet: &mut Outlet,
    losses: &mut Vec<OutletError>,
) -> io::Result<()> {
    let mut file = io::BufWriter::new(file);
    // A token is for the collector alone.
    let header = Header {
        token: None,
        reads_answer: false,
        ..header.clone()
    };
    file.write_all(header.write().as_bytes())?;
    while let Err(error) = outlet.leftover(|octets| file.write_all(octets)) {
        match error {
            OutletError::File(error) => return Err(error),
            // The disk's rows are gone, and the rest is still to be left.
            lost @ OutletError::SpoolLost(_) => losses.push(lost),
        }
    }
    file.flush()
}
