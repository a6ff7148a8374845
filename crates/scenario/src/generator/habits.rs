//! The habits of people who work, as a `[[group]]` says them.

use dhow_document::{Document, Entries, FileError};

use super::map::{Map, read_points};
use super::meeting::MM;
use super::working_day::Habits;
use crate::entropy::Entropy;

/// Reads them; what no file says is drawn. `speeds` are those of people on foot.
///
/// # Errors
/// When a file of places cannot be read, or a number is none that people have.
pub(super) fn read(
    document: &Document<'_>,
    entries: &Entries,
    map: &Map,
    (speeds, entropy): ((u64, u64), &mut Entropy),
) -> Result<Habits, FileError> {
    let part = |key: &str| entries.part(key).unwrap_or(0);
    let company = (
        entries.count("company_least").unwrap_or(1),
        entries.count("company_most").unwrap_or(1),
    );
    if company.0 > company.1 {
        let what = "'company_least' is more than 'company_most'";
        return Err(document.fault_of(entries, "company_least", what));
    }
    let coefficient = part("desk_coefficient");
    if coefficient == 0 {
        let what = "'desk_coefficient' must be more than 0";
        return Err(document.fault_of(entries, "desk_coefficient", what));
    }
    let mut places = |file: &str, count: Option<u64>| match entries.text(file) {
        Some(path) => read_points(&document.resolve(path), map),
        None => Ok(match count {
            None => map.connected().to_vec(),
            Some(count) => (0..count).map(|_| any(map, entropy)).collect(),
        }),
    };
    Ok(Habits {
        homes: places("homes", None)?,
        offices: places("offices", entries.count("office_count"))?,
        spots: places("meeting_spots", entries.count("meeting_spot_count"))?,
        work: entries.duration("work_day"),
        office: entries.integer("office_m").unwrap_or(0) * MM,
        desk: entries.durations("desk_time").unwrap_or_default(),
        desk_coefficient: coefficient,
        evenings: part("evening"),
        company,
        stay: entries.durations("evening_stay").unwrap_or_default(),
        shift: entries.duration("day_shift"),
        cars: part("own_car"),
        speeds,
        car_speeds: entries.speeds("car_speed").unwrap_or(speeds),
    })
}

fn any(map: &Map, entropy: &mut Entropy) -> u32 {
    super::mover::anywhere(map, entropy)
}
