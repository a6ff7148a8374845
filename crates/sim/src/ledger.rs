//! Payloads that were sent, accepted and delivered, and the number of copies of each bundle on disks.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use dhow_bundle::{BundleId, EndpointId, FragmentRange, Instant};
use dhow_scenario::scenario::OnSent;

/// The name of a payload: the traffic's number and the number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitName {
    /// Position in the scenario's traffic.
    pub traffic: u32,
    /// The number of the payload in the traffic, from 0.
    pub number: u32,
}

impl UnitName {
    fn place(self) -> (usize, usize) {
        let place = |number| usize::try_from(number).unwrap_or(usize::MAX);
        (place(self.traffic), place(self.number))
    }
}

/// The confirmation of a payload by the application at its destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confirmation {
    /// Not.
    #[default]
    None,
    /// Given to the node in this life, which may forget it in a crash, at this time.
    Given(u32, Instant),
    /// Given to the node so long before a crash that its disk must have it.
    Durable,
}

/// One payload's fate.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// Octets of the payload.
    pub octets: u64,
    /// When it was given to the node.
    pub sent: Instant,
    /// The time for which it is of use.
    pub lifetime: Duration,
    /// The number of the node that it is for.
    pub to: u32,
    /// The reports that are asked for: bundle processing control flags.
    pub reports: u64,
    /// The time at which the node had accepted the payload.
    pub accepted: Option<Instant>,
    /// Whether the node refused the payload.
    pub is_refused: bool,
    /// When the application at its destination had it first.
    pub delivered: Option<Instant>,
    /// The confirmation of the delivery.
    pub confirmation: Confirmation,
    /// Its bundle.
    pub bundle: Option<BundleName>,
}

impl Unit {
    /// The time from which on a node may drop it, by clocks that are right.
    #[must_use]
    pub fn expires(&self) -> Instant {
        self.sent + self.lifetime
    }
}

/// A bundle's identity as a number; fragments have that of the bundle that they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleName(pub u64);

impl BundleName {
    /// The name of what an identity tells, whether a fragment or not.
    #[must_use]
    pub fn of(id: &BundleId) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut mix = |word: u64| {
            hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        };
        match &id.source {
            EndpointId::Null => mix(1),
            EndpointId::Ipn {
                allocator,
                node,
                service,
            } => {
                mix(u64::from(*allocator) << 32 | u64::from(*node));
                mix(u64::from(*service));
            }
            EndpointId::Dtn(name) => name.bytes().for_each(|octet| mix(u64::from(octet))),
        }
        mix(id.creation.time.as_millis());
        mix(id.creation.sequence);
        Self(hash)
    }
}

/// All that is known of a bundle of any source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    /// Durable copies that nobody has decided to delete.
    pub copies: u32,
    /// Whether a fragment of it was ever stored.
    pub fragmented: bool,
    /// Whether a stored copy or fragment of it was hit by rot.
    pub rotten: bool,
    /// The payload that it carries, once its application knows.
    pub unit: Option<UnitName>,
}

/// Octets of a bundle that the network may have lost.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    /// Octets of the whole payload.
    pub total_octets: u64,
    /// Octets that left over a link that promises nothing and that nobody has made durable since.
    pub lost: Vec<FragmentRange>,
    /// Octets of them that their sender need not keep.
    pub free: Vec<FragmentRange>,
    /// Whether there were such octets.
    pub was_free: bool,
}

/// Everything known of payloads and bundles.
#[derive(Debug, Default)]
pub struct Ledger {
    units: Vec<Vec<Unit>>,
    bundles: Named<Record>,
    /// Bundles of which octets have left over a link that promises nothing.
    gone: BTreeMap<BundleName, Gone>,
    /// The number of payloads that were accepted.
    pub accepted: u64,
    /// The number of payloads that were refused.
    pub refused: u64,
    /// Status reports that came to those that send.
    pub reports: u64,
    /// The number of payloads that were delivered.
    pub delivered: u64,
}

impl Ledger {
    /// An empty one for so many kinds of traffic.
    #[must_use]
    pub fn new(traffic: usize) -> Self {
        Self {
            units: vec![Vec::new(); traffic],
            ..Self::default()
        }
    }

    /// The next payload of some traffic; its name comes back.
    pub fn send(&mut self, traffic: u32, unit: Unit) -> Option<UnitName> {
        let units = self.units.get_mut(usize::try_from(traffic).ok()?)?;
        let number = u32::try_from(units.len()).ok()?;
        units.push(unit);
        Some(UnitName { traffic, number })
    }

    /// One payload.
    #[must_use]
    pub fn unit(&self, name: UnitName) -> Option<&Unit> {
        let (traffic, number) = name.place();
        self.units.get(traffic)?.get(number)
    }

    /// One payload, to be changed.
    pub fn unit_mut(&mut self, name: UnitName) -> Option<&mut Unit> {
        let (traffic, number) = name.place();
        self.units.get_mut(traffic)?.get_mut(number)
    }

    /// Confirmations of some traffic are known only to this life of the node, whatever it does with its disk.
    pub fn forget_confirmations(&mut self, traffic: u32, life: u32) {
        let traffic = usize::try_from(traffic).unwrap_or(usize::MAX);
        let never = Instant::from_nanos(u64::MAX);
        for unit in self.units.get_mut(traffic).into_iter().flatten() {
            match unit.confirmation {
                Confirmation::Durable => unit.confirmation = Confirmation::Given(life, never),
                Confirmation::Given(then, _) => {
                    unit.confirmation = Confirmation::Given(then, never);
                }
                Confirmation::None => {}
            }
        }
    }

    /// Confirmations of some traffic that were given to this life of the node before an instant are durable.
    pub fn settle_confirmations(&mut self, traffic: u32, life: u32, before: Instant) {
        let traffic = usize::try_from(traffic).unwrap_or(usize::MAX);
        for unit in self.units.get_mut(traffic).into_iter().flatten() {
            if let Confirmation::Given(then, at) = unit.confirmation
                && then == life
                && at <= before
            {
                unit.confirmation = Confirmation::Durable;
            }
        }
    }

    /// Whether a bundle of this name was ever in a store.
    #[must_use]
    pub fn is_known(&self, bundle: BundleName) -> bool {
        self.bundles.contains_key(&bundle)
    }

    /// All payloads with their names, in order.
    pub fn units(&self) -> impl Iterator<Item = (UnitName, &Unit)> {
        (0_u32..).zip(&self.units).flat_map(|(traffic, units)| {
            let named = (0_u32..).zip(units);
            named.map(move |(number, unit)| (UnitName { traffic, number }, unit))
        })
    }

    /// The number of payloads that were given to nodes.
    #[must_use]
    pub fn sent(&self) -> u64 {
        let count = self.units.iter().map(Vec::len).sum::<usize>();
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// The record of a bundle; an empty one of a bundle that is not known.
    #[must_use]
    pub fn record(&self, bundle: BundleName) -> Record {
        self.bundles.get(&bundle).copied().unwrap_or_default()
    }

    /// The record of a bundle, to be changed.
    pub fn record_mut(&mut self, bundle: BundleName) -> &mut Record {
        self.bundles.entry(bundle).or_default()
    }

    /// Octets of a bundle with so many in all have left over a link that promises nothing, after which they may be removed or not.
    pub fn let_go(
        &mut self,
        bundle: BundleName,
        range: FragmentRange,
        (total, on_sent): (u64, OnSent),
    ) {
        let gone = self.gone.entry(bundle).or_default();
        gone.total_octets = total;
        gone.was_free |= on_sent == OnSent::Forget;
        let free = (on_sent == OnSent::Forget).then_some(&mut gone.free);
        for list in [Some(&mut gone.lost), free].into_iter().flatten() {
            if !list.contains(&range) {
                list.push(range);
            }
        }
    }

    /// A bundle, or a part of it, is durable somewhere.
    pub fn take_up(&mut self, bundle: BundleName, part: Option<FragmentRange>) {
        let Some(gone) = self.gone.get_mut(&bundle) else {
            return;
        };
        let end = |range: &FragmentRange| range.offset.saturating_add(range.length);
        let is_in = |range: &FragmentRange, part: FragmentRange| {
            part.offset <= range.offset && end(range) <= end(&part)
        };
        for list in [&mut gone.lost, &mut gone.free] {
            list.retain(|range| part.is_some_and(|part| !is_in(range, part)));
        }
    }

    /// The octets of bundles that the network may have lost.
    pub fn gone(&self) -> impl Iterator<Item = (BundleName, &Gone)> {
        self.gone.iter().map(|(name, gone)| (*name, gone))
    }

    /// The octets of a bundle that the network may have lost, where anything of it has left over a link that promises nothing.
    #[must_use]
    pub fn gone_of(&self, bundle: BundleName) -> Option<&Gone> {
        self.gone.get(&bundle)
    }

    /// The payload that a bundle carries.
    #[must_use]
    pub fn carried(&self, bundle: BundleName) -> Option<UnitName> {
        self.bundles.get(&bundle)?.unit
    }
}

/// A table by the names of bundles.
pub type Named<V, K = BundleName> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// Names are mixed already.
#[derive(Debug, Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, octets: &[u8]) {
        for octet in octets {
            self.write_u64(u64::from(*octet));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = self.0.rotate_left(8) ^ word;
    }
}
