//! Small text files on a medium: its format, the node of a directory, acknowledgments (docs/ferry.md).

use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, NodeId};

/// Octets of a small file, at most: longer ones are not read.
pub const NOTE_OCTETS_MAX: usize = 4_096;

/// The first line of an acknowledgment.
const MAGIC: &str = "dhow-ferry acknowledgment 1";

/// A node has taken a bundle from the medium, and the bundle is durable there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgment {
    /// The identity of the bundle, as text.
    pub bundle: String,
    /// The node that took the bundle.
    pub by: NodeId,
    /// Nobody needs it from then on; `None` where no clock told.
    pub expires: Option<DtnTime>,
}

/// Why a small file is none of a ferry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteRefusal {
    /// The file is too long, or no text.
    #[error("no text of at most {NOTE_OCTETS_MAX} octets")]
    NoText,
    /// Its first line is another one.
    #[error("the first line is not that of a ferry")]
    Magic,
    /// A line is missing, has no value, or an invalid one.
    #[error("the line '{0}' is missing or wrong")]
    Line(&'static str),
}

impl Acknowledgment {
    /// An acknowledgment of a bundle.
    #[must_use]
    pub fn of(bundle: &BundleId, by: &NodeId, expires: Option<DtnTime>) -> Self {
        Self {
            bundle: bundle.to_string(),
            by: by.clone(),
            expires,
        }
    }

    /// The file's octets.
    #[must_use]
    pub fn encode(&self) -> String {
        let expires = self.expires.map_or(0, DtnTime::as_millis);
        format!(
            "{MAGIC}\nbundle {}\nby {}\nexpires {expires}\n",
            self.bundle, self.by
        )
    }

    /// Reads a file; lines that are not known are skipped.
    ///
    /// # Errors
    /// It is no acknowledgment.
    pub fn decode(octets: &[u8]) -> Result<Self, NoteRefusal> {
        if octets.len() > NOTE_OCTETS_MAX {
            return Err(NoteRefusal::NoText);
        }
        let text = std::str::from_utf8(octets).map_err(|_| NoteRefusal::NoText)?;
        let mut lines = text.lines();
        if lines.next() != Some(MAGIC) {
            return Err(NoteRefusal::Magic);
        }
        let value = |name: &'static str| {
            let found = text.lines().find_map(|line| {
                let rest = line.strip_prefix(name)?;
                rest.strip_prefix(' ')
            });
            found.ok_or(NoteRefusal::Line(name))
        };
        let by = value("by")?.parse();
        let expires = value("expires")?.parse::<u64>();
        let expires = expires.map_err(|_| NoteRefusal::Line("expires"))?;
        Ok(Self {
            bundle: value("bundle")?.to_owned(),
            by: by.map_err(|_| NoteRefusal::Line("by"))?,
            expires: (expires > 0).then(|| DtnTime::from_millis(expires)),
        })
    }
}

/// The end of a bundle's life by clocks: `None` for one whose source had none.
#[must_use]
pub fn expiry(creation: CreationTimestamp, lifetime_ms: u64) -> Option<DtnTime> {
    let created = creation.time.as_millis();
    (created > 0).then(|| DtnTime::from_millis(created.saturating_add(lifetime_ms)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_acknowledgment_is_read_as_it_was_written() {
        let mut note = Acknowledgment {
            bundle: "ipn:1.1/1000/7@0+5".into(),
            by: "ipn:2.0".parse().unwrap(),
            expires: Some(DtnTime::from_millis(3_601_000)),
        };
        let text = note.encode();
        assert_eq!(
            text,
            "dhow-ferry acknowledgment 1\nbundle ipn:1.1/1000/7@0+5\nby ipn:2.0\nexpires 3601000\n"
        );
        assert_eq!(Acknowledgment::decode(text.as_bytes()), Ok(note.clone()));
        note.expires = None;
        assert_eq!(Acknowledgment::decode(note.encode().as_bytes()), Ok(note));
        for (broken, refusal) in [
            (text.replace("ack", "nack"), NoteRefusal::Magic),
            (text.replace("by ", "to "), NoteRefusal::Line("by")),
            (text.replace("ipn:2.0", "x"), NoteRefusal::Line("by")),
            (text.replace("3601000", "-1"), NoteRefusal::Line("expires")),
            (text.replace("bundle ", ""), NoteRefusal::Line("bundle")),
            (
                text.clone() + &"x".repeat(NOTE_OCTETS_MAX),
                NoteRefusal::NoText,
            ),
        ] {
            assert_eq!(Acknowledgment::decode(broken.as_bytes()), Err(refusal));
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_read_without_a_panic(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Acknowledgment::decode(&octets);
            let behind = [b"dhow-ferry acknowledgment 1\n", octets.as_slice()].concat();
            let _ = Acknowledgment::decode(&behind);
        }
    }
}
