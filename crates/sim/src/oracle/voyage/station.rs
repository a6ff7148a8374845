//! One machine as it is seen from outside.

use std::collections::BTreeSet;
use std::time::Duration;

use dhow_bundle::{EndpointId, FragmentRange, Instant};

use super::{Moment, Parcel, Wrong, covers};
use crate::ledger::{BundleName, Named};

/// The number of times that one bundle may leave one machine for one other in a second.
const SENDINGS_MAX: u32 = 20;

/// The interval in which those are counted.
const SENDINGS_EVERY: Duration = Duration::from_secs(1);

/// The error of a bundle age beside those of clocks, at most: it is told in milliseconds at each hop.
const AGE_SLACK: Duration = Duration::from_millis(50);

/// A bundle, the offset of a fragment of it, and the node that it is sent to where that is known.
type Departure = (BundleName, (u64, Option<u32>));

/// One machine.
#[derive(Debug)]
pub struct Station {
    /// Its node's number.
    pub number: u32,
    /// Whether it has a clock.
    has_clock: bool,
    /// When it started last.
    started: Instant,
    /// Bundles that came to it over links.
    came: Named<Vec<Came>>,
    /// Ranges of bundles that its neighbours have acknowledged.
    given: Named<Vec<FragmentRange>>,
    /// Ranges of bundles that it has given its disk, each with the number of its batch.
    stored: Named<Vec<(FragmentRange, u64)>>,
    /// Batches that its disk was given, and of which flushes have ended.
    batches: (u64, u64),
    /// The beginning of the present interval and the number of times that a bundle has left for a node in it.
    sendings: Named<(Instant, u32), Departure>,
}

/// A bundle or fragment that came.
#[derive(Clone, Copy, Debug)]
struct Came {
    version: u64,
    range: FragmentRange,
    hops: Option<(u64, u64)>,
    age_ms: Option<u64>,
    at: Instant,
    /// The number of the node that it came from.
    from: Option<u32>,
    is_whole: bool,
}

/// The circumstances of a bundle's sending.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// The last instant at which its session had nothing to say, or the connection began: the bundle was chosen since.
    pub chosen_since: Instant,
    /// When it was made, where that is known.
    pub made: Option<Instant>,
    /// The number of the node that it is sent to.
    pub to: Option<u32>,
}

impl Station {
    /// A machine that nothing came to.
    #[must_use]
    pub fn new(number: u32, has_clock: bool) -> Self {
        Self {
            number,
            has_clock,
            started: Instant::START,
            came: Named::default(),
            given: Named::default(),
            stored: Named::default(),
            batches: (0, 0),
            sendings: Named::default(),
        }
    }

    /// The machine has started again: octets that no flush covered count no more.
    pub fn start(&mut self, now: Instant) {
        self.started = now;
        let (given, durable) = self.batches;
        if given > durable {
            for parts in self.stored.values_mut() {
                parts.retain(|(_, batch)| *batch <= durable);
            }
        }
        self.batches = (durable, durable);
    }

    /// Its disk gets another batch, which a flush is to cover.
    pub const fn begin_batch(&mut self) {
        self.batches.0 += 1;
    }

    /// The flush of all batches has ended; where it failed, what they had is not stored, but for what an earlier flush
    /// of the same batch covered.
    pub fn end_batch(&mut self, is_durable: bool, covered: &BTreeSet<BundleName>) {
        let durable = self.batches.1;
        self.batches.1 = self.batches.0;
        if is_durable {
            return;
        }
        for (name, parts) in &mut self.stored {
            parts.retain(|(_, batch)| *batch <= durable || covered.contains(name));
        }
    }

    /// Its disk is given these octets of a bundle, in the batch that was begun last.
    pub fn store(&mut self, name: BundleName, range: FragmentRange) {
        let batch = self.batches.0;
        add(&mut self.stored, name, (range, batch));
    }

    /// Whether it made a bundle.
    #[must_use]
    pub fn is_source(&self, parcel: &Parcel) -> bool {
        is_of(&parcel.source, self.number)
    }

    /// The machine has heard the blocks of a bundle.
    pub fn handle_heard(&mut self, parcel: &Parcel, now: Instant) {
        let came = Came {
            version: parcel.version,
            range: parcel.range(),
            hops: parcel.hops,
            age_ms: parcel.age_ms,
            at: now,
            from: match parcel.previous {
                Some(EndpointId::Ipn { node, .. }) => Some(node),
                _ => None,
            },
            is_whole: false,
        };
        add(&mut self.came, parcel.name, came);
    }

    /// The machine has heard all of a bundle.
    pub fn handle_heard_whole(&mut self, parcel: &Parcel) {
        let came = self.came.get_mut(&parcel.name).into_iter().flatten();
        for came in came.filter(|came| came.range == parcel.range()) {
            came.is_whole = true;
        }
    }

    /// A neighbour has acknowledged so many octets of a transfer.
    pub fn handle_acknowledged(&mut self, parcel: &Parcel, octets: u64) {
        if let Some(range) = acknowledged(parcel, octets) {
            add(&mut self.given, parcel.name, range);
        }
    }

    /// All of a bundle has left it over a link that promises nothing.
    ///
    /// # Errors
    /// Its disk does not have it: nobody takes back what has left.
    pub fn handle_left(&mut self, parcel: &Parcel) -> Result<(), Wrong> {
        self.handle_acknowledged(parcel, parcel.octets());
        match self.has_durably(parcel.name, parcel.range_before()) {
            true => Ok(()),
            false => Err((
                "durable",
                "sends a bundle that is not durable on its disk to one who acknowledges none"
                    .to_owned(),
            )),
        }
    }

    /// The machine acknowledges so many octets of a transfer.
    ///
    /// # Errors
    /// They are not on its disk.
    pub fn handle_acknowledges(
        &self,
        parcel: &Parcel,
        octets: u64,
        (moment, is_delivered): (Moment, bool),
    ) -> Result<(), Wrong> {
        let Some(range) = acknowledged(parcel, octets) else {
            return Ok(());
        };
        // RFC 9171 5.5: one that is too old is acknowledged and deleted.
        let is_old = match moment.overdue_ms(parcel) {
            Some(late_ms) if self.has_clock => late_ms + moment.tolerance_ms() >= 0,
            _ => parcel.age_ms.unwrap_or(0).saturating_add(2_000) >= parcel.lifetime_ms,
        };
        // A bundle that an application here has confirmed may be forgotten.
        let length = range.length.min(parcel.range_before().length);
        let kept = FragmentRange { length, ..range };
        if is_old || is_delivered || self.has_durably(parcel.name, kept) {
            return Ok(());
        }
        let octets = octets.min(parcel.octets());
        let what = format!(
            "acknowledges {octets} octets of a bundle of {} of which less is durable on its disk (RFC 9174 5.2.3)",
            parcel.octets()
        );
        Err(("durable", what))
    }

    /// RFC 9174 5.2.3: a peer that has all of a bundle may say so, and this machine may be rid of it.
    pub(super) fn check_kept(&self, parcel: &Parcel) -> Result<(), Wrong> {
        match self.is_source(parcel) || self.has_durably(parcel.name, parcel.range_before()) {
            true => Ok(()),
            false => Err((
                "durable",
                "passes on the end of a bundle that is not durable on its disk".to_owned(),
            )),
        }
    }

    /// Whether some octets of a bundle's payload were given to its disk, and a flush has covered them since.
    #[must_use]
    pub fn has_durably(&self, name: BundleName, range: FragmentRange) -> bool {
        let (_, durable) = self.batches;
        let parts = self.stored.get(&name).into_iter().flatten();
        let parts = parts.filter(|(_, batch)| *batch <= durable);
        covers(parts.map(|(range, _)| *range), range)
    }

    /// Whether neighbours have acknowledged all of some octets.
    #[must_use]
    pub fn has_given(&self, name: BundleName, range: FragmentRange) -> bool {
        let given = self.given.get(&name).into_iter().flatten();
        covers(given.copied(), range)
    }

    /// Whether anything of a bundle was given to a neighbour.
    #[must_use]
    pub fn has_given_any(&self, name: BundleName) -> bool {
        self.given.contains_key(&name)
    }

    /// Whether some octets of a bundle came to it or were made at it, and so were given to its disk.
    #[must_use]
    pub fn had(&self, name: BundleName, range: FragmentRange) -> bool {
        let came = self.came.get(&name).into_iter().flatten();
        let stored = self.stored.get(&name).into_iter().flatten();
        let stored = stored.map(|(range, _)| *range);
        covers(came.map(|came| came.range).chain(stored), range)
    }

    /// Whether a bundle came over a link to its end.
    #[must_use]
    pub fn received_whole(&self, name: BundleName) -> bool {
        let came = self.came.get(&name).into_iter().flatten();
        came.clone().any(|came| came.is_whole)
    }

    /// The age of a bundle that came to a machine which has been up since, and when it came.
    #[must_use]
    pub fn came_aged(&self, name: BundleName) -> Option<(Instant, u64)> {
        let came = self.came.get(&name)?;
        let known = came.iter().filter(|came| came.at >= self.started);
        known
            .filter_map(|came| Some((came.at, came.age_ms?)))
            .next_back()
    }

    /// Looks at the blocks of a bundle that it sends.
    pub(super) fn check_blocks(
        &mut self,
        parcel: &Parcel,
        sending: Sending,
        moment: Moment,
    ) -> Result<(), Wrong> {
        self.check_often(parcel, sending.to, moment)?;
        let is_source = self.is_source(parcel);
        let names_this = |node: &EndpointId| is_of(node, self.number);
        // RFC 6259: in version 6 nobody need name it.
        let may_be_silent = is_source || parcel.version == 6;
        if !parcel.previous.as_ref().map_or(may_be_silent, names_this) {
            return wrong("sends a bundle that names another previous node (RFC 9171 5.4)");
        }
        let range = parcel.range_before();
        let came = self.came.get(&parcel.name).into_iter().flatten();
        let came: Vec<Came> = came
            .filter(|came| covers(std::iter::once(came.range), range))
            .copied()
            .collect();
        // One that has gone round has come to its source as well.
        let is_own = is_source && parcel.hops.is_none_or(|(_, count)| count <= 1);
        if !is_own {
            check_way(parcel, &came, (is_source, sending))?;
        }
        if parcel.created_ms == 0 && parcel.age_ms.is_none() {
            return wrong("sends a bundle without creation time and age (RFC 9171 4.4.2)");
        }
        self.check_age(parcel, &came, sending, moment)?;
        self.check_life(parcel, sending, moment)
    }

    /// RFC 9171 4.4.2: the age is the time that was spent at nodes, and grows.
    fn check_age(
        &self,
        parcel: &Parcel,
        came: &[Came],
        sending: Sending,
        moment: Moment,
    ) -> Result<(), Wrong> {
        let Some(age_ms) = parcel.age_ms else {
            return Ok(());
        };
        let age = Duration::from_millis(age_ms);
        let slack = moment.tolerance.saturating_add(AGE_SLACK);
        let made = sending.made.filter(|_| self.is_source(parcel));
        let begins = came
            .iter()
            .filter_map(|came| Some((came.at, Duration::from_millis(came.age_ms?))));
        let begins: Vec<_> = begins
            .chain(made.map(|made| (made, Duration::ZERO)))
            .collect();
        if begins.is_empty() {
            return Ok(());
        }
        let is_right = begins.iter().any(|(at, before)| {
            // Without a clock, nobody knows how long a machine was off.
            let known = if self.has_clock {
                *at
            } else {
                self.started.max(*at)
            };
            let least = *before + sending.chosen_since.since(known);
            let most = *before + moment.now.since(*at) + slack;
            let has_grown = sending.chosen_since <= known || age + slack >= least;
            has_grown && age >= *before && age <= most
        });
        match is_right {
            true => Ok(()),
            false => Err((
                "passage",
                format!(
                    "sends a bundle of age {age:?} that came {:?} ago with age {:?} (RFC 9171 4.4.2)",
                    moment
                        .now
                        .since(begins.last().map_or(moment.now, |(at, _)| *at)),
                    begins.last().map_or(Duration::ZERO, |(_, age)| *age),
                ),
            )),
        }
    }

    /// RFC 9171 5.5: an expired bundle is deleted and not sent.
    fn check_life(&self, parcel: &Parcel, sending: Sending, moment: Moment) -> Result<(), Wrong> {
        let then = Moment {
            now: sending.chosen_since,
            ..moment
        };
        let overdue_ms = then.overdue_ms(parcel).filter(|_| self.has_clock);
        let late_ms = overdue_ms.map_or(i128::MIN, |late_ms| late_ms - moment.tolerance_ms());
        let over = parcel
            .age_ms
            .unwrap_or(0)
            .saturating_sub(parcel.lifetime_ms);
        if late_ms > 0 || over > 1_000 {
            let late_ms = late_ms.max(i128::from(over));
            let what =
                format!("sends a bundle at least {late_ms} ms after its lifetime (RFC 9171 5.5)");
            return Err(("late", what));
        }
        Ok(())
    }

    fn check_often(
        &mut self,
        parcel: &Parcel,
        to: Option<u32>,
        moment: Moment,
    ) -> Result<(), Wrong> {
        let place = (parcel.name, (parcel.range().offset, to));
        let (since, count) = self.sendings.entry(place).or_insert((moment.now, 0));
        if moment.now.since(*since) > SENDINGS_EVERY {
            (*since, *count) = (moment.now, 0);
        }
        *count += 1;
        match *count > SENDINGS_MAX {
            true => Err((
                "moves",
                format!("sends one bundle {count} times within a second to one neighbour"),
            )),
            false => Ok(()),
        }
    }
}

/// Looks at where a bundle that came to a machine goes from there, and how many hops it says are behind it.
fn check_way(
    parcel: &Parcel,
    came: &[Came],
    (is_source, sending): (bool, Sending),
) -> Result<(), Wrong> {
    if came.is_empty() {
        return wrong(match is_source {
            true => "sends a bundle of its own with hops behind it (RFC 9171 4.4.3)",
            false => "sends a bundle that has not come to it",
        });
    }
    if !came.iter().any(|came| is_next_hop(came, parcel)) {
        let (_, count) = parcel.hops.unwrap_or_default();
        let before = came.iter().filter_map(|came| came.hops).next_back();
        let (_, before) = before.unwrap_or_default();
        let what =
            format!("sends a bundle of hop count {count} that came with {before} (RFC 9171 4.4.3)");
        return Err(("passage", what));
    }
    if sending.to.is_some() && came.iter().all(|came| came.from == sending.to) {
        let what = "sends a bundle back to the neighbour that it came from";
        return Err(("moves", what.to_owned()));
    }
    Ok(())
}

/// Adds a fact about a bundle, of which there is mostly one.
fn add<V>(known: &mut Named<Vec<V>>, name: BundleName, value: V) {
    let values = known.entry(name);
    values.or_insert_with(|| Vec::with_capacity(1)).push(value);
}

/// The octets of the payload in so many octets of a transfer; `None` for none.
pub(in crate::oracle) fn acknowledged(parcel: &Parcel, octets: u64) -> Option<FragmentRange> {
    let payload = octets.min(parcel.octets()).checked_sub(parcel.payload_at)?;
    let range = parcel.range();
    let length = payload.min(range.length);
    (length > 0).then_some(FragmentRange { length, ..range })
}

/// Whether a bundle with this hop count left a node to which it came with that.
///
/// Of a bundle of version 6 that comes into version 7 for the first time nobody knows the hops before.
fn is_next_hop(came: &Came, left: &Parcel) -> bool {
    match (came.hops, left.hops) {
        (Some((limit, count)), Some(left)) => left == (limit, count + 1),
        (None, None) => true,
        (None, Some((_, count))) => came.version == 6 && left.version == 7 && count == 1,
        _ => false,
    }
}

/// Whether an endpoint is one of a node.
pub(super) fn is_of(endpoint: &EndpointId, number: u32) -> bool {
    matches!(endpoint, EndpointId::Ipn { allocator: 0, node, .. } if *node == number)
}

fn wrong(what: &str) -> Result<(), Wrong> {
    Err(("passage", what.to_owned()))
}
