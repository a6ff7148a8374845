//! Taking up another configuration on the node's thread: sockets first, since they may be refused, then all at once.

use std::rc::Rc;

use axum::http::StatusCode;
use dhow_node::config::ListenerId;
use dhow_node::driver::{OperatorCommand, OperatorRefusal};
use tokio::sync::oneshot;

use super::comparison::Comparison;
use crate::admin::refusal::Refusal;
use crate::config::file::ListenSettings;
use crate::core::Core;
use crate::streams::dial::DialTable;
use crate::streams::listener::ListenError;
use crate::streams::listeners::{BoundListener, Identity, Listeners};
use crate::streams::tls::Tls;

/// Work for the node's thread.
pub struct Plan {
    /// The differences.
    pub comparison: Comparison,
    /// All listeners that are to be.
    pub listen: Vec<ListenSettings>,
    /// Another identity under TLS, for connections that begin from now on; none where it stays.
    pub identity: Option<Option<Tls>>,
}

/// All that a change reaches on the node's thread.
#[derive(Clone)]
pub struct Switchboard {
    /// The node.
    pub core: Core,
    /// The addresses of links.
    pub dials: DialTable,
    /// The listeners.
    pub listeners: Rc<Listeners>,
    /// The identity under TLS.
    pub identity: Identity,
}

impl Switchboard {
    /// Takes up a plan, and gives the addresses at which neighbours are accepted then.
    ///
    /// # Errors
    /// When an address cannot be listened on: nothing has changed then. When the node has room for no more links: all else is taken up.
    pub async fn take_up(&self, plan: Plan) -> Result<Vec<String>, Refusal> {
        let Plan {
            comparison,
            listen,
            identity,
        } = plan;
        let bound = self.bind(&comparison, &listen).await?;
        if let Some(identity) = identity {
            *self.identity.borrow_mut() = identity;
        }
        for name in &comparison.changes.links_deleted {
            if let Some(link) = self.link(name) {
                self.dials.remove(link);
            }
        }
        let rekeyed = comparison.rekeyed.iter();
        let rekeyed: Vec<_> = rekeyed.filter_map(|name| self.link(name)).collect();
        let changes = comparison.changes;
        let closed = changes.listeners_closed.clone();
        let dials = comparison.dials.into_iter().map(|(name, settings)| {
            let before = self.link(&name);
            (name, settings, before)
        });
        let dials: Vec<_> = dials.collect();
        let outcome = self
            .operate(OperatorCommand::Change(Box::new(changes)))
            .await;
        // Nothing is taken any more that an earlier key authenticates, also not in blocks that are under way.
        for link in rekeyed {
            let streams = self.core.ask(|node| node.streams_of(link));
            streams.into_iter().for_each(|it| self.core.cut(it));
        }
        for (name, settings, before) in dials {
            let link = self.link(&name);
            if let Some(gone) = before.filter(|before| link != Some(*before)) {
                self.dials.remove(gone);
            }
            if let Some(link) = link {
                self.dials.set(link, settings);
                self.core.journal(|it| it.set_link(link, name));
            }
        }
        for id in closed {
            self.listeners.close(id).await;
        }
        for listener in bound {
            self.listeners.open(listener);
        }
        for (id, settings) in &comparison.adapted {
            self.listeners.adapt(*id, settings);
        }
        outcome?;
        Ok(self.listeners.addresses())
    }

    /// The link of a name that is there now.
    fn link(&self, name: &str) -> Option<dhow_node::config::LinkId> {
        self.core.look(|node, _, _| node.link_named(name))
    }

    async fn operate(&self, command: OperatorCommand) -> Result<(), OperatorRefusal> {
        let (answer, mut answered) = oneshot::channel();
        self.core.operate(command, answer);
        match answered.try_recv() {
            Ok(outcome) => outcome,
            // The node has so much to do that the answer waits for its next turn.
            Err(_) => answered.await.unwrap_or(Ok(())),
        }
    }

    /// Binds the listeners that come. One that is in the way of them and goes anyway goes first, and comes back if that does not help.
    async fn bind(
        &self,
        comparison: &Comparison,
        listen: &[ListenSettings],
    ) -> Result<Vec<BoundListener>, Refusal> {
        let closed = &comparison.changes.listeners_closed;
        let error = match bind_all(&comparison.opened, listen) {
            Ok(bound) => return Ok(bound),
            Err(error) if closed.is_empty() => return Err(refused(&error)),
            Err(error) => error,
        };
        let ListenError::Address { .. } = error else {
            return Err(refused(&error));
        };
        let mut gone = Vec::new();
        for id in closed {
            gone.extend(self.listeners.close(*id).await.map(|it| (*id, it)));
        }
        let bound = bind_all(&comparison.opened, listen);
        if bound.is_err() {
            match bind_all(&gone, listen) {
                Ok(back) => back.into_iter().for_each(|it| self.listeners.open(it)),
                Err(error) => tracing::error!("a listener could not be opened again: {error}"),
            }
        }
        bound.map_err(|error| refused(&error))
    }
}

fn bind_all(
    opened: &[(ListenerId, ListenSettings)],
    listen: &[ListenSettings],
) -> Result<Vec<BoundListener>, ListenError> {
    let bound = opened.iter();
    bound
        .map(|(id, settings)| BoundListener::bind(*id, settings, listen))
        .collect()
}

fn refused(error: &ListenError) -> Refusal {
    let refusal = Refusal::new(StatusCode::CONFLICT, error.to_string());
    match error.hint() {
        Some(hint) => refusal.with_hint(hint),
        None => refusal,
    }
}
