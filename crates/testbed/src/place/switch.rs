//! The switch that takes an interface up or down at once: a message to the kernel, without a program between.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netdevice::name_to_index;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::namespace;

/// Message types and flags of rtnetlink (rtnetlink(7)).
const RTM_NEWLINK: u16 = 16;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_ECHO: u16 = 8;
const IFF_UP: u32 = 1;

/// The queue of an interface that no other has.
const TC_H_ROOT: u32 = u32::MAX;

/// Attributes of an answer: statistics, and in them those of the queue.
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;

/// Octets of a message: its header (16) and an interface (16), or a queue (20).
const MESSAGE_OCTETS: usize = 32;
const QUEUE_MESSAGE_OCTETS: usize = 36;

/// Octets of an answer before its error number.
const ERROR_OFFSET: usize = 16;

/// Room for an answer, octets.
const ANSWER_OCTETS: usize = 4_096;

/// One interface, which can be taken up and down.
#[derive(Debug)]
pub(crate) struct Switch {
    socket: OwnedFd,
    index: u32,
}

impl Switch {
    /// The switch of an interface in a namespace.
    pub(crate) fn open(namespace: &str, interface: &str) -> io::Result<Self> {
        namespace::within(namespace, || {
            let flags = SocketFlags::CLOEXEC;
            let socket =
                rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
            let asked =
                rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
            let index = name_to_index(&asked, interface)?;
            Ok(Self { socket, index })
        })
    }

    /// Packets that wait in its queue.
    pub(crate) fn waiting(&self) -> io::Result<u64> {
        let mut message = Vec::with_capacity(QUEUE_MESSAGE_OCTETS);
        let length = u32::try_from(QUEUE_MESSAGE_OCTETS).unwrap_or(0);
        message.extend(length.to_ne_bytes());
        message.extend(RTM_GETQDISC.to_ne_bytes());
        message.extend((NLM_F_REQUEST | NLM_F_ACK | NLM_F_ECHO).to_ne_bytes());
        message.extend([0; 8]);
        // Address family: any.
        message.extend([0; 4]);
        message.extend(self.index.to_ne_bytes());
        // Handle: any; parent.
        message.extend([0; 4]);
        message.extend(TC_H_ROOT.to_ne_bytes());
        message.extend([0; 4]);
        rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = [0_u8; ANSWER_OCTETS];
        let mut waiting = None;
        // The queue, if it has one, and then that this was all.
        loop {
            let (octets, _) = rustix::net::recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
            let answer = answer.get(..octets).unwrap_or_default();
            let kind = answer.get(4..6).and_then(|octets| octets.try_into().ok());
            match kind.map(u16::from_ne_bytes) {
                Some(RTM_NEWQDISC) => waiting = waiting_in(answer),
                _ => break,
            }
        }
        waiting.ok_or_else(|| io::Error::other("the kernel does not say what waits"))
    }

    /// Takes it up or down; returns when that has happened.
    pub(crate) fn set(&self, up: bool) -> io::Result<()> {
        let mut message = Vec::with_capacity(MESSAGE_OCTETS);
        message.extend(u32::try_from(MESSAGE_OCTETS).unwrap_or(0).to_ne_bytes());
        message.extend(RTM_NEWLINK.to_ne_bytes());
        message.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        // Sequence number and port: nothing else is asked of this socket.
        message.extend([0; 8]);
        // Address family, type of device: any.
        message.extend([0; 4]);
        message.extend(self.index.to_ne_bytes());
        message.extend(if up { IFF_UP } else { 0 }.to_ne_bytes());
        message.extend(IFF_UP.to_ne_bytes());
        rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = [0_u8; 1024];
        let (octets, _) = rustix::net::recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
        let answer = answer.get(..octets).unwrap_or_default();
        let kind = answer.get(4..6).and_then(|octets| octets.try_into().ok());
        let error = answer
            .get(ERROR_OFFSET..ERROR_OFFSET + 4)
            .and_then(|octets| octets.try_into().ok());
        match (kind.map(u16::from_ne_bytes), error.map(i32::from_ne_bytes)) {
            (Some(NLMSG_ERROR), Some(0)) => Ok(()),
            (Some(NLMSG_ERROR), Some(errno)) => Err(io::Error::from_raw_os_error(-errno)),
            _ => Err(io::Error::other("the kernel's answer is not understood")),
        }
    }
}

/// Packets that wait in a queue, as the kernel's answer has them.
fn waiting_in(answer: &[u8]) -> Option<u64> {
    let statistics = attribute(answer.get(QUEUE_MESSAGE_OCTETS..)?, TCA_STATS2)?;
    let queue = attribute(statistics, TCA_STATS_QUEUE)?;
    // `struct gnet_stats_queue`: packets are first.
    let waiting = u32::from_ne_bytes(queue.get(..4)?.try_into().ok()?);
    Some(waiting.into())
}

/// The value of an attribute (`struct nlattr`) among others.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    // Each takes four octets at least, so the loop ends with them.
    loop {
        let length = u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?);
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let length = usize::from(length);
        if length < 4 {
            return None;
        }
        if kind == wanted {
            return rest.get(4..length);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_any_length_are_read_without_fault() {
        let mut octets = Vec::new();
        for (length, kind, value) in [(6_u16, 1_u16, [9, 9, 0, 0]), (8, 3, [5, 0, 0, 0])] {
            octets.extend(length.to_ne_bytes());
            octets.extend(kind.to_ne_bytes());
            octets.extend(value);
        }
        assert_eq!(attribute(&octets, 3), Some(&[5, 0, 0, 0][..]));
        assert_eq!(attribute(&octets, 2), None);
        for length in 0..octets.len() {
            assert_eq!(attribute(&octets[..length], 3), None, "{length} octets");
        }
    }
}
