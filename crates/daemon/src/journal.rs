//! The log of a node's occurrences, with the names and addresses that its numbers stand for.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;

use dhow_bundle::v7::admin::ReasonCode;
use dhow_bundle::{Instant, NodeId};
use dhow_link::stream::{DownReason, RefuseReason};
use dhow_node::config::LinkId;
use dhow_node::driver::{Occurrence, Purpose, StreamId, Telling, Untranslated};
use tracing::field::display;

use crate::http::events::Events;
use crate::lines::{Kind, Lines};
use crate::quota_line::QuotaLine;
use crate::strangers::Strangers;
use crate::unreached::Unreached;

/// Addresses named in one line: a neighbour may have several sessions.
const ADDRESSES_PER_LINE: usize = 3;

/// Logs what happens in a node: what an operator must know at `info` and above, what happens to single
/// bundles at `debug`.
#[derive(Debug)]
pub struct Journal {
    links: Vec<String>,
    streams: BTreeMap<StreamId, Connection>,
    strangers: Strangers,
    unreached: Unreached,
    lines: Lines,
    quota: QuotaLine,
    /// The listeners over HTTP.
    events: Events,
}

/// An open stream, as far as lines of the log need it.
#[derive(Debug)]
struct Connection {
    link: Option<LinkId>,
    address: Option<SocketAddr>,
    /// The node that the session is with, once it is established.
    peer: Option<NodeId>,
    /// Whether the reason of its failure was said already.
    told: bool,
}

/// The occurrences that a node is to tell: those of every bundle only where somebody reads them.
#[must_use]
pub fn telling() -> Telling {
    if tracing::enabled!(tracing::Level::DEBUG) {
        Telling::Everything
    } else {
        Telling::Exceptions
    }
}

impl Journal {
    /// The journal of a node whose links have these names.
    #[must_use]
    pub fn new(links: Vec<String>) -> Self {
        Self {
            links,
            streams: BTreeMap::new(),
            strangers: Strangers::default(),
            unreached: Unreached::default(),
            lines: Lines::default(),
            quota: QuotaLine::default(),
            events: Events::default(),
        }
    }

    /// A journal that tells those who listen over HTTP to these events.
    #[must_use]
    pub fn with_events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// A link has been made, or one of the same number before it is no more.
    pub fn set_link(&mut self, link: LinkId, name: String) {
        self.unreached.forget(link);
        self.name_link(link, name);
    }

    /// A beacon told of a link's neighbour, or of another address of it.
    pub fn set_found_link(&mut self, link: LinkId, name: String) {
        let is_same = self.link_name(link) == name;
        self.unreached.find(link, is_same);
        self.name_link(link, name);
    }

    fn name_link(&mut self, LinkId(link): LinkId, name: String) {
        let Ok(at) = usize::try_from(link) else {
            return;
        };
        if self.links.len() <= at {
            self.links.resize(at + 1, String::new());
        }
        if let Some(place) = self.links.get_mut(at) {
            *place = name;
        }
    }

    /// A link's name, or its number where it has none.
    #[must_use]
    pub fn link_name(&self, link: LinkId) -> String {
        usize::try_from(link.0)
            .ok()
            .and_then(|at| self.links.get(at))
            .cloned()
            .unwrap_or_else(|| link.0.to_string())
    }

    /// A stream is connected.
    pub fn connected(&mut self, stream: StreamId, purpose: &Purpose, address: Option<SocketAddr>) {
        let shown = address.map(display);
        let link = match purpose {
            Purpose::Dialled { link } => {
                let name = self.link_name(*link);
                tracing::debug!(stream = stream.0, link = name, address = shown, "connected");
                Some(*link)
            }
            Purpose::Accepted { .. } => {
                tracing::debug!(stream = stream.0, address = shown, "connection accepted");
                None
            }
            Purpose::Client => {
                tracing::debug!(stream = stream.0, address = shown, "application connected");
                None
            }
            Purpose::Program => {
                tracing::debug!(stream = stream.0, "program connected");
                None
            }
            Purpose::Heard { .. } => {
                tracing::debug!(stream = stream.0, address = shown, "stranger heard");
                None
            }
        };
        let connection = Connection {
            link,
            address,
            peer: None,
            told: false,
        };
        self.streams.insert(stream, connection);
    }

    /// A stream is gone, and all that was to be said of it is said.
    pub fn forget(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }

    /// TLS did not come about on a stream.
    pub fn insecure(&mut self, stream: StreamId, why: &str, now: Instant) {
        self.failed(stream, why, now);
        if let Some(connection) = self.streams.get_mut(&stream) {
            connection.told = true;
        }
    }

    /// The neighbour of a link that was found is not at this place.
    pub fn unreached(&mut self, link: LinkId, to: (&str, u16), why: &str, now: Instant) {
        let (name, (host, port)) = (self.link_name(link), to);
        if self.unreached.may_say(&mut self.lines, link, now) {
            tracing::info!(link = name, "cannot connect to {host}:{port}: {why}");
        } else {
            tracing::debug!(link = name, "cannot connect to {host}:{port}: {why}");
        }
    }

    /// Lines about strangers that were left out are counted in one, once none has come for a while.
    pub fn flush(&mut self, now: Instant) {
        self.strangers.flush(now);
        if self.lines.due().is_some_and(|due| due <= now) {
            self.lines.flush(now);
        }
        self.quota.flush(now);
    }

    /// When `flush` has something to say.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let dues = [self.strangers.due(), self.lines.due(), self.quota.due()];
        dues.into_iter().flatten().min()
    }

    /// Log what happened, unless much of that kind was logged: then it is counted, and told with the others.
    pub fn log(&mut self, occurrence: &Occurrence, now: Instant) {
        (self.events).tell(occurrence, |link| self.link_name(link));
        if let Some((kind, about)) = provoked(occurrence)
            && !self.lines.may_say(kind, about, now)
        {
            if let Occurrence::SessionUp {
                stream, parameters, ..
            } = occurrence
            {
                self.established(*stream, &parameters.peer);
            }
            return;
        }
        match occurrence {
            Occurrence::SessionUp {
                stream,
                link,
                parameters,
            } => {
                let name = link.map(|link| self.link_name(link));
                let address = self.established(*stream, &parameters.peer);
                let direction = if link.is_some() {
                    "dialled"
                } else {
                    "accepted"
                };
                tracing::info!(
                    stream = (!stream.is_tunnel()).then_some(stream.0),
                    link = name,
                    peer = %parameters.peer,
                    address = address.map(display),
                    secured = parameters.secured,
                    "session up, {direction}"
                );
            }
            Occurrence::SessionDown {
                stream,
                link: Some(link),
                reason,
            } if stream.is_tunnel() => {
                tracing::info!(link = self.link_name(*link), "session down: {reason}");
            }
            Occurrence::SessionDown { stream, reason, .. } => {
                self.session_down(*stream, reason, now);
            }
            Occurrence::RefusedIncoming {
                from,
                why,
                is_double: true,
                ..
            } => tracing::debug!(%from, "bundle refused: {why}"),
            Occurrence::RefusedIncoming {
                from, reason, why, ..
            } => {
                let (address, reason) = (self.addresses(from), refusal(*reason));
                tracing::warn!(%from, address, reason, "bundle refused: {why}");
            }
            Occurrence::RefusedOutgoing { id, to, reason } => {
                let (address, reason) = (self.addresses(to), refusal(*reason));
                tracing::warn!(%id, %to, address, reason, "the neighbour refused a bundle");
            }
            Occurrence::NeighbourFound {
                node,
                link,
                address,
            } => {
                let link = self.link_name(*link);
                tracing::info!(%node, link, address, "neighbour found");
            }
            Occurrence::Untranslatable(it) => {
                let Untranslated { id, to, why } = &**it;
                let address = self.addresses(to);
                tracing::warn!(%id, %to, address, "bundle waits for another next hop: {why}");
            }
            Occurrence::RecordUnread { id } => {
                tracing::warn!(%id, "nothing here reads this administrative record: it is a report, or of a tunnel (protocol = \"bibe\") whose peer is not in the node file");
            }
            Occurrence::MessageRejected {
                peer,
                message,
                reason,
            } => {
                let address = peer.as_ref().and_then(|peer| self.addresses(peer));
                let peer = peer.as_ref().map(ToString::to_string);
                tracing::warn!(
                    peer,
                    address,
                    "the neighbour rejected a message: type {message:#04x}, {}",
                    rejection(*reason)
                );
            }
            Occurrence::DatagramsDropped {
                stream,
                rule,
                count,
            } => self.dropped(*stream, rule, *count),
            Occurrence::QuotaChanged {
                medium,
                effective,
                quota,
            } => {
                self.quota.say(*medium, (*effective, *quota), now);
            }
            other => log_rest(other),
        }
    }

    /// Stored octets cannot be read.
    pub fn unread(&mut self, why: &dyn Display, now: Instant) {
        if self.lines.may_say(Kind::Unread, None, now) {
            tracing::error!("stored octets cannot be read: {why}");
        }
    }

    /// A session is up with this peer; its address.
    fn established(&mut self, stream: StreamId, peer: &NodeId) -> Option<SocketAddr> {
        let connection = self.streams.get_mut(&stream)?;
        connection.peer = Some(peer.clone());
        if let Some(link) = connection.link {
            self.unreached.reach(link);
        }
        connection.address
    }

    fn session_down(&mut self, stream: StreamId, reason: &DownReason, now: Instant) {
        let Some(connection) = self.streams.get(&stream) else {
            tracing::info!(stream = stream.0, "session down: {reason}");
            return;
        };
        let Some(peer) = &connection.peer else {
            if !connection.told {
                self.failed(stream, &reason.to_string(), now);
            }
            return;
        };
        if !self.lines.may_say(Kind::SessionDown, Some(peer), now) {
            return;
        }
        let link = connection.link.map(|link| self.link_name(link));
        let address = connection.address.map(display);
        match reason {
            DownReason::Terminated(_) | DownReason::Disconnected => {
                tracing::info!(stream = stream.0, link, %peer, address, "session down: {reason}");
            }
            _ => tracing::warn!(stream = stream.0, link, %peer, address, "session down: {reason}"),
        }
    }

    /// A connection ended before a session was up.
    fn failed(&mut self, stream: StreamId, why: &str, now: Instant) {
        let connection = self.streams.get(&stream);
        let address = connection.and_then(|it| it.address);
        let Some(link) = connection.and_then(|connection| connection.link) else {
            return self.strangers.say((stream.0, address), why, now);
        };
        let may_say = match self.unreached.is_found(link) {
            true => self.unreached.may_say(&mut self.lines, link, now),
            false => self.lines.may_say(Kind::NoSession, None, now),
        };
        if may_say {
            let (link, address) = (self.link_name(link), address.map(display));
            tracing::warn!(stream = stream.0, link, address, "no session: {why}");
        }
    }

    /// Datagrams broke a rule.
    fn dropped(&self, stream: StreamId, rule: &str, count: u64) {
        let connection = self.streams.get(&stream);
        let address = connection.and_then(|it| it.address).map(display);
        let link = connection.and_then(|it| it.link);
        let link = link.map(|link| self.link_name(link));
        tracing::warn!(link, address, count, "datagrams dropped: {rule}");
    }

    /// The addresses of a neighbour's connections.
    fn addresses(&self, peer: &NodeId) -> Option<String> {
        let addresses: Vec<String> = self
            .streams
            .values()
            .filter(|connection| connection.peer.as_ref() == Some(peer))
            .filter_map(|connection| connection.address)
            .map(|address| address.to_string())
            .take(ADDRESSES_PER_LINE)
            .collect();
        (!addresses.is_empty()).then(|| addresses.join(", "))
    }
}

/// The kind of line that others provoke, and the neighbour that it is about; nothing where it is due to the operator.
fn provoked(occurrence: &Occurrence) -> Option<(Kind, Option<&NodeId>)> {
    match occurrence {
        Occurrence::SessionUp { parameters, .. } => Some((Kind::SessionUp, Some(&parameters.peer))),
        Occurrence::RefusedIncoming {
            from,
            is_double: false,
            ..
        } => Some((Kind::Refused, Some(from))),
        Occurrence::RefusedOutgoing { to, .. } => Some((Kind::RefusedByPeer, Some(to))),
        Occurrence::Untranslatable(it) => Some((Kind::Untranslatable, Some(&it.to))),
        Occurrence::RecordUnread { .. } => Some((Kind::RecordUnread, None)),
        Occurrence::MessageRejected { peer, .. } => Some((Kind::Rejected, peer.as_ref())),
        Occurrence::DatagramsDropped { .. } => Some((Kind::Dropped, None)),
        Occurrence::Deleted { reason, .. } => match ReasonCode::from_code(*reason) {
            ReasonCode::LifetimeExpired => Some((Kind::Expired, None)),
            // An operator dropped it.
            ReasonCode::TransmissionCanceled => None,
            _ => Some((Kind::Deleted, None)),
        },
        Occurrence::NeighbourFound { .. } | Occurrence::NeighbourLost { .. } => {
            Some((Kind::Neighbour, None))
        }
        Occurrence::StoreRefused { .. } => Some((Kind::StoreRefused, None)),
        Occurrence::Quarantined { .. } => Some((Kind::Quarantined, None)),
        Occurrence::TransitionRefused { .. } => Some((Kind::TransitionRefused, None)),
        _ => None,
    }
}

/// Logs an occurrence that needs no name or address.
fn log_rest(occurrence: &Occurrence) {
    match occurrence {
        Occurrence::Received { id, from, octets } => {
            tracing::debug!(%id, %from, octets, "bundle received")
        }
        Occurrence::Created { id, octets } => tracing::debug!(%id, octets, "bundle created"),
        Occurrence::Duplicate { id } => tracing::debug!(%id, "bundle came again"),
        Occurrence::Forwarded { id, to, octets } => {
            tracing::debug!(%id, %to, octets, "bundle forwarded")
        }
        Occurrence::Transferred {
            id,
            to,
            octets,
            took_ns,
        } => tracing::debug!(%id, %to, octets, took_ns, "transfer acknowledged"),
        Occurrence::Delivered {
            id,
            endpoint,
            octets,
        } => tracing::debug!(%id, %endpoint, octets, "bundle delivered"),
        Occurrence::Deleted { id, reason } => {
            tracing::info!(%id, "bundle deleted: {}", ReasonCode::from_code(*reason))
        }
        Occurrence::ReportSuppressed => tracing::debug!("status report not made: too many"),
        Occurrence::StoreRefused { refusal } => {
            tracing::warn!(?refusal, "the store refused octets")
        }
        Occurrence::Quarantined { id } => {
            tracing::error!(%id, "bundle is damaged on disk and in quarantine")
        }
        Occurrence::TransitionRefused { id, transition } => {
            tracing::error!(%id, "a bundle's state did not allow an event, which was passed over ({transition}); \
                this is a mistake in dhow: please report it")
        }
        Occurrence::ClockJumped { milliseconds } => {
            tracing::warn!(milliseconds, "the wall clock jumped")
        }
        Occurrence::NeighbourLost { node } => tracing::info!(%node, "neighbour lost"),
        Occurrence::ProgramUp { stream, name } => {
            tracing::info!(stream = stream.0, program = name, "program is there");
        }
        Occurrence::ProgramDown {
            stream,
            name,
            reason,
        } => {
            tracing::warn!(
                stream = stream.0,
                program = name,
                "program is gone: {reason}"
            );
        }
        Occurrence::ClientClosed { stream, reason } => tracing::debug!(
            stream = stream.0,
            "application's connection ended: {reason}"
        ),
        // Telemetry is made of them.
        Occurrence::Step(_) => {}
        other => tracing::debug!("{other:?}"),
    }
}

/// Why a message was rejected, for people (RFC 9174 5.1.2, table 4).
fn rejection(reason: u8) -> String {
    match reason {
        1 => "its type is not known there".to_owned(),
        2 => "it is not supported there".to_owned(),
        3 => "it was not expected there".to_owned(),
        other => format!("reason {other:#04x}"),
    }
}

/// Why a transfer was refused, for people (RFC 9174 5.2.4, table 7).
fn refusal(reason: RefuseReason) -> String {
    match reason {
        RefuseReason::Unknown => "no reason given".to_owned(),
        RefuseReason::Completed => "has the whole bundle already".to_owned(),
        RefuseReason::NoResources => "resources exhausted".to_owned(),
        RefuseReason::Retransmit => "wants it again".to_owned(),
        RefuseReason::NotAcceptable => "not acceptable".to_owned(),
        RefuseReason::ExtensionFailure => "extension item not processed".to_owned(),
        RefuseReason::SessionTerminating => "the session is ending".to_owned(),
        RefuseReason::SourceFull => "its source has used up its share of the store".to_owned(),
        RefuseReason::Other(code) => format!("reason {code:#04x}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use dhow_bundle::storage::StoreRefusal;
    use dhow_link::stream::{SessionParameters, TerminateReason};
    use dhow_node::config::ListenerId;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(octets)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines that are logged at `info` and above, without times and places.
    fn logged(work: impl FnOnce(&mut Journal)) -> Vec<String> {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .finish();
        let mut journal = Journal::new(vec!["gamma".to_owned()]);
        tracing::subscriber::with_default(subscriber, || work(&mut journal));
        let octets = written.0.lock().unwrap().clone();
        String::from_utf8(octets)
            .unwrap()
            .lines()
            .map(|line| line.trim().to_owned())
            .collect()
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::from_nanos(milliseconds * 1_000_000)
    }

    fn up(stream: u64, link: Option<LinkId>) -> Occurrence {
        Occurrence::SessionUp {
            stream: StreamId(stream),
            link,
            parameters: SessionParameters {
                peer: "ipn:3.0".parse().unwrap(),
                secured: false,
                proven: false,
                keepalive_s: 30,
                segment_mru: 1,
                transfer_mru: 1,
                keeps_reactive_fragments: false,
            },
        }
    }

    fn down(stream: u64, reason: DownReason) -> Occurrence {
        Occurrence::SessionDown {
            stream: StreamId(stream),
            link: None,
            reason,
        }
    }

    #[test]
    fn lines_about_sessions_name_link_peer_and_address() {
        let lines = logged(|journal| {
            let link = LinkId(0);
            let address = "192.0.2.3:4556".parse().ok();
            journal.connected(StreamId(5), &Purpose::Dialled { link }, address);
            journal.log(&up(5, Some(link)), at(0));
            let refused = Occurrence::RefusedIncoming {
                from: "ipn:3.0".parse().unwrap(),
                reason: RefuseReason::NotAcceptable,
                why: "its source is not accepted".to_owned(),
                is_double: false,
            };
            journal.log(&refused, at(1));
            let reason = DownReason::Terminated(TerminateReason::Unknown);
            journal.log(&down(5, reason), at(2));
            journal.forget(StreamId(5));
        });
        assert_eq!(
            lines,
            [
                r#"INFO session up, dialled stream=5 link="gamma" peer=ipn:3.0 address=192.0.2.3:4556 secured=false"#,
                r#"WARN bundle refused: its source is not accepted from=ipn:3.0 address="192.0.2.3:4556" reason="not acceptable""#,
                r#"INFO session down: ended in order stream=5 link="gamma" peer=ipn:3.0 address=192.0.2.3:4556"#,
            ]
        );
    }

    #[test]
    fn reasons_are_words() {
        let lines = logged(|journal| {
            let id = dhow_bundle::BundleId {
                source: "ipn:1.5".parse().unwrap(),
                creation: dhow_bundle::CreationTimestamp {
                    time: dhow_bundle::DtnTime::from_millis(1),
                    sequence: 2,
                },
                fragment: None,
            };
            journal.log(&Occurrence::Deleted { id, reason: 1 }, at(0));
        });
        assert_eq!(
            lines,
            ["INFO bundle deleted: lifetime expired id=ipn:1.5/1/2"]
        );
    }

    fn deleted(sequence: u64, reason: u64) -> Occurrence {
        let creation = dhow_bundle::CreationTimestamp {
            time: dhow_bundle::DtnTime::from_millis(1),
            sequence,
        };
        let id = dhow_bundle::BundleId {
            source: "ipn:1.5".parse().unwrap(),
            creation,
            fragment: None,
        };
        Occurrence::Deleted { id, reason }
    }

    #[test]
    fn what_others_provoke_is_summed_up_and_what_an_operator_did_is_told() {
        let lines = logged(|journal| {
            for sequence in 0..200_000 {
                journal.log(&deleted(sequence, 1), at(sequence / 1_000));
            }
            for sequence in 0..300 {
                journal.log(&deleted(sequence, 3), at(300));
            }
            assert_eq!(journal.due(), Some(at(10_000)));
            journal.flush(at(10_000));
            assert_eq!(journal.due(), None);
            journal.log(&deleted(0, 1), at(10_000));
        });
        let told = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
        assert_eq!(told("INFO bundle deleted: lifetime expired"), 21);
        assert_eq!(told("INFO bundle deleted: transmission canceled"), 300);
        assert_eq!(told("INFO more bundles expired more=199980"), 1);
        assert_eq!(lines.len(), 322);
    }

    #[test]
    fn a_store_that_refuses_every_bundle_and_a_disk_that_reads_nothing_fill_no_log() {
        let lines = logged(|journal| {
            for number in 0..10_000 {
                let refusal = StoreRefusal::Full;
                journal.log(&Occurrence::StoreRefused { refusal }, at(number / 10));
                journal.unread(&"no medium", at(number / 10));
            }
            journal.flush(at(10_000));
        });
        assert_eq!(lines.len(), 42);
        let told = |what: &str| lines.iter().filter(|line| **line == what).count();
        assert_eq!(told("WARN the store refused octets refusal=Full"), 20);
        assert_eq!(told("ERROR stored octets cannot be read: no medium"), 20);
        let summaries = [
            "WARN more refusals of the store more=9980",
            "WARN more reads of stored octets failed more=9980",
        ];
        assert_eq!(lines[40..], summaries);
    }

    #[test]
    fn a_neighbour_whose_sessions_come_and_go_fills_no_log() {
        let lines = logged(|journal| {
            for stream in 0..5_000 {
                let listener = ListenerId(0);
                let purpose = Purpose::Accepted { listener };
                let address = "192.0.2.9:1000".parse().ok();
                journal.connected(StreamId(stream), &purpose, address);
                journal.log(&up(stream, None), at(stream));
                let refused = Occurrence::RefusedIncoming {
                    from: "ipn:3.0".parse().unwrap(),
                    reason: RefuseReason::NotAcceptable,
                    why: "its source is not accepted".to_owned(),
                    is_double: false,
                };
                journal.log(&refused, at(stream));
                journal.log(&down(stream, DownReason::Disconnected), at(stream));
                journal.forget(StreamId(stream));
            }
            journal.flush(at(15_000));
        });
        assert_eq!(lines.len(), 3 * 20 + 3);
        let summaries = &lines[60..];
        assert_eq!(
            summaries,
            [
                r#"INFO more sessions came up more=4980 peer="ipn:3.0""#,
                r#"INFO more sessions went down more=4980 peer="ipn:3.0""#,
                r#"WARN more bundles were refused more=4980 peer="ipn:3.0""#,
            ]
        );
    }

    #[test]
    fn connections_of_strangers_fill_no_log() {
        let fault = || DownReason::PeerFault("contact header, RFC 9174 4.2".to_owned());
        let lines = logged(|journal| {
            for stream in 0..500 {
                let listener = ListenerId(0);
                let purpose = Purpose::Accepted { listener };
                let address = "192.0.2.9:1000".parse().ok();
                journal.connected(StreamId(stream), &purpose, address);
                if stream % 2 == 0 {
                    journal.insecure(StreamId(stream), "TLS handshake failed", at(stream));
                }
                journal.log(&down(stream, fault()), at(stream));
                journal.forget(StreamId(stream));
            }
            assert_eq!(journal.due(), Some(at(1_000)));
            journal.flush(at(1_000));
            assert_eq!(journal.due(), None);
        });
        assert_eq!(
            lines,
            [
                "WARN no session: TLS handshake failed stream=0 address=192.0.2.9:1000",
                "WARN no session: the peer broke the protocol: contact header, RFC 9174 4.2 stream=1 address=192.0.2.9:1000",
                r#"WARN more connections ended before a session was up more=498 last="the peer broke the protocol: contact header, RFC 9174 4.2" address=192.0.2.9:1000"#,
            ]
        );
    }

    #[test]
    fn found_neighbours_that_are_not_reached_make_few_lines() {
        let lines = logged(|journal| {
            for link in 1..=300 {
                journal.set_found_link(LinkId(link), format!("found-ipn-{link}"));
            }
            // Each is dialled at one address after the other, and again and again, for ten minutes.
            for second in 0..600 {
                for link in 1..=300 {
                    journal.set_found_link(LinkId(link), format!("found-ipn-{link}"));
                    let why = match second % 2 {
                        0 => "no answer in time",
                        _ => "no route",
                    };
                    let to = ("192.0.2.1", u16::try_from(second).unwrap());
                    journal.unreached(LinkId(link), to, why, at(second * 1_000));
                }
                journal.flush(at(second * 1_000));
            }
        });
        let first = r#"INFO cannot connect to 192.0.2.1:0: no answer in time link="found-ipn-1""#;
        assert_eq!(lines[0], first);
        let told = (lines.iter()).filter(|it| it.contains("cannot connect"));
        assert_eq!(told.count(), 20);
        let summary = "INFO more attempts to connect to found neighbours failed more=18000";
        assert_eq!(lines.iter().filter(|it| *it == summary).count(), 8);
        assert_eq!(lines.len(), 29, "{lines:?}");
    }

    #[test]
    fn a_found_neighbour_that_was_there_is_told_of_again() {
        let lines = logged(|journal| {
            let (link, to) = (LinkId(7), ("192.0.2.1", 4556));
            journal.set_found_link(link, "found-ipn-3".to_owned());
            journal.unreached(link, to, "no route", at(0));
            journal.unreached(link, to, "no route", at(1_000));
            journal.connected(StreamId(1), &Purpose::Dialled { link }, None);
            journal.log(&up(1, Some(link)), at(2_000));
            journal.forget(StreamId(1));
            journal.unreached(link, to, "no route", at(3_000));
            // The same number may be that of another neighbour later, or of an operator's link.
            journal.set_found_link(link, "found-ipn-4".to_owned());
            journal.unreached(link, to, "no route", at(4_000));
        });
        let told = (lines.iter()).filter(|it| it.contains("cannot connect"));
        assert_eq!(told.count(), 3, "{lines:?}");
    }

    #[test]
    fn copies_that_are_refused_for_others_are_no_warnings() {
        let lines = logged(|journal| {
            let refused = Occurrence::RefusedIncoming {
                from: "ipn:3.0".parse().unwrap(),
                reason: RefuseReason::Retransmit,
                why: "another copy of the bundle is coming".to_owned(),
                is_double: true,
            };
            for at_ms in 0..100 {
                journal.log(&refused, at(at_ms));
            }
            journal.flush(at(100_000));
        });
        assert!(lines.is_empty(), "{lines:?}");
    }
}
