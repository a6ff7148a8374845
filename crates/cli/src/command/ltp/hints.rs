//! Remedies for files that fail, near or over several hops.

use std::path::Path;

use dhow_daemon::ltp_files::why::{Counterpart, Why};
use dhow_link::ltp::Status;

/// A remedy for a failure, where there is one. A key is the file with which segments are authenticated here.
pub fn hint(why: &Why, key: Option<&Path>) -> Option<&'static str> {
    Some(match why {
        Why::Unreadable(why) => why.hint(),
        Why::Unanswered(Counterpart::Receiver) if key.is_some() => {
            "the receiver drops segments that its own --key does not fit, and says so; it must run there, and take --rate"
        }
        Why::Unanswered(Counterpart::Receiver) => {
            "a receiver must run there, and take --rate; one with a --key hears only those that have it"
        }
        Why::Unanswered(Counterpart::NextHop) if key.is_some() => {
            "the next hop drops segments that its own --key does not fit, and says so; it must run there, and take --rate"
        }
        Why::Unanswered(Counterpart::NextHop) => {
            "`dhow ltp relay` or `dhow ltp recv --engine` must run there, and take --rate; one with a --key hears only those that have it"
        }
        Why::NoRoom(Counterpart::Receiver) => {
            "the receiver says why: its disk, --largest, other files"
        }
        Why::NoRoom(Counterpart::NextHop) => {
            "the next hop says why: its disk, --disk, --blocks, other files; one that was started anew has lost the session: send it again"
        }
        Why::NoService(_) => "--service must be the same at both ends",
        Why::Unwanted(Counterpart::Receiver) => "the receiver was ended, or says why: --largest",
        Why::Unwanted(Counterpart::NextHop) => {
            "the next hop was ended, or says why: no route, --largest; with --report it tells here"
        }
        Why::Lost(_) => "send it again",
        Why::Ended => return None,
        Why::NotAwaited => "the next hop has the file, and goes on with it",
        Why::TooLate => "give it a longer --lifetime, or --rate where the path takes more",
        Why::NoReport => {
            "the file may be there all the same: look before it is sent again; --lifetime says how long a report is waited for"
        }
        Why::Reported { status, .. } => reported(*status)?,
    })
}

const fn reported(status: Status) -> Option<&'static str> {
    Some(match status {
        Status::Complete => return None,
        Status::Partial => "send it again, with --red all",
        Status::Expired => {
            "the engine behind this one is away, or the path is slow: look there, or give it a longer --lifetime"
        }
        Status::NoRoute => {
            "--route of that relay must lead to the engine of --to, which must run; --hops says how many hops it may make"
        }
        Status::NoSpace => "make room at the engine behind this one: its disk, --disk, --blocks",
        Status::TooLarge => {
            "start that engine with a larger --largest, or send the file in parts: split -b SIZE FILE"
        }
        Status::GivenUp => {
            "that engine says why: the one behind it was ended, or has a smaller --largest, or a file cannot be read"
        }
    })
}

#[cfg(test)]
mod tests {
    use dhow_daemon::ltp_files::sender::Unreadable;

    use super::*;

    #[test]
    fn a_sender_without_answer_is_told_of_the_key() {
        for of in [Counterpart::Receiver, Counterpart::NextHop] {
            let told = |key| hint(&Why::Unanswered(of), key).unwrap();
            assert!(told(Some(Path::new("key"))).contains("its own --key does not fit"));
            assert!(told(None).contains("must run there"));
        }
        assert_eq!(hint(&Why::Ended, None), None);
    }

    #[test]
    fn each_failure_but_the_end_of_the_sender_has_a_hint_and_words() {
        let of = Counterpart::NextHop;
        let reported = [
            Status::Partial,
            Status::Expired,
            Status::NoRoute,
            Status::NoSpace,
            Status::TooLarge,
            Status::GivenUp,
        ];
        let reported = reported.map(|status| Why::Reported { by: 7, status });
        let others = [
            Why::Unreadable(Unreadable::Changed),
            Why::Unanswered(of),
            Why::NoRoom(of),
            Why::NoService(of),
            Why::Unwanted(of),
            Why::Lost(of),
            Why::NotAwaited,
            Why::TooLate,
            Why::NoReport,
        ];
        let all: Vec<_> = others.into_iter().chain(reported).collect();
        let hints: std::collections::BTreeSet<_> = all.iter().map(|why| hint(why, None)).collect();
        assert_eq!(hints.len(), all.len(), "each has a hint of its own");
        assert!(!hints.contains(&None));
        let words = Why::Reported {
            by: 7,
            status: Status::NoRoute,
        };
        assert!(words.to_string().ends_with(", as engine 7 reports"));
    }
}
