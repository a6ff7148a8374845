//! From the steps of bundles to spans, on the node's thread.

use std::collections::BTreeSet;

use dhow_bundle::v7::admin::ReasonCode;
use dhow_bundle::{BundleId, FragmentRange, Instant, NodeId, Now};
use dhow_node::Node;
use dhow_node::driver::Occurrence;
use dhow_node::steps::{BundleStep, Step};

use super::exporter::Exporter;
use super::identity::{Subject, TraceId};
use super::known::{Known, key};
use super::span::{Kind, Parent, Span};
use super::waiting::Waiting;
use super::wall::Wall;
use super::{TelemetrySettings, TelemetryTotals};
use crate::admin::metrics::Snapshot;
use crate::clock::Clock;

/// The telemetry of a node: spans of its bundles, and metrics.
#[derive(Debug)]
pub struct Telemetry {
    follower: Follower,
    exporter: Exporter,
}

impl Telemetry {
    /// Telemetry of a node with these IDs and this clock.
    #[must_use]
    pub fn new(
        settings: &TelemetrySettings,
        ids: &[NodeId],
        clock: Clock,
        exporter: Exporter,
    ) -> Self {
        Self {
            follower: Follower::new(settings.sample_billionths, ids, clock),
            exporter,
        }
    }

    /// Something happened.
    pub fn occurred(&mut self, occurrence: &Occurrence, now: Now, node: &Node) {
        let Self { follower, exporter } = self;
        follower.occurred(occurrence, now, node, &mut |span| exporter.send(span));
    }

    /// Metrics are told.
    pub fn tell(&self, snapshot: Snapshot) {
        self.exporter.tell(snapshot);
    }

    /// Totals so far.
    #[must_use]
    pub fn totals(&self) -> TelemetryTotals {
        self.exporter.totals()
    }

    /// Ends: what the collector does not take within two seconds is dropped.
    pub fn finish(self) {
        self.exporter.finish();
    }
}

/// Makes spans of what happens to bundles.
#[derive(Debug)]
struct Follower {
    wall: Wall,
    part_billionths: u32,
    /// The node's first ID.
    name: String,
    ids: BTreeSet<NodeId>,
    known: Known,
}

/// A bundle that is traced, at this moment.
struct Traced<'a> {
    trace: TraceId,
    id: &'a BundleId,
    /// The node at which it is, as its spans have it: at its source that of its source.
    at: String,
    now: Now,
    /// The time of day at the start of the node, nanoseconds since the beginning of 1970.
    start_ns: u64,
}

type Emit<'a> = &'a mut dyn FnMut(Span);

impl Follower {
    fn new(part_billionths: u32, ids: &[NodeId], clock: Clock) -> Self {
        Self {
            wall: Wall::beside(clock),
            part_billionths,
            name: ids.first().map(ToString::to_string).unwrap_or_default(),
            ids: ids.iter().cloned().collect(),
            known: Known::default(),
        }
    }

    fn occurred(&mut self, occurrence: &Occurrence, now: Now, node: &Node, emit: Emit<'_>) {
        let id = match occurrence {
            Occurrence::Step(step) => &step.id,
            Occurrence::Delivered { id, .. }
            | Occurrence::Deleted { id, .. }
            | Occurrence::Duplicate { id }
            | Occurrence::Quarantined { id } => id,
            _ => return,
        };
        let Some(traced) = self.traced(id, now) else {
            return;
        };
        match occurrence {
            Occurrence::Step(step) => self.stepped(&traced, step, node, emit),
            Occurrence::Delivered {
                endpoint, octets, ..
            } => {
                let held = self.known.remove(&traced.key());
                let begun = held.and_then(|held| held.handed_over);
                let parent = Parent::Here(traced.anchor());
                emit(
                    traced
                        .span("deliver", Some(parent), begun.unwrap_or(now.monotonic))
                        .with("endpoint", endpoint.to_string())
                        .with("payload.octets", *octets),
                );
            }
            Occurrence::Deleted { reason, .. } => {
                let why = ReasonCode::from_code(*reason).to_string();
                let word = if *reason == 1 { "expire" } else { "delete" };
                let mut span = self.ended(&traced, word, emit);
                span.fault = Some(why.clone());
                emit(span.with("reason", why).with("reason.code", *reason));
            }
            Occurrence::Duplicate { .. } => emit(traced.at_once("duplicate", traced.parent())),
            Occurrence::Quarantined { .. } => {
                let mut span = traced.at_once("quarantine", traced.parent());
                span.fault = Some("its octets are damaged on disk".to_owned());
                emit(span);
            }
            _ => {}
        }
    }

    /// A bundle, where it is one of those that are traced.
    fn traced<'a>(&mut self, id: &'a BundleId, now: Now) -> Option<Traced<'a>> {
        let trace = TraceId::of(id).filter(|it| it.is_sampled(self.part_billionths))?;
        self.wall.look();
        let source = id.source.node_id().filter(|node| self.ids.contains(node));
        Some(Traced {
            trace,
            id,
            at: source.map_or_else(|| self.name.clone(), |node| node.to_string()),
            now,
            start_ns: self.wall.start_ns(),
        })
    }

    fn stepped(&mut self, traced: &Traced<'_>, step: &BundleStep, node: &Node, emit: Emit<'_>) {
        let at = traced.now.monotonic;
        match &step.step {
            Step::Arrived { begun } => {
                self.known.enter(traced.key()).arrived = Some((*begun, at));
            }
            Step::Stored { from, octets } => {
                self.stored(traced, from.as_ref(), *octets, node, emit)
            }
            Step::Assembled => {
                self.known.enter(traced.key()).waits = Some((at, traced.waiting(node)));
                let mut span = traced.at_once("reassemble", traced.origin());
                span.id = traced.anchor();
                emit(span);
            }
            Step::HandedOver => {
                let waited = self.known.get_mut(&traced.key()).and_then(|held| {
                    held.handed_over = Some(at);
                    held.waits.take()
                });
                emit_wait(traced, waited, at, emit);
            }
            Step::Sent {
                to,
                part,
                octets,
                begun,
            } => {
                self.waited(traced, *begun, None, emit);
                let mut span = traced.transfer(to, *part, *begun).with("octets", *octets);
                let to = to.to_string();
                let fragment = part.or(traced.id.fragment);
                span.id = traced.trace.span(Subject::Send(&self.name, &to), fragment);
                emit(span);
            }
            Step::Unsent {
                to,
                part,
                begun,
                refused,
            } => {
                self.waited(traced, *begun, Some(traced.waiting(node)), emit);
                let mut span = traced.transfer(to, *part, *begun);
                span.fault = Some(match refused {
                    Some(reason) => format!("refused: {reason:?}"),
                    None => "the session ended".to_owned(),
                });
                emit(span);
            }
            Step::Purged => {
                let span = self.ended(traced, "purge", emit);
                emit(span);
            }
        }
    }

    fn stored(
        &mut self,
        traced: &Traced<'_>,
        from: Option<&NodeId>,
        octets: u64,
        node: &Node,
        emit: Emit<'_>,
    ) {
        let at = traced.now.monotonic;
        let held = self.known.enter(traced.key());
        let (begun, whole) = held.arrived.unwrap_or((at, at));
        held.waits = Some((at, traced.waiting(node)));
        let is_made_here = from.is_none() && traced.is_source(&self.ids);
        let name = if is_made_here { "create" } else { "receive" };
        let parent = match from {
            _ if is_made_here => None,
            None => traced.origin(),
            Some(from) => {
                let (from, to) = (from.to_string(), self.name.as_str());
                let sent = Subject::Send(&from, to);
                Some(Parent::Elsewhere(
                    traced.trace.span(sent, traced.id.fragment),
                ))
            }
        };
        let mut span = traced.span(name, parent, begun).with("octets", octets);
        span.id = traced.anchor();
        span.ended_ns = traced.unix(whole);
        if let Some(from) = from {
            span = span.with("neighbour", from.to_string());
        }
        if !is_made_here {
            span.kind = Kind::Consumer;
        }
        emit(span);
        emit(traced.span("store", Some(Parent::Here(traced.anchor())), whole));
    }

    /// A bundle waited until a transfer began at `until`. After one that failed it waits again, for `again`.
    fn waited(
        &mut self,
        traced: &Traced<'_>,
        until: Instant,
        again: Option<Option<Waiting>>,
        emit: Emit<'_>,
    ) {
        let Some(held) = self.known.get_mut(&traced.key()) else {
            return;
        };
        let waited = held.waits.take();
        // Copies for other neighbours wait on.
        held.waits = Some((traced.now.monotonic, again.flatten()));
        emit_wait(traced, waited, until, emit);
    }

    /// The span of a bundle's end here, after that of its wait.
    fn ended(&mut self, traced: &Traced<'_>, name: &'static str, emit: Emit<'_>) -> Span {
        let held = self.known.remove(&traced.key());
        let parent = match &held {
            Some(held) if held.waits.is_some() || held.handed_over.is_some() => traced.parent(),
            _ => traced.origin(),
        };
        let waited = held.and_then(|held| held.waits);
        emit_wait(traced, waited, traced.now.monotonic, emit);
        traced.at_once(name, parent)
    }
}

/// Tells of a wait, where there was one.
fn emit_wait(
    traced: &Traced<'_>,
    waited: Option<(Instant, Option<Waiting>)>,
    until: Instant,
    emit: Emit<'_>,
) {
    let Some((since, waiting)) = waited.filter(|(since, _)| *since < until) else {
        return;
    };
    let mut span = traced.span("wait", traced.parent(), since);
    span.ended_ns = traced.unix(until);
    if let Some(Waiting { reason, next_hop }) = waiting {
        span = span.with("wait.reason", reason);
        if let Some(next_hop) = next_hop {
            span = span.with("wait.next_hop", next_hop);
        }
    }
    emit(span);
}

impl Traced<'_> {
    fn key(&self) -> super::known::Key {
        key(self.trace, self.id.fragment)
    }

    /// The span in which the bundle came to be at this node.
    fn anchor(&self) -> super::identity::SpanId {
        self.trace.span(Subject::At(&self.at), self.id.fragment)
    }

    fn parent(&self) -> Option<Parent> {
        Some(Parent::Here(self.anchor()))
    }

    /// The span in which the bundle was created.
    fn origin(&self) -> Option<Parent> {
        let source = self.id.source.node_id()?.to_string();
        let created = self.trace.span(Subject::At(&source), None);
        Some(match source == self.at {
            true => Parent::Here(created),
            false => Parent::Elsewhere(created),
        })
    }

    fn is_source(&self, ids: &BTreeSet<NodeId>) -> bool {
        self.id
            .source
            .node_id()
            .is_some_and(|node| ids.contains(&node))
    }

    fn waiting(&self, node: &Node) -> Option<Waiting> {
        Waiting::of(node, self.now, self.id)
    }

    /// A moment of this run in nanoseconds since the beginning of 1970.
    fn unix(&self, at: Instant) -> u64 {
        self.start_ns.saturating_add(at.as_nanos())
    }

    /// A span from `begun` until now.
    fn span(&self, name: &'static str, parent: Option<Parent>, begun: Instant) -> Span {
        let begun_ns = self.unix(begun);
        let id = (self.trace).span(Subject::Other(name, &self.at, begun_ns), self.id.fragment);
        let span = Span {
            trace: self.trace,
            id,
            parent,
            name,
            kind: Kind::Internal,
            begun_ns,
            ended_ns: self.unix(self.now.monotonic).max(begun_ns),
            attributes: Vec::new(),
            fault: None,
        };
        span.with("bundle", self.id.to_string())
            .with_fragment(self.id.fragment)
    }

    fn at_once(&self, name: &'static str, parent: Option<Parent>) -> Span {
        self.span(name, parent, self.now.monotonic)
    }

    /// The span of a transfer.
    fn transfer(&self, to: &NodeId, part: Option<FragmentRange>, begun: Instant) -> Span {
        let mut span = self
            .span("send", self.parent(), begun)
            .with("neighbour", to.to_string());
        if let Some(range) = part.filter(|part| Some(*part) != self.id.fragment) {
            span = span
                .with("part.offset", range.offset)
                .with("part.length", range.length);
        }
        span.kind = Kind::Producer;
        span
    }
}
