//! The signals that end a node in order, and the one that has it read its file again.

use std::rc::Rc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// The signals that end a node.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal at which the node was started is gone.
    abandoned: Rc<Notify>,
    /// A file would be larger than this process may make one: the write is told so, and that suffices.
    _too_large: Signal,
}

/// SIGHUP: the node file is to be read again, or the terminal at which the node was started is gone.
pub(crate) struct Hangups {
    /// `None` where the node was started with it ignored, as by `nohup`.
    signal: Option<Signal>,
    had_terminal: bool,
    abandoned: Rc<Notify>,
}

impl Signals {
    pub(crate) fn watch() -> std::io::Result<(Self, Hangups)> {
        let abandoned = Rc::new(Notify::new());
        let hangups = Hangups {
            signal: match is_hangup_ignored() {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            },
            had_terminal: has_terminal(),
            abandoned: Rc::clone(&abandoned),
        };
        let signals = Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            abandoned,
            _too_large: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        };
        Ok((signals, hangups))
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = self.abandoned.notified() => {}
        }
    }
}

impl Hangups {
    /// Waits until the node file is to be read again. Several signals that come meanwhile are one.
    pub(crate) async fn next(&mut self) {
        let Some(signal) = &mut self.signal else {
            return std::future::pending().await;
        };
        loop {
            if signal.recv().await.is_none() {
                return std::future::pending().await;
            }
            // A cut would leave peers to repeat: a node whose terminal goes ends in order.
            if !self.had_terminal || has_terminal() {
                return;
            }
            self.abandoned.notify_one();
        }
    }
}

/// Whether a terminal controls this process.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
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
