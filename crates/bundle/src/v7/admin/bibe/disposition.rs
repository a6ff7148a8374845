//! [`Disposition`]: the outcome of custody of a bundle at the node that signals.

use core::fmt;

/// The outcome of custody that was asked of another node (draft-ietf-dtn-bibect-03 figure 1, RFC 5050 6.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disposition {
    /// Custody was accepted.
    Accepted,
    /// Custody was refused, and nothing more is said.
    NoInformation,
    /// The node has a copy already; that one may be released, too.
    Redundant,
    /// The node has no room.
    DepletedStorage,
    /// The node cannot read the destination endpoint ID.
    DestinationUnintelligible,
    /// The node knows no route to the destination.
    NoRoute,
    /// The node has no contact with the next node in time.
    NoTimelyContact,
    /// The node cannot process a block.
    BlockUnintelligible,
    /// A code that is reserved: a refusal.
    Other(u64),
}

/// The codes of dispositions, which differ between programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Numbering {
    /// The codes of draft-ietf-dtn-bibect-03, which ION uses: from 3 on they are the reasons of RFC 5050 6.1.2.
    #[default]
    Draft,
    /// The codes of DTNME, without the draft's reserved code 2.
    Dtnme,
}

impl Numbering {
    const fn dispositions(self) -> &'static [Option<Disposition>] {
        use Disposition as D;
        match self {
            Self::Draft => &[
                Some(D::Accepted),
                Some(D::NoInformation),
                None,
                Some(D::Redundant),
                Some(D::DepletedStorage),
                Some(D::DestinationUnintelligible),
                Some(D::NoRoute),
                Some(D::NoTimelyContact),
                Some(D::BlockUnintelligible),
            ],
            Self::Dtnme => &[
                Some(D::Accepted),
                Some(D::NoInformation),
                Some(D::Redundant),
                Some(D::DepletedStorage),
                Some(D::DestinationUnintelligible),
                Some(D::NoRoute),
                Some(D::NoTimelyContact),
                Some(D::BlockUnintelligible),
            ],
        }
    }
}

impl Disposition {
    /// The disposition with this code.
    #[must_use]
    pub fn from_code(code: u64, numbering: Numbering) -> Self {
        let place = usize::try_from(code).ok();
        let known = place.and_then(|place| numbering.dispositions().get(place).copied().flatten());
        known.unwrap_or(Self::Other(code))
    }

    /// Its code on the wire.
    #[must_use]
    pub fn code(self, numbering: Numbering) -> u64 {
        if let Self::Other(code) = self {
            return code;
        }
        let mut all = numbering.dispositions().iter();
        let place = all.position(|known| *known == Some(self));
        place
            .and_then(|place| u64::try_from(place).ok())
            .unwrap_or(u64::MAX)
    }

    /// The disposition that a custody signal of version 6 tells: success, and a reason (RFC 5050 6.1.2). A success is one whatever its reason says.
    #[must_use]
    pub fn from_signal(is_success: bool, reason: u8) -> Self {
        match (is_success, reason) {
            (true, _) => Self::Accepted,
            (false, 0) => Self::NoInformation,
            (false, reason @ 3..) => Self::from_code(u64::from(reason), Numbering::Draft),
            (false, reason) => Self::Other(u64::from(reason)),
        }
    }

    /// Success, and the reason of seven bits, as a custody signal of version 6 tells it (RFC 5050 6.1.2). A reserved code that is no such
    /// reason tells nothing more.
    #[must_use]
    pub fn signal(self) -> (bool, u8) {
        let reason = match self {
            Self::Accepted | Self::NoInformation => 0,
            _ => self.code(Numbering::Draft),
        };
        let reason = u8::try_from(reason).ok().filter(|reason| *reason < 0x80);
        (self == Self::Accepted, reason.unwrap_or(0))
    }

    /// True where the node that signals has the bundle: its custodian need not keep it (draft-ietf-dtn-bibect-03 4.4, RFC 5050 5.12).
    #[must_use]
    pub const fn releases(self) -> bool {
        matches!(self, Self::Accepted | Self::Redundant)
    }
}

impl fmt::Display for Disposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted => "custody accepted",
            Self::NoInformation => "no further information",
            Self::Redundant => "redundant reception",
            Self::DepletedStorage => "depleted storage",
            Self::DestinationUnintelligible => "destination endpoint ID unintelligible",
            Self::NoRoute => "no known route to destination from here",
            Self::NoTimelyContact => "no timely contact with next node on route",
            Self::BlockUnintelligible => "block unintelligible",
            Self::Other(code) => return write!(f, "disposition {code}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_codes_of_both_numberings_are_the_recorded_ones() {
        let names = |numbering| -> Vec<String> {
            (0..10)
                .map(|code| Disposition::from_code(code, numbering).to_string())
                .collect()
        };
        let refusals = [
            "depleted storage",
            "destination endpoint ID unintelligible",
            "no known route to destination from here",
            "no timely contact with next node on route",
            "block unintelligible",
        ];
        let begin = ["custody accepted", "no further information"];
        let draft = [
            &begin[..],
            &["disposition 2", "redundant reception"],
            &refusals,
            &["disposition 9"],
        ];
        assert_eq!(names(Numbering::Draft), draft.concat());
        let dtnme = [
            &begin[..],
            &["redundant reception"],
            &refusals,
            &["disposition 8", "disposition 9"],
        ];
        assert_eq!(names(Numbering::Dtnme), dtnme.concat());
        for numbering in [Numbering::Draft, Numbering::Dtnme] {
            for code in (0..300).chain([u64::MAX]) {
                let disposition = Disposition::from_code(code, numbering);
                assert_eq!(disposition.code(numbering), code);
            }
        }
    }

    /// RFC 5050 6.1.2.
    #[test]
    fn the_reasons_of_custody_signals_are_dispositions_and_back() {
        for reason in 0..0x80 {
            let refusal = Disposition::from_signal(false, reason);
            assert_eq!(refusal.signal(), (false, reason), "{refusal}");
            assert_eq!(refusal.releases(), reason == 3, "{refusal}");
            let success = Disposition::from_signal(true, reason);
            assert_eq!(success, Disposition::Accepted);
            assert!(success.releases());
        }
        assert_eq!(Disposition::Accepted.signal(), (true, 0));
        for code in [0x80, 0x100, u64::MAX] {
            assert_eq!(Disposition::Other(code).signal(), (false, 0));
        }
    }
}
