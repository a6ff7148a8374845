//! The signals that end a node in order.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a node.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal is gone. There is nothing to be read again, and a cut would leave peers to repeat.
    /// `None` where whoever started the node had it ignored, as `nohup` does.
    hangup: Option<Signal>,
    /// A file would be larger than this process may make one: the write is told so, and that suffices.
    _too_large: Signal,
}

impl Signals {
    pub(crate) fn watch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: match is_hangup_ignored() {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            },
            _too_large: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    pub(crate) async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = hangup => {}
        }
    }
}

/// Whether SIGHUP was ignored when this process started: what the system says of it, since a handler
/// would replace that.
fn is_hangup_ignored() -> bool {
    /// The first signal's bit in a mask of signals (`SIGHUP` is 1).
    const HANGUP: u64 = 1;
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & HANGUP != 0)
    })
}
