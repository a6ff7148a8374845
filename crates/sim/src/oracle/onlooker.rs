//! Connections in one direction obey docs/stcp.md, and show which bundles leave and come by them.
//!
//! An onlooker stands at each connection of STCP or MTCP. It reads what is written and what is read, by the drafts alone, and shares nothing with the
//! sessions that it judges. Of what is written it holds more than the drafts ask for: lengths have their shortest form.

use std::sync::Arc;

use dhow_bundle::Instant;
use dhow_scenario::scenario::{Framing, OnSent, Protocol, StcpPolicy};

use super::voyage::Parcel;
use super::{Foul, Seen};

/// Both ends of one connection.
#[derive(Debug)]
pub struct Onlooker {
    policy: StcpPolicy,
    said: Stream,
    heard: Stream,
    /// When the last bundle was written, or both ends were there.
    stirred: Option<Instant>,
}

/// Octets of one end, up to the bundle that passes.
#[derive(Debug, Default)]
struct Stream {
    head: Vec<u8>,
    /// Octets of the bundle that passes, and those of them that are to come.
    length: u64,
    remaining: u64,
    octets: Vec<u8>,
    parcel: Option<Arc<Parcel>>,
    is_nonsense: bool,
    /// Whether nothing that follows can be read.
    is_broken: bool,
}

/// The part of a bundle's octets that is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// The blocks before the payload.
    Blocks,
    /// All.
    All,
}

/// Something about a bundle.
enum Step {
    /// Its blocks.
    Read(Result<Arc<Parcel>, String>),
    /// Its end, with what was kept of it.
    End(Option<Arc<Parcel>>, Vec<u8>, u64),
}

impl Onlooker {
    /// The onlooker of a connection that begins, where it is in one direction.
    #[must_use]
    pub fn of(protocol: Protocol) -> Option<Self> {
        match protocol {
            Protocol::Stcp(policy) => Some(Self {
                policy,
                said: Stream::default(),
                heard: Stream::default(),
                stirred: None,
            }),
            _ => None,
        }
    }

    /// The fate of bundles that have left.
    #[must_use]
    pub const fn on_sent(&self) -> OnSent {
        self.policy.on_sent
    }

    /// Both ends are there.
    pub fn handle_open(&mut self, now: Instant) {
        self.stirred = Some(now);
    }

    /// The side that dialled writes octets.
    ///
    /// # Errors
    /// The rule that they break.
    pub fn handle_said(&mut self, octets: &[u8], now: Instant) -> Result<Vec<Seen>, Foul> {
        let framing = self.policy.framing;
        let mut seen = Vec::new();
        let mut wrong = None;
        let read = self
            .said
            .take(framing, octets, Keep::All, &mut |step| match step {
                Step::Read(Ok(parcel)) => seen.push(Seen::Said(parcel)),
                Step::Read(Err(what)) => seen.push(Seen::Nonsense(what)),
                Step::End(None, ..) => wrong = Some("sends what is not a bundle"),
                Step::End(Some(parcel), octets, length) => {
                    if parcel.octets() != length {
                        wrong = Some("sends a length that is not the bundle's");
                    }
                    seen.push(Seen::SaidWhole(parcel, octets));
                }
            });
        if !seen.is_empty() || self.said.remaining > 0 {
            self.stirred = Some(now);
        }
        let is_nonsense = |it: &Seen| matches!(it, Seen::Nonsense(_));
        match read.err().or(wrong) {
            Some(what) if !seen.iter().any(is_nonsense) && !self.said.is_nonsense => {
                Err(Foul::new(what))
            }
            _ => Ok(seen),
        }
    }

    /// The side that accepted reads octets, which were judged where they were written.
    pub fn handle_heard(&mut self, octets: &[u8]) -> Vec<Seen> {
        let mut seen = Vec::new();
        let framing = self.policy.framing;
        let read = self
            .heard
            .take(framing, octets, Keep::Blocks, &mut |step| match step {
                Step::Read(Ok(parcel)) => seen.push(Seen::Heard(parcel)),
                Step::End(Some(parcel), ..) => seen.push(Seen::HeardWhole(parcel)),
                Step::Read(Err(_)) | Step::End(None, ..) => {}
            });
        self.heard.is_broken |= read.is_err();
        seen
    }

    /// Whether a bundle has begun to come and not ended.
    #[must_use]
    pub const fn is_receiving(&self) -> bool {
        self.heard.remaining > 0
    }

    /// Since when the side that dialled has written nothing of a bundle, and the octets that a bundle may have.
    #[must_use]
    pub fn idle_since(&self) -> Option<(Instant, u64)> {
        let longest = match self.policy.framing {
            Framing::Stcp => u64::from(u32::MAX),
            Framing::Encapsulation => u64::from(u32::MAX) - 8,
            Framing::StcpDraft | Framing::Mtcp => u64::MAX,
        };
        let stirred = self.stirred.filter(|_| self.said.remaining == 0)?;
        Some((stirred, longest))
    }
}

impl Stream {
    fn take(
        &mut self,
        framing: Framing,
        mut octets: &[u8],
        keep: Keep,
        tell: &mut dyn FnMut(Step),
    ) -> Result<(), &'static str> {
        while let Some((first, behind)) = octets.split_first() {
            if self.is_broken {
                return Ok(());
            }
            if self.remaining == 0 {
                octets = behind;
                self.head.push(*first);
                if let Some(length) = length_of(framing, &self.head)? {
                    self.head.clear();
                    (self.length, self.remaining) = (length, length);
                    self.is_nonsense = false;
                }
                continue;
            }
            let wanted = usize::try_from(self.remaining).unwrap_or(usize::MAX);
            let (now, later) = octets.split_at(wanted.min(octets.len()));
            octets = later;
            self.pass(now, keep, tell);
        }
        Ok(())
    }

    /// Octets of the bundle pass.
    fn pass(&mut self, octets: &[u8], keep: Keep, tell: &mut dyn FnMut(Step)) {
        let count = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        self.remaining = self.remaining.saturating_sub(count);
        if keep == Keep::All || self.parcel.is_none() {
            self.octets.extend_from_slice(octets);
        }
        if self.parcel.is_none()
            && !self.is_nonsense
            && let Some(read) = Parcel::read(&self.octets).transpose()
        {
            let read = read.map(Arc::new);
            self.is_nonsense = read.is_err();
            self.parcel = read.as_ref().ok().map(Arc::clone);
            tell(Step::Read(read));
        }
        if self.remaining == 0 {
            let octets = std::mem::take(&mut self.octets);
            tell(Step::End(self.parcel.take(), octets, self.length));
        }
    }
}

/// The length that a head says, once it is whole.
fn length_of(framing: Framing, head: &[u8]) -> Result<Option<u64>, &'static str> {
    match framing {
        Framing::Stcp => Ok(match head {
            [a, b, c, d] => Some(u32::from_be_bytes([*a, *b, *c, *d]).into()),
            _ => None,
        }),
        Framing::Mtcp => {
            let mut rest = head;
            bundle(number(&mut rest, 2)?)
        }
        Framing::StcpDraft => {
            let mut rest = head;
            let mut said = None;
            for (major, place) in [(4, 0), (0, 1), (2, 2)] {
                let Some(number) = number(&mut rest, major)? else {
                    return Ok(None);
                };
                match place {
                    0 if number != 2 => return Err("sends an array that has not two items"),
                    2 if said != Some(number) => return Err("sends two lengths of one bundle"),
                    _ => said = Some(number),
                }
            }
            bundle(said)
        }
        Framing::Encapsulation => packet(head),
    }
}

/// The content of an encapsulation packet of CCSDS 133.1-B-3 behind its header, once that is whole. An idle packet has none.
fn packet(head: &[u8]) -> Result<Option<u64>, &'static str> {
    let (octets, header, most_shorter) = match head {
        [0xe0] => return Ok(Some(0)),
        [0xf1, octets] => (u64::from(*octets), 2, 0),
        [0xf2, 0, a, b] => (u64::from(u16::from_be_bytes([*a, *b])), 4, 0xff - 2),
        [0xf3, 0, 0, 0, length @ ..] if length.len() == 4 => {
            let octets = length.iter();
            let octets = octets.fold(0_u64, |sum, octet| sum << 8 | u64::from(*octet));
            (octets, 8, 0xffff - 4)
        }
        [0xf1] | [0xf2] | [0xf2, 0, ..] | [0xf3] | [0xf3, 0, ..] if head.len() < 8 => {
            return Ok(None);
        }
        _ => return Err("sends what begins no encapsulation packet with a bundle"),
    };
    match octets.checked_sub(header) {
        Some(content) if content > most_shorter => Ok(Some(content)),
        Some(0) | None => Err("sends an empty bundle"),
        Some(_) => Err("sends a longer head than the length needs"),
    }
}

/// Only the deployed form of STCP has keep-alives.
fn bundle(length: Option<u64>) -> Result<Option<u64>, &'static str> {
    match length {
        Some(0) => Err("sends an empty bundle"),
        length => Ok(length),
    }
}

/// A number of CBOR behind a major type, once it is whole (RFC 8949 3, 4.2.1).
fn number(rest: &mut &[u8], major: u8) -> Result<Option<u64>, &'static str> {
    let Some((first, behind)) = rest.split_first() else {
        return Ok(None);
    };
    if first >> 5 != major {
        return Err("sends an item of CBOR that has no place there");
    }
    let (width, least) = match first & 0x1f {
        short @ 0..=23 => {
            *rest = behind;
            return Ok(Some(short.into()));
        }
        24 => (1, 24),
        25 => (2, 1 << 8),
        26 => (4, 1 << 16),
        27 => (8, 1 << 32),
        _ => return Err("sends an item of CBOR without a length"),
    };
    let Some((octets, behind)) = behind.split_at_checked(width) else {
        return Ok(None);
    };
    *rest = behind;
    let octets = octets.iter();
    let number = octets.fold(0_u64, |sum, octet| sum << 8 | u64::from(*octet));
    match number >= least {
        true => Ok(Some(number)),
        false => Err("sends a longer head than the length needs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn onlooker(framing: Framing) -> Onlooker {
        Onlooker::of(Protocol::framed(framing)).expect("it is in one direction")
    }

    /// The bundle of the golden vectors, 42 octets, behind its length.
    const BUNDLE: &str =
        "9f88070000820282020182028201018202820100821903e8071a0036ee8085010100004568656c6c6fff";

    fn stream(head: &str) -> Vec<u8> {
        let text = [head, BUNDLE].concat();
        let octets = (0..text.len()).step_by(2);
        octets
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal"))
            .collect()
    }

    #[test]
    fn bundles_are_seen_in_each_framing_in_any_pieces() {
        for (framing, head) in [
            (Framing::Stcp, "000000000000002a"),
            (Framing::StcpDraft, "82182a582a"),
            (Framing::Mtcp, "582a"),
            (Framing::Encapsulation, "e0f12c"),
        ] {
            for chunk in [1, 7, 100] {
                let mut onlooker = onlooker(framing);
                onlooker.handle_open(Instant::START);
                let stream = stream(head);
                let (mut said, mut heard) = (Vec::new(), Vec::new());
                for octets in stream.chunks(chunk) {
                    said.extend(onlooker.handle_said(octets, Instant::START).expect("right"));
                    heard.extend(onlooker.handle_heard(octets));
                }
                assert!(matches!(
                    said.as_slice(),
                    [Seen::Said(_), Seen::SaidWhole(_, octets)] if octets.len() == 42
                ));
                assert!(matches!(
                    heard.as_slice(),
                    [Seen::Heard(_), Seen::HeardWhole(_)]
                ));
                assert!(!onlooker.is_receiving() && onlooker.idle_since().is_some());
            }
        }
    }

    #[test]
    fn what_breaks_a_rule_is_called() {
        for (framing, head) in [
            (Framing::Mtcp, "40"),
            (Framing::Mtcp, "59002a"),
            (Framing::Mtcp, "5f"),
            (Framing::Mtcp, "82182a582a"),
            (Framing::StcpDraft, "83182a582a"),
            (Framing::StcpDraft, "822b"),
            (Framing::StcpDraft, "8201582a"),
            (Framing::Encapsulation, "f201002e"),
            (Framing::Encapsulation, "f200002e"),
            (Framing::Encapsulation, "f3000000000000f2"),
            (Framing::Encapsulation, "f102"),
            (Framing::Encapsulation, "f101"),
            (Framing::Encapsulation, "e72c"),
        ] {
            let said = onlooker(framing).handle_said(&stream(head), Instant::START);
            assert!(said.is_err(), "{framing:?} {head}");
        }
        let mut longer = stream("0000002b");
        longer.push(0);
        let said = onlooker(Framing::Stcp).handle_said(&longer, Instant::START);
        assert!(said.is_err(), "{said:?}");
    }
}
