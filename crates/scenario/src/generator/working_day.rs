//! People who work: at home, on their way, at their office, out in the evening in company, and home again.
//!
//! Company goes out together, so all people of a group are planned at once, before anybody moves: of each, where it is when.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use super::chance::{normal_ms, pareto};
use super::map::Map;
use super::meeting::{MM, Place, apart};
use crate::entropy::Entropy;

/// A day, milliseconds.
const DAY_MS: i64 = 86_400_000;

/// Places of all people of a group together, at most.
const PLACES_MAX: usize = 20_000_000;

/// A person at the meeting spot goes after so long, however many are there.
const COMPANY_AWAITED_MS: i64 = 3_600_000;

/// At home people are within so much of a point of the map, both ways.
const HOME_MM: i64 = 50 * MM;

/// Streets of a walk in company, at least and at most.
const WALK_STREETS: (u64, u64) = (10, 100);

/// The speed within an office, millimetres an hour: a metre a second.
const OFFICE_SPEED: u64 = 3_600_000;

/// The habits of a group of people.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    /// Points of the map at which homes, offices and meeting spots are; of each at least one.
    pub(super) homes: Vec<u32>,
    pub(super) offices: Vec<u32>,
    pub(super) spots: Vec<u32>,
    pub(super) work: Duration,
    /// The sides of an office, millimetres.
    pub(super) office: i64,
    /// The time at a desk, or at another place of the office; few are long.
    pub(super) desk: (Duration, Duration),
    /// Pareto's coefficient of these times, billionths.
    pub(super) desk_coefficient: u32,
    /// The part of evenings in company, billionths.
    pub(super) evenings: u32,
    /// The number of people who go out together.
    pub(super) company: (u64, u64),
    /// The time for which they stay where they went.
    pub(super) stay: (Duration, Duration),
    /// The deviation of the time of the day at which they leave home.
    pub(super) shift: Duration,
    /// The part of people who have a car, billionths.
    pub(super) cars: u32,
    /// Speeds, millimetres an hour: on foot, and with a car.
    pub(super) speeds: (u64, u64),
    pub(super) car_speeds: (u64, u64),
}

/// The places of one person, and when it is there, milliseconds; it goes evenly from each to the next.
pub(super) type Itinerary = Rc<[(i64, Place)]>;

/// The stage of a person's day.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Home,
    /// At work until then.
    Office(i64),
    /// At the meeting spot, or on its way there.
    Spot,
    /// In company, which ends now.
    Out,
}

struct Person {
    entropy: Entropy,
    home: u32,
    /// The place at home.
    bed: Place,
    office: u32,
    desk: Place,
    is_at_desk: bool,
    spot: usize,
    shift_ms: i64,
    speeds: (u64, u64),
    stage: Stage,
    /// The point of the map at which its next way begins.
    at: u32,
    places: Vec<(i64, Place)>,
}

/// People who wait at a meeting spot.
#[derive(Default)]
struct Spot {
    waiting: Vec<usize>,
    /// The number that goes out together.
    size: usize,
    /// Companies that have left.
    left: u64,
}

/// An occurrence: a person's stage is over, or a company is awaited no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Occurs {
    Person(usize),
    Company(usize, u64),
}

struct Plan<'a> {
    habits: &'a Habits,
    map: &'a RefCell<Map>,
    people: Vec<Person>,
    spots: Vec<Spot>,
    due: BinaryHeap<Reverse<(i64, Occurs)>>,
    places: usize,
}

/// The itineraries of people, each with its random numbers, until a time, milliseconds.
///
/// # Errors
/// When there is no path, or all together have too many places.
pub(super) fn plan(
    habits: &Habits,
    map: &RefCell<Map>,
    entropies: Vec<Entropy>,
    until: i64,
) -> Result<Vec<Itinerary>, String> {
    let people = entropies.into_iter().enumerate();
    let people = people.map(|(number, entropy)| person(habits, &map.borrow(), (number, entropy)));
    let mut plan = Plan {
        habits,
        map,
        people: people.collect(),
        spots: habits.spots.iter().map(|_| Spot::default()).collect(),
        due: BinaryHeap::new(),
        places: 0,
    };
    for (number, person) in plan.people.iter_mut().enumerate() {
        person.places.push((0, person.bed));
        let leaves = person.shift_ms.rem_euclid(DAY_MS);
        plan.due.push(Reverse((leaves, Occurs::Person(number))));
    }
    while let Some(Reverse((now, occurs))) = plan.due.pop() {
        if now >= until {
            break;
        }
        match occurs {
            Occurs::Person(number) => plan.go_on(now, number)?,
            Occurs::Company(spot, company) => {
                let is_there = |it: &&mut Spot| it.left == company;
                if plan.spots.get_mut(spot).filter(is_there).is_some() {
                    plan.go_out(now, spot)?;
                }
            }
        }
        if plan.places > PLACES_MAX {
            return Err(format!(
                "the people of a group are at more than {PLACES_MAX} places until the end"
            ));
        }
    }
    let people = plan.people.into_iter();
    Ok(people.map(|person| person.places.into()).collect())
}

fn person(habits: &Habits, map: &Map, (number, mut entropy): (usize, Entropy)) -> Person {
    let home = one_of(&habits.homes, &mut entropy);
    let office = one_of(&habits.offices, &mut entropy);
    let bed = near(map.place(home), HOME_MM, &mut entropy);
    let desk = near(map.place(office), habits.office / 2, &mut entropy);
    let has_car = entropy.happens(habits.cars);
    let shift = normal_ms(&mut entropy, habits.shift);
    Person {
        entropy,
        home,
        bed,
        office,
        desk,
        is_at_desk: false,
        spot: number % habits.spots.len().max(1),
        shift_ms: shift.clamp(-DAY_MS / 2, DAY_MS / 2),
        speeds: match has_car {
            true => habits.car_speeds,
            false => habits.speeds,
        },
        stage: Stage::Home,
        at: home,
        places: Vec::new(),
    }
}

fn one_of(points: &[u32], entropy: &mut Entropy) -> u32 {
    let drawn = entropy.below(u64::try_from(points.len()).unwrap_or(0));
    let drawn = usize::try_from(drawn).unwrap_or(0);
    points.get(drawn).copied().unwrap_or_default()
}

/// A place within so much of another, both ways.
fn near((x, y): Place, most: i64, entropy: &mut Entropy) -> Place {
    let span = u64::try_from(most.saturating_mul(2)).unwrap_or(0) + 1;
    let mut drawn = || i64::try_from(entropy.below(span)).unwrap_or(0) - most;
    (x + drawn(), y + drawn())
}

/// The time for a way of so many millimetres at so many an hour, milliseconds.
fn taken_ms(length: i64, speed: u64) -> i64 {
    let ms = i128::from(length) * 3_600_000 / i128::from(speed.max(1));
    i64::try_from(ms).unwrap_or(i64::MAX / 4)
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4)
}

impl Person {
    /// The person is at a place until now and goes to others, one after another; when it is at the last one.
    fn walk(&mut self, now: i64, speed: u64, places: impl IntoIterator<Item = Place>) -> i64 {
        let mut at = now;
        if let Some((_, place)) = self.places.last().copied() {
            self.places.push((now, place));
            let mut last = place;
            for place in places {
                at = at.saturating_add(taken_ms(apart(last, place), speed));
                self.places.push((at, place));
                last = place;
            }
        }
        // A millisecond at least, so that time goes on.
        at.max(now.saturating_add(1))
    }

    fn speed(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.entropy.below(most.saturating_sub(least) + 1)
    }
}

impl Plan<'_> {
    /// A person's stage is over.
    fn go_on(&mut self, now: i64, number: usize) -> Result<(), String> {
        let habits = self.habits;
        let Some(person) = self.people.get_mut(number) else {
            return Ok(());
        };
        match person.stage {
            Stage::Home => {
                let to = person.office;
                let arrives = self.travel(now, number, to)?;
                let until = arrives.saturating_add(ms(habits.work));
                self.enter(arrives, number, Stage::Office(until));
            }
            Stage::Office(until) if now >= until => match person.entropy.happens(habits.evenings) {
                true => {
                    let spot = habits.spots.get(person.spot).copied();
                    let arrives = self.travel(now, number, spot.unwrap_or_default())?;
                    self.enter(arrives, number, Stage::Spot);
                }
                false => self.go_home(now, number)?,
            },
            Stage::Office(until) => {
                let office = self.map.borrow().place(person.office);
                person.is_at_desk = !person.is_at_desk;
                let place = match person.is_at_desk {
                    true => person.desk,
                    false => near(office, habits.office / 2, &mut person.entropy),
                };
                let before = person.places.len();
                let arrives = person.walk(now, OFFICE_SPEED, [place]);
                self.places += person.places.len() - before;
                let stay = pareto(&mut person.entropy, habits.desk, habits.desk_coefficient);
                let leaves = arrives.saturating_add(ms(stay)).min(until.max(arrives));
                self.enter(leaves, number, Stage::Office(until));
            }
            Stage::Spot => self.wait_for_company(now, number)?,
            Stage::Out => self.go_home(now, number)?,
        }
        Ok(())
    }

    /// A person is in a stage, which is over then, or has it looked at.
    fn enter(&mut self, then: i64, number: usize, stage: Stage) {
        if let Some(person) = self.people.get_mut(number) {
            person.stage = stage;
        }
        self.due.push(Reverse((then, Occurs::Person(number))));
    }

    /// A person goes to a point of the map by the shortest path; when it is there.
    fn travel(&mut self, now: i64, number: usize, to: u32) -> Result<i64, String> {
        let Some(person) = self.people.get_mut(number) else {
            return Ok(now);
        };
        let path = self.map.borrow_mut().path(person.at, to)?;
        let speed = person.speed(person.speeds);
        let before = person.places.len();
        let arrives = person.walk(now, speed, path);
        person.at = to;
        self.places += person.places.len() - before;
        Ok(arrives)
    }

    /// A person goes home, and stays there until its next day begins.
    fn go_home(&mut self, now: i64, number: usize) -> Result<(), String> {
        let home = self.people.get(number).map(|person| person.home);
        let arrives = self.travel(now, number, home.unwrap_or_default())?;
        let Some(person) = self.people.get_mut(number) else {
            return Ok(());
        };
        let bed = person.bed;
        let arrives = person.walk(arrives, OFFICE_SPEED, [bed]);
        let begun = arrives.saturating_sub(person.shift_ms).div_euclid(DAY_MS);
        let next = (begun + 1) * DAY_MS + person.shift_ms;
        self.enter(next, number, Stage::Home);
        Ok(())
    }

    /// A person is at its meeting spot: the company is complete, or it waits.
    fn wait_for_company(&mut self, now: i64, number: usize) -> Result<(), String> {
        let (least, most) = self.habits.company;
        let Some(person) = self.people.get_mut(number) else {
            return Ok(());
        };
        let at = person.spot;
        let Some(spot) = self.spots.get_mut(at) else {
            return Ok(());
        };
        if spot.waiting.is_empty() {
            let size = least + person.entropy.below(most.saturating_sub(least) + 1);
            spot.size = usize::try_from(size).unwrap_or(usize::MAX);
            let until = now.saturating_add(COMPANY_AWAITED_MS);
            let occurs = Occurs::Company(at, spot.left);
            self.due.push(Reverse((until, occurs)));
        }
        spot.waiting.push(number);
        match spot.waiting.len() >= spot.size {
            true => self.go_out(now, at),
            false => Ok(()),
        }
    }

    /// All who wait at a meeting spot go out together: the first of them says where to, and for how long.
    fn go_out(&mut self, now: i64, at: usize) -> Result<(), String> {
        let Some(spot) = self.spots.get_mut(at) else {
            return Ok(());
        };
        spot.left += 1;
        let company = std::mem::take(&mut spot.waiting);
        let from = self.habits.spots.get(at).copied().unwrap_or_default();
        let Some(first) = company
            .first()
            .and_then(|first| self.people.get_mut(*first))
        else {
            return Ok(());
        };
        let streets = WALK_STREETS.0 + first.entropy.below(WALK_STREETS.1 - WALK_STREETS.0 + 1);
        let way = self.map.borrow().stroll(from, streets, &mut first.entropy);
        let speed = first.speed(self.habits.speeds);
        let stay = first
            .entropy
            .between(self.habits.stay.0, self.habits.stay.1);
        let to = way.last().copied().unwrap_or(from);
        let places: Vec<Place> = {
            let map = self.map.borrow();
            way.iter().map(|point| map.place(*point)).collect()
        };
        for number in company {
            let Some(person) = self.people.get_mut(number) else {
                continue;
            };
            let before = person.places.len();
            let arrives = person.walk(now, speed, places.iter().copied());
            person.at = to;
            self.places += person.places.len() - before;
            let ends = arrives.saturating_add(ms(stay));
            self.enter(ends, number, Stage::Out);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    /// A street of 300 m: home, office 100 m on, a meeting spot 200 m on, and no other way than along it.
    fn street() -> RefCell<Map> {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("m.wkt");
        fs::write(&file, "LINESTRING (0 0, 100 0, 200 0, 300 0)").expect("a map");
        RefCell::new(Map::read(&[file]).expect("a map"))
    }

    /// Everybody walks at 1 m/s, works for eight hours at one place, and stays for an hour where it went.
    fn habits(evenings: u32, company: u64) -> Habits {
        let hours = Duration::from_secs(8 * 3_600);
        Habits {
            homes: vec![0],
            offices: vec![1],
            spots: vec![2],
            work: hours,
            office: 0,
            desk: (hours, hours),
            desk_coefficient: 500_000_000,
            evenings,
            company: (company, company),
            stay: (Duration::from_secs(3_600), Duration::from_secs(3_600)),
            shift: Duration::ZERO,
            cars: 0,
            speeds: (OFFICE_SPEED, OFFICE_SPEED),
            car_speeds: (OFFICE_SPEED, OFFICE_SPEED),
        }
    }

    fn planned(habits: &Habits, people: usize, until: i64) -> Vec<Itinerary> {
        let entropies = (0..people).map(|number| Entropy::new(1, 1_u64, number));
        plan(habits, &street(), entropies.collect(), until).expect("a plan")
    }

    fn at(itinerary: &Itinerary, now: i64) -> Place {
        let behind = itinerary.partition_point(|(at, _)| *at <= now);
        itinerary[behind - 1].1
    }

    #[test]
    fn a_day_is_home_way_office_way_home() {
        let plan = planned(&habits(0, 1), 1, 3 * DAY_MS);
        let days = &plan[0];
        let bed = days[0].1;
        assert!(bed.0.abs() <= HOME_MM && bed.1.abs() <= HOME_MM);
        // Millimetres at a metre a second are milliseconds.
        let (out, way) = (apart(bed, (0, 0)), 100_000);
        for day in 0..3 {
            let wakes = day * DAY_MS;
            let arrives = wakes + out + way;
            let leaves = arrives + 8 * HOUR_MS;
            for (now, place) in [
                (wakes, bed),
                (wakes + out, (0, 0)),
                (arrives, (100_000, 0)),
                (leaves, (100_000, 0)),
                (leaves + way, (0, 0)),
                (leaves + way + out, bed),
                (wakes + DAY_MS - 1, bed),
            ] {
                assert_eq!(at(days, now), place, "day {day}, {now}");
            }
        }
        assert!(days.is_sorted_by_key(|(at, _)| *at));
    }

    #[test]
    fn company_goes_out_together_once_it_is_complete() {
        let plan = planned(&habits(1_000_000_000, 2), 2, DAY_MS);
        let arrives = |person: &Itinerary| apart(person[0].1, (0, 0)) + 200_000 + 8 * HOUR_MS;
        let complete = arrives(&plan[0]).max(arrives(&plan[1]));
        assert_eq!(at(&plan[0], complete), (200_000, 0));
        // At least ten streets of 100 m.
        for now in (0..1_000_000).step_by(50_000) {
            let places = [&plan[0], &plan[1]].map(|it| at(it, complete + now));
            assert_eq!(places[0], places[1], "{now}");
        }
        // Both are home again at the end, an hour and at most a hundred streets later.
        for person in &plan {
            assert_eq!(person.last().map(|(_, place)| *place), Some(person[0].1));
        }
    }

    #[test]
    fn nobody_waits_for_company_longer_than_an_hour() {
        let plan = planned(&habits(1_000_000_000, 9), 1, DAY_MS);
        let person = &plan[0];
        let arrives = apart(person[0].1, (0, 0)) + 200_000 + 8 * HOUR_MS;
        let gone = arrives + COMPANY_AWAITED_MS;
        assert_eq!(at(person, gone), (200_000, 0));
        assert!(person.iter().all(|(at, _)| *at <= arrives || *at >= gone));
        let next = person.iter().find(|(at, _)| *at > gone).expect("it goes");
        assert_eq!(next.0, gone + 100_000);
    }

    #[test]
    fn who_has_a_car_goes_faster_and_days_begin_when_each_leaves() {
        let mut habits = habits(0, 1);
        (habits.cars, habits.car_speeds) = (1_000_000_000, (10 * OFFICE_SPEED, 10 * OFFICE_SPEED));
        habits.shift = Duration::from_secs(7_200);
        let plan = planned(&habits, 20, DAY_MS);
        let mut begun: Vec<i64> = plan.iter().map(|it| it[1].0).collect();
        for (person, begun) in plan.iter().zip(&begun) {
            let arrives = begun + (apart(person[0].1, (0, 0))) / 10 + 10_000;
            let found = person.iter().find(|(_, place)| *place == (100_000, 0));
            assert!(found.is_some_and(|(at, _)| (at - arrives).abs() <= 1));
        }
        begun.sort_unstable();
        begun.dedup();
        assert!(begun.len() > 15, "{begun:?}");
    }
}
