//! Bundle identities as operators write them: `SOURCE/TIME/SEQUENCE`, and `@OFFSET+LENGTH` for a fragment.

use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, FragmentRange};

/// The bundle that `text` names; `None` when it names none. The inverse of the identity's `Display`.
#[must_use]
pub fn parse(text: &str) -> Option<BundleId> {
    let (rest, last) = text.rsplit_once('/')?;
    let (source, time) = rest.rsplit_once('/')?;
    let (sequence, fragment) = match last.split_once('@') {
        Some((sequence, range)) => {
            let (offset, length) = range.split_once('+')?;
            (
                sequence,
                Some(FragmentRange {
                    offset: number(offset)?,
                    length: number(length)?,
                }),
            )
        }
        None => (last, None),
    };
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(number(time)?),
        sequence: number(sequence)?,
    };
    Some(BundleId {
        source: source.parse().ok()?,
        creation,
        fragment,
    })
}

/// Digits only: no sign, no space.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|octet| octet.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_typed() {
        for text in [
            "ipn:1.5/812345678901/3",
            "dtn://alpha/mail/0/7@100+50",
            "ipn:977000.1.3/1/0",
        ] {
            assert_eq!(parse(text).map(|id| id.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_names_no_bundle_is_refused() {
        for text in [
            "",
            "ipn:1.5",
            "ipn:1.5/1",
            "ipn:1.5/a/1",
            "ipn:1.5/1/+2",
            "x/1/2",
            "ipn:1.5/1/2@3",
            "ipn:1.5/1/99999999999999999999",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
