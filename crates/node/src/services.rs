//! The services of the node itself, echo, perf and routing: the sources that they answer, and their counts.

use crate::adverts::Adverts;
use crate::answers::Answers;
use crate::config::Config;
use crate::handshaking::Handshakes;
use crate::held::Held;
use crate::perf::Perf;
use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;

/// The state of all.
pub(crate) struct Services {
    pub(crate) answers: Answers,
    pub(crate) perf: Perf,
    pub(crate) adverts: Adverts,
    pub(crate) handshakes: Handshakes,
}

impl Services {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            answers: Answers::new(config.answers_per_second, config.seed),
            perf: Perf::new(config),
            adverts: Adverts::default(),
            handshakes: Handshakes::default(),
        }
    }
}

impl Services {
    /// Whether a payload may go back to the source of its bundle now.
    pub(crate) fn may_send_back(
        &mut self,
        held: &Held,
        now: Now,
        key: BundleKey,
        octets: u64,
        beginning: &[u8],
    ) -> bool {
        let Some(entry) = held.entry(key) else {
            return false;
        };
        let question = (held.endpoints().id(entry.source()), entry.creation());
        let payload = (octets, beginning);
        let outcome = self.answers.send_back(now.monotonic, question, payload);
        outcome.is_ok()
    }
}
