//! Changes that the system does not let an inbox make at their places: kept in the folder until it does, so that the others go on.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use dhow_bundle::{BundleId, CreationTimestamp, DtnTime};
use dhow_client::folder::{Change, FileHead, FolderId, Header, RelativePath};
use rusqlite::{OptionalExtension as _, Row, params};
use rustix::fs::Dir;

use super::super::incoming::Arrived;
use super::super::ledger::{Error, Ledger};
use super::{Folder, Made, Unmade};
use crate::database::{column, number};
use crate::digest::Sha256;

/// Changes that wait, at most: a path has one.
pub const WAITING_MAX: u64 = 10_000;

/// Changes that are tried again together, and made durable together.
const TOGETHER: i64 = 256;

/// The directory of their files, from the folder.
pub const DIRECTORY: &str = ".dhow-inbox/waiting";

/// The layout of their table.
pub const LAYOUT: &str = "\
CREATE TABLE IF NOT EXISTS waiting (number INTEGER PRIMARY KEY AUTOINCREMENT, folder BLOB NOT NULL, path TEXT NOT NULL, sequence INTEGER NOT NULL,
    header BLOB NOT NULL, source TEXT NOT NULL, created INTEGER NOT NULL, creation_sequence INTEGER NOT NULL, behind TEXT, UNIQUE (folder, path));
CREATE INDEX IF NOT EXISTS behind ON waiting (behind) WHERE behind IS NOT NULL;";

/// The directory of files that wait, named by their numbers.
#[derive(Debug)]
pub struct Waiting {
    directory: Arc<OwnedFd>,
    /// Files of changes that newer ones of their paths have replaced since the last commit.
    replaced: Vec<i64>,
    /// Whether a change may be made now that was behind another path.
    is_released: bool,
}

/// A change that waits.
#[derive(Debug)]
pub struct Waiter {
    /// Its number: greater for one that began to wait later.
    pub number: i64,
    /// The bundle that brought it.
    pub id: BundleId,
    /// The change.
    pub header: Header,
}

impl Waiting {
    /// Takes a directory over, without files of changes that do not wait: a kill has left them. They are kept as refused where the ledger is lost.
    pub fn new(directory: OwnedFd, ledger: &Ledger, refused: &OwnedFd) -> io::Result<Self> {
        let is_new = ledger.is_new().map_err(io::Error::other)?;
        let mut left = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let name = entry?.file_name().to_owned();
            let number = name.to_str().ok().and_then(|it| it.parse().ok());
            if let Some(number) = number
                && !ledger.waits(number).map_err(io::Error::other)?
            {
                left.push(number);
            }
        }
        let directory = Arc::new(directory);
        for number in left {
            if let Some(mut file) = Arrived::open(&directory, i64::to_string(&number))?
                && is_new
            {
                file.place(refused, &format!("waiting-{number}"))?;
            }
        }
        Ok(Self {
            directory,
            replaced: Vec::new(),
            is_released: false,
        })
    }

    /// Takes a file; the directory comes back, to be flushed.
    pub fn take(&self, number: i64, arrived: &mut Arrived) -> io::Result<OwnedFd> {
        arrived.place(&self.directory, &number.to_string())?;
        self.directory.try_clone()
    }

    /// Nothing was replaced or released after all.
    pub fn roll_back(&mut self) {
        self.is_released = false;
        self.replaced.clear();
    }

    /// Removes the files of changes that were replaced, once that is durable.
    pub fn forget(&mut self) {
        for number in std::mem::take(&mut self.replaced) {
            // A file that is left goes at the next start.
            drop(self.open(number));
        }
    }

    /// The file of a change; `None` where there is none.
    pub fn open(&self, number: i64) -> io::Result<Option<Arrived>> {
        Arrived::open(&self.directory, number.to_string())
    }
}

impl Folder {
    /// Keeps a change, durably with [`settle`](Self::settle), until it can be made, or until the path is gone that it is behind; returns the
    /// name of its file, or `None` where too many wait.
    pub fn wait(
        &mut self,
        id: &BundleId,
        header: &Header,
        arrived: Option<&mut Arrived>,
        behind: Option<&RelativePath>,
    ) -> io::Result<Option<String>> {
        let database = io::Error::other;
        let before = self.ledger.waiting_number(header).map_err(database)?;
        let number = self.ledger.put_waiting(id, header).map_err(database)?;
        let Some(number) = number else {
            return Ok(None);
        };
        if let Some(behind) = behind {
            (self.ledger.put_behind(number, behind)).map_err(database)?;
        }
        self.waiting.replaced.extend(before);
        if let Some(arrived) = arrived {
            let directory = self.waiting.take(number, arrived)?;
            // No path of an outbox leads there.
            self.changed.insert(DIRECTORY.to_owned(), directory);
        }
        Ok(Some(number.to_string()))
    }

    /// A path is gone: changes behind it may be made.
    pub(super) fn release(&mut self, path: &RelativePath) -> Result<(), Error> {
        self.waiting.is_released |= self.ledger.release(path)?;
        Ok(())
    }

    /// True once, when changes may be made that were behind another path.
    pub fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.waiting.is_released)
    }

    /// Some changes that wait for their place and have greater numbers than this.
    pub fn waiting_after(&self, number: i64) -> io::Result<Vec<Waiter>> {
        self.ledger.waiting_after(number).map_err(io::Error::other)
    }

    /// Makes a change that has waited; afterwards it waits no more, unless it fails once more. The octets of a file that is refused come back too.
    pub fn make_waiting(&mut self, waiter: &Waiter) -> (Result<Made, Unmade>, Option<Arrived>) {
        let header = &waiter.header;
        let mut arrived = match self.waiting.open(waiter.number) {
            Ok(arrived) => arrived,
            Err(error) => return (Err(Unmade::System(error)), None),
        };
        let made = match (&header.change, &mut arrived) {
            (Change::File(file), None) => self.find(header, file),
            (_, arrived) => self.make(header, arrived.as_mut()),
        };
        let made = match made {
            Err(error @ (Unmade::Later(_) | Unmade::System(_))) => Err(error),
            Err(Unmade::Behind(other, detail)) => {
                match self.ledger.put_behind(waiter.number, &other) {
                    Ok(()) => Err(Unmade::Behind(other, detail)),
                    Err(error) => Err(error.into()),
                }
            }
            made => match self.ledger.end_waiting(waiter.number) {
                Ok(()) => made,
                Err(error) => Err(error.into()),
            },
        };
        if let Err(Unmade::Behind(..) | Unmade::Later(_) | Unmade::System(_)) = made
            && let Some(arrived) = arrived.take()
        {
            arrived.leave();
        }
        (made, arrived)
    }

    /// A file whose octets wait no more: a kill may have come after it was placed, and before that was written down.
    fn find(&self, header: &Header, file: &FileHead) -> Result<Made, Unmade> {
        if self.is_over(header)? {
            return Ok(Made::Stale);
        }
        match self.tree.file(&header.path) {
            Ok(Some((mut found, _))) => {
                let mut digest = Sha256::default();
                io::copy(&mut found, &mut digest)?;
                if digest.octets() != file.sha256 {
                    return Err(Unmade::Place("its octets are lost".into()));
                }
                self.ledger.put(header)?;
                Ok(Made::New)
            }
            Ok(None) => Err(Unmade::Place("its octets are lost".into())),
            Err(obstacle) => Err(obstacle.into()),
        }
    }
}

impl Ledger {
    /// The number of the change of a path that waits.
    pub fn waiting(&self, folder: FolderId, path: &RelativePath) -> Result<Option<u64>, Error> {
        let mut select = (self.connection)
            .prepare_cached("SELECT sequence FROM waiting WHERE folder = ? AND path = ?")?;
        let sequence = select.query_row(params![folder.0, path.as_str()], |row| row.get(0));
        Ok(sequence.optional()?.map(number))
    }

    fn waiting_number(&self, header: &Header) -> Result<Option<i64>, Error> {
        let select = "SELECT number FROM waiting WHERE folder = ? AND path = ?";
        let key = params![header.folder.0, header.path.as_str()];
        (self.connection)
            .query_row(select, key, |row| row.get(0))
            .optional()
    }

    /// True when nothing was ever written down.
    fn is_new(&self) -> Result<bool, Error> {
        let select =
            "SELECT NOT EXISTS (SELECT 1 FROM files) AND NOT EXISTS (SELECT 1 FROM waiting)";
        (self.connection).query_row(select, [], |row| row.get(0))
    }

    fn waits(&self, number: i64) -> Result<bool, Error> {
        let select = "SELECT EXISTS (SELECT 1 FROM waiting WHERE number = ?)";
        (self.connection).query_row(select, [number], |row| row.get(0))
    }

    /// Writes down a change that waits, instead of an older one of its path; returns the number of its file, or `None` where too many wait.
    pub fn put_waiting(&self, id: &BundleId, header: &Header) -> Result<Option<i64>, Error> {
        let older = self.waiting(header.folder, &header.path)?;
        let count = "SELECT count(*) FROM waiting";
        let count: i64 = self.connection.query_row(count, [], |row| row.get(0))?;
        if older.is_none() && number(count) >= WAITING_MAX {
            return Ok(None);
        }
        let mut insert = self.connection.prepare_cached(
            "INSERT OR REPLACE INTO waiting (folder, path, sequence, header, source, created, creation_sequence)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?;
        insert.execute(params![
            header.folder.0,
            header.path.as_str(),
            column(header.sequence),
            header.encode(),
            id.source.to_string(),
            column(id.creation.time.as_millis()),
            column(id.creation.sequence),
        ])?;
        Ok(Some(self.connection.last_insert_rowid()))
    }

    /// A change that waits is behind another path.
    fn put_behind(&self, number: i64, path: &RelativePath) -> Result<(), Error> {
        let mut update =
            (self.connection).prepare_cached("UPDATE waiting SET behind = ? WHERE number = ?")?;
        update.execute(params![path.as_str(), number])?;
        Ok(())
    }

    /// A path is gone; true where changes were behind it.
    fn release(&self, path: &RelativePath) -> Result<bool, Error> {
        let mut update = (self.connection)
            .prepare_cached("UPDATE waiting SET behind = NULL WHERE behind = ?")?;
        Ok(update.execute([path.as_str()])? > 0)
    }

    /// The next changes that wait and are behind no other path, after one.
    pub fn waiting_after(&self, number: i64) -> Result<Vec<Waiter>, Error> {
        let mut select = self.connection.prepare_cached(
            "SELECT number, header, source, created, creation_sequence FROM waiting WHERE number > ? AND behind IS NULL ORDER BY number LIMIT ?",
        )?;
        let rows = select.query_map([number, TOGETHER], waiter)?;
        rows.collect()
    }

    /// A change waits no more.
    pub fn end_waiting(&self, number: i64) -> Result<(), Error> {
        let mut delete =
            (self.connection).prepare_cached("DELETE FROM waiting WHERE number = ?")?;
        delete.execute([number])?;
        Ok(())
    }
}

fn waiter(row: &Row<'_>) -> Result<Waiter, Error> {
    let header: Vec<u8> = row.get(1)?;
    let source: String = row.get(2)?;
    let malformed = || Error::IntegralValueOutOfRange(1, row.get(0).unwrap_or_default());
    Ok(Waiter {
        number: row.get(0)?,
        id: BundleId {
            source: source.parse().map_err(|_| malformed())?,
            creation: CreationTimestamp {
                time: DtnTime::from_millis(number(row.get(3)?)),
                sequence: number(row.get(4)?),
            },
            fragment: None,
        },
        header: Header::decode(&header).map_err(|_| malformed())?.0,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::Place;
    use super::*;

    fn id(sequence: u64) -> BundleId {
        BundleId {
            source: "ipn:1.5".parse().unwrap(),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(812_345_678_901),
                sequence,
            },
            fragment: None,
        }
    }

    /// A change that cannot be made now, and has octets where it is a file.
    fn wait(place: &mut Place, sequence: u64, path: &str, content: Option<&str>) -> bool {
        wait_behind(place, sequence, path, content, None)
    }

    fn wait_behind(
        place: &mut Place,
        sequence: u64,
        path: &str,
        content: Option<&str>,
        behind: Option<&str>,
    ) -> bool {
        let behind = behind.map(|it| RelativePath::new(it).unwrap());
        let (header, mut arrived) = place.arrive(1, sequence, path, content);
        place.folder.begin().unwrap();
        let waits = (place.folder).wait(&id(sequence), &header, arrived.as_mut(), behind.as_ref());
        place.folder.settle().unwrap();
        let is_known = place.folder.is_stale(&header).unwrap();
        assert_eq!(waits.unwrap().is_some(), is_known, "it need not come again");
        is_known
    }

    /// The outcomes of another try of all that waits.
    fn retry(place: &mut Place) -> Vec<String> {
        place.folder.begin().unwrap();
        let waiters = place.folder.waiting_after(0).unwrap();
        let made = waiters.iter().map(|waiter| {
            assert_eq!(waiter.id, id(waiter.header.sequence));
            match place.folder.make_waiting(waiter).0 {
                Ok(made) => format!("{} {made:?}", waiter.header.path),
                Err(Unmade::Place(why)) => format!("{}: {why}", waiter.header.path),
                Err(other) => panic!("{other:?}"),
            }
        });
        let made = made.collect();
        place.folder.settle().unwrap();
        made
    }

    fn kept(place: &Place) -> usize {
        fs::read_dir(place.path(DIRECTORY)).unwrap().count()
    }

    #[test]
    fn a_change_that_waited_is_made_as_it_would_have_been_at_first() {
        let mut place = Place::new();
        place.make(1, 1, "gone", Some("x"));
        place.make(1, 2, "a/kept", Some("x"));
        assert!(wait(&mut place, 5, "a/b", Some("five")));
        assert!(wait(&mut place, 6, "gone", None));
        assert!(wait(&mut place, 7, "newer", Some("seven")));
        assert!(wait(&mut place, 8, "a/b", Some("eight")), "instead of 5");
        assert_eq!(place.make(1, 4, "a/b", Some("old")), "stale");
        assert_eq!(place.make(1, 9, "newer", Some("nine")), "new");
        assert_eq!(place.files(), ["a/", "a/kept=x", "gone=x", "newer=nine"]);
        assert_eq!(kept(&place), 2, "the file of 5 is gone");
        // A kill, and files that it may have left.
        fs::write(place.path(".dhow-inbox/waiting/77"), "left").unwrap();
        let mut place = place.reopen();
        assert_eq!(kept(&place), 2);
        assert_eq!(retry(&mut place), ["gone New", "newer Stale", "a/b New"]);
        assert_eq!(place.files(), ["a/", "a/b=eight", "a/kept=x", "newer=nine"]);
        assert_eq!(retry(&mut place), Vec::<String>::new());
        assert_eq!(kept(&place), 0);
    }

    #[test]
    fn a_change_behind_another_path_is_made_once_that_one_is_gone() {
        let mut place = Place::new();
        place.make(1, 1, "Dir/x", Some("old"));
        place.make(1, 2, "Name", Some("old"));
        // As where the file system takes upper for lower case.
        assert!(wait_behind(
            &mut place,
            5,
            "name",
            Some("new"),
            Some("Name")
        ));
        assert!(wait_behind(
            &mut place,
            6,
            "dir/x",
            Some("new"),
            Some("Dir")
        ));
        assert_eq!(retry(&mut place), Vec::<String>::new());
        let mut place = place.reopen();
        assert_eq!(kept(&place), 2);
        assert_eq!(place.make(1, 3, "Name", None), "new");
        assert!(place.folder.take_released() && !place.folder.take_released());
        assert_eq!(retry(&mut place), ["name New"]);
        assert_eq!(
            place.make(1, 4, "Dir/x", None),
            "new",
            "and its directory goes"
        );
        assert!(place.folder.take_released());
        assert_eq!(retry(&mut place), ["dir/x New"]);
        assert_eq!(place.files(), ["dir/", "dir/x=new", "name=new"]);
    }

    #[test]
    fn a_kill_between_the_place_of_a_file_that_waited_and_its_record_loses_nothing() {
        let mut place = Place::new();
        assert!(wait(&mut place, 1, "a", Some("one")));
        assert!(wait(&mut place, 2, "b", Some("two")));
        fs::rename(place.path(".dhow-inbox/waiting/1"), place.path("a")).unwrap();
        fs::remove_file(place.path(".dhow-inbox/waiting/2")).unwrap();
        let mut place = place.reopen();
        assert_eq!(retry(&mut place), ["a New", "b: its octets are lost"]);
        assert_eq!(place.files(), ["a=one"]);
    }

    #[test]
    fn files_that_wait_are_kept_where_the_ledger_is_lost() {
        let mut place = Place::new();
        assert!(wait(&mut place, 1, "a", Some("one")));
        fs::remove_file(place.path(".dhow-inbox/state.db")).unwrap();
        let place = place.reopen();
        assert_eq!(kept(&place), 0);
        let lost = place.path(".dhow-inbox/refused/waiting-1");
        assert_eq!(fs::read_to_string(lost).unwrap(), "one");
    }

    #[test]
    fn no_more_changes_wait_than_are_allowed_and_one_for_each_path() {
        let mut place = Place::new();
        let others = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
             INSERT INTO waiting (folder, path, sequence, header, source, created, creation_sequence) SELECT n, n, n, n, n, n, n FROM numbers";
        let others = place
            .folder
            .ledger
            .connection
            .execute(others, [column(WAITING_MAX) - 1]);
        assert_eq!(others, Ok(9_999));
        assert!(wait(&mut place, 5, "last", Some("x")));
        assert!(!wait(&mut place, 6, "more", None));
        assert!(wait(&mut place, 7, "last", Some("y")));
    }
}
