//! The state of the medium during a visit: whether it takes bundles, and what the user and the node are told of it.

use std::io;

use dhow_client::ferry::Writable;
use hyper::Method;
use serde_json::{Value, json};

use super::{End, Visit};
use crate::failure::Failure;

impl Visit<'_> {
    /// Brings the routes of --for in line with the medium. None leads to one that is read-only, but for `--once`, which has to know whether
    /// there is a bundle for it.
    pub(super) fn route(&mut self) -> Result<(), End> {
        let is_wanted = self.stick.writable() != Writable::No || self.options.once;
        if is_wanted == self.is_routed {
            return Ok(());
        }
        self.is_routed = is_wanted;
        for pattern in self.options.patterns() {
            // One that a killed ferry left is made anew.
            let _ = self.unroute(&pattern);
            if is_wanted {
                let priority = self.options.priority;
                let body =
                    json!({"to": pattern, "via": self.peer.to_string(), "priority": priority});
                self.admin.act(&Method::POST, "/v1/routes", Some(&body))?;
            }
        }
        Ok(())
    }

    pub(super) fn unroute(&self, pattern: &str) -> Result<Value, Failure> {
        let body = json!({"to": pattern, "via": self.peer.to_string()});
        self.admin.act(&Method::DELETE, "/v1/routes", Some(&body))
    }

    /// Says what is left behind, and why; false where nothing is.
    pub(super) fn is_something_left(&self) -> bool {
        let directory = self.options.directory.display();
        let why = match self.stick.writable() {
            Writable::No => "it is read-only",
            Writable::Yes | Writable::Full => self.full.as_deref().unwrap_or("it is full"),
        };
        let refused = self.leaving.refused();
        if refused > 0 {
            self.lines.note(&format!(
                "{refused} or more bundles for {directory} stay in the node: {why}"
            ));
        }
        // From a medium that is read-only bundles are taken, as was asked for, and it cannot be told.
        let owed = match self.stick.writable() {
            Writable::No => 0,
            Writable::Yes | Writable::Full => self.taking.owed(),
        };
        if owed > 0 {
            self.lines.note(&format!(
                "{owed} acknowledgments could not be written to {directory}: {why}"
            ));
        }
        self.leaves_something || refused > 0 || owed > 0
    }

    /// The medium refuses something: it is gone, or read-only by now, or it is told once.
    pub(super) fn trouble(&mut self, error: &io::Error) -> Result<(), End> {
        if !self.stick.is_here() {
            return Err(End::Away);
        }
        if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
            self.look_at_medium()?;
            if self.stick.writable() == Writable::No {
                return Ok(());
            }
        }
        if Writable::refusing_with(error) != Some(Writable::Full) {
            self.leaves_something = true;
        }
        self.fill(error.to_string())
    }

    /// The medium takes no more: it is told once.
    pub(super) fn fill(&mut self, why: String) -> Result<(), End> {
        // Files that are there already are told before, not as a sign of room.
        self.flush()?;
        if self.full.is_none() {
            self.lines.other("full", &why)?;
            self.lines.note(&format!(
                "{} takes no more: {why}; bundles stay in the node",
                self.options.directory.display()
            ));
        }
        self.full = Some(why);
        Ok(())
    }

    /// Looks whether the medium may be written, which may change at any time.
    pub(super) fn look_at_medium(&mut self) -> Result<(), End> {
        let before = self.stick.writable();
        match self.stick.look_again(&self.node) {
            Ok(()) => {}
            Err(_) if !self.stick.is_here() => return Err(End::Away),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(self.options.unopened(&error));
            }
            Err(error) => {
                self.leaves_something = true;
                return self.fill(error.to_string());
            }
        }
        let now = self.stick.writable();
        if now != before {
            self.lines.note(&self.options.state_of(now));
            self.full = None;
        }
        self.route()
    }
}
