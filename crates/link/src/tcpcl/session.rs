//! A session of the version that both sides speak.

use alloc::boxed::Box;

use bytes::Bytes;
use dhow_bundle::{Instant, Now};

use super::config::{Config, Role};
use super::greeting::{Greeting, Version};
use super::{v3, v4};
use crate::stream::{Gather, LinkCommand, LinkEvent, SessionParameters, StreamSession};

/// One TCPCL session over one TCP connection, of either version.
///
/// The side that accepts a connection speaks the version that the peer begins with; the side that dials is told which. See [`StreamSession`].
#[derive(Debug)]
pub struct Session {
    speaker: Speaker,
    greeting: Greeting,
    /// A connection that was accepted, whose version is not known: how its session began.
    accepted: Option<Box<(Config, Now)>>,
}

/// The machine of a version.
#[derive(Debug)]
enum Speaker {
    V3(v3::Session),
    V4(v4::Session),
}

macro_rules! either {
    ($session:expr, $method:ident($($argument:expr),*)) => {
        match &$session.speaker {
            Speaker::V3(session) => session.$method($($argument),*),
            Speaker::V4(session) => session.$method($($argument),*),
        }
    };
    (mut $session:expr, $method:ident($($argument:expr),*)) => {
        match &mut $session.speaker {
            Speaker::V3(session) => session.$method($($argument),*),
            Speaker::V4(session) => session.$method($($argument),*),
        }
    };
}

impl Session {
    /// A session on a connection that this node dialled now, of this version.
    #[must_use]
    pub fn dial(version: Version, config: Config, now: Now) -> Self {
        let speaker = match version {
            Version::V3 => Speaker::V3(v3::Session::new(config, now)),
            Version::V4 => Speaker::V4(v4::Session::new(Role::Active, config, now)),
        };
        Self {
            speaker,
            greeting: Greeting::default(),
            accepted: None,
        }
    }

    /// A session on a connection that the peer dialled, of the version that the peer begins with. Transfers are welcome
    /// once it is up.
    #[must_use]
    pub fn accept(config: Config, now: Now) -> Self {
        // RFC 9174 4.1: the passive side waits for the peer's contact header. RFC 7242 4 has each side say its own at once,
        // so that a peer of version 3 does not wait for ours.
        let speaker = Speaker::V4(v4::Session::new(Role::Passive, config.clone(), now));
        Self {
            speaker,
            greeting: Greeting::default(),
            accepted: Some(Box::new((config, now))),
        }
    }

    /// The version that this side speaks; of an accepted connection 4 until the peer has said another.
    #[must_use]
    pub const fn version(&self) -> Version {
        match self.speaker {
            Speaker::V3(_) => Version::V3,
            Speaker::V4(_) => Version::V4,
        }
    }

    /// The version that the peer spoke; `None` where it has said nothing of one.
    #[must_use]
    pub const fn peer_version(&self) -> Option<Version> {
        self.greeting.version()
    }

    /// True where nothing of a transfer that is not verified leaves before all of it is there.
    #[must_use]
    pub const fn holds_unverified(&self) -> bool {
        match &self.speaker {
            Speaker::V3(session) => match session.parameters() {
                Some(parameters) => parameters.keeps_reactive_fragments,
                None => false,
            },
            Speaker::V4(_) => false,
        }
    }

    /// The parameters that both sides agreed on; `None` before that.
    #[must_use]
    pub const fn parameters(&self) -> Option<&SessionParameters> {
        match &self.speaker {
            Speaker::V3(session) => session.parameters(),
            Speaker::V4(session) => session.parameters(),
        }
    }

    /// False while `poll_octets` has nothing to give: no transfer is under way in either direction, and no other message waits.
    #[must_use]
    pub fn may_have_octets(&self) -> bool {
        either!(self, may_have_octets())
    }

    /// Octets of the transfer that has begun to leave which have not been given out, without the heads of its segments.
    #[must_use]
    pub fn leaving_octets(&self) -> u64 {
        either!(self, leaving_octets())
    }

    /// Octets of transfers of which nothing has been given out yet.
    #[must_use]
    pub const fn queued_octets(&self) -> u64 {
        match &self.speaker {
            Speaker::V3(session) => session.queued_octets(),
            Speaker::V4(session) => session.queued_octets(),
        }
    }

    /// The first octets of a connection; true when they go on to the session, with all that came before them.
    fn greet(&mut self, now: Now, octets: &[u8]) -> bool {
        let Some((version, held)) = self.greeting.add(octets) else {
            // The side that dialled knows its version. All else waits for the octet that tells.
            return self.accepted.is_none();
        };
        let Some(accepted) = self.accepted.take() else {
            return true;
        };
        // A session that is over, since the node ended it, stays over.
        let is_over =
            matches!(&self.speaker, Speaker::V4(session) if session.state() == v4::State::Closed);
        if version == Version::V3 && !is_over {
            let (config, opened) = *accepted;
            self.speaker = Speaker::V3(v3::Session::new(config, opened));
        }
        either!(mut self, handle_octets(now, held));
        true
    }
}

impl StreamSession for Session {
    fn handle_octets(&mut self, now: Now, octets: Bytes) {
        if self.greeting.version().is_some() || self.greet(now, &octets) {
            either!(mut self, handle_octets(now, octets));
        }
    }

    fn handle_command(&mut self, now: Now, command: LinkCommand) {
        either!(mut self, handle_command(now, command));
    }

    fn handle_timeout(&mut self, now: Now) {
        either!(mut self, handle_timeout(now));
    }

    fn poll_octets(&mut self, now: Now, limit: usize, out: &mut Gather) {
        either!(mut self, poll_octets(now, limit, out));
    }

    fn poll_event(&mut self) -> Option<LinkEvent> {
        either!(mut self, poll_event())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        either!(self, poll_timeout())
    }

    fn wants_octets(&self) -> bool {
        either!(self, wants_octets())
    }
}
