//! The ways back to sources, as blocks came from them: reports go back there. A relay keeps them in its directory, since a report may come when it
//! has begun anew and the block has long left.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dhow_link::ltp::EndToEnd;

use super::Hop;

/// Sources to which the way back is known, at most.
const MAX_WAYS: usize = 4_096;

/// Lines after which the file is written anew, with one for each source.
const MAX_LINES: usize = 4 * MAX_WAYS;

/// Octets of a file that are read, at most: a line has fewer than 128.
const MAX_OCTETS: u64 = 128 * 4 * 4_096;

/// The file in the directory of a relay.
const NAME: &str = ".ways";

/// The neighbour that a block of a source came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WayBack {
    hop: Hop,
    /// The number of the transfer; 0 where the way was read.
    transfer: u64,
    /// Hops that it might still make.
    hops: u8,
}

/// A line of the file, as JSON: the source's engine, and engine and address of the hop. The last one of a source counts.
type Line = (u64, u64, SocketAddr);

/// The ways back to sources, by engine.
#[derive(Debug, Default)]
pub(super) struct Ways {
    known: BTreeMap<u64, WayBack>,
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    path: PathBuf,
    file: Arc<File>,
    lines: usize,
}

impl Ways {
    /// Those that a relay knew before, which keeps them in its directory.
    ///
    /// # Errors
    /// When the file cannot be read, or written anew.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        let mut text = Vec::new();
        match File::open(&path) {
            Ok(file) => {
                file.take(MAX_OCTETS).read_to_end(&mut text)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut ways = Self::default();
        for line in text.split(|octet| *octet == b'\n') {
            // A line that was cut off by the end of the relay is passed over.
            let Ok((source, engine, address)) = serde_json::from_slice::<Line>(line) else {
                continue;
            };
            let hop = Hop { engine, address };
            ways.insert(source, hop, 0, 0);
        }
        ways.kept = Some(ways.write_anew(path)?);
        Ok(ways)
    }

    /// The hop to a source.
    pub(super) fn to(&self, engine: u64) -> Option<Hop> {
        self.known.get(&engine).map(|it| it.hop)
    }

    /// A block came from a neighbour: its source is there, unless the block was here before and went round. The file comes back that is to be synced, if
    /// the way is another.
    ///
    /// # Errors
    /// When the way cannot be written; it is known all the same.
    pub(super) fn learn(&mut self, of: &EndToEnd, hop: Hop) -> io::Result<Option<Arc<File>>> {
        let source = of.source.engine;
        let known = self.known.get(&source);
        if known.is_some_and(|it| it.transfer == of.transfer && of.hops < it.hops) {
            return Ok(None);
        }
        let is_known = known.is_some_and(|it| it.hop == hop);
        if !self.insert(source, hop, of.transfer, of.hops) || is_known {
            return Ok(None);
        }
        let Some(kept) = &mut self.kept else {
            return Ok(None);
        };
        if kept.lines >= MAX_LINES {
            let path = kept.path.clone();
            self.kept = Some(self.write_anew(path)?);
        } else {
            kept.lines += 1;
            (&*kept.file).write_all(&line(source, hop)?)?;
        }
        Ok(self.kept.as_ref().map(|it| Arc::clone(&it.file)))
    }

    /// False where there is no room.
    fn insert(&mut self, source: u64, hop: Hop, transfer: u64, hops: u8) -> bool {
        let has_room = self.known.len() < MAX_WAYS || self.known.contains_key(&source);
        if has_room {
            let way = WayBack {
                hop,
                transfer,
                hops,
            };
            self.known.insert(source, way);
        }
        has_room
    }

    /// Writes all ways into a file that takes the place of the one before.
    fn write_anew(&self, path: PathBuf) -> io::Result<Kept> {
        let mut text = Vec::new();
        for (source, way) in &self.known {
            text.extend(line(*source, way.hop)?);
        }
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        std::fs::rename(&new, &path)?;
        Ok(Kept {
            path,
            file: Arc::new(file),
            lines: self.known.len(),
        })
    }
}

fn line(source: u64, hop: Hop) -> io::Result<Vec<u8>> {
    let line: Line = (source, hop.engine, hop.address);
    let mut line = serde_json::to_vec(&line)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use dhow_link::ltp::Service;

    use super::*;

    fn block(engine: u64, transfer: u64, hops: u8) -> EndToEnd {
        let of = |engine| Service { engine, service: 1 };
        EndToEnd {
            source: of(engine),
            destination: of(9),
            transfer,
            length: None,
            life_s: 9,
            hops,
            wants_report: true,
            is_report: false,
            is_congested: false,
        }
    }

    fn hop(engine: u64) -> Hop {
        let address = format!("192.0.2.{engine}:1113").parse().unwrap();
        Hop { engine, address }
    }

    #[test]
    fn the_newest_ways_are_known_after_a_restart_and_a_line_that_was_cut_off_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let mut ways = Ways::open(directory.path()).unwrap();
        assert!(ways.learn(&block(1, 7, 9), hop(2)).unwrap().is_some());
        assert!(
            ways.learn(&block(1, 8, 9), hop(2)).unwrap().is_none(),
            "as before"
        );
        assert!(ways.learn(&block(5, 1, 9), hop(2)).unwrap().is_some());
        assert!(ways.learn(&block(1, 9, 9), hop(3)).unwrap().is_some());
        assert!(
            ways.learn(&block(1, 9, 8), hop(4)).unwrap().is_none(),
            "it went round"
        );
        let path = directory.path().join(NAME);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"not a line\n[6,").unwrap();
        for _ in 0..2 {
            let mut ways = Ways::open(directory.path()).unwrap();
            assert_eq!(
                (ways.to(1), ways.to(5), ways.to(6)),
                (Some(hop(3)), Some(hop(2)), None)
            );
            assert!(ways.learn(&block(5, 2, 9), hop(2)).unwrap().is_none());
        }
    }

    #[test]
    fn a_source_that_comes_from_here_and_there_makes_no_file_grow_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let mut ways = Ways::open(directory.path()).unwrap();
        for number in 0..3 * 16_384_u64 {
            ways.learn(&block(1, number, 9), hop(2 + number % 2))
                .unwrap();
        }
        let octets = std::fs::metadata(directory.path().join(NAME))
            .unwrap()
            .len();
        assert!(octets < MAX_OCTETS, "{octets}");
        let mut ways = Ways::default();
        for number in 0..9_000_u64 {
            ways.learn(&block(number, 1, 9), hop(2)).unwrap();
        }
        assert_eq!((ways.to(4_095), ways.to(4_096)), (Some(hop(2)), None));
    }
}
