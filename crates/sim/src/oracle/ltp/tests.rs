use dhow_scenario::scenario::LtpPolicy;

use super::*;

/// The bundle of the golden vectors, 42 octets.
const BUNDLE: &str =
    "9f88070000820282020182028201018202820100821903e8071a0036ee8085010100004568656c6c6fff";

const PARTS: u8 = 21;

fn bundle() -> Vec<u8> {
    let octets = (0..BUNDLE.len()).step_by(2);
    octets
        .map(|at| u8::from_str_radix(&BUNDLE[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

/// A session of engine 2, or of engine 3, is judged at engine 2, one light second from 3.
fn observer() -> Observer {
    let light_time = Delay::constant(Duration::from_secs(1));
    Observer::new(LtpPolicy::default(), (2, 3), light_time, Instant::START)
}

fn at(ms: u64) -> Instant {
    Instant::START + Duration::from_millis(ms)
}

/// Octets of the bundle from an offset, in a segment of a type; its checkpoint and report serial numbers where it has some.
fn data(engine: u8, kind: u8, offset: u8, length: u8, serials: &[u8]) -> Vec<u8> {
    let (from, to) = (usize::from(offset), usize::from(offset + length));
    let octets = &bundle()[from..to];
    let head = [kind, engine, 7, 0, 1, offset, length];
    [&head[..], serials, octets].concat()
}

/// A report: serial number, checkpoint, upper and lower bound, and claims with offsets from the lower bound.
fn report(engine: u8, numbers: [u8; 4], claims: &[(u8, u8)]) -> Vec<u8> {
    let mut out = vec![8, engine, 7, 0];
    out.extend(numbers);
    out.push(u8::try_from(claims.len()).expect("few"));
    out.extend(claims.iter().flat_map(|claim| [claim.0, claim.1]));
    out
}

fn said(observer: &mut Observer, ms: u64, datagram: &[u8]) -> Result<usize, String> {
    let seen = observer.handle_said(datagram, at(ms))?;
    Ok(seen.len())
}

fn wrong(observer: &mut Observer, ms: u64, datagram: &[u8], what: &str) {
    let said = said(observer, ms, datagram).expect_err(what);
    assert!(said.contains(what), "{said}: {what}");
}

#[test]
fn a_block_that_is_lost_in_part_and_repaired_breaks_no_rule() {
    let mut observer = observer();
    // Its blocks are seen, and all of it.
    assert_eq!(said(&mut observer, 0, &data(2, 0, 0, PARTS, &[])), Ok(0));
    let last = data(2, 3, PARTS, PARTS, &[5, 0]);
    assert_eq!(said(&mut observer, 1, &last), Ok(2));
    let claims = report(2, [9, 5, 42, 0], &[(PARTS, PARTS)]);
    assert_eq!(observer.handle_heard(&claims, at(2_001)).len(), 0);
    assert_eq!(said(&mut observer, 2_001, &[9, 2, 7, 0, 9]), Ok(0));
    let again = data(2, 1, 0, PARTS, &[6, 9]);
    assert_eq!(said(&mut observer, 2_002, &again), Ok(0));
    let claims = report(2, [10, 6, 42, 0], &[(0, 42)]);
    let seen = observer.handle_heard(&claims, at(4_002));
    assert!(matches!(&seen[..], [Seen::Acknowledged(_, 42)]), "{seen:?}");
    wrong(&mut observer, 60_000, &again, "leaves a report");
    assert_eq!(said(&mut observer, 60_000, &[9, 2, 7, 0, 10]), Ok(0));
    wrong(&mut observer, 60_000, &again, "is over");
}

#[test]
fn senders_that_break_rules_are_called() {
    let first = data(2, 1, 0, PARTS, &[5, 0]);
    for (ms, then, what) in [
        (1, data(3, 3, PARTS, PARTS, &[6, 0]), "another engine"),
        (1, data(2, 3, PARTS, PARTS, &[5, 0]), "to two checkpoints"),
        (
            1,
            data(2, 3, PARTS, PARTS, &[7, 0]),
            "another number than the next",
        ),
        (1, data(2, 3, PARTS, PARTS, &[6, 1]), "that did not come"),
        (1, data(2, 3, PARTS, PARTS, &[0, 0]), "without a number"),
        (
            1,
            data(2, 3, 0, PARTS + PARTS, &[6, 0]),
            "that no report lacks",
        ),
        (1_500, first.clone(), "before it can have been answered"),
        (1, vec![13, 3, 7, 0], "that did not come"),
        (1, vec![14, 3, 7, 0, 4], "that did not begin"),
        (1, vec![5, 2, 7, 0], "not one segment"),
    ] {
        let mut observer = observer();
        said(&mut observer, 0, &first).expect("right");
        wrong(&mut observer, ms, &then, what);
    }
    for (then, what) in [
        (data(2, 0, PARTS + 1, 1, &[]), "behind green"),
        (data(2, 4, PARTS, 1, &[]), "green octets again"),
    ] {
        let mut observer = observer();
        said(&mut observer, 0, &data(2, 4, PARTS, 1, &[])).expect("green");
        wrong(&mut observer, 0, &then, what);
    }
}

#[test]
fn receivers_that_break_rules_are_called() {
    let first = data(3, 1, 0, PARTS, &[5, 0]);
    let right = report(3, [9, 5, PARTS, 0], &[(0, PARTS)]);
    for (ms, then, what) in [
        (0, report(3, [9, 5, PARTS, 0], &[(0, 20)]), "to two reports"),
        (0, report(3, [11, 5, PARTS, 0], &[(0, 20)]), "than the next"),
        (0, report(3, [10, 6, PARTS, 0], &[(0, 20)]), "not come"),
        (0, report(3, [10, 5, 20, 0], &[(0, PARTS)]), "outside"),
        (0, report(3, [10, 5, 42, 0], &[(0, 42)]), "did not come"),
        (
            0,
            report(3, [10, 5, 42, 0], &[(0, 20)]),
            "than it was asked",
        ),
        (
            0,
            report(3, [10, 0, 22, 0], &[(0, 20)]),
            "than it was asked",
        ),
        (
            0,
            report(3, [10, 5, PARTS, 0], &[]),
            "without scope or claims",
        ),
        (1_500, right.clone(), "before it can have been acknowledged"),
    ] {
        let mut observer = observer();
        observer.handle_heard(&first, at(0));
        assert_eq!(said(&mut observer, 0, &right), Ok(0));
        wrong(&mut observer, ms, &then, what);
    }
    let mut observer = observer();
    observer.handle_heard(&first, at(0));
    let seen = observer.handle_heard(&data(3, 3, PARTS, PARTS, &[6, 0]), at(0));
    assert!(matches!(&seen[..], [Seen::Heard(_), Seen::HeardWhole(_)]));
    assert!(observer.is_receiving());
    let whole = observer.handle_said(&report(3, [9, 6, 42, 0], &[(0, 42)]), at(1));
    assert!(matches!(whole.as_deref(), Ok([Seen::Acknowledges(_, 42)])));
    assert!(!observer.is_receiving());
}

#[test]
fn acknowledgments_of_reports_are_of_those_that_came_and_end_them() {
    let mut observer = observer();
    said(&mut observer, 0, &data(2, 1, 0, PARTS, &[5, 0])).expect("right");
    observer.handle_heard(&report(2, [9, 5, PARTS, 0], &[(0, PARTS)]), at(2_000));
    let what = "acknowledges a report that did not come";
    wrong(&mut observer, 2_001, &[9, 2, 7, 0, 10], what);
    assert_eq!(said(&mut observer, 2_001, &[9, 2, 7, 0, 9]), Ok(0));
    observer.handle_heard(&data(3, 1, 0, PARTS, &[5, 0]), at(0));
    let told = report(3, [9, 5, PARTS, 0], &[(0, PARTS)]);
    assert_eq!(said(&mut observer, 0, &told), Ok(0));
    observer.handle_heard(&[9, 3, 7, 0, 9], at(2_000));
    assert_eq!(said(&mut observer, 3_000, &told), Ok(0), "on its way out");
    wrong(&mut observer, 60_000, &told, "that was acknowledged");
}

#[test]
fn a_cancellation_is_acknowledged_before_anything_else_is_sent() {
    let mut observer = observer();
    observer.handle_heard(&data(3, 0, 0, PARTS, &[]), at(0));
    observer.handle_heard(&[12, 3, 7, 0, 2], at(1));
    let other = data(2, 3, 0, PARTS + PARTS, &[5, 0]);
    assert_eq!(said(&mut observer, 2, &other), Ok(2));
    let next = data(2, 1, 0, PARTS, &[6, 0]);
    wrong(&mut observer, 60_000, &next, "leaves a cancellation");
    assert_eq!(said(&mut observer, 60_000, &[13, 3, 7, 0]), Ok(0));
    wrong(&mut observer, 60_001, &next, "that no report lacks");
    let late = report(3, [9, 0, PARTS, 0], &[(0, PARTS)]);
    wrong(&mut observer, 60_002, &late, "that the peer cancelled");
}

#[test]
fn segments_of_a_session_of_an_earlier_life_are_acknowledged() {
    for (came, answer, what) in [
        (vec![14, 2, 8, 0, 2], vec![15, 2, 8, 0], "a cancellation"),
        (
            vec![8, 2, 8, 0, 9, 0, 5, 0, 1, 0, 5],
            vec![9, 2, 8, 0, 9],
            "a report",
        ),
    ] {
        let mut observer = observer();
        observer.handle_heard(&came, at(0));
        let next = data(2, 1, 0, PARTS, &[5, 0]);
        wrong(&mut observer, 60_000, &next, &format!("leaves {what}"));
        assert_eq!(said(&mut observer, 60_000, &answer), Ok(0));
        said(&mut observer, 60_001, &next).expect("right");
    }
}
