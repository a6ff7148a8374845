//! A neighbour that its beacons told of, and the addresses at which it may be.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr, SocketAddrV6};
use core::time::Duration;

use dhow_bundle::Instant;
use dhow_link::discovery::{Format, Host, Service};

use super::origin::{AddressRefusal, BeaconOrigin};
use crate::config::LinkId;

/// Addresses of one neighbour that are remembered, at most.
pub(crate) const ADDRESSES_BOUND: usize = 8;

/// Periods without a beacon after which a neighbour is lost (as in IBR-DTN and ION).
const PERIODS: u32 = 2;

/// Longest period that is believed: a neighbour that has gone is remembered for twice as long at most.
const PERIOD_MAX: Duration = Duration::from_secs(3_600);

/// The host at which a service is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Where {
    /// At an address, within the scope of an interface where it is not 0.
    Address(IpAddr, u32),
    /// At a name, of which a beacon of this origin told: its addresses are known, and checked, only when it is dialled.
    Name(String, BeaconOrigin),
}

impl Where {
    /// At an address, whatever its port.
    const fn at(address: SocketAddr) -> Self {
        Self::Address(address.ip(), scope_of(address))
    }
}

impl fmt::Display for Where {
    /// As it is resolved: `192.0.2.1`, `fe80::1%2`, `host.example`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address, 0) => address.fmt(f),
            Self::Address(address, scope) => write!(f, "{address}%{scope}"),
            Self::Name(name, _) => f.write_str(name),
        }
    }
}

/// A service at which a neighbour says that it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reach {
    pub(crate) host: Where,
    pub(crate) port: u16,
}

impl fmt::Display for Reach {
    /// As an operator reads it: `192.0.2.1:4556`, `[2001:db8::1]:4556`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Where::Address(IpAddr::V6(_), _) => write!(f, "[{}]:{}", self.host, self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

impl Reach {
    /// The way to a service of a beacon that came from an address.
    ///
    /// # Errors
    /// No node is to be dialled there.
    pub(crate) fn of(service: &Service, from: SocketAddr) -> Result<Self, AddressRefusal> {
        let origin = BeaconOrigin::of(from.ip());
        let told = |address| {
            let address = located(address, from);
            origin.check(address).map(|()| Where::at(address))
        };
        let host = match &service.host {
            Host::Sender => Where::at(located(from.ip(), from)),
            Host::Address(address) => told(*address)?,
            // An address may be written as a name.
            Host::Name(name) => match name.parse() {
                Ok(address) => told(address)?,
                Err(_) => Where::Name(name.clone(), origin),
            },
        };
        let port = service.port;
        Ok(Self { host, port })
    }

    /// The origin of a beacon that may tell of it: only one of this machine tells of a loopback address.
    pub(crate) fn origin(&self) -> BeaconOrigin {
        match &self.host {
            Where::Address(address, _) => BeaconOrigin::of(*address),
            Where::Name(_, origin) => *origin,
        }
    }

    /// Whether it is at the address from which its beacon came: the best there is, since something came from there.
    fn is_at(&self, from: IpAddr) -> bool {
        matches!(self.host, Where::Address(address, _) if address == from.to_canonical())
    }
}

/// An address in its shortest form, at no port; one of a link alone has the scope of the interface on which the beacon came.
fn located(address: IpAddr, from: SocketAddr) -> SocketAddr {
    match address.to_canonical() {
        IpAddr::V6(it) if it.is_unicast_link_local() => {
            SocketAddrV6::new(it, 0, 0, scope_of(from)).into()
        }
        address => SocketAddr::new(address, 0),
    }
}

/// The number of the interface at which an address of a link is; 0 of all others.
const fn scope_of(from: SocketAddr) -> u32 {
    match from {
        SocketAddr::V6(from) => from.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

/// An address at which a neighbour may be.
#[derive(Clone, Debug)]
struct Candidate {
    reach: Reach,
    /// The address from which its last beacon came.
    source: IpAddr,
    /// When it counts no more.
    until: Instant,
}

/// A neighbour.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    candidates: Vec<Candidate>,
    /// The way that its link takes.
    pub(crate) current: Option<Reach>,
    /// Its link, once it has one.
    pub(crate) link: Option<LinkId>,
    /// The time before which the neighbour is not dialled.
    pub(crate) dial_at: Instant,
    /// When it wants to be looked at.
    pub(crate) look_at: Instant,
    /// The address from which its first beacon came.
    pub(crate) source: IpAddr,
    /// When its first beacon came.
    pub(crate) since: Instant,
    /// When its last beacon came.
    pub(crate) last: Instant,
    /// The format of the beacon.
    pub(crate) format: Format,
    /// The time between its beacons, as it says, or as this node's.
    pub(crate) period: Duration,
    /// Its beacons.
    pub(crate) beacons: u64,
}

impl Neighbour {
    /// A neighbour that is heard of for the first time.
    pub(crate) fn new(now: Instant, from: SocketAddr, format: Format, dial_at: Instant) -> Self {
        Self {
            candidates: Vec::new(),
            current: None,
            link: None,
            dial_at,
            look_at: now,
            source: from.ip(),
            since: now,
            last: now,
            format,
            period: Duration::ZERO,
            beacons: 0,
        }
    }

    /// A beacon of it came, with these ways to it.
    pub(crate) fn heard(
        &mut self,
        now: Instant,
        (from, format): (SocketAddr, Format),
        period: Duration,
        ways: Vec<Reach>,
    ) {
        self.last = now;
        self.format = format;
        self.period = period.min(PERIOD_MAX);
        self.beacons += 1;
        // One beacon may be lost, and the next be a little late.
        let until = now + self.period.saturating_mul(PERIODS) + self.period / 4;
        let source = from.ip();
        for reach in ways {
            if let Some(known) = self.candidates.iter_mut().find(|it| it.reach == reach) {
                known.until = until;
                known.source = source;
                continue;
            }
            if self.candidates.len() >= ADDRESSES_BOUND {
                continue;
            }
            let candidate = Candidate {
                reach,
                source,
                until,
            };
            // The best stand first: at the sender's address, then other addresses, then names.
            let rank = |it: &Candidate| match &it.reach.host {
                _ if it.reach.is_at(it.source) => 0,
                Where::Address(..) => 1,
                Where::Name(..) => 2,
            };
            let behind = rank(&candidate);
            let place = self.candidates.partition_point(|it| rank(it) <= behind);
            self.candidates.insert(place, candidate);
            self.look_at = now;
        }
    }

    /// The neighbour says from this address that it goes.
    pub(crate) fn departs(&mut self, now: Instant, from: IpAddr) {
        self.candidates.retain(|it| it.source != from);
        self.look_at = now;
    }

    /// Forgets the addresses of which no beacon tells any more.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.candidates.retain(|it| it.until > now);
    }

    /// Nobody is at a way who has its name.
    pub(crate) fn forget(&mut self, reach: &Reach) {
        self.candidates.retain(|it| it.reach != *reach);
    }

    /// Whether no beacon tells of it any more.
    pub(crate) const fn is_silent(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Whether a beacon still tells of the way that its link takes.
    pub(crate) fn is_current(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|it| self.candidates.iter().any(|other| other.reach == *it))
    }

    /// The best way to it; the one behind the way that its link takes, which leads nowhere, where `is_in_vain`.
    pub(crate) fn best(&self, is_in_vain: bool) -> Option<&Reach> {
        let current = self.current.as_ref().filter(|_| is_in_vain);
        let at = current.and_then(|it| self.candidates.iter().position(|other| other.reach == *it));
        let next = at.and_then(|at| self.candidates.get(at + 1));
        next.or(self.candidates.first()).map(|it| &it.reach)
    }

    /// Its ways.
    pub(crate) const fn ways(&self) -> usize {
        self.candidates.len()
    }

    /// When the next of its addresses counts no more.
    pub(crate) fn next_silence(&self) -> Option<Instant> {
        self.candidates.iter().map(|it| it.until).min()
    }
}
