//! Settings of The ONE (the Opportunistic Network Environment simulator) as a scenario.
//!
//! ```
//! use std::path::Path;
//! use dhow_scenario::the_one::Import;
//!
//! let settings = "Scenario.endTime = 60\nScenario.nrofHostGroups = 1\nGroup.groupID = p\nGroup.nrofHosts = 2\n\
//! Group.movementModel = RandomWaypoint\nGroup.router = EpidemicRouter\nGroup.interface1 = bt\n\
//! bt.transmitRange = 10\nbt.transmitSpeed = 250k\nMovementModel.worldSize = 100, 100\n";
//! let import = Import::read(&[(Path::new("s.txt"), settings)], Path::new("."), 0)?;
//! assert!(import.text.contains("rate = \"2000000bit\""));
//! # Ok::<(), dhow_scenario::ScenarioError>(())
//! ```

mod events;
mod maps;
mod places;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dhow_document::FileError;

use self::maps::Field;
use self::settings::{Settings, number, range};

/// Groups, radios, generators and maps that settings may have.
const MANY_MAX: f64 = 10_000.0;

/// Hosts that a group may have.
const HOSTS_MAX: f64 = 1_000_000.0;

/// The ONE's own time between two looks at who is within reach, seconds.
const UPDATE_INTERVAL_S: f64 = 1.0;

/// Octets of a store that are for exchanges alone, at most.
const EXCHANGE_OCTETS: f64 = 67_108_864.0;

/// Namespaces that say nothing of a network.
const SILENT: &[&str] = &["GUI", "Report", "Optimization"];

/// A scenario that was made of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The scenario, as TOML.
    pub text: String,
    /// Sentences about what the settings say and the scenario does not, or otherwise.
    pub notes: Vec<String>,
}

impl Import {
    /// Makes a scenario of files of settings, of which later ones count over earlier ones. Maps are found from `root`; of values for
    /// several runs (`[a; b]`) that of `run` counts, from 0.
    ///
    /// # Errors
    /// When a line is no setting, or one that is needed is not there or is none of its kind.
    pub fn read(files: &[(&Path, &str)], root: &Path, run: usize) -> Result<Self, FileError> {
        let mut settings = Settings::of_run(run);
        for (path, text) in files {
            settings.add(text).map_err(|(line, what)| {
                FileError::at(path, line, what).with_hint("a line is Namespace.key = value")
            })?;
        }
        let mut writer = Writer {
            settings: &settings,
            root,
            text: String::new(),
            notes: Vec::new(),
            hosts: Vec::new(),
            field: Field::World,
            files: BTreeSet::new(),
        };
        let last = files.last().map_or(Path::new("settings"), |(path, _)| path);
        writer
            .write()
            .map_err(|what| FileError::of_file(last, what))?;
        let Writer {
            text, mut notes, ..
        } = writer;
        notes.extend(unused(&settings));
        Ok(Self { text, notes })
    }
}

fn unused(settings: &Settings) -> Vec<String> {
    let (mut silent, mut notes) = (BTreeMap::<String, usize>::new(), Vec::new());
    for key in settings.unused() {
        let space = key.split('.').next().unwrap_or_default();
        let is_silent = SILENT.contains(&space) || space.starts_with("GUI");
        match is_silent {
            true => *silent.entry(space.to_owned()).or_default() += 1,
            false => notes.push(format!("{key} is not heeded")),
        }
    }
    let silent = silent.into_iter();
    notes.extend(silent.map(|(space, count)| {
        format!("{space}.* ({count} settings) are not heeded: they say nothing of the network")
    }));
    notes
}

/// A sentence about what is wrong.
type Wrong = String;

struct Writer<'a> {
    settings: &'a Settings,
    root: &'a Path,
    text: String,
    notes: Vec<String>,
    /// The names of all hosts, by their addresses.
    hosts: Vec<String>,
    field: Field,
    /// The paths that have been looked for.
    files: BTreeSet<PathBuf>,
}

impl Writer<'_> {
    fn write(&mut self) -> Result<(), Wrong> {
        self.write_top()?;
        let groups = self.groups()?;
        self.place_field(&groups)?;
        let interfaces = self.interfaces(&groups)?;
        for interface in &interfaces {
            self.write_radio(interface)?;
        }
        for &group in &groups {
            self.write_group(group)?;
        }
        let first = groups.first().copied().unwrap_or(1);
        let events = match self.settings.text("Events.nrof") {
            Some(_) => self.count("Events.nrof", MANY_MAX)?,
            None => 0,
        };
        for number in 1..=events {
            self.write_events(number, first)?;
        }
        let end = self.need("Scenario.endTime", number)?;
        self.line(format_args!("\n[stop]\nat = \"{end}s\""));
        Ok(())
    }

    /// The groups that have hosts, by number: at least one.
    fn groups(&mut self) -> Result<Vec<u64>, Wrong> {
        let mut groups = Vec::new();
        for group in 1..=self.count("Scenario.nrofHostGroups", MANY_MAX)? {
            if self.hosts_of(group)? > 0 {
                groups.push(group);
                continue;
            }
            // The settings of the group alone have nothing to say.
            self.settings.leave(&format!("Group{group}."));
            let what = format!("Group{group}.nrofHosts = 0: the group is left out");
            self.notes.push(what);
        }
        match groups.is_empty() {
            true => Err("no group has hosts".to_owned()),
            false => Ok(groups),
        }
    }

    fn hosts_of(&self, group: u64) -> Result<u64, Wrong> {
        let count = self.of(group, "nrofHosts", |text| whole(text, HOSTS_MAX))?;
        count.ok_or_else(|| format!("Group{group}.nrofHosts is not set"))
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing into a text does not fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn need<T>(&self, key: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, Wrong> {
        let text = self
            .settings
            .text(key)
            .ok_or_else(|| format!("{key} is not set"))?;
        read(text).ok_or_else(|| format!("{key} = {text} cannot be understood"))
    }

    fn count(&self, key: &str, most: f64) -> Result<u64, Wrong> {
        self.need(key, |text| whole(text, most))
    }

    /// Adds a note, once.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// A setting of a group.
    fn of<T>(
        &self,
        group: u64,
        key: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Wrong> {
        let Some(text) = self.settings.of_group(group, key) else {
            return Ok(None);
        };
        let read = read(text);
        read.map(Some)
            .ok_or_else(|| format!("Group{group}.{key} = {text} cannot be understood"))
    }

    fn write_top(&mut self) -> Result<(), Wrong> {
        let name = self.settings.text("Scenario.name").unwrap_or("the-one");
        let name = toml_text(&self.settings.filled(name));
        let seed = match self.settings.text("MovementModel.rngSeed") {
            Some(_) => self.count("MovementModel.rngSeed", 1e15)?,
            None => 0,
        };
        self.line(format_args!(
            "name = {name}\nseed = {seed}\nevery_seed = true\nfidelity = \"bundle\""
        ));
        if self.settings.text("Scenario.simulateConnections") == Some("false") {
            let what = "Scenario.simulateConnections = false: hosts have contacts nevertheless; a recorded trace goes into a [[contact_plan]]";
            self.notes.push(what.to_owned());
        }
        if let Some(warm_up) = self.settings.text("Report.warmup")
            && number(warm_up) != Some(0.0)
        {
            let what = format!(
                "Report.warmup = {warm_up}: The ONE's reports leave out messages of the first {warm_up} s; here they count"
            );
            self.notes.push(what);
        }
        Ok(())
    }

    /// The names of all interfaces of groups, in order.
    fn interfaces(&self, groups: &[u64]) -> Result<Vec<String>, Wrong> {
        let mut names = Vec::new();
        for &group in groups {
            for name in self.group_interfaces(group)? {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        Ok(names)
    }

    fn group_interfaces(&self, group: u64) -> Result<Vec<String>, Wrong> {
        let count = self.of(group, "nrofInterfaces", |text| whole(text, MANY_MAX))?;
        let names = (1..=count.unwrap_or(1)).map(|number| {
            let key = format!("interface{number}");
            let found = self.settings.of_group(group, &key);
            found
                .map(str::to_owned)
                .ok_or_else(|| format!("Group{group}.{key} is not set"))
        });
        names.collect()
    }

    fn write_radio(&mut self, name: &str) -> Result<(), Wrong> {
        let reach = self.need(&format!("{name}.transmitRange"), number)?;
        let octets = self.need(&format!("{name}.transmitSpeed"), number)?;
        let kind = self.settings.text(&format!("{name}.type"));
        if let Some(kind) = kind.filter(|kind| *kind != "SimpleBroadcastInterface") {
            let what = format!("{name}.type = {kind}: it is a radio of one reach and one rate");
            self.notes.push(what);
        }
        if reach.fract() > 0.0 {
            let what = format!("{name}.transmitRange = {reach} is rounded up to a metre");
            self.notes.push(what);
        }
        let interval = self.settings.text("Scenario.updateInterval");
        let interval = interval.map_or(Some(UPDATE_INTERVAL_S), number);
        let interval = interval.ok_or("Scenario.updateInterval cannot be understood")?;
        let (name, reach, bits) = (toml_text(name), reach.ceil(), octets.round() * 8.0);
        self.line(format_args!(
            "\n[[radio]]\nname = {name}\nreach_m = {reach}\nrate = \"{bits}bit\"\nstep = \"{interval}s\"\nchannel = \"radio\""
        ));
        Ok(())
    }

    fn write_group(&mut self, group: u64) -> Result<(), Wrong> {
        let prefix = self.settings.of_group(group, "groupID");
        let prefix = prefix
            .ok_or_else(|| format!("Group{group}.groupID is not set"))?
            .to_owned();
        let count = self.hosts_of(group)?;
        let first = u64::try_from(self.hosts.len()).unwrap_or(u64::MAX);
        let names = (first..first + count).map(|address| format!("{prefix}{address}"));
        self.hosts.extend(names);
        let radios: Vec<String> = self.group_interfaces(group)?;
        let radios: Vec<String> = radios.iter().map(|name| toml_text(name)).collect();
        let (name, radios) = (toml_text(&prefix), radios.join(", "));
        self.line(format_args!(
            "\n[[group]]\nname = {name}\nfirst = {first}\ncount = {count}\nradios = [{radios}]"
        ));
        self.write_movement(group)?;
        if let Some(octets) = self.of(group, "bufferSize", number)? {
            self.line(format_args!("quota = {}", quota(octets)));
        }
        self.write_battery(group)?;
        self.write_router(group, &prefix, (first, count))
    }

    fn write_movement(&mut self, group: u64) -> Result<(), Wrong> {
        let model = self.settings.of_group(group, "movementModel");
        let model = model
            .ok_or_else(|| format!("Group{group}.movementModel is not set"))?
            .to_owned();
        let Some(movement) = movement(&model) else {
            return Err(format!(
                "Group{group}.movementModel = {model} is not known; ShortestPathMapBasedMovement, MapBasedMovement, MapRouteMovement, BusMovement, WorkingDayMovement, RandomWaypoint, RandomWalk and StationaryMovement are"
            ));
        };
        let otherwise = match model.as_str() {
            "MapBasedMovement" => {
                Some("hosts go by shortest paths to random points, not on at each crossing")
            }
            "RandomWalk" => Some("hosts go to random places, not a random distance"),
            "StationaryMovement" => Some("hosts stay at random places"),
            "BusMovement" => Some("nobody rides: people walk"),
            "WorkingDayMovement" => Some(
                "who has no car walks and takes no bus, and goes out with others of its group alone; a day has 24 hours",
            ),
            _ => None,
        };
        if let Some(otherwise) = otherwise {
            let what = format!("Group{group}.movementModel = {model}: {otherwise}");
            self.notes.push(what);
        }
        self.line(format_args!("movement = \"{movement}\""));
        match movement {
            "shortest-path" | "route" | "working-day" => self.write_maps(group)?,
            _ => self.write_field()?,
        }
        match movement {
            "working-day" => self.write_working_day(group)?,
            "shortest-path" => self.write_interests(group)?,
            _ => {}
        }
        if movement == "route" {
            let file = self.settings.of_group(group, "routeFile");
            let file = file.ok_or_else(|| format!("Group{group}.routeFile is not set"))?;
            let file = file.to_owned();
            let file = toml_text(&self.path(&file));
            let way = match self.settings.of_group(group, "routeType") {
                Some("2") => "back",
                _ => "round",
            };
            self.line(format_args!("route = {file}\nway = \"{way}\""));
        }
        if let Some((least, most)) = self.of(group, "speed", range)? {
            self.line(format_args!("speed = \"{least}m/s..{most}m/s\""));
        }
        if let Some((least, most)) = self.of(group, "waitTime", range)? {
            self.line(format_args!("pause = \"{least}s..{most}s\""));
        }
        if let Some(warm_up) = self.settings.text("MovementModel.warmup") {
            let warm_up = number(warm_up).ok_or("MovementModel.warmup cannot be understood")?;
            self.line(format_args!("warm_up = \"{warm_up}s\""));
        }
        Ok(())
    }

    fn write_router(
        &mut self,
        group: u64,
        prefix: &str,
        (first, count): (u64, u64),
    ) -> Result<(), Wrong> {
        let router = self.settings.of_group(group, "router");
        let router = router
            .ok_or_else(|| format!("Group{group}.router is not set"))?
            .to_owned();
        // Hosts of The ONE let go of what they made, too.
        let first_in = "acknowledgments = \"none\"\ndrop = \"first-of-all\"";
        let keys = match router.as_str() {
            "EpidemicRouter" => format!("router = \"epidemic\"\n{first_in}"),
            "ProphetRouter" => format!("router = \"prophet\"\n{first_in}"),
            "SprayAndWaitRouter" => {
                let copies = self.count("SprayAndWaitRouter.nrofCopies", 65_536.0)?;
                if self.settings.text("SprayAndWaitRouter.binaryMode") == Some("false") {
                    let what = "SprayAndWaitRouter.binaryMode = false: half of the copies go at each meeting nevertheless";
                    self.notes.push(what.to_owned());
                }
                format!("router = \"spray-and-wait\"\ncopies = {copies}\n{first_in}")
            }
            "DirectDeliveryRouter" => {
                format!("router = \"spray-and-wait\"\ncopies = 1\n{first_in}")
            }
            "MaxPropRouter" => {
                "router = \"maxprop\"\nacknowledgments = \"anyone\"\ndrop = \"last-of-all\""
                    .to_owned()
            }
            _ => {
                return Err(format!(
                    "Group{group}.router = {router} is not known; EpidemicRouter, ProphetRouter, SprayAndWaitRouter, MaxPropRouter and DirectDeliveryRouter are"
                ));
            }
        };
        if router == "ProphetRouter" {
            let what = "ProphetRouter: the parameters are those of RFC 6693, not the draft's";
            self.note(what.to_owned());
        }
        // A prefix may be that of several groups: each host by its name.
        for address in first..first + count {
            let name = toml_text(&format!("{prefix}{address}"));
            self.line(format_args!("\n[[routing]]\nnode = {name}\n{keys}"));
        }
        Ok(())
    }
}

/// The movement of a scenario that is nearest to one of The ONE.
fn movement(model: &str) -> Option<&'static str> {
    match model {
        "ShortestPathMapBasedMovement" | "MapBasedMovement" => Some("shortest-path"),
        "MapRouteMovement" | "BusMovement" => Some("route"),
        "WorkingDayMovement" => Some("working-day"),
        "RandomWaypoint" | "RandomWalk" => Some("straight"),
        "StationaryMovement" => Some("none"),
        _ => None,
    }
}

/// The quota of a store in which bundles of all kinds may fill a buffer of so many octets: the last eighth, at most 64 MiB, is for exchanges alone
/// (docs/simulation.md).
fn quota(buffer: f64) -> f64 {
    (buffer * 8.0 / 7.0).min(buffer + EXCHANGE_OCTETS).ceil()
}

/// A whole number from 0 on.
fn whole(text: &str, most: f64) -> Option<u64> {
    let number = number(text)?;
    if number.fract() > 0.0 || number > most {
        return None;
    }
    format!("{number}").parse().ok()
}

/// A text between quotes: as JSON writes it, which leaves one character that TOML does not take.
fn toml_text(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007f")
}
