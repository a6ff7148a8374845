//! The peers of links over LTP. A datagram is from the host of its peer, but perhaps not from the port at which the peer takes segments: some send from a
//! socket of its own. So it is the engines that its first segment names, and the session, that tell whose it is.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use dhow_link::ltp::{Addressee, Authentication, Known};
use dhow_node::driver::StreamId;

use super::calls::Addresses;

/// An engine at the other end of a link.
#[derive(Clone, Debug)]
struct Engine {
    stream: StreamId,
    address: SocketAddr,
    /// The address of this machine that it sent to last, where the socket has several.
    own: Option<IpAddr>,
    /// The IDs of the engine here and of the one there.
    ids: (u64, u64),
    /// The authentication of its segments, if they have one.
    authentication: Option<Authentication>,
}

/// The engines of all links, by their hosts: an engine that claims to be one of another host is none.
#[derive(Debug, Default)]
pub struct Engines {
    by_host: BTreeMap<IpAddr, Vec<Engine>>,
}

impl Engines {
    /// A link has a conversation with an engine; false where another link has it already.
    pub fn join(
        &mut self,
        address: SocketAddr,
        ids: (u64, u64),
        stream: StreamId,
        authentication: Option<Authentication>,
    ) -> bool {
        let engines = self.by_host.entry(address.ip()).or_default();
        if engines.iter().any(|it| it.ids == ids) {
            return false;
        }
        engines.push(Engine {
            stream,
            address,
            own: None,
            ids,
            authentication,
        });
        true
    }

    /// The conversation that has these engines with a host.
    pub fn holder(&self, address: SocketAddr, ids: (u64, u64)) -> Option<StreamId> {
        let mut engines = self.by_host.get(&address.ip())?.iter();
        engines.find(|it| it.ids == ids).map(|it| it.stream)
    }

    /// A link's conversation is over.
    pub fn part(&mut self, address: SocketAddr, stream: StreamId) {
        if let Some(engines) = self.by_host.get_mut(&address.ip()) {
            engines.retain(|it| it.stream != stream);
            if engines.is_empty() {
                self.by_host.remove(&address.ip());
            }
        }
    }

    /// Datagrams of a conversation came between these addresses.
    pub fn hear(&mut self, between: Addresses, stream: StreamId) {
        if between.own.is_none() {
            return;
        }
        let engines = self.by_host.get_mut(&between.peer.ip());
        let engine = engines.and_then(|it| it.iter_mut().find(|it| it.stream == stream));
        if let Some(engine) = engine {
            engine.own = between.own;
        }
    }

    /// The addresses between which the datagrams of a conversation leave: the peer hears the one that it sends to.
    #[must_use]
    pub fn addresses(&self, peer: SocketAddr, stream: StreamId) -> Addresses {
        let engines = self.by_host.get(&peer.ip());
        let engine = engines.and_then(|it| it.iter().find(|it| it.stream == stream));
        let own = engine.and_then(|it| it.own);
        Addresses { own, peer }
    }

    /// The conversation to which a datagram belongs. Segments of a session that was begun here name the engine here, and it may have several peers
    /// at a host: `knows` says which of them knows the session. A datagram that is not authentic, where it is to be, belongs to none.
    pub fn find(
        &self,
        from: SocketAddr,
        datagram: &Bytes,
        knows: impl Fn(StreamId, u64) -> Known,
    ) -> Option<StreamId> {
        let engines = self.by_host.get(&from.ip())?.iter();
        let found = match Addressee::of(datagram)? {
            Addressee::ReceiverFrom(remote) => engines
                .filter(|it| it.ids.1 == remote)
                .max_by_key(|it| it.address == from),
            Addressee::Sender { engine, session } => engines
                .filter(|it| it.ids.0 == engine)
                .max_by_key(|it| (knows(it.stream, session), it.address == from)),
        };
        let is_authentic = |it: &&Engine| {
            let authentication = it.authentication.as_ref();
            authentication.is_none_or(|it| it.accepts_all(datagram))
        };
        found.filter(is_authentic).map(|it| it.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPHEMERAL: u16 = 50_000;

    fn at(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], port))
    }

    fn never(_: StreamId, _: u64) -> Known {
        Known::Never
    }

    #[test]
    fn a_block_is_of_the_engine_that_it_names_whatever_port_it_comes_from() {
        let mut engines = Engines::default();
        assert!(engines.join(at(1, 1113), (9, 1), StreamId(1), None));
        assert!(engines.join(at(1, 1114), (9, 2), StreamId(2), None));
        let find =
            |from, engine| engines.find(from, &Bytes::copy_from_slice(&[0, engine, 5]), never);
        assert_eq!(find(at(1, EPHEMERAL), 1), Some(StreamId(1)));
        assert_eq!(find(at(1, EPHEMERAL), 2), Some(StreamId(2)));
        assert_eq!(find(at(1, EPHEMERAL), 3), None, "no link's");
        assert_eq!(find(at(2, 1113), 1), None, "an impostor");
        assert_eq!(
            engines.find(at(1, 1113), &Bytes::copy_from_slice(&[0]), never),
            None
        );
        assert_eq!(
            engines.find(at(1, 1113), &Bytes::copy_from_slice(&[]), never),
            None
        );
    }

    #[test]
    fn a_report_is_of_the_engine_to_which_its_session_leads() {
        let mut engines = Engines::default();
        engines.join(at(1, 1113), (9, 1), StreamId(1), None);
        engines.join(at(1, 1114), (9, 2), StreamId(2), None);
        let find = |from, session| {
            engines.find(
                from,
                &Bytes::copy_from_slice(&[8, 9, session]),
                |stream, number| match stream.0 + 10 == number {
                    true => Known::Open,
                    false => Known::Never,
                },
            )
        };
        assert_eq!(find(at(1, EPHEMERAL), 11), Some(StreamId(1)));
        assert_eq!(find(at(1, EPHEMERAL), 12), Some(StreamId(2)));
        assert_eq!(find(at(1, 1113), 99), Some(StreamId(1)), "by its port");
        assert_eq!(
            engines.find(at(1, 1113), &Bytes::copy_from_slice(&[8, 7, 11]), never),
            None
        );
    }

    #[test]
    fn a_conversation_answers_from_the_address_that_its_peer_sent_to_last() {
        let mut engines = Engines::default();
        engines.join(at(1, 1113), (9, 1), StreamId(1), None);
        engines.join(at(1, 1114), (9, 2), StreamId(2), None);
        let own = Some([127, 0, 0, 22].into());
        let own_of = |engines: &Engines, stream| engines.addresses(at(1, 1113), stream).own;
        assert_eq!(own_of(&engines, StreamId(1)), None);
        let peer = at(1, EPHEMERAL);
        engines.hear(Addresses { own, peer }, StreamId(1));
        engines.hear(Addresses::from(peer), StreamId(1));
        assert_eq!(own_of(&engines, StreamId(1)), own);
        assert_eq!(own_of(&engines, StreamId(2)), None, "another engine's");
    }

    #[test]
    fn two_links_cannot_lead_to_one_engine_and_the_end_of_one_makes_room() {
        let mut engines = Engines::default();
        assert!(engines.join(at(1, 1113), (9, 1), StreamId(1), None));
        assert!(!engines.join(at(1, 1113), (9, 1), StreamId(2), None));
        engines.part(at(1, 1113), StreamId(2));
        assert!(!engines.join(at(1, 1113), (9, 1), StreamId(2), None));
        engines.part(at(1, 1113), StreamId(1));
        assert!(engines.by_host.is_empty());
        assert!(engines.join(at(1, 1113), (9, 1), StreamId(2), None));
    }
}
