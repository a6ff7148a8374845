use super::super::Facts;
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
