//! Stations on a planet that turns, an orbiter far away, and a lander below it.

use std::time::Duration;

use dhow_channel::Delay;
use dhow_document::{Document, Entries, FileError};

use super::add_named;
use crate::kind::{LinkKind, read_rate};
use crate::network::Network;
use crate::scenario::{Contact, LinkIndex, NodeIndex};

/// Points of the delay's course in each swing.
const POINTS: u32 = 64;

pub(super) fn expand(
    document: &Document<'_>,
    network: &mut Network,
    end: Duration,
) -> Result<(), FileError> {
    for entries in document.all("mission") {
        let sky = Sky::read(document, entries)?;
        let prefix = entries.text("name").unwrap_or_default();
        let stations = entries.count("stations").unwrap_or(1);
        let names = (1..=stations).map(|number| format!("{prefix}station{number}"));
        let others = ["orbiter", "lander"].map(|name| format!("{prefix}{name}"));
        let nodes = add_named(document, entries, network, names.chain(others))?;
        let [stations @ .., orbiter, lander] = nodes.as_slice() else {
            continue;
        };
        add_contacts(
            document,
            entries,
            (network, &sky, end),
            (stations, *orbiter, *lander),
        )?;
    }
    Ok(())
}

fn add_contacts(
    document: &Document<'_>,
    entries: &Entries,
    (network, sky, end): (&mut Network, &Sky, Duration),
    (stations, orbiter, lander): (&[NodeIndex], NodeIndex, NodeIndex),
) -> Result<(), FileError> {
    let wrong = |what| document.fault(entries.line_of("name"), what);
    let rate = read_rate(document, entries, "rate")?;
    let far = LinkKind::with(document, entries, rate, sky.delay(end).map_err(wrong)?)?;
    let lander_rate = match entries.rate("lander_rate") {
        Some(_) => read_rate(document, entries, "lander_rate")?,
        None => rate,
    };
    let lander_delay = Delay::constant(entries.duration("lander_delay"));
    let near = LinkKind::with(document, entries, lander_rate, lander_delay)?;
    let watch = sky.turn / u32::try_from(stations.len()).unwrap_or(u32::MAX);
    for (number, station) in (0_u32..).zip(stations) {
        let link = network
            .add_link((*station, orbiter), None, &far)
            .map_err(wrong)?;
        let mut rise = watch * number;
        while rise < end {
            for (start, until) in sky.seen(rise, (rise + watch).min(end)) {
                add(network, link, start, until).map_err(wrong)?;
            }
            rise += sky.turn;
        }
    }
    let link = network
        .add_link((lander, orbiter), None, &near)
        .map_err(wrong)?;
    let contact = Contact {
        link,
        start: (sky.orbit - sky.overflight) / 2,
        length: sky.overflight,
        every: Some(sky.orbit),
    };
    network.add_contact(contact).map_err(wrong)
}

fn add(
    network: &mut Network,
    link: LinkIndex,
    start: Duration,
    until: Duration,
) -> Result<(), String> {
    network.add_contact(Contact {
        link,
        start,
        length: until.saturating_sub(start),
        every: None,
    })
}

/// Periods and delays of all that moves.
struct Sky {
    turn: Duration,
    delays: (Duration, Duration),
    swing: Duration,
    orbit: Duration,
    hidden: Duration,
    overflight: Duration,
}

impl Sky {
    fn read(document: &Document<'_>, entries: &Entries) -> Result<Self, FileError> {
        let wrong = |key: &str, what: &str| Err(document.fault(entries.line_of(key), what));
        for key in ["turn", "swing", "orbit"] {
            if entries.duration(key) < Duration::from_secs(60) {
                return wrong(key, &format!("'{key}' is at least a minute"));
            }
        }
        if entries.duration("overflight").is_zero() {
            return wrong("overflight", "a contact ends before it begins");
        }
        let sky = Self {
            turn: entries.duration("turn"),
            delays: (entries.duration("nearest"), entries.duration("farthest")),
            swing: entries.duration("swing"),
            orbit: entries.duration("orbit"),
            hidden: entries.duration("hidden"),
            overflight: entries.duration("overflight"),
        };
        if sky.delays.1 < sky.delays.0 {
            return wrong("farthest", "'farthest' is nearer than 'nearest'");
        }
        if sky.hidden >= sky.orbit {
            return wrong("hidden", "the orbiter is never seen");
        }
        if sky.overflight > sky.orbit {
            return wrong("overflight", "an overflight takes longer than an orbit");
        }
        Ok(sky)
    }

    /// When the orbiter is not behind what it goes around, between two times.
    fn seen(&self, from: Duration, until: Duration) -> Vec<(Duration, Duration)> {
        let orbits = from.as_nanos() / self.orbit.as_nanos();
        let mut orbit = self.orbit * u32::try_from(orbits).unwrap_or(u32::MAX);
        let mut seen: Vec<(Duration, Duration)> = Vec::new();
        while orbit < until {
            let start = (orbit + self.hidden).max(from);
            let end = (orbit + self.orbit).min(until);
            match seen.last_mut() {
                Some((_, last)) if *last == start => *last = end,
                _ if start < end => seen.push((start, end)),
                _ => {}
            }
            orbit += self.orbit;
        }
        seen
    }

    /// The delay, which grows from the nearest to the farthest in half a swing, slowly at both ends, and back in the other half.
    fn delay(&self, end: Duration) -> Result<Delay, String> {
        let half = u64::from(POINTS / 2);
        let grown = self.delays.1.saturating_sub(self.delays.0).as_nanos();
        let step = self.swing / POINTS;
        let mut points = Vec::new();
        for number in 0_u32.. {
            let place = u64::from(number % POINTS);
            let up = u128::from(place.min(u64::from(POINTS) - place));
            // 3u² - 2u³ for u = up / half.
            let half = u128::from(half);
            let part = grown * up * up * (3 * half - 2 * up) / (half * half * half);
            let more = Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX));
            points.push((step * number, self.delays.0 + more));
            if step * number >= end {
                break;
            }
        }
        Delay::course(points).map_err(|error| error.to_string())
    }
}
