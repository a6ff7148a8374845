//! Payloads as a list: a line for each, with its time and its size.

use std::sync::Arc;

use dhow_document::quantity::{parse_duration, parse_size};
use dhow_document::{Document, Entries, FileError};

use crate::regular_file::read_text;
use crate::scenario::{Listed, Size};

/// Octets that a list may have: far above any real one, so that a wrong path is not read whole.
const LIST_OCTETS_MAX: u64 = 256 << 20;

/// Keys that do not go with a list, which says itself what they would say.
const SAID: [&str; 6] = ["size", "count", "total", "every", "mean", "burst"];

/// The list that a section names, if it names one.
pub(super) fn read(
    document: &Document<'_>,
    entries: &Entries,
) -> Result<Option<Arc<[Listed]>>, FileError> {
    let Some(file) = entries.text("list") else {
        return Ok(None);
    };
    if let Some(key) = SAID.into_iter().find(|key| entries.has(key)) {
        let what = format!("'{key}' does not go with 'list', which says sizes and times");
        return Err(document.fault(entries.line_of(key), what));
    }
    let path = document.resolve(file);
    let text = read_text(&path, LIST_OCTETS_MAX).map_err(|error| {
        let what = format!("'list' cannot be read: {}: {error}", path.display());
        document.fault(entries.line_of("list"), what)
    })?;
    let listed = parse(&text).map_err(|(line, what)| {
        let error = FileError::at(&path, line, what);
        error.with_hint("a line is a time from the start of the traffic and a size: 90s 2kB")
    })?;
    Ok(Some(listed.into()))
}

/// The payloads of a list, or what is wrong with which line.
fn parse(text: &str) -> Result<Vec<Listed>, (usize, String)> {
    let mut listed: Vec<Listed> = Vec::new();
    let mut last = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        last = number;
        let next = parse_line(line).map_err(|what| (number, what))?;
        if listed.last().is_some_and(|before| next.at < before.at) {
            return Err((number, "it is earlier than the line before".to_owned()));
        }
        listed.push(next);
    }
    match listed.is_empty() {
        true => Err((last + 1, "nothing is listed".to_owned())),
        false => Ok(listed),
    }
}

fn parse_line(line: &str) -> Result<Listed, String> {
    let mut words = line.split_whitespace();
    let (Some(at), Some(octets), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("'{line}' is not a time and a size"));
    };
    let at = parse_duration(at).map_err(|error| format!("'{at}' is not a time: {error}"))?;
    let octets =
        parse_size(octets).map_err(|error| format!("'{octets}' is not a size: {error}"))?;
    if octets < Size::MIN {
        return Err(format!("a payload has at least {} octets", Size::MIN));
    }
    Ok(Listed { at, octets })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines_become_payloads_in_their_order() {
        let listed = parse("# ours\n0s 2kB\n\n 90s  100 \n90s 1MiB\n").expect("a list");
        let expected = [(0, 2_000), (90, 100), (90, 1 << 20)];
        let expected = expected.map(|(at, octets)| Listed {
            at: Duration::from_secs(at),
            octets,
        });
        assert_eq!(listed, expected);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line, said) in [
            ("", 1, "nothing is listed"),
            ("# none\n", 1, "nothing is listed"),
            ("1s 2kB\n5s kB\n", 2, "is not a size"),
            ("1s\n", 1, "'1s' is not a time and a size"),
            ("1s 2kB 3\n", 1, "is not a time and a size"),
            ("soon 2kB\n", 1, "'soon' is not a time"),
            ("\n2s 2kB\n1s 2kB\n", 3, "earlier than the line before"),
            ("1s 15\n", 1, "at least 16 octets"),
        ] {
            let (number, what) = parse(text).expect_err(text);
            assert_eq!(number, line, "{text}");
            assert!(what.contains(said), "{what}");
        }
    }
}
