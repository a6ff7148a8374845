//! Chains of bundles that run through their entries: eight octets a bundle, and nothing to allocate.

use core::marker::PhantomData;

use dhow_bundle::storage::BundleKey;

use crate::held::bundles::{Bundles, Entry};

/// No bundle: behind the last, and before the first, of a chain.
pub(super) const END: u32 = u32::MAX;

/// The mark of a bundle that is in no chain.
const NOWHERE: u32 = u32::MAX - 1;

/// The mark of a bundle that stands beside its chain, in a table of the chain's owner.
const BESIDE: u32 = u32::MAX - 2;

/// A bundle's neighbours in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    before: u32,
    after: u32,
}

impl Links {
    /// The links of a bundle that is in no chain.
    pub(super) const OUT: Self = Self {
        before: NOWHERE,
        after: NOWHERE,
    };

    const BESIDE: Self = Self {
        before: BESIDE,
        after: BESIDE,
    };
}

/// The kind of a chain: a bundle is in one of each kind at most.
pub(crate) trait Kind {
    /// The links of that kind.
    fn links(entry: &Entry) -> Links;
    /// The links as by `links`, to change them.
    fn links_mut(entry: &mut Entry) -> &mut Links;
}

/// The bag of bundles that expire in the same second.
pub(crate) struct Bag;

impl Kind for Bag {
    fn links(entry: &Entry) -> Links {
        entry.in_bag
    }

    fn links_mut(entry: &mut Entry) -> &mut Links {
        &mut entry.in_bag
    }
}

/// The queue of bundles that wait for the same.
pub(crate) struct Waiting;

impl Kind for Waiting {
    fn links(entry: &Entry) -> Links {
        entry.in_queue
    }

    fn links_mut(entry: &mut Entry) -> &mut Links {
        &mut entry.in_queue
    }
}

/// A bundle's relation to the chains of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The bundle is in no chain.
    Out,
    /// The bundle stands beside a chain.
    Beside,
    /// The bundle is in a chain.
    In,
}

/// Bundles in an order.
pub(crate) struct Chain<K> {
    first: u32,
    last: u32,
    count: usize,
    kind: PhantomData<K>,
}

impl<K> Default for Chain<K> {
    fn default() -> Self {
        Self {
            first: END,
            last: END,
            count: 0,
            kind: PhantomData,
        }
    }
}

impl<K: Kind> Chain<K> {
    /// A bundle's relation to the chains of this kind.
    pub(crate) fn standing(entry: &Entry) -> Standing {
        match K::links(entry) {
            Links::OUT => Standing::Out,
            Links::BESIDE => Standing::Beside,
            _ => Standing::In,
        }
    }

    /// Mark a bundle, which is in no chain, as one that stands beside, or no longer.
    pub(crate) fn set_beside(entry: &mut Entry, is_beside: bool) {
        *K::links_mut(entry) = match is_beside {
            true => Links::BESIDE,
            false => Links::OUT,
        };
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn first(&self) -> Option<BundleKey> {
        (self.first != END).then_some(BundleKey(self.first))
    }

    pub(crate) fn last(&self) -> Option<BundleKey> {
        (self.last != END).then_some(BundleKey(self.last))
    }

    /// Put a bundle, which is in no chain of this kind, behind all others.
    pub(crate) fn push_back(&mut self, bundles: &mut Bundles, key: BundleKey) {
        let links = Links {
            before: self.last,
            after: END,
        };
        if self.place(bundles, key, links) {
            match bundles.entry_mut(BundleKey(self.last)) {
                Some(last) => K::links_mut(last).after = key.0,
                None => self.first = key.0,
            }
            self.last = key.0;
        }
    }

    /// Put a bundle, which is in no chain of this kind, before all others.
    pub(crate) fn push_front(&mut self, bundles: &mut Bundles, key: BundleKey) {
        let links = Links {
            before: END,
            after: self.first,
        };
        if self.place(bundles, key, links) {
            match bundles.entry_mut(BundleKey(self.first)) {
                Some(first) => K::links_mut(first).before = key.0,
                None => self.last = key.0,
            }
            self.first = key.0;
        }
    }

    fn place(&mut self, bundles: &mut Bundles, key: BundleKey, links: Links) -> bool {
        let Some(entry) = bundles.entry_mut(key) else {
            return false;
        };
        let before = core::mem::replace(K::links_mut(entry), links);
        debug_assert_eq!(before, Links::OUT, "a bundle is in one chain of a kind");
        self.count += 1;
        true
    }

    /// Take a bundle out, which is in this chain.
    pub(crate) fn remove(&mut self, bundles: &mut Bundles, key: BundleKey) {
        let Some(entry) = bundles.entry_mut(key) else {
            return;
        };
        let links = core::mem::replace(K::links_mut(entry), Links::OUT);
        match bundles.entry_mut(BundleKey(links.before)) {
            Some(before) => K::links_mut(before).after = links.after,
            None => self.first = links.after,
        }
        match bundles.entry_mut(BundleKey(links.after)) {
            Some(after) => K::links_mut(after).before = links.before,
            None => self.last = links.before,
        }
        self.count -= 1;
    }

    /// All of them in order.
    pub(crate) fn iter<'a>(
        &self,
        bundles: &'a Bundles,
    ) -> impl Iterator<Item = (BundleKey, &'a Entry)> + use<'a, K> {
        let mut place = self.first;
        core::iter::from_fn(move || {
            let key = BundleKey(place);
            let entry = bundles.entry(key)?;
            place = K::links(entry).after;
            Some((key, entry))
        })
    }
}
