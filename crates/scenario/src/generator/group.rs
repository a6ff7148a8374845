//! Groups of hosts that move, each in its own way; those within reach of each other's radios have a contact.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use dhow_document::{Document, Entries, FileError, nearest, there_are};

use super::add_nodes;
use super::habits;
use super::map::{Map, read_points, read_route};
use super::meeting::{self, MM, Place};
use super::mover::{Interest, Movement, Mover, Turn, anywhere, within};
use super::working_day::plan;
use crate::battery;
use crate::entropy::Entropy;
use crate::kind::LinkKind;
use crate::network::Network;
use crate::scenario::{Channel, Contact, NodeIndex, Protocol, Sharing, Transport};

/// The purpose of the random numbers for places and ways.
const PURPOSE: u64 = Entropy::OURS + 11;

/// Hosts of one group and those of the next have random numbers that are so far apart.
const GROUP: usize = 1 << 24;

/// Radios that a scenario may have: of each, all hosts are looked at.
const RADIOS_MAX: usize = 64;

pub(super) fn expand(
    document: &Document<'_>,
    network: &mut Network,
    seed: u64,
    end: Duration,
) -> Result<(), FileError> {
    let radios = read_radios(document)?;
    let mut maps = Maps::default();
    let mut hosts = Vec::new();
    for (number, entries) in document.all("group").enumerate() {
        let own = read_group_radios(document, entries, &radios)?;
        let movers = read_movers(document, entries, (seed, number, end), &mut maps)?;
        let nodes = add_nodes(document, entries, network)?;
        let battery = battery::read(document, entries)?;
        for node in &nodes {
            if let Some(node) = network.nodes.get_mut(node.0) {
                node.battery = battery;
            }
        }
        let warm_up = entries.duration("warm_up");
        hosts.extend(nodes.into_iter().zip(movers).map(|(node, mover)| Host {
            node,
            mover,
            warm_up,
            radios: own.clone(),
        }));
    }
    for (files, map) in &maps.known {
        let left = map.borrow().unconnected();
        if left > 0 {
            let file = files.first().map(|file| file.display().to_string());
            network.notes.push(format!(
                "{}: {left} points of the map are not connected with the others: nobody goes there",
                file.unwrap_or_default()
            ));
        }
    }
    for (number, radio) in radios.iter().enumerate() {
        add_contacts(document, network, (number, radio, &radios), &hosts, end)?;
    }
    Ok(())
}

/// The radios of hosts.
struct Radio<'a> {
    entries: &'a Entries,
    name: String,
    reach: i64,
    step: Duration,
    kind: LinkKind,
    channel: Option<Channel>,
}

struct Host {
    node: NodeIndex,
    mover: Mover,
    warm_up: Duration,
    /// Positions in the list of radios.
    radios: Rc<[usize]>,
}

fn read_radios<'a>(document: &'a Document<'_>) -> Result<Vec<Radio<'a>>, FileError> {
    let mut radios: Vec<Radio<'a>> = Vec::new();
    for entries in document.all("radio") {
        let name = entries.text("name").unwrap_or_default();
        if radios.iter().any(|radio| radio.name == name) {
            let what = format!("two radios are named '{name}'");
            return Err(document.fault(entries.line_of("name"), what));
        }
        if radios.len() == RADIOS_MAX {
            let what = format!("a scenario has at most {RADIOS_MAX} radios");
            return Err(document.fault(entries.line(), what));
        }
        let step = entries.duration("step");
        if step < Duration::from_millis(1) {
            return Err(document.fault(entries.line_of("step"), "'step' is at least 1ms"));
        }
        radios.push(Radio {
            entries,
            name: name.to_owned(),
            reach: entries.integer("reach_m").unwrap_or_default() * MM,
            step,
            kind: LinkKind::read(document, entries)?,
            channel: read_channel(document, entries, radios.len())?,
        });
    }
    Ok(radios)
}

/// The channel for which the links of a radio wait.
fn read_channel(
    document: &Document<'_>,
    entries: &Entries,
    number: usize,
) -> Result<Option<Channel>, FileError> {
    let sharing = match entries.text("channel") {
        Some("radio") => Sharing::Ends,
        Some("reach") => Sharing::Reach,
        _ => return Ok(None),
    };
    let protocol = entries.text("protocol").and_then(Protocol::named);
    if protocol.is_some_and(|it| it.transport() == Transport::Udp) {
        let what =
            "datagrams are sent whether others send or not: a shared 'channel' is for connections";
        let error = document.fault(entries.line_of("channel"), what);
        return Err(error.with_hint("channel = \"pair\", or a protocol with connections"));
    }
    Ok(Some(Channel {
        radio: u32::try_from(number).unwrap_or(u32::MAX),
        sharing,
    }))
}

fn read_group_radios(
    document: &Document<'_>,
    entries: &Entries,
    radios: &[Radio<'_>],
) -> Result<Rc<[usize]>, FileError> {
    let find = |name: &String| {
        let found = radios.iter().position(|radio| radio.name == *name);
        found.ok_or_else(|| {
            let what = format!("there is no radio '{name}'");
            let error = document.fault(entries.line_of("radios"), what);
            let names = || radios.iter().map(|radio| radio.name.as_str());
            error.with_hint(match (nearest(name, names()), radios.is_empty()) {
                (Some(meant), _) => format!("did you mean '{meant}'?"),
                (None, true) => "a [[radio]] has a name, a reach_m and a rate".to_owned(),
                (None, false) => there_are(names().map(str::to_owned)),
            })
        })
    };
    entries.list("radios").iter().map(find).collect()
}

/// Maps that have been read, by their files.
#[derive(Default)]
struct Maps {
    known: BTreeMap<Vec<PathBuf>, Rc<RefCell<Map>>>,
}

impl Maps {
    /// The map of a group, where it names one.
    fn of(
        &mut self,
        document: &Document<'_>,
        entries: &Entries,
    ) -> Result<Option<Rc<RefCell<Map>>>, FileError> {
        let files = entries.list("map").iter();
        let files: Vec<PathBuf> = files.map(|file| document.resolve(file)).collect();
        if files.is_empty() {
            return Ok(None);
        }
        if let Some(absent) = files.iter().find(|file| !file.is_file()) {
            let what = format!("'map': there is no file {}", absent.display());
            let hint = "the path is relative to the scenario's file";
            return Err(document.fault(entries.line_of("map"), what).with_hint(hint));
        }
        if let Some(map) = self.known.get(&files) {
            return Ok(Some(Rc::clone(map)));
        }
        let map = Rc::new(RefCell::new(Map::read(&files)?));
        self.known.insert(files, Rc::clone(&map));
        Ok(Some(map))
    }
}

fn read_movers(
    document: &Document<'_>,
    entries: &Entries,
    (seed, group, end): (u64, usize, Duration),
    maps: &mut Maps,
) -> Result<Vec<Mover>, FileError> {
    let map = maps.of(document, entries)?;
    let lacks = |key: &str, hint: &str| {
        let movement = entries.text("movement").unwrap_or_default();
        let what = format!("[[group]] lacks '{key}', which movement = \"{movement}\" needs");
        document
            .fault(entries.line(), what)
            .with_hint(hint.to_owned())
    };
    let a_map = || {
        map.clone()
            .ok_or_else(|| lacks("map", "for example: map = [\"streets.wkt\"]"))
    };
    let corners = match (&map, entries.count("width_m"), entries.count("height_m")) {
        (_, Some(width), Some(height)) => {
            let mm = |metres: u64| i64::try_from(metres).unwrap_or(0) * MM;
            Some(((0, 0), (mm(width), mm(height))))
        }
        (Some(map), None, None) => Some(map.borrow().corners()),
        _ => None,
    };
    let an_area = || {
        let hint = "for example: width_m = 1000 and height_m = 1000, or a map";
        corners.ok_or_else(|| lacks("width_m", hint))
    };
    let movement = entries.text("movement").unwrap_or_default();
    let stops: Rc<[u32]> = match movement {
        "route" => read_stops(document, entries, &a_map()?.borrow())?,
        _ => Rc::from([]),
    };
    let speeds = entries.speeds("speed").unwrap_or((1, 1));
    if speeds.0 == 0 {
        return Err(document.fault(entries.line_of("speed"), "'speed' must be more than 0"));
    }
    let pause = entries.durations("pause").unwrap_or_default();
    let count = usize::try_from(entries.count("count").unwrap_or(0)).unwrap_or(0);
    if movement == "working-day" {
        let map = a_map()?;
        let entropies = (0..count).map(|host| Entropy::new(seed, PURPOSE, group * GROUP + host));
        let habits = {
            let mut entropy = Entropy::new(seed, PURPOSE, group * GROUP + GROUP - 1);
            habits::read(document, entries, &map.borrow(), (speeds, &mut entropy))?
        };
        let until = end.saturating_add(entries.duration("warm_up"));
        let until = i64::try_from(until.as_millis()).unwrap_or(i64::MAX / 4);
        let planned = plan(&habits, &map, entropies.collect(), until);
        let planned = planned.map_err(|what| document.fault(entries.line_of("movement"), what))?;
        let movers = planned.into_iter().map(|itinerary| {
            let place = itinerary.first().map(|(_, place)| *place);
            let entropy = Entropy::new(seed, PURPOSE, group * GROUP);
            let movement = Movement::Planned(itinerary);
            Mover::new(
                movement,
                (speeds, pause),
                place.unwrap_or_default(),
                entropy,
            )
        });
        return Ok(movers.collect());
    }
    let interests: Rc<[Interest]> = match (movement, &map) {
        ("shortest-path", Some(map)) => read_interests(document, entries, &map.borrow())?,
        _ if entries.has("interests") => {
            let what = "'interests' are for movement = \"shortest-path\" on a map";
            return Err(document.fault(entries.line_of("interests"), what));
        }
        _ => Rc::from([]),
    };
    let mut movers = Vec::with_capacity(count);
    for host in 0..count {
        let mut entropy = Entropy::new(seed, PURPOSE, group * GROUP + host);
        let (movement, place) = match (movement, &map) {
            ("route", _) => {
                let map = a_map()?;
                let at = entropy.below(u64::try_from(stops.len()).unwrap_or(0));
                let at = usize::try_from(at).unwrap_or(0);
                let place = map
                    .borrow()
                    .place(stops.get(at).copied().unwrap_or_default());
                let turn = match entries.text("way") {
                    Some("back") => Turn::Back,
                    _ => Turn::Round,
                };
                let movement = Movement::Route {
                    map,
                    stops: Rc::clone(&stops),
                    turn,
                    at,
                    is_back: false,
                };
                (movement, place)
            }
            ("shortest-path", _) => {
                let map = a_map()?;
                let at = anywhere(&map.borrow(), &mut entropy);
                let place = map.borrow().place(at);
                let interests = Rc::clone(&interests);
                (Movement::ShortestPath { map, at, interests }, place)
            }
            ("straight", _) => {
                let corners = an_area()?;
                let place = within(corners, &mut entropy);
                (Movement::Straight { corners }, place)
            }
            (_, Some(map)) => {
                let map = map.borrow();
                (Movement::None, map.place(anywhere(&map, &mut entropy)))
            }
            (_, None) => (Movement::None, within(an_area()?, &mut entropy)),
        };
        movers.push(Mover::new(movement, (speeds, pause), place, entropy));
    }
    Ok(movers)
}

/// The points of interest of a group: each text is a part of its ways and a file of points.
fn read_interests(
    document: &Document<'_>,
    entries: &Entries,
    map: &Map,
) -> Result<Rc<[Interest]>, FileError> {
    let (mut interests, mut sum) = (Vec::new(), 0_u64);
    for text in entries.list("interests") {
        let wrong = |what: String| {
            let error = document.fault(entries.line_of("interests"), what);
            error.with_hint("for example: interests = [\"0.3 parks.wkt\", \"0.1 shops.wkt\"]")
        };
        let parts = text.split_once(' ').and_then(|(part, file)| {
            Some((parse_part(part)?, file.trim())).filter(|(_, file)| !file.is_empty())
        });
        let (part, file) =
            parts.ok_or_else(|| wrong(format!("'{text}' is not a part from 0 to 1 and a file")))?;
        sum += u64::from(part);
        if sum > 1_000_000_000 {
            return Err(wrong("the parts of 'interests' are more than 1".to_owned()));
        }
        let points = read_points(&document.resolve(file), map)?;
        interests.push(Interest { part, points });
    }
    Ok(interests.into())
}

/// A part of a whole, billionths.
fn parse_part(text: &str) -> Option<u32> {
    let part = text.parse::<f64>().ok()?;
    if !(0.0..=1.0).contains(&part) {
        return None;
    }
    #[expect(clippy::as_conversions, reason = "checked above: at most 1e9")]
    let billionths = (part * 1e9).round() as u32;
    Some(billionths)
}

/// The points of a map at which a group's route stops.
fn read_stops(
    document: &Document<'_>,
    entries: &Entries,
    map: &Map,
) -> Result<Rc<[u32]>, FileError> {
    let Some(file) = entries.text("route") else {
        let error = document.fault(entries.line(), "[[group]] lacks 'route'");
        return Err(error.with_hint("for example: route = \"tram.wkt\""));
    };
    let stops = read_route(&document.resolve(file))?;
    let mut stops: Vec<u32> = stops
        .into_iter()
        .filter_map(|stop| map.nearest(stop))
        .collect();
    stops.dedup();
    if stops.len() < 2 {
        let what = "the stops of 'route' are one point of the map";
        let hint = "the map and the route have the same coordinates, metres";
        return Err(document
            .fault(entries.line_of("route"), what)
            .with_hint(hint));
    }
    Ok(stops.into())
}

/// Adds the contacts that one radio gives.
fn add_contacts(
    document: &Document<'_>,
    network: &mut Network,
    (number, radio, radios): (usize, &Radio<'_>, &[Radio<'_>]),
    hosts: &[Host],
    end: Duration,
) -> Result<(), FileError> {
    let fault = |what: String| document.fault(radio.entries.line_of("name"), what);
    let with: Vec<&Host> = hosts
        .iter()
        .filter(|host| host.radios.contains(&number))
        .collect();
    if let Some(what) = meeting::too_many_looks(with.len(), radio.step, end) {
        let error = document.fault(radio.entries.line_of("step"), what);
        return Err(error.with_hint("make 'step' longer"));
    }
    let mut movers: Vec<(i64, Mover)> = with
        .iter()
        .map(|host| {
            let warm_up = i64::try_from(host.warm_up.as_millis()).unwrap_or(i64::MAX / 8);
            (warm_up, host.mover.clone())
        })
        .collect();
    let places = |now: i64| -> Result<Vec<Place>, String> {
        let movers = movers.iter_mut();
        movers
            .map(|(warm_up, mover)| mover.place(now.saturating_add(*warm_up)))
            .collect()
    };
    let met = meeting::meetings((radio.reach, radio.step, end), places).map_err(fault)?;
    for meeting in met {
        let host = |at: u32| usize::try_from(at).ok().and_then(|at| with.get(at));
        let Some((first, second)) = host(meeting.pair.0).zip(host(meeting.pair.1)) else {
            continue;
        };
        if widest(first, second, radios) != Some(number) {
            continue;
        }
        let between = (first.node, second.node);
        let link = match network.link_between(between) {
            Some(link) => link,
            None => network
                .add_radio_link(between, &radio.kind, radio.channel)
                .map_err(fault)?,
        };
        let contact = Contact {
            link,
            start: meeting.start,
            length: meeting.length,
            every: None,
        };
        network.add_contact(contact).map_err(fault)?;
    }
    Ok(())
}

/// The radio that reaches farthest of those that two hosts share.
fn widest(first: &Host, second: &Host, radios: &[Radio<'_>]) -> Option<usize> {
    let shared = first.radios.iter().copied();
    let shared = shared.filter(|radio| second.radios.contains(radio));
    shared.max_by_key(|radio| {
        (
            radios.get(*radio).map(|radio| radio.reach),
            usize::MAX - radio,
        )
    })
}
