//! Destinations of people (points of interest, and the days of those who work), and the energy of their batteries.

use super::settings::{number, range};
use super::{MANY_MAX, Writer, Wrong, toml_text, whole};

impl Writer<'_> {
    /// `Group.pois` is pairs of the number of a file and the part of ways that lead there.
    pub(super) fn write_interests(&mut self, group: u64) -> Result<(), Wrong> {
        let pairs = self.of(group, "pois", |text| {
            let numbers: Option<Vec<f64>> = text.split(',').map(number).collect();
            let numbers = numbers.filter(|numbers| numbers.len() % 2 == 0)?;
            let (pairs, _) = numbers.as_chunks::<2>();
            Some(pairs.to_vec())
        })?;
        let mut interests = Vec::new();
        for [file, part] in pairs.into_iter().flatten() {
            let name = self.need(&format!("PointsOfInterest.poiFile{file}"), |text| {
                Some(text.to_owned())
            })?;
            let path = self.path(&name);
            interests.push(toml_text(&format!("{part} {path}")));
        }
        if !interests.is_empty() {
            let interests = interests.join(", ");
            self.line(format_args!("interests = [{interests}]"));
        }
        Ok(())
    }

    /// Units of energy are joules here.
    pub(super) fn write_battery(&mut self, group: u64) -> Result<(), Wrong> {
        let Some((least, most)) = self.of(group, "initialEnergy", range)? else {
            return Ok(());
        };
        if least < most {
            let what =
                format!("Group{group}.initialEnergy = {least}, {most}: each host has the mean");
            self.notes.push(what);
        }
        self.line(format_args!(
            "battery = \"{}J\"",
            f64::midpoint(least, most)
        ));
        for (setting, keys) in [
            ("scanEnergy", &["scan_power"][..]),
            ("transmitEnergy", &["send_power", "receive_power"]),
        ] {
            let watts = self.of(group, setting, number)?.unwrap_or(0.0);
            for key in keys {
                self.line(format_args!("{key} = \"{watts}W\""));
            }
        }
        match self.of(group, "scanResponseEnergy", number)? {
            Some(answer) if answer > 0.0 => {
                let what = format!("Group{group}.scanResponseEnergy = {answer}: answers take none");
                self.notes.push(what);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn write_working_day(&mut self, group: u64) -> Result<(), Wrong> {
        for (setting, key) in [
            ("homeLocationsFile", "homes"),
            ("officeLocationsFile", "offices"),
            ("meetingSpotsFile", "meeting_spots"),
        ] {
            let file = self.settings.of_group(group, setting).map(str::to_owned);
            if let Some(file) = file {
                let file = toml_text(&self.path(&file));
                self.line(format_args!("{key} = {file}"));
            }
        }
        for (setting, key) in [
            ("nrOfOffices", "office_count"),
            ("officeSize", "office_m"),
            ("nrOfMeetingSpots", "meeting_spot_count"),
            ("minGroupSize", "company_least"),
            ("maxGroupSize", "company_most"),
        ] {
            if let Some(count) = self.of(group, setting, |text| whole(text, MANY_MAX))? {
                self.line(format_args!("{key} = {count}"));
            }
        }
        for (setting, key) in [
            ("probGoShoppingAfterWork", "evening"),
            ("ownCarProb", "own_car"),
        ] {
            let part = |text: &str| number(text).filter(|part| *part <= 1.0);
            if let Some(part) = self.of(group, setting, part)? {
                self.line(format_args!("{key} = {part:?}"));
            }
        }
        if let Some(coefficient) = self.of(group, "officeWaitTimeParetoCoeff", number)? {
            if coefficient > 1.0 {
                let what =
                    format!("Group{group}.officeWaitTimeParetoCoeff = {coefficient}: it is 1 here");
                self.notes.push(what);
            }
            self.line(format_args!(
                "desk_coefficient = {:?}",
                coefficient.min(1.0)
            ));
        }
        if let Some(seconds) = self.of(group, "workDayLength", number)? {
            self.line(format_args!("work_day = \"{seconds}s\""));
        }
        for (least, most, key) in [
            ("officeMinWaitTime", "officeMaxWaitTime", "desk_time"),
            (
                "minAfterShoppingStopTime",
                "maxAfterShoppingStopTime",
                "evening_stay",
            ),
        ] {
            let times = (
                self.of(group, least, number)?,
                self.of(group, most, number)?,
            );
            if let (Some(least), Some(most)) = times {
                self.line(format_args!("{key} = \"{least}s..{most}s\""));
            }
        }
        match self.settings.of_group(group, "timeDiffSTD") {
            Some("-1") => {
                let what = format!(
                    "Group{group}.timeDiffSTD = -1: days begin around one time with a deviation of 6 hours, and not evenly"
                );
                self.notes.push(what);
                self.line(format_args!("day_shift = \"6h\""));
            }
            Some(_) => {
                if let Some(seconds) = self.of(group, "timeDiffSTD", number)? {
                    self.line(format_args!("day_shift = \"{seconds}s\""));
                }
            }
            None => {}
        }
        if let Some((least, most)) = self.of(group, "speed", range)? {
            // Cars of The ONE go as fast as its walkers do.
            self.line(format_args!("car_speed = \"{least}m/s..{most}m/s\""));
        }
        Ok(())
    }
}
