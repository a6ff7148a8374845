//! Cookies of sessions: RFC 5327 2.2.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::Instant;

use super::segment::SessionId;
use super::wire::{COOKIE, Extension};

/// Octets of a cookie of either engine, at most, where segments are long: the standard has no bound.
pub const MAX_COOKIE_OCTETS: u64 = 64;

/// The part of a segment that a cookie which is begun here takes at most.
const OWN_PART: u64 = 8;

/// The part of a segment that a value of the peer takes at most.
const SEGMENT_PART: u64 = 4;

/// Sessions with cookies that are known: those of the default number of sessions both ways, and as many that are over.
const MAX_SESSIONS: usize = 4_096;

/// Sessions that are looked at for one that is over, when there is no more room.
const LOOKS: usize = 64;

/// Octets of a cookie that is begun here, in segments of so many octets, at most.
pub(super) fn cookie_octets_max(size: u64) -> u64 {
    MAX_COOKIE_OCTETS.min(size / OWN_PART)
}

/// A cookie that one engine began.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cookie {
    value: Vec<u8>,
    /// Octets from its start that are enough until `strict`: those before it was extended.
    enough: usize,
    /// The time from which on segments must have all of it; `None` until it has left.
    strict: Option<Instant>,
}

impl Cookie {
    fn is_strict(&self, now: Instant) -> bool {
        self.strict.is_some_and(|at| now >= at)
    }

    /// Whether a value is good: it starts with the cookie, or is a former one for as long as these may come.
    fn takes(&self, now: Instant, value: &[u8]) -> bool {
        let former = self.value.get(..self.enough).unwrap_or_default();
        let is_former = value.starts_with(former) && self.value.starts_with(value);
        value.starts_with(&self.value) || (is_former && !self.is_strict(now))
    }

    /// Its value may be longer now.
    fn extend(&mut self, value: &[u8], strict: Instant) {
        if value.len() > self.value.len() && value.starts_with(&self.value) {
            self.enough = self.value.len();
            self.value = value.to_vec();
            self.strict = Some(strict);
        }
    }
}

/// The cookies of a session, which each engine may begin once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pair {
    own: Option<Cookie>,
    peer: Option<Cookie>,
}

impl Pair {
    /// Whether segments of so many octets have room for new values, since those from here repeat them. Values in the segments
    /// already count as they are, whatever the size of segments has become.
    fn has_room(&self, values: &[Bytes], size: u64) -> bool {
        let octets = |parts: u64| usize::try_from(parts).unwrap_or(usize::MAX);
        let most = octets(MAX_COOKIE_OCTETS.min(size / SEGMENT_PART));
        let held = [&self.own, &self.peer].into_iter().flatten();
        let held = held.map(|cookie| cookie.value.as_slice());
        let mut all = held.clone().map(<[u8]>::len).fold(0, usize::saturating_add);
        let mut is_more = false;
        for value in values {
            if value.is_empty() {
                return false;
            }
            if held.clone().any(|held| held.starts_with(value)) {
                continue;
            }
            if value.len() > most {
                return false;
            }
            let extended = held.clone().filter(|held| value.starts_with(held));
            let extended = extended.map(<[u8]>::len).max().unwrap_or(0);
            all = all.saturating_add(value.len().saturating_sub(extended));
            is_more = true;
        }
        let room = octets((size / SEGMENT_PART).saturating_add(size / OWN_PART));
        !is_more || all <= room
    }
}

/// The cookies of all sessions.
#[derive(Debug, Default)]
pub(super) struct Cookies {
    pairs: BTreeMap<SessionId, Pair>,
    order: VecDeque<SessionId>,
}

/// The values of a segment's cookies that are news.
#[derive(Debug)]
pub(super) struct News {
    values: Vec<Bytes>,
}

impl Cookies {
    /// Begin a cookie here, which leaves with the next segment of the session.
    pub(super) fn begin(
        &mut self,
        id: SessionId,
        value: Vec<u8>,
        is_open: impl Fn(SessionId) -> bool,
    ) {
        let Some(pair) = self.pair(id, is_open) else {
            return;
        };
        if pair.own.is_none() && pair.peer.is_none() {
            let enough = value.len();
            pair.own = Some(Cookie {
                value,
                enough,
                strict: None,
            });
        }
    }

    /// The session that was added last is not there.
    pub(super) fn forget(&mut self, id: SessionId) {
        if self.pairs.remove(&id).is_some() && self.order.back() == Some(&id) {
            self.order.pop_back();
        }
    }

    /// A session has a cookie.
    pub(super) fn has(&self, id: SessionId) -> bool {
        self.pairs.contains_key(&id)
    }

    /// A segment of the session was given out: the peer's segments have the cookie once it can have seen it.
    pub(super) fn given(&mut self, now: Instant, id: SessionId, delay: Duration) {
        if self.pairs.is_empty() {
            return;
        }
        let own = self.pairs.get_mut(&id).and_then(|pair| pair.own.as_mut());
        if let Some(own) = own
            && own.strict.is_none()
        {
            own.strict = Some(now + delay);
        }
    }

    /// Whether a segment with these header extensions has good cookies; those that are to be learnt, once it was taken.
    pub(super) fn look(
        &self,
        now: Instant,
        id: SessionId,
        header: &[Extension],
        size: u64,
    ) -> Option<News> {
        let values: Vec<_> = header
            .iter()
            .filter(|extension| extension.tag == COOKIE)
            .map(|extension| extension.value.clone())
            .collect();
        let none = Pair::default();
        let pair = self.pairs.get(&id).unwrap_or(&none);
        let known = [&pair.own, &pair.peer].map(Option::as_ref);
        let has = |cookie: &Cookie| values.iter().any(|value| cookie.takes(now, value));
        let missing = known.into_iter().flatten();
        let mut missing = missing.filter(|cookie| cookie.is_strict(now) && !has(cookie));
        if missing.next().is_some() {
            return None;
        }
        if !pair.has_room(&values, size) {
            return None;
        }
        let is_known = |value: &&Bytes| {
            let mut known = known.into_iter().flatten();
            known.any(|cookie| cookie.takes(now, value))
        };
        let unknown = values.iter().filter(|value| !is_known(value)).count();
        // RFC 5327 2.2: there is only a finite window during which a second cookie can be inserted.
        let is_late = pair.own.as_ref().is_some_and(|own| own.is_strict(now));
        let may_begin = usize::from(pair.peer.is_none() && !is_late);
        (unknown <= may_begin).then_some(News { values })
    }

    /// Learn the cookies of a segment that was taken; `is_open` says of a session whether it must be remembered.
    pub(super) fn learn(
        &mut self,
        now: Instant,
        id: SessionId,
        news: &News,
        delay: Duration,
        is_open: impl Fn(SessionId) -> bool,
    ) {
        if news.values.is_empty() {
            return;
        }
        let Some(pair) = self.pair(id, is_open) else {
            return;
        };
        let strict = now + delay;
        for value in &news.values {
            let of_own = |own: &Cookie| own.takes(now, value);
            if pair.own.as_ref().is_some_and(of_own) {
                let own = pair.own.as_mut();
                own.into_iter().for_each(|own| own.extend(value, strict));
                continue;
            }
            match &mut pair.peer {
                Some(peer) => peer.extend(value, strict),
                None => {
                    pair.peer = Some(Cookie {
                        value: value.to_vec(),
                        enough: 0,
                        strict: Some(strict),
                    });
                }
            }
        }
    }

    /// The cookies of a session, new ones if there is room.
    fn pair(&mut self, id: SessionId, is_open: impl Fn(SessionId) -> bool) -> Option<&mut Pair> {
        if !self.pairs.contains_key(&id) {
            if self.pairs.len() >= MAX_SESSIONS && !self.make_room(is_open) {
                return None;
            }
            self.order.push_back(id);
        }
        Some(self.pairs.entry(id).or_default())
    }

    fn make_room(&mut self, is_open: impl Fn(SessionId) -> bool) -> bool {
        for _ in 0..LOOKS {
            let Some(oldest) = self.order.pop_front() else {
                return false;
            };
            if is_open(oldest) {
                self.order.push_back(oldest);
            } else {
                self.pairs.remove(&oldest);
                return true;
            }
        }
        false
    }

    /// The values of a session's cookies, that of this engine first.
    pub(super) fn values(&self, id: SessionId) -> [Option<&[u8]>; 2] {
        let pair = match self.pairs.is_empty() {
            true => None,
            false => self.pairs.get(&id),
        };
        pair.map_or([None; 2], |pair| {
            [&pair.own, &pair.peer].map(|it| it.as_ref().map(|cookie| &*cookie.value))
        })
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const DELAY: Duration = Duration::from_secs(2);
    const SIZE: u64 = 1_400;

    fn id(number: u64) -> SessionId {
        SessionId {
            originator: 1,
            number,
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn extensions(values: &[&'static [u8]]) -> Vec<Extension> {
        let extension = |value: &&'static [u8]| Extension {
            tag: COOKIE,
            value: Bytes::from_static(value),
            at: 0,
        };
        values.iter().map(extension).collect()
    }

    /// Whether a segment with these cookies is taken, which are learnt then.
    fn takes(cookies: &mut Cookies, seconds: u64, values: &[&'static [u8]]) -> bool {
        let news = cookies.look(at(seconds), id(5), &extensions(values), SIZE);
        let is_good = news.is_some();
        if let Some(news) = news {
            cookies.learn(at(seconds), id(5), &news, DELAY, |_| true);
        }
        is_good
    }

    fn sent(cookies: &Cookies) -> Vec<&[u8]> {
        cookies.values(id(5)).into_iter().flatten().collect()
    }

    #[test]
    fn a_cookie_of_the_peer_comes_back_and_is_asked_for_once_segments_before_it_have_come() {
        let mut cookies = Cookies::default();
        assert!(takes(&mut cookies, 0, &[]));
        assert!(takes(&mut cookies, 1, &[b"abcd"]));
        assert_eq!(sent(&cookies), [b"abcd"]);
        assert!(takes(&mut cookies, 2, &[]), "it left before");
        assert!(!takes(&mut cookies, 2, &[b"other"]));
        assert!(!takes(&mut cookies, 3, &[]));
        assert!(takes(&mut cookies, 3, &[b"abcd"]));
        assert_eq!(cookies.values(id(6)), [None, None]);
    }

    #[test]
    fn a_cookie_that_is_extended_is_asked_for_as_a_whole_after_a_while() {
        let mut cookies = Cookies::default();
        cookies.begin(id(5), b"ab".to_vec(), |_| true);
        cookies.given(at(0), id(5), DELAY);
        assert!(takes(&mut cookies, 1, &[]), "the peer had not seen it");
        assert!(takes(&mut cookies, 3, &[b"abcd"]));
        assert_eq!(sent(&cookies), [b"abcd"]);
        assert!(takes(&mut cookies, 4, &[b"ab"]));
        assert!(!takes(&mut cookies, 5, &[b"ab"]));
        assert!(takes(&mut cookies, 5, &[b"abcd"]));
    }

    #[test]
    fn two_cookies_that_crossed_are_both_in_all_segments_and_a_late_one_is_none() {
        let mut cookies = Cookies::default();
        cookies.begin(id(5), b"own".to_vec(), |_| true);
        cookies.given(at(0), id(5), DELAY);
        assert!(takes(&mut cookies, 1, &[b"peer"]));
        assert_eq!(sent(&cookies), [b"own".as_slice(), b"peer"]);
        assert!(!takes(&mut cookies, 3, &[b"own"]));
        assert!(!takes(&mut cookies, 3, &[b"peer"]));
        assert!(takes(&mut cookies, 3, &[b"peer", b"own"]));
        let mut alone = Cookies::default();
        alone.begin(id(5), b"own".to_vec(), |_| true);
        alone.given(at(0), id(5), DELAY);
        assert!(!takes(&mut alone, 2, &[b"own", b"peer"]));
        assert!(takes(&mut alone, 2, &[b"own"]));
    }

    #[test]
    fn new_values_have_room_in_segments_and_known_ones_stay_when_these_become_smaller() {
        let value: &'static [u8] = &[7; 64];
        let looks = |cookies: &Cookies, octets: usize, size: u64| {
            let header = extensions(&[value.get(..octets).unwrap()]);
            cookies.look(at(1), id(5), &header, size).is_some()
        };
        let mut cookies = Cookies::default();
        assert!(looks(&cookies, 64, 256) && !looks(&cookies, 64, 255));
        assert!(looks(&cookies, 32, 128) && !looks(&cookies, 33, 128));
        assert!(takes(&mut cookies, 0, &[value.get(..60).unwrap()]));
        assert!(looks(&cookies, 60, 128), "a peer cannot know of this size");
        assert!(!looks(&cookies, 61, 128) && looks(&cookies, 61, SIZE));
        let mut both = Cookies::default();
        both.begin(id(5), vec![9; 16], |_| true);
        both.given(at(0), id(5), DELAY);
        assert!(looks(&both, 32, 128), "beside one of this engine");
        assert!(!looks(&both, 32, 124));
    }

    #[test]
    fn cookies_are_bounded_in_length_and_number() {
        let long: &'static [u8] = &[7; 65];
        let mut cookies = Cookies::default();
        assert!(!takes(&mut cookies, 0, &[long]) && !takes(&mut cookies, 0, &[b""]));
        assert!(takes(&mut cookies, 0, &[long.get(..64).unwrap()]));
        let mut is_taken = |number: u64, open: bool| {
            let header = extensions(&[b"c"]);
            let news = cookies.look(at(0), id(number), &header, SIZE).unwrap();
            cookies.learn(at(0), id(number), &news, DELAY, |_| open);
            cookies.pairs.contains_key(&id(number))
        };
        let most = u64::try_from(MAX_SESSIONS).unwrap();
        assert!((100..most + 99).all(|number| is_taken(number, true)));
        assert!(!is_taken(99, true), "all are open");
        assert!(is_taken(98, false), "one was over");
    }
}
