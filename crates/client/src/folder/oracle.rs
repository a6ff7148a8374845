//! Assertions that hold for any octets that are read as a header: the fuzz target, the replay of its corpus, and the properties.
//!
//! Everything here panics when the decoder breaks its word; it is no part of the interface.

use std::path::{Component, Path};

use super::{Change, HEADER_OCTETS_MAX, Header, MODE_BITS, NUMBER_MAX, RESERVED};

/// Reads octets as the beginning of a payload; true where they have a header.
#[must_use]
pub fn check_header(octets: &[u8]) -> bool {
    let Ok((header, length)) = Header::decode(octets) else {
        return false;
    };
    assert!(length <= HEADER_OCTETS_MAX, "a header is bounded");
    assert_eq!(
        octets.get(..length),
        Some(header.encode().as_slice()),
        "there is one way to write a header"
    );
    assert!(
        header.sequence <= NUMBER_MAX,
        "sequence numbers are bounded"
    );
    let path = header.path.as_str();
    let components = || Path::new(path).components();
    assert!(
        components().all(|it| matches!(it, Component::Normal(_))),
        "a path stays in its folder"
    );
    assert_eq!(
        components().count(),
        header.path.names().count(),
        "the system sees the same names"
    );
    assert!(
        !path.chars().any(char::is_control),
        "a path can be shown on a terminal"
    );
    assert!(
        !RESERVED
            .iter()
            .any(|it| header.path.is_within(it) || path == *it),
        "a path is none of the programs' own"
    );
    if let Change::File(file) = header.change {
        assert!(file.octets <= NUMBER_MAX && file.mode & !MODE_BITS <= 0o7000);
        let _ = file.modified.system();
    }
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::{FileHead, FileTime, FolderId, RelativePath};
    use super::*;

    /// Payloads of every kind, and what must be refused: the beginning of the corpus.
    fn seeds() -> Vec<(&'static str, Vec<u8>)> {
        let removed = Header {
            folder: FolderId([7; 16]),
            sequence: 4097,
            path: RelativePath::new("letters/2026/an old one.txt").unwrap(),
            change: Change::Removed,
        };
        let file = |path: &str, octets| Header {
            path: RelativePath::new(path).unwrap(),
            change: Change::File(FileHead {
                octets,
                modified: FileTime::clamped(1_767_225_600, 500_000_000),
                mode: 0o640,
                sha256: [9; 32],
            }),
            ..removed.clone()
        };
        let with = |octets: &[u8], from: &[u8], to: &[u8]| {
            let at = octets
                .windows(from.len())
                .position(|it| it == from)
                .unwrap();
            [&octets[..at], to, &octets[at + from.len()..]].concat()
        };
        let short = file("abcd", 0).encode();
        let longest = "n".repeat(255);
        vec![
            ("removed", removed.encode()),
            ("empty-file", file("a/b", 0).encode()),
            (
                "file",
                [file("a/ä.txt", 3).encode(), b"abc".to_vec()].concat(),
            ),
            ("large", file("big", NUMBER_MAX).encode()),
            (
                "longest",
                file(&vec![longest.as_str(); 16].join("/"), 1).encode(),
            ),
            ("cut", short[..short.len() - 9].to_vec()),
            ("absolute", with(&short, b"abcd", b"/bcd")),
            ("up", with(&short, b"abcd", b"a/..")),
            ("control", with(&short, b"abcd", b"a\0cd")),
            ("empty-name", with(&short, b"abcd", b"a//d")),
            ("not-text", with(&short, b"abcd", b"a\xff\xfed")),
            ("version-2", with(&short, b"folder\x01", b"folder\x02")),
            ("kind-2", with(&short, b"folder\x01\x00", b"folder\x01\x02")),
            (
                "set-user-id",
                with(&short, &[0x19, 0x01, 0xa0], &[0x19, 0x0f, 0xff]),
            ),
            ("plain-text", b"no header at all".to_vec()),
            ("nothing", Vec::new()),
        ]
    }

    /// `fuzz/corpus/folder_header` has what is read here; it is written with `UPDATE_SNAPSHOTS` set.
    #[test]
    fn every_file_of_the_corpus_is_read_or_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/folder_header");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            for (name, octets) in seeds() {
                fs::write(folder.join(name), octets).unwrap();
            }
        }
        let mut read: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(Result::unwrap)
            .filter(|it| check_header(&fs::read(it.path()).unwrap()))
            .map(|it| it.file_name().into_string().unwrap())
            .collect();
        read.sort();
        assert_eq!(
            read,
            [
                "empty-file",
                "file",
                "large",
                "longest",
                "removed",
                "set-user-id"
            ]
        );
    }
}
