use alloc::boxed::Box;

use dhow_bundle::storage::NOTE_OCTETS;

use super::super::flood::Flood;
use super::super::maxprop::MaxProp;
use super::super::spray_and_wait::SprayAndWait;
use super::*;

#[test]
fn a_neighbour_that_stays_is_told_what_has_come_since() {
    let peer: NodeId = "ipn:2.0".parse().unwrap();
    let hash: IdentityHash<'_> = &|_, key| Some(u64::from(key.0));
    let now = Instant::START;
    let mut here = Replication::new(SprayAndWait::new(8));
    here.handle_contact(now, &peer, Contact::Up);
    let (_, whole) = here.poll_advert([7; 16], hash).unwrap();
    for (key, from) in [(1, None), (2, Some(&peer))] {
        let facts = Facts {
            from,
            ..Facts::for_test()
        };
        here.handle_bundle(BundleKey(key), BundleChange::Held(facts));
    }
    here.handle_timeout(now + news_interval(1));
    let (_, news) = here.poll_advert([7; 16], hash).unwrap();
    let summary = summary::read(&news, Form::WithTable).unwrap();
    assert_eq!((summary.hashes, summary.table), ([1].into(), None));
    here.handle_timeout(now + REFRESH);
    assert!(!here.has_adverts(), "nothing has come since");
    assert!(here.tell_anew(&peer));
    let (_, again) = here.poll_advert([7; 16], hash).unwrap();
    let summary = summary::read(&again, Form::WithTable).unwrap();
    assert_eq!(summary.hashes, [1, 2].into());
    assert!(summary.table.is_some());
    // Who hears it gives none of them.
    let mut there = Replication::new(SprayAndWait::new(8));
    there.handle_bundle(BundleKey(1), BundleChange::Held(Facts::for_test()));
    there.handle_contact(now, &peer, Contact::Up);
    assert!(there.handle_advert(now, &peer, &whole, hash));
    assert!(there.next(now, &peer, &|_| Passage::Open).is_some());
    assert!(there.handle_advert(now + news_interval(1), &peer, &news, hash));
    assert!(there.next(now, &peer, &|_| Passage::Open).is_none());
}

/// A table that has changed is told when its time has come, also where bundles were told before.
#[test]
fn a_table_is_told_after_news() {
    let [peer, other] = ["ipn:2.0", "ipn:3.0"].map(|id| id.parse().unwrap());
    let hash: IdentityHash<'_> = &|_, key| Some(u64::from(key.0));
    let start = Instant::START;
    let mut here = Replication::new(MaxProp::new(1 << 20));
    here.handle_contact(start, &peer, Contact::Up);
    assert!(here.poll_advert([7; 16], hash).is_some());
    here.handle_contact(start + Duration::from_secs(1), &other, Contact::Up);
    here.handle_bundle(BundleKey(1), BundleChange::Held(Facts::for_test()));
    let mut told = Vec::new();
    while let Some(at) = here.poll_timeout().filter(|at| *at <= start + REFRESH * 3) {
        here.handle_timeout(at);
        while let Some((to, advert)) = here.poll_advert([7; 16], hash) {
            let summary = summary::read(&advert, Form::WithTable).unwrap();
            if to == peer {
                told.push((at, summary.hashes.len(), summary.table.is_some()));
            }
        }
    }
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0].1, 1, "{told:?}");
    assert_eq!(told[1], (start + REFRESH, 0, true));
}

/// More neighbours than a note names: those that stay get no second copy, and of those that come again the last are remembered.
#[test]
fn a_note_that_is_full_gives_nobody_a_second_copy() {
    let ids: Vec<NodeId> = (100..900)
        .map(|number| alloc::format!("ipn:{number}.0").parse().unwrap())
        .collect();
    let routers: [(Box<dyn Router>, usize); 3] = [
        (Box::new(Replication::new(MaxProp::new(1 << 20))), ids.len()),
        // Half of the copies go each time.
        (Box::new(Replication::new(SprayAndWait::new(1 << 20))), 20),
        (Box::new(Flood::new(None)), ids.len()),
    ];
    for (mut here, copies) in routers {
        let now = Instant::START + Duration::from_secs(5);
        here.handle_bundle(BundleKey(1), BundleChange::Held(Facts::for_test()));
        let gives = |here: &mut Box<dyn Router>, peer: &NodeId| {
            here.handle_known(now, peer, &|_| false);
            let found = here.next(now, peer, &|_| Passage::Open);
            for change in [BundleChange::Taken(peer), BundleChange::Given(peer)] {
                found
                    .into_iter()
                    .for_each(|key| here.handle_bundle(key, change));
            }
            found.is_some()
        };
        for peer in &ids {
            here.handle_contact(Instant::START, peer, Contact::Up);
        }
        for round in 0..3 {
            let given = ids.iter().filter(|peer| gives(&mut here, peer)).count();
            assert_eq!(given, if round == 0 { copies } else { 0 }, "round {round}");
        }
        assert!(here.note(BundleKey(1)).unwrap().len() <= NOTE_OCTETS);
        // The last that were given one come again.
        for peer in ids.iter().rev().take(100) {
            here.handle_contact(Instant::START, peer, Contact::Down);
            here.handle_contact(Instant::START, peer, Contact::Up);
            assert!(!gives(&mut here, peer), "{peer:?} had one");
        }
    }
}
