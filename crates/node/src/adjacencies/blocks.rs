//! Blocks of LTP that come in: the bundles in each, one behind the other, and their fates.
//!
//! A block is one transfer of its layer and may hold several bundles. Each is a transfer of its own for the rest of the node, numbered here. The
//! layer hears of the block alone: that it is durable, once all of its bundles are, or that it is refused.

use alloc::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use dhow_link::stream::{LinkCommand, RefuseReason, TransferId};

/// Bundles of one block, at most.
const BUNDLES_BOUND: usize = 65_536;

/// A bundle that no neighbour may bring ends its block at once where it is the first and has so many octets or more. A smaller one is passed over: others may
/// follow it, and the peer would send the whole block again and again.
const PASSED_OVER_OCTETS: u64 = 1 << 20;

/// Incoming blocks by their transfers.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: BTreeMap<TransferId, Block>,
    /// The blocks of the bundles that are not settled.
    of: BTreeMap<TransferId, TransferId>,
    next: u64,
}

#[derive(Debug)]
struct Block {
    state: State,
    /// Bundles that began.
    begun: usize,
    /// Bundles of those that are neither durable nor refused.
    unsettled: usize,
    /// The ones that are durable here, or known.
    taken: usize,
    has_ended: bool,
    /// The bundle that has the rest of the block since its own end is not there or not known: others may be in it.
    swallows: Option<TransferId>,
    /// Whether the layer was told to send it again, while the rest of another of its bundles is awaited: until that is given up.
    is_refused: bool,
}

/// The place in a block up to which its octets have come.
#[derive(Debug)]
enum State {
    /// Before a bundle, or within its header blocks, of which there are these octets; they are looked at again when there are so many as `wanted`.
    Between { octets: BytesMut, wanted: usize },
    /// Within a bundle of which so many octets are missing; `None` where it goes on to the end of the block.
    Within {
        bundle: TransferId,
        missing: Option<u64>,
        octets: u64,
    },
}

/// The length of the bundle that octets begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// Its header blocks are not all there.
    Unknown,
    /// So many octets.
    Octets(u64),
    /// The bundle goes to the end of the block: blocks of unknown length follow its payload.
    Rest,
    /// The bundle cannot be read, and nothing tells where it ends.
    Unreadable,
}

/// Octets of a bundle.
#[derive(Debug)]
pub(crate) struct Portion {
    pub(crate) bundle: TransferId,
    pub(crate) octets: Bytes,
    pub(crate) start: bool,
    pub(crate) end: bool,
}

impl Blocks {
    /// A block begins.
    pub(crate) fn begin(&mut self, block: TransferId) {
        let begun = Block {
            state: State::between(),
            begun: 0,
            unsettled: 0,
            taken: 0,
            has_ended: false,
            swallows: None,
            is_refused: false,
        };
        self.blocks.insert(block, begun);
    }

    /// The next portion of the octets that came of a block, which are all that are left of it where `is_end`; `measure` reads the header of a bundle. `None` when
    /// none is left.
    pub(crate) fn portion(
        &mut self,
        block: TransferId,
        octets: &mut Bytes,
        is_end: bool,
        measure: impl FnOnce(&Bytes) -> Length,
    ) -> Option<Portion> {
        let it = self.blocks.get_mut(&block).filter(|it| !it.is_refused)?;
        match &mut it.state {
            State::Within {
                bundle, missing, ..
            } => {
                let bundle = *bundle;
                let part = cut(octets, missing);
                let end = *missing == Some(0) || (is_end && octets.is_empty());
                if end && missing.is_some_and(|missing| missing > 0) {
                    it.swallows = Some(bundle);
                }
                if end {
                    it.state = State::between();
                }
                let is_some = end || !part.is_empty();
                is_some.then_some(Portion {
                    bundle,
                    octets: part,
                    start: false,
                    end,
                })
            }
            State::Between {
                octets: before,
                wanted,
            } => {
                if octets.is_empty() && (before.is_empty() || !is_end) {
                    return None;
                }
                let whole = match before.is_empty() {
                    true => core::mem::take(octets),
                    false => {
                        // Header blocks cut by a segment boundary are the one thing that is copied.
                        before.extend_from_slice(&core::mem::take(octets));
                        if before.len() < *wanted && !is_end {
                            return None;
                        }
                        core::mem::take(before).freeze()
                    }
                };
                let (mut missing, mut swallows) = match measure(&whole) {
                    Length::Unknown if !is_end => {
                        *wanted = whole.len().saturating_mul(2);
                        *before = BytesMut::from(whole.as_ref());
                        return None;
                    }
                    Length::Octets(length) => (Some(length), false),
                    Length::Rest => (None, false),
                    Length::Unknown | Length::Unreadable => (None, true),
                };
                if it.begun >= BUNDLES_BOUND {
                    // The reader finds octets behind the end of the bundle.
                    (missing, swallows) = (None, true);
                }
                let length = missing.unwrap_or(u64::MAX);
                *octets = whole;
                let part = cut(octets, &mut missing);
                let end = missing == Some(0) || (is_end && octets.is_empty());
                swallows |= end && missing.is_some_and(|missing| missing > 0);
                let bundle = TransferId(self.next);
                if swallows {
                    it.swallows = Some(bundle);
                }
                self.next = self.next.saturating_add(1);
                self.of.insert(bundle, block);
                it.begun = it.begun.saturating_add(1);
                it.unsettled = it.unsettled.saturating_add(1);
                it.state = match end {
                    true => State::between(),
                    false => State::Within {
                        bundle,
                        missing,
                        octets: length,
                    },
                };
                Some(Portion {
                    bundle,
                    octets: part,
                    start: true,
                    end,
                })
            }
        }
    }

    /// The bundle of a block whose octets come, where its length is known, and how many of them have.
    pub(crate) fn within(&self, block: TransferId) -> Option<(TransferId, u64)> {
        let it = self.blocks.get(&block).filter(|it| !it.is_refused)?;
        match &it.state {
            State::Within {
                bundle,
                missing: Some(missing),
                octets,
            } => Some((*bundle, octets.saturating_sub(*missing))),
            State::Within { .. } | State::Between { .. } => None,
        }
    }

    /// So many octets of the bundle that comes are the next, and not its last; they are elsewhere. The bundle.
    pub(crate) fn pass(&mut self, block: TransferId, octets: u64) -> Option<TransferId> {
        let it = self.blocks.get_mut(&block).filter(|it| !it.is_refused)?;
        match &mut it.state {
            State::Within {
                bundle,
                missing: Some(missing),
                ..
            } => {
                *missing = missing.saturating_sub(octets);
                Some(*bundle)
            }
            State::Within { .. } | State::Between { .. } => None,
        }
    }

    /// All octets of a block have come; what the layer is to do about it, where that is known already.
    pub(crate) fn end(&mut self, block: TransferId) -> Option<LinkCommand> {
        let it = self.blocks.get_mut(&block)?;
        it.has_ended = true;
        if it.swallows.is_some() && !it.is_refused {
            // Acknowledged, bundles that follow the end that it should have would be lost.
            self.blocks.remove(&block);
            return Some(LinkCommand::Refuse {
                transfer: block,
                reason: RefuseReason::NotAcceptable,
            });
        }
        self.settle(block)
    }

    /// A bundle is durable here, or known.
    pub(crate) fn taken(&mut self, bundle: TransferId) -> Option<LinkCommand> {
        let block = self.of.remove(&bundle)?;
        let it = self.blocks.get_mut(&block)?;
        it.unsettled = it.unsettled.saturating_sub(1);
        it.taken = it.taken.saturating_add(1);
        self.settle(block)
    }

    /// A bundle is refused.
    pub(crate) fn refused(
        &mut self,
        bundle: TransferId,
        reason: RefuseReason,
    ) -> Option<LinkCommand> {
        if reason == RefuseReason::Completed {
            return self.taken(bundle);
        }
        let block = self.of.remove(&bundle)?;
        let it = self.blocks.get_mut(&block)?;
        it.unsettled = it.unsettled.saturating_sub(1);
        let goes_on = match &it.state {
            State::Within {
                bundle: current,
                octets,
                missing,
            } if *current == bundle => missing.is_some() && *octets < PASSED_OVER_OCTETS,
            _ => true,
        };
        let is_final = reason == RefuseReason::NotAcceptable;
        if is_final && it.swallows != Some(bundle) && (goes_on || it.begun > 1) {
            return self.settle(block);
        }
        // A part of a block cannot be refused: the peer sends all of it again.
        match &it.state {
            State::Within { bundle: open, .. } if *open != bundle && !it.is_refused => {
                it.is_refused = true;
            }
            State::Within { bundle: open, .. } if *open != bundle => return None,
            _ => drop(self.blocks.remove(&block)),
        }
        Some(LinkCommand::Refuse {
            transfer: block,
            reason,
        })
    }

    /// Whether a block was refused within a bundle whose beginning the node has, and which is to be [abandoned](Self::abandon).
    pub(crate) fn is_open(&self, block: TransferId) -> bool {
        self.blocks.contains_key(&block)
    }

    /// The rest of a block will not come: the bundle of it that has begun and is not whole.
    pub(crate) fn abandon(&mut self, block: TransferId) -> Option<TransferId> {
        match self.blocks.remove(&block)?.state {
            State::Within { bundle, .. } => {
                self.of.remove(&bundle);
                Some(bundle)
            }
            State::Between { .. } => None,
        }
    }

    /// Bundles and blocks that are not settled.
    #[cfg(test)]
    pub(crate) fn unsettled(&self) -> (usize, usize) {
        (self.of.len(), self.blocks.len())
    }

    fn settle(&mut self, block: TransferId) -> Option<LinkCommand> {
        let it = self.blocks.get(&block)?;
        if !it.has_ended || it.unsettled > 0 || it.is_refused {
            return None;
        }
        let it = self.blocks.remove(&block)?;
        let transfer = block;
        Some(match it.taken {
            0 => LinkCommand::Refuse {
                transfer,
                reason: RefuseReason::NotAcceptable,
            },
            _ => LinkCommand::Acknowledge {
                transfer,
                octets: u64::MAX,
            },
        })
    }
}

impl State {
    fn between() -> Self {
        Self::Between {
            octets: BytesMut::new(),
            wanted: 0,
        }
    }
}

/// As many of the octets as are missing, which are fewer then.
fn cut(octets: &mut Bytes, missing: &mut Option<u64>) -> Bytes {
    let Some(missing) = missing else {
        return core::mem::take(octets);
    };
    let length = usize::try_from(*missing).unwrap_or(usize::MAX);
    let part = octets.split_to(length.min(octets.len()));
    *missing = missing.saturating_sub(u64::try_from(part.len()).unwrap_or(u64::MAX));
    part
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const BLOCK: TransferId = TransferId(9);

    /// Bundles of this test begin with an octet that says how long they are, and with one more.
    fn measure(octets: &Bytes) -> Length {
        match octets[..] {
            [0, ..] => Length::Unreadable,
            [length, _, ..] => Length::Octets(length.into()),
            _ => Length::Unknown,
        }
    }

    /// The bundles of a block that comes in pieces.
    fn receive(blocks: &mut Blocks, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Option<LinkCommand>) {
        let mut bundles: Vec<Vec<u8>> = Vec::new();
        blocks.begin(BLOCK);
        for (number, piece) in pieces.iter().enumerate() {
            let is_end = number + 1 == pieces.len();
            let mut octets = Bytes::copy_from_slice(piece);
            while let Some(portion) = blocks.portion(BLOCK, &mut octets, is_end, measure) {
                assert_eq!(
                    portion.start,
                    u64::try_from(bundles.len()) == Ok(portion.bundle.0)
                );
                if portion.start {
                    bundles.push(Vec::new());
                }
                bundles
                    .last_mut()
                    .unwrap()
                    .extend_from_slice(&portion.octets);
            }
        }
        let end = blocks.end(BLOCK);
        (bundles, end)
    }

    proptest! {
        #[test]
        fn a_block_comes_apart_at_the_ends_of_its_bundles_however_it_is_cut(
            lengths in proptest::collection::vec(2_u8..40, 1..12),
            cuts in proptest::collection::vec(0_usize..400, 0..20),
        ) {
            let bundles: Vec<Vec<u8>> = lengths.iter().map(|it| vec![*it; usize::from(*it)]).collect();
            let whole = bundles.concat();
            let mut places: Vec<usize> = cuts.iter().map(|it| it % whole.len()).collect();
            places.extend([0, whole.len()]);
            places.sort_unstable();
            places.dedup();
            let pieces: Vec<&[u8]> = places.windows(2).map(|it| &whole[it[0]..it[1]]).collect();
            let mut blocks = Blocks::default();
            let (received, end) = receive(&mut blocks, &pieces);
            prop_assert_eq!(received, bundles);
            prop_assert!(end.is_none(), "nothing is durable");
            for number in 0..lengths.len() {
                let number = u64::try_from(number).unwrap();
                let settled = blocks.taken(TransferId(number));
                prop_assert_eq!(settled.is_some(), number + 1 == u64::try_from(lengths.len()).unwrap());
            }
            prop_assert_eq!(blocks.unsettled(), (0, 0));
        }
    }

    #[test]
    fn a_block_ends_as_its_bundles_do() {
        let refused = |it: Option<LinkCommand>| match it {
            Some(LinkCommand::Refuse { reason, .. }) => Some(reason),
            Some(LinkCommand::Acknowledge { .. }) => None,
            other => panic!("{other:?}"),
        };
        let two = |first, second| {
            let mut blocks = Blocks::default();
            receive(&mut blocks, &[&[2, 0, 3, 0, 0]]);
            let settle = |blocks: &mut Blocks, bundle, reason| match reason {
                Some(reason) => blocks.refused(bundle, reason),
                None => blocks.taken(bundle),
            };
            let before = settle(&mut blocks, TransferId(0), first);
            let end = before.or_else(|| settle(&mut blocks, TransferId(1), second));
            refused(end)
        };
        let never = Some(RefuseReason::NotAcceptable);
        let full = Some(RefuseReason::NoResources);
        assert_eq!(two(None, None), None);
        assert_eq!(two(Some(RefuseReason::Completed), None), None);
        assert_eq!(
            two(None, never),
            None,
            "the other would come again for ever"
        );
        assert_eq!(two(never, None), None);
        assert_eq!(two(never, never), never);
        assert_eq!(two(None, full), full);
        assert_eq!(two(full, None), full);
    }

    /// Others may be in the octets of one whose end is not known: none of them is acknowledged.
    #[test]
    fn a_block_is_refused_whole_at_a_bundle_that_cannot_be_read() {
        for pieces in [&[&[2, 0, 0, 3, 0, 0][..]][..], &[&[2, 0, 0, 3], &[0, 0]]] {
            let mut blocks = Blocks::default();
            blocks.begin(BLOCK);
            let mut refused = None;
            for (number, piece) in pieces.iter().enumerate() {
                let mut octets = Bytes::copy_from_slice(piece);
                let is_end = number + 1 == pieces.len();
                while let Some(it) = blocks.portion(BLOCK, &mut octets, is_end, measure) {
                    if it.bundle == TransferId(1) {
                        refused = blocks.refused(it.bundle, RefuseReason::NotAcceptable);
                    }
                }
            }
            assert!(matches!(refused, Some(LinkCommand::Refuse { .. })));
            assert!(blocks.end(BLOCK).is_none());
            assert!(blocks.taken(TransferId(0)).is_none());
            assert_eq!(blocks.unsettled(), (0, 0));
        }
    }

    #[test]
    fn a_block_that_is_refused_gives_up_the_bundle_that_was_coming() {
        let mut blocks = Blocks::default();
        blocks.begin(BLOCK);
        let mut octets = Bytes::from_static(&[2, 0, 9, 0, 0]);
        while blocks.portion(BLOCK, &mut octets, false, measure).is_some() {}
        let refused = blocks.refused(TransferId(0), RefuseReason::NoResources);
        assert!(matches!(
            refused,
            Some(LinkCommand::Refuse {
                transfer: BLOCK,
                ..
            })
        ));
        let mut octets = Bytes::from_static(&[0, 0, 0, 0, 0, 0]);
        assert!(blocks.portion(BLOCK, &mut octets, true, measure).is_none());
        assert!(blocks.end(BLOCK).is_none());
        assert!(blocks.is_open(BLOCK));
        assert_eq!(blocks.abandon(BLOCK), Some(TransferId(1)));
        assert_eq!(blocks.unsettled(), (0, 0));
    }

    #[test]
    fn a_bundle_that_never_ends_is_given_up_with_its_block() {
        let mut blocks = Blocks::default();
        let (received, end) = receive(&mut blocks, &[&[2, 0, 9, 0, 0]]);
        let is_refused = matches!(end, Some(LinkCommand::Refuse { .. }));
        assert_eq!((received.len(), is_refused), (2, true));
        let mut blocks = Blocks::default();
        blocks.begin(BLOCK);
        let mut octets = Bytes::from_static(&[2, 0, 9, 0, 0]);
        while blocks.portion(BLOCK, &mut octets, false, measure).is_some() {}
        assert_eq!(blocks.abandon(BLOCK), Some(TransferId(1)));
        assert_eq!(
            blocks.unsettled(),
            (1, 0),
            "the first may be under way to the disk"
        );
        assert!(blocks.taken(TransferId(0)).is_none());
        assert_eq!(blocks.unsettled(), (0, 0));
    }
}
