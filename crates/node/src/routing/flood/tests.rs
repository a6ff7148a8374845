use super::super::{Facts, arrived};
use super::*;

fn advert(flood: &mut Flood, hash: IdentityHash<'_>) -> Vec<u8> {
    let (_, advert) = flood.poll_advert([7; 16], hash).unwrap();
    advert
}

fn held(bundles: u32) -> Flood {
    let mut flood = Flood::default();
    for key in 0..bundles {
        flood.handle_bundle(BundleKey(key), BundleChange::Held(Facts::for_test()));
    }
    flood
}

fn is_given(flood: &mut Flood, now: Instant, peer: &NodeId) -> Vec<u32> {
    let mut given = Vec::new();
    while let Some(key) = flood.next(now, peer, &|_| Passage::Open) {
        flood.handle_bundle(key, BundleChange::Taken(peer));
        flood.handle_bundle(key, BundleChange::Given(peer));
        given.push(key.0);
    }
    given
}

#[test]
fn a_neighbour_is_given_what_its_advert_does_not_tell_of() {
    let peer: NodeId = "ipn:2.0".parse().unwrap();
    let hash: IdentityHash<'_> = &|_, key| Some(u64::from(key.0));
    let (mut here, mut there) = (held(6), held(4));
    here.handle_contact(Instant::START, &peer, Contact::Up);
    there.handle_contact(Instant::START, &peer, Contact::Up);
    assert_eq!(
        is_given(&mut here, Instant::START, &peer),
        [],
        "it is waited for"
    );
    assert_eq!(
        here.wakes(Instant::START, &peer),
        Some(Instant::START + ADVERT_WAIT)
    );
    let advert = advert(&mut there, hash);
    assert!(here.handle_advert(Instant::START, &peer, &advert, hash));
    assert_eq!(is_given(&mut here, Instant::START, &peer), [4, 5]);
}

#[test]
fn nodes_that_share_a_neighbour_begin_with_different_bundles() {
    let [peer, other]: [NodeId; 2] = ["ipn:7.0", "ipn:8.0"].map(|it| it.parse().unwrap());
    let is_given_first = |own: &str, neighbours: &[&NodeId]| {
        let mut flood = held(200);
        flood.lot = Flood::new(Some(&own.parse().unwrap())).lot;
        for neighbour in neighbours {
            flood.handle_contact(Instant::START, neighbour, Contact::Up);
        }
        let later = Instant::START + ADVERT_WAIT;
        let mut given = BTreeSet::new();
        while given.len() < 20 {
            let key = flood.next(later, &peer, &|_| Passage::Open).unwrap();
            assert_eq!(flood.next(later, &peer, &|_| Passage::Open), Some(key));
            flood.handle_bundle(key, BundleChange::Taken(&peer));
            assert!(given.insert(key.0), "each once");
        }
        let rest = is_given(&mut flood, later, &peer);
        assert_eq!(rest.len(), 180, "all of them at last");
        given
    };
    let [first, second] = ["ipn:1.0", "ipn:2.0"].map(|own| is_given_first(own, &[&peer, &other]));
    let twice = first.intersection(&second).count();
    assert!(twice < 10, "{twice} of 20 are given twice");
    // Where nobody else is there, they leave in the order in which they came.
    let alone = is_given_first("ipn:1.0", &[&peer]);
    assert_eq!(alone, (0..20).collect());
}

#[test]
fn a_neighbour_that_tells_nothing_is_waited_for_once() {
    let peer: NodeId = "ipn:2.0".parse().unwrap();
    let mut flood = held(1);
    flood.handle_contact(Instant::START, &peer, Contact::Up);
    assert_eq!(is_given(&mut flood, Instant::START, &peer), []);
    let later = Instant::START + ADVERT_WAIT;
    assert_eq!(is_given(&mut flood, later, &peer), [0]);
    flood.handle_contact(later, &peer, Contact::Down);
    flood.handle_bundle(BundleKey(1), BundleChange::Held(Facts::for_test()));
    flood.handle_contact(later, &peer, Contact::Up);
    assert_eq!(is_given(&mut flood, later, &peer), [1]);
}

#[test]
fn an_advert_tells_of_the_newest_of_too_many() {
    let peer: NodeId = "ipn:2.0".parse().unwrap();
    let hash: IdentityHash<'_> = &|_, key| Some(u64::from(key.0));
    let mut flood = held(5_000);
    flood.handle_contact(Instant::START, &peer, Contact::Up);
    let advert = advert(&mut flood, hash);
    let Summary { key, hashes, .. } = summary::read(&advert, Form::Bundles).unwrap();
    assert_eq!(key, [7; 16]);
    assert_eq!(hashes, (5_000 - 4_096..5_000).collect());
}

fn told(advert: &[u8]) -> Vec<u64> {
    let summary = summary::read(advert, Form::Bundles).unwrap();
    summary.hashes.into_iter().collect()
}

#[test]
fn a_neighbour_that_stays_is_told_of_what_waits_for_it_and_no_more() {
    let peer: NodeId = "ipn:2.0".parse().unwrap();
    let hash: IdentityHash<'_> = &|_, key| Some(u64::from(key.0));
    let mut flood = held(2);
    flood.handle_contact(Instant::START, &peer, Contact::Up);
    assert_eq!(told(&advert(&mut flood, hash)), [0, 1]);
    for (key, from) in [(2, None), (3, Some(&peer))] {
        let facts = Facts {
            from,
            ..Facts::for_test()
        };
        flood.handle_bundle(BundleKey(key), BundleChange::Held(facts));
    }
    let gathered = Instant::START + GATHERED;
    assert_eq!(flood.poll_timeout(), Some(gathered));
    flood.handle_timeout(gathered);
    assert!(!flood.has_adverts(), "it was told a moment ago");
    let later = Instant::START + news_interval(1);
    assert_eq!(flood.poll_timeout(), Some(later));
    flood.handle_timeout(later);
    assert_eq!(told(&advert(&mut flood, hash)), [2], "3 is its own");
    assert_eq!(flood.poll_timeout(), None);
    // It has come to nothing what was said: all is said again.
    assert!(flood.tell_anew(&peer));
    assert_eq!(told(&advert(&mut flood, hash)), [0, 1, 2]);
    // The neighbour has what it was given.
    flood.handle_bundle(BundleKey(4), BundleChange::Held(Facts::for_test()));
    assert_eq!(
        is_given(&mut flood, later + ADVERT_WAIT, &peer),
        [0, 1, 2, 4]
    );
    flood.handle_timeout(later + news_interval(1) * 2);
    assert!(!flood.has_adverts() && flood.poll_timeout().is_none());
}

fn facts_for(destination: &NodeId) -> Facts<'_> {
    Facts {
        destination: Some(destination),
        ..Facts::for_test()
    }
}

/// A router with these bundles for nobody in particular and, behind them, some for a neighbour, which it waits for no more.
fn with_own(others: u32, own: &[u32], neighbours: &[&NodeId]) -> Flood {
    let mut flood = held(others);
    for &key in own {
        let change = BundleChange::Held(facts_for(neighbours[0]));
        flood.handle_bundle(BundleKey(key), change);
    }
    for neighbour in neighbours {
        flood.handle_contact(Instant::START, neighbour, Contact::Up);
    }
    flood
}

/// After this time nobody is waited for.
const LATER: Instant = Instant::from_nanos(2_000_000_000);

/// The next bundle for a neighbour, and the bundles that were asked about for it.
fn asked(flood: &mut Flood, peer: &NodeId, bars: impl Fn(u32) -> Passage) -> (Option<u32>, usize) {
    let asked = core::cell::Cell::new(0);
    let next = flood.next(LATER, peer, &|key| {
        asked.set(asked.get() + 1);
        bars(key.0)
    });
    (next.map(|key| key.0), asked.get())
}

#[test]
fn a_neighbour_is_given_the_bundles_for_itself_before_thousands_of_others() {
    let [peer, other]: [NodeId; 2] = ["ipn:2.0", "ipn:3.0"].map(|it| it.parse().unwrap());
    for neighbours in [&[&peer][..], &[&peer, &other]] {
        let mut flood = with_own(10_000, &[10_000, 10_001], neighbours);
        for own in [10_000, 10_001] {
            assert_eq!(asked(&mut flood, &peer, |_| Passage::Open), (Some(own), 1));
            flood.handle_bundle(BundleKey(own), BundleChange::Taken(&peer));
        }
        let (next, _) = asked(&mut flood, &peer, |_| Passage::Open);
        assert!(next < Some(10_000), "then the others");
        // One that came back rests, and is before all others again.
        let returned = BundleChange::Returned(&peer, LATER);
        flood.handle_bundle(BundleKey(10_001), returned);
        assert_eq!(asked(&mut flood, &peer, |_| Passage::Open).0, Some(10_001));
        // One that may never go holds up nobody.
        let (next, asked_about) = asked(&mut flood, &peer, |key| match key {
            10_001 => Passage::Barred,
            _ => Passage::Open,
        });
        assert!(next < Some(10_000) && asked_about < 8);
        if let Some(other) = neighbours.get(1) {
            assert!(asked(&mut flood, other, |_| Passage::Open).0 < Some(10_000));
        }
    }
}

#[test]
fn a_greater_priority_is_before_the_bundles_for_a_neighbour_itself() {
    let peer: NodeId = "ipn:2.0".parse().unwrap();
    let mut flood = with_own(3, &[3], &[&peer]);
    let urgent = Facts {
        priority: Priority::EXPEDITED,
        ..Facts::for_test()
    };
    flood.handle_bundle(BundleKey(4), BundleChange::Held(urgent));
    assert_eq!(is_given(&mut flood, LATER, &peer), [4, 3, 0, 1, 2]);
}

#[test]
fn bundles_of_an_earlier_run_are_known_by_their_destination() {
    let peer: NodeId = "ipn:2.0".parse().unwrap();
    let mut before = held(1);
    before.handle_bundle(BundleKey(0), BundleChange::Given(&peer));
    let note = before.note(BundleKey(0)).unwrap();
    let mut flood = held(100);
    for (key, note) in [(100, &note[..]), (101, &[])] {
        let noted = BundleChange::Noted(Priority::Normal, note);
        flood.handle_bundle(BundleKey(key), noted);
        flood.handle_bundle(BundleKey(key), BundleChange::Held(facts_for(&peer)));
    }
    flood.handle_contact(Instant::START, &peer, Contact::Up);
    let given = is_given(&mut flood, LATER, &peer);
    assert_eq!(given, [&[101][..], &Vec::from_iter(0..100)].concat());
}

#[test]
fn of_bundles_that_a_neighbour_has_one_choice_passes_so_many() {
    let peer: NodeId = "ipn:2.0".parse().unwrap();
    let mut flood = held(5_000);
    flood.handle_contact(Instant::START, &peer, Contact::Up);
    let known: Vec<u64> = flood.numbers.values().copied().take(4_999).collect();
    flood.peer(&peer).learn(&known);
    let mut choices = 0;
    loop {
        let passed = |flood: &Flood| place_of(flood.peers[&peer].turn(Priority::Normal));
        let before = passed(&flood);
        let (next, _) = asked(&mut flood, &peer, |_| Passage::Open);
        choices += 1;
        let passed = passed(&flood) - before;
        assert!(passed <= 1_024, "{passed} in one choice");
        if next == Some(4_999) {
            break;
        }
        assert_eq!(next, None);
        assert_eq!(flood.wakes(LATER, &peer), Some(LATER), "it is asked again");
    }
    assert_eq!(choices, 5);
    assert!(flood.peers[&peer].known.is_empty());
}

#[test]
fn bundles_that_rest_are_no_work_for_a_choice() {
    let peer: NodeId = "ipn:2.0".parse().unwrap();
    let mut flood = held(200);
    flood.handle_contact(Instant::START, &peer, Contact::Up);
    // None may go now: all are looked at in turn, so many for one choice.
    let mut looks = 0;
    loop {
        let (next, asked) = asked(&mut flood, &peer, |_| Passage::Later);
        assert!(next.is_none() && asked <= 2 * LOOK_BOUND, "{asked}");
        looks += 1;
        if flood.wakes(LATER, &peer).is_none() {
            break;
        }
    }
    assert_eq!(looks, 4);
    for key in 0..199 {
        let rests = BundleChange::Returned(&peer, LATER + ADVERT_WAIT);
        flood.handle_bundle(BundleKey(key), rests);
    }
    assert_eq!(asked(&mut flood, &peer, |_| Passage::Open), (Some(199), 1));
    flood.handle_bundle(BundleKey(199), BundleChange::Taken(&peer));
    assert_eq!(asked(&mut flood, &peer, |_| Passage::Open), (None, 0));
    let wakes = flood.wakes(LATER, &peer).unwrap();
    assert_eq!(wakes, LATER + ADVERT_WAIT);
    let given = is_given(&mut flood, wakes, &peer);
    assert_eq!(given, Vec::from_iter(0..199));
}

#[test]
fn a_neighbour_that_stays_is_not_remembered_to_have_what_is_held_no_more() {
    let peer: NodeId = "ipn:2.0".parse().unwrap();
    let mut flood = with_own(0, &[], &[&peer]);
    for key in 0..1_000 {
        flood.handle_bundle(BundleKey(key), BundleChange::Held(Facts::for_test()));
        assert_eq!(asked(&mut flood, &peer, |_| Passage::Open).0, Some(key));
        flood.handle_bundle(BundleKey(key), BundleChange::Taken(&peer));
        flood.handle_bundle(BundleKey(key), BundleChange::Given(&peer));
        flood.handle_bundle(BundleKey(key), BundleChange::Removed);
    }
    let known = flood.peers[&peer].known.len();
    assert!(known < 4, "{known}");
}

#[test]
fn bundles_that_are_where_they_were_to_go_are_told_and_brought_no_more() {
    let [here, peer, far]: [NodeId; 3] =
        ["ipn:1.0", "ipn:2.0", "ipn:3.0"].map(|it| it.parse().unwrap());
    let hash: IdentityHash<'_> = &|key, bundle| Some(arrived::hash(key, &bundle.0.to_be_bytes()));
    let until = LATER + ADVERT_WAIT;
    let identity = |key: u32| key.to_be_bytes().to_vec();
    let mut there = Flood::new(Some(&peer));
    there.handle_contact(Instant::START, &here, Contact::Up);
    there.handle_arrived(identity(5), until);
    there.handle_arrived(identity(7), until);
    let told = advert(&mut there, hash);
    let mut flood = held(5);
    for (key, destination) in [(5, &peer), (6, &peer), (7, &far)] {
        flood.handle_bundle(BundleKey(key), BundleChange::Held(facts_for(destination)));
    }
    flood.handle_contact(Instant::START, &peer, Contact::Up);
    assert!(flood.handle_advert(Instant::START, &peer, &told, hash));
    // The neighbour speaks for itself: of the one for another node it is given no copy, and that stays.
    assert_eq!(flood.take_ended(), [BundleKey(5)]);
    assert!(flood.take_ended().is_empty());
    assert_eq!(is_given(&mut flood, LATER, &peer), [6, 0, 1, 2, 3, 4]);
    // A neighbour that stays is told of those that came since.
    assert_eq!(there.poll_timeout(), Some(Instant::START + GATHERED));
    there.handle_timeout(Instant::START + news_interval(1));
    assert!(!there.has_adverts(), "it was told");
    there.handle_arrived(identity(8), until);
    there.handle_timeout(Instant::START + news_interval(1) * 2);
    let news = advert(&mut there, hash);
    let summary = summary::read(&news, Form::Bundles).unwrap();
    assert_eq!(
        summary.hashes,
        [hash(&[7; 16], BundleKey(8)).unwrap()].into()
    );
}
