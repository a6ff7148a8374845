//! From a file's TOML to a checked [`Scenario`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use dhow_bundle::quantity::{parse_duration, parse_size};
use dhow_channel::Rate;
use toml::de::DeTable;

use crate::ScenarioError;
use crate::contact_plan;
use crate::scenario::{
    AtEnd, Clock, Contact, Crash, Faults, Link, LinkIndex, Node, NodeIndex, Pace, Presence,
    Scenario, Size, Stop, Traffic,
};
use crate::section::{Placed, Section, Source, line_starts};
use dhow_document::nearest;

/// A store as small nodes have it: simulated networks have many.
const QUOTA_OCTETS: u64 = 64_000_000;
const QUOTA_BUNDLES: u64 = 100_000;
const SEGMENT_OCTETS: u64 = 64 * 1024;

/// What sessions take, as nodes have it.
const SEGMENT_MRU: u64 = 1 << 20;
const TRANSFER_MRU: u64 = 1 << 40;

/// Less would not hold a fragment's header.
const MRU_MIN: u64 = 1024;

/// A flush takes from 0.03 ms (virtual disks) to 20 ms (real ones).
const FLUSH: Duration = Duration::from_millis(5);

/// As in a node file.
const RETRY: Duration = Duration::from_secs(1);
const KEEPALIVE_S: u16 = 30;
const LIFETIME: Duration = Duration::from_secs(86_400);

/// How long a node that crashed is off, and a disk stalls, where the file does not say.
const DOWN: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(1);

pub(crate) fn read(path: &Path, text: &str) -> Result<Scenario, ScenarioError> {
    let line_starts = line_starts(text);
    let source = Source {
        path,
        text,
        line_starts: &line_starts,
    };
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| source.line_at(span.start));
        source.fault(line, format!("this is no TOML: {}", error.message()))
    })?;
    let top = Section::new(source, "", 1, table.get_ref());
    let mut reading = Reading::default();
    reading.read_nodes(&top)?;
    reading.read_links(&top)?;
    reading.read_contacts(&top)?;
    reading.read_plan(&top, source)?;
    let traffic = reading.read_traffic(&top)?;
    let crashes = reading.read_crashes(&top)?;
    let faults = read_faults(&top)?;
    let stop = read_stop(&top)?;
    let named = top.text("name")?.map(|placed| placed.value.to_owned());
    let stem = || {
        path.file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
    };
    let scenario = Scenario {
        name: named.or_else(stem).unwrap_or_default(),
        seed: top.count("seed")?.map_or(1, |placed| placed.value),
        nodes: reading.nodes,
        links: reading.links,
        contacts: reading.contacts,
        traffic,
        crashes,
        faults,
        stop,
    };
    top.finish()?;
    Ok(scenario)
}

/// What has been read, and where names stand in it.
#[derive(Default)]
struct Reading {
    nodes: Vec<Node>,
    links: Vec<Link>,
    contacts: Vec<Contact>,
    by_node: BTreeMap<String, NodeIndex>,
    by_link: BTreeMap<String, LinkIndex>,
}

impl Reading {
    fn node(&self, section: &Section<'_>, name: Placed<&str>) -> Result<NodeIndex, ScenarioError> {
        if let Some(index) = self.by_node.get(name.value) {
            return Ok(*index);
        }
        let what = format!("there is no node '{}'", name.value);
        let error = section.fault(name.line, what);
        let meant = nearest(name.value, self.by_node.keys().map(String::as_str));
        Err(match meant {
            Some(meant) => error.with_hint(format!("did you mean '{meant}'?")),
            None => error.with_hint("each node has a [[node]] with its name"),
        })
    }

    fn read_nodes(&mut self, top: &Section<'_>) -> Result<(), ScenarioError> {
        let mut numbers = BTreeSet::new();
        for section in top.sections("node", "[[node]]")? {
            let name = section.required("name", section.text("name")?)?;
            let next = u64::try_from(self.nodes.len() + 1).unwrap_or(u64::MAX);
            let number = section.count("number")?;
            let line = number.map_or(section.line, |placed| placed.line);
            let number = u32::try_from(number.map_or(next, |placed| placed.value))
                .ok()
                .filter(|number| (1..u32::MAX).contains(number))
                .ok_or_else(|| section.fault(line, "a node's number is from 1 to 4294967294"))?;
            if !numbers.insert(number) {
                let what = format!("two nodes have the number {number}");
                return Err(section.fault(line, what));
            }
            let segment = section.size("segment")?;
            let segment_line = segment.map_or(section.line, |placed| placed.line);
            let segment_octets = u32::try_from(segment.map_or(SEGMENT_OCTETS, |it| it.value))
                .ok()
                .filter(|octets| *octets >= 65_536 && *octets <= 1 << 30 && octets % 4096 == 0)
                .ok_or_else(|| {
                    let what = "a segment is a multiple of 4096 octets from 64KiB to 1GiB";
                    section.fault(segment_line, what)
                })?;
            let node = Node {
                name: name.value.to_owned(),
                number,
                quota_octets: section.size("quota")?.map_or(QUOTA_OCTETS, |it| it.value),
                quota_bundles: section
                    .count("bundles")?
                    .map_or(QUOTA_BUNDLES, |it| it.value),
                segment_octets,
                segment_mru: read_mru(&section, "segment_mru", SEGMENT_MRU)?,
                transfer_mru: read_mru(&section, "transfer_mru", TRANSFER_MRU)?,
                clock: read_clock(&section)?,
                flush: section.duration("flush")?.unwrap_or(FLUSH),
                read: section.duration("read")?.unwrap_or_default(),
            };
            let index = NodeIndex(self.nodes.len());
            if self.by_node.insert(name.value.to_owned(), index).is_some() {
                let what = format!("two nodes are named '{}'", name.value);
                return Err(section.fault(name.line, what));
            }
            self.nodes.push(node);
            section.finish()?;
        }
        if self.nodes.is_empty() {
            return Err(top.fault(1, "a scenario has at least one [[node]]"));
        }
        Ok(())
    }

    fn read_links(&mut self, top: &Section<'_>) -> Result<(), ScenarioError> {
        for section in top.sections("link", "[[link]]")? {
            let Placed { value, line } = section.required("between", section.texts("between")?)?;
            let &[first, second] = value.as_slice() else {
                return Err(section.fault(line, "'between' names two nodes"));
            };
            let place = |value| Placed { value, line };
            let between = (
                self.node(&section, place(first))?,
                self.node(&section, place(second))?,
            );
            if between.0 == between.1 {
                return Err(section.fault(line, format!("'{first}' needs no link to itself")));
            }
            let rate = section.required("rate", section.rate("rate")?)?;
            let name = section.text("name")?;
            let line = name.map_or(line, |placed| placed.line);
            let name = name.map_or_else(
                || format!("{first}-{second}"),
                |placed| placed.value.to_owned(),
            );
            let keepalive = section.duration("keepalive")?;
            let keepalive_s = keepalive.map_or(u64::from(KEEPALIVE_S), |time| time.as_secs());
            let words = [("reset", AtEnd::Reset), ("silence", AtEnd::Silence)];
            let link = Link {
                between,
                rate: Rate::from_octets_per_s(rate.value)
                    .map_err(|error| section.fault(rate.line, format!("'rate': {error}")))?,
                delay: section.duration("delay")?.unwrap_or_default(),
                presence: Presence::Always,
                at_end: section.word("at_end", &words)?.unwrap_or(AtEnd::Reset),
                retry: section.duration("retry")?.unwrap_or(RETRY),
                keepalive_s: u16::try_from(keepalive_s)
                    .map_err(|_| section.fault(section.line, "'keepalive' is at most 65535 s"))?,
                name,
            };
            self.add_link(link)
                .map_err(|what| section.fault(line, what))?;
            section.finish()?;
        }
        Ok(())
    }

    fn add_link(&mut self, link: Link) -> Result<LinkIndex, String> {
        let index = LinkIndex(self.links.len());
        if self.by_link.insert(link.name.clone(), index).is_some() {
            return Err(format!("two links are named '{}'", link.name));
        }
        self.links.push(link);
        Ok(index)
    }

    fn read_contacts(&mut self, top: &Section<'_>) -> Result<(), ScenarioError> {
        for section in top.sections("contact", "[[contact]]")? {
            let name = section.required("link", section.text("link")?)?;
            let Some(&index) = self.by_link.get(name.value) else {
                let error = section.fault(name.line, format!("there is no link '{}'", name.value));
                let meant = nearest(name.value, self.by_link.keys().map(String::as_str));
                return Err(match meant {
                    Some(meant) => error.with_hint(format!("did you mean '{meant}'?")),
                    None => error,
                });
            };
            let start = section.duration("start")?.unwrap_or_default();
            let length = match (section.duration("for")?, section.duration("end")?) {
                (Some(length), None) => length,
                (None, Some(end)) => end.checked_sub(start).unwrap_or_default(),
                _ => return Err(section.fault(section.line, "[[contact]] has a 'for' or an 'end'")),
            };
            if length.is_zero() {
                return Err(section.fault(section.line, "a contact ends before it begins"));
            }
            let every = section.duration("every")?;
            if every.is_some_and(|every| every < length) {
                let what = "a contact lasts longer than it is until the next";
                return Err(section.fault(section.line, what));
            }
            self.add_contact(Contact {
                link: index,
                start,
                length,
                every,
            });
            section.finish()?;
        }
        Ok(())
    }

    fn add_contact(&mut self, contact: Contact) {
        if let Some(link) = self.links.get_mut(contact.link.0) {
            link.presence = Presence::Planned;
        }
        self.contacts.push(contact);
    }

    /// A contact plan in a file of its own, or in the file.
    fn read_plan(&mut self, top: &Section<'_>, source: Source<'_>) -> Result<(), ScenarioError> {
        let Some(named) = top.text("contact_plan")? else {
            return Ok(());
        };
        let directory = source.path.parent().unwrap_or_else(|| Path::new(""));
        let path = directory.join(named.value);
        let text = fs::read_to_string(&path).map_err(|error| {
            let what = format!("'contact_plan' cannot be read: {}: {error}", path.display());
            top.fault(named.line, what)
        })?;
        let pairs = contact_plan::read(Source {
            path: &path,
            text: &text,
            line_starts: &line_starts(&text),
        })?;
        for ((first, second), pair) in pairs {
            let find = |number: u32| {
                let found = self.nodes.iter().position(|node| node.number == number);
                found.map(NodeIndex).ok_or_else(|| {
                    let what = format!("the contact plan names node {number}, which is none");
                    top.fault(named.line, what)
                })
            };
            let between = (find(first)?, find(second)?);
            let known = self
                .links
                .iter()
                .position(|link| link.between == between || link.between == (between.1, between.0));
            let index = match known {
                Some(known) => LinkIndex(known),
                None => self
                    .add_link(Link {
                        name: format!("{first}-{second}"),
                        between,
                        rate: Rate::from_octets_per_s(pair.rate)
                            .map_err(|error| top.fault(named.line, error.to_string()))?,
                        delay: pair.range,
                        presence: Presence::Planned,
                        at_end: AtEnd::Reset,
                        retry: RETRY,
                        keepalive_s: KEEPALIVE_S,
                    })
                    .map_err(|what| top.fault(named.line, what))?,
            };
            for (start, end) in pair.contacts {
                self.add_contact(Contact {
                    link: index,
                    start,
                    length: end.saturating_sub(start),
                    every: None,
                });
            }
        }
        Ok(())
    }

    fn read_traffic(&self, top: &Section<'_>) -> Result<Vec<Traffic>, ScenarioError> {
        let mut traffic = Vec::new();
        for section in top.sections("traffic", "[[traffic]]")? {
            let from = section.required("from", section.text("from")?)?;
            let to = section.required("to", section.text("to")?)?;
            let count = section.count("count")?.map(|placed| placed.value);
            let pace = match (section.duration("every")?, section.duration("mean")?) {
                (Some(every), None) if !every.is_zero() => Pace::Constant(every),
                (None, Some(mean)) if !mean.is_zero() => Pace::Mean(mean),
                (None, None) => Pace::AtOnce,
                (Some(_), Some(_)) => {
                    return Err(section.fault(section.line, "[[traffic]] has 'every' or 'mean'"));
                }
                _ => {
                    return Err(
                        section.fault(section.line, "'every' or 'mean' is more than nothing")
                    );
                }
            };
            if count.is_none() && pace == Pace::AtOnce {
                let error = section.fault(section.line, "[[traffic]] lacks 'count'");
                return Err(error.with_hint("only with 'every' or 'mean' it can go on for ever"));
            }
            let lifetime = section.duration("lifetime")?.unwrap_or(LIFETIME);
            if lifetime < Duration::from_millis(1) {
                return Err(section.fault(section.line, "'lifetime' is at least 1 ms"));
            }
            let entry = Traffic {
                from: self.node(&section, from)?,
                to: self.node(&section, to)?,
                count,
                size: read_size(&section)?,
                start: section.duration("start")?.unwrap_or_default(),
                pace,
                lifetime,
            };
            if entry.from == entry.to {
                return Err(section.fault(to.line, "[[traffic]] goes from one node to another"));
            }
            traffic.push(entry);
            section.finish()?;
        }
        Ok(traffic)
    }

    fn read_crashes(&self, top: &Section<'_>) -> Result<Vec<Crash>, ScenarioError> {
        let mut crashes = Vec::new();
        for section in top.sections("crash", "[[crash]]")? {
            let node = section.required("node", section.text("node")?)?;
            crashes.push(Crash {
                node: self.node(&section, node)?,
                at: section.required("at", section.duration("at")?)?,
                down: section.duration("down")?.unwrap_or(DOWN),
            });
            section.finish()?;
        }
        Ok(crashes)
    }
}

/// The largest segment or transfer that a node takes.
fn read_mru(section: &Section<'_>, key: &'static str, usual: u64) -> Result<u64, ScenarioError> {
    let line = section.line;
    let placed = section.size(key)?.unwrap_or(Placed { value: usual, line });
    if placed.value < MRU_MIN {
        let what = format!("'{key}' is at least {MRU_MIN} octets");
        return Err(section.fault(placed.line, what));
    }
    Ok(placed.value)
}

fn read_clock(section: &Section<'_>) -> Result<Clock, ScenarioError> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Word {
        Known,
        None,
    }
    let word = section.word("clock", &[("known", Word::Known), ("none", Word::None)])?;
    let offset = section.text("clock_offset")?;
    let drift = section.integer("clock_drift_ppm")?;
    if word == Some(Word::None) {
        return match (offset, drift) {
            (None, None) => Ok(Clock::None),
            _ => Err(section.fault(section.line, "a node without a clock has no wrong one")),
        };
    }
    let offset_ms = offset.map_or(Ok(0), |Placed { value, line }| {
        let (sign, text) = match value.strip_prefix('-') {
            Some(text) => (-1, text),
            None => (1, value.strip_prefix('+').unwrap_or(value)),
        };
        let offset = parse_duration(text).ok();
        let offset_ms = offset.and_then(|offset| i64::try_from(offset.as_millis()).ok());
        offset_ms
            .map(|offset_ms| sign * offset_ms)
            .ok_or_else(|| section.fault(line, format!("'clock_offset' is no time: '{value}'")))
    })?;
    let drift_ppm = drift.map_or(Ok(0), |Placed { value, line }| {
        let drift = i32::try_from(value).ok();
        drift
            .filter(|drift| drift.unsigned_abs() <= 100_000)
            .ok_or_else(|| section.fault(line, "'clock_drift_ppm' is from -100000 to 100000"))
    })?;
    Ok(Clock::Known {
        offset_ms,
        drift_ppm,
    })
}

/// `2kB`, or `1kB..50kB`.
fn read_size(section: &Section<'_>) -> Result<Size, ScenarioError> {
    let Placed { value, line } = section.required("size", section.text("size")?)?;
    let (min, max) = value.split_once("..").unwrap_or((value, value));
    let parse = |text| {
        parse_size(text).map_err(|error| section.fault(line, format!("'size' is no size: {error}")))
    };
    let size = Size {
        min: parse(min)?,
        max: parse(max)?,
    };
    if size.max < size.min {
        return Err(section.fault(line, "'size' goes from the smaller to the larger"));
    }
    if size.min < Size::MIN {
        let what = format!(
            "'size' is at least {} octets, which say which payload it is",
            Size::MIN
        );
        return Err(section.fault(line, what));
    }
    Ok(size)
}

fn read_faults(top: &Section<'_>) -> Result<Faults, ScenarioError> {
    let Some(section) = top.section("faults", "[faults]")? else {
        return Ok(Faults {
            crash_down: DOWN,
            stall_for: STALL,
            ..Faults::default()
        });
    };
    let often = |key: &'static str| match section.duration(key)? {
        Some(time) if time.is_zero() => {
            Err(section.fault(section.line, format!("'{key}' is more than nothing")))
        }
        time => Ok(time),
    };
    let faults = Faults {
        crash_every: often("crash_every")?,
        crash_at_flush_per_billion: section.part("crash_at_flush")?.unwrap_or_default(),
        crash_down: section.duration("crash_down")?.unwrap_or(DOWN),
        stall_every: often("stall_every")?,
        stall_for: section.duration("stall_for")?.unwrap_or(STALL),
        reset_every: often("reset_every")?,
        lying_disks: section.boolean("lying_disks")?.unwrap_or(false),
        until: section.duration("until")?,
    };
    section.finish()?;
    Ok(faults)
}

fn read_stop(top: &Section<'_>) -> Result<Stop, ScenarioError> {
    let section = top.required("[stop]", top.section("stop", "[stop]")?)?;
    let stop = Stop {
        at: section.required("at", section.duration("at")?)?,
        when_delivered: section.boolean("when_delivered")?.unwrap_or(false),
        expects_all: section.boolean("expects_all")?.unwrap_or(false),
    };
    section.finish()?;
    Ok(stop)
}

#[cfg(test)]
mod tests;
