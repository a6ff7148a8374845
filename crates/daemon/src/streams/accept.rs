//! Accepting connections: of neighbours as many as there is room for, of applications always an answer.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dhow_node::config::ListenerId;
use dhow_node::driver::Purpose;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::{Side, serve};
use super::listener::set_stall_timeout;
use super::listeners::{Identity, Limits};
use super::origins::Origin;
use super::socket::Socket;
use super::tls::Tls;
use crate::core::Core;
use crate::pace::Pace;

/// First and longest wait after the system had no descriptor or memory for a connection.
const SHORTAGE_WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The time in which a connection that was cut is gone: a turn of its task.
const CUT_TIMEOUT: Duration = Duration::from_millis(500);

/// Places for connections of one kind, shared by the listeners for them.
#[derive(Clone, Debug)]
pub struct Places {
    pub(crate) free: Arc<Semaphore>,
    count: usize,
}

impl Places {
    /// So many.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(count)),
            count,
        }
    }

    /// A free place, if there is one.
    #[must_use]
    pub fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// A place, as soon as there is one: those that wait for it have theirs in turn.
    pub async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).acquire_owned().await.ok()
    }
}

/// Accept neighbours for as long as the node runs. None is left waiting: where there is no place, another
/// connection gives way ([`Crowd`](super::crowd::Crowd)), or the new one is closed at once.
pub async fn accept_neighbours(
    core: Core,
    (id, listener): (ListenerId, TcpListener),
    limits: Rc<Cell<Limits>>,
    places: Places,
    identity: Identity,
) {
    let accept = async || {
        let (stream, _) = listener.accept().await?;
        set_stall_timeout(&stream, limits.get().stall_timeout);
        Ok(Socket::tcp(stream))
    };
    let (mut pace, mut shortage) = (Pace::default(), Pace::default());
    let mut address_pace = Pace::default();
    loop {
        let socket = next(&core, &accept, &mut shortage).await;
        let address = socket.peer().map(|address| address.ip());
        let origin = address.map(Origin::from);
        let most = limits.get().connections_per_address;
        let is_one_too_many = |origin| !has_share(&core, origin, most);
        if origin.is_some_and(is_one_too_many) {
            if let Some(more) = address_pace.say(core.now().monotonic) {
                tracing::warn!(
                    more,
                    address = address.map(tracing::field::display),
                    "a neighbour's connection was closed: its address has {most} sessions (connections_per_address)"
                );
            }
            continue;
        }
        match neighbour_place(&core, &places.free, origin).await {
            Some(place) => {
                let purpose = Purpose::Accepted { listener: id };
                let tls = identity.borrow().clone();
                spawn(&core, socket, purpose, tls, place);
            }
            None => {
                if let Some(more) = pace.say(core.now().monotonic) {
                    tracing::warn!(
                        more,
                        "a neighbour's connection was closed: {} are there, and nobody has more than it",
                        places.count
                    );
                }
            }
        }
    }
}

/// Whether one more connection of an origin may be taken, perhaps in the place of another of it that is no session.
fn has_share(core: &Core, origin: Origin, most: usize) -> bool {
    if core.neighbours_of(origin) < most {
        return true;
    }
    core.count(|counts| counts.held_back_by_address += 1);
    core.cut_neighbour(|origins, activity| origins.give_way_within(origin, activity))
}

/// A place for a neighbour's connection, another's where there is no free one.
async fn neighbour_place(
    core: &Core,
    places: &Arc<Semaphore>,
    origin: Option<Origin>,
) -> Option<OwnedSemaphorePermit> {
    if let Ok(place) = Arc::clone(places).try_acquire_owned() {
        return Some(place);
    }
    core.count(|counts| counts.held_back += 1);
    let origin = origin?;
    let is_made = core.cut_neighbour(|origins, activity| origins.give_way(origin, activity));
    if !is_made {
        return None;
    }
    let place = Arc::clone(places).acquire_owned();
    tokio::time::timeout(CUT_TIMEOUT, place).await.ok()?.ok()
}

/// A listener for applications.
pub enum ClientListener {
    /// Over TCP.
    Tcp(TcpListener),
    /// On a Unix socket.
    Unix(UnixListener),
}

/// Accept applications for as long as the node runs. None is left waiting: where there is no place, the
/// oldest connection that has not said what it is for loses its own, and where all have, the new one is
/// closed at once.
pub async fn accept_clients(core: Core, listener: ClientListener, places: Places) {
    let accept = async || match &listener {
        ClientListener::Tcp(listener) => listener
            .accept()
            .await
            .map(|(stream, _)| Socket::tcp(stream)),
        ClientListener::Unix(listener) => listener
            .accept()
            .await
            .map(|(stream, _)| Socket::Unix(stream)),
    };
    let (mut pace, mut shortage) = (Pace::default(), Pace::default());
    loop {
        let socket = next(&core, &accept, &mut shortage).await;
        match client_place(&core, &places.free).await {
            Some(place) => spawn(&core, socket, Purpose::Client, None, place),
            None => {
                core.count(|counts| counts.clients_refused += 1);
                if let Some(more) = pace.say(core.now().monotonic) {
                    tracing::warn!(
                        more,
                        "an application was refused: {} are connected",
                        places.count
                    );
                }
            }
        }
    }
}

/// Accept programs that are a part of the node for as long as it runs, at most as many as there are places.
pub async fn accept_programs(core: Core, listener: UnixListener, places: Places) {
    let accept = async || {
        listener
            .accept()
            .await
            .map(|(stream, _)| Socket::Unix(stream))
    };
    let (mut pace, mut shortage) = (Pace::default(), Pace::default());
    loop {
        let socket = next(&core, &accept, &mut shortage).await;
        match places.take() {
            Some(place) => spawn(&core, socket, Purpose::Program, None, place),
            None => {
                if let Some(more) = pace.say(core.now().monotonic) {
                    let places = places.count;
                    tracing::warn!(more, "a program was refused: {places} are connected");
                }
            }
        }
    }
}

async fn client_place(core: &Core, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    if let Ok(place) = Arc::clone(places).try_acquire_owned() {
        return Some(place);
    }
    if !core.cut_unconfigured_client() {
        return None;
    }
    let place = Arc::clone(places).acquire_owned();
    tokio::time::timeout(CUT_TIMEOUT, place).await.ok()?.ok()
}

/// The next connection; waits while the system is short of something.
async fn next(
    core: &Core,
    accept: &impl AsyncFn() -> io::Result<Socket>,
    pace: &mut Pace,
) -> Socket {
    let (mut wait, longest_wait) = SHORTAGE_WAITS;
    loop {
        match accept().await {
            Ok(socket) => return socket,
            // The peer was gone before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // No descriptor or memory: waiting is better than spinning.
                if let Some(more) = pace.say(core.now().monotonic) {
                    tracing::warn!(more, "cannot accept a connection: {error}");
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(longest_wait);
            }
        }
    }
}

fn spawn(
    core: &Core,
    socket: Socket,
    purpose: Purpose,
    tls: Option<Tls>,
    place: OwnedSemaphorePermit,
) {
    let served = serve(core.clone(), socket, purpose, Side::Accepted, tls);
    drop(tokio::task::spawn_local(async move {
        served.await;
        drop(place);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_that_wait_for_a_place_have_it_in_turn() {
        let places = Places::new(1);
        let taken = places.take().unwrap();
        assert!(places.take().is_none());
        let (told, mut turns) = tokio::sync::mpsc::unbounded_channel();
        for turn in 0..3 {
            let (places, told) = (places.clone(), told.clone());
            drop(tokio::spawn(async move {
                let place = places.wait().await;
                told.send((turn, place)).unwrap();
            }));
            tokio::task::yield_now().await;
        }
        assert!(turns.try_recv().is_err());
        drop(taken);
        for expected in 0..3 {
            let (turn, place) = turns.recv().await.unwrap();
            assert_eq!(turn, expected);
            assert!(place.is_some() && places.take().is_none());
        }
    }
}
