//! What takes an interface up or down at once: a message to the kernel, without a program between.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netdevice::name_to_index;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::namespace;

/// Message types and flags of rtnetlink (rtnetlink(7)).
const RTM_NEWLINK: u16 = 16;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const IFF_UP: u32 = 1;

/// Octets of a message: its header (16) and an interface (16).
const MESSAGE_OCTETS: usize = 32;

/// Octets of an answer before its error number.
const ERROR_OFFSET: usize = 16;

/// One interface, which can be taken up and down.
#[derive(Debug)]
pub(crate) struct Switch {
    socket: OwnedFd,
    index: u32,
}

impl Switch {
    /// Of an interface in a namespace.
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
