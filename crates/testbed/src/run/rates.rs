//! Rates of traffic in what programs of a run measured.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::number::float;
use crate::results::Figure;

/// Columns of traffic that arrived or left: of packets, or of sums over them.
const LENGTHS: [&str; 4] = [
    "pkt_length",
    "pkt_length_sum",
    "packet_size",
    "packet_size_sum",
];

/// Tables whose figures are told, at most.
const TABLES_MAX: usize = 100;

/// The rate of traffic in each table that has some, by sender; nothing where nothing was measured.
///
/// # Errors
/// When the database cannot be read.
pub(super) fn read(file: &Path) -> rusqlite::Result<Vec<Figure>> {
    if !file.exists() {
        return Ok(Vec::new());
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
    let found = columns
        .iter()
        .filter(|(_, column)| LENGTHS.contains(&column.as_str()));
    let mut figures = Vec::new();
    for (table, column) in found.take(TABLES_MAX) {
        let quoted = table.replace('"', "\"\"");
        let mut sums = database.prepare(&format!(
            "SELECT s.name, SUM({column}), COUNT(*), MIN(oml_ts_client), MAX(oml_ts_client) \
             FROM \"{quoted}\" t JOIN _senders s ON s.id = t.oml_sender_id GROUP BY s.name ORDER BY s.name"
        ))?;
        let rows = sums.query_map([], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, f64>(1)?,
                row.get::<_, u64>(2)?,
                row.get::<_, f64>(3)?,
                row.get::<_, f64>(4)?,
            ))
        })?;
        for row in rows {
            let (sender, octets, count, first, last) = row?;
            // Rows stand at the ends of equal times, of which there is one more than between the first and the last.
            let between = float(count.saturating_sub(1));
            let time = (last - first) / between * float(count);
            if between > 0.0 && time > 0.0 {
                figures.push(Figure {
                    node: String::new(),
                    program: sender,
                    name: "rate".to_owned(),
                    time_s: last,
                    value: octets * 8.0 / time,
                    unit: "bit/s".to_owned(),
                });
            }
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for number in 1..=100 {
            let time = f64::from(number) / 10.0;
            let insert = "INSERT INTO otr2_udp_in VALUES (2, ?1, 1000)";
            database.execute(insert, [time]).unwrap();
        }
        for number in 1..=10 {
            let insert = "INSERT INTO otg2_udp_out VALUES (1, ?1, 10000.0)";
            database.execute(insert, [f64::from(number)]).unwrap();
        }
        let rates = read(&file).unwrap();
        let told: Vec<(&str, i64)> = rates
            .iter()
            .map(|it| {
                (
                    it.program.as_str(),
                    i64::try_from(crate::number::whole(it.value)).unwrap(),
                )
            })
            .collect();
        assert_eq!(told, [("tx", 80_000), ("rx", 80_000)]);
    }
}
