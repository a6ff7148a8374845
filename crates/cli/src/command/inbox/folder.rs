//! The folder of an inbox: changes that came are made in it, one by one.

pub mod waiting;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use dhow_client::folder::{Change, FileHead, Header, MODE_BITS, RelativePath};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use self::waiting::Waiting;
use super::incoming::Arrived;
use super::ledger::{self, Ledger};
use crate::tree::{self, Entry, Missing, Obstacle, Tree};

/// Files that may be in the way of one, one after the other: each of its directories, and its place.
const OBSTACLES_MAX: usize = dhow_client::folder::DEPTH_MAX + 1;

/// The folder of an inbox.
#[derive(Debug)]
pub struct Folder {
    tree: Tree,
    ledger: Ledger,
    waiting: Waiting,
    /// Directories in which names have changed, by their paths; the root's is empty. As many as changes between two flushes have paths.
    changed: BTreeMap<String, OwnedFd>,
}

/// The outcome of a change that could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// The change was made.
    New,
    /// The change was made before, or a newer one was.
    Stale,
}

/// Why a change was not made.
#[derive(Debug)]
pub enum Unmade {
    /// The change will never be made: something is in its way.
    Place(String),
    /// The file system takes its path for another one, which is there: the change may be made once that one is gone.
    Behind(RelativePath, String),
    /// The system does not let it be made at this place: it may be made later, and others meanwhile.
    Later(io::Error),
    /// A fault of the system that others meet too: the change may be made later.
    System(io::Error),
}

impl From<io::Error> for Unmade {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Errno> for Unmade {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => Self::Place(format!(
                "the file system does not take its name: {}",
                io::Error::from(error)
            )),
            // The file system of the place is not the one that the payload was written to.
            Errno::XDEV => Self::Place(io::Error::from(error).to_string()),
            Errno::NOSPC | Errno::DQUOT | Errno::NOMEM | Errno::MFILE | Errno::NFILE => {
                Self::System(error.into())
            }
            error => Self::Later(error.into()),
        }
    }
}

impl From<ledger::Error> for Unmade {
    fn from(error: ledger::Error) -> Self {
        Self::System(io::Error::other(error))
    }
}

impl From<Obstacle> for Unmade {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::At(path, entry) => Self::Place(format!("{path} is {}", entry.words())),
            Obstacle::Named(path, Some(other)) => {
                let detail = format!("the file system takes {path} for {other}, which is there");
                Self::Behind(other, detail)
            }
            Obstacle::Named(path, None) => {
                Self::Place(format!("the file system takes {path} for another name"))
            }
            Obstacle::System(error) => match Errno::from_io_error(&error) {
                Some(errno) => errno.into(),
                None => Self::System(error),
            },
        }
    }
}

impl Folder {
    /// A folder with its ledger, and the changes that wait for their place.
    pub fn new(tree: Tree, ledger: Ledger, waiting: Waiting) -> Self {
        Self {
            tree: tree.exact(),
            ledger,
            waiting,
            changed: BTreeMap::new(),
        }
    }

    /// True when a path of the system leads to the folder.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.tree.is_at(path)
    }

    /// True when this change, or a newer one of its path, was made before or waits for its place.
    pub fn is_stale(&self, header: &Header) -> Result<bool, ledger::Error> {
        let waiting = self.ledger.waiting(header.folder, &header.path)?;
        Ok(self.is_made(header)? || waiting.is_some_and(|it| it >= header.sequence))
    }

    /// True when this change was made before, or a newer one of its path was or waits for its place.
    fn is_over(&self, header: &Header) -> Result<bool, ledger::Error> {
        let waiting = self.ledger.waiting(header.folder, &header.path)?;
        Ok(self.is_made(header)? || waiting.is_some_and(|it| it > header.sequence))
    }

    fn is_made(&self, header: &Header) -> Result<bool, ledger::Error> {
        let known = self.ledger.known(header.folder, &header.path)?;
        Ok(known.is_some_and(|known| known.sequence >= header.sequence))
    }

    /// True when the outbox had a file later where this one has a directory.
    fn is_outdated(&self, header: &Header) -> Result<bool, ledger::Error> {
        for directory in header.path.directories() {
            let known = self.ledger.known(header.folder, &directory)?;
            if known.is_some_and(|it| it.file.is_some() && it.sequence > header.sequence) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True when a file is there as it was brought last, and would be brought again.
    pub fn is_there(&self, header: &Header, file: &FileHead) -> Result<bool, ledger::Error> {
        let same = |known: &FileHead| {
            (known.octets, known.modified, known.sha256)
                == (file.octets, file.modified, file.sha256)
                && (known.mode ^ file.mode) & MODE_BITS == 0
        };
        let known = self.ledger.known(header.folder, &header.path)?;
        if !known.is_some_and(|it| it.file.as_ref().is_some_and(same)) {
            return Ok(false);
        }
        Ok(match self.tree.entry(&header.path) {
            Ok(Some(Entry::File(stamp))) => {
                (stamp.octets, stamp.modified) == (file.octets, file.modified)
                    && (stamp.mode ^ file.mode) & MODE_BITS == 0
            }
            _ => false,
        })
    }

    /// Makes a change. A file whose octets were not written is there already.
    pub fn make(&mut self, header: &Header, arrived: Option<&mut Arrived>) -> Result<Made, Unmade> {
        if self.is_over(header)? {
            return Ok(Made::Stale);
        }
        let is_file = matches!(header.change, Change::File(_));
        if is_file && self.is_outdated(header)? {
            return self.pass_over(header);
        }
        let made = match (&header.change, arrived) {
            (Change::Removed, _) => {
                self.remove(header)?;
                Made::New
            }
            (Change::File(_), Some(arrived)) => {
                if !self.place(header, arrived)? {
                    return self.pass_over(header);
                }
                Made::New
            }
            (Change::File(file), None) if self.is_there(header, file)? => Made::Stale,
            (Change::File(_), None) => {
                return Err(io::Error::other("the file was changed meanwhile").into());
            }
        };
        self.ledger.put(header)?;
        Ok(made)
    }

    /// Leaves out a file that has had to make room already: it is known as one that is gone.
    fn pass_over(&self, header: &Header) -> Result<Made, Unmade> {
        self.ledger.put(&Header {
            change: Change::Removed,
            ..header.clone()
        })?;
        Ok(Made::Stale)
    }

    /// Changes that are made from now on are known with [`settle`](Self::settle).
    pub fn begin(&self) -> io::Result<()> {
        self.ledger.begin().map_err(io::Error::other)
    }

    /// Makes the changes durable, and that they were made.
    pub fn settle(&mut self) -> io::Result<()> {
        for directory in std::mem::take(&mut self.changed).into_values() {
            rustix::fs::fsync(&directory)?;
        }
        self.ledger.commit().map_err(io::Error::other)?;
        self.waiting.forget();
        Ok(())
    }

    /// Forgets that changes were made since the last [`begin`](Self::begin): each is made again when it comes again.
    pub fn roll_back(&mut self) {
        self.changed.clear();
        self.waiting.roll_back();
        self.ledger.roll_back();
    }

    /// Moves a file to its place; false where something newer is there.
    fn place(&mut self, header: &Header, arrived: &mut Arrived) -> Result<bool, Unmade> {
        for _ in 0..OBSTACLES_MAX {
            let parent = match self.tree.parent(&header.path, Missing::Make) {
                Ok(Some(parent)) => parent,
                Ok(None) => return Err(io::Error::from(io::ErrorKind::NotFound).into()),
                Err(Obstacle::At(at, Entry::File(_))) => {
                    self.clear_file(header, &at)?;
                    continue;
                }
                Err(obstacle) => return Err(obstacle.into()),
            };
            match self.tree.entry_in(parent.as_fd(), &header.path)? {
                None | Some(Entry::File(_)) => {
                    arrived.place(&parent, header.path.last())?;
                    if tree::is_cut_by_some(header.path.last())
                        && let Err(obstacle) = self.tree.entry_in(parent.as_fd(), &header.path)
                    {
                        rustix::fs::unlinkat(&parent, header.path.last(), AtFlags::empty())?;
                        return Err(obstacle.into());
                    }
                    self.note(&header.path, parent);
                    return Ok(true);
                }
                Some(Entry::Directory) => {
                    if !self.clear_directory(header)? {
                        return Ok(false);
                    }
                }
                Some(entry) => return Err(Obstacle::At(header.path.clone(), entry).into()),
            }
        }
        Err(io::Error::other("its place is changed all the time").into())
    }

    /// Removes a file that is where a directory has to be, if the same outbox brought it: it is older, or the change would be stale.
    fn clear_file(&mut self, header: &Header, at: &RelativePath) -> Result<(), Unmade> {
        let known = self.ledger.known(header.folder, at)?;
        if known.is_none_or(|known| known.file.is_none()) {
            return Err(Unmade::Place(format!("{at} is a file of somebody else")));
        }
        self.unlink(at)?;
        self.ledger.put_gone(header.folder, at)?;
        Ok(())
    }

    /// Removes a directory where a file has to be, if there is nothing in it but older files of the same outbox; false where one is newer.
    fn clear_directory(&mut self, header: &Header) -> Result<bool, Unmade> {
        if self.ledger.is_newer_below(&header.path, header)? {
            return Ok(false);
        }
        let mut directories = vec![header.path.clone()];
        for path in self.ledger.older_below(&header.path, header)? {
            let within = |it: &RelativePath| it.is_within(header.path.as_str());
            directories.extend(path.directories().filter(within));
            self.unlink(&path)?;
            self.ledger.put_gone(header.folder, &path)?;
        }
        // A directory sorts before those within it.
        directories.sort_unstable();
        directories.dedup();
        for directory in directories.iter().rev() {
            match self.unlink_directory(directory) {
                Ok(()) | Err(Unmade::Later(_)) => {}
                Err(other) => return Err(other),
            }
        }
        match self.tree.entry(&header.path)? {
            Some(Entry::Directory) => Err(Unmade::Place(format!(
                "{} is a directory with files of somebody else",
                header.path
            ))),
            _ => Ok(true),
        }
    }

    /// Removes a file that its outbox brought, and the directories that are empty then.
    fn remove(&mut self, header: &Header) -> Result<(), Unmade> {
        let known = self.ledger.known(header.folder, &header.path)?;
        if known.is_none_or(|known| known.file.is_none()) {
            return Ok(());
        }
        self.unlink(&header.path)?;
        for directory in header.path.directories().rev() {
            if self.unlink_directory(&directory).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Removes a regular file of exactly this path, and nothing else.
    fn unlink(&mut self, path: &RelativePath) -> Result<(), Unmade> {
        let parent = match self.tree.parent(path, Missing::Leave) {
            Ok(Some(parent)) => parent,
            Ok(None) | Err(Obstacle::At(..) | Obstacle::Named(..)) => return Ok(()),
            Err(obstacle) => return Err(obstacle.into()),
        };
        let entry = match self.tree.entry_in(parent.as_fd(), path) {
            // The file there has another path.
            Err(Obstacle::Named(..)) => return Ok(()),
            entry => entry?,
        };
        if let Some(Entry::File(_)) = entry {
            match rustix::fs::unlinkat(&parent, path.last(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            self.note(path, parent);
            self.release(path)?;
        }
        Ok(())
    }

    /// Removes an empty directory.
    fn unlink_directory(&mut self, path: &RelativePath) -> Result<(), Unmade> {
        let Some(parent) = self.tree.parent(path, Missing::Leave)? else {
            return Ok(());
        };
        if self.tree.entry_in(parent.as_fd(), path)?.is_none() {
            return Ok(());
        }
        match rustix::fs::unlinkat(&parent, path.last(), AtFlags::REMOVEDIR) {
            Ok(()) => {
                self.note(path, parent);
                Ok(self.release(path)?)
            }
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(Unmade::Later(error.into())),
        }
    }

    /// Names in the directory of a path have changed.
    fn note(&mut self, path: &RelativePath, directory: OwnedFd) {
        let name = path.directories().next_back();
        let name = name.map_or_else(String::new, |it| it.to_string());
        self.changed.insert(name, directory);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use dhow_client::folder::{FileTime, FolderId};
    use proptest::prelude::*;

    use super::super::incoming::Incoming;
    use super::*;
    use crate::digest::Sha256;

    pub struct Place {
        directory: tempfile::TempDir,
        pub folder: Folder,
        incoming: Incoming,
    }

    impl Place {
        pub fn new() -> Self {
            Self::at(tempfile::tempdir().unwrap())
        }

        fn at(directory: tempfile::TempDir) -> Self {
            let tree = Tree::open(directory.path()).unwrap();
            let own = tree.within(".dhow-inbox").unwrap();
            let within = |name| {
                own.within(name)
                    .unwrap()
                    .root()
                    .try_clone_to_owned()
                    .unwrap()
            };
            let ledger = Ledger::open(&directory.path().join(".dhow-inbox/state.db")).unwrap();
            let waiting = Waiting::new(within("waiting"), &ledger, &within("refused"));
            Self {
                incoming: Incoming::new(within("incoming")).unwrap(),
                folder: Folder::new(tree, ledger, waiting.unwrap()),
                directory,
            }
        }

        /// The same folder in another run.
        pub fn reopen(self) -> Self {
            let Self {
                directory,
                folder,
                incoming,
            } = self;
            drop((folder, incoming));
            Self::at(directory)
        }

        /// A file of an outbox, or its removal, on its way.
        pub fn arrive(
            &mut self,
            folder: u8,
            sequence: u64,
            path: &str,
            content: Option<&str>,
        ) -> (Header, Option<Arrived>) {
            let octets = content.unwrap_or_default().as_bytes();
            let file = FileHead {
                octets: u64::try_from(octets.len()).unwrap(),
                modified: FileTime::clamped(1_000_000_000 + i64::try_from(sequence).unwrap(), 5),
                mode: 0o644,
                sha256: Sha256::of_octets(octets),
            };
            let header = Header {
                folder: FolderId([folder; 16]),
                sequence,
                path: RelativePath::new(path).unwrap(),
                change: content.map_or(Change::Removed, |_| Change::File(file)),
            };
            let arrived = content.map(|_| {
                let (arrived, ..) = self.incoming.write(&mut &octets[..]).unwrap();
                arrived.set(&file, MODE_BITS).unwrap();
                arrived
            });
            (header, arrived)
        }

        /// A file of an outbox, or its removal.
        pub fn make(
            &mut self,
            folder: u8,
            sequence: u64,
            path: &str,
            content: Option<&str>,
        ) -> String {
            let (header, mut arrived) = self.arrive(folder, sequence, path, content);
            self.folder.begin().unwrap();
            let made = match self.folder.make(&header, arrived.as_mut()) {
                Ok(Made::New) => "new".into(),
                Ok(Made::Stale) => "stale".into(),
                Err(Unmade::Place(why) | Unmade::Behind(_, why)) => why,
                Err(Unmade::Later(error) | Unmade::System(error)) => panic!("{error}"),
            };
            self.folder.settle().unwrap();
            drop(arrived);
            assert_eq!(
                fs::read_dir(self.path(".dhow-inbox/incoming"))
                    .unwrap()
                    .count(),
                0
            );
            made
        }

        pub fn path(&self, path: &str) -> std::path::PathBuf {
            self.directory.path().join(path)
        }

        /// All files, with their contents.
        pub fn files(&self) -> Vec<String> {
            fn walk(root: &Path, at: &Path, files: &mut Vec<String>) {
                for entry in fs::read_dir(at).unwrap() {
                    let path = entry.unwrap().path();
                    let name = path.strip_prefix(root).unwrap().display().to_string();
                    if path.is_dir() && !path.is_symlink() {
                        if name != ".dhow-inbox" {
                            files.push(format!("{name}/"));
                            walk(root, &path, files);
                        }
                    } else {
                        files.push(format!("{name}={}", fs::read_to_string(&path).unwrap()));
                    }
                }
            }
            let mut files = Vec::new();
            walk(self.directory.path(), self.directory.path(), &mut files);
            files.sort();
            files
        }
    }

    #[test]
    fn an_older_change_never_replaces_a_newer_one() {
        let mut place = Place::new();
        assert_eq!(place.make(1, 5, "a/b", Some("new")), "new");
        assert_eq!(place.make(1, 4, "a/b", Some("old")), "stale");
        assert_eq!(place.make(1, 5, "a/b", Some("new")), "stale");
        assert_eq!(place.make(1, 3, "a/b", None), "stale");
        assert_eq!(place.files(), ["a/", "a/b=new"]);
        assert_eq!(place.make(1, 9, "a/b", None), "new");
        assert_eq!(place.make(1, 8, "a/b", Some("between")), "stale");
        assert_eq!(place.files(), Vec::<String>::new());
        // A removal that is ahead of its file.
        assert_eq!(place.make(1, 20, "c", None), "new");
        assert_eq!(place.make(1, 19, "c", Some("c")), "stale");
        assert_eq!(place.make(1, 21, "c", Some("again")), "new");
        assert_eq!(place.files(), ["c=again"]);
    }

    #[test]
    fn a_file_and_a_directory_make_room_for_each_other_in_whatever_order_they_come() {
        // The outbox had the file a, then a/b/c and a/d, then the file a again.
        let changes = [(1, "a"), (2, "a/b/c"), (3, "a/d"), (4, "a")];
        for order in [
            [0, 1, 2, 3],
            [3, 2, 1, 0],
            [1, 0, 3, 2],
            [2, 3, 0, 1],
            [2, 0, 1, 3],
        ] {
            let mut place = Place::new();
            for at in order {
                let (sequence, path) = changes[at];
                place.make(1, sequence, path, Some(&sequence.to_string()));
            }
            assert_eq!(place.files(), ["a=4"], "{order:?}");
        }
        let mut place = Place::new();
        for at in [2, 0, 1] {
            let (sequence, path) = changes[at];
            place.make(1, sequence, path, Some(&sequence.to_string()));
        }
        assert_eq!(place.files(), ["a/", "a/b/", "a/b/c=2", "a/d=3"]);
    }

    /// A removal and its file, both late, behind a file that was where their directory was.
    #[test]
    fn a_late_removal_is_known_once_its_directory_may_be_there_again() {
        let mut place = Place::new();
        assert_eq!(place.make(1, 5, "a", Some("later")), "new");
        assert_eq!(place.make(1, 2, "a/b", None), "new", "and is known");
        assert_eq!(place.make(1, 3, "a/c", Some("old")), "stale");
        assert_eq!(place.make(1, 7, "a", None), "new");
        assert_eq!(place.make(1, 1, "a/b", Some("old")), "stale");
        assert_eq!(place.make(1, 3, "a/c", Some("old")), "stale");
        assert_eq!(place.files(), Vec::<String>::new());
    }

    /// Paths of which some lead through others.
    const PATHS: [&str; 6] = ["a", "a/b", "a/b/c", "a/d", "e", "e/f"];

    /// The changes that an outbox tells while files are written and removed, and the files that it has in the end.
    fn history(
        steps: &[(usize, bool)],
    ) -> (Vec<(&'static str, bool)>, BTreeMap<&'static str, usize>) {
        let (mut told, mut files) = (Vec::new(), BTreeMap::new());
        for (path, is_written) in steps {
            let path = PATHS[*path];
            let is_within = |one: &str, other: &str| one.starts_with(&format!("{other}/"));
            let mut gone: Vec<&str> = Vec::new();
            if *is_written {
                let in_the_way = |it: &&&str| is_within(it, path) || is_within(path, it);
                gone.extend(files.keys().filter(in_the_way).copied());
                files.insert(path, told.len());
                told.push((path, true));
            } else if files.contains_key(path) {
                gone.push(path);
            }
            for path in gone {
                files.remove(path);
                told.push((path, false));
            }
        }
        (told, files)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// In whatever order bundles come, and however often, the folder is as the outbox has it in the end.
        #[test]
        fn all_orders_of_all_changes_lead_to_the_same_files(
            steps in prop::collection::vec((0..PATHS.len(), prop::bool::weighted(0.7)), 1..9),
            orders in prop::collection::vec(any::<u32>(), 40),
        ) {
            let (told, files) = history(&steps);
            let mut place = Place::new();
            // Each twice: 8 steps write 8 files and lose no more than these.
            let mut arrivals: Vec<(u32, usize)> = orders.iter().copied().zip((0..told.len()).cycle()).take(2 * told.len()).collect();
            arrivals.sort_unstable();
            for (_, number) in arrivals {
                let (path, is_file) = told[number];
                let content = number.to_string();
                place.make(1, u64::try_from(number).unwrap(), path, is_file.then_some(&content));
            }
            let found: Vec<String> = place.files().into_iter().filter(|it| !it.ends_with('/')).collect();
            let expected: Vec<String> = files.iter().map(|(path, number)| format!("{path}={number}")).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_others_have_put_there_stays() {
        let mut place = Place::new();
        let outside = tempfile::tempdir().unwrap();
        fs::write(place.path("mine"), "m").unwrap();
        fs::create_dir(place.path("full")).unwrap();
        fs::write(place.path("full/mine"), "m").unwrap();
        symlink(outside.path(), place.path("link")).unwrap();
        let refused = place.make(1, 1, "mine/x", Some("x"));
        assert_eq!(refused, "mine is a file of somebody else");
        assert_eq!(place.make(1, 2, "full/theirs", Some("x")), "new");
        let refused = place.make(1, 3, "full", Some("x"));
        assert_eq!(refused, "full is a directory with files of somebody else");
        assert_eq!(
            place.make(1, 4, "link/x", Some("x")),
            "link is a symbolic link"
        );
        assert_eq!(
            place.make(1, 5, "link", Some("x")),
            "link is a symbolic link"
        );
        assert_eq!(
            place.make(1, 6, "mine", None),
            "new",
            "and nothing happened"
        );
        assert_eq!(
            place.make(1, 7, "link/y", None),
            "new",
            "and nothing happened"
        );
        assert!(place.path("mine").exists() && place.path("full/mine").exists());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        // A file in the very place is replaced: the path is the outbox's.
        assert_eq!(place.make(1, 8, "mine", Some("theirs")), "new");
        assert_eq!(fs::read_to_string(place.path("mine")).unwrap(), "theirs");
    }

    #[test]
    fn a_file_of_another_outbox_is_not_removed() {
        let mut place = Place::new();
        assert_eq!(place.make(1, 5, "a", Some("one")), "new");
        assert_eq!(place.make(2, 1, "a", Some("two")), "new");
        assert_eq!(place.make(1, 6, "a", None), "new");
        assert_eq!(place.files(), ["a=two"]);
        assert_eq!(place.make(2, 2, "a", None), "new");
        assert_eq!(place.files(), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_the_file_system_does_not_take_is_refused() {
        let mut place = Place::new();
        // 255 octets are the bound of the file system, and of a path: nothing to refuse here but what it says itself.
        let long = "n".repeat(255);
        assert_eq!(place.make(1, 1, &long, Some("x")), "new");
        assert!(matches!(Unmade::from(Errno::NAMETOOLONG), Unmade::Place(_)));
        assert!(matches!(Unmade::from(Errno::INVAL), Unmade::Place(_)));
        assert!(matches!(Unmade::from(Errno::NOSPC), Unmade::System(_)));
        assert!(matches!(Unmade::from(Errno::ACCESS), Unmade::Later(_)));
    }

    #[test]
    fn a_file_that_is_there_as_it_would_come_is_known() {
        let mut place = Place::new();
        place.make(1, 1, "a", Some("x"));
        let header = Header {
            folder: FolderId([1; 16]),
            sequence: 2,
            path: RelativePath::new("a").unwrap(),
            change: Change::Removed,
        };
        let file = FileHead {
            octets: 1,
            modified: FileTime::clamped(1_000_000_001, 5),
            mode: 0o4644,
            sha256: Sha256::of_octets(b"x"),
        };
        assert!(place.folder.is_there(&header, &file).unwrap());
        let other = FileHead {
            mode: 0o600,
            ..file
        };
        assert!(!place.folder.is_there(&header, &other).unwrap());
        fs::write(place.path("a"), "y").unwrap();
        assert!(!place.folder.is_there(&header, &file).unwrap());
    }
}
