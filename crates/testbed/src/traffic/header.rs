//! The first octets of a packet's payload, as OTG writes them, followed by the time at which it was sent.
//!
//! ```text
//! octets  0–2   AA AA 02
//!         3–4   flow, for receivers of 16 bits: the remainder of its division by 32767, with the sign of the flow
//!         5–8   number in the flow, from 1
//!         9–16  flow
//!        17–20  "DHOW"           only where the packet is long enough
//!        21–28  when it was sent, nanoseconds since 1970
//! ```
//! All numbers are little-endian, as OTG writes them on machines that are so: it turns them round twice. OTG leaves what follows octet 16
//! as it is in memory; its receivers do not read it.

/// Octets with which each packet begins.
const MARK: [u8; 3] = [0xAA, 0xAA, 0x02];

/// Octets that say that a time follows.
const TIME_MARK: [u8; 4] = *b"DHOW";

/// The number by which OTG divides a flow to name it in 16 bits.
const SHORT_FLOWS: i64 = 32_767;

/// Octets of a header with the time.
pub const HEADER_OCTETS: usize = 29;

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of its flow.
    pub flow: u64,
    /// The number of the packet within the flow, from 1.
    pub number: u32,
    /// When it was sent, nanoseconds since 1970 by its sender's clock; none where it does not say so.
    pub sent_ns: Option<u64>,
}

impl Header {
    /// The first octets of a packet of that flow and number, sent at a time in nanoseconds since 1970.
    #[must_use]
    pub fn of_packet(flow: u64, number: u32, sent_ns: u64) -> [u8; HEADER_OCTETS] {
        let sent_ns = Some(sent_ns);
        Self {
            flow,
            number,
            sent_ns,
        }
        .encode()
    }

    /// The header's octets; a shorter packet carries the first of them.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_OCTETS] {
        let mut octets = [0; HEADER_OCTETS];
        let [low, high, ..] = (self.flow.cast_signed() % SHORT_FLOWS).to_le_bytes();
        let fields: [&[u8]; 6] = [
            &MARK,
            &[low, high],
            &self.number.to_le_bytes(),
            &self.flow.to_le_bytes(),
            &TIME_MARK,
            &self.sent_ns.unwrap_or_default().to_le_bytes(),
        ];
        for (place, octet) in octets.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *octet;
        }
        octets
    }

    /// The header of a payload; none where it is no packet of this kind.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let rest = payload.strip_prefix(&MARK)?;
        let (_, rest) = rest.split_first_chunk::<2>()?;
        let (number, rest) = rest.split_first_chunk::<4>()?;
        let (flow, rest) = rest.split_first_chunk::<8>()?;
        let time = rest.strip_prefix(&TIME_MARK);
        Some(Self {
            flow: u64::from_le_bytes(*flow),
            number: u32::from_le_bytes(*number),
            sent_ns: time
                .and_then(|rest| rest.first_chunk::<8>())
                .map(|octets| u64::from_le_bytes(*octets)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The third packet of a flow as OTG 2.11.0 sends it on a little-endian machine.
    const THIRD: [u8; 17] = [
        0xAA, 0xAA, 2, 0x34, 0x25, 3, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1,
    ];

    #[test]
    fn octets_are_those_of_otg_and_come_back() {
        let header = Header {
            flow: 0x0102_0304_0506_0708,
            number: 3,
            sent_ns: Some(0x1112_1314_1516_1718),
        };
        let octets = header.encode();
        assert_eq!(octets[..17], THIRD);
        assert_eq!(octets[17..25], *b"DHOW\x18\x17\x16\x15");
        assert_eq!(Header::decode(&octets), Some(header));
        let short = Header {
            sent_ns: None,
            ..header
        };
        assert_eq!(Header::decode(&THIRD), Some(short));
        assert_eq!(Header::decode(&octets[..28]), Some(short));
        assert_eq!(Header::decode(&octets[..16]), None);
        assert_eq!(Header::decode(&octets[1..]), None);
        // A flow of 64 bits is a number with a sign to OTG.
        let last = Header {
            flow: u64::MAX,
            ..header
        };
        assert_eq!(last.encode()[3..5], [0xFF, 0xFF]);
    }
}
