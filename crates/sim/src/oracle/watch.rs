//! The oracle at one end of a link with datagrams, by the link's protocol.

use dhow_bundle::Instant;
use dhow_channel::Delay;
use dhow_scenario::scenario::Protocol;

use super::{Observer, Seen, Witness};

/// One end of a link with datagrams.
#[derive(Debug)]
pub enum Watch {
    /// Over UDP.
    Udp(Box<Witness>),
    /// Over LTP.
    Ltp(Box<Observer>),
}

impl Watch {
    /// Of a conversation that begins, between nodes of these numbers, over a link of this delay; `None` where the protocol has no datagrams.
    #[must_use]
    pub fn of(protocol: Protocol, numbers: (u64, u64), delay: Delay, now: Instant) -> Option<Self> {
        match protocol {
            Protocol::Udp(udp) => Some(Self::Udp(Box::new(Witness::new(udp, now)))),
            Protocol::Ltp(ltp) => {
                let observer = Observer::new(ltp, numbers, delay, now);
                Some(Self::Ltp(Box::new(observer)))
            }
            _ => None,
        }
    }

    /// The node gives a datagram of so many octets to be sent.
    ///
    /// # Errors
    /// It is too large, or comes too soon.
    pub fn handle_given(&mut self, octets: u64, now: Instant) -> Result<(), String> {
        match self {
            Self::Udp(witness) => witness.handle_given(octets, now),
            Self::Ltp(observer) => observer.handle_given(octets, now),
        }
    }

    /// A datagram has left the socket.
    ///
    /// # Errors
    /// It breaks a rule.
    pub fn handle_said(&mut self, datagram: &[u8], now: Instant) -> Result<Vec<Seen>, String> {
        match self {
            Self::Udp(witness) => witness.handle_said(datagram, now),
            Self::Ltp(observer) => observer.handle_said(datagram, now),
        }
    }

    /// A datagram that came is given to the node.
    pub fn handle_heard(&mut self, datagram: &[u8], now: Instant) -> Vec<Seen> {
        match self {
            Self::Udp(witness) => witness.handle_heard(datagram, now),
            Self::Ltp(observer) => observer.handle_heard(datagram, now),
        }
    }

    /// Whether something came that may still be completed.
    #[must_use]
    pub fn is_receiving(&self, now: Instant) -> bool {
        match self {
            Self::Udp(witness) => witness.is_receiving(now),
            Self::Ltp(observer) => observer.is_receiving(),
        }
    }

    /// The node knows whether something can leave, at both ends.
    pub fn handle_path(&mut self, is_open: bool, now: Instant) {
        match self {
            Self::Ltp(observer) if is_open => observer.handle_open(now),
            Self::Ltp(observer) => observer.handle_closed(now),
            Self::Udp(_) => {}
        }
    }
}
