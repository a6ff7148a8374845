//! Connections to the operator's interface, and which of them gives way to a new one.
//!
//! Anybody who reaches an address may connect there and say half a request. A connection that has not shown that it may ask
//! gives way to the next one, as those of neighbours do ([`Crowd`]), so that a crowd of them keeps no operator out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_node::door::StreamId;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::pace::Pace;
use crate::streams::accept::Places;
use crate::streams::crowd::{Crowd, Origin};

/// Time in which a connection that was cut must be gone: a turn of its task.
const CUT_TIMEOUT: Duration = Duration::from_millis(500);

/// Connections that share some places.
#[derive(Clone)]
pub struct Callers {
    places: Places,
    begun: std::time::Instant,
    present: Rc<RefCell<Present>>,
}

#[derive(Default)]
struct Present {
    next: u64,
    crowd: Crowd,
    connections: BTreeMap<StreamId, Connection>,
    pace: Pace,
}

struct Connection {
    cut: Rc<Notify>,
    /// It asked for something that it may ask for.
    allowed: bool,
}

/// One connection; its place is free when this value is dropped.
pub struct Caller {
    callers: Callers,
    number: StreamId,
    /// It is to give way.
    pub cut: Rc<Notify>,
    _place: OwnedSemaphorePermit,
}

impl Callers {
    /// Nobody yet, and so many places.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self {
            places: Places::new(places),
            begun: std::time::Instant::now(),
            present: Rc::default(),
        }
    }

    /// Time since the first could come.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::START + self.begun.elapsed()
    }

    /// A place for a connection from this address; `None` where it is to be closed.
    pub async fn admit(&self, address: IpAddr) -> Option<Caller> {
        let origin = Origin::from(address);
        let place = match self.places.take() {
            Some(place) => Some(place),
            None => self.make_place(origin).await,
        };
        let mut present = self.present.borrow_mut();
        let Some(place) = place else {
            if let Some(more) = present.pace.say(self.now()) {
                tracing::warn!(more, %address, "an operator's connection was closed: too many are there");
            }
            return None;
        };
        let number = StreamId(present.next);
        present.next += 1;
        present.crowd.enter(number, origin);
        let cut = Rc::new(Notify::new());
        let connection = Connection {
            cut: Rc::clone(&cut),
            allowed: false,
        };
        present.connections.insert(number, connection);
        Some(Caller {
            callers: self.clone(),
            number,
            cut,
            _place: place,
        })
    }

    /// The place of another connection, which is cut.
    async fn make_place(&self, origin: Origin) -> Option<OwnedSemaphorePermit> {
        {
            let mut present = self.present.borrow_mut();
            let is_allowed = |number| {
                let connection = present.connections.get(&number);
                connection.is_some_and(|connection| connection.allowed)
            };
            let number = present.crowd.give_way(origin, is_allowed)?;
            // Nobody is cut twice.
            present.crowd.leave(number);
            present.connections.get(&number)?.cut.notify_one();
        }
        let place = Arc::clone(&self.places.free).acquire_owned();
        tokio::time::timeout(CUT_TIMEOUT, place).await.ok()?.ok()
    }
}

impl Caller {
    /// It has shown that it may ask.
    pub fn is_allowed(&self) {
        let mut present = self.callers.present.borrow_mut();
        if let Some(connection) = present.connections.get_mut(&self.number) {
            connection.allowed = true;
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut present = self.callers.present.borrow_mut();
        present.crowd.leave(self.number);
        present.connections.remove(&self.number);
    }
}
