//! The payload of a ping: the run, the number, and the time at which it left.

use std::time::Duration;

/// Marks the payload as a probe of this program.
const MARK: [u8; 8] = *b"dhowping";

/// Octets of a probe.
pub const PROBE_OCTETS: usize = 40;

/// The payload that one ping carries there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Tells this run's probes from those of another run on the same endpoint.
    pub run: [u8; 16],
    /// Counts from 1.
    pub sequence: u64,
    /// When it left, since the run began.
    pub left: Duration,
}

impl Probe {
    /// The payload.
    pub fn encode(&self) -> [u8; PROBE_OCTETS] {
        let left_ns = u64::try_from(self.left.as_nanos()).unwrap_or(u64::MAX);
        let mut octets = [0; PROBE_OCTETS];
        let fields = MARK
            .iter()
            .chain(&self.run)
            .copied()
            .chain(self.sequence.to_be_bytes())
            .chain(left_ns.to_be_bytes());
        for (place, octet) in octets.iter_mut().zip(fields) {
            *place = octet;
        }
        octets
    }

    /// The probe of a payload; `None` for anything else.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let (mark, rest) = payload.split_first_chunk()?;
        let (run, rest) = rest.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (left_ns, rest) = rest.split_first_chunk()?;
        (mark == &MARK && rest.is_empty()).then(|| Self {
            run: *run,
            sequence: u64::from_be_bytes(*sequence),
            left: Duration::from_nanos(u64::from_be_bytes(*left_ns)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_come_back_as_they_left_and_nothing_else_is_one() {
        let probe = Probe {
            run: [7; 16],
            sequence: 3,
            left: Duration::from_nanos(12_345_678_901),
        };
        let octets = probe.encode();
        assert_eq!(Probe::decode(&octets), Some(probe));
        assert_eq!(Probe::decode(&octets[1..]), None);
        assert_eq!(Probe::decode(&[octets.as_slice(), &[0]].concat()), None);
        assert_eq!(Probe::decode(&[0; PROBE_OCTETS]), None);
        assert_eq!(Probe::decode(b""), None);
    }
}
