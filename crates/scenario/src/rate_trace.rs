//! Files that say when packets may leave a link.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use dhow_channel::RateTrace;
use dhow_document::{Document, Entries, FileError};

/// Octets that such a file may have: as many moments as a trace may, each with ten digits and an end of a line.
const FILE_OCTETS_MAX: u64 = 110_000_000;

/// Reads a rate trace outside of a scenario.
///
/// # Errors
/// When it cannot be read, with its first line that is wrong.
pub fn read_rate_trace(path: &Path) -> Result<RateTrace, FileError> {
    let text = read_file(path)
        .map_err(|error| FileError::of_file(path, format!("cannot be read: {error}")))?;
    RateTrace::parse(&text).map_err(|error| {
        let hint = "each line is a time in milliseconds, not before the one above: 1504 octets may leave then";
        FileError::at(path, error.line(), error.to_string()).with_hint(hint)
    })
}

/// The trace that a section names, if it names one.
pub(crate) fn read(
    document: &Document<'_>,
    entries: &Entries,
) -> Result<Option<RateTrace>, FileError> {
    let Some(file) = entries.text("rate_trace") else {
        let what = "a link has a 'rate' or a 'rate_trace'";
        return match entries.has("rate") {
            true => Ok(None),
            false => {
                let error = document.fault(entries.line(), what);
                Err(error.with_hint(match entries.text("by") {
                    Some("veth") => {
                        "rate = \"10Gbit\", say: it is for virtual time, and the cable of a lab goes as fast as it can"
                    }
                    _ => "for example: rate = \"1Mbit\"",
                }))
            }
        };
    };
    if entries.has("rate") {
        let what = "'rate' does not go with 'rate_trace', which says how fast octets leave";
        return Err(document.fault(entries.line_of("rate"), what));
    }
    let path = document.resolve(file);
    if !path.is_file() {
        let what = format!("'rate_trace': there is no file {}", path.display());
        return Err(document.fault(entries.line_of("rate_trace"), what));
    }
    read_rate_trace(&path).map(Some)
}

fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(FILE_OCTETS_MAX + 1);
    let octets = file.read_to_string(&mut text)?;
    if u64::try_from(octets).unwrap_or(u64::MAX) > FILE_OCTETS_MAX {
        let what = format!("it has more than {FILE_OCTETS_MAX} octets");
        return Err(io::Error::other(what));
    }
    Ok(text)
}
