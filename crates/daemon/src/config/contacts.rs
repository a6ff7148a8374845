//! `[[contact]]` and `[[contact_plan]]`: the contact table of a node.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dhow_bundle::{DtnTime, NodeId};
use dhow_document::contact_plan::{self, FORMATS, Format, Plan};
use dhow_document::schema::{Absent, Kind, Occurs, Section, key, required, with_default};
use dhow_document::{Document, Entries, FileError};
use dhow_node::contacts::{ContactError, ContactTable, PlannedContact};

use super::file::{NodeFile, read_node_id};
use super::moment::{Moment, after};
use super::schema::SECTIONS;

/// Octets that a contact plan of a node may have: several times what fills the table.
const PLAN_OCTETS_MAX: u64 = 64 << 20;

/// The time from the beginning of a plan within which its contacts are: a century.
const PLAN_SPAN: Duration = Duration::from_secs(36_525 * 86_400);

/// `[[contact]]`.
pub(super) const CONTACT: Section = Section {
    name: "contact",
    occurs: Occurs::Many,
    meaning: "A planned contact: one node can send to another for some time. Each direction is a contact of its own; two of one direction never overlap.",
    groups: &[&[
        required("from", Kind::Text, "\"ipn:2.0\"", "The node that sends."),
        required("to", Kind::Text, "\"ipn:3.0\"", "The node that receives."),
        required(
            "start",
            Kind::Text,
            "\"2026-11-24T06:00:00Z\"",
            "Its beginning, UTC; or \"+10min\" behind the start of this node.",
        ),
        required(
            "end",
            Kind::Text,
            "\"2026-11-24T06:12:00Z\"",
            "Its end, UTC; or \"+22min\" behind the start of this node.",
        ),
        required(
            "rate",
            Kind::Rate,
            "\"1Mbit\"",
            "Rate from the one node to the other: bits a second.",
        ),
        with_default(
            "light_time",
            Kind::Duration,
            "\"0s\"",
            "The time that a signal takes from the one node to the other, whole milliseconds, at most a year.",
        ),
    ]],
};

/// `[[contact_plan]]`.
pub(super) const CONTACT_PLAN: Section = Section {
    name: "contact_plan",
    occurs: Occurs::Many,
    meaning: "Contacts from a file of another program, whose node N is ipn:N.0. Hosts that The ONE counts from 0 are counted from 1.",
    groups: &[&[
        required(
            "file",
            Kind::Path,
            "\"contacts.ionrc\"",
            "The plan: of ION (lines of ionadmin), HDTN (JSON) or The ONE (a connectivity trace), or a table of two nodes, a beginning and an end in each line.",
        ),
        key(
            "format",
            Kind::Choice(FORMATS),
            Absent::Means("seen from its first line"),
            "\"ion\"",
            "The plan's format.",
        ),
        key(
            "start",
            Kind::Text,
            Absent::Means("the start of this node"),
            "\"2026-11-24T00:00:00Z\"",
            "The plan's second 0, UTC; or a time behind the start of this node. A plan whose times are dates has none.",
        ),
        key(
            "rate",
            Kind::Rate,
            Absent::Means("as the plan says"),
            "\"1Mbit\"",
            "The rate of all its contacts; needed where it says none, as The ONE does.",
        ),
    ]],
};

impl NodeFile {
    /// The contacts that the node file of this text and path and its contact plans say, for a node that starts at a time.
    ///
    /// # Errors
    /// When a plan cannot be read, or contacts make no sense or contradict each other; the first such contact is named.
    pub fn contacts(text: &str, path: &Path, start: DtnTime) -> Result<ContactTable, FileError> {
        Self::contacts_of(text, path, start, None)
    }

    /// The same of the text of a node file with what was changed at run time: no line of the file is named.
    ///
    /// # Errors
    /// As [`Self::contacts`].
    pub fn contacts_with_edits(
        text: &str,
        path: &Path,
        start: DtnTime,
    ) -> Result<ContactTable, FileError> {
        Self::contacts_of(text, path, start, Some(path))
    }

    fn contacts_of(
        text: &str,
        path: &Path,
        start: DtnTime,
        edited: Option<&Path>,
    ) -> Result<ContactTable, FileError> {
        let document = Document::read(path, text, SECTIONS)?;
        let mut found = Found {
            edited: edited.map(Path::to_path_buf),
            ..Found::default()
        };
        for entries in document.all("contact") {
            let contact = read_contact(&document, entries)?.of_start(start);
            found.add(path, entries.line(), contact)?;
        }
        for entries in document.all("contact_plan") {
            read_plan(&document, entries, start, &mut found)?;
        }
        Ok(found.table)
    }
}

/// Refuse contacts of a node file that make no sense, each by itself; no plan is read.
pub(super) fn check_contacts(document: &Document<'_>) -> Result<(), FileError> {
    let is_clockless = document.one("node")?.text("clock") == Some("none");
    for entries in document.all("contact").chain(document.all("contact_plan")) {
        if is_clockless {
            return Err(document
                .fault(
                    entries.line(),
                    "a node with clock = \"none\" knows no time at which a contact begins",
                )
                .with_hint(
                    "leave 'clock' out where the machine's clock is right, or the contacts",
                ));
        }
    }
    for entries in document.all("contact") {
        read_contact(document, entries)?;
    }
    for entries in document.all("contact_plan") {
        Moment::read(document, entries, "start")?;
    }
    Ok(())
}

/// A contact whose times may be behind the node's start.
struct Written {
    from: NodeId,
    to: NodeId,
    start: Moment,
    end: Moment,
    octets_per_s: u64,
    light_time_ms: u64,
}

impl Written {
    fn of_start(self, start: DtnTime) -> PlannedContact {
        PlannedContact {
            from: self.from,
            to: self.to,
            start: self.start.of_start(start),
            end: self.end.of_start(start),
            octets_per_s: self.octets_per_s,
            light_time_ms: self.light_time_ms,
        }
    }
}

fn read_contact(document: &Document<'_>, entries: &Entries) -> Result<Written, FileError> {
    let node = |key: &str| {
        let text = entries.text(key).unwrap_or_default();
        read_node_id(document, entries.line_of(key), text)
    };
    let moment = |key: &str| {
        let missing = || document.fault(entries.line(), format!("'{key}' is missing"));
        Moment::read(document, entries, key)?.ok_or_else(missing)
    };
    Ok(Written {
        from: node("from")?,
        to: node("to")?,
        start: moment("start")?,
        end: moment("end")?,
        octets_per_s: entries.rate("rate").unwrap_or(0),
        light_time_ms: millis(entries.duration("light_time")),
    })
}

/// Contacts, and the file and line of each.
#[derive(Default)]
struct Found {
    /// The file that has other lines than the text that is read.
    edited: Option<PathBuf>,
    table: ContactTable,
    places: BTreeMap<(NodeId, NodeId, DtnTime), (PathBuf, usize)>,
}

impl Found {
    fn add(&mut self, path: &Path, line: usize, contact: PlannedContact) -> Result<(), FileError> {
        let (from, to) = (contact.from.clone(), contact.to.clone());
        let begins = contact.start;
        let place = |start| (from.clone(), to.clone(), start);
        let (what, hint) = match self.table.insert(contact) {
            Ok(()) => {
                self.places
                    .insert(place(begins), (path.to_path_buf(), line));
                return Ok(());
            }
            Err(ContactError::Overlaps(start)) => {
                let other = self.places.get(&place(start));
                let at = match other {
                    Some((file, _)) if self.edited.as_ref() == Some(file) => {
                        "another of these nodes: `dhow contacts` shows it".to_owned()
                    }
                    Some((file, line)) if file == path => format!("that of line {line}"),
                    Some((file, line)) => format!("that of {}:{line}", file.display()),
                    None => "another".to_owned(),
                };
                (
                    format!("the contact from {from} to {to} overlaps {at}"),
                    "contacts of one direction must not overlap; if one replaces the other, leave the other out",
                )
            }
            Err(error) => {
                let hint = match &error {
                    ContactError::Itself => "'from' and 'to' are two nodes",
                    ContactError::Reversed => "'end' must be after 'start'",
                    ContactError::Rate(_) => {
                        "a rate is octets a second: in a node file rate = \"1Mbit\""
                    }
                    ContactError::LightTime(_) => {
                        "a light time is that of a signal on its way, such as \"1200ms\""
                    }
                    ContactError::Overlaps(_) | ContactError::Full => {
                        "leave out contacts that are over, or far ahead"
                    }
                };
                (
                    format!("the contact from {from} to {to} cannot be: {error}"),
                    hint,
                )
            }
        };
        Err(FileError::at(path, line, what).with_hint(hint))
    }
}

/// Adds the contacts of a plan.
fn read_plan(
    document: &Document<'_>,
    entries: &Entries,
    start: DtnTime,
    found: &mut Found,
) -> Result<(), FileError> {
    let path = document.resolve(entries.text("file").unwrap_or_default());
    let text = read_file(&path).map_err(|error| {
        let what = format!("'file' cannot be read: {}: {error}", path.display());
        document
            .fault(entries.line_of("file"), what)
            .with_hint("the path is relative to the node file")
    })?;
    let format = entries.text("format").and_then(Format::named);
    let format = format.unwrap_or_else(|| Format::of(&text));
    let plan = Plan::read(&path, &text, Some(format), PLAN_SPAN)?;
    let plan = match matches!(format, Format::One | Format::Table) && plan.counts_from_0() {
        true => plan.counted_from_1(),
        false => plan,
    };
    let begins = Moment::read(document, entries, "start")?;
    let begins = match (plan.unix_start, begins) {
        (Some(_), Some(_)) => {
            let what = "'start' has no meaning: the plan's times are dates";
            return Err(document
                .fault(entries.line_of("start"), what)
                .with_hint("leave it out"));
        }
        (Some(unix), None) => DtnTime::from_unix_millis(millis(unix)),
        (None, begins) => begins.map_or(start, |moment| moment.of_start(start)),
    };
    let distances = Distances::of(&plan, &path)?;
    for contact in &plan.contacts {
        let wrong = |what: String| FileError::at(&path, contact.line, what);
        if contact.end > PLAN_SPAN {
            return Err(wrong(
                "the contact ends more than a century after the plan's beginning".to_owned(),
            )
            .with_hint("times are seconds from 'start' of [[contact_plan]]"));
        }
        let rate = entries.rate("rate").or(contact.rate);
        let octets_per_s = rate.ok_or_else(|| {
            document
                .fault(entries.line(), "the plan says no rate")
                .with_hint("for example: rate = \"1Mbit\"")
        })?;
        let node = |number: u32| {
            let id = format!("ipn:{number}.0").parse::<NodeId>();
            let hint = "a plan's node N is ipn:N.0, from 1 on";
            id.map_err(|error| wrong(format!("node {number} cannot be: {error}")).with_hint(hint))
        };
        let (from, to) = (node(contact.from)?, node(contact.to)?);
        for (start, end, delay) in distances.along(contact) {
            let piece = PlannedContact {
                from: from.clone(),
                to: to.clone(),
                start: after(begins, start),
                end: after(begins, end),
                octets_per_s,
                light_time_ms: millis(delay),
            };
            // A piece of less than a millisecond is none.
            if piece.start < piece.end {
                found.add(&path, contact.line, piece)?;
            }
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> io::Result<String> {
    let octets = fs::metadata(path)?.len();
    if octets > PLAN_OCTETS_MAX {
        let what =
            format!("it has {octets} octets, and a node's plan has {PLAN_OCTETS_MAX} at most");
        return Err(io::Error::other(what));
    }
    fs::read_to_string(path)
}

/// The beginning and end of a time, and the light time in it.
type Course = (Duration, Duration, Duration);

/// The light times of a plan, by direction: in order, and apart from each other.
struct Distances(BTreeMap<(u32, u32), Vec<Course>>);

impl Distances {
    /// The light times of a plan's ranges. Two different ones for one time are refused.
    fn of(plan: &Plan, path: &Path) -> Result<Self, FileError> {
        let mut said: BTreeMap<(u32, u32), Vec<&contact_plan::Range>> = BTreeMap::new();
        for range in &plan.ranges {
            said.entry((range.from, range.to)).or_default().push(range);
        }
        let mut distances = BTreeMap::new();
        for (way, mut ranges) in said {
            ranges.sort_unstable_by_key(|range| (range.start, range.line));
            let mut courses: Vec<Course> = Vec::with_capacity(ranges.len());
            let mut line = 0;
            for range in ranges {
                match courses.last_mut() {
                    Some((_, end, delay)) if *end >= range.start && *delay == range.delay => {
                        *end = range.end.max(*end);
                    }
                    Some((_, end, _)) if *end > range.start => {
                        let (first, last) = (line.min(range.line), line.max(range.line));
                        let what = format!(
                            "the range from node {} to {} differs from that of line {first} in the same time",
                            range.from, range.to
                        );
                        return Err(FileError::at(path, last, what)
                            .with_hint("ranges of one direction follow each other"));
                    }
                    _ => courses.push((range.start, range.end, range.delay)),
                }
                line = range.line;
            }
            distances.insert(way, courses);
        }
        Ok(Self(distances))
    }

    /// The pieces of a contact in which the light time is one: as ranges of its direction say, else as those of the other; without any
    /// it is 0.
    fn along(&self, contact: &contact_plan::Contact) -> Vec<Course> {
        let own = self.0.get(&(contact.from, contact.to));
        let courses = own.or_else(|| self.0.get(&(contact.to, contact.from)));
        let courses = courses.map_or(&[][..], Vec::as_slice);
        let first = courses.partition_point(|(_, end, _)| *end <= contact.start);
        let mut pieces = Vec::new();
        let mut at = contact.start;
        for &(start, end, delay) in courses.iter().skip(first) {
            if start >= contact.end {
                break;
            }
            if at < start {
                pieces.push((at, start, Duration::ZERO));
            }
            let ends = end.min(contact.end);
            pieces.push((start.max(at), ends, delay));
            at = ends;
        }
        if at < contact.end {
            pieces.push((at, contact.end, Duration::ZERO));
        }
        pieces
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    const START: DtnTime = DtnTime::from_millis(1_000_000);

    /// Both nodes, seconds behind the start, the rate and milliseconds.
    type Seen = (String, u64, u64, u64, u64);

    /// Contacts of a node file with these sections and this plan beside it.
    fn contacts(sections: &str, plan: &str) -> Result<Vec<Seen>, FileError> {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("plan"), plan).unwrap();
        let path = place.path().join("node.toml");
        let text = format!("[node]\nid = \"ipn:1.0\"\n{sections}");
        NodeFile::parse(&text, &path)?;
        let behind = |time: DtnTime| (time.as_millis() - START.as_millis()) / 1_000;
        let seen = |it: PlannedContact| {
            let way = format!("{} {}", it.from, it.to);
            (
                way,
                behind(it.start),
                behind(it.end),
                it.octets_per_s,
                it.light_time_ms,
            )
        };
        let contacts = NodeFile::contacts(&text, &path, START)?;
        Ok(contacts.iter().map(seen).collect())
    }

    const PLAN: &str = "[[contact_plan]]\nfile = \"plan\"\n";

    fn contact(start: &str, end: &str, more: &str) -> String {
        format!(
            "[[contact]]\nfrom = \"ipn:1.0\"\nto = \"dtn://two/\"\nstart = \"{start}\"\nend = \"{end}\"\nrate = \"8kbit\"\n{more}"
        )
    }

    #[test]
    fn contacts_of_the_file_and_of_plans_are_one_table() {
        let ion = "a contact +10 +90 1 2 500\na contact +10 +20 2 1 700\na range +0 +40 1 2 3\na range +50 +99 1 2 4\n";
        let sections =
            contact("+5s", "+1min", "light_time = \"250ms\"\n") + PLAN + "start = \"+100s\"\n";
        let way = |from: u32, to: u32| format!("ipn:{from}.0 ipn:{to}.0");
        assert_eq!(
            contacts(&sections, ion).unwrap(),
            [
                (way(1, 2), 110, 140, 500, 3_000),
                (way(1, 2), 140, 150, 500, 0),
                (way(1, 2), 150, 190, 500, 4_000),
                ("ipn:1.0 dtn://two/".to_owned(), 5, 60, 1_000, 250),
                (way(2, 1), 110, 120, 700, 3_000),
            ]
        );
        let one = "1 CONN p0 p1 up\n2 CONN p0 p1 down\n";
        let rate = format!("{PLAN}rate = \"8kbit\"\n");
        assert_eq!(
            contacts(&rate, one).unwrap(),
            [(way(1, 2), 1, 2, 1_000, 0), (way(2, 1), 1, 2, 1_000, 0)]
        );
    }

    #[test]
    fn contacts_that_cannot_be_are_refused_with_their_line_and_a_hint() {
        let overlapping = contact("+5s", "+9s", "") + &contact("+8s", "+10s", "");
        for (sections, plan, said) in [
            (
                overlapping.as_str(),
                "",
                "node.toml:9: the contact from ipn:1.0 to dtn://two/ overlaps that of line 3",
            ),
            (
                &contact("+9s", "+9s", ""),
                "",
                "node.toml:3: the contact from ipn:1.0 to dtn://two/ cannot be: it ends before it begins",
            ),
            (
                &contact("tomorrow", "+9s", ""),
                "",
                "node.toml:6: 'tomorrow' is not a time",
            ),
            (
                &contact("+1s", "+9s", "light_time = \"400d\"\n"),
                "",
                "node.toml:3: the contact from ipn:1.0 to dtn://two/ cannot be: its light time of 34560000000 ms is more than a year",
            ),
            (
                &contact("+1s", "+9s", "").replace("dtn://two/", "two"),
                "",
                "node.toml:5: 'two' is not a node ID",
            ),
            (
                &contact("+1s", "+9s", "").replace("dtn://two/", "ipn:1.0"),
                "",
                "node.toml:3: the contact from ipn:1.0 to ipn:1.0 cannot be: a node needs no contact with itself",
            ),
            (
                &format!("clock = \"none\"\n{PLAN}"),
                "",
                "node.toml:4: a node with clock = \"none\" knows no time at which a contact begins",
            ),
            (
                PLAN,
                "a contact +10 +20 1 2 5\na contact +19 +30 1 2 5\n",
                "plan:2: the contact from ipn:1.0 to ipn:2.0 overlaps that of line 1",
            ),
            (
                PLAN,
                "a contact +20 +10 1 2 5\n",
                "plan:1: it ends before it begins",
            ),
            (
                PLAN,
                "a contact +10 +20 0 2 5\n",
                "plan:1: node 0 cannot be: ",
            ),
            (
                PLAN,
                "a contact +10 +20 1 2 9000000000000000000\n",
                "plan:1: the contact from ipn:1.0 to ipn:2.0 cannot be: its rate of 9000000000000000000 octets a second is not one from 1 to 125000000000000",
            ),
            (
                PLAN,
                "a contact +10 +9000000000000 1 2 5\n",
                "plan:1: the contact ends more than a century after the plan's beginning",
            ),
            (
                PLAN,
                "a range +0 +9 1 2 5\na range +8 +20 1 2 6\n",
                "plan:2: the range from node 1 to 2 differs from that of line 1 in the same time",
            ),
            (
                PLAN,
                "1 CONN 1 2 up\n",
                "node.toml:3: the plan says no rate",
            ),
            (
                &format!("{PLAN}start = \"soon\"\n"),
                "",
                "node.toml:5: 'soon' is not a time",
            ),
            (
                "[[contact_plan]]\nfile = \"nowhere\"\n",
                "",
                "node.toml:4: 'file' cannot be read: ",
            ),
        ] {
            let error = contacts(sections, plan).unwrap_err();
            let shown = error.to_string();
            assert!(shown.contains(said), "{shown} is not {said}");
            assert!(error.hint.is_some(), "{shown}");
        }
    }

    #[test]
    fn a_plan_of_more_contacts_than_a_table_has_is_refused() {
        let lines = 0..=dhow_node::contacts::CONTACTS_BOUND;
        let plan: String = lines
            .map(|at| format!("a contact +{at} +{} 1 2 5\n", at + 1))
            .collect();
        let error = contacts(PLAN, &plan).unwrap_err();
        assert!(error.to_string().contains("plan:65537: "), "{error}");
    }
}
