//! Changes of the machine's addresses, interfaces and routes, as the kernel tells them.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use dhow_node::driver::Event;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use tokio::io::unix::AsyncFd;

use crate::core::Core;
use crate::streams::carrier::Carriers;

/// Multicast groups of rtnetlink: interfaces, IPv4 addresses and routes, IPv6 addresses and routes.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// Messages read before the node is told: one change makes a handful.
const MESSAGES_PER_TURN: usize = 64;

/// Tell the node when the network changed; runs for as long as the node does. If the kernel does not
/// tell, links are dialled by their back-off alone.
pub async fn watch(core: Core, carriers: Rc<Carriers>) {
    let watched = async {
        #[expect(
            deprecated,
            reason = "an owned descriptor never changes; the successor is unsafe to call"
        )]
        let socket = AsyncFd::new(open()?)?;
        loop {
            let mut ready = socket.readable().await?;
            let drained = drain(socket.get_ref())?;
            if drained == Drained::Empty {
                ready.clear_ready();
            }
            carriers.look();
            core.handle(Event::NetworkChanged);
        }
    };
    let ended: io::Result<std::convert::Infallible> = watched.await;
    let Err(error) = ended;
    tracing::warn!("changes of the network are not seen: {error}");
}

fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
    Ok(socket)
}

/// Whether a socket has been read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drained {
    /// Nothing is left.
    Empty,
    /// There may be more.
    Partly,
}

/// Reads the messages that are there. Their content does not matter: each tells that something changed.
fn drain(socket: &OwnedFd) -> io::Result<Drained> {
    let mut buffer = [0_u8; 4096];
    for _ in 0..MESSAGES_PER_TURN {
        match rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()) {
            // Messages were lost: then something changed too.
            Ok(_) | Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Drained::Empty),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Drained::Partly)
}
