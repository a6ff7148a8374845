//! An application that receives: takes bundles, compares them with those sent, confirms them.

use std::io::Read as _;
use std::time::Duration;

use dhow_bundle::BundleFlags;
use dhow_client::{Address, Client, Delivery, Receiver, Registration};

use super::RECEIVER_SERVICE;
use super::ledger::Ledger;
use super::payload::{HEAD_OCTETS, Name, Pool};
use crate::failure::LabError;
use crate::run::Clock;

/// The longest time between two looks at whether the application is to end.
const LOOK: Duration = Duration::from_millis(50);

/// The time before it connects again.
const AGAIN: Duration = Duration::from_millis(50);

/// Deliveries that it has unconfirmed at a time.
const WINDOW: u32 = 64;

/// Octets that are read at a time.
const CHUNK_OCTETS: usize = 1 << 16;

/// Receives all that comes for a node of a number, until the run is over.
///
/// # Errors
/// When the node refuses the application, or says what it should not.
pub fn receive(
    api: &Address,
    number: u32,
    clock: &Clock,
    pool: &Pool,
    ledger: &Ledger,
) -> Result<(), LabError> {
    let text = format!("ipn:{number}.{RECEIVER_SERVICE}");
    let endpoint = text.parse();
    let endpoint =
        endpoint.map_err(|error| LabError::new(format!("'{text}' is not an endpoint: {error}")))?;
    let registration = Registration::new(endpoint)
        .with_secret("lab")
        .with_window(WINDOW);
    let mut buffer = vec![0; CHUNK_OCTETS];
    let mut connection: Option<Receiver> = None;
    while !clock.is_over() {
        let stepped = match &mut connection {
            None => Client::connect(api)
                .and_then(|client| client.receiver(&registration))
                .map(|receiver| connection = Some(receiver)),
            Some(receiver) => {
                receiver
                    .next_delivery(Some(LOOK))
                    .and_then(|delivery| match delivery {
                        Some(delivery) => take(delivery, &mut buffer, clock, pool, ledger),
                        None => Ok(()),
                    })
            }
        };
        match stepped {
            Ok(()) => {}
            Err(error) if error.is_lost() => {
                connection = None;
                clock.sleep(AGAIN);
            }
            Err(error) => {
                return Err(LabError::new(format!("cannot receive at {text}: {error}")));
            }
        }
    }
    Ok(())
}

/// Takes one delivery. A node that goes away within it delivers it again.
fn take(
    mut delivery: Delivery<'_>,
    buffer: &mut [u8],
    clock: &Clock,
    pool: &Pool,
    ledger: &Ledger,
) -> Result<(), dhow_client::Error> {
    let lost = |error| dhow_client::Error::Disconnected(Some(error));
    if delivery.head().flags & BundleFlags::ADMINISTRATIVE_RECORD.bits() != 0 {
        ledger.report();
        return delivery.confirm();
    }
    let mut head = [0; HEAD_OCTETS];
    let name = match delivery.unread() >= u64::try_from(HEAD_OCTETS).unwrap_or(0) {
        true => {
            delivery.read_exact(&mut head).map_err(lost)?;
            Name::of(&head)
        }
        false => None,
    };
    let octets = name.and_then(|name| ledger.octets(name));
    let mut expected = name
        .zip(octets)
        .map(|(name, octets)| pool.payload(name, octets));
    let mut is_right = octets == Some(delivery.head().payload_octets)
        && expected.as_mut().is_some_and(|it| it.is_next(&head));
    while delivery.unread() > 0 {
        let read = delivery.read(buffer).map_err(lost)?;
        let piece = buffer.get(..read).unwrap_or_default();
        is_right = is_right && expected.as_mut().is_some_and(|it| it.is_next(piece));
    }
    // A payload that is there after the end of the run is not delivered in it.
    if !clock.is_over() {
        ledger.deliver(name, is_right, clock.now());
    }
    delivery.confirm()
}
