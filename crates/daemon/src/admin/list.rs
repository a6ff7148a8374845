//! Lists as JSON, written piece by piece as they are read.
//!
//! A list may name every bundle of a full store, and a client that asks for it need not read it. So no more than a piece of it is in memory: the
//! next is asked of the node when the connection has taken the one before.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use dhow_bundle::Now;
use dhow_node::Node;
use serde::Serialize;

use super::ask::{Asker, Gone};
use super::refusal::Refusal;
use crate::web::{Pieces, Rest};

/// Octets of a piece, about: an entry more at most. A connection holds two, one of them on its way into the socket.
const PIECE_OCTETS: usize = 32 << 10;

/// A part of a list under construction.
pub struct Piece {
    octets: Vec<u8>,
    /// Entries that may follow.
    left: usize,
    /// Whether entries came before, in this piece or in another.
    is_begun: bool,
}

impl Piece {
    /// Adds entries, given in the order of their places, while there is room; comes back with the place of the first that is left over.
    pub fn fill<T: Serialize>(
        &mut self,
        entries: impl IntoIterator<Item = (u64, T)>,
    ) -> Option<u64> {
        for (place, entry) in entries {
            if self.left == 0 {
                return None;
            }
            if self.octets.len() >= PIECE_OCTETS {
                return Some(place);
            }
            // Texts and numbers under names are always JSON.
            let Ok(text) = serde_json::to_vec(&entry) else {
                continue;
            };
            if self.is_begun {
                self.octets.push(b',');
            }
            self.is_begun = true;
            self.octets.extend(text);
            self.left -= 1;
        }
        None
    }
}

/// Adds a node's entries from a place on to a piece; comes back with the place at which the list goes on, if it does.
type Write = dyn Fn(&Node, Now, u64, &mut Piece) -> Option<u64> + Send + Sync;

/// The rest of a list.
struct Left {
    asker: Asker,
    write: Arc<Write>,
    place: u64,
    left: usize,
    is_begun: bool,
}

impl Rest for Left {
    type Error = Gone;

    async fn next(self) -> Result<(Bytes, Option<Self>), Gone> {
        let (write, place) = (Arc::clone(&self.write), self.place);
        let mut piece = Piece {
            octets: Vec::new(),
            left: self.left,
            is_begun: self.is_begun,
        };
        let look = move |node: &Node, now: Now, _| (write(node, now, place, &mut piece), piece);
        let (next, mut piece) = self.asker.look(look).await?;
        if next.is_none() {
            piece.octets.push(b']');
        }
        let rest = next.map(|place| Self {
            place,
            left: piece.left,
            is_begun: piece.is_begun,
            ..self
        });
        Ok((Bytes::from(piece.octets), rest))
    }
}

/// The answer with a list of at most `limit` entries. Entries that come or go while it is read may be missing; every other is listed once.
///
/// # Errors
/// When the node is gone.
pub async fn list(
    asker: Asker,
    limit: usize,
    write: impl Fn(&Node, Now, u64, &mut Piece) -> Option<u64> + Send + Sync + 'static,
) -> Result<Response, Refusal> {
    let whole = Left {
        asker,
        write: Arc::new(write),
        place: 0,
        left: limit,
        is_begun: false,
    };
    let (octets, rest) = whole.next().await?;
    let octets = Bytes::from([&b"["[..], &octets].concat());
    let body = match rest {
        None => Body::from(octets),
        Some(rest) => Body::new(Pieces::behind(octets, rest)),
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
