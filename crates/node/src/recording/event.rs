//! The events of a node, as items.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use dhow_bundle::cbor::{Reader, write_byte_string};

use super::item::{Item, ItemError, choice};
use crate::driver::{Carrier, Event, OperatorCommand, Path, Purpose, StreamId, Ticket};

macro_rules! name {
    ($($type:ident),*) => {
        $(impl Item for $type {
            fn write(&self, out: &mut Vec<u8>) {
                self.0.write(out);
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
                Ok(Self(u64::read(reader)?))
            }
        })*
    };
}

name!(StreamId, Ticket);

/// Octets of the address (4 or 16) and port, and of the scope where there is one, in network order.
impl Item for SocketAddr {
    fn write(&self, out: &mut Vec<u8>) {
        let mut octets = Vec::with_capacity(22);
        match self.ip() {
            IpAddr::V4(address) => octets.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => octets.extend_from_slice(&address.octets()),
        }
        octets.extend_from_slice(&self.port().to_be_bytes());
        if let Self::V6(address) = self {
            octets.extend_from_slice(&address.scope_id().to_be_bytes());
        }
        write_byte_string(out, &octets);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        let octets = reader.byte_string()?;
        if let Some((address, [high, low])) = octets.split_first_chunk::<4>()
            && octets.len() == 6
        {
            return Ok(Self::from((*address, u16::from_be_bytes([*high, *low]))));
        }
        let (address, rest) = octets.split_first_chunk::<16>().ok_or(ItemError::Address)?;
        let (port, scope) = rest.split_first_chunk::<2>().ok_or(ItemError::Address)?;
        let scope = scope.try_into().map_err(|_| ItemError::Address)?;
        let (address, port) = (Ipv6Addr::from(*address), u16::from_be_bytes(*port));
        let scope = u32::from_be_bytes(scope);
        Ok(Self::V6(SocketAddrV6::new(address, port, 0, scope)))
    }
}

choice!(Purpose {
    0 => Dialled { link: link },
    1 => Accepted { listener: listener },
    2 => Client {},
    3 => Heard { listener: listener },
    4 => Program {},
});

choice!(Path { 0 => Open {}, 1 => Lost {}, 2 => Dark {}, 3 => Unknown {} });

choice!(Carrier { 0 => Present {}, 1 => Absent {} });

choice!(OperatorCommand {
    0 => LinkUp { 0: link },
    1 => LinkDown { 0: link },
    2 => RouteAdd { 0: route },
    3 => RouteDelete { to: to, via: via },
    4 => BundleDrop { 0: id },
    5 => LinkAdd { name: name, like: like, peer: peer },
    6 => LinkDelete { 0: link },
    7 => Change { 0: changes },
});

choice!(Event {
    0 => Recovered { bundle: bundle, extents: extents },
    1 => Opened { reserved_time: time, reserved_sequence: sequence, removed: removed },
    2 => Store { 0: event },
    3 => Read { ticket: ticket, octets: octets },
    4 => Connected { stream: stream, purpose: purpose },
    5 => Octets { stream: stream, octets: octets },
    6 => Secured { stream: stream, identities: identities },
    7 => Insecure { stream: stream },
    8 => Disconnected { stream: stream },
    9 => DialFailed { link: link, reason: reason },
    10 => NetworkChanged {},
    11 => PathChecked { stream: stream, path: path },
    12 => Operator { ticket: ticket, command: command },
    13 => Shutdown {},
    14 => TellsPaths {},
    15 => CarrierChanged { link: link, carrier: carrier },
    16 => Datagrams { stream: stream, datagrams: datagrams },
    17 => Left { stream: stream, datagrams: datagrams },
    18 => Narrowed { stream: stream, octets: octets },
    19 => Beacon { place: place, from: from, octets: octets },
});
