//! The datagrams with octets of blocks, in the order in which sessions send them.

use dhow_bundle::Instant;
use dhow_bundle::storage::Piece;

use super::local::Local;
use super::plan::Plan;
use super::queues::Queue;
use super::segment::SessionId;
use super::sessions_out::SessionsOut;
use super::state::Sender;
use super::wire::{data_head_octets, length_of, write_data_head};
use crate::datagram::Batch;

/// The next datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    number: u64,
    plan: Plan,
    queue: Queue,
    /// Octets of the datagram, as far as they are written here.
    pub(super) size: u64,
}

impl Next {
    /// The session that it is of.
    pub(super) const fn session(&self) -> SessionId {
        self.plan.head.session
    }
}

impl SessionsOut {
    /// The next datagram that can leave.
    pub(super) fn next(&mut self, local: &Local) -> Option<Next> {
        let may_begin = self.begun < local.config.sessions;
        for queue in [Queue::Repeating, Queue::Going, Queue::Waiting] {
            if queue == Queue::Waiting {
                if !may_begin {
                    break;
                }
                self.gather(&local.config);
            }
            while let Some(number) = self.queues.first(queue) {
                if let Some(next) = self.plan(local, number, queue) {
                    return Some(next);
                }
                self.drop_first(queue, number);
            }
        }
        None
    }

    fn drop_first(&mut self, queue: Queue, number: u64) {
        self.queues.pop(queue);
        if let Some(session) = self.sessions.get_mut(&number) {
            match queue {
                Queue::Repeating => session.is_repeating = false,
                Queue::Going | Queue::Waiting => session.is_ready = false,
            }
        }
    }

    fn plan(&self, local: &Local, number: u64, queue: Queue) -> Option<Next> {
        let session = self.sessions.get(&number)?;
        let plan = match queue {
            Queue::Repeating => session.plan_again(&local.config, local.room(session.id)),
            Queue::Going | Queue::Waiting => {
                session.plan_first(&local.config, local.room(session.id))
            }
        }?;
        let head = data_head_octets(
            plan.head.session,
            plan.head.service,
            plan.head.offset,
            plan.head.length,
            plan.head.serials,
        );
        let size = head
            .saturating_add(plan.head.length)
            .saturating_add(local.around(session.id).octets())
            .saturating_add(length_of(session.extensions_at(plan.head.offset)));
        Some(Next {
            number,
            plan,
            queue,
            size,
        })
    }

    /// Add the planned datagram to `out`; it is number `datagram` of all. The checkpoint's serial number, if it is one.
    pub(super) fn give(
        &mut self,
        now: Instant,
        local: &Local,
        next: &Next,
        datagram: u64,
        out: &mut Batch,
    ) -> Option<(u64, u64)> {
        self.drop_first(next.queue, next.number);
        let session = self.sessions.get_mut(&next.number)?;
        let head = next.plan.head;
        if session.state == Sender::Ready {
            session.join();
            self.alone.begun();
        }
        self.scratch.clear();
        let around = local.around(head.session);
        let around = around.with_end_to_end(session.extensions_at(head.offset));
        write_data_head(&mut self.scratch, &head, around);
        self.heads.reserve(self.scratch.len());
        self.heads.put(&self.scratch);
        out.push(Piece::Octets(self.heads.give()));
        session.block.give(head.offset, head.end(), out);
        if !local.envelope.trailer.is_empty() {
            out.push(Piece::Octets(local.envelope.trailer.clone()));
        }
        out.end_datagram();
        if session.state == Sender::Ready {
            self.begun = self.begun.saturating_add(1);
            self.queued_octets = self.queued_octets.saturating_sub(session.supplied());
        }
        session.given(&local.config, &next.plan, datagram);
        if next.queue != Queue::Repeating
            && head.kind.is_block_end()
            && session.is_whole_red(local.config.red)
        {
            for capsule in &session.capsules {
                self.leaving.sent(datagram, capsule.transfer);
            }
        }
        // A session goes on with what is lost before another does.
        let repeats = session.has_repeats();
        if next.queue == Queue::Repeating && repeats {
            session.is_repeating = true;
            self.queues.push_front(Queue::Repeating, next.number);
        }
        self.settle(now, local, next.number);
        head.serials
            .map(|serials| (next.number, serials.checkpoint))
    }
}
