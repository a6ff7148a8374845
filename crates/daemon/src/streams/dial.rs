//! Connecting to neighbours.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use dhow_node::config::LinkId;
use dhow_node::driver::{Event, LinkAddress, Purpose};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::accept::Places;
use super::carrier::Carriers;
use super::connection::{Side, serve};
use super::listener::{set_path_check, set_stall_timeout};
use super::listeners::Identity;
use super::route::is_carrier_missing;
use super::socket::Socket;
use crate::config::file::DialSettings;
use crate::core::Core;
use crate::datagrams::calls::plain;
use crate::datagrams::conversation::Conversation;
use crate::datagrams::path::{Path, is_missing, says_no_way};
use crate::datagrams::port::{Place, Ports};
use crate::datagrams::seal::KeyFile;
use dhow_bundle::protocol::Transport;

/// Addresses of one host that are tried, at most.
const ADDRESSES_MAX: usize = 8;

/// An order of the node about the dialling of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialOrder {
    /// A link is at this address from now on.
    Found(Box<LinkAddress>),
    /// Connect to a link's address.
    Dial(LinkId),
    /// Give up attempts under way to the link.
    Stop(LinkId),
}

/// The failure of the last attempt of each link that an operator made, so that the log has it once and not with
/// every attempt.
type LastFailures = Rc<RefCell<BTreeMap<LinkId, String>>>;

/// Attempts under way, by link; how many there may be is the node's business.
type Attempts = BTreeMap<LinkId, Vec<Attempt>>;

/// One attempt to connect.
struct Attempt {
    task: AbortHandle,
    patience: Patience,
}

/// The time for which an attempt waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// The configured time: the path may be that long.
    Long,
    /// Until about the next one begins. The system sends an attempt's SYN again and again, and a path that is
    /// down needs no more of them.
    Short,
}

impl Attempt {
    /// The patience of the next attempt: every session that is missing has one that waits long.
    fn next_patience(under_way: &[Self], sessions: u8) -> Patience {
        let long = under_way
            .iter()
            .filter(|attempt| attempt.patience == Patience::Long)
            .count();
        if long < usize::from(sessions) {
            Patience::Long
        } else {
            Patience::Short
        }
    }
}

impl Patience {
    fn timeout(self, settings: &DialSettings) -> Duration {
        match self {
            Self::Long => settings.timeout,
            // The system's second SYN would leave as the next attempt begins.
            Self::Short => settings.timeout.min(settings.retry * 9 / 10),
        }
    }
}

/// The addresses of links, by their numbers.
#[derive(Clone)]
pub struct DialTable {
    links: Rc<RefCell<BTreeMap<LinkId, DialSettings>>>,
    /// The settings of neighbours that are found, by the places where they are heard.
    found: Rc<[DialSettings]>,
}

impl DialTable {
    /// The addresses of the configured links, and the settings of links to neighbours that are found.
    #[must_use]
    pub fn new(links: Vec<DialSettings>, found: Vec<DialSettings>) -> Self {
        let links = (0..).map(LinkId).zip(links).collect();
        Self {
            links: Rc::new(RefCell::new(links)),
            found: found.into(),
        }
    }

    /// Whether a link is like one that has an address.
    #[must_use]
    pub fn has_address(&self, link: LinkId) -> bool {
        let settings = self.get(link);
        settings.is_none_or(|it| it.transport != Transport::Bundles)
    }

    fn get(&self, link: LinkId) -> Option<DialSettings> {
        self.links.borrow().get(&link).cloned()
    }

    /// A link is dialled as another, but at this address, if there is such another.
    pub fn add_like(&self, link: LinkId, like: LinkId, host: String, port: u16) {
        let settings = self.get(like);
        let settings = settings.map(|like| DialSettings {
            host,
            port,
            beacon: None,
            ..like
        });
        self.links
            .borrow_mut()
            .extend(settings.map(|it| (link, it)));
    }

    /// A beacon told of a link's neighbour.
    fn find(&self, found: LinkAddress) {
        let at = usize::try_from(found.place.0).ok();
        if let Some(usual) = at.and_then(|at| self.found.get(at)) {
            let settings = DialSettings {
                host: found.host,
                port: found.port,
                beacon: Some(found.origin),
                ..usual.clone()
            };
            self.links.borrow_mut().insert(found.link, settings);
        }
    }

    /// A link is dialled so from now on.
    pub fn set(&self, link: LinkId, settings: DialSettings) {
        self.links.borrow_mut().insert(link, settings);
    }

    /// A link was not made.
    pub fn remove(&self, link: LinkId) {
        drop(self.links.borrow_mut().remove(&link));
    }
}

/// All that dialling takes.
#[derive(Clone)]
pub struct Means {
    /// Places for connections to those that an operator named.
    pub places: Places,
    /// Places for connections to those that were found: so many announced addresses may be nobody's that their attempts would leave no place to
    /// others.
    pub found: Places,
    /// This node's identity, if it has one.
    pub identity: Identity,
    /// The links that have no carrier.
    pub carriers: Rc<Carriers>,
    /// The sockets for datagrams.
    pub ports: Rc<Ports>,
}

/// Dials whenever the node asks; runs for as long as the node does.
pub async fn dial_on_demand(core: Core, links: DialTable, means: Means) {
    let failures = LastFailures::default();
    let mut attempts = Attempts::new();
    let mut orders = Vec::new();
    loop {
        core.next_dials(&mut orders).await;
        for order in orders.drain(..) {
            let link = match order {
                DialOrder::Dial(link) => link,
                DialOrder::Found(found) => {
                    // The failure of an earlier link of this number is none of one that is made later.
                    failures.borrow_mut().remove(&found.link);
                    links.find(*found);
                    continue;
                }
                DialOrder::Stop(link) => {
                    for attempt in attempts.remove(&link).unwrap_or_default() {
                        attempt.task.abort();
                    }
                    continue;
                }
            };
            let Some(settings) = links.get(link) else {
                core.handle(Event::DialFailed {
                    link,
                    reason: "the link has no address".to_owned(),
                });
                continue;
            };
            let under_way = attempts.entry(link).or_default();
            under_way.retain(|attempt| !attempt.task.is_finished());
            let patience = Attempt::next_patience(under_way, settings.sessions);
            let settings = DialSettings {
                timeout: patience.timeout(&settings),
                ..settings
            };
            let dialled = tokio::task::spawn_local(dial(
                core.clone(),
                link,
                settings,
                means.clone(),
                Rc::clone(&failures),
            ));
            under_way.push(Attempt {
                task: dialled.abort_handle(),
                patience,
            });
        }
    }
}

/// One attempt. A connection that it leads to has a task of its own: giving up attempts does not touch it.
async fn dial(
    core: Core,
    link: LinkId,
    settings: DialSettings,
    means: Means,
    failures: LastFailures,
) {
    let begun = match settings.transport {
        Transport::Tcp => connect_for(&core, link, &settings, &means).await,
        Transport::Udp => converse_for(&core, link, &settings, &means).await,
        // The node has no connection dialled.
        Transport::Bundles => Ok(()),
    };
    match begun {
        Ok(()) => drop(failures.borrow_mut().remove(&link)),
        Err(error) => {
            failed(&core, link, &settings, (&error, &failures));
            // A name may lead elsewhere next time, and nobody says so.
            let absent = error.get_ref().and_then(|it| it.downcast_ref::<Absent>());
            let absent = absent.filter(|_| settings.host.parse::<IpAddr>().is_ok());
            if let Some(Absent { to, is_absent, .. }) = absent.copied() {
                let tell = move |carrier| core.handle(Event::CarrierChanged { link, carrier });
                let is_absent = move || is_absent(to);
                means.carriers.lose(link, settings.retry, is_absent, tell);
            }
        }
    }
}

/// Connects, and lets the connection be served.
async fn connect_for(
    core: &Core,
    link: LinkId,
    settings: &DialSettings,
    means: &Means,
) -> io::Result<()> {
    let place = match settings.beacon {
        None => means.places.take(),
        Some(_) => {
            let place = tokio::time::timeout(settings.timeout, means.found.wait());
            place.await.ok().flatten()
        }
    };
    let Some(place) = place else {
        return Err(io::Error::other(
            "no more files may be opened for links (see ulimit -n)",
        ));
    };
    let stream = connect(settings).await?;
    set_stall_timeout(&stream, settings.stall_timeout);
    set_path_check(&stream, settings.path_check);
    let side = Side::Dialled(server_name(&settings.host, &stream));
    let purpose = Purpose::Dialled { link };
    let (core, tls) = (core.clone(), means.identity.borrow().clone());
    drop(tokio::task::spawn_local(async move {
        serve(core, Socket::tcp(stream), purpose, side, tls).await;
        drop(place);
    }));
    Ok(())
}

/// Begins a conversation by datagrams with the first address of the host to which a way leads.
async fn converse_for(
    core: &Core,
    link: LinkId,
    settings: &DialSettings,
    means: &Means,
) -> io::Result<()> {
    let known = settings.segment_key.clone().map(Ok);
    let key = known.or_else(|| settings.key.as_deref().map(KeyFile::load));
    let key = key.transpose();
    let key = key.map_err(|error| io::Error::other(format!("its key cannot be used: {error}")))?;
    let key = key.map(|file| file.key);
    let mut last = no_address();
    for address in resolve(settings).await?.map(plain) {
        let absent = |why| {
            means.ports.peers.borrow_mut().await_way(link, address);
            Absent::of(address, why, is_missing)
        };
        let way = match is_carrier_missing(address) {
            true => Err(absent(NO_CARRIER)),
            false => Path::find(address).map_err(|error| match says_no_way(&error) {
                true => absent(NO_WAY),
                false => error,
            }),
        };
        match means.ports.place(link, address).await {
            Ok(Place::Free) => {}
            Ok(Place::Taken) => return Ok(()),
            Err(error) => {
                last = error;
                continue;
            }
        }
        let ports = Rc::clone(&means.ports);
        let carried = settings.protocol.into();
        let (core, key) = (core.clone(), key.clone());
        let begin = |way| Conversation::begin(core, ports, link, (way, carried), key);
        match way.and_then(begin) {
            Ok(conversation) => {
                let carriers = Rc::clone(&means.carriers);
                let lasts = conversation.last(carriers, settings.retry);
                drop(tokio::task::spawn_local(lasts));
                return Ok(());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Tells of an attempt that failed.
fn failed(
    core: &Core,
    link: LinkId,
    settings: &DialSettings,
    (error, failures): (&io::Error, &LastFailures),
) {
    let said = error.to_string();
    let DialSettings { host, port, .. } = settings;
    if settings.beacon.is_some() {
        let now = core.now().monotonic;
        core.journal(|it| it.unreached(link, (host, *port), &said, now));
    } else {
        let name = core.journal(|it| it.link_name(link));
        let known = failures.borrow_mut().insert(link, said.clone());
        if known.as_ref() == Some(&said) {
            tracing::debug!(link = name, "cannot connect to {host}:{port}: {said}");
        } else {
            tracing::info!(link = name, "cannot connect to {host}:{port}: {said}");
        }
    }
    core.count(|counts| counts.dial_failures += 1);
    core.handle(Event::DialFailed { link, reason: said });
}

/// The reason of a failure if an interface has no carrier.
const NO_CARRIER: &str = "the interface that leads there has no carrier";

/// The reason of a failure if no route leads to an address.
const NO_WAY: &str = "the system has no route to that address";

/// Nothing can be sent towards an address.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{why}")]
struct Absent {
    to: SocketAddr,
    why: &'static str,
    /// Whether the address is still absent.
    is_absent: fn(SocketAddr) -> bool,
}

impl Absent {
    fn of(to: SocketAddr, why: &'static str, is_absent: fn(SocketAddr) -> bool) -> io::Error {
        io::Error::other(Self { to, why, is_absent })
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the host has no address")
}

/// The first addresses of a link's host; of one of which a beacon told, those that it may tell of. The system takes more forms for an address than
/// one (`localhost`, `127.1`, `2130706433`), and a name may have others by now.
async fn resolve(settings: &DialSettings) -> io::Result<impl ExactSizeIterator<Item = SocketAddr>> {
    let resolve = tokio::net::lookup_host((settings.host.as_str(), settings.port));
    let found = tokio::time::timeout(settings.timeout, resolve).await;
    let found = found.map_err(|_| late())??;
    let mut addresses: Vec<_> = found.take(ADDRESSES_MAX).collect();
    if let Some(origin) = settings.beacon {
        let refused = addresses.iter().find_map(|it| origin.check(*it).err());
        addresses.retain(|it| origin.check(*it).is_ok());
        if let Some(refused) = refused.filter(|_| addresses.is_empty()) {
            return Err(io::Error::other(refused));
        }
    }
    Ok(addresses.into_iter())
}

/// Connects to the first address of the host that answers; names are resolved each time, since they
/// may lead elsewhere by now.
async fn connect(settings: &DialSettings) -> io::Result<TcpStream> {
    let addresses = resolve(settings).await?;
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let share = (settings.timeout / count).max(Duration::from_millis(1));
    let mut last = no_address();
    for address in addresses {
        if is_carrier_missing(address) {
            last = Absent::of(address, NO_CARRIER, is_carrier_missing);
            continue;
        }
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = late(),
        }
    }
    Err(last)
}

/// The name for TLS: the DNS name that was resolved (RFC 9174 4.4.3), or else the peer's address.
fn server_name(host: &str, stream: &TcpStream) -> ServerName<'static> {
    let name = ServerName::try_from(host.to_owned()).ok();
    name.unwrap_or_else(|| {
        let address = stream
            .peer_addr()
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
        ServerName::from(address)
    })
}

#[cfg(test)]
mod tests {
    use dhow_bundle::protocol::Protocol;
    use dhow_node::discovery::origin::BeaconOrigin;

    use super::*;

    #[tokio::test]
    async fn a_name_in_a_beacon_from_elsewhere_leads_to_no_address_that_it_may_not_tell_of() {
        let settings = |host: &str, beacon| DialSettings {
            transport: Transport::Tcp,
            protocol: Protocol::Auto,
            host: host.to_owned(),
            port: 9,
            timeout: Duration::from_secs(2),
            retry: Duration::from_secs(1),
            sessions: 1,
            path_check: Duration::ZERO,
            stall_timeout: Duration::ZERO,
            key: None,
            segment_key: None,
            beacon,
        };
        let resolved = async |host: &str, beacon| {
            let settings = settings(host, beacon);
            let found = resolve(&settings).await;
            found.map(Iterator::collect::<Vec<_>>)
        };
        // The last three are forms of inet_aton(3).
        for host in ["localhost", "127.0.0.1", "2130706433", "0", "224.77"] {
            assert!(!resolved(host, None).await.unwrap().is_empty(), "{host}");
            let error = resolved(host, Some(BeaconOrigin::Elsewhere)).await;
            let said = error.unwrap_err().to_string();
            assert!(said.starts_with("its beacon"), "{host}: {said}");
        }
        let here = resolved("localhost", Some(BeaconOrigin::ThisMachine)).await;
        assert!(here.unwrap().iter().all(|it| it.ip().is_loopback()));
        let elsewhere = resolved("192.0.2.1", Some(BeaconOrigin::Elsewhere)).await;
        assert_eq!(elsewhere.unwrap(), ["192.0.2.1:9".parse().unwrap()]);
    }

    #[tokio::test]
    async fn each_missing_session_has_one_attempt_that_waits_long() {
        let attempt = |patience| Attempt {
            task: tokio::spawn(std::future::pending::<()>()).abort_handle(),
            patience,
        };
        let mut under_way = Vec::new();
        for expected in [
            Patience::Long,
            Patience::Long,
            Patience::Short,
            Patience::Short,
        ] {
            let patience = Attempt::next_patience(&under_way, 2);
            assert_eq!(patience, expected);
            under_way.push(attempt(patience));
        }
        under_way.remove(0);
        assert_eq!(Attempt::next_patience(&under_way, 2), Patience::Long);
    }
}
