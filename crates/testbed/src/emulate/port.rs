//! An end of a link while it is open: a TUN device in its namespace, gone when it is dropped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::thread;

use bytes::Bytes;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::place::Place;
use crate::namespace;

/// Octets of the largest IP packet.
pub const PACKET_OCTETS_MAX: usize = 65_535;

/// Packets that may wait until the emulator takes them. Those beyond are lost before the link has them, so it is more than a sender of TCP that is
/// told of much at once sends in the time in which others have the processor.
const TAKEN_LATER_PACKETS: u32 = 16_384;

/// Why an end cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The namespace is not there.
    #[error("network namespace '{0}' is not there")]
    NoNamespace(String),
    /// The namespace cannot be entered.
    #[error("network namespace '{0}' cannot be entered: {1}")]
    Namespace(String, io::Error),
    /// The device cannot be made.
    #[error("interface {0} cannot be made: {1}")]
    Device(Place, io::Error),
}

impl PortError {
    /// The advice for a person, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoNamespace(name) => Some(format!("ip netns add {name}")),
            Self::Namespace(_, error) | Self::Device(_, error)
                if error.kind() == io::ErrorKind::PermissionDenied =>
            {
                Some("namespaces and interfaces are for root: sudo dhow channel …".to_owned())
            }
            Self::Device(_, error) if error.kind() == io::ErrorKind::NotFound => {
                Some("the kernel has no TUN devices here: modprobe tun".to_owned())
            }
            Self::Device(..) => Some("the interface's name or address may be in use".to_owned()),
            Self::Namespace(..) => None,
        }
    }
}

/// The result of giving a packet to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The packet has arrived.
    Whole,
    /// The interface is down, or has no room: it is lost.
    Not,
}

/// Gives an interface its queue. The kernel lets the system's root alone set it by the call for that (`SIOCSIFTXQLEN`), and whoever is root of the
/// namespace by netlink.
fn set_queue(device: &SyncDevice, interface: &str) -> io::Result<()> {
    match device.set_tx_queue_len(TAKEN_LATER_PACKETS) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let packets = TAKEN_LATER_PACKETS.to_string();
            let words = ["link", "set", "dev", interface, "txqueuelen", &packets];
            match Command::new("ip").args(words).status()?.success() {
                true => Ok(()),
                false => Err(error),
            }
        }
        done => done,
    }
}

/// An open end.
pub struct Port {
    device: SyncDevice,
}

impl Port {
    /// Makes the interface, gives it its address and takes it up.
    ///
    /// # Errors
    /// When the namespace is not there, or the interface cannot be made in it.
    pub fn open(place: &Place, mtu: u16) -> Result<Self, PortError> {
        // A thread may enter a namespace by itself: one that then ends leaves this process where it was.
        let opened = thread::scope(|scope| scope.spawn(|| Self::open_here(place, mtu)).join());
        match opened {
            Ok(port) => port,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn open_here(place: &Place, mtu: u16) -> Result<Self, PortError> {
        if let Some(name) = &place.namespace {
            enter(name)?;
        }
        let builder = DeviceBuilder::new().name(&place.interface).mtu(mtu);
        let builder = if place.address.is_ipv4() {
            builder.ipv4(place.address, place.prefix, None)
        } else {
            builder.ipv6(place.address, place.prefix)
        };
        let device = builder.build_sync().and_then(|device| {
            set_queue(&device, &place.interface)?;
            device.set_nonblocking(true)?;
            Ok(device)
        });
        match device {
            Ok(device) => Ok(Self { device }),
            Err(error) => Err(PortError::Device(place.clone(), error)),
        }
    }

    /// The next packet that the namespace's kernel sends over the link; `None` when there is none now.
    ///
    /// # Errors
    /// When the device fails; an interface that is down gives nothing and is no failure.
    pub fn receive(&self, buffer: &mut [u8; PACKET_OCTETS_MAX]) -> io::Result<Option<Bytes>> {
        match self.device.recv(buffer) {
            Ok(octets) => Ok(buffer.get(..octets).map(Bytes::copy_from_slice)),
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A packet arrives in the namespace; lost when its interface is down.
    ///
    /// # Errors
    /// When the device fails.
    pub fn send(&self, packet: &[u8]) -> io::Result<Taken> {
        match self.device.send(packet) {
            Ok(_) => Ok(Taken::Whole),
            // EINVAL: what an emulator was given is no IP packet, and the kernel does not take it.
            Err(error) if is_passing(&error) || error.kind() == io::ErrorKind::InvalidInput => {
                Ok(Taken::Not)
            }
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// Nothing to read or no room to write now, an interface that is down (EIO), or a signal.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    ) || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

fn enter(name: &str) -> Result<(), PortError> {
    namespace::enter(name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => PortError::NoNamespace(name.to_owned()),
        _ => PortError::Namespace(name.to_owned(), error),
    })
}
