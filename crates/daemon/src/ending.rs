//! A node's end: transfers under way may finish, as long as they move.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::Core;
use crate::signals::Signals;
use crate::storing::Answers;

/// Time between two looks whether anything moves.
const LOOK: Duration = Duration::from_millis(100);

/// Looks in a row at which nothing has moved, after which nobody is waited for: a second.
const STILL_LOOKS: u32 = 10;

/// Looks in all: transfers that move may take five seconds.
const LOOKS_MAX: u32 = 50;

/// The time that connections may take to end after that.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Lets the node finish what is under way; a second signal, a peer that says nothing, or the end of patience cuts it short.
pub(crate) async fn drain(core: &Core, store: &Answers, signals: &mut Signals) {
    tracing::info!("ending: transfers in progress may finish");
    core.shut_down();
    let moved = || {
        let octets = core.look(|_, _, counts| (counts.octets_in, counts.octets_out));
        (octets, store.counts().syncs.load(Ordering::Relaxed))
    };
    let finished = tokio::select! {
        () = core.idle() => true,
        () = signals.next() => false,
        () = standstill(moved, LOOK) => false,
    };
    if !finished {
        tracing::warn!("ending before everything under way is done");
        // Peers that would wait for what is given up are told.
        core.shut_down();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, core.idle()).await;
    }
    // Applications' connections have no end of their own.
    core.close_all();
    if tokio::time::timeout(CLOSE_TIMEOUT, core.alone())
        .await
        .is_err()
    {
        tracing::debug!(connections = core.streams(), "connections are cut");
    }
}

/// Waits until nothing has moved for a while, or for as long as anything may take.
async fn standstill<T: PartialEq>(mut moved: impl FnMut() -> T, look: Duration) {
    let mut before = moved();
    let mut still = 0;
    for _ in 0..LOOKS_MAX {
        tokio::time::sleep(look).await;
        let now = moved();
        still = if now == before { still + 1 } else { 0 };
        if still == STILL_LOOKS {
            return;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks that are taken at octets of which so many at a look have moved.
    fn looks(octets: impl Fn(u32) -> u32) -> u32 {
        let mut looks = 0;
        let moved = || {
            looks += 1;
            octets(looks)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let look = Duration::from_micros(1);
        runtime.unwrap().block_on(standstill(moved, look));
        looks
    }

    #[test]
    fn nobody_waits_for_long_where_nothing_moves() {
        assert_eq!(looks(|_| 7), 1 + STILL_LOOKS);
        assert_eq!(looks(|look| look.min(5)), 5 + STILL_LOOKS);
    }

    #[test]
    fn what_moves_has_its_time_and_no_more() {
        assert_eq!(looks(|look| look), 1 + LOOKS_MAX);
        assert_eq!(looks(|look| look / (STILL_LOOKS - 1)), 1 + LOOKS_MAX);
    }
}
