//! Rates of traffic in the measurements of a run's programs.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::failure::LabError;
use crate::results::Figure;

/// Columns of traffic that arrived or left: of packets, or of sums over them.
const LENGTHS: [&str; 4] = [
    "pkt_length",
    "pkt_length_sum",
    "packet_size",
    "packet_size_sum",
];

/// Tables whose figures are told, at most; of how many more there would be some is told.
const TABLES_MAX: usize = 100;

/// The rate of traffic in each table that has some, by sender, and how many tables there was no room for; nothing where nothing was
/// measured.
///
/// # Errors
/// When the database cannot be read.
pub(super) fn read(file: &Path) -> rusqlite::Result<(Vec<Figure>, usize)> {
    if !file.exists() {
        return Ok((Vec::new(), 0));
    }
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut tables = database.prepare(
        "SELECT m.name, p.name FROM sqlite_master m JOIN pragma_table_info(m.name) p \
         WHERE m.type = 'table' ORDER BY m.name",
    )?;
    let columns = tables.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    let columns: Vec<(String, String)> = columns.collect::<Result<_, _>>()?;
    let found: Vec<_> = columns
        .iter()
        .filter(|(_, column)| LENGTHS.contains(&column.as_str()))
        .collect();
    let lost = found.len().saturating_sub(TABLES_MAX);
    let mut senders = database.prepare("SELECT id, name FROM _senders ORDER BY name")?;
    let senders = senders.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let senders: Vec<(i64, String)> = senders.collect::<Result<_, _>>()?;
    let mut rates: BTreeMap<&str, Vec<(&str, Figure)>> = BTreeMap::new();
    for (table, column) in found.into_iter().take(TABLES_MAX) {
        let quoted = table.replace('"', "\"\"");
        let mut lengths = database.prepare(&format!(
            "SELECT oml_sender_id, oml_ts_client, {column} FROM \"{quoted}\" WHERE {column} > 0"
        ))?;
        let mut rows = lengths.query([])?;
        // In the order of the file: a run may have more rows than memory has room to sort.
        let mut courses: BTreeMap<i64, Course> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (time_s, octets) = (row.get(1)?, row.get(2)?);
            let course = courses.entry(row.get(0)?).or_default();
            course.add((time_s, octets));
        }
        for (sender, name) in &senders {
            let figure = courses.get(sender).and_then(|course| course.figure(name));
            let of_sender = rates.entry(name).or_default();
            of_sender.extend(figure.map(|figure| (table.as_str(), figure)));
        }
    }
    Ok((rates.into_values().flat_map(of_one_source).collect(), lost))
}

/// The figures of a sender: those of several tables are named with them, since they are not one figure.
fn of_one_source(mut rates: Vec<(&str, Figure)>) -> impl Iterator<Item = Figure> {
    if rates.len() > 1 {
        for (table, figure) in &mut rates {
            figure.program = format!("{}.{table}", figure.program);
        }
    }
    rates.into_iter().map(|(_, figure)| figure)
}

/// Adds what was measured to what programs told: where a program told the same figure itself, that is the one.
pub(super) fn add(told: &mut Vec<Figure>, mut measured: Vec<Figure>) {
    measured.retain(|new| {
        let mut known = told.iter();
        !known.any(|it| it.program == new.program && it.name == new.name)
    });
    told.append(&mut measured);
}

/// Says that of so many more tables nothing is told; nothing where there are none.
pub(super) fn without_room(more: usize) -> Option<LabError> {
    let what = format!(
        "measurements have rates in {more} tables beyond the {TABLES_MAX} that a run has room for"
    );
    let hint = "programs of one name share a table; give several runs what one has not room for";
    (more > 0).then(|| LabError::new(what).with_hint(hint))
}

/// Rows at either end of a course that tell how long the first and the last are.
const ENDS: usize = 3;

/// One sender's rows, each with its time, which is the end of that in which its octets came, and those octets.
#[derive(Debug, Default)]
struct Course {
    octets: f64,
    /// The first times and their octets, and the last ones backwards.
    first: Vec<(f64, f64)>,
    last: Vec<(f64, f64)>,
}

impl Course {
    fn add(&mut self, row: (f64, f64)) {
        self.octets += row.1;
        keep(&mut self.first, row, |time, other| time < other);
        keep(&mut self.last, row, |time, other| time > other);
    }

    /// The rate of all that came; nothing where there are too few rows. Of the first and the last row it is not known for how much of their time
    /// something came: for as long as it takes at the rate of the row beside them, and no longer than from one to the other.
    fn figure(&self, sender: &str) -> Option<Figure> {
        let ([first, second, _], [last, before, third]) =
            (self.first.as_slice(), self.last.as_slice())
        else {
            return None;
        };
        let whole = before.0 - first.0;
        let time = whole
            + part(*first, *second, second.0 - first.0)
            + part(*last, *before, before.0 - third.0).min(last.0 - before.0);
        (time > 0.0).then(|| Figure {
            node: String::new(),
            program: sender.to_owned(),
            name: "rate".to_owned(),
            time_s: last.0,
            value: self.octets * 8.0 / time,
            unit: "bit/s".to_owned(),
        })
    }
}

/// The part of a time in which a row's octets came, at the rate of the row beside it, which took that time.
fn part(row: (f64, f64), beside: (f64, f64), time: f64) -> f64 {
    time * (row.1 / beside.1).min(1.0)
}

/// Keeps a row among those that are before others; rows of one time are one.
fn keep(rows: &mut Vec<(f64, f64)>, row: (f64, f64), is_before: impl Fn(f64, f64) -> bool) {
    let place = rows.partition_point(|other| is_before(other.0, row.0));
    match rows.get_mut(place) {
        Some(same) if same.0.total_cmp(&row.0).is_eq() => same.1 += row.1,
        _ => {
            rows.insert(place, row);
            rows.truncate(ENDS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_a_program_tells_itself_has_one_source() {
        let figure = |program: &str, name: &str, value| Figure {
            program: program.to_owned(),
            name: name.to_owned(),
            value,
            ..Figure::default()
        };
        let mut told = vec![figure("tx", "rate", 1.0), figure("rx", "lost", 2.0)];
        add(
            &mut told,
            vec![figure("tx", "rate", 3.0), figure("rx", "rate", 4.0)],
        );
        let values: Vec<f64> = told.iter().map(|it| it.value).collect();
        assert_eq!(values, [1.0, 2.0, 4.0]);
    }

    #[test]
    fn rates_of_packets_and_of_sums_are_those_of_the_traffic() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("measurements.sq3");
        let database = Connection::open(&file).unwrap();
        database
            .execute_batch(
                "CREATE TABLE _senders (name TEXT, id INTEGER);
                 INSERT INTO _senders VALUES ('tx', 1), ('rx', 2);
                 CREATE TABLE otr2_udp_in (oml_sender_id INTEGER, oml_ts_client REAL, pkt_length INTEGER);
                 CREATE TABLE otg2_udp_out (oml_sender_id INTEGER, oml_ts_client REAL, pkt_length_sum REAL);
                 CREATE TABLE other (oml_sender_id INTEGER, oml_ts_client REAL, load REAL);",
            )
            .unwrap();
        // Rows that waited for the collector may come after rows that were measured later.
        for number in (51..=100).chain(1..=50) {
            let time = f64::from(number) / 10.0;
            let insert = "INSERT INTO otr2_udp_in VALUES (2, ?1, 1000)";
            database.execute(insert, [time]).unwrap();
        }
        // The first time and the last were not whole, and then nothing came any more.
        for (number, octets) in [3e3, 1e4, 1e4, 1e4, 7e3, 0.0, 0.0].into_iter().enumerate() {
            let insert = "INSERT INTO otg2_udp_out VALUES (1, ?1, ?2)";
            let time = u32::try_from(number).unwrap();
            database.execute(insert, [f64::from(time), octets]).unwrap();
        }
        let (rates, lost) = read(&file).unwrap();
        assert_eq!(lost, 0);
        let told: Vec<(&str, i64)> = rates
            .iter()
            .map(|it| {
                (
                    it.program.as_str(),
                    i64::try_from(crate::number::whole(it.value)).unwrap(),
                )
            })
            .collect();
        assert_eq!(told, [("rx", 80_000), ("tx", 80_000)]);
        // Two programs that have one name are two sources.
        let same =
            "UPDATE _senders SET name = 'vm', id = 1; UPDATE otr2_udp_in SET oml_sender_id = 1";
        database
            .execute_batch(&format!("{same}; DELETE FROM _senders WHERE rowid = 2"))
            .unwrap();
        let (rates, _) = read(&file).unwrap();
        let names: Vec<&str> = rates.iter().map(|it| it.program.as_str()).collect();
        assert_eq!(names, ["vm.otg2_udp_out", "vm.otr2_udp_in"]);
    }

    #[test]
    fn a_rate_that_changes_is_the_mean_of_all_of_the_time() {
        let mut course = Course::default();
        // A rate for two seconds and four times that for three; what came at the beginning of a window is of less time.
        for (number, octets) in [2.0, 2.0, 8.0, 8.0, 8.0].into_iter().enumerate() {
            let time = u32::try_from(number).unwrap();
            course.add((f64::from(time), octets));
        }
        let rate = |course: &Course| course.figure("tx").map(|it| it.value / 8.0);
        assert_eq!(rate(&course), Some(28.0 / 5.0));
        course.add((5.0, 4.0));
        assert_eq!(rate(&course), Some(32.0 / 5.5));
        let mut few = Course::default();
        few.add((0.0, 1.0));
        few.add((1.0, 1.0));
        few.add((1.0, 1.0));
        assert_eq!(rate(&few), None);
    }
}
