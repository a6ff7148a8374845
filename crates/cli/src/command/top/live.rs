//! The loop between the node, the keys and the terminal.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::draw::draw;
use super::feed::{self, Feed};
use super::screen::{Screen, Step};
use crate::admin::Admin;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::Form;

/// The time after which the terminal is drawn again, so that times on it go on.
const REDRAW: Duration = Duration::from_secs(1);

/// Pieces of news that are taken between two looks at the keys.
const NEWS_AT_ONCE: usize = 64;

/// Shows the node until the person quits.
pub fn run(common: &Common, interval: Duration) -> Result<Ending, Failure> {
    if common.form() == Form::Json {
        return Err(
            Failure::usage("dhow top is a view for people, and has no JSON")
                .with_hint("dhow status --json and dhow links --json tell programs the same"),
        );
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage("dhow top needs a terminal").with_hint(
            "elsewhere use dhow status --json, dhow links --json or dhow bundles --json",
        ));
    }
    // A node that is not there at all is an error rather than an empty view.
    let first = feed::read(&Admin::of(common.node.as_ref())?)?;
    let screen = Screen::new(first, Instant::now());
    let feed = Feed::start(common, interval)?;
    // The terminal is restored too where a signal ends the command elsewhere than in this loop; a panic restores it by a hook.
    interrupt::say_at_end(|| {
        ratatui::restore();
        "dhow top was interrupted".to_owned()
    });
    let terminal = ratatui::try_init().map_err(|error| unusable(&error))?;
    let ending = watch(terminal, screen, &feed);
    let restored = ratatui::try_restore();
    let ending = ending?;
    restored.map_err(|error| unusable(&error))?;
    Ok(ending)
}

fn watch(
    mut terminal: DefaultTerminal,
    mut screen: Screen,
    feed: &Feed,
) -> Result<Ending, Failure> {
    let colour = std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
    let (mut page, mut drawn) = (1, None::<Instant>);
    loop {
        if interrupt::is_requested() {
            return Ok(Ending::Interrupted);
        }
        let mut is_changed = drawn.is_none_or(|at| at.elapsed() >= REDRAW);
        for news in feed.news.try_iter().take(NEWS_AT_ONCE) {
            screen.take(news, Instant::now());
            is_changed = true;
        }
        if is_changed {
            let now = Instant::now();
            let frame = terminal.draw(|frame| page = draw(frame, &screen, colour, now));
            frame.map_err(|error| unusable(&error))?;
            drawn = Some(now);
        }
        if is_gone(interrupt::LOOK) {
            return Ok(Ending::Interrupted);
        }
        if !event::poll(Duration::ZERO).map_err(|error| unusable(&error))? {
            continue;
        }
        let step = match event::read().map_err(|error| unusable(&error))? {
            Event::Key(key) if key.kind != KeyEventKind::Release => screen.press(key, page),
            _ => Step::On,
        };
        drawn = None;
        match step {
            Step::On => {}
            Step::Ask(request) => feed.request(request),
            Step::Quit => return Ok(Ending::Done),
            Step::Interrupt => return Ok(Ending::Interrupted),
        }
    }
}

/// Waits for a key, and says whether the terminal has been hung up: crossterm would read its end for ever.
fn is_gone(patience: Duration) -> bool {
    let stdin = io::stdin();
    let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
    let patience = Timespec::try_from(patience).unwrap_or_default();
    // A signal ends the wait: of a size that has changed crossterm tells.
    let is_ready = poll(&mut keys, Some(&patience)).is_ok_and(|ready| ready > 0);
    let [key] = keys;
    is_ready && (key.revents()).intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

fn unusable(error: &io::Error) -> Failure {
    Failure::refused(format!("cannot use the terminal: {error}"))
}
