//! The directory: the results of a run are complete or not there, so that an interrupted sweep goes on where it stopped.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dhow_scenario::regular_file::read_text;
use serde::Serialize;
use thiserror::Error;

use super::conditions::{Conditions, Gathered};
use super::rows::{Capacity, Contact, Figure, LinkSample, Payload, Resource, Row};
use super::run::Run;
use super::table::{self, TEXT_OCTETS_MAX};

/// The file in a run's directory that says that all others are complete.
const SEAL: &str = "run.json";

/// The file in a run's directory that says under which conditions it took place.
const CONDITIONS: &str = "conditions.json";

/// The file in a node's directory, in that of a run, that says where its processor time went.
pub(crate) const PROFILE: &str = "profile.txt";

/// The table of all runs.
const RUNS: &str = "runs.csv";

/// The programs and the machine of the runs: a JSON object.
const MANIFEST: &str = "manifest.json";

/// Why results cannot be read or written.
#[derive(Debug, Error)]
#[error("{}: {what}", path.display())]
pub struct ResultsError {
    /// The file or directory.
    pub path: PathBuf,
    /// The fault.
    pub what: String,
}

impl ResultsError {
    fn new(path: &Path, what: impl ToString) -> Self {
        let (path, what) = (path.to_path_buf(), what.to_string());
        Self { path, what }
    }
}

/// The directory in which the runs of a scenario leave their results.
#[derive(Clone, Debug)]
pub struct Results {
    directory: PathBuf,
}

impl Results {
    /// A directory for new results, which is made; one that is there already must be empty.
    ///
    /// # Errors
    /// When it cannot be made, or has something in it.
    pub fn create(directory: &Path) -> Result<Self, ResultsError> {
        let failed = |error: io::Error| ResultsError::new(directory, error);
        fs::create_dir_all(directory).map_err(failed)?;
        if fs::read_dir(directory).map_err(failed)?.next().is_some() {
            return Err(ResultsError::new(
                directory,
                "there are files in it already",
            ));
        }
        Self::open(directory)
    }

    /// A directory that has results.
    ///
    /// # Errors
    /// When there is no such directory.
    pub fn open(directory: &Path) -> Result<Self, ResultsError> {
        if !directory.is_dir() {
            return Err(ResultsError::new(directory, "there is no such directory"));
        }
        let directory = directory.to_path_buf();
        Ok(Self { directory })
    }

    /// The directory itself.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of a run, for its logs and files too.
    #[must_use]
    pub fn of_run(&self, run: &str) -> PathBuf {
        self.directory.join(run)
    }

    /// Makes the directory of a run that begins, without whatever an earlier attempt left there.
    ///
    /// # Errors
    /// When files cannot be removed or made.
    pub fn begin(&self, run: &str) -> Result<PathBuf, ResultsError> {
        let place = self.of_run(run);
        match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ResultsError::new(&place, error));
            }
            _ => {}
        }
        fs::create_dir_all(&place).map_err(|error| ResultsError::new(&place, error))?;
        Ok(place)
    }

    /// Writes a table of a run that is under way.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write<R: Row>(&self, run: &str, rows: &[R]) -> Result<(), ResultsError> {
        let path = self.of_run(run).join(R::FILE);
        let failed = |error: csv::Error| ResultsError::new(&path, error);
        let mut writer = csv::Writer::from_path(&path).map_err(failed)?;
        for row in rows {
            writer.serialize(row).map_err(failed)?;
        }
        if rows.is_empty() {
            writer
                .write_record(&columns::<R>().map_err(failed)?)
                .map_err(failed)?;
        }
        writer
            .flush()
            .map_err(|error| ResultsError::new(&path, error))
    }

    /// Reads a table of a run; empty where the run has none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read<R: Row>(&self, run: &str) -> Result<Vec<R>, ResultsError> {
        let path = self.of_run(run).join(R::FILE);
        let failed = |error: csv::Error| ResultsError::new(&path, error);
        let mut table = match table::open(&path) {
            Err(error) if not_there(&error) => return Ok(Vec::new()),
            opened => opened.map_err(|error| ResultsError::new(&path, error))?,
        };
        let rows = table.deserialize();
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// Writes under which conditions a run took place.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn write_conditions(&self, run: &str, conditions: &Conditions) -> Result<(), ResultsError> {
        let path = self.of_run(run).join(CONDITIONS);
        let text = serde_json::to_string_pretty(conditions);
        replace(
            &path,
            &text.map_err(|error| ResultsError::new(&path, error))?,
        )
    }

    /// Under which conditions a run took place; those of nothing where nobody said.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn conditions(&self, run: &str) -> Result<Conditions, ResultsError> {
        let path = self.of_run(run).join(CONDITIONS);
        match read_text(&path, TEXT_OCTETS_MAX) {
            Err(error) if not_there(&error) => Ok(Conditions::default()),
            Err(error) => Err(ResultsError::new(&path, error)),
            Ok(text) => {
                serde_json::from_str(&text).map_err(|error| ResultsError::new(&path, error))
            }
        }
    }

    /// Says that a run's tables are complete: the last that is written of a run.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn seal(&self, run: &Run) -> Result<(), ResultsError> {
        let path = self.of_run(&run.run).join(SEAL);
        let text =
            serde_json::to_string_pretty(run).map_err(|error| ResultsError::new(&path, error))?;
        replace(&path, &text)
    }

    /// The runs whose tables are complete, whatever became of them, in the order of their names.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn runs(&self) -> Result<Vec<Run>, ResultsError> {
        let failed = |error: io::Error| ResultsError::new(&self.directory, error);
        let mut runs = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path().join(SEAL);
            let text = match read_text(&path, TEXT_OCTETS_MAX) {
                Err(error) if not_there(&error) => continue,
                read => read.map_err(|error| ResultsError::new(&path, error))?,
            };
            let run = serde_json::from_str::<Run>(&text);
            runs.push(run.map_err(|error| ResultsError::new(&path, error))?);
        }
        runs.sort_by(|one, other| one.run.cmp(&other.run));
        Ok(runs)
    }

    /// Writes what ran, on what.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_manifest(&self, manifest: &serde_json::Value) -> Result<(), ResultsError> {
        let path = self.directory.join(MANIFEST);
        let text = serde_json::to_string_pretty(manifest);
        let text = text.map_err(|error| ResultsError::new(&path, error))?;
        replace(&path, &text)
    }

    /// The programs and the machine of the runs; null if they are not known.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn manifest(&self) -> Result<serde_json::Value, ResultsError> {
        let path = self.directory.join(MANIFEST);
        match read_text(&path, TEXT_OCTETS_MAX) {
            Err(error) if not_there(&error) => Ok(serde_json::Value::Null),
            Err(error) => Err(ResultsError::new(&path, error)),
            Ok(text) => {
                serde_json::from_str(&text).map_err(|error| ResultsError::new(&path, error))
            }
        }
    }

    /// Writes the tables of all runs beside their directories: those of each run, with its name before every line. The manifest gets
    /// what each ran under.
    ///
    /// # Errors
    /// When something cannot be read or written.
    pub fn gather(&self) -> Result<(), ResultsError> {
        let runs = self.runs()?;
        let path = self.directory.join(RUNS);
        let failed = |error: csv::Error| ResultsError::new(&path, error);
        let mut writer = csv::Writer::from_path(&path).map_err(failed)?;
        for run in &runs {
            writer.serialize(run).map_err(failed)?;
        }
        if runs.is_empty() {
            let headings = columns::<Run>().map_err(failed)?;
            writer.write_record(&headings).map_err(failed)?;
        }
        writer
            .flush()
            .map_err(|error| ResultsError::new(&path, error))?;
        self.gather_conditions(&runs)?;
        self.gather_table::<Payload>(&runs)?;
        self.gather_table::<Contact>(&runs)?;
        self.gather_table::<LinkSample>(&runs)?;
        self.gather_table::<Resource>(&runs)?;
        self.gather_table::<Figure>(&runs)?;
        self.gather_table::<Capacity>(&runs)
    }

    fn gather_conditions(&self, runs: &[Run]) -> Result<(), ResultsError> {
        let serde_json::Value::Object(mut manifest) = self.manifest()? else {
            return Ok(());
        };
        let mut gathered = Gathered::default();
        for run in runs {
            let path = self.of_run(&run.run).join(CONDITIONS);
            // A run that was ended early may have none.
            if !path.exists() {
                continue;
            }
            gathered.add(&run.run, || self.conditions(&run.run))?;
        }
        gathered.put_into(&mut manifest);
        self.write_manifest(&manifest.into())
    }

    fn gather_table<R: Row>(&self, runs: &[Run]) -> Result<(), ResultsError> {
        let path = self.directory.join(R::FILE);
        let failed = |error: csv::Error| ResultsError::new(&path, error);
        let mut writer = csv::Writer::from_path(&path).map_err(failed)?;
        let mut headed = false;
        for run in runs {
            let of_run = self.of_run(&run.run).join(R::FILE);
            let unread = |error: csv::Error| ResultsError::new(&of_run, error);
            let mut reader = match table::open(&of_run) {
                Err(error) if not_there(&error) => continue,
                opened => opened.map_err(|error| ResultsError::new(&of_run, error))?,
            };
            if !headed && !reader.headers().map_err(unread)?.is_empty() {
                let headings = reader.headers().map_err(unread)?;
                let headings = ["run"].into_iter().chain(headings);
                writer.write_record(headings).map_err(failed)?;
                headed = true;
            }
            for row in reader.records() {
                let row = row.map_err(unread)?;
                let cells = [run.run.as_str()].into_iter().chain(&row);
                writer.write_record(cells).map_err(failed)?;
            }
        }
        if !headed {
            let headings = columns::<R>().map_err(failed)?;
            let headings = ["run"].into_iter().chain(&headings);
            writer.write_record(headings).map_err(failed)?;
        }
        writer
            .flush()
            .map_err(|error| ResultsError::new(&path, error))
    }
}

/// The headings of a table.
fn columns<R: Serialize + Default>() -> Result<csv::StringRecord, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.serialize(R::default())?;
    let text = writer.into_inner().map_err(|error| error.into_error())?;
    csv::Reader::from_reader(text.as_slice()).headers().cloned()
}

/// True if an error says that there is no such file.
pub(crate) fn not_there(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Writes a file that is whole or as it was, also when the power fails.
fn replace(path: &Path, text: &str) -> Result<(), ResultsError> {
    let failed = |error: io::Error| ResultsError::new(path, error);
    let new = path.with_extension("new");
    let mut file = File::create(&new).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.write_all(b"\n").map_err(failed)?;
    file.sync_data().map_err(failed)?;
    fs::rename(&new, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::super::run::{Backend, Point, Status};
    use super::*;

    fn run(name: &str) -> Run {
        Run {
            run: name.to_owned(),
            backend: Backend::Netns,
            point: "traffic.size=2kB".parse::<Point>().unwrap(),
            repeat: 1,
            seed: 7,
            status: Status::Failed("node beta, which was \"full\", ended".to_owned()),
            started: "2026-11-22T04:20:00Z".to_owned(),
            duration_s: 20.0,
            wall_s: 21.5,
            sent: 2,
            accepted: 2,
            refused: 0,
            delivered: 1,
            wrong: 0,
            expired: 0,
            delivered_octets: 2_000,
            samples: 0,
            samples_lost: 0,
            cpu_s_per_mb: Some(0.25),
            link_s_per_mb: Some(1.5),
            ..Run::default()
        }
    }

    fn payload(number: u64, delivered_s: Option<f64>) -> Payload {
        Payload {
            traffic: 1,
            number,
            from: "alpha, wired".to_owned(),
            to: "delta".to_owned(),
            octets: 2_000,
            sent_s: 0.25,
            accepted_s: Some(0.5),
            delivered_s,
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_gathered() {
        let place = tempfile::tempdir().unwrap();
        let results = Results::create(&place.path().join("out")).unwrap();
        let rows = [payload(1, Some(1.75)), payload(2, None)];
        for name in ["0002", "0001"] {
            results.begin(name).unwrap();
            results.write(name, &rows).unwrap();
            results.seal(&run(name)).unwrap();
        }
        assert_eq!(results.read::<Payload>("0001").unwrap(), rows);
        assert!(results.read::<Contact>("0001").unwrap().is_empty());
        assert_eq!(results.runs().unwrap(), [run("0001"), run("0002")]);
        results.gather().unwrap();
        let gathered = fs::read_to_string(results.directory().join("payloads.csv")).unwrap();
        assert_eq!(
            gathered.lines().take(3).collect::<Vec<_>>(),
            [
                "run,traffic,number,from,to,octets,sent_s,accepted_s,delivered_s",
                "0001,1,1,\"alpha, wired\",delta,2000,0.25,0.5,1.75",
                "0001,1,2,\"alpha, wired\",delta,2000,0.25,0.5,",
            ]
        );
        assert_eq!(gathered.lines().count(), 5);
        let mut runs = csv::Reader::from_path(results.directory().join(RUNS)).unwrap();
        let runs: Vec<Run> = runs.deserialize().map(Result::unwrap).collect();
        assert_eq!(runs, results.runs().unwrap());
    }

    #[test]
    fn a_run_that_was_cut_off_is_as_if_it_had_never_been() {
        let place = tempfile::tempdir().unwrap();
        let results = Results::create(place.path()).unwrap();
        results.begin("0001").unwrap();
        results.write("0001", &[payload(1, None)]).unwrap();
        assert!(results.runs().unwrap().is_empty());
        results.gather().unwrap();
        // A table without lines says what it has none of.
        assert_eq!(
            fs::read_to_string(place.path().join("payloads.csv")).unwrap(),
            "run,traffic,number,from,to,octets,sent_s,accepted_s,delivered_s\n"
        );
        results.write::<Contact>("0001", &[]).unwrap();
        assert_eq!(
            fs::read_to_string(results.of_run("0001").join(Contact::FILE)).unwrap(),
            "link,start_s,end_s\n"
        );
        results.begin("0001").unwrap();
        assert!(results.read::<Payload>("0001").unwrap().is_empty());
    }

    #[test]
    fn a_directory_with_files_in_it_is_not_for_new_results() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("mine"), "").unwrap();
        let error = Results::create(place.path()).unwrap_err().to_string();
        assert!(error.ends_with("there are files in it already"), "{error}");
        assert!(Results::open(&place.path().join("other")).is_err());
    }
}
