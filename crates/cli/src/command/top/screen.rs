//! The state of the view, and the effects of keys.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::columns::{self, Column, Rate};
use super::feed::{News, Request};
use super::reading::{Destination, Link, Reading};

/// Events that are kept, the newest.
const EVENTS: usize = 500;

/// Readings that a sparkline remembers.
const HISTORY: usize = 60;

/// Characters of a filter, at most.
const FILTER: usize = 64;

/// A table of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Links,
    Destinations,
    Contacts,
    Events,
}

pub const PANES: [Pane; 4] = [
    Pane::Links,
    Pane::Destinations,
    Pane::Contacts,
    Pane::Events,
];

impl Pane {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Links => "Links",
            Self::Destinations => "Queues",
            Self::Contacts => "Contacts",
            Self::Events => "Events",
        }
    }

    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Links => &columns::LINKS,
            Self::Destinations => &columns::DESTINATIONS,
            Self::Contacts => &columns::CONTACTS,
            Self::Events => &[],
        }
    }

    const fn place(self) -> usize {
        match self {
            Self::Links => 0,
            Self::Destinations => 1,
            Self::Contacts => 2,
            Self::Events => 3,
        }
    }
}

/// The box over the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    Nothing,
    Help,
    /// The filter is being written.
    Filter,
    /// A link is to go up or down, if the person says so.
    Confirm {
        link: String,
        up: bool,
    },
    /// A heading and words.
    Words(String, String),
}

/// The loop's next step after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    On,
    Ask(Request),
    Quit,
    Interrupt,
}

/// The view.
#[derive(Debug)]
pub struct Screen {
    pub reading: Reading,
    read_at: Option<Instant>,
    pub rates: BTreeMap<String, Rate>,
    pub events: VecDeque<String>,
    /// The time since which the node has not answered, and the reason.
    pub away: Option<(Instant, String)>,
    pub pane: Pane,
    pub over: Over,
    pub filter: String,
    pub is_paused: bool,
    selected: [usize; 4],
    sorts: [usize; 4],
    /// Positions of the links and destinations that are shown, in their order.
    pub links: Vec<usize>,
    pub destinations: Vec<usize>,
}

impl Screen {
    /// The screen of a first reading.
    pub fn new(reading: Reading, at: Instant) -> Self {
        let mut screen = Self {
            reading: Reading::default(),
            read_at: None,
            rates: BTreeMap::new(),
            events: VecDeque::new(),
            away: None,
            pane: Pane::Links,
            over: Over::Nothing,
            filter: String::new(),
            is_paused: false,
            selected: [0; 4],
            sorts: [0, 1, 0, 0],
            links: Vec::new(),
            destinations: Vec::new(),
        };
        screen.take_reading(reading, at);
        screen
    }

    /// Takes what a thread found out.
    pub fn take(&mut self, news: News, now: Instant) {
        match news {
            News::Outcome(heading, words) => self.over = Over::Words(heading, words),
            News::Away(why) => {
                let since = self.away.take().map_or(now, |(since, _)| since);
                self.away = Some((since, why));
            }
            News::Reading(reading, at) => {
                self.away = None;
                if !self.is_paused {
                    self.take_reading(*reading, at);
                }
            }
            News::Event(event) => {
                if !self.is_paused {
                    self.events.push_back(event);
                    if self.events.len() > EVENTS {
                        self.events.pop_front();
                    }
                }
            }
        }
    }

    fn take_reading(&mut self, reading: Reading, at: Instant) {
        // A node that began again counts from zero.
        let before = self
            .read_at
            .filter(|_| reading.uptime_ms >= self.reading.uptime_ms);
        let elapsed = before.map(|before| at.saturating_duration_since(before));
        let mut rates = BTreeMap::new();
        for link in &reading.links {
            let old = self.reading.links.iter().find(|old| old.name == link.name);
            let mut rate = self.rates.remove(&link.name).unwrap_or_default();
            if let (Some(old), Some(elapsed)) = (old, elapsed) {
                let per_second = |new: u64, old: u64| {
                    let milliseconds = elapsed.as_millis().max(1);
                    // A session that ended takes its counts with it.
                    let octets = if new < old { new } else { new - old };
                    u64::try_from(u128::from(octets) * 1000 / milliseconds).unwrap_or(u64::MAX)
                };
                rate.octets_in = per_second(link.octets_in, old.octets_in);
                rate.octets_out = per_second(link.octets_out, old.octets_out);
                rate.history
                    .push(rate.octets_in.saturating_add(rate.octets_out));
                if rate.history.len() > HISTORY {
                    rate.history.remove(0);
                }
            }
            rates.insert(link.name.clone(), rate);
        }
        self.rates = rates;
        self.reading = reading;
        self.read_at = Some(at);
        self.arrange();
    }

    /// Puts rows in order and leaves out those that the filter does not name; the selected row stays selected.
    fn arrange(&mut self) {
        let link = self.selected_link().map(|it| it.name.clone());
        let destination = self.selected_destination().map(|it| it.name.clone());
        let wanted = self.filter.to_lowercase();
        let named = |texts: &[&str]| texts.iter().any(|it| it.to_lowercase().contains(&wanted));
        let (no_rate, rates, reading) = (Rate::default(), &self.rates, &self.reading);
        let mut links: Vec<(usize, &Link, &Rate)> = (reading.links.iter().enumerate())
            .filter(|(_, it)| named(&[&it.name, &it.peer, &it.state]))
            .map(|(place, it)| (place, it, rates.get(&it.name).unwrap_or(&no_rate)))
            .collect();
        links.sort_by(|one, other| {
            columns::compare_links(self.sorts[0], (one.1, one.2), (other.1, other.2))
        });
        let mut destinations: Vec<(usize, &Destination)> =
            (reading.destinations.iter().enumerate())
                .filter(|(_, it)| named(&[&it.name, &it.next_hop]))
                .collect();
        destinations
            .sort_by(|one, other| columns::compare_destinations(self.sorts[1], one.1, other.1));
        let place = |found: Option<usize>, before: usize, rows: usize| {
            found.unwrap_or(before).min(rows.saturating_sub(1))
        };
        let selected_link = place(
            links
                .iter()
                .position(|it| Some(&it.1.name) == link.as_ref()),
            self.selected[0],
            links.len(),
        );
        let selected_destination = place(
            destinations
                .iter()
                .position(|it| Some(&it.1.name) == destination.as_ref()),
            self.selected[1],
            destinations.len(),
        );
        self.links = links.into_iter().map(|it| it.0).collect();
        self.destinations = destinations.into_iter().map(|it| it.0).collect();
        self.selected[0] = selected_link;
        self.selected[1] = selected_destination;
        self.selected[2] = self.selected[2].min(self.reading.contacts.len().saturating_sub(1));
    }

    /// Rows of a table.
    pub fn rows(&self, pane: Pane) -> usize {
        match pane {
            Pane::Links => self.links.len(),
            Pane::Destinations => self.destinations.len(),
            Pane::Contacts => self.reading.contacts.len(),
            Pane::Events => self.events.len(),
        }
    }

    /// The selected row of a table; of events, how many lines back the view is.
    pub fn selected(&self, pane: Pane) -> usize {
        self.selected.get(pane.place()).copied().unwrap_or(0)
    }

    /// The column by which a table is sorted.
    pub fn sort(&self, pane: Pane) -> usize {
        self.sorts.get(pane.place()).copied().unwrap_or(0)
    }

    fn selected_link(&self) -> Option<&Link> {
        let place = self.links.get(self.selected(Pane::Links))?;
        self.reading.links.get(*place)
    }

    fn selected_destination(&self) -> Option<&Destination> {
        let place = self.destinations.get(self.selected(Pane::Destinations))?;
        self.reading.destinations.get(*place)
    }

    /// A key was pressed; `page` is the number of rows that a page has.
    pub fn press(&mut self, key: KeyEvent, page: usize) -> Step {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Step::Interrupt;
        }
        match std::mem::replace(&mut self.over, Over::Nothing) {
            Over::Filter => self.write_filter(key.code),
            Over::Confirm { link, up } => match key.code {
                KeyCode::Char('y' | 'Y') => Step::Ask(Request::Turn { link, up }),
                _ => Step::On,
            },
            Over::Help | Over::Words(..) => match key.code {
                KeyCode::Char('q') => Step::Quit,
                _ => Step::On,
            },
            Over::Nothing => self.command(key.code, page),
        }
    }

    fn write_filter(&mut self, code: KeyCode) -> Step {
        match code {
            KeyCode::Enter => return Step::On,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER => {
                self.filter.push(letter)
            }
            _ => {}
        }
        if code != KeyCode::Esc {
            self.over = Over::Filter;
        }
        self.arrange();
        Step::On
    }

    fn command(&mut self, code: KeyCode, page: usize) -> Step {
        let beside = |by: usize| PANES.get((self.pane.place() + by) % PANES.len()).copied();
        match code {
            KeyCode::Char('q') => return Step::Quit,
            KeyCode::Char('?' | 'h') => self.over = Over::Help,
            KeyCode::Char('/') => self.over = Over::Filter,
            KeyCode::Esc => {
                self.filter.clear();
                self.arrange();
            }
            KeyCode::Tab | KeyCode::Right => self.pane = beside(1).unwrap_or(self.pane),
            KeyCode::BackTab | KeyCode::Left => self.pane = beside(3).unwrap_or(self.pane),
            KeyCode::Up | KeyCode::Char('k') => self.step(1, true),
            KeyCode::Down | KeyCode::Char('j') => self.step(1, false),
            KeyCode::PageUp => self.step(page, true),
            KeyCode::PageDown => self.step(page, false),
            KeyCode::Home => self.step(usize::MAX, true),
            KeyCode::End => self.step(usize::MAX, false),
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                if !self.is_paused {
                    return Step::Ask(Request::Read);
                }
            }
            KeyCode::Char('u') => self.confirm(true),
            KeyCode::Char('d') => self.confirm(false),
            KeyCode::Char('w') => {
                if let Some(it) = self.selected_destination() {
                    return Step::Ask(Request::Why(it.name.clone()));
                }
            }
            _ => {}
        }
        Step::On
    }

    fn step(&mut self, by: usize, up: bool) {
        let last = self.rows(self.pane).saturating_sub(1);
        // Events begin at their end: back is up.
        let up = up != (self.pane == Pane::Events);
        if let Some(place) = self.selected.get_mut(self.pane.place()) {
            *place = if up {
                place.saturating_sub(by)
            } else {
                place.saturating_add(by).min(last)
            };
        }
    }

    fn sort_by_next(&mut self) {
        if matches!(self.pane, Pane::Links | Pane::Destinations) {
            let columns = self.pane.columns().len();
            if let Some(sort) = self.sorts.get_mut(self.pane.place()) {
                *sort = (*sort + 1) % columns;
            }
            self.arrange();
        }
    }

    fn confirm(&mut self, up: bool) {
        self.over = match self.selected_link() {
            Some(it) if it.is_link => Over::Confirm {
                link: it.name.clone(),
                up,
            },
            Some(it) => Over::Words(
                "no link".to_owned(),
                format!(
                    "{} dialled this node: only a link of this node can be taken up or down",
                    it.peer
                ),
            ),
            None => Over::Nothing,
        };
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;
    use crate::command::top::reading::tests::answers;

    /// A view after two readings a second apart.
    pub fn screen(links: u64, destinations: u64) -> Screen {
        let begun = Instant::now();
        let mut screen = Screen::new(Reading::of(&answers(links, destinations, 10)), begun);
        let next = Reading::of(&answers(links, destinations, 11));
        let at = begun + Duration::from_secs(1);
        screen.take(News::Reading(Box::new(next), at), at);
        screen
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Step {
        screen.press(KeyEvent::from(code), 10)
    }

    #[test]
    fn rates_are_between_two_readings() {
        let screen = screen(3, 0);
        assert_eq!(
            (
                screen.rates["link3"].octets_out,
                screen.rates["link3"].octets_in
            ),
            (375_000, 1_000)
        );
    }

    #[test]
    fn a_node_that_began_again_has_no_rate_yet_and_history_is_bounded() {
        let mut screen = screen(1, 0);
        let at = Instant::now() + Duration::from_secs(5);
        screen.take(
            News::Reading(Box::new(Reading::of(&answers(1, 0, 1))), at),
            at,
        );
        assert_eq!(screen.rates["link1"].history.len(), 1);
        for second in 2..200 {
            let at = at + Duration::from_secs(second);
            screen.take(
                News::Reading(Box::new(Reading::of(&answers(1, 0, second))), at),
                at,
            );
            screen.take(News::Event("x".repeat(10)), at);
            screen.take(News::Event("y".to_owned()), at);
            screen.take(News::Event("z".to_owned()), at);
        }
        assert_eq!(
            (screen.rates["link1"].history.len(), screen.events.len()),
            (HISTORY, EVENTS)
        );
    }

    #[test]
    fn links_go_up_and_down_only_when_confirmed() {
        let mut screen = screen(3, 5);
        press(&mut screen, KeyCode::Down);
        press(&mut screen, KeyCode::Char('d'));
        assert_eq!(press(&mut screen, KeyCode::Enter), Step::On);
        assert_eq!(screen.over, Over::Nothing);
        press(&mut screen, KeyCode::Char('d'));
        assert_eq!(
            press(&mut screen, KeyCode::Char('y')),
            Step::Ask(Request::Turn {
                link: "link2".to_owned(),
                up: false
            })
        );
    }

    #[test]
    fn the_selected_row_stays_selected_when_rows_move_and_a_filter_narrows() {
        let mut screen = screen(3, 200);
        press(&mut screen, KeyCode::Tab);
        for _ in 0..3 {
            press(&mut screen, KeyCode::Down);
        }
        let name = screen.selected_destination().unwrap().name.clone();
        for _ in 0..6 {
            press(&mut screen, KeyCode::Char('s'));
            assert_eq!(screen.selected_destination().unwrap().name, name);
        }
        press(&mut screen, KeyCode::Char('/'));
        for letter in "IPN:250".chars() {
            press(&mut screen, KeyCode::Char(letter));
        }
        press(&mut screen, KeyCode::Enter);
        assert_eq!(screen.destinations.len(), 1);
        assert_eq!(
            press(&mut screen, KeyCode::Char('w')),
            Step::Ask(Request::Why("ipn:250.1".to_owned()))
        );
        press(&mut screen, KeyCode::Esc);
        assert_eq!(screen.destinations.len(), 200);
    }

    #[test]
    fn a_paused_view_keeps_its_figures_and_keys_past_the_edges_do_nothing() {
        let mut screen = screen(0, 0);
        for code in [
            KeyCode::End,
            KeyCode::Up,
            KeyCode::Char('u'),
            KeyCode::Char('w'),
            KeyCode::PageDown,
        ] {
            assert_eq!(press(&mut screen, code), Step::On);
        }
        press(&mut screen, KeyCode::Char('p'));
        let at = Instant::now();
        screen.take(
            News::Reading(Box::new(Reading::of(&answers(4, 4, 20))), at),
            at,
        );
        assert!(screen.links.is_empty());
        assert_eq!(
            press(&mut screen, KeyCode::Char('p')),
            Step::Ask(Request::Read)
        );
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.press(interrupt, 1), Step::Interrupt);
    }
}
