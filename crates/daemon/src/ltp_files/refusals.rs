//! The words about the system's refusals to send: each kind of them is told of once in a while.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use dhow_bundle::Instant;

use crate::datagrams::refusal::Refusal;

/// The time between two tellings of one kind.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The refusals that were told of, by their numbers (`errno`), of which there are few.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<i32, Instant>);

impl Refusals {
    /// The words about a refusal, unless it was told of a short time ago.
    pub(super) fn tell(&mut self, now: Instant, to: SocketAddr, errno: i32) -> Option<String> {
        let is_early = |at: &Instant| now.since(*at) < TELL_EVERY;
        if self.0.get(&errno).is_some_and(is_early) {
            return None;
        }
        self.0.insert(errno, now);
        let error = io::Error::from_raw_os_error(errno);
        Some(match Refusal::of(&error) {
            Refusal::NoWay => {
                format!(
                    "no way leads to {to} now ({error}): it is tried again, and nothing is lost"
                )
            }
            Refusal::TooLong => {
                format!(
                    "the way to {to} takes no datagrams as long as --mtu says ({error}): shorter ones leave from now on"
                )
            }
            _ => {
                format!("the system does not send to {to} ({error}): these datagrams count as lost")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn each_kind_is_told_of_once_in_a_while() {
        let to = "192.0.2.1:1113".parse().unwrap();
        let mut refusals = Refusals::default();
        let mut told = |at_s: u64, errno: Errno| {
            let now = Instant::START + Duration::from_secs(at_s);
            let words = refusals.tell(now, to, errno.raw_os_error());
            words.map(|it| it.split_once(" (").unwrap().0.to_owned())
        };
        let no_way = Some("no way leads to 192.0.2.1:1113 now".to_owned());
        assert_eq!(told(0, Errno::NETUNREACH), no_way);
        assert_eq!(told(59, Errno::NETUNREACH), None);
        let refused = Some("the system does not send to 192.0.2.1:1113".to_owned());
        assert_eq!(told(59, Errno::PERM), refused);
        let long = told(59, Errno::MSGSIZE).unwrap();
        assert!(
            long.contains("takes no datagrams as long as --mtu says"),
            "{long}"
        );
        assert_eq!(told(60, Errno::NETUNREACH), no_way);
    }
}
