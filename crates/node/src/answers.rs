//! The services of this node answer no service that answers in turn, and no source more often than is configured.
//!
//! A bundle's source is written by its sender. A bundle that names another node's service as its source would make the
//! two services answer each other without end. Services of the usual numbers and names are never answered
//! ([`crate::local::Local::is_service`]); a service of another number is known by what it does: what it was sent comes back.

use alloc::collections::VecDeque;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;

use dhow_bundle::{CreationTimestamp, EndpointId, Instant};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Time for which an answer that was given is recognized when it comes back, and for which its sender is not answered then.
const MEMORY: Duration = Duration::from_secs(60);

/// Answers that are known when they come back, at most (half a megabyte): at the usual rate one source is given 6,000 in
/// a minute. Beyond it the oldest are forgotten, and the rate for each source is what bounds the rest.
const GIVEN_BOUND: usize = 16_384;

/// Endpoints known to answer, at most (64 KiB); beyond it the one that was heard longest ago is forgotten.
const ANSWERING_BOUND: usize = 2_048;

/// Sources answered in one second, at most (256 KiB); further ones are not answered.
const SOURCES_BOUND: usize = 4_096;

/// Octets of a payload by which it is known again: senders that number their questions do so at the beginning.
pub(crate) const KNOWN_OCTETS: usize = 256;

/// The rate of answers is counted by the second.
const SECOND: Duration = Duration::from_secs(1);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// The source sends back bundles that it is sent.
    Answering,
    /// The source was answered often enough in this second.
    Often,
}

/// An endpoint, or a payload of an endpoint, in eight octets.
type Digest = u64;

/// Answers that were given, and endpoints that are not answered.
pub(crate) struct Answers {
    per_second: u32,
    hasher: FixedState,
    /// Payloads that were sent, by endpoint and payload: the question's creation timestamp, since a question that
    /// is asked again is no answer.
    given: HashMap<Digest, Given, FixedState>,
    /// The same in the order in which they were given.
    order: VecDeque<(Instant, Digest)>,
    /// Endpoints that answered, the one heard last at the end.
    answering: VecDeque<(Instant, Digest)>,
    rates: HashMap<Digest, Rate, FixedState>,
    /// When rates that nobody needs were forgotten last.
    swept: Instant,
}

/// An answer that was given.
struct Given {
    question: CreationTimestamp,
    at: Instant,
}

/// Answers of one source within a second.
struct Rate {
    since: Instant,
    answers: u32,
}

impl Answers {
    pub(crate) fn new(per_second: u32, seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self {
            per_second,
            given: HashMap::with_hasher(hasher.clone()),
            order: VecDeque::new(),
            answering: VecDeque::new(),
            rates: HashMap::with_hasher(hasher.clone()),
            hasher,
            swept: Instant::START,
        }
    }

    /// Whether a payload that a source sent at this time may go back to it, and that it does if so.
    pub(crate) fn send_back(
        &mut self,
        now: Instant,
        (source, creation): (&EndpointId, CreationTimestamp),
        (payload_octets, beginning): (u64, &[u8]),
    ) -> Result<(), Withheld> {
        self.forget(now);
        let beginning = beginning.get(..KNOWN_OCTETS).unwrap_or(beginning);
        let digest = self.digest(&(source, payload_octets, beginning));
        let is_answer = self
            .given
            .get(&digest)
            .is_some_and(|given| given.question != creation);
        if is_answer {
            self.has_answered(now, source);
        }
        self.allow(now, source)?;
        let given = Given {
            question: creation,
            at: now,
        };
        self.given.insert(digest, given);
        self.order.push_back((now, digest));
        while self.order.len() > GIVEN_BOUND {
            self.forget_oldest();
        }
        Ok(())
    }

    /// Whether a source may have one more answer now; it is counted.
    pub(crate) fn allow(&mut self, now: Instant, source: &EndpointId) -> Result<(), Withheld> {
        self.forget(now);
        let digest = self.digest(source);
        if self.answering.iter().any(|(_, other)| *other == digest) {
            return Err(Withheld::Answering);
        }
        if now - self.swept >= SECOND {
            self.swept = now;
            self.rates.retain(|_, rate| now - rate.since < SECOND);
        }
        if self.rates.len() >= SOURCES_BOUND && !self.rates.contains_key(&digest) {
            return Err(Withheld::Often);
        }
        let rate = self.rates.entry(digest).or_insert(Rate {
            since: now,
            answers: 0,
        });
        if now - rate.since >= SECOND {
            *rate = Rate {
                since: now,
                answers: 0,
            };
        }
        if rate.answers >= self.per_second {
            return Err(Withheld::Often);
        }
        rate.answers += 1;
        Ok(())
    }

    /// An endpoint has answered an answer.
    pub(crate) fn has_answered(&mut self, now: Instant, endpoint: &EndpointId) {
        let digest = self.digest(endpoint);
        self.answering.retain(|(_, other)| *other != digest);
        self.answering.push_back((now, digest));
        if self.answering.len() > ANSWERING_BOUND {
            self.answering.pop_front();
        }
    }

    fn forget(&mut self, now: Instant) {
        let is_old = |it: Option<&(Instant, Digest)>| it.is_some_and(|(at, _)| now - *at >= MEMORY);
        while is_old(self.answering.front()) {
            self.answering.pop_front();
        }
        while is_old(self.order.front()) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((at, digest)) = self.order.pop_front() else {
            return;
        };
        // It may have been given again since.
        if self.given.get(&digest).is_some_and(|given| given.at == at) {
            self.given.remove(&digest);
        }
    }

    fn digest(&self, what: &impl Hash) -> Digest {
        self.hasher.hash_one(what)
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::DtnTime;

    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    fn source(service: u32) -> EndpointId {
        EndpointId::Ipn {
            allocator: 0,
            node: 4,
            service,
        }
    }

    fn created(sequence: u64) -> CreationTimestamp {
        CreationTimestamp {
            time: DtnTime::UNKNOWN,
            sequence,
        }
    }

    fn ask(answers: &mut Answers, ms: u64, number: u64, payload: &[u8]) -> Result<(), Withheld> {
        let length = u64::try_from(payload.len()).unwrap();
        let question = (&source(9), created(number));
        answers.send_back(at_ms(ms), question, (length, payload))
    }

    #[test]
    fn what_comes_back_is_not_answered_for_a_minute_and_a_question_asked_again_is() {
        let mut answers = Answers::new(100, 1);
        assert_eq!(ask(&mut answers, 0, 1, b"one"), Ok(()));
        assert_eq!(ask(&mut answers, 1, 1, b"one"), Ok(()), "asked again");
        assert_eq!(ask(&mut answers, 2, 2, b"two"), Ok(()));
        assert_eq!(
            ask(&mut answers, 59_000, 3, b"one"),
            Err(Withheld::Answering)
        );
        assert_eq!(
            ask(&mut answers, 60_000, 4, b"new"),
            Err(Withheld::Answering)
        );
        let other = (&source(10), created(5));
        assert_eq!(
            answers.send_back(at_ms(60_000), other, (3, b"one")),
            Ok(()),
            "another endpoint's"
        );
        assert_eq!(
            ask(&mut answers, 118_999, 6, b"new"),
            Err(Withheld::Answering)
        );
        assert_eq!(ask(&mut answers, 119_000, 7, b"one"), Ok(()));
    }

    #[test]
    fn a_source_has_so_many_answers_in_a_second_and_others_have_theirs() {
        let mut answers = Answers::new(3, 1);
        let mut granted = |ms, service| answers.allow(at_ms(ms), &source(service)).is_ok();
        let of_one: alloc::vec::Vec<bool> = [0, 1, 998, 999, 1_000, 1_001, 1_002, 1_003]
            .into_iter()
            .map(|ms| granted(ms, 1))
            .collect();
        assert_eq!(of_one, [true, true, true, false, true, true, true, false]);
        assert!(granted(1_003, 2));
    }

    #[test]
    fn all_tables_stay_within_their_bounds_and_further_sources_wait_for_the_next_second() {
        let mut answers = Answers::new(100, 1);
        let bound = u32::try_from(SOURCES_BOUND).unwrap();
        for service in 0..bound {
            assert_eq!(answers.allow(at_ms(0), &source(service)), Ok(()));
        }
        assert_eq!(
            answers.allow(at_ms(999), &source(bound)),
            Err(Withheld::Often)
        );
        assert_eq!(answers.allow(at_ms(999), &source(0)), Ok(()));
        assert_eq!(answers.allow(at_ms(1_000), &source(bound)), Ok(()));
        for endpoint in 0..2 * bound {
            answers.has_answered(at_ms(1_000), &source(endpoint));
        }
        assert_eq!(answers.answering.len(), ANSWERING_BOUND);
        let mut answers = Answers::new(u32::MAX, 1);
        for number in 0..=u64::try_from(GIVEN_BOUND).unwrap() {
            assert_eq!(ask(&mut answers, 0, number, &number.to_be_bytes()), Ok(()));
        }
        assert_eq!(answers.order.len(), GIVEN_BOUND);
        assert_eq!(answers.given.len(), GIVEN_BOUND);
        assert_eq!(
            ask(&mut answers, MEMORY.as_millis().try_into().unwrap(), 0, b""),
            Ok(())
        );
        assert_eq!((answers.order.len(), answers.given.len()), (1, 1));
    }
}
