//! Messages to the supervisor of this process (sd_notify(3)), where there is one: that the node is ready, that it
//! ends, and, again and again, that it works.

use std::time::Duration;

use sd_notify::NotifyState;

use crate::core::Core;

/// Signs of life in the time after which the supervisor takes the node for hung.
const SIGNS_A_PERIOD: u32 = 3;

/// Says that the node is ready, and as what.
pub(crate) fn say_ready(node: &str) {
    let status = format!("Node {node} is ready");
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Says that the node takes up another configuration; that it is ready is said again then.
pub(crate) fn say_reloading() {
    let mut state = vec![NotifyState::Reloading];
    state.extend(NotifyState::monotonic_usec_now().ok());
    tell(&state);
}

/// Says that the node ends.
pub(crate) fn say_stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Says that the node works, for as long as it does: each time the node itself has been looked at. Ends at once where nobody wants to know.
pub(crate) async fn give_signs_of_life(core: Core) {
    let Some(period) = sd_notify::watchdog_enabled() else {
        return;
    };
    let interval = (period / SIGNS_A_PERIOD).max(Duration::from_millis(1));
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        core.look(|_, _, _| tell(&[NotifyState::Watchdog]));
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("the service manager cannot be told: {error}");
    }
}
