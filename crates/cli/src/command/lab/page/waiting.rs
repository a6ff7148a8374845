//! Bundles that wait at each node of a lab on sockets: the nodes' own words, asked for while somebody reads the page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dhow_client::Address;
use serde_json::Value;

use super::board::Board;
use crate::admin::Admin;

/// The time from one round to the next.
const ROUND: Duration = Duration::from_secs(1);

/// The time from one look for the end to the next.
const LOOK: Duration = Duration::from_millis(50);

/// The longest time for the answer of one node.
const PATIENCE: Duration = Duration::from_millis(500);

/// Nodes that are asked in one round: of more the next have their turn in the next round.
const ASKED_MAX: usize = 64;

/// Bundles and octets in a node's store; nothing where it has not said.
pub type Waiting = Option<(u64, u64)>;

/// Asks nodes again and again, in a thread of its own: a node that does not answer keeps nobody waiting.
#[derive(Debug)]
pub struct Asker {
    shared: Arc<Shared>,
    asking: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    nodes: Mutex<(Vec<Option<Address>>, Vec<Waiting>)>,
    is_over: AtomicBool,
}

impl Asker {
    /// A thread that asks while somebody reads.
    pub fn start(board: &Arc<Board>) -> Self {
        let shared = Arc::new(Shared::default());
        let (own, board) = (Arc::clone(&shared), Arc::clone(board));
        let asking = thread::Builder::new()
            .name("page asks".to_owned())
            .spawn(move || own.ask(&board));
        Self {
            shared,
            asking: asking.ok(),
        }
    }

    /// The last words of these nodes; those of others are forgotten.
    pub fn of(&self, apis: &[Option<Address>]) -> Vec<Waiting> {
        let mut nodes = self
            .shared
            .nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if nodes.0 != apis {
            *nodes = (apis.to_vec(), vec![None; apis.len()]);
        }
        nodes.1.clone()
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(asking) = self.asking.take() {
            let _ = asking.join();
        }
    }
}

impl Shared {
    fn ask(&self, board: &Board) {
        let (mut waited, mut turn) = (Duration::ZERO, 0);
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            waited += LOOK;
            if waited < ROUND || !board.is_read() {
                continue;
            }
            waited = Duration::ZERO;
            let apis = {
                let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
                nodes.0.clone()
            };
            let count = apis.len();
            for _ in 0..count.min(ASKED_MAX) {
                let at = turn % count;
                turn = at + 1;
                let said = apis.get(at).and_then(Option::as_ref).and_then(said);
                let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
                let is_over = self.is_over.load(Ordering::Relaxed);
                // Nodes of another run may have come meanwhile.
                if is_over || nodes.0 != apis {
                    break;
                }
                if let Some(place) = nodes.1.get_mut(at) {
                    *place = said;
                }
            }
        }
    }
}

/// The answer of one node.
fn said(api: &Address) -> Waiting {
    let node = Admin::of(Some(api))
        .ok()?
        .within(PATIENCE)
        .read("/v1/node")
        .ok()?;
    let store = node.get("store")?;
    let number = |key: &str| store.get(key).and_then(Value::as_u64);
    Some((number("bundles")?, number("octets")?))
}
