//! The files of a folder that the node has for an endpoint, as they were when they were sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dhow_bundle::EndpointId;
use dhow_client::folder::{FileTime, FolderId, RelativePath};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::place::Place;
use crate::application;
use crate::database::{self, column, number};
use crate::failure::Failure;
use crate::tree::Stamp;

/// Sequence numbers that are reserved at a time: those that were not given out when the command ends are left out.
const RESERVED: u64 = 4_096;

const LAYOUT: &str = "\
CREATE TABLE IF NOT EXISTS outbox (one INTEGER PRIMARY KEY CHECK (one = 1), folder BLOB NOT NULL, reserved INTEGER NOT NULL, source TEXT);
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, octets INTEGER NOT NULL, seconds INTEGER NOT NULL, nanoseconds INTEGER NOT NULL,
    mode INTEGER NOT NULL, changed_seconds INTEGER NOT NULL, changed_nanoseconds INTEGER NOT NULL, inode INTEGER NOT NULL,
    sha256 BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS begun (path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS place (one INTEGER PRIMARY KEY CHECK (one = 1), mark BLOB, device INTEGER NOT NULL, inode INTEGER NOT NULL);";

/// The files of a folder that the node has for an endpoint.
#[derive(Debug)]
pub struct Ledger {
    connection: Connection,
    folder: FolderId,
    source: Option<EndpointId>,
    place: Option<Place>,
    /// The next sequence number, and the first that is not reserved durably.
    next: u64,
    reserved: u64,
    files: BTreeMap<RelativePath, Sent>,
    /// Files that the node may have, because they were about to be sent: also where this process was killed before the answer, or the node
    /// before it could give one.
    begun: BTreeSet<RelativePath>,
}

/// A file that the node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its state when it was read.
    pub stamp: Stamp,
    /// The SHA-256 of its octets.
    pub sha256: [u8; 32],
}

impl Ledger {
    /// Opens or makes the ledger.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let connection = database::open(path, LAYOUT)?;
        let drawn = application::random::<16>()?;
        Self::read(connection, drawn).map_err(|error| database::failure("read", path, &error))
    }

    fn read(connection: Connection, drawn: [u8; 16]) -> rusqlite::Result<Self> {
        connection.execute(
            "INSERT OR IGNORE INTO outbox (one, folder, reserved) VALUES (1, ?, 0)",
            [drawn],
        )?;
        let (folder, reserved, source): ([u8; 16], i64, Option<String>) =
            connection.query_row("SELECT folder, reserved, source FROM outbox", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let place = connection.query_row("SELECT mark, device, inode FROM place", [], |row| {
            let (device, inode): (i64, i64) = (row.get(1)?, row.get(2)?);
            Ok(Place {
                mark: row.get(0)?,
                directory: (device.cast_unsigned(), inode.cast_unsigned()),
            })
        });
        let place = place.optional()?;
        let mut files = BTreeMap::new();
        let mut select = connection.prepare("SELECT * FROM files")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            if let Ok(path) = RelativePath::new(&row.get::<_, String>(0)?) {
                files.insert(path, sent(row)?);
            }
        }
        drop(rows);
        drop(select);
        let mut select = connection.prepare("SELECT path FROM begun")?;
        let begun = select.query_map([], |row| row.get::<_, String>(0))?;
        let begun: rusqlite::Result<Vec<String>> = begun.collect();
        drop(select);
        let begun = begun?;
        let begun = (begun.iter()).filter_map(|path| RelativePath::new(path).ok());
        let begun = begun.collect();
        let reserved = number(reserved);
        Ok(Self {
            connection,
            folder: FolderId(folder),
            source: source.and_then(|it| it.parse().ok()),
            place,
            next: reserved,
            reserved,
            files,
            begun,
        })
    }

    /// The identity of the outbox.
    pub const fn folder(&self) -> FolderId {
        self.folder
    }

    /// The endpoint that files were sent from, where none was asked for.
    pub const fn source(&self) -> Option<&EndpointId> {
        self.source.as_ref()
    }

    /// Remembers an endpoint to send from.
    pub fn set_source(&mut self, source: &EndpointId) -> Result<(), Failure> {
        self.connection
            .execute("UPDATE outbox SET source = ?", [source.to_string()])
            .map_err(|error| unwritten(&error))?;
        self.source = Some(source.clone());
        Ok(())
    }

    /// The folder that the record is of; `None` where it was not written down yet.
    pub const fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Writes down, durably, the folder that the record is of.
    pub fn set_place(&mut self, place: &Place) -> Result<(), Failure> {
        let (device, inode) = place.directory;
        self.connection
            .execute(
                "INSERT OR REPLACE INTO place VALUES (1, ?, ?, ?)",
                params![place.mark, device.cast_signed(), inode.cast_signed()],
            )
            .map_err(|error| unwritten(&error))?;
        self.place = Some(*place);
        Ok(())
    }

    /// A file as the node has it.
    pub fn sent(&self, path: &RelativePath) -> Option<&Sent> {
        self.files.get(path)
    }

    /// All files that the node has or may have.
    pub fn paths(&self) -> impl Iterator<Item = &RelativePath> {
        let begun = (self.begun.iter()).filter(|path| !self.files.contains_key(*path));
        self.files.keys().chain(begun)
    }

    /// Writes down, durably, which files are about to be sent for the first time: of each the removal can be told, whatever happens.
    pub fn begin<'a>(
        &mut self,
        paths: impl Iterator<Item = &'a RelativePath>,
    ) -> Result<(), Failure> {
        let is_new =
            |path: &&RelativePath| !self.files.contains_key(*path) && !self.begun.contains(*path);
        let paths: Vec<&RelativePath> = paths.filter(is_new).collect();
        if paths.is_empty() {
            return Ok(());
        }
        self.transact(|connection| {
            let mut insert = connection.prepare("INSERT INTO begun VALUES (?)")?;
            for path in &paths {
                insert.execute([path.as_str()])?;
            }
            Ok(())
        })?;
        self.begun.extend(paths.into_iter().cloned());
        Ok(())
    }

    /// A sequence number that no change had before, also where this process is killed before it writes anything else down.
    pub fn next_sequence(&mut self) -> Result<u64, Failure> {
        if self.next == self.reserved {
            let reserved = self.reserved.saturating_add(RESERVED);
            let update = "UPDATE outbox SET reserved = ?";
            (self.connection.execute(update, [column(reserved)]))
                .map_err(|error| unwritten(&error))?;
            self.reserved = reserved;
        }
        let sequence = self.next;
        self.next += 1;
        Ok(sequence)
    }

    /// Writes down, durably, files that the node has and, without a value, files of which it has the removal.
    pub fn record(&mut self, changes: &[(RelativePath, Option<Sent>)]) -> Result<(), Failure> {
        if changes.is_empty() {
            return Ok(());
        }
        self.transact(|connection| self.write(connection, changes))?;
        for (path, sent) in changes {
            self.begun.remove(path);
            match sent {
                Some(sent) => self.files.insert(path.clone(), *sent),
                None => self.files.remove(path),
            };
        }
        Ok(())
    }

    fn write(
        &self,
        connection: &Connection,
        changes: &[(RelativePath, Option<Sent>)],
    ) -> rusqlite::Result<()> {
        for (path, sent) in changes {
            if self.begun.contains(path) {
                let mut end = connection.prepare_cached("DELETE FROM begun WHERE path = ?")?;
                end.execute([path.as_str()])?;
            }
            let Some(Sent { stamp, sha256 }) = sent else {
                let mut delete = connection.prepare_cached("DELETE FROM files WHERE path = ?")?;
                delete.execute([path.as_str()])?;
                continue;
            };
            let mut insert = connection.prepare_cached(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?;
            insert.execute(params![
                path.as_str(),
                column(stamp.octets),
                column(stamp.modified.seconds()),
                stamp.modified.nanoseconds(),
                stamp.mode,
                stamp.changed.0,
                stamp.changed.1,
                stamp.inode.cast_signed(),
                sha256
            ])?;
        }
        Ok(())
    }

    /// All of it, durably, or nothing.
    fn transact(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), Failure> {
        let connection = &self.connection;
        let written = (connection.execute_batch("BEGIN IMMEDIATE"))
            .and_then(|()| write(connection))
            .and_then(|()| connection.execute_batch("COMMIT"));
        written.map_err(|error| {
            if !connection.is_autocommit() {
                // A transaction that cannot be rolled back is not committed either.
                let _ = connection.execute_batch("ROLLBACK");
            }
            unwritten(&error)
        })
    }
}

fn sent(row: &Row<'_>) -> rusqlite::Result<Sent> {
    let inode: i64 = row.get(7)?;
    Ok(Sent {
        stamp: Stamp {
            octets: number(row.get(1)?),
            modified: FileTime::clamped(row.get(2)?, row.get(3)?),
            mode: row.get(4)?,
            changed: (row.get(5)?, row.get(6)?),
            inode: inode.cast_unsigned(),
        },
        sha256: row.get(8)?,
    })
}

fn unwritten(error: &rusqlite::Error) -> Failure {
    Failure::refused(format!("cannot write down what was sent: {error}"))
        .with_hint("files sent but not recorded are sent once more the next time, and the inbox recognises them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_file(octets: u64) -> Sent {
        Sent {
            stamp: Stamp {
                octets,
                modified: FileTime::clamped(1_000_000_000, 7),
                mode: 0o640,
                changed: (-5, 9),
                inode: u64::MAX - 3,
            },
            sha256: [9; 32],
        }
    }

    #[test]
    fn a_damaged_record_is_told_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let ledger = Ledger::open(&path).unwrap();
        // A text where a number has to be, as a flipped bit leaves it.
        let damage = "UPDATE outbox SET folder = 'none'";
        ledger.connection.execute(damage, []).unwrap();
        drop(ledger);
        let failure = Ledger::open(&path).unwrap_err();
        let said = format!("{failure:?}");
        assert!(said.contains("move the file away"), "{said}");
    }

    #[test]
    fn what_was_recorded_is_read_again_and_no_number_is_given_out_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let [a, b] = ["a", "b/c"].map(|it| RelativePath::new(it).unwrap());
        let mut ledger = Ledger::open(&path).unwrap();
        let folder = ledger.folder();
        assert_eq!(ledger.source(), None);
        ledger.set_source(&"ipn:1.77".parse().unwrap()).unwrap();
        let first: Vec<u64> = (0..3).map(|_| ledger.next_sequence().unwrap()).collect();
        assert_eq!(first, [0, 1, 2]);
        let changes = [(a.clone(), Some(a_file(1))), (b.clone(), Some(a_file(2)))];
        ledger.record(&changes).unwrap();
        ledger.record(&[(a.clone(), None)]).unwrap();
        drop(ledger);
        let mut ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.folder(), folder);
        assert_eq!(ledger.source(), Some(&"ipn:1.77".parse().unwrap()));
        assert_eq!((ledger.sent(&a), ledger.sent(&b)), (None, Some(&a_file(2))));
        assert_eq!(ledger.paths().count(), 1);
        // A file that the node may have, and of which nothing else is known, is one whose removal has to be told.
        let c = RelativePath::new("c").unwrap();
        ledger.begin([&b, &c].into_iter()).unwrap();
        drop(ledger);
        let mut ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.paths().collect::<Vec<_>>(), [&b, &c]);
        ledger.record(&[(c.clone(), None)]).unwrap();
        drop(ledger);
        let mut ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.paths().collect::<Vec<_>>(), [&b]);
        let next = ledger.next_sequence().unwrap();
        assert!(next > 2, "{next}");
        for _ in 0..2 * RESERVED {
            ledger.next_sequence().unwrap();
        }
        let last = ledger.next_sequence().unwrap();
        drop(ledger);
        assert!(Ledger::open(&path).unwrap().next_sequence().unwrap() > last);
    }
}
