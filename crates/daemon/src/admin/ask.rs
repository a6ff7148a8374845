//! Questions to the node from another thread.

use dhow_bundle::{NodeId, Now};
use dhow_node::Node;
use dhow_node::driver::{OperatorCommand, OperatorRefusal};
use tokio::sync::{mpsc, oneshot};

use super::refusal::Refusal;
use crate::core::{Core, Outcome};
use crate::counts::DriverCounts;
use crate::export::source::Cursor;
use crate::reload::taking_up::{Plan, Switchboard};
use crate::streams::dial::DialTable;

/// Questions that may wait for the node at a time; a client that asks more waits.
const QUESTIONS_MAX: usize = 16;

/// Somebody's way of looking at the node.
type Look = Box<dyn FnOnce(&Node, Now, DriverCounts) + Send>;

/// Something that the node's thread does for another.
enum Ask {
    Look(Look),
    Operate(OperatorCommand, oneshot::Sender<Outcome>),
    AddLink(NewLink, oneshot::Sender<Outcome>),
    Export(Cursor, oneshot::Sender<(Vec<u8>, Option<Cursor>)>),
    TakeUp(Box<Plan>, oneshot::Sender<Result<Vec<String>, Refusal>>),
}

/// A link that is to be made.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// Its name.
    pub name: String,
    /// Host name or address, without brackets; empty for none.
    pub host: String,
    /// TCP or UDP port.
    pub port: u16,
    /// The link of which it gets the rest.
    pub like: String,
    /// The only peer allowed.
    pub peer: Option<NodeId>,
}

/// The node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is shutting down")]
pub struct Gone;

/// The end of the queue at which other threads ask the node.
#[derive(Clone)]
pub struct Asker(mpsc::Sender<Ask>);

/// The end of the queue at which the node's thread takes questions.
pub struct Asked(mpsc::Receiver<Ask>);

/// Both ends of the way to the node.
#[must_use]
pub fn channel() -> (Asker, Asked) {
    let (sender, receiver) = mpsc::channel(QUESTIONS_MAX);
    (Asker(sender), Asked(receiver))
}

impl Asker {
    /// The result of `look` at the node.
    ///
    /// # Errors
    /// When the node is gone.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Node, Now, DriverCounts) -> T + Send + 'static,
    ) -> Result<T, Gone> {
        let (answer, answered) = oneshot::channel();
        let look = Box::new(move |node: &Node, now: Now, counts: DriverCounts| {
            // The task that asked may have gone.
            let _ = answer.send(look(node, now, counts));
        });
        self.0.send(Ask::Look(look)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }

    /// Have the node carry out a command.
    ///
    /// # Errors
    /// When the node is gone.
    pub async fn operate(&self, command: OperatorCommand) -> Result<Outcome, Gone> {
        self.have_done(|answer| Ask::Operate(command, answer)).await
    }

    /// Have a link made.
    ///
    /// # Errors
    /// When the node is gone.
    pub async fn add_link(&self, link: NewLink) -> Result<Outcome, Gone> {
        self.have_done(|answer| Ask::AddLink(link, answer)).await
    }

    /// Have another configuration taken up; the addresses at which neighbours are accepted then come back.
    ///
    /// # Errors
    /// When the node is gone.
    pub async fn take_up(&self, plan: Plan) -> Result<Result<Vec<String>, Refusal>, Gone> {
        self.have_done(|answer| Ask::TakeUp(Box::new(plan), answer))
            .await
    }

    /// The next piece of the store's content, and the place at which it goes on, if it does.
    ///
    /// # Errors
    /// When the node is gone.
    pub async fn export(&self, cursor: Cursor) -> Result<(Vec<u8>, Option<Cursor>), Gone> {
        self.have_done(|answer| Ask::Export(cursor, answer)).await
    }

    async fn have_done<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, Gone> {
        let (answer, answered) = oneshot::channel();
        self.0.send(ask(answer)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }
}

impl Asked {
    /// Answers until nobody can ask any more.
    pub async fn answer(mut self, switchboard: Switchboard) {
        let (core, links) = (switchboard.core.clone(), switchboard.dials.clone());
        while let Some(ask) = self.0.recv().await {
            match ask {
                Ask::Look(look) => core.look(look),
                Ask::Operate(command, answer) => core.operate(command, answer),
                Ask::Export(cursor, answer) => {
                    let mut piece = Vec::new();
                    let next = core.export(cursor, &mut piece);
                    // The task that asked may have gone.
                    let _ = answer.send((piece, next));
                }
                Ask::TakeUp(plan, answer) => {
                    // The task that asked may have gone.
                    let _ = answer.send(switchboard.take_up(*plan).await);
                }
                Ask::AddLink(link, answer) => {
                    let outcome = add_link(&core, &links, link).await;
                    if let Some(outcome) = outcome {
                        // The task that asked may have gone.
                        let _ = answer.send(outcome);
                    }
                }
            }
        }
    }
}

/// Makes a link. The node may dial it at once, so its address is known before; none if the node is gone.
async fn add_link(core: &Core, links: &DialTable, link: NewLink) -> Option<Outcome> {
    let NewLink {
        name,
        host,
        port,
        like,
        peer,
    } = link;
    let template = core.look(|node, _, _| node.link_named(&like));
    if host.is_empty() && template.is_some_and(|like| links.has_address(like)) {
        return Some(Err(OperatorRefusal::NoAddress(like)));
    }
    let link = core.look(|node, _, _| node.next_link());
    if let Some(like) = template {
        links.add_like(link, like, host, port);
    }
    let (answer, answered) = oneshot::channel();
    let command = OperatorCommand::LinkAdd {
        name: name.clone(),
        like,
        peer,
    };
    core.operate(command, answer);
    let outcome = answered.await.ok();
    match outcome {
        Some(Ok(())) => core.journal(|it| it.set_link(link, name)),
        _ => links.remove(link),
    }
    outcome
}
