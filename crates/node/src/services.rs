//! The services of the node itself, echo and perf: whom they answer, and what they count.

use crate::answers::Answers;
use crate::config::Config;
use crate::perf::Perf;

/// The state of both.
pub(crate) struct Services {
    pub(crate) answers: Answers,
    pub(crate) perf: Perf,
}

impl Services {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            answers: Answers::new(config.answers_per_second, config.seed),
            perf: Perf::new(config),
        }
    }
}
