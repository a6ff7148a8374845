//! Datagrams obey draft-ietf-dtn-udpcl-04, and show which bundles leave and come by them.
//!
//! A witness stands at each end of a link over UDP. It reads what its node gives and what its node is given, by the draft alone, and shares nothing
//! with the conversations that it judges. Of what leaves it holds more than the draft asks for (docs/udpcl.md): segments of a transfer leave in
//! order, no datagram is larger than the scenario says, and in no time more octets leave than the rate allows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_scenario::scenario::UdpPolicy;

use super::Seen;
use super::pace::Pace;
use super::voyage::Parcel;

/// The time since its last segment for which a transfer is waited for, and for which it is known when it is over.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(10);

/// The first octet of a bundle of version 7 (RFC 9171 4.1), and of version 6 (RFC 5050 4.5.1).
const BUNDLES: [u8; 2] = [0x9f, 0x06];

/// A map with one pair (draft 3.5.1), whose key says that a Transfer item follows (3.5.2).
const TRANSFER: [u8; 2] = [0xa1, 0x02];

/// The transfers at one end of a conversation by datagrams.
#[derive(Debug)]
pub struct Witness {
    pace: Pace,
    /// Transfers in segments, by their IDs.
    said: BTreeMap<u64, Transfer>,
    heard: BTreeMap<u64, Transfer>,
}

/// A transfer of which segments have passed.
#[derive(Debug, Default)]
struct Transfer {
    total: u64,
    /// Its first octets.
    octets: Vec<u8>,
    /// Others, by their offset.
    early: BTreeMap<u64, Vec<u8>>,
    parcel: Option<Arc<Parcel>>,
    /// Whether all of it has passed.
    is_whole: bool,
    last: Instant,
}

/// A segment of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment<'a> {
    transfer: u64,
    total: u64,
    offset: u64,
    octets: &'a [u8],
}

impl Transfer {
    /// More octets; whether its blocks are read now, or what is wrong with them.
    fn add(&mut self, segment: &Segment<'_>, now: Instant) -> Option<Result<Arc<Parcel>, String>> {
        self.total = segment.total;
        self.last = now;
        self.early.insert(segment.offset, segment.octets.to_vec());
        while let Some(next) = self.early.first_entry()
            && *next.key() <= length(&self.octets)
        {
            let (offset, octets) = next.remove_entry();
            let known = usize::try_from(length(&self.octets) - offset).unwrap_or(usize::MAX);
            self.octets
                .extend_from_slice(octets.get(known..).unwrap_or_default());
        }
        if self.parcel.is_some() {
            return None;
        }
        let read = Parcel::read(&self.octets).transpose()?.map(Arc::new);
        self.parcel = read.as_ref().ok().map(Arc::clone);
        Some(read)
    }

    fn has_all(&self) -> bool {
        length(&self.octets) == self.total
    }
}

impl Witness {
    /// The witness of a conversation that begins, in which datagrams leave so.
    #[must_use]
    pub fn new(udp: UdpPolicy, now: Instant) -> Self {
        Self {
            pace: Pace::new(udp.mtu_octets, udp.octets_per_s, now),
            said: BTreeMap::new(),
            heard: BTreeMap::new(),
        }
    }

    /// The node gives a datagram of so many octets to be sent.
    ///
    /// # Errors
    /// It is too large, or comes too soon.
    pub fn handle_given(&mut self, octets: u64, now: Instant) -> Result<(), String> {
        self.pace.handle_given(octets, now)
    }

    /// A datagram has left the socket.
    ///
    /// # Errors
    /// It breaks a rule.
    pub fn handle_said(&mut self, datagram: &[u8], now: Instant) -> Result<Vec<Seen>, String> {
        if datagram
            .first()
            .is_some_and(|first| BUNDLES.contains(first))
        {
            let parcel = match Parcel::read(datagram) {
                Ok(Some(parcel)) => Arc::new(parcel),
                Ok(None) => return Err("sends a part of a bundle by itself (draft 3.3)".to_owned()),
                Err(what) => return Ok(vec![Seen::Nonsense(what)]),
            };
            check_whole(&parcel, datagram)?;
            let whole = Seen::SaidWhole(Arc::clone(&parcel), datagram.to_vec());
            return Ok(vec![Seen::Said(parcel), whole]);
        }
        let segment =
            segment(datagram).ok_or("sends neither a bundle nor a transfer (draft 3.3)")?;
        let transfer = self.said.entry(segment.transfer).or_default();
        let is_new = transfer.octets.is_empty();
        let end = segment.offset.saturating_add(length(segment.octets));
        if !is_new && transfer.total != segment.total || end > segment.total {
            return Err("sends segments that say different lengths (draft 3.6.2)".to_owned());
        }
        if segment.offset != length(&transfer.octets) || segment.octets.is_empty() {
            return Err("sends segments out of order, or twice".to_owned());
        }
        let read = transfer.add(&segment, now);
        let mut seen: Vec<Seen> = read
            .map(|read| read.map_or_else(Seen::Nonsense, Seen::Said))
            .into_iter()
            .collect();
        if transfer.has_all()
            && let Some(transfer) = self.said.remove(&segment.transfer)
            && let Some(parcel) = transfer.parcel
        {
            check_whole(&parcel, &transfer.octets)?;
            seen.push(Seen::SaidWhole(parcel, transfer.octets));
        }
        Ok(seen)
    }

    /// A datagram that came is given to the node.
    pub fn handle_heard(&mut self, datagram: &[u8], now: Instant) -> Vec<Seen> {
        self.heard
            .retain(|_, transfer| transfer.last + TRANSFER_TIMEOUT > now);
        if datagram
            .first()
            .is_some_and(|first| BUNDLES.contains(first))
        {
            let read = Parcel::read(datagram).ok().flatten().map(Arc::new);
            let seen = read.map(|it| [Seen::Heard(Arc::clone(&it)), Seen::HeardWhole(it)]);
            return seen.into_iter().flatten().collect();
        }
        let Some(segment) = segment(datagram) else {
            return Vec::new();
        };
        let transfer = self.heard.entry(segment.transfer).or_default();
        if transfer.is_whole {
            transfer.last = now;
            return Vec::new();
        }
        let read = transfer.add(&segment, now).and_then(Result::ok);
        let mut seen: Vec<Seen> = read.map(Seen::Heard).into_iter().collect();
        if transfer.has_all() {
            transfer.is_whole = true;
            transfer.octets = Vec::new();
            seen.extend(transfer.parcel.take().map(Seen::HeardWhole));
        }
        seen
    }

    /// Whether segments came of a transfer that may still be completed.
    #[must_use]
    pub fn is_receiving(&self, now: Instant) -> bool {
        let mut heard = self.heard.values();
        heard.any(|it| !it.is_whole && it.last + TRANSFER_TIMEOUT > now)
    }
}

/// Whether octets are those of one bundle.
fn check_whole(parcel: &Parcel, octets: &[u8]) -> Result<(), String> {
    match parcel.octets() == length(octets) {
        true => Ok(()),
        false => Err("sends a transfer that is not one bundle (draft 3.6)".to_owned()),
    }
}

fn length(octets: &[u8]) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}

/// The segment in a datagram that is nothing else: an array of ID, total length, offset and octets, or of ID and octets.
fn segment(datagram: &[u8]) -> Option<Segment<'_>> {
    let mut rest = datagram.strip_prefix(&TRANSFER)?;
    let items = head(&mut rest, 4)?;
    let transfer = head(&mut rest, 0)?;
    let place = match items {
        4 => Some((head(&mut rest, 0)?, head(&mut rest, 0)?)),
        2 => None,
        _ => return None,
    };
    let octets = head(&mut rest, 2)?;
    let (total, offset) = place.unwrap_or((octets, 0));
    (octets == length(rest)).then_some(Segment {
        transfer,
        total,
        offset,
        octets: rest,
    })
}

/// The number in the head of an item of some major type (RFC 8949 3).
fn head(rest: &mut &[u8], major: u8) -> Option<u64> {
    let (first, behind) = rest.split_first()?;
    let octets = match first & 0x1f {
        short @ 0..=23 => {
            *rest = behind;
            return (first >> 5 == major).then_some(u64::from(short));
        }
        long @ 24..=27 => 1_usize << (long - 24),
        _ => return None,
    };
    let (number, behind) = behind.split_at_checked(octets)?;
    *rest = behind;
    let number = number.iter();
    let number = number.fold(0, |sum, octet| sum << 8 | u64::from(*octet));
    (first >> 5 == major).then_some(number)
}

#[cfg(test)]
mod tests {
    use dhow_scenario::scenario::OnSent;

    use super::*;

    const UDP: UdpPolicy = UdpPolicy {
        mtu_octets: 1_000,
        octets_per_s: 100_000,
        on_sent: OnSent::Forget,
    };

    fn datagram(transfer: u8, total: u16, offset: u16, octets: &[u8]) -> Vec<u8> {
        let mut out = vec![0xa1, 0x02, 0x84, 0x18, transfer];
        for number in [total, offset] {
            out.push(0x19);
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&[0x58, u8::try_from(octets.len()).expect("it is short")]);
        out.extend_from_slice(octets);
        out
    }

    #[test]
    fn segments_leave_in_order_and_of_one_length() {
        let now = Instant::START;
        for (second, said) in [
            (datagram(30, 300, 100, &[1; 100]), None),
            (datagram(30, 300, 50, &[1; 100]), Some("out of order")),
            (datagram(30, 300, 200, &[1; 100]), Some("out of order")),
            (datagram(30, 301, 100, &[1; 100]), Some("different lengths")),
            (datagram(30, 150, 100, &[1; 100]), Some("different lengths")),
            (vec![0xa1, 0x03, 0x00], Some("neither")),
            (vec![0; 4], Some("neither")),
        ] {
            let mut witness = Witness::new(UDP, now);
            let first = witness.handle_said(&datagram(30, 300, 0, &[1; 100]), now);
            assert!(matches!(first.as_deref(), Ok([Seen::Nonsense(_)])));
            let found = witness.handle_said(&second, now);
            let text = found.err();
            let is_right = match (&text, said) {
                (Some(text), Some(said)) => text.contains(said),
                (text, said) => text.is_none() && said.is_none(),
            };
            assert!(is_right, "{text:?}, {said:?}");
        }
    }

    #[test]
    fn no_more_leaves_than_the_rate_and_one_burst() {
        let mut witness = Witness::new(UDP, Instant::START);
        assert!(witness.handle_given(1_001, Instant::START).is_err());
        for _ in 0..65 {
            assert_eq!(witness.handle_given(1_000, Instant::START), Ok(()));
        }
        assert!(witness.handle_given(1_000, Instant::START).is_err());
        let later = Instant::START + Duration::from_millis(10);
        assert_eq!(witness.handle_given(1_000, later), Ok(()));
        assert!(witness.handle_given(1_000, later).is_err());
    }

    #[test]
    fn a_transfer_of_which_segments_are_missing_comes_for_ten_seconds() {
        let mut witness = Witness::new(UDP, Instant::START);
        let after = |seconds| Instant::START + Duration::from_secs(seconds);
        assert!(!witness.is_receiving(after(0)));
        witness.handle_heard(&datagram(30, 300, 100, &[1; 100]), after(0));
        assert!(witness.is_receiving(after(9)));
        witness.handle_heard(&datagram(30, 300, 0, &[1; 100]), after(9));
        assert!(witness.is_receiving(after(18)) && !witness.is_receiving(after(19)));
    }
}
