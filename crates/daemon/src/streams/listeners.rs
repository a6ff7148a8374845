//! The listeners of a running node for neighbours: each is opened and closed by itself.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use dhow_bundle::protocol::{Protocol, Transport};
use dhow_node::config::ListenerId;
use dhow_node::discovery::config::service_of;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::accept::{Places, accept_neighbours};
use super::listener::{Family, ListenError, bind_tcp, bind_udp};
use super::tls::Tls;
use crate::config::file::ListenSettings;
use crate::core::Core;
use crate::datagrams::port::{Port, Ports};
use crate::datagrams::socket::DatagramSocket;
use crate::discovering::Advertised;

/// This node's identity under TLS, if it has one: it may get another while the node runs.
pub type Identity = Rc<RefCell<Option<Tls>>>;

/// Settings of the connections at a listener; they may become others while it is open.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time for which sent octets may stay unacknowledged.
    pub stall_timeout: Duration,
    /// Connections of one origin, at most.
    pub connections_per_address: usize,
}

impl From<&ListenSettings> for Limits {
    fn from(settings: &ListenSettings) -> Self {
        Self {
            stall_timeout: settings.stall_timeout,
            connections_per_address: settings.connections_per_address,
        }
    }
}

/// A listener whose sockets are bound and at which nothing is accepted yet.
pub struct BoundListener {
    /// Its number.
    pub id: ListenerId,
    settings: ListenSettings,
    streams: Vec<TcpListener>,
    datagrams: Vec<DatagramSocket>,
}

impl BoundListener {
    /// Binds one of `all`.
    ///
    /// # Errors
    /// When one of its addresses cannot be had.
    pub fn bind(
        id: ListenerId,
        settings: &ListenSettings,
        all: &[ListenSettings],
    ) -> Result<Self, ListenError> {
        let own = all.iter().any(|other| {
            (other.transport, other.port) == (settings.transport, settings.port)
                && other.host.parse::<std::net::Ipv4Addr>().is_ok()
        });
        let family = match own && settings.port != 0 {
            true => Family::Own,
            false => Family::Dual,
        };
        let (host, port) = (&settings.host, settings.port);
        let mut bound = Self {
            id,
            settings: settings.clone(),
            streams: Vec::new(),
            datagrams: Vec::new(),
        };
        match settings.transport {
            Transport::Udp => bound.datagrams = bind_udp(host, port, family)?,
            _ => bound.streams = bind_tcp(host, port, family)?,
        }
        Ok(bound)
    }

    fn places(&self) -> Vec<SocketAddr> {
        let streams = self.streams.iter().filter_map(|it| it.local_addr().ok());
        let datagrams = self.datagrams.iter().map(DatagramSocket::local);
        streams.chain(datagrams).collect()
    }
}

/// Addresses of listeners, of streams first; those of datagrams with `/udp` behind them.
#[must_use]
pub fn addresses(listeners: &[BoundListener]) -> Vec<String> {
    let places = listeners.iter();
    shown(places.map(|it| (it.settings.transport, it.places())))
}

fn shown(listeners: impl Iterator<Item = (Transport, Vec<SocketAddr>)>) -> Vec<String> {
    let (mut streams, mut datagrams) = (Vec::new(), Vec::new());
    for (transport, places) in listeners {
        for place in places {
            match transport {
                Transport::Udp => datagrams.push(format!("{place}/udp")),
                _ => streams.push(place.to_string()),
            }
        }
    }
    streams.append(&mut datagrams);
    streams
}

fn told(listeners: impl Iterator<Item = (Protocol, Vec<SocketAddr>)>) -> Advertised {
    let mut services = Vec::new();
    for (protocol, places) in listeners {
        if let Some(service) = service_of(protocol) {
            services.extend(places.into_iter().map(|place| (service, place)));
        }
    }
    Advertised::new(services)
}

/// A listener that is open.
struct Open {
    settings: ListenSettings,
    places: Vec<SocketAddr>,
    limits: Rc<Cell<Limits>>,
    tasks: Vec<JoinHandle<()>>,
    ports: Vec<Rc<Port>>,
}

/// The listeners for neighbours that are open.
pub struct Listeners {
    core: Core,
    places: Places,
    identity: Identity,
    ports: Rc<Ports>,
    open: RefCell<BTreeMap<ListenerId, Open>>,
    /// The listeners that beacons advertise.
    pub advertised: Rc<RefCell<Advertised>>,
}

impl Listeners {
    /// None yet; connections take `places`.
    #[must_use]
    pub fn new(core: Core, places: Places, identity: Identity, ports: Rc<Ports>) -> Self {
        Self {
            core,
            places,
            identity,
            ports,
            open: RefCell::default(),
            advertised: Rc::default(),
        }
    }

    /// Accept at a listener from now on.
    pub fn open(&self, bound: BoundListener) {
        let places = bound.places();
        let BoundListener {
            id,
            settings,
            streams,
            datagrams,
        } = bound;
        let limits = Rc::new(Cell::new(Limits::from(&settings)));
        let mut tasks: Vec<_> = streams
            .into_iter()
            .map(|listener| {
                let accepting = accept_neighbours(
                    self.core.clone(),
                    (id, listener),
                    Rc::clone(&limits),
                    self.places.clone(),
                    Rc::clone(&self.identity),
                );
                tokio::task::spawn_local(accepting)
            })
            .collect();
        let mut ports = Vec::new();
        for socket in datagrams {
            let port = self.ports.bind(id, settings.protocol.into(), socket);
            let reading = Rc::clone(&self.ports).read(Rc::clone(&port));
            tasks.push(tokio::task::spawn_local(reading));
            ports.push(port);
        }
        let open = Open {
            settings,
            places,
            limits,
            tasks,
            ports,
        };
        self.open.borrow_mut().insert(id, open);
        self.tell();
    }

    /// Give other settings to the connections that come at a listener.
    pub fn adapt(&self, id: ListenerId, settings: &ListenSettings) {
        if let Some(open) = self.open.borrow_mut().get_mut(&id) {
            open.limits.set(Limits::from(settings));
            open.settings = settings.clone();
        }
        self.tell();
    }

    /// Accept at a listener no more: its sockets are closed when this returns, but for those over which links still speak.
    pub async fn close(&self, id: ListenerId) -> Option<ListenSettings> {
        let open = self.open.borrow_mut().remove(&id);
        let Open {
            settings,
            tasks,
            ports,
            ..
        } = open?;
        for task in tasks {
            task.abort();
            // It says that it was cut.
            let _ = task.await;
        }
        self.ports.part(ports);
        self.tell();
        Some(settings)
    }

    /// Accept nowhere.
    pub fn close_all(&self) {
        for (_, open) in std::mem::take(&mut *self.open.borrow_mut()) {
            for task in open.tasks {
                task.abort();
            }
        }
    }

    /// The addresses at which neighbours are accepted.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let open = self.open.borrow();
        shown(
            open.values()
                .map(|it| (it.settings.transport, it.places.clone())),
        )
    }

    fn tell(&self) {
        let open = self.open.borrow();
        let places = open.values();
        let told = told(places.map(|it| (it.settings.protocol, it.places.clone())));
        *self.advertised.borrow_mut() = told;
    }
}
