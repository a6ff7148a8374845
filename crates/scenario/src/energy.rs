//! `[energy]`: the power of processors, hosts and links, and the energy of octets.

use dhow_document::quantity::{QuantityError, parse_energy, parse_power};
use dhow_document::{Document, Entries, FileError};

/// The power and energy that a network takes; a part of which it is 0 takes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Energy {
    /// A core while it is busy, beside what its host takes: microwatts.
    pub processor_uw: u64,
    /// A host, all the time: microwatts.
    pub host_uw: u64,
    /// An interface while its link is there: microwatts.
    pub link_uw: u64,
    /// An octet that is sent over a link, at both ends together: picojoules.
    pub octet_pj: u64,
}

/// Reads `[energy]`; `None` where there is no such section.
pub(crate) fn read(document: &Document<'_>) -> Result<Option<Energy>, FileError> {
    let Some(entries) = document.all("energy").next() else {
        return Ok(None);
    };
    let power = |key| quantity(document, entries, key, parse_power);
    Ok(Some(Energy {
        processor_uw: power("processor")?,
        host_uw: power("host")?,
        link_uw: power("link")?,
        octet_pj: quantity(document, entries, "octet", parse_energy)?,
    }))
}

fn quantity(
    document: &Document<'_>,
    entries: &Entries,
    key: &str,
    parse: fn(&str) -> Result<u64, QuantityError>,
) -> Result<u64, FileError> {
    let text = entries.text(key).unwrap_or_default();
    parse(text).map_err(|error| {
        let what = format!("'{key}' cannot be so much: {error}");
        let example = match key {
            "octet" => "100nJ",
            _ => "1W",
        };
        let fault = document.fault(entries.line_of(key), what);
        fault.with_hint(format!("for example: {key} = \"{example}\""))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Scenario;

    use super::*;

    fn of(section: &str) -> Result<Option<Energy>, String> {
        let text = format!("[[node]]\nname = \"a\"\n[stop]\nat = \"1s\"\n{section}");
        let scenario = Scenario::parse(Path::new("s.toml"), &text);
        scenario
            .map(|it| it.energy)
            .map_err(|error| format!("{error}; {}", error.hint.as_deref().unwrap_or_default()))
    }

    #[test]
    fn what_is_not_said_takes_nothing() {
        assert_eq!(of(""), Ok(None));
        let said = of("[energy]\nprocessor = \"5W\"\noctet = \"0.1uJ\"\n");
        let expected = Energy {
            processor_uw: 5_000_000,
            octet_pj: 100_000,
            ..Energy::default()
        };
        assert_eq!(said, Ok(Some(expected)));
        let refused = of("[energy]\nlink = \"3J\"\n").expect_err("it is refused");
        assert!(
            refused.contains("s.toml:6")
                && refused.contains("link = \"1W\"")
                && refused.contains("'link' cannot be so much"),
            "{refused}"
        );
    }
}
