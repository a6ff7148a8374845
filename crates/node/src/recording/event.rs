//! The events of a node, as items.

use alloc::vec::Vec;

use dhow_bundle::cbor::Reader;

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
});
