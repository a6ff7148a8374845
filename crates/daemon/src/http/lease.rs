//! Bundles that were handed to somebody who has not confirmed them: each keeps a thread and a connection to the node for
//! as long as its lease. One whose lease ends is delivered again.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::mpsc::{Receiver as Verdicts, Sender as Judge, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dhow_bundle::EndpointId;
use dhow_client::{Address, Client, Delivery, Error, Receipt, Receiver, Registration};
use dhow_node::api::seam::DeliveryHead;
use tokio::sync::{mpsc, oneshot};

use super::body::Outgoing;

/// The time for which a delivery waits for its confirmation, from its last octet on.
pub const LEASE: Duration = Duration::from_secs(60);

/// Requests that wait for a delivery, and deliveries that wait for their confirmation, at most.
pub const LEASES_MAX: usize = 64;

/// The time after which a thread that waits looks whether somebody still waits for it.
const LOOK: Duration = Duration::from_millis(250);

/// Octets of a payload that are read at a time.
const PIECE_OCTETS: usize = 64 << 10;

/// The time in which the node must answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The fate of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The delivery is where it was to go: the node forgets it.
    Confirm,
    /// The delivery comes again, at once.
    Decline,
}

type Judgement = (Verdict, oneshot::Sender<Result<(), Error>>);

/// Everything that is leased.
#[derive(Clone, Default)]
pub struct Leases(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    held: BTreeMap<String, (EndpointId, Judge<Judgement>)>,
    /// Threads that hold a delivery or wait for one.
    threads: usize,
}

/// A delivery that is handed over: its head and payload, and the name of its lease.
pub struct Leased {
    /// The name.
    pub name: String,
    /// The bundle.
    pub head: DeliveryHead,
    /// Its payload.
    pub payload: Outgoing,
}

/// Why a lease cannot be had.
#[derive(Debug)]
pub enum LeaseError {
    /// No more deliveries may be held.
    TooMany,
    /// The system makes no thread.
    System(std::io::Error),
}

impl Leases {
    /// Wait for a delivery at an endpoint of the node for at most `wait`, on a thread of its own; `None` comes when there was none.
    ///
    /// # Errors
    /// When too many wait or are leased, or the system has no thread.
    pub fn begin(
        &self,
        node: Address,
        endpoint: EndpointId,
        wait: Duration,
    ) -> Result<oneshot::Receiver<Result<Option<Leased>, Error>>, LeaseError> {
        let place = self.place()?;
        let (tell, told) = oneshot::channel();
        std::thread::Builder::new()
            .name("delivery".to_owned())
            .spawn(move || place.serve(&node, &endpoint, wait, tell))
            .map_err(LeaseError::System)?;
        Ok(told)
    }

    /// Confirm or decline what is leased under a name at an endpoint; `None` where nothing is.
    pub fn judge(
        &self,
        endpoint: &EndpointId,
        name: &str,
        verdict: Verdict,
    ) -> Option<oneshot::Receiver<Result<(), Error>>> {
        let (answer, answered) = oneshot::channel();
        let table = self.table();
        let (_, judge) = table.held.get(name).filter(|(at, _)| at == endpoint)?;
        judge.send((verdict, answer)).ok()?;
        Some(answered)
    }

    fn place(&self) -> Result<Place, LeaseError> {
        let mut table = self.table();
        if table.threads >= LEASES_MAX {
            return Err(LeaseError::TooMany);
        }
        table.threads += 1;
        Ok(Place(self.clone()))
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        // A thread that failed left the table whole: each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the leases; free again when this value is dropped.
struct Place(Leases);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.table().threads -= 1;
    }
}

impl Place {
    /// Frees the place before the last word is said, so that its reader finds it free.
    fn end<T>(self, tell: oneshot::Sender<T>, word: T) {
        drop(self);
        // The reader may have left.
        let _ = tell.send(word);
    }

    fn serve(
        self,
        node: &Address,
        endpoint: &EndpointId,
        wait: Duration,
        tell: oneshot::Sender<Result<Option<Leased>, Error>>,
    ) {
        let client = Client::connect_within(node, PATIENCE);
        let receiver = client
            .and_then(|client| client.with_patience(PATIENCE))
            .and_then(|client| client.receiver(&Registration::new(endpoint.clone())));
        match receiver {
            Ok(receiver) => self.deliver(receiver, endpoint, Instant::now() + wait, tell),
            Err(error) => self.end(tell, Err(error)),
        }
    }

    fn deliver(
        self,
        mut receiver: Receiver,
        endpoint: &EndpointId,
        end: Instant,
        tell: oneshot::Sender<Result<Option<Leased>, Error>>,
    ) {
        let (name, receipt, verdicts) = loop {
            let left = end.saturating_duration_since(Instant::now());
            match receiver.next_delivery(Some(left.min(LOOK))) {
                Ok(Some(delivery)) => break self.hand_over(delivery, endpoint, tell),
                Ok(None) if left.is_zero() => return self.end(tell, Ok(None)),
                Ok(None) if tell.is_closed() => return,
                Ok(None) => {}
                Err(error) => return self.end(tell, Err(error)),
            }
        };
        let judgement = verdicts.and_then(|it| it.recv_timeout(LEASE).ok());
        self.0.table().held.remove(&name);
        let (verdict, answer) = match judgement {
            Some((verdict, answer)) => (verdict, Some(answer)),
            None => (Verdict::Decline, None),
        };
        let done = match verdict {
            Verdict::Confirm => receiver.confirm(receipt),
            Verdict::Decline => receiver.decline(receipt),
        };
        let done = done.and_then(|()| receiver.finish());
        if let Some(answer) = answer {
            self.end(answer, done);
        }
    }

    /// Gives a delivery to whoever waits for it, under the name that comes back; what is said of it then comes by the verdicts, which
    /// are there if all of it was taken.
    fn hand_over(
        &self,
        mut delivery: Delivery<'_>,
        endpoint: &EndpointId,
        tell: oneshot::Sender<Result<Option<Leased>, Error>>,
    ) -> (String, Receipt, Option<Verdicts<Judgement>>) {
        let (name, receipt) = (random_name(), delivery.receipt());
        let (judge, verdicts) = channel();
        let (give, payload) = Outgoing::new(delivery.unread());
        let leased = Leased {
            name: name.clone(),
            head: delivery.head().clone(),
            payload,
        };
        let held = (endpoint.clone(), judge);
        self.0.table().held.insert(name.clone(), held);
        let has_all = tell.send(Ok(Some(leased))).is_ok() && give_all(&mut delivery, &give);
        (name, receipt, has_all.then_some(verdicts))
    }
}

/// Gives the payload to its reader; false when nobody reads it, or the node is gone.
fn give_all(delivery: &mut Delivery<'_>, give: &mpsc::Sender<Bytes>) -> bool {
    let mut room = vec![0; PIECE_OCTETS];
    while delivery.unread() > 0 {
        let Ok(read @ 1..) = delivery.read(&mut room) else {
            return false;
        };
        let piece = Bytes::copy_from_slice(room.get(..read).unwrap_or_default());
        if give.blocking_send(piece).is_err() {
            return false;
        }
    }
    true
}

/// A name that nobody can guess.
fn random_name() -> String {
    use std::hash::{BuildHasher as _, Hasher as _};
    let number = || {
        let state = std::collections::hash_map::RandomState::new();
        state.build_hasher().finish()
    };
    format!("{:016x}{:016x}", number(), number())
}
