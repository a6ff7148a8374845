//! The node file as a value: the settings of the node itself, and those of its drivers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dhow_bundle::{DtnTime, NodeId};
use dhow_node::config::{
    Config, DialTime, Enabled, FirstRead, LinkConfig, ListenerConfig, PayloadChecksum, Reports, Tls,
};
use dhow_node::contacts::ContactTable;
use dhow_node::discovery::origin::BeaconOrigin;

use super::access::{Access, read_access};
use super::address::split_address_or;
use super::custody::read_custody;
use super::discover::{DiscoverSettings, read_discover};
use super::external::{read_external, read_routers};
use super::http::{HttpSettings, read_http};
use super::limits::read_source_limits;
use super::ltp::check_engines;
use super::measure::read_measure;
use super::memory::Memory;
use super::policy::{read_patterns, read_policy, read_priority};
use super::protocol::{check_keys, protocol_of, read_protocol, settle, transport_of, usual_port};
use super::routing::read_route;
use super::schema::SECTIONS;
use super::sense::check_sense;
use super::socket::{admin_socket, check_sockets};
use super::telemetry::read_telemetry;
use crate::datagrams::seal::KeyFile;
use crate::logging;
use crate::machine::{disk_octets, memory_octets};
use crate::measuring::MeasureSettings;
use crate::telemetry::TelemetrySettings;
use dhow_bundle::protocol::{Protocol, Transport};
use dhow_document::{Document, Entries, FileError};

/// Octets that a node file may have: far above any real one, so that a wrong path is not read whole.
const FILE_OCTETS_MAX: u64 = 4 << 20;

/// A node file, checked.
#[derive(Clone, Debug)]
pub struct NodeFile {
    /// The path from which it was read.
    pub path: PathBuf,
    /// The node's configuration; its seed is 0 and its contact table empty until the node runs ([`NodeFile::contacts`]).
    pub node: Config,
    /// The clock that the node trusts.
    pub clock: ClockSetting,
    /// The memory that the node may take, and its parts.
    pub memory: Memory,
    /// Threads for the node and its connections, beside the store's; at least 1.
    pub threads: usize,
    /// The store.
    pub store: StoreSettings,
    /// Unix socket of the application interface.
    pub api_socket: PathBuf,
    /// TCP address of the application interface, if any.
    pub api_tcp: Option<String>,
    /// Unix socket of programs that are a part of the node, if any.
    pub external_socket: Option<PathBuf>,
    /// The groups of users that may open the sockets.
    pub access: Access,
    /// HTTP for applications, if any.
    pub http: Option<HttpSettings>,
    /// Administration over TCP, if any.
    pub admin: Option<AdminSettings>,
    /// Addresses to listen on, by position in the node's listeners.
    pub listen: Vec<ListenSettings>,
    /// The addresses to which links connect, by position in the node's links.
    pub dial: Vec<DialSettings>,
    /// Destinations of beacons and more, by position in the node's places of discovery.
    pub discover: Vec<DiscoverSettings>,
    /// Certificate, key and authorities, if any.
    pub tls: Option<TlsSettings>,
    /// The measurements that the node makes of itself, if any.
    pub measure: Option<MeasureSettings>,
    /// The OpenTelemetry collector and the data for it, if there is one.
    pub telemetry: Option<TelemetrySettings>,
    /// The filter of the log.
    pub log: String,
    /// Its text, and the start of the node that runs by it.
    pub source: Source,
}

/// The origin of a node file as a value.
#[derive(Clone)]
pub struct Source {
    /// The text.
    pub text: std::sync::Arc<str>,
    /// The start of the node, from which some times in it count; 0 before one starts.
    pub start: DtnTime,
}

/// Two texts may mean the same.
impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

/// The clock that a node trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSetting {
    /// The machine's.
    System,
    /// None: bundles are created without a creation time (RFC 9171 4.2.7).
    None,
}

/// When stored octets count as safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurabilitySetting {
    /// Once the disk has flushed the octets.
    Sync,
    /// At once during a contact, whose end flushes them; else when the disk has flushed them.
    Contact,
    /// Once the operating system has the octets.
    Os,
    /// At once: nothing outlives the process.
    Memory,
}

/// The store's part of a node file.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Its directory.
    pub path: PathBuf,
    /// When octets count as safe.
    pub durability: DurabilitySetting,
    /// Octets of a segment; `None` to derive it from the quota.
    pub segment_octets: Option<u64>,
    /// Octets of segments that are written before they are needed.
    pub prepared_octets: u64,
    /// Octets of the log that are kept in memory, past the system's page cache; 0 to leave it all to that.
    pub memory_octets: u64,
    /// Time added to every flush.
    pub flush_delay: Duration,
}

/// Administration over TCP.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// The address.
    pub tcp: String,
    /// The token that every request must carry.
    pub token: String,
}

/// The address to which a link connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialSettings {
    /// The service over which it connects.
    pub transport: Transport,
    /// The convergence layer.
    pub protocol: Protocol,
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP or UDP port.
    pub port: u16,
    /// The longest duration of an attempt.
    pub timeout: Duration,
    /// The longest time until the next attempt while nothing answers.
    pub retry: Duration,
    /// Parallel sessions.
    pub sessions: u8,
    /// The time for which a connection is idle before its path is probed; zero for never.
    pub path_check: Duration,
    /// The time for which sent octets may stay unacknowledged by the peer's TCP; zero for the system's own bound.
    pub stall_timeout: Duration,
    /// The file with the key of all segments, over LTP.
    pub key: Option<PathBuf>,
    /// The key in that file, once [`NodeFile::settle_keys`] has read it.
    pub segment_key: Option<KeyFile>,
    /// The origin of the beacon that told of the host and the port; `None` where an operator did.
    pub beacon: Option<BeaconOrigin>,
}

/// The address to which neighbours connect, or send datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenSettings {
    /// The service over which they connect.
    pub transport: Transport,
    /// The convergence layer.
    pub protocol: Protocol,
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP or UDP port; 0 for any free one.
    pub port: u16,
    /// The timeout as with [`DialSettings::stall_timeout`].
    pub stall_timeout: Duration,
    /// Connections from one address at a time, at most.
    pub connections_per_address: usize,
}

/// Files of a node's identity under TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificate chain, PEM.
    pub certificate: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// Authorities, PEM.
    pub authorities: Vec<PathBuf>,
}

impl NodeFile {
    /// Octets of bundles for which a log is laid out: the quota, or less where the log lies in memory and that has less.
    pub(crate) fn log_octets(&self) -> u64 {
        match self.store.durability {
            DurabilitySetting::Memory => self.node.quota_octets.min(self.memory.log_octets),
            _ => self.node.quota_octets,
        }
    }

    /// Read the node file at `path`.
    ///
    /// # Errors
    /// When it cannot be read or is not a correct node file.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        Self::parse(&Self::text(path)?, path)
    }

    /// The text of the node file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is far too long for one.
    pub fn text(path: &Path) -> Result<String, FileError> {
        let unreadable = |error: std::io::Error| {
            FileError::of_file(path, format!("the file cannot be read: {error}"))
                .with_hint("`dhow node init` writes a node file")
        };
        let length = std::fs::metadata(path).map_err(unreadable)?.len();
        if length > FILE_OCTETS_MAX {
            return Err(FileError::of_file(
                path,
                format!("the file has {length} octets: this is not a node file"),
            ));
        }
        std::fs::read_to_string(path).map_err(unreadable)
    }

    /// Read the text of a node file; `path` is for messages and relative paths.
    ///
    /// # Errors
    /// When it is not a correct node file.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let document = Document::read(path, text, SECTIONS)?;
        check_keys(&document)?;
        let tls = read_tls(&document)?;
        let memory = Memory::read(&document)?;
        let links = document
            .all("link")
            .map(|entries| read_link(&document, entries, tls.as_ref(), &memory))
            .collect::<Result<Vec<_>, _>>()?;
        check_names(&document, &links)?;
        let discover = read_discover(&document, &links, |usual| {
            let entries = usual.one("link")?;
            read_link(usual, &entries, None, &memory)
        })?;
        let (mut discover, discovering): (Vec<_>, Vec<_>) = discover.into_iter().unzip();
        let (mut links, dial): (Vec<_>, Vec<_>) = links.into_iter().unzip();
        let listeners = document
            .all("listen")
            .map(|entries| {
                let (host, port) = read_address(&document, entries, "address")?;
                let mut policy = read_policy(&document, entries, tls.as_ref(), &memory)?;
                let protocol = protocol_of(entries);
                if let Protocol::Stcp(stcp) = protocol {
                    settle(entries, stcp.framing, &mut policy);
                }
                Ok((
                    ListenerConfig { policy, protocol },
                    ListenSettings {
                        transport: transport_of(entries),
                        protocol,
                        host,
                        port,
                        stall_timeout: entries.duration("stall_timeout"),
                        connections_per_address: small(entries, "connections_per_address")
                            .unwrap_or(1),
                    },
                ))
            })
            .collect::<Result<Vec<_>, FileError>>()?;
        let (mut listeners, listen): (Vec<_>, Vec<_>) = listeners.into_iter().unzip();
        let routes = document
            .all("route")
            .map(|entries| read_route(&document, entries, &links))
            .collect::<Result<Vec<_>, _>>()?;
        check_sockets(&document)?;
        let (external_socket, policy) = read_external(&document)?;
        let (routing, external) = read_routers(&document, (external_socket.as_ref(), policy))?;
        let node = document.one("node")?;
        let node_ids = read_node_ids(&document, &node)?;
        check_sense(&document, &node_ids)?;
        check_engines(&document, &node_ids)?;
        let store = document.one("store")?;
        let quota_octets = store.size("quota").unwrap_or(0);
        let links_policies = links.iter_mut().map(|link| &mut link.policy);
        let found_policies = discover.iter_mut().map(|found| &mut found.link.policy);
        let links_policies = links_policies.chain(found_policies);
        let policies = listeners.iter_mut().map(|listener| &mut listener.policy);
        for policy in links_policies.chain(policies) {
            policy.transfer_mru = policy.transfer_mru.min(quota_octets);
        }
        let api = document.one("api")?;
        let reports = document.one("reports")?;
        let echo = document.one("echo")?;
        let perf = document.one("perf")?;
        let first_id = node_ids.first().map(ToString::to_string);
        let measure = read_measure(&document, first_id.as_deref().unwrap_or_default())?;
        let config = Config {
            node_ids,
            links,
            listeners,
            routes,
            routing,
            external,
            contacts: ContactTable::default(),
            quota_octets,
            quota_bundles: store
                .integer("quota_bundles")
                .and_then(|count| u64::try_from(count).ok())
                .unwrap_or_else(|| memory.bundles()),
            memory_octets: memory.index_octets,
            store_queue_octets: memory.queue_octets,
            reports: read_reports(&reports),
            echo_service: if echo.is_true("enabled") {
                small(&echo, "service")
            } else {
                None
            },
            perf_service: if perf.is_true("enabled") {
                small(&perf, "service")
            } else {
                None
            },
            answers_per_second: small(&node, "answers_per_second").unwrap_or(u32::MAX),
            perf_sources: read_patterns(&document, &perf, "accept_sources")?,
            payload_checksum: match node.text("payload_checksum") {
                Some("none") => PayloadChecksum::None,
                _ => PayloadChecksum::Crc32C,
            },
            source_limits: read_source_limits(&document, &store)?,
            custody: read_custody(&document)?,
            default_lifetime_ms: millis(api.duration("default_lifetime")),
            highest_priority: read_priority(&document, &api)?,
            removed_bound: small(&store, "removed_bound").unwrap_or(0),
            first_read: FirstRead::Whole,
            discover,
            seed: 0,
        };
        Ok(Self {
            path: path.to_path_buf(),
            node: config,
            clock: if node.text("clock") == Some("none") {
                ClockSetting::None
            } else {
                ClockSetting::System
            },
            memory,
            threads: small(&node, "threads").unwrap_or(1),
            store: read_store(&document, &store, &memory)?,
            api_socket: document.resolve(api.text("socket").unwrap_or_default()),
            api_tcp: api.text("tcp").map(str::to_owned),
            external_socket,
            access: read_access(&document)?,
            http: read_http(&document)?,
            admin: read_admin(&document)?,
            listen,
            dial,
            discover: discovering,
            tls,
            measure,
            telemetry: read_telemetry(&document)?,
            log: read_log(&document, &node)?,
            source: Source {
                text: text.into(),
                start: DtnTime::from_millis(0),
            },
        })
    }

    /// Path of the Unix socket of the administration: the API socket's with `.admin` appended.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        admin_socket(&self.api_socket)
    }
}

fn read_log(document: &Document<'_>, node: &Entries) -> Result<String, FileError> {
    let filter = node.text("log").unwrap_or_default();
    match logging::check(filter) {
        Ok(()) => Ok(filter.to_owned()),
        Err(error) => Err(document.fault_of(node, "log", error.to_string())),
    }
}

fn read_node_ids(document: &Document<'_>, node: &Entries) -> Result<Vec<NodeId>, FileError> {
    let ids = node.list("id");
    if ids.is_empty() {
        return Err(document.fault_of(node, "id", "'id' names no node ID"));
    }
    ids.iter()
        .map(|text| read_node_id(document, node.line_of("id"), text))
        .collect()
}

pub(super) fn read_node_id(
    document: &Document<'_>,
    line: usize,
    text: &str,
) -> Result<NodeId, FileError> {
    text.parse::<NodeId>().map_err(|error| {
        document
            .fault(line, format!("'{text}' is not a node ID: {error}"))
            .with_hint("node IDs look like \"ipn:2.0\" or \"dtn://beta/\"")
    })
}

fn read_store(
    document: &Document<'_>,
    store: &Entries,
    memory: &Memory,
) -> Result<StoreSettings, FileError> {
    /// The range that the store's format allows, octets.
    const SEGMENT_OCTETS: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;
    let segment_octets = store.size("segment");
    if segment_octets
        .is_some_and(|octets| !SEGMENT_OCTETS.contains(&octets) || !octets.is_multiple_of(4096))
    {
        return Err(document
            .fault(
                store.line_of("segment"),
                "'segment' must be a multiple of 4KiB from 64KiB to 1GiB",
            )
            .with_hint("for example: segment = \"64MiB\""));
    }
    let path = document.resolve(store.text("path").unwrap_or_default());
    Ok(StoreSettings {
        durability: match store.text("durability") {
            Some("contact") => DurabilitySetting::Contact,
            Some("os") => DurabilitySetting::Os,
            Some("memory") => DurabilitySetting::Memory,
            _ => DurabilitySetting::Sync,
        },
        segment_octets,
        prepared_octets: store
            .size("prepare")
            .unwrap_or_else(|| default_prepared_octets(store.size("quota").unwrap_or(0), &path)),
        path,
        memory_octets: memory.cache_octets,
        flush_delay: store.duration("flush_delay"),
    })
}

fn read_admin(document: &Document<'_>) -> Result<Option<AdminSettings>, FileError> {
    let admin = document.one("admin")?;
    match (admin.text("tcp"), admin.text("token")) {
        (None, _) => Ok(None),
        (Some(_), None | Some("")) => Err(document
            .fault(
                admin.line_of("tcp"),
                "administration over TCP needs a 'token'",
            )
            .with_hint("without 'tcp' the admin socket still works, for those who may open it")),
        (Some(tcp), Some(token)) => Ok(Some(AdminSettings {
            tcp: tcp.to_owned(),
            token: token.to_owned(),
        })),
    }
}

fn read_tls(document: &Document<'_>) -> Result<Option<TlsSettings>, FileError> {
    let Some(entries) = document.all("tls").next() else {
        return Ok(None);
    };
    let authorities = entries.list("authorities");
    if authorities.is_empty() {
        return Err(document
            .fault(entries.line_of("authorities"), "'authorities' names nobody")
            .with_hint("a peer's certificate must be signed by one of them"));
    }
    Ok(Some(TlsSettings {
        certificate: document.resolve(entries.text("certificate").unwrap_or_default()),
        key: document.resolve(entries.text("key").unwrap_or_default()),
        authorities: authorities
            .iter()
            .map(|path| document.resolve(path))
            .collect(),
    }))
}

fn read_link(
    document: &Document<'_>,
    entries: &Entries,
    tls: Option<&TlsSettings>,
    memory: &Memory,
) -> Result<(LinkConfig, DialSettings), FileError> {
    let (host, port) = match transport_of(entries) {
        Transport::Bundles => (String::new(), 0),
        Transport::Tcp | Transport::Udp if entries.has("address") => {
            read_address(document, entries, "address")?
        }
        Transport::Tcp | Transport::Udp => {
            return Err(document
                .fault(entries.line(), "[[link]] lacks 'address'")
                .with_hint("for example: address = \"192.0.2.3:4556\""));
        }
    };
    let backoff_min_ms = millis(entries.duration("backoff_min"));
    let backoff_max_ms = millis(entries.duration("backoff_max"));
    if backoff_min_ms == 0 || backoff_max_ms < backoff_min_ms {
        let what = "'backoff_min' must be at least 1ms and at most 'backoff_max'";
        return Err(document.fault_of(entries, "backoff_min", what));
    }
    let mut policy = read_policy(document, entries, tls, memory)?;
    let protocol = read_protocol(document, entries)?;
    if let Protocol::Stcp(stcp) = protocol {
        settle(entries, stcp.framing, &mut policy);
    }
    if !protocol.has_tls() && policy.tls == Tls::Required {
        return Err(document
            .fault(
                entries.line_of("protocol"),
                format!("'protocol' \"{}\" has no TLS", protocol.name()),
            )
            .with_hint("write protocol = \"tcpcl\", or tls = \"never\" beside it"));
    }
    let link = LinkConfig {
        name: entries.text("name").unwrap_or_default().to_owned(),
        policy,
        enabled: enabled(entries.is_true("enabled")),
        sessions: small(entries, "sessions").unwrap_or(1),
        backoff_min_ms,
        backoff_max_ms,
        protocol,
        dial: read_dial(document, entries)?,
    };
    Ok((
        link,
        DialSettings {
            transport: transport_of(entries),
            protocol,
            host,
            port,
            timeout: entries.duration("connect_timeout"),
            retry: entries.duration("backoff_max"),
            sessions: small(entries, "sessions").unwrap_or(1),
            path_check: entries.duration("path_check"),
            stall_timeout: entries.duration("stall_timeout"),
            key: entries.text("key").map(|path| document.resolve(path)),
            segment_key: None,
            beacon: None,
        },
    ))
}

/// When a link is dialled.
fn read_dial(document: &Document<'_>, entries: &Entries) -> Result<DialTime, FileError> {
    if entries.text("dial") != Some("contacts") {
        return Ok(DialTime::Always);
    }
    if !entries.has("peer") {
        let what = "a link with dial = \"contacts\" needs a 'peer': contacts are with a node";
        return Err(document
            .fault(entries.line_of("dial"), what)
            .with_hint("for example: peer = \"ipn:3.0\""));
    }
    Ok(DialTime::Contacts)
}

fn check_names(
    document: &Document<'_>,
    links: &[(LinkConfig, DialSettings)],
) -> Result<(), FileError> {
    let mut names = std::collections::BTreeSet::new();
    for (entries, (link, _)) in document.all("link").zip(links) {
        let line = entries.line_of("name");
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if link.name.is_empty() || link.name.len() > 64 || !link.name.chars().all(plain) {
            return Err(document
                .fault(line, format!("'{}' cannot name a link", link.name))
                .with_hint("a name has 1 to 64 octets: letters, digits, '-', '_' and '.'"));
        }
        if !names.insert(link.name.as_str()) {
            return Err(document
                .fault(line, format!("two links are named '{}'", link.name))
                .with_hint("routes and commands find a link by its name: each needs its own; more sessions with one neighbour are 'sessions' of one link"));
        }
    }
    Ok(())
}

fn read_reports(entries: &Entries) -> Reports {
    let generate = entries
        .list("generate")
        .iter()
        .fold(0, |flags, kind| flags | report_flag(kind));
    Reports {
        generate,
        per_second: small(entries, "per_second").unwrap_or(0),
        collect_ms: millis(entries.duration("collect")),
        collect_most: small(entries, "collect_most").unwrap_or(1),
    }
}

/// The bundle processing control flag of a kind of status report (RFC 9171 4.2.3); 0 for no kind.
#[must_use]
pub fn report_flag(kind: &str) -> u64 {
    match kind {
        "reception" => 0x4000,
        "custody" => 0x8000,
        "forward" => 0x1_0000,
        "delivery" => 0x2_0000,
        "deletion" => 0x4_0000,
        _ => 0,
    }
}

fn read_address(
    document: &Document<'_>,
    entries: &Entries,
    key: &str,
) -> Result<(String, u16), FileError> {
    let text = entries.text(key).unwrap_or_default();
    split_address_or(text, usual_port(entries)).ok_or_else(|| {
        document
            .fault(entries.line_of(key), format!("'{text}' is not an address"))
            .with_hint("addresses look like \"192.0.2.3:4556\", \"[2001:db8::3]:4556\" or \"host.example:4556\"")
    })
}

/// A whole number that the schema has bounded to the type's range.
pub(super) fn small<T: TryFrom<i64>>(entries: &Entries, key: &str) -> Option<T> {
    entries
        .integer(key)
        .and_then(|number| T::try_from(number).ok())
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn enabled(yes: bool) -> Enabled {
    if yes { Enabled::Yes } else { Enabled::No }
}

/// Octets of a segment: 64 MiB, less where the quota would not have sixteen of them.
pub(crate) fn default_segment_octets(quota_octets: u64) -> u32 {
    let share = quota_octets / 16 / 4096 * 4096;
    u32::try_from(share.clamp(64 << 10, 64 << 20)).unwrap_or(u32::MAX)
}

/// Octets of segments written before they are needed. Those that left the page cache again would be worth little, and a
/// store is not to fill a disk with what it may never need.
fn default_prepared_octets(quota_octets: u64, path: &Path) -> u64 {
    const PREPARED_OCTETS: u64 = 256 << 20;
    (quota_octets / 16)
        .min(memory_octets() / 16)
        .min(disk_octets(path) / 16)
        .min(PREPARED_OCTETS)
}
