//! Invariants for any octets that are read as an export: the fuzz target and the replay of its corpus share it.

use std::io::Read;

use bytes::Bytes;
use dhow_bundle::storage::StoredBundle;
use dhow_bundle::{
    BundleBuilder, CreationTimestamp, DtnTime, EndpointId, Header, Priority, Reading,
};
use dhow_node::recording::item::Item as _;

use super::check::{End, Head, Taker, Verdict, read};
use super::frame::{ExportError, Kind, MAGIC, write};

/// Octets that a reader gives at a time in the second reading: nothing depends on where they are cut.
const SMALL_READ: usize = 7;

/// Frames with right checksums of any content, and what follows of them: inputs begin with this octet.
const SEALED: u8 = 1;

/// A real export of which octets within frames are changed before they are sealed.
const CHANGED: u8 = 2;

/// Reads any octets as an export, whole and in small pieces; true where they are one.
///
/// # Panics
/// When the two differ, what is said of bundles does not go together, or a sound bundle is none.
#[must_use]
pub fn check_export(input: &[u8]) -> bool {
    let octets = match input.split_first() {
        Some((&SEALED, rest)) => sealed(&frames_of(rest)),
        Some((&CHANGED, rest)) => sealed(&changed(rest)),
        Some((_, rest)) => rest.to_vec(),
        None => Vec::new(),
    };
    let (outcome, heard) = heard(&octets[..]);
    let (again, heard_again) = self::heard(Small(&octets));
    let shown = |outcome: &Result<(Head, End), ExportError>| format!("{outcome:?}");
    assert_eq!(shown(&outcome), shown(&again), "pieces make no difference");
    assert_eq!(heard.verdicts, heard_again.verdicts);
    let Ok((_, end)) = outcome else {
        return false;
    };
    assert!(heard.open.is_none(), "no bundle is left half read");
    let gone = |verdict: &&Verdict| **verdict == Verdict::Gone;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let left = heard.verdicts.iter().filter(gone).count();
    assert_eq!(end.gone, count(left));
    assert_eq!(end.bundles, count(heard.verdicts.len() - left));
    true
}

fn heard(from: impl Read) -> (Result<(Head, End), ExportError>, Heard) {
    let mut heard = Heard::default();
    let mut at = 0;
    let outcome = read(from, &mut heard, &mut |now| {
        assert!(now > at, "progress goes on");
        at = now;
    });
    (outcome, heard)
}

/// Gives few octets at a time.
struct Small<'a>(&'a [u8]);

impl Read for Small<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let most = out.len().min(SMALL_READ);
        self.0.read(out.get_mut(..most).unwrap_or_default())
    }
}

/// The bundles that were heard of.
#[derive(Default)]
struct Heard {
    open: Option<(StoredBundle, Vec<u8>)>,
    verdicts: Vec<Verdict>,
}

impl Taker for Heard {
    fn begin(&mut self, bundle: StoredBundle) {
        let before = self.open.replace((bundle, Vec::new()));
        assert!(before.is_none(), "bundles do not overlap");
    }

    fn octets(&mut self, octets: &[u8]) {
        let open = self.open.as_mut();
        open.map(|(_, so_far)| so_far.extend_from_slice(octets))
            .unwrap_or_else(|| panic!("octets belong to a bundle"));
    }

    fn end(&mut self, verdict: Verdict) {
        let Some((bundle, octets)) = self.open.take() else {
            panic!("a bundle that ends has begun");
        };
        if verdict == Verdict::Sound {
            let octets = Bytes::from(octets);
            let header = Header::decode(&octets, Reading::Lenient);
            let Ok(Some(header)) = header else {
                panic!("a sound bundle has a header");
            };
            assert_eq!(header.id(), bundle.id);
            if !header.has_open_end() {
                assert!(
                    header.check_body(&octets).is_ok(),
                    "a sound bundle is whole"
                );
            }
        }
        self.verdicts.push(verdict);
    }
}

/// Frames of an input: the kind, two octets of length, and as many octets as there are.
fn frames_of(mut input: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [kind, low, high, rest @ ..] = input {
        let kinds = Kind::ALL.map(|(_, kind)| kind);
        let kind = kinds[usize::from(*kind) % kinds.len()];
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (octets, behind) = rest.split_at(length);
        frames.push((kind, octets.to_vec()));
        input = behind;
    }
    frames
}

/// A real export with other octets at some places: each two octets of place and one of value.
fn changed(input: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    let mut frames = sample();
    let total: usize = frames.iter().map(|(_, octets)| octets.len()).sum();
    for change in input.chunks_exact(3) {
        let &[low, high, value] = change else {
            continue;
        };
        let mut at = usize::from(u16::from_le_bytes([low, high])) % total;
        for (_, octets) in &mut frames {
            match octets.get_mut(at) {
                Some(octet) => {
                    *octet = value;
                    break;
                }
                None => at -= octets.len(),
            }
        }
    }
    frames
}

/// Frames as an export has them.
fn sealed(frames: &[(Kind, Vec<u8>)]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for (kind, octets) in frames {
        write(&mut out, *kind, octets);
    }
    out
}

/// The frames of an export with a bundle in one frame, one in several, and one that left.
fn sample() -> Vec<(Kind, Vec<u8>)> {
    let json = |value| serde_json::to_vec(&value).unwrap_or_default();
    let head = Head {
        node: Some("ipn:1.0".to_owned()),
        dtn_ms: 1_000,
        bundles: 3,
        octets: 400,
    };
    let mut frames = vec![(Kind::Head, json(serde_json::json!(head)))];
    let mut end = End::default();
    for (sequence, payload) in [(0, &b"in one frame"[..]), (1, &[7; 200]), (2, b"")] {
        let (record, octets) = bundle(sequence, payload);
        frames.push((Kind::Bundle, record));
        if sequence == 2 {
            frames.push((Kind::Gone, Vec::new()));
            end.gone += 1;
            continue;
        }
        for piece in octets.chunks(if sequence == 0 { 1_000 } else { 50 }) {
            frames.push((Kind::Octets, piece.to_vec()));
        }
        frames.push((Kind::Whole, Vec::new()));
        end.bundles += 1;
        end.octets += u64::try_from(octets.len()).unwrap_or(u64::MAX);
    }
    frames.push((Kind::End, json(serde_json::json!(end))));
    frames
}

/// The record and the octets of a bundle.
fn bundle(sequence: u64, payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let endpoint = |service| EndpointId::Ipn {
        allocator: 0,
        node: 1,
        service,
    };
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(900),
        sequence,
    };
    let builder = BundleBuilder::new(endpoint(5), endpoint(6), creation, 60_000);
    let Ok(octets) = builder.bundle(payload) else {
        return Default::default();
    };
    let header = Header::decode(&octets, Reading::Strict);
    let Ok(Some(header)) = header else {
        return Default::default();
    };
    let record = StoredBundle {
        id: header.id(),
        destination: header.primary.destination.clone(),
        report_to: header.primary.report_to.clone(),
        version: header.version().number(),
        flags: header.primary.flags.bits(),
        lifetime_ms: header.primary.lifetime_ms,
        age_at_reception_ms: 0,
        received: DtnTime::from_millis(900),
        header_octets: header.header_octets(),
        payload_octets: header.payload_octets(),
        total_adu_octets: 0,
        previous: None,
        reads_aggregated_reports: false,
        priority: Priority::Normal,
        note: Bytes::new(),
    };
    let mut written = Vec::new();
    record.write(&mut written);
    (written, octets.to_vec())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn seeds() -> Vec<(&'static str, Vec<u8>)> {
        let real = sealed(&sample());
        let behind = |first: u8, rest: &[u8]| [&[first], rest].concat();
        let as_frames: Vec<u8> = sample()
            .iter()
            .flat_map(|(kind, octets)| {
                let at = Kind::ALL
                    .iter()
                    .position(|(_, known)| known == kind)
                    .unwrap();
                let [low, high] = u16::try_from(octets.len()).unwrap().to_le_bytes();
                [&[u8::try_from(at).unwrap(), low, high], &octets[..]].concat()
            })
            .collect();
        vec![
            ("real", behind(0, &real)),
            ("cut", behind(0, &real[..real.len() / 2])),
            ("none", behind(0, b"dhow export 2\r\n\0")),
            ("frames", behind(SEALED, &as_frames)),
            ("unchanged", vec![CHANGED]),
            ("payload-changed", behind(CHANGED, &[200, 0, 1])),
            ("record-changed", behind(CHANGED, &[90, 0, 0xff])),
        ]
    }

    /// `fuzz/corpus/store_export` has what is read here; it is written with `UPDATE_SNAPSHOTS` set.
    #[test]
    fn every_file_of_the_corpus_is_read_or_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/store_export");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            for (name, octets) in seeds() {
                fs::write(folder.join(name), octets).unwrap();
            }
        }
        let files = fs::read_dir(folder).unwrap();
        let read = files.filter(|file| {
            let path = file.as_ref().unwrap().path();
            check_export(&fs::read(path).unwrap())
        });
        assert!(read.count() >= 3, "the corpus is not there");
    }

    #[test]
    fn a_real_export_is_sound() {
        let (outcome, heard) = heard(&sealed(&sample())[..]);
        assert_eq!(outcome.unwrap().1.bundles, 2);
        assert_eq!(
            heard.verdicts,
            [Verdict::Sound, Verdict::Sound, Verdict::Gone]
        );
    }

    proptest! {
        #[test]
        fn frames_of_any_content_are_read_or_refused(
            mode in SEALED..=CHANGED,
            input in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let _ = check_export(&[&[mode], &input[..]].concat());
        }
    }
}
