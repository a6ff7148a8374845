//! Reset of a link's connections when its contact ends: without it they outlive their interfaces, and go on when those are back.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::namespace;

/// Message types and flags of sock_diag(7).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const IPPROTO_TCP: u8 = 6;

/// States of connections, a bit each: all but those that listen (10), or have only their name left (6, 7).
const STATES: u32 = 0b1011_0011_1110;

/// Octets of a message's header, of what precedes a connection's identity in an answer, and of that identity.
const HEADER_OCTETS: usize = 16;
const IDENTITY_OFFSET: usize = HEADER_OCTETS + 4;
const IDENTITY_OCTETS: usize = 48;

/// Octets of a request: its header, family, protocol and states, and an identity.
const REQUEST_OCTETS: usize = HEADER_OCTETS + 8 + IDENTITY_OCTETS;

/// The offset of this end's address in an identity, after both ports.
const ADDRESS_OFFSET: usize = 4;

/// Octets of an answer, at most: the kernel sends a page or two at once.
const ANSWER_OCTETS: usize = 1 << 15;

/// Answers that are read, at most: of all connections that ports allow, with a hundred in each.
const ANSWERS_MAX: usize = 1_000;

/// Resets all TCP connections from or to an address in a namespace, which are then told to their programs as aborted. A kernel that cannot
/// do so (`CONFIG_INET_DIAG_DESTROY`) leaves them.
///
/// # Errors
/// When the namespace may not be entered, or the kernel refuses.
pub(crate) fn reset(namespace: &str, address: Ipv4Addr) -> io::Result<()> {
    namespace::within(namespace, || {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let plain = Ipv6Addr::from_bits(u128::from(address.to_bits()) << 96);
        // A listener on `::` has its connections of IPv4 under mapped addresses.
        for (family, address) in [
            (AddressFamily::INET, plain),
            (AddressFamily::INET6, address.to_ipv6_mapped()),
        ] {
            for identity in connections(&socket, family, address)? {
                destroy(&socket, family, &identity)?;
            }
        }
        Ok(())
    })
}

/// The kernel's identity of a connection.
type Identity = [u8; IDENTITY_OCTETS];

/// The connections of an address.
fn connections(
    socket: &OwnedFd,
    family: AddressFamily,
    address: Ipv6Addr,
) -> io::Result<Vec<Identity>> {
    let flags = NLM_F_REQUEST | NLM_F_DUMP;
    let any = [0; IDENTITY_OCTETS];
    ask(socket, SOCK_DIAG_BY_FAMILY, flags, family, &any)?;
    let mut found = Vec::new();
    let mut answer = vec![0; ANSWER_OCTETS];
    for _ in 0..ANSWERS_MAX {
        let (octets, _) = rustix::net::recv(socket, &mut answer[..], RecvFlags::empty())?;
        let mut rest = answer.get(..octets).unwrap_or_default();
        while let Some(message) = Message::first(rest) {
            match message.kind {
                NLMSG_DONE => return Ok(found),
                // A kernel without the diagnosis of TCP, or of IPv6.
                NLMSG_ERROR => return Ok(Vec::new()),
                _ => {}
            }
            if let Some(identity) = message.identity()
                && identity.get(ADDRESS_OFFSET..ADDRESS_OFFSET + 16) == Some(&address.octets())
            {
                found.push(identity);
            }
            rest = rest.get(message.octets.len()..).unwrap_or_default();
        }
    }
    Err(io::Error::other("the kernel tells connections without end"))
}

/// Ends a connection, if it is still there.
fn destroy(socket: &OwnedFd, family: AddressFamily, identity: &Identity) -> io::Result<()> {
    ask(
        socket,
        SOCK_DESTROY,
        NLM_F_REQUEST | NLM_F_ACK,
        family,
        identity,
    )?;
    let mut answer = [0_u8; 1024];
    let (octets, _) = rustix::net::recv(socket, &mut answer[..], RecvFlags::empty())?;
    let message = Message::first(answer.get(..octets).unwrap_or_default());
    let gone = [Errno::NOENT, Errno::OPNOTSUPP].map(Errno::raw_os_error);
    match message.and_then(|message| message.error()) {
        Some(0) => Ok(()),
        Some(errno) if gone.contains(&-errno) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
        None => Err(io::Error::other("the kernel's answer is not understood")),
    }
}

/// Sends a request.
fn ask(
    socket: &OwnedFd,
    kind: u16,
    flags: u16,
    family: AddressFamily,
    identity: &Identity,
) -> io::Result<()> {
    let family = u8::try_from(family.as_raw()).unwrap_or(0);
    let mut message = Vec::with_capacity(REQUEST_OCTETS);
    message.extend(u32::try_from(REQUEST_OCTETS).unwrap_or(0).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence number and port: one request after the other is asked of this socket.
    message.extend([0; 8]);
    message.extend([family, IPPROTO_TCP, 0, 0]);
    message.extend(STATES.to_ne_bytes());
    message.extend(identity);
    rustix::net::send(socket, &message, SendFlags::empty())?;
    Ok(())
}

/// One message of an answer.
struct Message<'a> {
    kind: u16,
    octets: &'a [u8],
}

impl<'a> Message<'a> {
    /// The first of several, with what follows it up to the next.
    fn first(octets: &'a [u8]) -> Option<Self> {
        let length = u32::from_ne_bytes(*octets.first_chunk()?);
        let length = usize::try_from(length).ok()?;
        if length < HEADER_OCTETS {
            return None;
        }
        let whole = length.next_multiple_of(4).min(octets.len());
        let kind = octets.get(4..6)?.try_into().ok()?;
        Some(Self {
            kind: u16::from_ne_bytes(kind),
            octets: octets.get(..whole)?,
        })
    }

    fn identity(&self) -> Option<Identity> {
        let end = IDENTITY_OFFSET + IDENTITY_OCTETS;
        self.octets.get(IDENTITY_OFFSET..end)?.try_into().ok()
    }

    /// The number of an error, which is negative, or 0 where there was none.
    fn error(&self) -> Option<i32> {
        let octets = self.octets.get(HEADER_OCTETS..HEADER_OCTETS + 4)?;
        let errno = i32::from_ne_bytes(octets.try_into().ok()?);
        (self.kind == NLMSG_ERROR).then_some(errno)
    }
}
