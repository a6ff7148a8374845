//! Settings that the nodes, or the links, of one section have in common.

use std::sync::Arc;
use std::time::Duration;

use dhow_bundle::Version;
use dhow_channel::profile::BILLION;
use dhow_channel::{Delay, Loss, Rate, RateTrace};
use dhow_document::quantity::{parse_duration, parse_size};
use dhow_document::{Document, Entries, FileError};

use crate::host::{read_host, read_wire};
use crate::rate_trace;
use crate::scenario::{
    Aggregation, AtEnd, Clock, Custody, Dial, Host, Link, LtpPolicy, Node, NodeIndex, OnSent,
    Presence, Protocol, RedPart, StcpPolicy, UdpPolicy, Wire,
};

/// Octets of a session's MRUs, at least: less would not hold a fragment's header.
const MRU_MIN: u64 = 1024;

/// Keys that say something of links with sessions only, and of links over some protocols only.
const SESSION_KEYS: &[&str] = &["retry", "keepalive"];
const UDP_KEYS: &[&str] = &["mtu", "send_rate", "on_sent"];
const PACE_KEYS: &[&str] = &["mtu", "send_rate"];
const LTP_KEYS: &[&str] = &["red", "aggregate"];

/// Octets of the headers of IPv4 and UDP, which a link carries as well.
const UDP_HEADERS_OCTETS: u64 = 28;

/// Octets of a log before its segments, and segments without which a store takes nothing (docs/store-format.md).
const LOG_HEAD_OCTETS: u64 = 8192;
const SEGMENTS_MIN: u64 = 6;

/// Round trips that a keepalive interval has at least, where the file sets none: lost octets take one more each time.
const KEEPALIVE_ROUND_TRIPS: u128 = 4;

/// Below this a custodian would send a bundle again before any signal can have come.
const CUSTODY_RETRY_MIN: Duration = Duration::from_secs(1);

/// A node without a name.
#[derive(Clone, Debug)]
pub(crate) struct NodeKind {
    quota_octets: u64,
    quota_bundles: u64,
    source_bundles: Option<u64>,
    removed_bound: usize,
    custody: Custody,
    segment_octets: u32,
    segment_mru: u64,
    transfer_mru: u64,
    cut_through: bool,
    clock: Clock,
    disk_octets: u64,
    flush: Duration,
    read: Duration,
    host: Arc<Host>,
}

impl NodeKind {
    /// Reads the settings of a section's nodes.
    pub(crate) fn read(document: &Document<'_>, entries: &Entries) -> Result<Self, FileError> {
        let segment = entries.size("segment").unwrap_or_default();
        let segment_octets = u32::try_from(segment)
            .ok()
            .filter(|octets| *octets >= 65_536 && *octets <= 1 << 30 && octets % 4096 == 0)
            .ok_or_else(|| {
                let what = "a segment is a multiple of 4096 octets from 64KiB to 1GiB";
                document.fault(entries.line_of("segment"), what)
            })?;
        let disk_octets = entries.size("disk").unwrap_or(u64::MAX);
        let disk_min = LOG_HEAD_OCTETS + SEGMENTS_MIN * u64::from(segment_octets);
        if disk_octets < disk_min {
            let what = format!("a disk has at least {disk_min} octets");
            let error = document.fault(entries.line_of("disk"), what);
            return Err(error.with_hint("with less a store of such segments takes nothing"));
        }
        let wrong = ["clock_offset", "clock_drift_ppm"]
            .into_iter()
            .find(|key| entries.has(key));
        let clock = match (entries.text("clock"), wrong) {
            (Some("none"), Some(key)) => {
                let what = "a node without a clock has no wrong one";
                return Err(document.fault(entries.line_of(key), what));
            }
            (Some("none"), None) => Clock::None,
            _ => Clock::Known {
                offset_ms: entries.offset_ms("clock_offset").unwrap_or(0),
                drift_ppm: entries
                    .integer("clock_drift_ppm")
                    .and_then(|drift| i32::try_from(drift).ok())
                    .unwrap_or(0),
            },
        };
        let retry = entries.duration("custody_retry");
        if retry < CUSTODY_RETRY_MIN {
            let what = "'custody_retry' must be at least 1s: no signal comes at once";
            return Err(document.fault_of(entries, "custody_retry", what));
        }
        Ok(Self {
            quota_octets: entries.size("quota").unwrap_or_default(),
            quota_bundles: entries.count("bundles").unwrap_or_default(),
            source_bundles: entries.count("source_held_bundles"),
            removed_bound: (entries.count("removed_bound"))
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or_default(),
            custody: Custody {
                accepts: entries.is_true("custody"),
                aggregates: entries.is_true("custody_aggregate"),
                delay: entries.duration("custody_delay"),
                retry,
            },
            segment_octets,
            segment_mru: read_mru(document, entries, "segment_mru")?,
            transfer_mru: read_mru(document, entries, "transfer_mru")?,
            cut_through: entries.is_true("cut_through"),
            clock,
            disk_octets,
            flush: entries.duration("flush"),
            read: entries.duration("read"),
            host: Arc::new(read_host(document, entries)?),
        })
    }

    /// A node of the kind.
    pub(crate) fn node(&self, name: String, number: u32) -> Node {
        Node {
            name,
            number,
            quota_octets: self.quota_octets,
            quota_bundles: self.quota_bundles,
            source_bundles: self.source_bundles,
            removed_bound: self.removed_bound,
            custody: self.custody,
            segment_octets: self.segment_octets,
            segment_mru: self.segment_mru,
            transfer_mru: self.transfer_mru,
            cut_through: self.cut_through,
            clock: self.clock,
            disk_octets: self.disk_octets,
            flush: self.flush,
            read: self.read,
            host: Arc::clone(&self.host),
            guest_of: None,
            battery: None,
        }
    }
}

/// The largest segment or transfer that a node takes.
fn read_mru(document: &Document<'_>, entries: &Entries, key: &str) -> Result<u64, FileError> {
    let octets = entries.size(key).unwrap_or_default();
    if octets < MRU_MIN {
        let what = format!("'{key}' is at least {MRU_MIN} octets");
        return Err(document.fault(entries.line_of(key), what));
    }
    Ok(octets)
}

/// A link without a name and ends.
#[derive(Clone, Debug)]
pub(crate) struct LinkKind {
    pub(crate) rate: Rate,
    rate_trace: Option<RateTrace>,
    pub(crate) delay: Delay,
    loss: Loss,
    jitter: Duration,
    at_end: AtEnd,
    retry: Duration,
    dial: Dial,
    keepalive_s: u16,
    protocol: Protocol,
    speaks: Option<Version>,
    wire: Arc<Wire>,
}

impl LinkKind {
    /// Reads the settings of a section's links.
    pub(crate) fn read(document: &Document<'_>, entries: &Entries) -> Result<Self, FileError> {
        let rate_trace = rate_trace::read(document, entries)?;
        let rate = match &rate_trace {
            Some(trace) => trace.mean(),
            None => read_rate(document, entries, "rate")?,
        };
        let delay = read_delay(document, entries, "delay")?;
        let kind = Self::with(document, entries, rate, delay)?;
        Ok(Self { rate_trace, ..kind })
    }

    /// Reads the settings of a section's links beside rate and delay.
    pub(crate) fn with(
        document: &Document<'_>,
        entries: &Entries,
        rate: Rate,
        delay: Delay,
    ) -> Result<Self, FileError> {
        let jitter = entries.duration("jitter");
        let round_trip = delay.longest().saturating_add(jitter).saturating_mul(2);
        let keepalive_s = read_keepalive(document, entries, round_trip)?;
        let loss = read_loss(document, entries)?;
        let protocol = read_protocol(document, entries, (rate, delay.longest()))?;
        Ok(Self {
            rate,
            rate_trace: None,
            delay,
            loss,
            jitter,
            at_end: match entries.text("at_end") {
                Some("silence") => AtEnd::Silence,
                _ => AtEnd::Reset,
            },
            retry: entries.duration("retry"),
            dial: match entries.text("dial") {
                Some("contacts") => Dial::Contacts,
                _ => Dial::Always,
            },
            keepalive_s,
            protocol,
            speaks: read_versions(entries),
            wire: Arc::new(read_wire(document, entries)?),
        })
    }

    /// A link of the kind.
    pub(crate) fn link(&self, name: String, between: (NodeIndex, NodeIndex)) -> Link {
        Link {
            name,
            between,
            rate: self.rate,
            rate_trace: self.rate_trace.clone(),
            delay: self.delay.clone(),
            loss: self.loss,
            jitter: self.jitter,
            presence: Presence::Always,
            at_end: self.at_end,
            retry: self.retry,
            dial: self.dial,
            keepalive_s: self.keepalive_s,
            protocol: self.protocol,
            speaks: self.speaks,
            wire: Arc::clone(&self.wire),
            over: None,
            channel: None,
        }
    }
}

/// The keepalive interval of a link's sessions, seconds. One side waits for two intervals from when it knows the other's; the other
/// learns of its own a delay later, and what it says an interval after that is on its way for another.
fn read_keepalive(
    document: &Document<'_>,
    entries: &Entries,
    round_trip: Duration,
) -> Result<u16, FileError> {
    let wrong = |what: String| document.fault(entries.line_of("keepalive"), what);
    let keepalive = entries.duration("keepalive");
    if keepalive.subsec_nanos() > 0 {
        let what = format!("'keepalive' is whole seconds, and {keepalive:?} is not");
        return Err(wrong(what).with_hint("for example: keepalive = \"2s\""));
    }
    let seconds = u16::try_from(keepalive.as_secs())
        .map_err(|_| wrong("'keepalive' is at most 65535 s".to_owned()))?;
    let least = round_trip.as_millis().div_ceil(1000);
    if !entries.has("keepalive") {
        let wanted = (least * KEEPALIVE_ROUND_TRIPS).max(seconds.into());
        let wanted = u16::try_from(wanted).unwrap_or(u16::MAX);
        return Ok(if least > wanted.into() { 0 } else { wanted });
    }
    if seconds > 0 && u128::from(seconds) < least {
        let what = format!(
            "a 'keepalive' of {seconds} s is shorter than the link's longest round trip, {least} s: every session would end by silence"
        );
        let hint = "without the key it follows from the delay; 0 is for none";
        return Err(wrong(what).with_hint(hint));
    }
    Ok(seconds)
}

/// The one version of the Bundle Protocol that is sent over a link; none where both are.
fn read_versions(entries: &Entries) -> Option<Version> {
    let numbers = entries.numbers("bundle_versions");
    match (numbers.contains(&6), numbers.contains(&7)) {
        (true, false) => Some(Version::V6),
        (false, true) => Some(Version::V7),
        _ => None,
    }
}

/// The convergence layer of a link of a rate and a delay.
fn read_protocol(
    document: &Document<'_>,
    entries: &Entries,
    (rate, delay): (Rate, Duration),
) -> Result<Protocol, FileError> {
    let named = entries.text("protocol").and_then(Protocol::named);
    let protocol = named.unwrap_or_default();
    let (foreign, hint) = match protocol {
        Protocol::Udp(_) | Protocol::Ltp(_) => (
            SESSION_KEYS,
            "a link over UDP has no connection: nothing is dialled, and nothing kept alive",
        ),
        Protocol::Stcp(_) => (PACE_KEYS, "with protocol = \"udp\" it does"),
        _ => (UDP_KEYS, "with protocol = \"udp\" it does"),
    };
    let stray = foreign.iter().find(|key| entries.has(key));
    let mut stray = stray.map(|key| (*key, hint));
    if matches!(protocol, Protocol::Udp(_)) && entries.has("dial") {
        stray = Some(("dial", "over TCP and LTP it does"));
    }
    if let Protocol::Stcp(policy) = protocol
        && !policy.framing.has_keepalive()
        && entries.has("keepalive")
    {
        stray = Some(("keepalive", "with protocol = \"stcp\" it does"));
    }
    if !matches!(protocol, Protocol::Ltp(_)) {
        let ltp = LTP_KEYS.iter().find(|key| entries.has(key));
        stray = stray.or(ltp.map(|key| (*key, "with protocol = \"ltp\" it does")));
    }
    if let Some((key, hint)) = stray {
        let what = format!("'{key}' says nothing of this link's protocol");
        let error = document.fault(entries.line_of(key), what);
        return Err(error.with_hint(hint));
    }
    Ok(match protocol {
        Protocol::Udp(_) => Protocol::Udp(read_udp(document, entries)?),
        Protocol::Ltp(_) => Protocol::Ltp(read_ltp(document, entries, (rate, delay))?),
        Protocol::Stcp(policy) => Protocol::Stcp(StcpPolicy {
            on_sent: read_on_sent(entries),
            ..policy
        }),
        protocol => protocol,
    })
}

/// Reads the settings of nodes that send over UDP.
fn read_udp(document: &Document<'_>, entries: &Entries) -> Result<UdpPolicy, FileError> {
    let mtu_octets = entries.size("mtu").unwrap_or_default();
    let (least, most) = (UdpPolicy::MTU_MIN, UdpPolicy::MTU_MAX);
    if !(least..=most).contains(&mtu_octets) {
        let what = format!("'mtu' is {least} to {most} octets");
        return Err(document.fault(entries.line_of("mtu"), what));
    }
    let rate = read_rate(document, entries, "send_rate")?;
    Ok(UdpPolicy {
        mtu_octets,
        octets_per_s: rate.octets_per_s(),
        on_sent: read_on_sent(entries),
    })
}

/// Reads the settings of nodes that send over LTP. A sender counts the time of its answers from when a segment has left: so it sends no faster than
/// the link carries, and nothing waits behind it.
fn read_ltp(
    document: &Document<'_>,
    entries: &Entries,
    (rate, delay): (Rate, Duration),
) -> Result<LtpPolicy, FileError> {
    let udp = read_udp(document, entries)?;
    let packet = u128::from(udp.mtu_octets + UDP_HEADERS_OCTETS);
    let carried = u128::from(rate.octets_per_s()) * u128::from(udp.mtu_octets) / packet;
    let carried = u64::try_from(carried).unwrap_or(u64::MAX).max(1);
    let red = match entries.text("red") {
        None | Some("all") => RedPart::All,
        Some("none") => RedPart::None,
        Some(text) => RedPart::Octets(parse_size(text).map_err(|error| {
            let what = format!("'{text}' is no red part: {error}");
            let fault = document.fault(entries.line_of("red"), what);
            fault.with_hint("write \"all\", \"none\", or octets as in red = \"10kB\"")
        })?),
    };
    let light_time_ms = delay.as_nanos().div_ceil(1_000_000);
    Ok(LtpPolicy {
        red,
        mtu_octets: udp.mtu_octets,
        octets_per_s: match entries.has("send_rate") {
            true => udp.octets_per_s.min(carried),
            false => carried,
        },
        light_time_ms: u64::try_from(light_time_ms).unwrap_or(u64::MAX),
        on_sent: udp.on_sent,
        aggregation: match entries.has("aggregate") && !entries.is_true("aggregate") {
            true => Aggregation::Alone,
            false => Aggregation::Shared,
        },
        ..LtpPolicy::default()
    })
}

/// The fate of a bundle that has left where nobody acknowledges it.
fn read_on_sent(entries: &Entries) -> OnSent {
    let named = entries.text("on_sent").and_then(OnSent::named);
    named.unwrap_or_default()
}

/// Reads the losses of a link.
fn read_loss(document: &Document<'_>, entries: &Entries) -> Result<Loss, FileError> {
    let per_billion = entries.part("loss").unwrap_or(0);
    let wrong = |what: String| document.fault(entries.line_of("loss"), what);
    if per_billion == BILLION {
        let what = "over a link that loses so much nothing gets through";
        let hint = "a loss is the fraction of packets that are lost: 0.01 is one of a hundred";
        return Err(wrong(what.to_owned()).with_hint(hint));
    }
    let burst = entries.count("loss_burst").unwrap_or(1);
    let burst = u32::try_from(burst).unwrap_or(u32::MAX);
    Loss::bursts(per_billion, burst).map_err(|_| {
        let percent = per_billion / (BILLION / 100);
        let what = format!("{percent}% of packets cannot be lost in bursts of {burst}");
        wrong(what).with_hint("give longer bursts, or a smaller loss")
    })
}

/// A rate of something.
pub(crate) fn read_rate(
    document: &Document<'_>,
    entries: &Entries,
    key: &str,
) -> Result<Rate, FileError> {
    let octets = entries.rate(key).unwrap_or_default();
    Rate::from_octets_per_s(octets).map_err(|error| {
        let fault = document.fault(entries.line_of(key), format!("'{key}': {error}"));
        fault.with_hint("a link that is not there at times has a [[contact]] for when it is")
    })
}

/// `10ms`, or a list of `TIME DELAY`.
pub(crate) fn read_delay(
    document: &Document<'_>,
    entries: &Entries,
    key: &str,
) -> Result<Delay, FileError> {
    let wrong = |what: String| document.fault(entries.line_of(key), format!("'{key}' {what}"));
    let time =
        |text: &str| parse_duration(text).map_err(|error| wrong(format!("is not a time: {error}")));
    if let Some(text) = entries.text(key) {
        return Ok(Delay::constant(time(text)?));
    }
    let mut points = Vec::new();
    for point in entries.list(key) {
        let (at, delay) = point.split_once(' ').ok_or_else(|| {
            wrong(format!("is not a course of delays: '{point}'"))
                .with_hint("each is a time and the delay from then on: \"390d 22min\"")
        })?;
        points.push((time(at)?, time(delay)?));
    }
    Delay::course(points).map_err(|error| wrong(format!("is not a course of delays: {error}")))
}
