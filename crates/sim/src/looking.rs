//! Looks at the whole world from time to time, for faults that only show where nothing happens.

use std::collections::BTreeMap;
use std::time::Duration;

use dhow_bundle::router::RouterKind;
use dhow_bundle::{EndpointId, FragmentRange, Instant};
use dhow_scenario::scenario::Clock;

use crate::clock::EPOCH;
use crate::connection::{Connection, EndState, Wire};
use crate::dialling::road_at;
use crate::ledger::{BundleName, Confirmation};
use crate::oracle::{Fact, Room, Rule, Wrong};
use crate::queue::{Life, MachineIndex, Side};
use crate::world::{World, machine};

/// The time for which a session that stands may carry nothing while a bundle waits for it: longer than any bundle rests that was refused.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// Octets of a bundle beside its payload, at most: the blocks that nodes write here, and checksums.
const HEADERS_MAX: u64 = 256;

/// The time after its lifetime for which a bundle may be held that is on its way to a neighbour or application.
const HELD_LATE: Duration = Duration::from_secs(90);

/// The time for which a node may count room as taken that nothing takes.
const LEAK_MAX: Duration = Duration::from_secs(60);

/// The time in which a bundle is durable at a node that has been given all of it by one who sends it once.
const TAKEN_MAX: Duration = Duration::from_secs(5);

/// Machines that are looked at together, at most: each look goes through all that a machine has.
const LOOKED_AT_ONCE: usize = 256;

/// A bundle of which a node has been given all by one who sends it once.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) at: MachineIndex,
    pub(crate) life: Life,
    pub(crate) since: Instant,
    pub(crate) name: BundleName,
    pub(crate) range: FragmentRange,
}

/// A neighbour with whom there is a connection, or was one a while ago.
enum Beside {
    /// The session with it stands, and has carried nothing for long.
    Idle {
        since: Instant,
        /// Octets that a transfer to it may have.
        transfer_mru: u64,
    },
    /// Any other.
    There,
}

impl World {
    /// Looks at every machine that is up, and in a large network at some of them, each time at others.
    pub(crate) fn look_around(&mut self) {
        let all = self.machines.len();
        for _ in 0..all.min(LOOKED_AT_ONCE) {
            let at = machine(self.looked_at);
            self.looked_at = (self.looked_at + 1) % all;
            let Some(running) = self
                .machines
                .get(at.at())
                .and_then(|it| it.running.as_ref())
            else {
                continue;
            };
            if let Err(what) = running.node.check_invariants() {
                self.accuse_wrong(at, ("assertion", format!("has lost count: {what}")));
            }
            let looks = [
                Self::find_leak,
                Self::find_idle,
                Self::find_late,
                Self::find_leftover,
                Self::find_greedy,
            ];
            for look in looks {
                if let Some(wrong) = look(self, at) {
                    self.accuse_wrong(at, wrong);
                }
            }
        }
    }

    /// A node has been given all of a bundle by one who sends it once: unless it has little room, it is to keep it.
    pub(crate) fn await_taken(&mut self, at: MachineIndex, name: BundleName, range: FragmentRange) {
        let Some(machine) = self.machines.get(at.at()) else {
            return;
        };
        let config = &machine.blueprint.config;
        let octets = self
            .kept
            .given_octets(at, Room::OnceDeleted)
            .saturating_add(range.length);
        let bundles = u64::try_from(self.kept.facts(at).count()).unwrap_or(u64::MAX);
        if octets <= config.quota_octets / 2 && bundles < config.quota_bundles / 2 {
            self.awaited.push_back(Awaited {
                at,
                life: machine.life,
                since: self.now,
                name,
                range,
            });
        }
    }

    /// Looks for bundles that were given so and are not durable there.
    pub(crate) fn look_for_awaited(&mut self) {
        let now = self.now;
        let is_due = |it: &Awaited| it.since + TAKEN_MAX <= now;
        while self.awaited.front().is_some_and(is_due)
            && let Some(awaited) = self.awaited.pop_front()
        {
            if let Some(wrong) = self.find_untaken(&awaited) {
                self.accuse_wrong(awaited.at, wrong);
            }
        }
    }

    fn find_untaken(&self, awaited: &Awaited) -> Option<Wrong> {
        let Awaited { at, name, .. } = *awaited;
        let station = self.voyages.as_ref()?.station(at)?;
        let is_troubled = self.machines.get(at.at())?.troubled > awaited.since;
        let record = self.ledger.record(name);
        let carried = record.unit?;
        let unit = self.ledger.unit(carried)?;
        let is_over = unit.delivered.is_some() || unit.expires() <= self.now + self.tolerance();
        let is_excused = is_troubled || record.rotten || is_over || !self.lives(at, awaited.life);
        // It may have passed on what the next hop has by now.
        let range = awaited.range;
        if is_excused || station.has_durably(name, range) || station.has_given(name, range) {
            return None;
        }
        let what = format!(
            "has been given all of {}, which is sent once, and not made it durable for {TAKEN_MAX:?}",
            self.describe(carried)
        );
        Some(("arrives", what))
    }

    /// A source elsewhere that has more bundles on a node's disk than its share.
    fn find_greedy(&mut self, at: MachineIndex) -> Option<Wrong> {
        let machine = self.machines.get(at.at())?;
        let most = machine.blueprint.config.source_limits.bundles?;
        let mut held: BTreeMap<u32, u64> = BTreeMap::new();
        for fact in self.kept.facts(at) {
            let unit = self.ledger.carried(fact.name);
            if let Some(unit) = unit.filter(|_| fact.previous.is_some()) {
                *held.entry(unit.traffic).or_default() += 1;
            }
        }
        let (traffic, held) = held.into_iter().find(|(_, held)| *held > most)?;
        let what = format!(
            "has {held} bundles of the source of traffic {} where {most} of one may be",
            traffic + 1
        );
        Some(("within", what))
    }

    /// Room that a node counts as taken while its disk has less and nothing comes or goes.
    fn find_leak(&mut self, at: MachineIndex) -> Option<Wrong> {
        let is_receiving = self.voyages.is_none() || self.is_receiving(at);
        let (stored, now) = (self.kept.octets(at), self.now);
        let machine = self.machines.get_mut(at.at())?;
        let running = machine.running.as_mut()?;
        let busy = running.flushing || !running.batch.is_empty();
        let sending = machine
            .blueprint
            .applications
            .iter()
            .any(|it| it.is_sending());
        let taken = running.node.taken_octets();
        let stored = stored.filter(|stored| *stored != taken);
        let Some(stored) = stored.filter(|_| !busy && !sending && !is_receiving) else {
            running.miscounts = None;
            return None;
        };
        let since = *running.miscounts.get_or_insert(now);
        if now.since(since) < LEAK_MAX {
            return None;
        }
        let what = format!(
            "counts {taken} octets of its quota as taken, and its disk has {stored} of bundles"
        );
        Some(("within", what))
    }

    fn is_receiving(&self, at: MachineIndex) -> bool {
        let mut sockets = self.sockets_of(at).map(|(_, socket)| socket);
        if sockets.any(|socket| socket.is_receiving(self.now)) {
            return true;
        }
        self.connections_of(at).into_iter().any(|(key, side)| {
            let connection = self.connection(key);
            connection.is_none_or(|it| match (&it.referee, &it.onlooker) {
                (Some(referee), _) => referee.is_receiving(side),
                (None, Some(onlooker)) => side == Side::Accepting && onlooker.is_receiving(),
                (None, None) => true,
            })
        })
    }

    /// A bundle that waits though a session could take it that stands and carries nothing, whichever of the bundle's routes leads there. Of
    /// the other neighbours that may have the bundle, none has had a connection for as long that carries something.
    fn find_idle(&mut self, at: MachineIndex) -> Option<Wrong> {
        let voyages = self.voyages.as_ref()?;
        let station = voyages.station(at)?;
        let here = self.machines.get(at.at())?;
        let before = self.now.since(Instant::START).checked_sub(IDLE_MAX)?;
        let before = Instant::START + before;
        if here.troubled > before {
            return None;
        }
        let neighbours = self.neighbours_of(at, before);
        let is_idle = |state: &Beside| matches!(state, Beside::Idle { .. });
        if !neighbours.values().any(is_idle) {
            return None;
        }
        let facts = self.kept.facts(at).filter(|fact| fact.since <= before);
        let mut waiting =
            facts.filter(|fact| self.is_of_use(fact) && !station.has_given_any(fact.name));
        let (unit, next, since) = waiting.find_map(|fact| {
            let (next, since) = self.neglected(at, fact, &neighbours)?;
            Some((self.ledger.carried(fact.name)?, next, since))
        })?;
        let what = format!(
            "holds {}, which {} could take, and has let the session with it stand idle for {:?}",
            self.describe(unit),
            self.name(next),
            self.now.since(since)
        );
        Some(("idle", what))
    }

    /// The neighbour to which a bundle should have gone, and since when its session has carried nothing.
    fn neglected(
        &self,
        at: MachineIndex,
        fact: &Fact,
        neighbours: &BTreeMap<MachineIndex, Beside>,
    ) -> Option<(MachineIndex, Instant)> {
        let EndpointId::Ipn { node: to, .. } = fact.destination else {
            return None;
        };
        let came_from = |hop: &MachineIndex| matches!(fact.previous, Some(EndpointId::Ipn { node, .. }) if Some(node) == self.number(*hop));
        let whole_octets = self.whole_octets(fact);
        let mut idle = None;
        for hop in self.hops(at, to, neighbours).filter(|hop| !came_from(hop)) {
            match neighbours.get(&hop) {
                None => {}
                Some(Beside::Idle {
                    since,
                    transfer_mru,
                }) => {
                    let most = whole_octets.map(|octets| octets + HEADERS_MAX);
                    let fits = most.is_none_or(|most| most <= *transfer_mru);
                    let is_wanted = fits && !self.has_had(hop, fact);
                    idle = idle.or(is_wanted.then_some((hop, *since)));
                }
                // It may have been given to the session there, and wait for its turn in that.
                Some(Beside::There) => {
                    let machine = self.machines.get(hop.at())?;
                    let policy = &machine.blueprint.config.listeners.first()?.policy;
                    if whole_octets.is_none_or(|octets| octets <= policy.transfer_mru) {
                        return None;
                    }
                }
            }
        }
        idle
    }

    /// Whether a machine has had all of a bundle durably, as its disk was flushed: it has no need of it, and may have said so in an advert.
    fn has_had(&self, at: MachineIndex, fact: &Fact) -> bool {
        let station = self.voyages.as_ref().and_then(|it| it.station(at));
        let unit = self.ledger.carried(fact.name);
        let octets = unit.and_then(|it| Some(self.ledger.unit(it)?.octets));
        let range = fact
            .part
            .or(octets.map(|length| FragmentRange { offset: 0, length }));
        station
            .zip(range)
            .is_some_and(|(station, range)| station.has_durably(fact.name, range))
    }

    /// The neighbours to which a machine may send what is for a node, best first: the node itself, then those of routes.
    fn hops<'a>(
        &'a self,
        at: MachineIndex,
        to: u32,
        neighbours: &'a BTreeMap<MachineIndex, Beside>,
    ) -> impl Iterator<Item = MachineIndex> + 'a {
        let here = self.machines.get(at.at());
        let hops = here.and_then(|here| here.blueprint.hops.get(&to));
        // Such routers keep copies for better neighbours.
        let chooses =
            |rule: Rule| matches!(rule.router, RouterKind::SprayAndWait | RouterKind::Prophet);
        let hops = hops.filter(|_| !self.spreads.rule(at, to).is_some_and(chooses));
        let hops = hops.into_iter().flatten().map(|(_, hop)| machine(hop.0));
        let itself = neighbours.keys().copied();
        let itself = itself.filter(move |hop| self.number(*hop) == Some(to));
        itself.chain(hops)
    }

    /// Octets of the payload of a bundle that must not be fragmented.
    fn whole_octets(&self, fact: &Fact) -> Option<u64> {
        let name = self.ledger.carried(fact.name)?;
        let flow = self.traffic.get(usize::try_from(name.traffic).ok()?)?;
        let unit = self.ledger.unit(name)?;
        flow.traffic.must_not_fragment.then_some(unit.octets)
    }

    /// The neighbours with whom there is a connection, or was one since an instant.
    fn neighbours_of(&self, at: MachineIndex, before: Instant) -> BTreeMap<MachineIndex, Beside> {
        let mut neighbours = BTreeMap::new();
        let roads = self.machines.get(at.at()).map(|here| &here.roads);
        let roads = roads.into_iter().flatten();
        for road in roads.filter_map(|road| self.roads.get(road_at(*road))) {
            let (other, parted) = match road.ends.0 == at {
                true => (road.ends.1, road.parted.0),
                false => (road.ends.0, road.parted.1),
            };
            if parted > before {
                neighbours.insert(other, Beside::There);
            }
        }
        // Datagrams that are given to a socket may wait there for their turn.
        let used = self.sockets_of(at).filter(|(_, socket)| socket.is_used());
        neighbours.extend(used.map(|(other, _)| (other, Beside::There)));
        for (key, side) in self.connections_of(at) {
            let Some(connection) = self.connection(key) else {
                continue;
            };
            let (end, other) = (connection.end(side), connection.end(side.other()));
            if end.state == EndState::Gone || !self.lives(at, end.life) {
                continue;
            }
            let idle = self.idle(connection, side, before);
            let state = neighbours.entry(other.machine).or_insert(Beside::There);
            if let Some((since, transfer_mru)) = idle {
                *state = Beside::Idle {
                    since,
                    transfer_mru,
                };
            }
        }
        neighbours
    }

    /// Since when a session has carried nothing though it could have, where that is so since an instant; and the octets that a
    /// transfer may have there.
    fn idle(&self, connection: &Connection, side: Side, before: Instant) -> Option<(Instant, u64)> {
        let (end, other) = (connection.end(side), connection.end(side.other()));
        let both_open = end.state == EndState::Open
            && other.state == EndState::Open
            && self.lives(other.machine, other.life)
            && !connection.broken;
        let way = &end.way;
        let is_free = !way.wants && way.held.is_empty() && way.flying.is_empty();
        let road = self.roads.get(road_at(connection.road))?;
        let other = self.machines.get(other.machine.at())?;
        let is_well = road.is_open_since(before) && other.troubled <= before;
        let idle = match &connection.onlooker {
            Some(onlooker) if side == Side::Dialling => onlooker.idle_since(),
            Some(_) => None,
            None => connection.referee.as_ref()?.idle_since(side),
        };
        idle.filter(|(since, _)| *since <= before && both_open && is_free && is_well)
    }

    /// Whether a connection of a machine carries something in either direction, or waits for its turn to. Bundles that a session was given
    /// stand behind that, for as long as a slow radio takes, and so do answers.
    fn is_writing(&self, at: MachineIndex) -> bool {
        self.connections_of(at).into_iter().any(|(key, side)| {
            self.connection(key).is_some_and(|connection| {
                let end = connection.end(side);
                let ways = [&end.way, &connection.end(side.other()).way];
                let is_free = ways
                    .iter()
                    .all(|it| !it.wants && it.held.is_empty() && it.flying.is_empty());
                !is_free && end.state != EndState::Gone && self.lives(at, end.life)
            })
        })
    }

    /// A bundle that is held though it has expired.
    fn find_late(&mut self, at: MachineIndex) -> Option<Wrong> {
        let tolerance = self.tolerance();
        let here = self.machines.get(at.at())?;
        let voyages = self.voyages.as_ref();
        let station = voyages.and_then(|it| it.station(at));
        let since = self.now.since(Instant::START).as_millis();
        let now_ms = u128::from(EPOCH.as_millis()) + since;
        let slack_ms = (tolerance + HELD_LATE).as_millis();
        let held = self.kept.facts(at).find_map(|fact| {
            let life_ms = u128::from(fact.lifetime_ms);
            let (age_ms, lives) = if fact.created_ms > 0 && here.wall != Clock::None {
                (now_ms.checked_sub(u128::from(fact.created_ms))?, life_ms)
            } else {
                let (came, age_ms) = station?.came_aged(fact.name)?;
                let held = self.now.since(came).as_millis();
                (u128::from(age_ms) + held, life_ms)
            };
            let late = age_ms.checked_sub(lives + slack_ms)?;
            let is_rotten = self.ledger.record(fact.name).rotten;
            (!is_rotten && here.troubled + HELD_LATE <= self.now).then_some(late)
        });
        let late_ms = held.filter(|_| !self.is_writing(at))?;
        let what =
            format!("still holds a bundle {late_ms} ms after it should be gone (RFC 9171 5.5)");
        Some(("late", what))
    }

    /// A bundle, or a fragment of it, that its application has confirmed a while ago.
    fn find_leftover(&mut self, at: MachineIndex) -> Option<Wrong> {
        let here = self.machines.get(at.at())?;
        let number = self.number(at)?;
        let before = self.now.since(Instant::START).checked_sub(LEAK_MAX)?;
        let before = Instant::START + before;
        if here.troubled > before {
            return None;
        }
        let left = self.kept.facts(at).find(|fact| {
            let unit = self.ledger.carried(fact.name);
            let unit = unit.and_then(|unit| self.ledger.unit(unit));
            let is_confirmed = unit.is_some_and(|unit| {
                let given = matches!(unit.confirmation, Confirmation::Given(life, given) if life == here.life.0 && given <= before);
                unit.to == number && given && self.now < unit.expires()
            });
            is_confirmed && fact.since <= before && !self.ledger.record(fact.name).rotten
        })?;
        let part = left.part.map_or("", |_| "a fragment of ");
        let what = format!(
            "still holds {part}a bundle that its application confirmed more than {LEAK_MAX:?} ago"
        );
        Some(("within", what))
    }

    pub(crate) fn is_of_use(&self, fact: &Fact) -> bool {
        let unit = self.ledger.carried(fact.name);
        let unit = unit.and_then(|unit| self.ledger.unit(unit));
        let is_rotten = self.ledger.record(fact.name).rotten;
        let is_alive = unit.is_some_and(|unit| self.now + self.tolerance() < unit.expires());
        is_alive && !is_rotten
    }

    fn number(&self, at: MachineIndex) -> Option<u32> {
        self.numbers.get(at.at()).copied()
    }
}

impl Wire {
    /// Whether octets have left since an instant at any time.
    fn is_open_since(&self, before: Instant) -> bool {
        self.is_open() && self.open.1 <= before
    }
}
