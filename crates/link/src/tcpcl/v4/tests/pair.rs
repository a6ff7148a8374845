//! Two sessions, any chunking, any interleaving.

use super::*;

#[test]
fn a_bundle_passes_and_is_acknowledged_after_the_node_said_so() {
    let mut pair = Pair::up();
    pair.transmit(0, 0, b"a small bundle");
    pair.settle();
    assert_eq!(
        pair.received(1),
        vec![(TransferId(0), b"a small bundle".to_vec())]
    );
    assert!(
        pair.events[0].is_empty(),
        "nothing is acknowledged before it is durable"
    );
    pair.command(
        1,
        LinkCommand::Acknowledge {
            transfer: TransferId(0),
            octets: 14,
        },
    );
    pair.settle();
    assert!(matches!(
        pair.events[0][..],
        [LinkEvent::Transmitted {
            transfer: TransferId(0)
        }]
    ));
    assert_eq!(pair.sessions[0].state(), State::Idle);
    assert_eq!(pair.sessions[1].state(), State::Idle);
}
