//! Payloads of the perf service, to the octet; numbers in network byte order (`docs/perf-service.md`).

/// The first octets of every payload.
pub const MARK: [u8; 8] = *b"dhowperf";

/// Version of the format.
pub const VERSION: u8 = 1;

/// Octets of a probe's head; what follows in its payload is filling.
pub const PROBE_OCTETS: usize = 52;

/// Octets of a summary.
pub const SUMMARY_OCTETS: usize = 120;

const KIND_PROBE: u8 = 1;
const KIND_SUMMARY: u8 = 2;

/// One measurement, told from all others of its source.
pub type RunId = [u8; 16];

/// The head of the payload of a bundle that is to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The measurement.
    pub run: RunId,
    /// Streams of the measurement, 1 to 64.
    pub streams: u16,
    /// Time between two summaries that is wished for, milliseconds.
    pub interval_ms: u32,
    /// The stream's number, from 0.
    pub stream: u32,
    /// The bundle's number in the stream, from 0.
    pub sequence: u64,
    /// Bundles of the stream in all; 0 while that is not known.
    pub total: u64,
}

impl Probe {
    /// The head of the payload.
    #[must_use]
    pub fn encode(&self) -> [u8; PROBE_OCTETS] {
        let mut octets = [0; PROBE_OCTETS];
        let fields: [&[u8]; 8] = [
            &MARK,
            &[VERSION, KIND_PROBE],
            &self.streams.to_be_bytes(),
            &self.interval_ms.to_be_bytes(),
            &self.run,
            &self.stream.to_be_bytes(),
            &self.sequence.to_be_bytes(),
            &self.total.to_be_bytes(),
        ];
        fill(&mut octets, &fields);
        octets
    }

    /// The probe at the start of a payload; `None` for anything else.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields::of(payload, KIND_PROBE)?;
        let probe = Self {
            streams: u16::from_be_bytes(fields.take()?),
            interval_ms: u32::from_be_bytes(fields.take()?),
            run: fields.take()?,
            stream: u32::from_be_bytes(fields.take()?),
            sequence: u64::from_be_bytes(fields.take()?),
            total: u64::from_be_bytes(fields.take()?),
        };
        Some(probe)
    }
}

/// The time that bundles took from their creation to the service, by the clocks of both nodes; negative where
/// these differ by more than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Bundles of which it is known.
    pub count: u64,
    /// The shortest, milliseconds.
    pub min_ms: i64,
    /// The longest, milliseconds.
    pub max_ms: i64,
    /// All together, milliseconds.
    pub sum_ms: i64,
}

impl Delays {
    /// Adds a delay.
    pub fn add(&mut self, delay_ms: i64) {
        let first = self.count == 0;
        self.min_ms = if first {
            delay_ms
        } else {
            self.min_ms.min(delay_ms)
        };
        self.max_ms = if first {
            delay_ms
        } else {
            self.max_ms.max(delay_ms)
        };
        self.sum_ms = self.sum_ms.saturating_add(delay_ms);
        self.count = self.count.saturating_add(1);
    }
}

/// The counts of a measurement since the service first heard of it in this run of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The measurement.
    pub run: RunId,
    /// Counts the summaries of one count, from 0: the highest tells most.
    pub number: u32,
    /// Names this count: creation timestamp (milliseconds, sequence number) of its first summary. Another
    /// one began from zero, after the service's node had been started again.
    pub count: [u64; 2],
    /// Bundles that came.
    pub bundles: u64,
    /// Octets of their payloads.
    pub octets: u64,
    /// Bundles that came again.
    pub repeated: u64,
    /// Of `bundles`, those that came so late, and with so many gaps before them, that they may have come before.
    pub uncertain: u64,
    /// The time from the first octets of the first bundle to the newest bundle being durable, microseconds.
    pub span_us: u64,
    /// The delays from creation to the service.
    pub delays: Delays,
}

impl Summary {
    /// The payload.
    #[must_use]
    pub fn encode(&self) -> [u8; SUMMARY_OCTETS] {
        let mut octets = [0; SUMMARY_OCTETS];
        let [time, sequence] = self.count;
        let delays = self.delays;
        let fields: [&[u8]; 16] = [
            &MARK,
            &[VERSION, KIND_SUMMARY],
            &[0, 0],
            &self.number.to_be_bytes(),
            &self.run,
            &time.to_be_bytes(),
            &sequence.to_be_bytes(),
            &self.bundles.to_be_bytes(),
            &self.octets.to_be_bytes(),
            &self.repeated.to_be_bytes(),
            &self.uncertain.to_be_bytes(),
            &self.span_us.to_be_bytes(),
            &delays.count.to_be_bytes(),
            &delays.min_ms.to_be_bytes(),
            &delays.max_ms.to_be_bytes(),
            &delays.sum_ms.to_be_bytes(),
        ];
        fill(&mut octets, &fields);
        octets
    }

    /// The summary of a payload, which later versions may continue; `None` for anything else.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields::of(payload, KIND_SUMMARY)?;
        let _reserved: [u8; 2] = fields.take()?;
        let number = u32::from_be_bytes(fields.take()?);
        let run = fields.take()?;
        let mut next = || fields.take().map(u64::from_be_bytes);
        Some(Self {
            run,
            number,
            count: [next()?, next()?],
            bundles: next()?,
            octets: next()?,
            repeated: next()?,
            uncertain: next()?,
            span_us: next()?,
            delays: Delays {
                count: next()?,
                min_ms: next()?.cast_signed(),
                max_ms: next()?.cast_signed(),
                sum_ms: next()?.cast_signed(),
            },
        })
    }
}

/// Whether this is the beginning of a summary.
pub(crate) fn is_summary(beginning: &[u8]) -> bool {
    Fields::of(beginning, KIND_SUMMARY).is_some()
}

/// Put fields one behind the other; they are as long as the payload.
fn fill(octets: &mut [u8], fields: &[&[u8]]) {
    let values = fields.iter().flat_map(|field| field.iter());
    for (place, value) in octets.iter_mut().zip(values) {
        *place = *value;
    }
}

/// The fields of a payload, from the first behind its kind.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn of(payload: &'a [u8], kind: u8) -> Option<Self> {
        let (mark, rest) = payload.split_first_chunk()?;
        let (&version, rest) = rest.split_first()?;
        let (&of_kind, rest) = rest.split_first()?;
        (*mark == MARK && version == VERSION && of_kind == kind).then_some(Self(rest))
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn probe() -> Probe {
        Probe {
            run: *b"0123456789abcdef",
            streams: 2,
            interval_ms: 1_000,
            stream: 1,
            sequence: 77,
            total: 2_000,
        }
    }

    fn summary() -> Summary {
        Summary {
            run: *b"0123456789abcdef",
            number: 3,
            count: [800_000_000_000, 5],
            bundles: 2_000,
            octets: 2_000_000,
            repeated: 1,
            uncertain: 2,
            span_us: 1_500_000,
            delays: Delays {
                count: 2_000,
                min_ms: -3,
                max_ms: 250,
                sum_ms: 40_000,
            },
        }
    }

    /// The payloads as `docs/perf-service.md` shows them.
    #[test]
    fn payloads_are_to_the_octet_what_is_documented() {
        assert_eq!(
            hex(&probe().encode()),
            "64686f7770657266 01 01 0002 000003e8 30313233343536373839616263646566 00000001 \
             000000000000004d 00000000000007d0"
                .replace([' ', '\n'], "")
        );
        assert_eq!(
            hex(&summary().encode()),
            "64686f7770657266 01 02 0000 00000003 30313233343536373839616263646566 000000ba43b74000 \
             0000000000000005 00000000000007d0 00000000001e8480 0000000000000001 0000000000000002 \
             000000000016e360 00000000000007d0 fffffffffffffffd 00000000000000fa 0000000000009c40"
                .replace([' ', '\n'], "")
        );
    }

    fn hex(octets: &[u8]) -> alloc::string::String {
        octets
            .iter()
            .map(|octet| alloc::format!("{octet:02x}"))
            .collect()
    }

    #[test]
    fn payloads_come_back_as_they_left_and_nothing_else_is_one() {
        let mut octets: Vec<u8> = probe().encode().to_vec();
        assert_eq!(Summary::decode(&octets), None);
        for cut in 0..octets.len() {
            assert_eq!(Probe::decode(&octets[..cut]), None);
        }
        octets.extend_from_slice(&[7; 1_000]);
        assert_eq!(Probe::decode(&octets), Some(probe()));
        let octets = summary().encode();
        assert_eq!(Summary::decode(&octets), Some(summary()));
        assert_eq!(Probe::decode(&octets), None);
        for cut in 0..octets.len() {
            assert_eq!(Summary::decode(&octets[..cut]), None);
        }
        for place in [0, 8, 9] {
            let mut other = octets;
            other[place] ^= 1;
            assert_eq!(Summary::decode(&other), None);
        }
    }

    #[test]
    fn delays_know_their_extremes() {
        let mut delays = Delays::default();
        for delay in [5, -2, 9] {
            delays.add(delay);
        }
        assert_eq!(
            (delays.count, delays.min_ms, delays.max_ms, delays.sum_ms),
            (3, -2, 9, 12)
        );
    }
}
