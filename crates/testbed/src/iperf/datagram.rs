//! The octets of iperf 2's datagrams.
//!
//! ```text
//! octets 0–3    number, its last 32 bits; below 0 in what says that it was the last
//!        4–7    when it was sent, seconds since 1970
//!        8–11   and microseconds
//!        12–15  number, its first 32 bits (iperf 2.0.10 and later; other things before)
//! ```
//! The server answers the last one with the same octets and, behind them, what it counted. All numbers are big-endian.

use std::time::Duration;

use super::observer::Report;

/// Octets of a header.
pub const HEADER_OCTETS: usize = 16;

/// Octets of a header of iperf before 2.0.10.
const OLD_HEADER_OCTETS: usize = 12;

/// Says that a server's account has the first ten fields.
const ACCOUNT_FLAG: u32 = 0x8000_0000;

/// Octets of a server's account.
const ACCOUNT_OCTETS: usize = 40;

/// The first octets of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its number.
    pub number: u32,
    /// True if it is the last; a last datagram carries nothing that counts.
    pub is_last: bool,
    /// When it was sent, nanoseconds since 1970.
    pub sent_ns: u64,
    /// True if its sender expects headers of 16 octets; known only of the last datagram.
    is_wide: bool,
}

impl Header {
    /// A header.
    pub const fn new(number: u32, sent_ns: u64, is_last: bool) -> Self {
        Self {
            number,
            is_last,
            sent_ns,
            is_wide: true,
        }
    }

    /// Its octets.
    pub fn encode(&self) -> [u8; HEADER_OCTETS] {
        let number = i64::from(self.number);
        let number = if self.is_last { -number } else { number };
        let [a, b, c, d, low @ ..] = number.to_be_bytes();
        let sent = Duration::from_nanos(self.sent_ns);
        let seconds = u32::try_from(sent.as_secs()).unwrap_or(u32::MAX);
        let mut octets = [0; HEADER_OCTETS];
        let fields = [
            low,
            seconds.to_be_bytes(),
            sent.subsec_micros().to_be_bytes(),
            [a, b, c, d],
        ];
        for (place, octet) in octets.iter_mut().zip(fields.into_iter().flatten()) {
            *place = octet;
        }
        octets
    }

    /// The header of a datagram; none where it is too short.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let mut words = words(datagram);
        let (number, seconds, micros) = (words.next()?, words.next()?, words.next()?);
        let is_last = number > u32::MAX / 2;
        let sent = Duration::from_secs(seconds.into()) + Duration::from_micros(micros.into());
        Some(Self {
            number: if is_last {
                number.wrapping_neg()
            } else {
                number
            },
            is_last,
            sent_ns: u64::try_from(sent.as_nanos()).unwrap_or(u64::MAX),
            is_wide: words.next() == Some(u32::MAX),
        })
    }
}

/// The account that a server sends in answer to the last datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    /// Octets that arrived.
    pub octets: u64,
    /// The time from the first to the last of them.
    pub elapsed: Duration,
    /// Datagrams.
    pub report: Report,
}

impl Account {
    /// The answer to a last datagram.
    pub fn answer(&self, last: &[u8]) -> Vec<u8> {
        let is_wide = Header::decode(last).is_some_and(|header| header.is_wide);
        let header_octets = if is_wide {
            HEADER_OCTETS
        } else {
            OLD_HEADER_OCTETS
        };
        let mut answer = last.get(..header_octets).unwrap_or(last).to_vec();
        let (high, low) = split(self.octets);
        let jitter = Duration::try_from_secs_f64(self.report.jitter_ns.unwrap_or_default() / 1e9);
        let jitter = jitter.unwrap_or_default();
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        for field in [
            ACCOUNT_FLAG,
            high,
            low,
            seconds(self.elapsed),
            self.elapsed.subsec_micros(),
            count(self.report.lost),
            count(self.report.out_of_order),
            count(self.report.sent),
            seconds(jitter),
            jitter.subsec_micros(),
        ] {
            answer.extend_from_slice(&field.to_be_bytes());
        }
        // Some clients take an answer for one only where it is as long as what newer servers say.
        answer.resize(answer.len().max(HEADER_OCTETS + 112), 0);
        answer
    }

    /// The account in an answer, behind the header of its version; `None` if it has none.
    pub fn decode(answer: &[u8]) -> Option<Self> {
        let behind = |header_octets: usize, has_account: fn(u32) -> bool| {
            let body = answer.get(header_octets..header_octets + ACCOUNT_OCTETS)?;
            let mut words = words(body);
            let is_account = words.next().is_some_and(has_account);
            is_account.then_some(words)
        };
        // Before 2.0.10 the flag stands alone, which tells it from the first half of a number.
        let mut words = behind(HEADER_OCTETS, |flags| flags & ACCOUNT_FLAG != 0)
            .or_else(|| behind(OLD_HEADER_OCTETS, |flags| flags == ACCOUNT_FLAG))?;
        let mut next = || words.next().map(u64::from);
        let octets = next()? << 32 | next()?;
        let elapsed = Duration::from_secs(next()?) + Duration::from_micros(next()?);
        let (lost, out_of_order, sent) = (next()?, next()?, next()?);
        let jitter = Duration::from_secs(next()?) + Duration::from_micros(next()?);
        Some(Self {
            octets,
            elapsed,
            report: Report {
                sent,
                lost,
                out_of_order,
                duplicates: None,
                jitter_ns: Some(jitter.as_secs_f64() * 1e9),
                delay: None,
            },
        })
    }
}

fn split(number: u64) -> (u32, u32) {
    let half = |part: u64| u32::try_from(part & u64::from(u32::MAX)).unwrap_or_default();
    (half(number >> 32), half(number))
}

fn words(octets: &[u8]) -> impl Iterator<Item = u32> {
    let (words, _) = octets.as_chunks::<4>();
    words.iter().map(|word| u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and a last datagram of iperf 2.1.8, and how a server of it answers (loopback).
    const FIRST: &str = "000000016b027332000d5b580000000048010098";
    const LAST: &str = "ffffffa36b027333000dacd0ffffffff48010098";
    const ANSWER: &str = "000000000000000000000000000000008800000000000000\
        00023e3800000000000817120000000000000000000000640000000000 00000b";

    fn octets(hex: &str) -> Vec<u8> {
        let digits: String = hex.split_whitespace().collect();
        let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(pair).collect()
    }

    #[test]
    fn headers_of_iperf_2_1_8_are_understood_and_written() {
        let first = Header::decode(&octets(FIRST)).unwrap();
        assert_eq!((first.number, first.is_last), (1, false));
        assert_eq!(first.sent_ns, 1_795_322_674_875_352_000);
        let written = Header::new(1, first.sent_ns, false).encode();
        assert_eq!(written[..], octets(FIRST)[..16]);
        let last = Header::decode(&octets(LAST)).unwrap();
        assert_eq!((last.number, last.is_last, last.is_wide), (93, true, true));
        assert_eq!(
            Header::new(93, last.sent_ns, true).encode()[..],
            octets(LAST)[..16]
        );
        assert_eq!(Header::decode(&[0; 11]), None);
    }

    #[test]
    fn the_account_of_iperf_2_1_8_is_understood_and_ours_comes_back() {
        let account = Account::decode(&octets(ANSWER)).unwrap();
        assert_eq!(
            (account.octets, account.elapsed.as_micros()),
            (147_000, 530_194)
        );
        assert_eq!((account.report.sent, account.report.lost), (100, 0));
        assert_eq!(account.report.jitter_ns, Some(11_000.0));
        let answer = account.answer(&octets(LAST));
        assert_eq!(Account::decode(&answer), Some(account));
        assert_eq!(answer[..4], octets(LAST)[..4]);
    }

    #[test]
    fn accounts_of_either_end_before_2_0_10_are_where_these_versions_have_them() {
        let account = Account {
            octets: 5,
            elapsed: Duration::from_secs(1),
            report: Report::default(),
        };
        let mut last = Header::new(9, 0, true).encode().to_vec();
        last[12..].fill(0);
        let answer = account.answer(&last);
        assert_eq!(answer[12..16], ACCOUNT_FLAG.to_be_bytes());
        // An old server's answer is no longer than header and account.
        let answer = &answer[..OLD_HEADER_OCTETS + ACCOUNT_OCTETS];
        assert_eq!(Account::decode(answer).unwrap().octets, 5);
        // A datagram that comes back as it was has none.
        let last = Header::new(9, 0, true).encode();
        let mut echo = vec![0; 128];
        echo[..last.len()].copy_from_slice(&last);
        assert_eq!(Account::decode(&echo), None);
    }
}
