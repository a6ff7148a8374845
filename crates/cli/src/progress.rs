//! Progress of long work: a bar on stderr with rate and time left, only where a person watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::stderr_is_watched;

/// Often enough for the eye, seldom enough for the machine.
const REDRAW_PER_SECOND: u8 = 10;

/// A bar, or nothing where nobody watches.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Nothing, even where a person watches.
    pub fn hidden() -> Self {
        Self {
            bar: ProgressBar::hidden(),
        }
    }

    /// Octets of a known total.
    pub fn octets(total: Option<u64>, what: &'static str) -> Self {
        if !stderr_is_watched() {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(
            total,
            ProgressDrawTarget::stderr_with_hz(REDRAW_PER_SECOND),
        );
        let template = if total.is_some() {
            "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} ETA {eta}"
        } else {
            "{prefix} {spinner} {decimal_bytes} {decimal_bytes_per_sec} {elapsed}"
        };
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(what);
        if total.is_none() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar }
    }

    /// Bundles of a known total.
    pub fn bundles(total: u64, what: &'static str) -> Self {
        if !stderr_is_watched() {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(
            Some(total),
            ProgressDrawTarget::stderr_with_hz(REDRAW_PER_SECOND),
        );
        bar.set_style(
            ProgressStyle::with_template(
                "{prefix} {wide_bar} {pos}/{len} bundles {per_sec} ETA {eta}",
            )
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(what);
        Self { bar }
    }

    /// A stretch of which a part is done, with words about it.
    pub fn stretch(total: u64, what: String) -> Self {
        if !stderr_is_watched() {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(
            Some(total),
            ProgressDrawTarget::stderr_with_hz(REDRAW_PER_SECOND),
        );
        bar.set_style(
            ProgressStyle::with_template("{prefix} {bar:20} {msg} ETA {eta}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(what);
        Self { bar }
    }

    /// Work without an end, with words about it.
    pub fn words(what: &'static str) -> Self {
        if !stderr_is_watched() {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(
            None,
            ProgressDrawTarget::stderr_with_hz(REDRAW_PER_SECOND),
        );
        bar.set_style(
            ProgressStyle::with_template("{prefix} {spinner} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Lines that are drawn anew in their place, as they are.
    pub fn lines() -> Self {
        if !stderr_is_watched() {
            return Self::hidden();
        }
        let target = ProgressDrawTarget::stderr_with_hz(REDRAW_PER_SECOND);
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(
            ProgressStyle::with_template("{msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        Self { bar }
    }

    /// Shows words about the present state.
    pub fn words_now(&self, words: String) {
        self.bar.set_message(words);
    }

    /// So much of a stretch is done.
    pub fn say(&self, done: u64, words: String) {
        self.bar.set_position(done);
        self.bar.set_message(words);
    }

    /// So much is done.
    pub fn position(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Octets more are done.
    pub fn advance(&self, octets: u64) {
        self.bar.inc(octets);
    }

    /// Prints a line on stderr without tearing the bar.
    pub fn note(&self, text: &str) {
        self.hide(|| crate::output::note(text));
    }

    /// Does something that prints without tearing the bar.
    pub fn hide<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
