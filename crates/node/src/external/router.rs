//! A router that is a program, and the state of each bundle that it decides about.
//!
//! The program is asked about each bundle once, and about few at a time; whatever it says, also later, holds until it says something
//! else. Without it bundles go where it has said, and others wait: after the fallback's time they go by routes, where there are any. A
//! program that comes is told all anew.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Instant, NodeId};

use super::wire::{Mode, Question, Told, VERSION};
use crate::config::ExternalPolicy;
use crate::driver::StreamId;
use crate::view::ProgramView;

/// Octets for a program that wait for its socket before it is asked no more.
const ASKED_OCTETS: usize = 64 << 10;

/// Octets for a program that wait for its socket before it counts as one that does not read.
const UNREAD_OCTETS: usize = 1 << 20;

/// The time before a program is asked again about a bundle that none of its next hops may have.
const AGAIN: Duration = Duration::from_secs(5);

/// The router.
pub(crate) struct External {
    pub(super) name: String,
    pub(super) patterns: Vec<String>,
    pub(super) policy: ExternalPolicy,
    /// The connection of the program, while it is there.
    pub(super) session: Option<StreamId>,
    /// Octets for the program.
    pub(super) out: Vec<u8>,
    /// Why the connection is to end.
    pub(super) fault: Option<String>,
    pub(super) counts: ExternalCounts,
    pub(super) next_number: u64,
    pub(super) bundles: BTreeMap<u64, Routed>,
    pub(super) numbers: BTreeMap<BundleKey, u64>,
    /// Bundles about which the program is to be asked.
    pub(super) unasked: BTreeSet<u64>,
    /// Those about which it was asked, by when its answer is late.
    pub(super) asked: BTreeSet<(Instant, u64)>,
    /// Bundles whose timer is to be set.
    pub(super) fresh: Vec<u64>,
    /// When bundles without a decision go by routes, and others are asked about again.
    pub(super) timers: BTreeSet<(Instant, u64)>,
    /// Bundles for each neighbour.
    pub(super) wanted: BTreeMap<NodeId, BTreeSet<u64>>,
    /// Bundles for each neighbour that rest until then.
    pub(super) paused: BTreeMap<NodeId, BTreeSet<(Instant, u64)>>,
    pub(super) up: BTreeSet<NodeId>,
    /// Neighbours of which the program is to be told.
    pub(super) changed: BTreeSet<NodeId>,
    /// Adverts for neighbours, the last to each.
    pub(super) adverts: BTreeMap<NodeId, Vec<u8>>,
    pub(super) wishes: VecDeque<Wish>,
}

/// Counts of one program since the node's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExternalCounts {
    /// Times that it came.
    pub(crate) sessions: u64,
    /// Questions.
    pub(crate) questions: u64,
    /// Decisions that were taken.
    pub(crate) decisions: u64,
    /// Decisions about bundles that are not held.
    pub(crate) stale: u64,
}

/// An order of a router to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The bundle goes by routes, as the program says.
    Leave(BundleKey),
    /// No decision has come: it goes by routes, if there are any.
    FallBack(BundleKey),
    /// The bundle goes by routes no longer.
    Return(BundleKey),
    /// All nodes that were to have the bundle have it.
    Spent(BundleKey),
    /// The bundle is to be dropped, for this reason.
    Discard(BundleKey, u8),
}

/// The standing of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is no decision.
    Undecided,
    /// The bundle waits.
    Held,
    /// The bundle goes to these nodes.
    Forward(Mode, Vec<NodeId>),
    /// The bundle goes by routes.
    Left,
}

/// A bundle.
pub(super) struct Routed {
    pub(super) key: BundleKey,
    pub(super) standing: Standing,
    /// When the answer of the program is late.
    pub(super) asked: Option<Instant>,
    /// Its timer.
    pub(super) timer: Option<Instant>,
    /// Whether the program knows of the bundle.
    pub(super) is_told: bool,
    /// Nodes that were given the bundle.
    pub(super) given: Vec<NodeId>,
    /// Nodes that were given the bundle since the last decision.
    pub(super) done: Vec<NodeId>,
    /// Nodes that are to have none.
    pub(super) barred: Vec<NodeId>,
    /// Nodes that have it on their way.
    pub(super) taken: Vec<NodeId>,
}

impl Routed {
    /// The neighbours that it goes to.
    pub(super) fn hops(&self) -> &[NodeId] {
        match &self.standing {
            Standing::Forward(_, hops) => hops,
            Standing::Undecided | Standing::Held | Standing::Left => &[],
        }
    }

    /// Whether a neighbour is to have it now.
    pub(super) fn is_for(&self, peer: &NodeId) -> bool {
        let Standing::Forward(mode, hops) = &self.standing else {
            return false;
        };
        let is_open = hops.contains(peer)
            && ![&self.done, &self.barred, &self.taken]
                .iter()
                .any(|nodes| nodes.contains(peer));
        match mode {
            Mode::One => is_open && self.taken.is_empty() && self.done.is_empty(),
            Mode::Each => is_open,
            Mode::Keep => is_open && !self.given.contains(peer),
        }
    }

    /// Whether all that were to have it have it, and it is to go.
    pub(super) fn is_spent(&self) -> bool {
        let Standing::Forward(mode, hops) = &self.standing else {
            return false;
        };
        let has_it = |peer| self.done.contains(peer) || self.barred.contains(peer);
        match mode {
            Mode::One => !self.done.is_empty(),
            Mode::Each => !self.done.is_empty() && hops.iter().all(has_it),
            Mode::Keep => false,
        }
    }

    fn is_stuck(&self) -> bool {
        let Standing::Forward(mode, hops) = &self.standing else {
            return false;
        };
        *mode != Mode::Keep
            && self.done.is_empty()
            && self.taken.is_empty()
            && hops.iter().all(|peer| self.barred.contains(peer))
    }
}

pub(super) fn add(nodes: &mut Vec<NodeId>, peer: &NodeId) {
    if !nodes.contains(peer) {
        nodes.push(peer.clone());
    }
}

impl External {
    /// The router of this name, of which nothing is known but its patterns.
    pub(crate) fn new(name: &str, policy: ExternalPolicy) -> Self {
        Self {
            name: name.into(),
            patterns: Vec::new(),
            policy,
            session: None,
            out: Vec::new(),
            fault: None,
            counts: ExternalCounts::default(),
            next_number: 1,
            bundles: BTreeMap::new(),
            numbers: BTreeMap::new(),
            unasked: BTreeSet::new(),
            asked: BTreeSet::new(),
            fresh: Vec::new(),
            timers: BTreeSet::new(),
            wanted: BTreeMap::new(),
            paused: BTreeMap::new(),
            up: BTreeSet::new(),
            changed: BTreeSet::new(),
            adverts: BTreeMap::new(),
            wishes: VecDeque::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The router decides about destinations of this pattern, too.
    pub(crate) fn add_pattern(&mut self, pattern: &str) {
        self.patterns.push(pattern.into());
    }

    pub(crate) const fn session(&self) -> Option<StreamId> {
        self.session
    }

    /// Its state, for an operator. Looks at all bundles.
    pub(crate) fn view(&self) -> ProgramView {
        let bundles = self.bundles.values();
        let undecided = bundles.filter(|it| it.standing == Standing::Undecided);
        ProgramView {
            name: self.name.clone(),
            patterns: self.patterns.clone(),
            is_there: self.session.is_some(),
            sessions: self.counts.sessions,
            undecided: undecided.count(),
            unanswered: self.asked.len(),
            questions: self.counts.questions,
            decisions: self.counts.decisions,
            stale: self.counts.stale,
        }
    }

    /// Whether there is no decision about a bundle.
    pub(crate) fn is_undecided(&self, key: BundleKey) -> bool {
        let number = self.numbers.get(&key);
        number
            .and_then(|number| self.bundles.get(number))
            .is_some_and(|routed| routed.standing == Standing::Undecided)
    }

    /// Whether all that were to have a bundle have it.
    pub(crate) fn is_spent(&self, key: BundleKey) -> bool {
        let number = self.numbers.get(&key);
        number
            .and_then(|number| self.bundles.get(number))
            .is_some_and(Routed::is_spent)
    }

    /// Tell the program something, if it is there. One that does not read is given up.
    pub(crate) fn tell(&mut self, told: &Told<'_>) {
        if self.session.is_none() || self.fault.is_some() {
            return;
        }
        if self.out.len() > UNREAD_OCTETS {
            self.fault = Some("the program does not read".into());
            return;
        }
        told.put(&mut self.out);
    }

    /// The program is there: it is told all anew.
    pub(crate) fn begin(&mut self, stream: StreamId, nodes: &[NodeId]) {
        self.session = Some(stream);
        self.out = Vec::new();
        self.fault = None;
        self.counts.sessions += 1;
        self.changed = self.up.clone();
        self.forget_questions();
        self.unasked = self.bundles.keys().copied().collect();
        let patterns = core::mem::take(&mut self.patterns);
        self.tell(&Told::Welcome {
            version: VERSION,
            nodes,
            questions: u64::from(self.policy.questions),
            answer_ms: self.policy.answer_ms,
            patterns: &patterns,
        });
        self.patterns = patterns;
    }

    /// The program is gone, and these octets for it are left.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        self.session = None;
        self.fault = None;
        self.changed.clear();
        self.forget_questions();
        core::mem::take(&mut self.out)
    }

    /// Why the connection is to end.
    pub(crate) fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    pub(crate) fn has_octets(&self) -> bool {
        !self.out.is_empty()
    }

    /// Octets for the program, at most so many.
    pub(crate) fn take_octets(&mut self, limit: usize) -> Vec<u8> {
        match self.out.len() <= limit {
            true => core::mem::take(&mut self.out),
            false => self.out.drain(..limit).collect(),
        }
    }

    /// False while what the program says is to wait: it does not read.
    pub(crate) fn wants_octets(&self) -> bool {
        self.out.len() < UNREAD_OCTETS
    }

    /// The next thing that the node is to do.
    pub(crate) fn poll_wish(&mut self) -> Option<Wish> {
        self.wishes.pop_front()
    }

    fn forget_questions(&mut self) {
        for (_, number) in core::mem::take(&mut self.asked) {
            self.unasked.insert(number);
        }
        for routed in self.bundles.values_mut() {
            routed.asked = None;
            routed.is_told = false;
        }
    }

    /// Timers that are due.
    pub(crate) fn attend(&mut self, now: Instant) {
        for number in core::mem::take(&mut self.fresh) {
            let wait = match self.bundles.get(&number).map(|it| &it.standing) {
                Some(Standing::Undecided) => self.fallback(),
                Some(Standing::Held) => Some(AGAIN),
                _ => None,
            };
            self.set_timer(number, wait.map(|wait| now + wait));
        }
        while let Some(&(at, number)) = self.timers.first()
            && at <= now
        {
            self.set_timer(number, None);
            let Some(routed) = self.bundles.get_mut(&number) else {
                continue;
            };
            match routed.standing {
                Standing::Undecided => {
                    self.wishes.push_back(Wish::FallBack(routed.key));
                    let again = self.fallback();
                    self.set_timer(number, again.map(|wait| now + wait));
                }
                Standing::Held => self.undecide(number),
                Standing::Forward(..) | Standing::Left => {}
            }
        }
        if let Some(&(at, _)) = self.asked.first()
            && at <= now
            && self.fault.is_none()
        {
            let patience = self.policy.answer_ms;
            self.fault = Some(alloc::format!(
                "a question had no answer within {patience} ms"
            ));
        }
    }

    /// When [`External::attend`] wants to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let asked = self.asked.first().map(|&(at, _)| at);
        let timer = self.timers.first().map(|&(at, _)| at);
        asked.into_iter().chain(timer).min()
    }

    fn fallback(&self) -> Option<Duration> {
        let wait = self.policy.fallback_ms;
        (wait > 0).then(|| Duration::from_millis(wait))
    }

    pub(super) fn set_timer(&mut self, number: u64, at: Option<Instant>) {
        let Some(routed) = self.bundles.get_mut(&number) else {
            return;
        };
        if let Some(before) = core::mem::replace(&mut routed.timer, at) {
            self.timers.remove(&(before, number));
        }
        if let Some(at) = at {
            self.timers.insert((at, number));
        }
    }

    /// A neighbour of which the program is to be told, and whether it is there.
    pub(crate) fn poll_contact(&mut self) -> Option<(NodeId, bool)> {
        let peer = self.changed.pop_first()?;
        let is_up = self.up.contains(&peer);
        Some((peer, is_up))
    }

    fn may_ask(&self) -> bool {
        self.asked.len() < usize::try_from(self.policy.questions).unwrap_or(usize::MAX)
            && self.out.len() < ASKED_OCTETS
            && !self.unasked.is_empty()
    }

    /// A bundle about which the program is to be asked now.
    pub(crate) fn poll_question(&mut self) -> Option<(u64, BundleKey)> {
        if self.session.is_none() || self.fault.is_some() || !self.may_ask() {
            return None;
        }
        let number = self.unasked.pop_first()?;
        Some((number, self.bundles.get(&number)?.key))
    }

    /// Ask about a bundle; the question has its number.
    pub(crate) fn ask(&mut self, now: Instant, mut question: Question) {
        let number = question.number;
        let Some(routed) = self.bundles.get_mut(&number) else {
            return;
        };
        question.given.clone_from(&routed.given);
        let late = now + Duration::from_millis(self.policy.answer_ms);
        routed.asked = Some(late);
        routed.is_told = true;
        self.asked.insert((late, number));
        self.counts.questions += 1;
        self.tell(&Told::Bundle(&question));
    }

    /// There is no decision about a bundle any more.
    pub(super) fn undecide(&mut self, number: u64) {
        if let Some(routed) = self.bundles.get_mut(&number) {
            routed.standing = Standing::Undecided;
            self.fresh.push(number);
            if routed.asked.is_none() {
                self.unasked.insert(number);
            }
        }
    }

    /// A question is answered, or nobody is to answer it any more.
    pub(super) fn answered(&mut self, number: u64) {
        if let Some(routed) = self.bundles.get_mut(&number)
            && let Some(late) = routed.asked.take()
        {
            self.asked.remove(&(late, number));
        }
        self.unasked.remove(&number);
    }

    /// Neighbours may have a bundle again, as its standing says.
    pub(super) fn offer(&mut self, number: u64) {
        let Some(routed) = self.bundles.get(&number) else {
            return;
        };
        if let Standing::Forward(_, hops) = &routed.standing {
            for peer in hops.iter().filter(|peer| routed.is_for(peer)) {
                self.wanted.entry(peer.clone()).or_default().insert(number);
            }
        }
        if routed.is_spent() {
            self.wishes.push_back(Wish::Spent(routed.key));
        } else if routed.is_stuck() {
            self.pause(number);
        }
    }

    /// None of a bundle's next hops may have it: the program is asked again after a while.
    fn pause(&mut self, number: u64) {
        if let Some(routed) = self.bundles.get_mut(&number) {
            routed.standing = Standing::Held;
            self.answered(number);
            self.fresh.push(number);
        }
    }

    /// A neighbour's choice no more.
    pub(super) fn unwant(&mut self, peer: &NodeId, number: u64) {
        if let Some(numbers) = self.wanted.get_mut(peer) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.wanted.remove(peer);
            }
        }
    }

    pub(super) fn number(&mut self, key: BundleKey) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let routed = Routed {
            key,
            standing: Standing::Undecided,
            asked: None,
            timer: None,
            is_told: false,
            given: Vec::new(),
            done: Vec::new(),
            barred: Vec::new(),
            taken: Vec::new(),
        };
        self.bundles.insert(number, routed);
        self.numbers.insert(key, number);
        self.undecide(number);
        number
    }
}

#[cfg(any(test, feature = "testing"))]
impl External {
    /// The invariants between any two events, for the bundles that are held.
    ///
    /// # Panics
    /// When it does not.
    pub(super) fn check(&self, held: &BTreeSet<BundleKey>) {
        assert!(self.numbers.keys().eq(held), "bundles are not those held");
        assert_eq!(self.numbers.len(), self.bundles.len());
        let questions = usize::try_from(self.policy.questions).unwrap_or(usize::MAX);
        assert!(self.asked.len() <= questions, "too many questions");
        let is_held = |number: &u64| self.bundles.contains_key(number);
        assert!(self.unasked.iter().all(is_held));
        for (at, number) in &self.asked {
            let routed = self.bundles.get(number);
            assert_eq!(routed.and_then(|it| it.asked), Some(*at));
        }
        for (at, number) in &self.timers {
            let routed = self.bundles.get(number);
            assert_eq!(routed.and_then(|it| it.timer), Some(*at));
        }
        for (peer, numbers) in &self.wanted {
            assert!(!numbers.is_empty());
            assert!(numbers.iter().all(is_held), "gone, and wanted by {peer}");
        }
        for (number, routed) in &self.bundles {
            assert_eq!(self.numbers.get(&routed.key), Some(number));
        }
    }
}
