//! Sessions at the mercy of arbitrary octets: what fuzzing calls, and the replay of its corpus. The session's reading of a stream
//! is compared with its messages one by one.
//!
//! Everything here panics when a session breaks its word; it is no part of the interface.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{Instant, NodeId, Now};

use super::frame::{FrameReader, LENGTH_OCTETS};
use super::wire::Said;
use super::{Config, Session};
use crate::stream::{Gather, LinkCommand, LinkEvent, RefuseReason, StreamSession as _, TransferId};

/// The longest bundle that the session under test takes, octets.
const LONGEST: u64 = 3_000;

/// Bundles that the node sends.
const SENT: u64 = 4;

/// Let a program say these octets, the first of which says in which pieces they come and whether the node refuses; how many bundles of it came whole.
///
/// # Panics
/// A session does what it must not.
#[must_use]
pub fn check_session(octets: &[u8]) -> usize {
    let (&choice, stream) = octets.split_first().unwrap_or((&0, &[]));
    let Ok(peer) = "ipn:2.0".parse::<NodeId>() else {
        return 0;
    };
    check_messages(stream);
    let config = Config {
        transfer_mru: LONGEST,
        answer_timeout: Duration::from_secs(10),
    };
    let now = Now::default();
    let mut session = Session::new((peer, 0), FrameReader::default(), b"hello", config, now);
    let mut run = Run::default();
    for transfer in 0..SENT {
        run.open.insert(transfer);
        let transfer = TransferId(transfer);
        session.handle_command(
            now,
            LinkCommand::Transmit {
                transfer,
                length: 5,
            },
        );
        let octets = Piece::Octets(Bytes::from_static(b"hallo"));
        session.handle_command(now, LinkCommand::Supply { transfer, octets });
    }
    let piece = usize::from(choice % 32) + 1;
    for octets in stream.chunks(piece) {
        let mut out = Gather::new();
        session.poll_octets(now, usize::from(choice) * 4, &mut out);
        session.handle_octets(now, Bytes::copy_from_slice(octets));
        run.hear(&mut session, now, choice & 0x80 != 0);
    }
    let much_later = Now {
        monotonic: Instant::START + Duration::from_secs(3_600),
        dtn: now.dtn,
    };
    session.handle_timeout(much_later);
    run.hear(&mut session, now, false);
    session.handle_command(now, LinkCommand::Disconnected);
    run.hear(&mut session, now, false);
    assert!(run.is_down, "the session never ends");
    assert!(run.open.is_empty(), "bundles have no end: {:?}", run.open);
    assert!(
        run.arriving.is_none(),
        "a bundle neither came nor was abandoned"
    );
    run.whole
}

/// The events of a session.
#[derive(Default)]
struct Run {
    open: BTreeSet<u64>,
    kept: BTreeSet<u64>,
    /// The bundle that is coming in, its length, and the octets that came.
    arriving: Option<(TransferId, u64, u64)>,
    /// The last one that the node refused: its octets on their way to the node still come.
    refused: Option<TransferId>,
    whole: usize,
    is_down: bool,
}

impl Run {
    fn hear(&mut self, session: &mut Session, now: Now, refuses: bool) {
        while let Some(event) = session.poll_event() {
            assert!(!self.is_down, "{event:?} comes when all is over");
            match event {
                LinkEvent::Segment {
                    transfer,
                    start: false,
                    ..
                }
                | LinkEvent::Abandoned { transfer, .. }
                    if self.refused == Some(transfer) => {}
                LinkEvent::Segment {
                    transfer,
                    octets,
                    start,
                    end,
                    length,
                } => {
                    let count = u64::try_from(octets.len()).unwrap_or(u64::MAX);
                    assert_eq!(start, length.is_some());
                    assert_eq!(start, self.arriving.is_none(), "bundles come one by one");
                    let (_, length, before) =
                        self.arriving.unwrap_or((transfer, length.unwrap_or(0), 0));
                    assert!(length <= LONGEST);
                    assert_eq!(end, before + count == length, "{before} {count} {length}");
                    self.arriving = (!end).then_some((transfer, length, before + count));
                    self.whole += usize::from(end);
                    if refuses {
                        let reason = RefuseReason::NoResources;
                        session.handle_command(now, LinkCommand::Refuse { transfer, reason });
                        self.arriving = None;
                        self.refused = Some(transfer);
                    } else if end {
                        let octets = length;
                        session.handle_command(now, LinkCommand::Acknowledge { transfer, octets });
                    }
                }
                LinkEvent::Abandoned { transfer, .. } => {
                    let arriving = self.arriving.take();
                    assert_eq!(arriving.map(|it| it.0), Some(transfer));
                }
                LinkEvent::Kept { transfer } => {
                    let is_open = self.open.contains(&transfer.0);
                    assert!(is_open, "{transfer:?} is kept after its end");
                    assert!(self.kept.insert(transfer.0), "{transfer:?} is kept twice");
                }
                LinkEvent::Transmitted { transfer } | LinkEvent::Failed { transfer, .. } => {
                    assert!(self.open.remove(&transfer.0), "{transfer:?} ends twice");
                }
                LinkEvent::Down(_) => self.is_down = true,
                LinkEvent::Up(_) | LinkEvent::Ending => {}
                other => unreachable!("{other:?} is none of this layer"),
            }
        }
    }
}

/// Messages are written as they were read.
fn check_messages(stream: &[u8]) {
    let mut reader = FrameReader::default();
    reader.push(Bytes::copy_from_slice(stream));
    while let Ok(Some(frame)) = reader.take() {
        if let Ok(said) = Said::read(&frame) {
            let mut again = Vec::new();
            said.put(&mut again);
            let again = Bytes::from(again).slice(LENGTH_OCTETS..);
            assert_eq!(Said::read(&again), Ok(said));
        }
    }
}
