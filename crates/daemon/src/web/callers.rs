//! Connections over HTTP, and which of them gives way to a new one.
//!
//! Anybody who reaches an address may connect there and say half a request. A connection that has not shown that it may ask
//! gives way to the next one, as those of neighbours do ([`Origins`]), so that a crowd of them keeps nobody out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_node::driver::StreamId;
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};

use crate::pace::Pace;
use crate::streams::accept::Places;
use crate::streams::origins::{Origin, Origins};

/// Time in which a connection asks before it gives way to others: where these wait, it waited too, and its request is there.
const GRACE: Duration = Duration::from_millis(20);

/// Time for which a connection waits for a place; the system keeps others meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time between two looks for a connection that gives way.
const LOOK: Duration = Duration::from_millis(10);

/// The callers for whom places are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Callers who may ask: a token, or the permissions of a socket, tell.
    WhoMayAsk,
    /// Nobody: everybody may ask, so that nothing tells a crowd from readers. Of those from where most come the oldest gives way.
    Nobody,
}

/// Connections that share some places.
#[derive(Clone)]
pub struct Callers {
    places: Places,
    kept: Kept,
    /// True once nobody may ask anything more.
    over: watch::Sender<bool>,
    begun: std::time::Instant,
    present: Rc<RefCell<Present>>,
}

#[derive(Default)]
struct Present {
    next: u64,
    origins: Origins,
    connections: BTreeMap<StreamId, Connection>,
    pace: Pace,
}

struct Connection {
    cut: Rc<Notify>,
    since: std::time::Instant,
    /// Whether the connection asks, or asked, for something that it may ask for.
    allowed: bool,
}

/// One connection; its place is free when this value is dropped.
pub struct Caller {
    callers: Callers,
    number: StreamId,
    /// Tells the connection to give way.
    pub cut: Rc<Notify>,
    _place: OwnedSemaphorePermit,
}

impl Callers {
    /// Nobody yet, and so many places.
    #[must_use]
    pub fn new(places: usize, kept: Kept) -> Self {
        Self {
            places: Places::new(places),
            kept,
            over: watch::Sender::new(false),
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
                tracing::warn!(more, %address, "a connection over HTTP was closed: too many are there");
            }
            return None;
        };
        let number = StreamId(present.next);
        present.next += 1;
        present.origins.enter(number, origin);
        let cut = Rc::new(Notify::new());
        let connection = Connection {
            cut: Rc::clone(&cut),
            since: std::time::Instant::now(),
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

    /// Lets each have the answer that is under way, and no other; ends when all are gone, or this time is over.
    pub async fn finish(&self, patience: Duration) {
        self.over.send_replace(true);
        let end = tokio::time::Instant::now() + patience;
        while !self.present.borrow().connections.is_empty() && tokio::time::Instant::now() < end {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A place that becomes free, or that of another connection, which is cut.
    async fn make_place(&self, origin: Origin) -> Option<OwnedSemaphorePermit> {
        let end = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < end {
            self.cut_one(origin);
            let place = Arc::clone(&self.places.free).acquire_owned();
            if let Ok(place) = tokio::time::timeout(LOOK, place).await {
                return place.ok();
            }
        }
        None
    }

    /// Cuts the connection that is to go for a new one, where there is one.
    fn cut_one(&self, origin: Origin) {
        let mut present = self.present.borrow_mut();
        let has = |number, is_so: fn(&Connection) -> bool| {
            let connection = present.connections.get(&number);
            connection.is_some_and(is_so)
        };
        let may_go = |number| (!has(number, |it| it.allowed || it.is_new())).then_some(());
        let number = match (present.origins.give_way(origin, may_go), self.kept) {
            (None, Kept::Nobody) => {
                let may_go = |number| (!has(number, Connection::is_new)).then_some(());
                present.origins.give_way(origin, may_go)
            }
            (found, _) => found,
        };
        let Some(number) = number else {
            return;
        };
        // Nobody is cut twice.
        present.origins.leave(number);
        if let Some(connection) = present.connections.get(&number) {
            connection.cut.notify_one();
        }
    }
}

impl Connection {
    fn is_new(&self) -> bool {
        self.since.elapsed() < GRACE
    }
}

impl Caller {
    /// Waits until nobody may ask anything more.
    pub async fn over(&self) {
        let mut over = self.callers.over.subscribe();
        // Its other end is here.
        let _ = over.wait_for(|over| *over).await;
    }

    /// The caller has asked, or the answer tells whether it may.
    pub fn may_ask(&self, allowed: bool) {
        let mut present = self.callers.present.borrow_mut();
        if let Some(connection) = present.connections.get_mut(&self.number) {
            connection.allowed = allowed;
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut present = self.callers.present.borrow_mut();
        present.origins.leave(self.number);
        present.connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(work)
    }

    #[test]
    fn where_nobody_keeps_a_place_the_oldest_of_those_who_ask_gives_way() {
        run(async {
            let callers = Callers::new(2, Kept::Nobody);
            let (one, other) = (callers.admit(HERE).await, callers.admit(HERE).await);
            let (one, other) = (one.unwrap(), other.unwrap());
            one.may_ask(true);
            other.may_ask(true);
            let goes = async move {
                one.cut.notified().await;
                drop(one);
            };
            let (third, ()) = tokio::join!(callers.admit(HERE), goes);
            assert!(third.is_some());
        });
    }

    #[test]
    fn the_end_is_told_to_all_and_waited_for_until_they_are_gone() {
        run(async {
            let callers = Callers::new(2, Kept::WhoMayAsk);
            let (one, other) = (callers.admit(HERE).await, callers.admit(HERE).await);
            let goes = async |caller: Option<Caller>| caller.unwrap().over().await;
            let never = Duration::from_secs(3600);
            tokio::join!(callers.finish(never), goes(one), goes(other));
            // A caller that comes now is told at once.
            let late = callers.admit(HERE).await;
            goes(late).await;
        });
    }
}
