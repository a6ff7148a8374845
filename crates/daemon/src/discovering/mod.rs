//! Beacons on the wire: the sockets on which neighbours are heard and beacons leave.
//!
//! The node decides (`dhow_node::discovery`): it is told each datagram that comes, and says when a beacon is to leave and to whom. Start reading at
//! [`run`]; `sockets` has one socket for each port and family, `interface` those of the machine, and `advertised` the services that a beacon
//! names, which depend on the interface that it leaves by.

mod advertised;
mod interface;
mod sockets;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::NodeId;
use dhow_link::discovery::{Beacon, Format, MAX_BEACON_OCTETS};
use dhow_node::config::DiscoverId;
use dhow_node::driver::{Announcement, BeaconTo, Event};
use tokio::task::JoinSet;

use crate::config::discover::DiscoverSettings;
use crate::core::Core;
pub use advertised::Advertised;
use interface::{Interface, interfaces};
use sockets::{Ear, Way};

/// The time between two looks for interfaces on which groups are to be joined, and for ports that could not be had.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Datagrams that one port takes in a second, at most: those above it wait in the socket, and are dropped by the system.
const DATAGRAMS_PER_SECOND: u32 = 2_000;

/// All that beacons are made of.
pub struct Discovering {
    /// The node that they name.
    pub node: NodeId,
    /// Places, by position: [`DiscoverId`].
    pub places: Vec<DiscoverSettings>,
    /// Listeners at which neighbours may connect.
    pub advertised: Rc<RefCell<Advertised>>,
}

/// Hears and sends beacons; runs for as long as the node does.
pub async fn run(core: Core, discovering: Option<Discovering>) {
    let Some(discovering) = discovering else {
        return;
    };
    let ears: Vec<_> = Ear::of(&discovering.places)
        .into_iter()
        .map(Rc::new)
        .collect();
    let mut reading = JoinSet::new();
    let mut orders = Vec::new();
    let known = Rc::new(RefCell::new(Vec::new()));
    let mut look = || {
        let found = interfaces();
        for ear in &ears {
            if ear.open() {
                let known = Rc::clone(&known);
                reading.spawn_local(read(core.clone(), Rc::clone(ear), known));
            }
            ear.join(&found);
        }
        *known.borrow_mut() = found;
    };
    // The first beacons are due at once, and the sockets are to be there before.
    look();
    let mut looking = tokio::time::interval(LOOK_INTERVAL);
    loop {
        tokio::select! {
            _ = looking.tick() => look(),
            () = core.next_beacons(&mut orders) => {
                for (place, announcement) in orders.drain(..) {
                    discovering.send(&core, &ears, &known.borrow(), place, announcement);
                }
            }
        }
    }
}

/// Tells the node what comes to a port.
async fn read(core: Core, ear: Rc<Ear>, known: Rc<RefCell<Vec<Interface>>>) {
    // One octet more shows that a datagram is too long.
    let mut buffer = [0; MAX_BEACON_OCTETS + 1];
    loop {
        let window = tokio::time::Instant::now() + Duration::from_secs(1);
        for _ in 0..DATAGRAMS_PER_SECOND {
            let arrived = match ear.receive(&mut buffer).await {
                Ok(arrived) => arrived,
                Err(error) => {
                    tracing::debug!("a beacon was not heard: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let octets = buffer.get(..arrived.octets).unwrap_or_default();
            let octets = Bytes::copy_from_slice(octets);
            for place in ear.places(arrived.by, &known.borrow()) {
                core.handle(Event::Beacon {
                    place,
                    from: arrived.from,
                    octets: octets.clone(),
                });
            }
        }
        tokio::time::sleep_until(window).await;
    }
}

impl Discovering {
    /// Sends one announcement, in each format and by each interface that it goes by.
    fn send(
        &self,
        core: &Core,
        ears: &[Rc<Ear>],
        known: &[Interface],
        DiscoverId(id): DiscoverId,
        announcement: Announcement,
    ) {
        let at = usize::try_from(id).ok();
        let Some(settings) = at.and_then(|at| self.places.get(at)) else {
            return;
        };
        let to = match announcement.to {
            BeaconTo::Destination(at) => {
                let at = usize::try_from(at).ok();
                at.and_then(|at| settings.destinations.get(at)).copied()
            }
            BeaconTo::Address(from) => Some(answered(settings, from)),
        };
        let Some(to) = to else {
            return;
        };
        let Some(ear) = ears.iter().find(|ear| ear.sends_to(DiscoverId(id), to)) else {
            return;
        };
        for way in Way::all(to, known, &settings.interfaces) {
            for &format in &settings.formats {
                let datagram = self.datagram(announcement, format, &way);
                match ear.send(&datagram, &way) {
                    Ok(()) => core.count(|counts| counts.beacons_sent += 1),
                    // An interface may have just gone, or have no address of this family.
                    Err(error) => {
                        core.count(|counts| counts.beacons_unsent += 1);
                        tracing::debug!(to = %way.to, "a beacon was not sent: {error}");
                    }
                }
            }
        }
    }

    fn datagram(&self, announcement: Announcement, format: Format, way: &Way<'_>) -> Vec<u8> {
        let beacon = Beacon {
            node: self.node.clone(),
            period: Some(Duration::from_millis(announcement.period_ms)),
            sequence: announcement.sequence,
            services: self.advertised.borrow().services(format, way),
        };
        let mut datagram = Vec::new();
        beacon.encode(format, &mut datagram);
        datagram
    }
}

/// The address at which somebody hears beacons whose own came from any port.
fn answered(settings: &DiscoverSettings, mut from: std::net::SocketAddr) -> std::net::SocketAddr {
    let mut alike = settings.destinations.iter();
    let alike = alike.find(|it| it.is_ipv4() == from.is_ipv4());
    if let Some(port) = alike.or(settings.destinations.first()).map(|it| it.port()) {
        from.set_port(port);
    }
    from
}
