//! The changes that an inbox has made: the newest of each path of each outbox.

use std::path::Path;

use dhow_client::folder::{Change, FileHead, FileTime, FolderId, Header, MODE_BITS, RelativePath};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::folder::waiting;
use crate::database::{self, column, number};
use crate::failure::Failure;

/// Files that are gone and are remembered, so that an older bundle does not bring them back.
const REMEMBERED: i64 = 100_000;

/// Commits between two looks at how many are remembered.
const COMMITS: u32 = 1_000;

const LAYOUT: &str = "\
CREATE TABLE IF NOT EXISTS files (number INTEGER PRIMARY KEY, folder BLOB NOT NULL, path TEXT NOT NULL, sequence INTEGER NOT NULL,
    removed INTEGER NOT NULL, octets INTEGER NOT NULL, seconds INTEGER NOT NULL, nanoseconds INTEGER NOT NULL, mode INTEGER NOT NULL,
    sha256 BLOB NOT NULL, UNIQUE (folder, path));
CREATE INDEX IF NOT EXISTS paths ON files (path);
CREATE INDEX IF NOT EXISTS gone ON files (number) WHERE removed;";

/// The changes that an inbox has made.
#[derive(Debug)]
pub struct Ledger {
    pub(super) connection: Connection,
    commits: u32,
}

/// The newest change of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its number.
    pub sequence: u64,
    /// The file that it brought; `None` where it is gone.
    pub file: Option<FileHead>,
}

/// Why the database does not answer.
pub type Error = rusqlite::Error;

impl Ledger {
    /// Opens or makes the ledger.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let connection = database::open(path, &[LAYOUT, waiting::LAYOUT].concat())?;
        let ledger = Self {
            connection,
            commits: 0,
        };
        ledger
            .forget()
            .map_err(|error| database::failure("write", path, &error))?;
        Ok(ledger)
    }

    /// Changes written from now on are durable with [`commit`](Self::commit), all of them or none.
    pub fn begin(&self) -> Result<(), Error> {
        self.connection.execute_batch("BEGIN IMMEDIATE")
    }

    /// Makes the changes durable that were written.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.commits += 1;
        if self.commits >= COMMITS {
            self.commits = 0;
            self.forget()?;
        }
        self.connection.execute_batch("COMMIT")
    }

    /// Forgets the changes that were written; nothing happens where nothing was begun.
    pub fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // A transaction that cannot be rolled back is not committed either.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    /// The newest change of a path.
    pub fn known(&self, folder: FolderId, path: &RelativePath) -> Result<Option<Known>, Error> {
        let mut select = self.connection.prepare_cached(
            "SELECT sequence, removed, octets, seconds, nanoseconds, mode, sha256 FROM files WHERE folder = ? AND path = ?",
        )?;
        select
            .query_row(params![folder.0, path.as_str()], known)
            .optional()
    }

    /// Whether something at this path or below it is newer than a change.
    pub fn is_newer_below(&self, path: &RelativePath, than: &Header) -> Result<bool, Error> {
        let mut select = self.connection.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM files WHERE folder = ? AND path > ? AND path < ? AND NOT removed AND sequence > ?)",
        )?;
        let [first, last] = below(path);
        let sequence = column(than.sequence);
        select.query_row(params![than.folder.0, first, last, sequence], |row| {
            row.get(0)
        })
    }

    /// The files below a path that are older than a change, as many as there are of its outbox.
    pub fn older_below(
        &self,
        path: &RelativePath,
        than: &Header,
    ) -> Result<Vec<RelativePath>, Error> {
        let mut select = self.connection.prepare_cached(
            "SELECT path FROM files WHERE folder = ? AND path > ? AND path < ? AND NOT removed AND sequence < ?",
        )?;
        let [first, last] = below(path);
        let sequence = column(than.sequence);
        let rows = select.query_map(params![than.folder.0, first, last, sequence], |row| {
            row.get::<_, String>(0)
        })?;
        let mut paths = Vec::new();
        for row in rows {
            paths.extend(RelativePath::new(&row?));
        }
        Ok(paths)
    }

    /// Writes a change down. A file has its path from then on for no other outbox.
    pub fn put(&self, header: &Header) -> Result<(), Error> {
        let (removed, file) = match header.change {
            Change::File(file) => (false, file),
            Change::Removed => (true, NO_FILE),
        };
        let mut insert = self.connection.prepare_cached(
            "INSERT OR REPLACE INTO files (folder, path, sequence, removed, octets, seconds, nanoseconds, mode, sha256)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        insert.execute(params![
            header.folder.0,
            header.path.as_str(),
            column(header.sequence),
            removed,
            column(file.octets),
            column(file.modified.seconds()),
            file.modified.nanoseconds(),
            file.mode & MODE_BITS,
            file.sha256
        ])?;
        if !removed {
            let mut update = self.connection.prepare_cached(
                "UPDATE files SET removed = 1 WHERE path = ? AND folder <> ? AND NOT removed",
            )?;
            update.execute(params![header.path.as_str(), header.folder.0])?;
        }
        Ok(())
    }

    /// Writes down that a file of an outbox has made room for another path of it.
    pub fn put_gone(&self, folder: FolderId, path: &RelativePath) -> Result<(), Error> {
        let mut update = self
            .connection
            .prepare_cached("UPDATE files SET removed = 1 WHERE folder = ? AND path = ?")?;
        update.execute(params![folder.0, path.as_str()])?;
        Ok(())
    }

    /// Forgets the oldest of the files that are gone, where there are too many.
    fn forget(&self) -> Result<(), Error> {
        let mut delete = self.connection.prepare_cached(
            "DELETE FROM files WHERE removed AND number <=
             (SELECT number FROM files WHERE removed ORDER BY number DESC LIMIT 1 OFFSET ?)",
        )?;
        delete.execute([REMEMBERED])?;
        Ok(())
    }
}

/// Stands in a row of a file that is gone.
const NO_FILE: FileHead = FileHead {
    octets: 0,
    modified: FileTime::EPOCH,
    mode: 0,
    sha256: [0; 32],
};

fn known(row: &Row<'_>) -> Result<Known, Error> {
    let sequence = number(row.get(0)?);
    let removed: bool = row.get(1)?;
    let file = FileHead {
        octets: number(row.get(2)?),
        modified: FileTime::clamped(row.get(3)?, row.get(4)?),
        mode: row.get(5)?,
        sha256: row.get(6)?,
    };
    Ok(Known {
        sequence,
        file: (!removed).then_some(file),
    })
}

/// The texts between which all paths below a path are, and no others: `0` follows `/`.
fn below(path: &RelativePath) -> [String; 2] {
    [format!("{path}/"), format!("{path}0")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(folder: u8, sequence: u64, path: &str, file: Option<u64>) -> Header {
        Header {
            folder: FolderId([folder; 16]),
            sequence,
            path: RelativePath::new(path).unwrap(),
            change: match file {
                None => Change::Removed,
                Some(octets) => Change::File(FileHead {
                    octets,
                    modified: FileTime::clamped(5, 7),
                    mode: 0o4640,
                    sha256: [9; 32],
                }),
            },
        }
    }

    #[test]
    fn the_newest_change_of_a_path_is_known_and_survives() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.begin().unwrap();
        for change in [
            header(1, 4, "a/b", Some(3)),
            header(1, 5, "a/c", Some(4)),
            header(1, 9, "a/c", None),
            header(1, 6, "a0", Some(1)),
        ] {
            ledger.put(&change).unwrap();
        }
        ledger.commit().unwrap();
        ledger.begin().unwrap();
        ledger.put(&header(1, 10, "a/b", None)).unwrap();
        ledger.roll_back();
        drop(ledger);
        let ledger = Ledger::open(&path).unwrap();
        let known = |path: &str| {
            let path = RelativePath::new(path).unwrap();
            ledger.known(FolderId([1; 16]), &path).unwrap()
        };
        let file = known("a/b").unwrap();
        assert_eq!((file.sequence, file.file.unwrap().mode), (4, 0o640));
        assert_eq!(known("a/c").unwrap().file, None);
        assert_eq!(known("a"), None);
        let a = RelativePath::new("a").unwrap();
        let older = ledger.older_below(&a, &header(1, 7, "a", Some(1))).unwrap();
        assert_eq!(older, [RelativePath::new("a/b").unwrap()]);
        assert!(
            ledger
                .is_newer_below(&a, &header(1, 3, "a", Some(1)))
                .unwrap()
        );
        assert!(
            !ledger
                .is_newer_below(&a, &header(1, 5, "a", Some(1)))
                .unwrap()
        );
        assert!(
            !ledger
                .is_newer_below(&a, &header(2, 1, "a", Some(1)))
                .unwrap()
        );
    }

    #[test]
    fn a_path_belongs_to_the_outbox_that_wrote_it_last() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&directory.path().join("state.db")).unwrap();
        ledger.put(&header(1, 4, "a", Some(3))).unwrap();
        ledger.put(&header(2, 1, "a", Some(5))).unwrap();
        let path = RelativePath::new("a").unwrap();
        let of = |folder| {
            ledger
                .known(FolderId([folder; 16]), &path)
                .unwrap()
                .unwrap()
        };
        assert_eq!((of(1).sequence, of(1).file), (4, None));
        assert_eq!(of(2).file.unwrap().octets, 5);
    }
}
