//! The time for which a medium is in its place and the node is there: bundles go both ways.

mod medium;

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use dhow_bundle::{EidPattern, EndpointId, NodeId};
use dhow_client::ferry::stick::Look;
use dhow_client::ferry::{FileKind, Found, Key, Layer, Stick, Told, Writable};
use serde_json::Value;

use super::Ferry;
use super::clock::Clock;
use super::file::{BundleFile, Fault};
use super::leaving::{FlushError, Leaving, News};
use super::lines::{Lines, Subject};
use super::taking::{GiveError, Outcome, Taking};
use crate::admin::{Admin, path_segment};
use crate::failure::Failure;
use crate::interrupt::{self, LOOK};

/// Files that are looked at before the node is listened to.
const FILES_A_TURN: usize = 64;

/// The time between two looks whether the medium is there.
const PRESENCE: Duration = Duration::from_millis(300);

/// The time for which nothing happens before all is exchanged.
const QUIET: Duration = Duration::from_secs(1);

/// The same where the medium has not taken a bundle: meanwhile the node offers smaller ones.
const QUIET_WHEN_FULL: Duration = Duration::from_millis(1_500);

/// Acknowledgments of which it is known that the node has their bundles still, at most; of the others the node is asked at each look.
const AWAITED_MAX: usize = 65_536;

/// Messages of the node that are heard before files are looked at again.
const MESSAGES_A_TURN: usize = 256;

/// Files that were told to be torn, at most; further ones are counted alone.
const TOLD_MAX: usize = 1_000;

/// Why a visit is over.
#[derive(Debug)]
pub enum End {
    /// The medium is gone.
    Away,
    /// There is no medium that can be used, why, and what the user may do.
    Unusable(String, String),
    /// The node is gone, and why.
    NodeGone(String),
    /// The user has enough.
    Interrupted,
    /// All is exchanged; `true` where something was left behind.
    Exchanged(bool),
    /// The command cannot go on.
    Failed(Failure),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A medium and a node.
pub struct Visit<'a> {
    options: &'a Ferry,
    lines: &'a mut Lines,
    admin: &'a Admin,
    node: NodeId,
    nodes: Vec<NodeId>,
    ways: Vec<EidPattern>,
    clock: Clock,
    peer: NodeId,
    stick: Stick,
    /// Whether the routes of --for are in the node.
    is_routed: bool,
    layer: Layer,
    leaving: Leaving,
    taking: Taking,
    look: Option<Look>,
    look_begun: Instant,
    next_look: Instant,
    /// Whole looks since something happened.
    quiet_looks: u32,
    moved: Instant,
    torn: HashSet<String>,
    /// Acknowledgments of bundles that the node has, and has not offered yet.
    awaited: HashSet<Key>,
    /// Why the medium takes no more, once it was told.
    full: Option<String>,
    leaves_something: bool,
}

impl<'a> Visit<'a> {
    /// Connects both.
    pub fn begin(
        options: &'a Ferry,
        lines: &'a mut Lines,
        admin: &'a Admin,
        (node, stick): (NodeId, Stick),
    ) -> Result<Self, End> {
        let peer = options.peer.clone().unwrap_or_else(|| stick.id().clone());
        let mut leaving = Leaving::new(options.ownership());
        let mut look = stick.look().map_err(|_| End::Away)?;
        while let Some(found) = look.next(&stick).map_err(|_| End::Away)? {
            if found.writer != stick.own() {
                continue;
            }
            match found.name.kind {
                FileKind::Bundle(_) => leaving.has_file(found),
                FileKind::Acknowledgment if stick.read_acknowledgment(&found).is_ok() => {
                    leaving.is_acknowledged(found.name.key);
                }
                FileKind::Acknowledgment | FileKind::Part => {}
            }
        }
        let socket = options.socket()?;
        let layer = Layer::connect(&socket, "ferry", &peer, stick.octets_max())
            .map_err(|error| options.unconnected(&socket, &error))?;
        let now = Instant::now();
        let mut visit = Self {
            options,
            lines,
            admin,
            node,
            nodes: Vec::new(),
            ways: Vec::new(),
            clock: Clock::beside(None),
            peer,
            stick,
            is_routed: false,
            layer,
            leaving,
            taking: Taking::default(),
            look: None,
            look_begun: now,
            next_look: now,
            quiet_looks: 0,
            moved: now,
            torn: HashSet::new(),
            awaited: HashSet::new(),
            full: None,
            leaves_something: false,
        };
        visit.route()?;
        Ok(visit)
    }

    /// Exchanges bundles until there is a reason to end.
    pub fn run(&mut self) -> End {
        let end = loop {
            match self.turn() {
                Ok(()) => {}
                Err(end) => break end,
            }
        };
        if !matches!(end, End::NodeGone(_)) {
            for pattern in self.options.patterns() {
                // The node may end meanwhile; its routes end with it.
                let _ = self.unroute(&pattern);
            }
        }
        end
    }

    fn turn(&mut self) -> Result<(), End> {
        if interrupt::is_requested() {
            return Err(End::Interrupted);
        }
        self.listen()?;
        self.give()?;
        self.look()?;
        if self.options.once && self.is_exchanged() {
            return Err(End::Exchanged(self.is_something_left()));
        }
        Ok(())
    }

    fn is_exchanged(&self) -> bool {
        let quiet = match self.leaving.refused() {
            0 => QUIET,
            _ => QUIET_WHEN_FULL,
        };
        self.quiet_looks >= 2
            && self.moved.elapsed() >= quiet
            && !self.leaving.is_busy()
            && !self.taking.is_busy()
    }

    fn stir(&mut self) {
        self.moved = Instant::now();
        self.quiet_looks = 0;
    }

    /// Hears what the node says.
    fn listen(&mut self) -> Result<(), End> {
        let gone = |error: io::Error| End::NodeGone(error.to_string());
        let is_busy = self.taking.is_giving() || self.look.is_some();
        let patience = if is_busy {
            Duration::from_millis(1)
        } else {
            LOOK
        };
        let has_come = self.layer.listen(patience).map_err(gone)?;
        let mut heard = 0;
        while let Some(told) = self.layer.hear().map_err(gone)? {
            self.hear(told)?;
            heard += 1;
            if heard >= MESSAGES_A_TURN || self.leaving.is_full() {
                self.flush()?;
                heard = 0;
            }
        }
        if !has_come || !self.leaving.has_incoming() {
            self.flush()?;
        }
        Ok(())
    }

    fn hear(&mut self, told: Told) -> Result<(), End> {
        let gone = |error: io::Error| End::NodeGone(error.to_string());
        match told {
            Told::Welcome { nodes } => self.nodes = nodes,
            Told::Farewell { reason } => return Err(End::NodeGone(reason)),
            Told::Begin { transfer, octets } => self.leaving.begin(transfer, octets),
            Told::Data(octets) => {
                let news = self.leaving.take(&self.stick, &mut self.layer, &octets);
                if let Some(news) = news.map_err(gone)? {
                    self.tell(news)?;
                }
            }
            Told::Abort { .. } => self.leaving.abort(),
            Told::Acknowledged { transfer } => {
                let outcome = self.taking.acknowledged(&self.stick, &self.node, transfer);
                self.settle(outcome)?;
            }
            Told::Refused { transfer, reason } => {
                let about = (transfer, reason);
                let outcome = self.taking.refused(&self.stick, &self.node, about);
                self.settle(outcome)?;
            }
            Told::Other => {}
        }
        Ok(())
    }

    fn settle(&mut self, outcome: io::Result<Option<Outcome>>) -> Result<(), End> {
        match outcome {
            Ok(None) => Ok(()),
            Ok(Some(Outcome::Taken(subject))) => {
                self.stir();
                Ok(self.lines.bundle("taken", &subject)?)
            }
            Ok(Some(Outcome::Refused(subject))) => {
                self.leaves_something = true;
                Ok(self.lines.bundle("refused", &subject)?)
            }
            Ok(Some(Outcome::Torn(name))) => self.tear(&name, "its octets are others"),
            Err(error) => self.trouble(&error),
        }
    }

    fn tell(&mut self, news: News) -> Result<(), End> {
        match news {
            News::Written(subject) => Ok(self.lines.bundle("written", &subject)?),
            News::Full(why) => self.fill(why),
            // It was told when the medium was looked at.
            News::ReadOnly => Ok(()),
            News::Trouble(error) => self.trouble(&error),
            News::Acknowledged(subject) => {
                self.stir();
                self.lines.other("acknowledged", &subject.id.to_string())?;
                match self.stick.writable() {
                    Writable::Yes | Writable::Full => self
                        .stick
                        .remove_acknowledgment(subject.key())
                        .or_else(|error| self.trouble(&error)),
                    Writable::No => Ok(()),
                }
            }
            News::Unreadable(why) => {
                self.leaves_something = true;
                self.lines
                    .note(&format!("cannot read a bundle of the node: {why}"));
                Ok(())
            }
        }
    }

    fn tear(&mut self, name: &str, why: &str) -> Result<(), End> {
        self.leaves_something = true;
        if self.torn.len() < TOLD_MAX && self.torn.insert(name.to_owned()) {
            self.lines.other("torn", name)?;
            self.lines.note(&format!("{name} is left: {why}"));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), End> {
        if self.leaving.has_finished() {
            self.stir();
        }
        match self.leaving.flush(&self.stick, &mut self.layer) {
            Ok(written) => {
                for subject in written {
                    self.full = None;
                    self.tell(News::Written(subject))?;
                }
                Ok(())
            }
            // Nothing of it was told, and the node has all of it.
            Err(FlushError::Stick(_)) if !self.stick.is_here() => Err(End::Away),
            Err(FlushError::Stick(error)) => Err(End::NodeGone(error.to_string())),
            Err(FlushError::Node(error)) => Err(End::NodeGone(error.to_string())),
        }
    }

    fn give(&mut self) -> Result<(), End> {
        if !self.taking.is_giving() {
            return Ok(());
        }
        self.stir();
        match self.taking.give(&mut self.layer) {
            Ok(outcome) => self.settle(Ok(outcome)),
            Err(GiveError::Node(error)) => Err(End::NodeGone(error.to_string())),
            // The bundle has begun: a new connection takes it back.
            Err(GiveError::Stick(_)) if !self.stick.is_here() => Err(End::Away),
            Err(GiveError::Stick(error)) => Err(End::NodeGone(error.to_string())),
        }
    }

    /// Looks at some files.
    fn look(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if self.look.is_none() {
            if now < self.next_look {
                return match self.stick.is_here() {
                    true => Ok(()),
                    false => Err(End::Away),
                };
            }
            self.prepare()?;
            self.look = Some(self.stick.look().map_err(|_| End::Away)?);
            self.look_begun = now;
        }
        for _ in 0..FILES_A_TURN {
            if !self.taking.has_room() {
                return Ok(());
            }
            let Some(look) = &mut self.look else {
                return Ok(());
            };
            match look.next(&self.stick) {
                Ok(Some(found)) => self.see(found)?,
                Ok(None) => return self.end_look(),
                Err(error) => self.trouble(&error)?,
            }
        }
        Ok(())
    }

    /// Asks the node for its time and its routes.
    fn prepare(&mut self) -> Result<(), End> {
        if !self.stick.is_here() {
            return Err(End::Away);
        }
        self.look_at_medium()?;
        let unanswered = |failure: Failure| End::NodeGone(failure.to_string());
        let node = self.admin.read("/v1/node").map_err(unanswered)?;
        self.clock = Clock::beside(node.get("dtn_time_ms").and_then(Value::as_u64));
        let routes = self.admin.read("/v1/routes").map_err(unanswered)?;
        let peer = self.peer.to_string();
        let text = |route: &Value, key: &str| Some(route.get(key)?.as_str()?.to_owned());
        let routes = routes.as_array().into_iter().flatten().filter(|route| {
            let is_usable = route.get("usable").and_then(Value::as_bool);
            is_usable == Some(true) && text(route, "via").as_ref() != Some(&peer)
        });
        self.ways = routes
            .filter_map(|route| text(route, "to")?.parse().ok())
            .collect();
        if self.stick.writable() == Writable::No {
            return Ok(());
        }
        let paid = self.taking.pay(&self.stick, self.clock.now());
        paid.or_else(|error| self.trouble(&error))
    }

    fn end_look(&mut self) -> Result<(), End> {
        self.look = None;
        self.quiet_looks = self.quiet_looks.saturating_add(1);
        let gone = |error: io::Error| End::NodeGone(error.to_string());
        if !self.stick.is_here() {
            return Err(End::Away);
        }
        let missing = self.leaving.kept_files();
        let missing = missing.filter(|found| !self.stick.has(found));
        let missing: Vec<Key> = missing.map(|found| found.name.key).collect();
        for key in missing {
            // Its acknowledgment came before it went, and is seen at the next look.
            if !self.stick.is_acknowledged(key) {
                self.leaving.lost_file(&mut self.layer, key).map_err(gone)?;
            }
        }
        if let Some(now) = self.clock.now() {
            self.leaving.expire(&mut self.layer, now).map_err(gone)?;
        }
        // A look takes no more than half of the time.
        let pause = self.options.interval.max(self.look_begun.elapsed());
        self.next_look = Instant::now() + pause.max(PRESENCE.min(self.options.interval));
        Ok(())
    }

    fn see(&mut self, found: Found) -> Result<(), End> {
        let is_own = found.writer == self.stick.own();
        match found.name.kind {
            FileKind::Acknowledgment if is_own => self.see_acknowledgment(&found),
            FileKind::Bundle(_) if self.taking.is_new(&found) => self.see_bundle(found, is_own),
            _ => Ok(()),
        }
    }

    fn see_acknowledgment(&mut self, found: &Found) -> Result<(), End> {
        let Ok(note) = self.stick.read_acknowledgment(found) else {
            return Ok(());
        };
        let gone = |error: io::Error| End::NodeGone(error.to_string());
        let key = found.name.key;
        let is_done = self.leaving.acknowledged(&mut self.layer, key);
        let is_done = is_done.map_err(gone)?;
        let is_old = note.expires.zip(self.clock.now());
        let is_old = is_old.is_some_and(|(at, now)| at < now);
        if is_done {
            self.stir();
            self.lines.other("acknowledged", &note.bundle)?;
        }
        if self.stick.writable() == Writable::No
            || !(is_done || is_old || self.is_needless(key, &note.bundle)?)
        {
            return Ok(());
        }
        let removed = self.stick.remove(found);
        removed.or_else(|error| self.trouble(&error))
    }

    /// Whether the node has not the bundle of an acknowledgment, for which nobody waits then: it was handed over, or has expired there.
    fn is_needless(&mut self, key: Key, bundle: &str) -> Result<bool, End> {
        if self.awaited.contains(&key) {
            return Ok(false);
        }
        let has = |name: &str| {
            let path = format!("/v1/why/{}", path_segment(name));
            let answer = self.admin.has(&path);
            answer.map_err(|failure| End::NodeGone(failure.to_string()))
        };
        // Of a bundle that leaves as fragments the node has the whole.
        let whole = whole(bundle);
        let has = has(bundle)? || (whole != bundle && has(whole)?);
        if has && self.awaited.len() < AWAITED_MAX {
            self.awaited.insert(key);
        }
        Ok(!has)
    }

    fn see_bundle(&mut self, found: Found, is_own: bool) -> Result<(), End> {
        let bundle = match BundleFile::open(&self.stick, &found) {
            Ok(bundle) => bundle,
            Err(Fault::System(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(Fault::System(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                self.taking.leave(&found);
                return self.tear(&found.text, "it is not a regular file");
            }
            Err(Fault::System(error)) => return self.trouble(&error),
            Err(Fault::Torn(why)) if is_own => return self.renew(&found, &why),
            Err(Fault::Torn(why)) => {
                self.taking.leave(&found);
                return self.tear(&found.text, &why);
            }
        };
        let left = self.clock.left_ms(&bundle.header, bundle.modified);
        if left.is_some_and(|left| left < 0) && self.stick.writable() != Writable::No {
            let subject = Subject::of(&bundle.header, bundle.octets);
            let removed = self.stick.remove(&found);
            removed.or_else(|error| self.trouble(&error))?;
            return Ok(self.lines.bundle("expired", &subject)?);
        }
        if is_own || !self.is_wanted(&bundle.header.primary.destination) {
            return Ok(());
        }
        self.stir();
        let begun = self
            .taking
            .begin(&mut self.layer, self.clock, found, bundle);
        begun.map_err(|error| End::NodeGone(error.to_string()))
    }

    /// A file of this node is torn: the node writes it again if it has the bundle still.
    fn renew(&mut self, found: &Found, why: &str) -> Result<(), End> {
        self.tear(&found.text, why)?;
        if self.stick.writable() != Writable::No {
            let removed = self.stick.remove(found);
            removed.or_else(|error| self.trouble(&error))?;
        }
        let told = self.leaving.lost_file(&mut self.layer, found.name.key);
        told.map_err(|error| End::NodeGone(error.to_string()))
    }

    /// Whether this node is the destination's, or nearer to it by a route that can be used.
    fn is_wanted(&self, destination: &EndpointId) -> bool {
        self.nodes.iter().any(|node| node.has(destination))
            || self.options.takes(destination)
            || self.ways.iter().any(|way| way.matches(destination))
    }
}

/// The name of a bundle without that of its fragment (`@OFFSET+LENGTH`).
fn whole(bundle: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    match bundle.rsplit_once('@') {
        Some((whole, part))
            if part
                .split_once('+')
                .is_some_and(|(offset, length)| is_number(offset) && is_number(length)) =>
        {
            whole
        }
        _ => bundle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_is_looked_for_as_the_bundle_that_it_is_of() {
        for (bundle, expected) in [
            ("ipn:1.1/1000/7@0+5", "ipn:1.1/1000/7"),
            ("ipn:1.1/1000/7", "ipn:1.1/1000/7"),
            ("dtn://a@b/1/2", "dtn://a@b/1/2"),
            ("dtn://a@b/1/2@30+4", "dtn://a@b/1/2"),
            ("x@+1", "x@+1"),
            ("", ""),
        ] {
            assert_eq!(whole(bundle), expected);
        }
    }
}
