//! IP packets, one behind the other, as the payload of a bundle of a tunnel has them (docs/tunnel.md).

/// Octets of an IPv4 header without options (RFC 791 3.1).
const V4_HEADER: usize = 20;

/// Octets of an IPv6 header (RFC 8200 3).
const V6_HEADER: usize = 40;

/// The next header after which IPv6 has hop-by-hop options (RFC 8200 4.3).
const HOP_BY_HOP: u8 = 0;

/// The packet with which octets begin; `None` where they are no whole packet. Jumbograms (RFC 2675) are none.
pub fn first(octets: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| {
        let octets = octets.get(at..at + 2)?;
        Some(usize::from(u16::from_be_bytes(octets.try_into().ok()?)))
    };
    let length = match octets.first()? >> 4 {
        4 => number(2).filter(|length| *length >= V4_HEADER)?,
        6 => match (number(4)?, *octets.get(6)?) {
            // RFC 8200 3, RFC 2675 3: options behind a payload of length 0 tell of a longer one; without them there is none, as after 59
            // (RFC 8200 4.7).
            (0, HOP_BY_HOP) => return None,
            (length, _) => V6_HEADER + length,
        },
        _ => return None,
    };
    octets.get(..length)
}

/// Whether octets are one packet, which the other end reads as such.
pub fn is_whole(packet: &[u8]) -> bool {
    first(packet).is_some_and(|first| first.len() == packet.len())
}

/// True for a packet of IPv6.
pub fn is_v6(packet: &[u8]) -> bool {
    packet.first().is_some_and(|it| it >> 4 == 6)
}

/// The packets of a payload, in their order; the last is `Err` where the octets left are no packet.
pub fn of(payload: &[u8]) -> impl Iterator<Item = Result<&[u8], NoPacket>> {
    let mut left = payload;
    std::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let packet = first(left);
        left = left.get(packet.map_or(left.len(), <[u8]>::len)..)?;
        Some(packet.ok_or(NoPacket))
    })
}

/// Octets that are no IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPacket;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v4(octets: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0];
        packet.extend(octets.to_be_bytes());
        packet.resize(usize::from(octets), 7);
        packet
    }

    fn v6(payload: u16) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend(payload.to_be_bytes());
        packet.resize(V6_HEADER + usize::from(payload), 9);
        packet
    }

    /// A packet with nothing behind its header, as far as the header says.
    fn before(next_header: u8) -> Vec<u8> {
        let mut packet = v6(0);
        packet[6] = next_header;
        packet
    }

    #[test]
    fn packets_end_where_their_headers_say() {
        let header_alone = before(59);
        let payload = [v4(20), v6(1), header_alone, v4(65_535)].concat();
        let found: Vec<usize> = of(&payload).map(|it| it.map_or(0, <[u8]>::len)).collect();
        assert_eq!(found, [20, 41, 40, 65_535]);
        for wrong in [
            vec![0x45],
            v4(19),
            before(HOP_BY_HOP),
            vec![0x50; 40],
            vec![0; 100],
            v4(100)[..99].to_vec(),
            v6(10)[..49].to_vec(),
        ] {
            let payload = [v4(30), wrong].concat();
            let found: Vec<_> = of(&payload).map(|it| it.map(<[u8]>::len)).collect();
            assert_eq!(found, [Ok(30), Err(NoPacket)]);
        }
        assert_eq!(of(&[]).count(), 0);
        assert!(is_v6(&v6(1)) && !is_v6(&v4(20)));
        assert!(is_whole(&v6(1)) && is_whole(&v4(20)));
        assert!(
            !is_whole(&before(HOP_BY_HOP))
                && !is_whole(&[v4(20), v4(20)].concat())
                && !is_whole(&[])
        );
    }

    proptest! {
        #[test]
        fn any_octets_are_cut_without_loss(payload in prop::collection::vec(any::<u8>(), 0..300)) {
            let whole: usize = of(&payload).filter_map(Result::ok).map(<[u8]>::len).sum();
            prop_assert!(whole <= payload.len());
            prop_assert_eq!(of(&payload).any(|it| it.is_err()), whole < payload.len());
        }
    }
}
