//! The convergence layer that speaks with a neighbour: a session over an octet stream, a connection in one direction, a link over
//! datagrams, bundles in others, or a program.

use alloc::boxed::Box;

use bytes::Bytes;
use dhow_bundle::{Instant, Now};
use dhow_link::datagram::Limit;
use dhow_link::external;
use dhow_link::ltp::Known;
use dhow_link::stcp;
use dhow_link::stream::{LinkCommand, LinkEvent, TransferId};
use dhow_link::tcpcl::{Session, Version};
use dhow_link::{Batch, Gather, StreamSession};

use crate::adjacencies::datagrams::Datagrams;
use crate::adjacencies::early::Run;
use crate::adjacencies::tunnel::Tunnel;
use crate::config::{OnSent, Protocol};
use crate::view::DatagramCounts;

/// The machine of a convergence layer.
pub(crate) enum Layer {
    Stream(Box<Session>),
    OneWay(Box<OneWay>),
    Datagrams(Box<Datagrams>),
    Bundles(Box<Tunnel>),
    /// A program leads there.
    Program(Box<external::Session>),
}

/// A connection that carries bundles in one direction.
pub(crate) struct OneWay {
    pub(crate) session: stcp::Session,
    pub(crate) on_sent: OnSent,
}

/// A message of a layer to the node.
pub(crate) enum Told {
    /// An event as the layer has it.
    Link(LinkEvent),
    /// The next octets of a transfer that comes in are in the store.
    Placed { transfer: TransferId, run: Run },
}

impl From<LinkEvent> for Told {
    fn from(event: LinkEvent) -> Self {
        Self::Link(event)
    }
}

impl Layer {
    /// The session, where there is one.
    pub(crate) const fn session(&self) -> Option<&Session> {
        match self {
            Self::Stream(session) => Some(session),
            Self::OneWay(_) | Self::Datagrams(_) | Self::Bundles(_) | Self::Program(_) => None,
        }
    }

    /// The link over datagrams, where it is one.
    pub(crate) const fn datagrams(&mut self) -> Option<&mut Datagrams> {
        match self {
            Self::Stream(_) | Self::OneWay(_) | Self::Bundles(_) | Self::Program(_) => None,
            Self::Datagrams(link) => Some(link),
        }
    }

    /// The tunnel, where it is one.
    pub(crate) const fn tunnel(&mut self) -> Option<&mut Tunnel> {
        match self {
            Self::Bundles(tunnel) => Some(tunnel),
            Self::Stream(_) | Self::OneWay(_) | Self::Datagrams(_) | Self::Program(_) => None,
        }
    }

    pub(crate) const fn is_tunnel(&self) -> bool {
        matches!(self, Self::Bundles(_))
    }

    pub(crate) const fn is_datagrams(&self) -> bool {
        matches!(self, Self::Datagrams(_))
    }

    /// The protocol with default settings; of a connection that was accepted version 4 of TCPCL until the peer has said another.
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Stream(session) => match session.version() {
                Version::V3 => Protocol::Tcpcl3,
                Version::V4 => Protocol::Tcpcl4,
            },
            Self::OneWay(it) => Protocol::framed(it.session.framing()),
            Self::Datagrams(link) => link.protocol(),
            Self::Bundles(tunnel) => Protocol::Bibe(*tunnel.policy()),
            Self::Program(_) => Protocol::Program,
        }
    }

    /// False where the last word on a transfer is that it has left, and where a bundle that is refused is sent no more.
    pub(crate) fn acknowledges(&self) -> bool {
        match self {
            Self::Stream(_) | Self::Program(_) => true,
            Self::Datagrams(link) => link.acknowledges(),
            Self::OneWay(_) | Self::Bundles(_) => false,
        }
    }

    /// True where transfers outlast the times in which nothing can pass.
    pub(crate) fn keeps_transfers(&self) -> bool {
        matches!(self, Self::Datagrams(link) if link.keeps_transfers())
    }

    /// The knowledge of an LTP engine of a session number.
    pub(crate) fn knows_session(&self, number: u64) -> Known {
        match self {
            Self::Datagrams(link) => link.knows_session(number),
            _ => Known::Never,
        }
    }

    /// True where the layer's own rate says how much is under way, and no acknowledgment, which may take an hour to come.
    pub(crate) fn is_paced(&self) -> bool {
        self.keeps_transfers()
    }

    /// True where a transfer that waits for its octets keeps no other from leaving.
    pub(crate) fn interleaves(&self) -> bool {
        self.keeps_transfers()
    }

    /// True where the octets of a stream are known to be written when more are asked for, and not before: a driver is not to ask ahead.
    pub(crate) const fn counts_written(&self) -> bool {
        matches!(self, Self::OneWay(_))
    }

    /// True within a bundle of a peer that is never known, so that its connection is no session.
    pub(crate) const fn is_arriving(&self) -> bool {
        match self {
            Self::OneWay(it) => it.session.is_arriving(),
            Self::Stream(_) | Self::Datagrams(_) | Self::Bundles(_) | Self::Program(_) => false,
        }
    }

    /// True where bundles stay when they have left, since nobody acknowledges them.
    pub(crate) fn keeps_sent(&self) -> bool {
        match self {
            Self::Stream(_) | Self::Bundles(_) | Self::Program(_) => false,
            Self::OneWay(it) => it.on_sent == OnSent::Keep,
            Self::Datagrams(link) => link.on_sent() == OnSent::Keep,
        }
    }

    /// Octets that came on a stream.
    pub(crate) fn handle_octets(&mut self, now: Now, octets: Bytes) {
        match self {
            Self::Stream(session) => session.handle_octets(now, octets),
            Self::OneWay(it) => it.session.handle_octets(now, octets),
            Self::Program(session) => session.handle_octets(now, octets),
            Self::Datagrams(_) | Self::Bundles(_) => {}
        }
    }

    pub(crate) fn handle_command(&mut self, now: Now, command: LinkCommand) {
        match self {
            Self::Stream(session) => session.handle_command(now, command),
            Self::OneWay(it) => it.session.handle_command(now, command),
            Self::Program(session) => session.handle_command(now, command),
            Self::Datagrams(link) => link.handle_command(now, command),
            Self::Bundles(tunnel) => tunnel.handle_command(command),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Now) {
        match self {
            Self::Stream(session) => session.handle_timeout(now),
            Self::OneWay(it) => it.session.handle_timeout(now),
            Self::Program(session) => session.handle_timeout(now),
            Self::Datagrams(link) => link.handle_timeout(now),
            Self::Bundles(_) => {}
        }
    }

    /// Octets for a stream.
    pub(crate) fn poll_octets(&mut self, now: Now, limit: usize, out: &mut Gather) {
        match self {
            Self::Stream(session) => session.poll_octets(now, limit, out),
            Self::OneWay(it) => it.session.poll_octets(now, limit, out),
            Self::Program(session) => session.poll_octets(now, limit, out),
            Self::Datagrams(_) | Self::Bundles(_) => {}
        }
    }

    /// Datagrams to send; none of a stream.
    pub(crate) fn poll_datagrams(&mut self, now: Now, limit: Limit, out: &mut Batch) {
        if let Self::Datagrams(link) = self {
            link.poll_datagrams(now, limit, out);
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Told> {
        let event = match self {
            Self::Datagrams(link) => return link.poll_event(),
            Self::Stream(session) => session.poll_event(),
            Self::OneWay(it) => it.session.poll_event(),
            Self::Program(session) => session.poll_event(),
            Self::Bundles(tunnel) => tunnel.poll_event(),
        };
        event.map(Told::Link)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Stream(session) => session.poll_timeout(),
            Self::OneWay(it) => it.session.poll_timeout(),
            Self::Program(session) => session.poll_timeout(),
            Self::Datagrams(link) => link.link().poll_timeout(),
            Self::Bundles(_) => None,
        }
    }

    /// False while what comes is to wait.
    pub(crate) fn wants_octets(&self) -> bool {
        match self {
            Self::Stream(session) => session.wants_octets(),
            Self::OneWay(it) => it.session.wants_octets(),
            Self::Program(session) => session.wants_octets(),
            Self::Datagrams(link) => link.link().wants_datagrams(),
            Self::Bundles(_) => true,
        }
    }

    /// False while there is nothing to give.
    pub(crate) fn may_have_octets(&self) -> bool {
        match self {
            Self::Stream(session) => session.may_have_octets(),
            Self::OneWay(it) => it.session.may_have_octets(),
            Self::Program(session) => session.may_have_octets(),
            Self::Datagrams(_) => true,
            Self::Bundles(_) => false,
        }
    }

    /// Octets of the transfer that has begun to leave over a stream which have not been given out.
    pub(crate) fn leaving_octets(&self) -> u64 {
        match self {
            Self::Stream(session) => session.leaving_octets(),
            Self::OneWay(it) => it.session.leaving_octets(),
            Self::Datagrams(_) | Self::Bundles(_) | Self::Program(_) => 0,
        }
    }

    /// Octets of transfers of which nothing has been given out yet.
    pub(crate) fn queued_octets(&self) -> u64 {
        match self {
            Self::Stream(session) => session.queued_octets(),
            Self::OneWay(it) => it.session.queued_octets(),
            Self::Program(session) => session.queued_octets(),
            Self::Datagrams(link) => link.link().queued_octets(),
            Self::Bundles(_) => 0,
        }
    }

    /// True where nothing of a transfer that is not verified leaves before all of it is there.
    pub(crate) fn holds_unverified(&self) -> bool {
        match self {
            Self::Stream(session) => session.holds_unverified(),
            // A block ends with its last segment, and what came of it before is nobody's.
            Self::Datagrams(link) => !(link.keeps_transfers() && link.acknowledges()),
            Self::OneWay(_) | Self::Bundles(_) | Self::Program(_) => true,
        }
    }

    /// The counts of a link over datagrams, where it is one.
    pub(crate) fn datagram_counts(&self) -> Option<DatagramCounts> {
        match self {
            Self::Stream(_) | Self::OneWay(_) | Self::Bundles(_) | Self::Program(_) => None,
            Self::Datagrams(link) => Some(link.counts()),
        }
    }

    /// Octets that came before others and wait for them.
    pub(crate) fn early_octets(&self) -> u64 {
        match self {
            Self::Stream(_) | Self::OneWay(_) | Self::Bundles(_) | Self::Program(_) => 0,
            Self::Datagrams(link) => link.early_octets(),
        }
    }
}
