//! The view on a terminal of any size: all tables where there is room, else the one that has the focus.

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::columns::{self, Column, Rate, fitting};
use super::screen::{Over, PANES, Pane, Screen};
use crate::quantity;

/// Lines from which on all tables are shown at once.
const TALL: u16 = 24;

/// Columns from which on two tables stand beside each other.
const WIDE: u16 = 110;

const HELP: &str = "\
Tab ← →     another table
↑ ↓ PgUp PgDn Home End   another row
s           sort by the next column
/           filter rows; Esc ends it
u d         take the selected link up, down
w           why the selected queue waits
p           pause, and go on
?           this help
q           quit";

/// Draws all; the number of rows that a page of the table with the focus has comes back.
pub fn draw(frame: &mut Frame<'_>, screen: &Screen, colour: bool, now: Instant) -> usize {
    let area = frame.area();
    let head = if area.height >= TALL && screen.away.is_some() {
        3
    } else {
        2
    };
    let [header, tables, footer] = Layout::vertical([
        Constraint::Length(head),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let painter = Painter {
        screen,
        colour,
        now,
    };
    painter.header(frame, header);
    let page = painter.tables(frame, tables);
    painter.footer(frame, footer);
    painter.over(frame, area);
    page
}

struct Painter<'a> {
    screen: &'a Screen,
    colour: bool,
    now: Instant,
}

impl Painter<'_> {
    fn coloured(&self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    fn header(&self, frame: &mut Frame<'_>, area: Rect) {
        let reading = &self.screen.reading;
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut first = vec![
            Span::styled(reading.node_id.clone(), bold),
            Span::raw(format!(
                "  dhow {}  up {}",
                reading.version,
                quantity::span(reading.uptime_ms / 1000 * 1000)
            )),
        ];
        if self.screen.is_paused {
            first.push(Span::styled("  PAUSED", bold));
        }
        let memory = reading
            .index_octets
            .map_or_else(String::new, |it| format!("  index {}", quantity::size(it)));
        let full = format!(
            "{}/{}",
            quantity::size(reading.octets),
            quantity::size(reading.quota_octets)
        );
        let counts = format!("  {} bundles{memory}", quantity::thousands(reading.bundles));
        let room = usize::from(area.width).saturating_sub(full.len() + 9);
        let width = room.saturating_sub(counts.len()).clamp(8.min(room), 40);
        let second = vec![
            Span::raw("store ["),
            Span::styled(
                bar(reading.fill(), width),
                self.coloured(level(reading.fill())),
            ),
            Span::raw(format!("] {full}{counts}")),
        ];
        let mut lines = vec![Line::from(first), Line::from(second)];
        if let Some((since, why)) = &self.screen.away {
            let ago = self.now.saturating_duration_since(*since).as_secs() * 1000;
            let says = format!("AWAY since {}: {why}", quantity::span(ago));
            lines.insert(
                1,
                Line::styled(says, self.coloured(Color::Red).add_modifier(Modifier::BOLD)),
            );
        }
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// Draws the tables that have room.
    fn tables(&self, frame: &mut Frame<'_>, area: Rect) -> usize {
        if frame.area().height < TALL {
            return self.table(frame, area, self.screen.pane);
        }
        let links = u16::try_from(self.screen.links.len())
            .unwrap_or(u16::MAX)
            .saturating_add(3);
        let most = area.height * 2 / 5;
        let [top, rest] = Layout::vertical([
            Constraint::Length(links.clamp(5, most.max(5))),
            Constraint::Fill(1),
        ])
        .areas(area);
        let places = if area.width >= WIDE {
            let [left, right] =
                Layout::horizontal([Constraint::Percentage(55), Constraint::Fill(1)]).areas(rest);
            let [upper, lower] =
                Layout::vertical([Constraint::Percentage(40), Constraint::Fill(1)]).areas(right);
            [top, left, upper, lower]
        } else {
            let [queues, contacts, events] = Layout::vertical([
                Constraint::Fill(2),
                Constraint::Fill(1),
                Constraint::Fill(1),
            ])
            .areas(rest);
            [top, queues, contacts, events]
        };
        let mut page = 1;
        for (pane, place) in PANES.into_iter().zip(places) {
            let rows = self.table(frame, place, pane);
            if pane == self.screen.pane {
                page = rows;
            }
        }
        page
    }

    fn table(&self, frame: &mut Frame<'_>, area: Rect, pane: Pane) -> usize {
        let has_focus = pane == self.screen.pane;
        let style = if has_focus {
            self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
        } else {
            Style::new()
        };
        let mut block = Block::bordered()
            .border_style(style)
            .title(self.title(pane, has_focus));
        if pane == Pane::Destinations && self.screen.reading.destinations_left_out > 0 {
            let more = quantity::thousands(count(self.screen.reading.destinations_left_out));
            block = block.title_bottom(format!(" {more} smaller ones are left out "));
        }
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let lines = if pane == Pane::Events {
            self.events(inner)
        } else {
            self.rows(pane, inner)
        };
        frame.render_widget(Paragraph::new(lines), inner);
        usize::from(inner.height).saturating_sub(1).max(1)
    }

    fn title(&self, pane: Pane, has_focus: bool) -> String {
        let mark = if has_focus { "▶ " } else { "" };
        let shown = count(self.screen.rows(pane));
        let of = match pane {
            Pane::Links => self.screen.reading.links.len(),
            Pane::Destinations => self.screen.reading.destinations.len(),
            Pane::Contacts | Pane::Events => self.screen.rows(pane),
        };
        let of = if count(of) == shown {
            String::new()
        } else {
            format!(" of {}", quantity::thousands(count(of)))
        };
        format!(" {mark}{} {}{of} ", pane.name(), quantity::thousands(shown))
    }

    /// The heading and as many rows as there is room for, about the selected one.
    fn rows(&self, pane: Pane, area: Rect) -> Vec<Line<'static>> {
        let all = pane.columns();
        let places = fitting(all, area.width);
        let widths = widths(all, &places, area.width);
        let sort = matches!(pane, Pane::Links | Pane::Destinations).then(|| self.screen.sort(pane));
        let headings: Vec<String> = (all.iter().enumerate())
            .map(|(place, it)| {
                if sort == Some(place) {
                    format!("{}▾", it.heading)
                } else {
                    it.heading.to_owned()
                }
            })
            .collect();
        let bold = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        let mut lines = vec![Line::styled(row(all, &places, &widths, &headings), bold)];
        let room = usize::from(area.height).saturating_sub(1);
        let selected = self.screen.selected(pane);
        let first = selected.saturating_sub(room.saturating_sub(1));
        for place in (first..self.screen.rows(pane)).take(room) {
            let (cells, colour) = self.cells(pane, place);
            let mut style = colour.map_or_else(Style::new, |it| self.coloured(it));
            if place == selected && pane == self.screen.pane {
                style = style.add_modifier(Modifier::REVERSED);
            }
            lines.push(Line::styled(row(all, &places, &widths, &cells), style));
        }
        lines
    }

    fn cells(&self, pane: Pane, place: usize) -> (Vec<String>, Option<Color>) {
        let reading = &self.screen.reading;
        match pane {
            Pane::Links => {
                let link = self
                    .screen
                    .links
                    .get(place)
                    .and_then(|place| reading.links.get(*place));
                let Some(link) = link else {
                    return (Vec::new(), None);
                };
                let no_rate = Rate::default();
                let rate = self.screen.rates.get(&link.name).unwrap_or(&no_rate);
                let colour = match link.state.as_str() {
                    "up" => None,
                    "down" => Some(Color::DarkGray),
                    "waiting" => Some(Color::Red),
                    _ => Some(Color::Yellow),
                };
                (columns::link(link, rate).to_vec(), colour)
            }
            Pane::Destinations => {
                let it = self
                    .screen
                    .destinations
                    .get(place)
                    .and_then(|place| reading.destinations.get(*place));
                let colour = it
                    .filter(|it| it.next_hop == "no route")
                    .map(|_| Color::Yellow);
                (
                    it.map(|it| columns::destination(it).to_vec())
                        .unwrap_or_default(),
                    colour,
                )
            }
            Pane::Contacts => {
                let it = reading.contacts.get(place);
                let colour = it.filter(|it| it.state == "now").map(|_| Color::Green);
                (
                    it.map(|it| columns::contact(it, reading.dtn_time_ms).to_vec())
                        .unwrap_or_default(),
                    colour,
                )
            }
            Pane::Events => (Vec::new(), None),
        }
    }

    fn events(&self, area: Rect) -> Vec<Line<'static>> {
        let room = usize::from(area.height);
        let back = self.screen.selected(Pane::Events);
        let end = self.screen.events.len().saturating_sub(back);
        let shown = self
            .screen
            .events
            .iter()
            .take(end)
            .skip(end.saturating_sub(room));
        shown.map(|event| Line::raw(event.clone())).collect()
    }

    fn footer(&self, frame: &mut Frame<'_>, area: Rect) {
        let line = match (&self.screen.over, self.screen.filter.is_empty()) {
            (Over::Filter, _) => format!(
                "filter: {}▏ Enter keeps it, Esc ends it",
                self.screen.filter
            ),
            (_, false) => format!("/{}  Esc shows all", self.screen.filter),
            _ => "? help  q quit  Tab table  s sort  / filter  u d link  w why  p pause".to_owned(),
        };
        frame.render_widget(Line::raw(line), area);
    }

    fn over(&self, frame: &mut Frame<'_>, area: Rect) {
        let (title, words) = match &self.screen.over {
            Over::Nothing | Over::Filter => return,
            Over::Help => ("keys".to_owned(), HELP.to_owned()),
            Over::Words(title, words) => (title.clone(), words.clone()),
            Over::Confirm { link, up: true } => (
                "sure?".to_owned(),
                format!("Bring link {link} up?\ny: yes, any other key: no"),
            ),
            Over::Confirm { link, up: false } => (
                "sure?".to_owned(),
                format!(
                    "Take link {link} down? Its sessions end, its bundles wait.\ny: yes, any other key: no"
                ),
            ),
        };
        let width = area.width.saturating_sub(2).min(76);
        let inside = usize::from(width.saturating_sub(2).max(1));
        let lines: usize = words
            .lines()
            .map(|line| {
                line.chars().count().div_ceil(inside).max(1) + line.chars().count() / inside
            })
            .sum();
        let height = u16::try_from(lines + 2)
            .unwrap_or(u16::MAX)
            .min(area.height);
        let place = Rect {
            x: area.x + (area.width - width) / 2,
            y: area.y + (area.height - height) / 2,
            width,
            height,
        };
        frame.render_widget(Clear, place);
        let block = Block::bordered()
            .title(format!(" {title} "))
            .border_style(self.coloured(Color::Cyan));
        frame.render_widget(
            Paragraph::new(words)
                .wrap(Wrap { trim: false })
                .block(block),
            place,
        );
    }
}

/// The width of each shown column: those that grow share the width that is left.
fn widths(all: &[Column], places: &[usize], width: u16) -> Vec<usize> {
    let shown: Vec<&Column> = places.iter().filter_map(|place| all.get(*place)).collect();
    let taken: usize = shown
        .iter()
        .map(|it| usize::from(it.width) + 1)
        .sum::<usize>()
        .saturating_sub(1);
    let left = usize::from(width).saturating_sub(taken);
    let growing = shown.iter().filter(|it| it.grows).count().max(1);
    shown
        .iter()
        .map(|it| usize::from(it.width) + if it.grows { left / growing } else { 0 })
        .collect()
}

fn row(all: &[Column], places: &[usize], widths: &[usize], cells: &[String]) -> String {
    let mut line = String::new();
    for (place, width) in places.iter().zip(widths) {
        let (Some(column), Some(cell)) = (all.get(*place), cells.get(*place)) else {
            continue;
        };
        let cell = cut(cell, *width);
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&if column.right {
            format!("{cell:>width$}")
        } else {
            format!("{cell:width$}")
        });
    }
    line
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn bar(fill: f64, width: usize) -> String {
    let thousandths = (1..=width).filter(|place| {
        let edge = u16::try_from(*place).unwrap_or(u16::MAX);
        f64::from(edge) <= fill * f64::from(u16::try_from(width).unwrap_or(u16::MAX)) + 0.5
    });
    let full = thousandths.count();
    format!("{}{}", "█".repeat(full), "░".repeat(width - full))
}

const fn level(fill: f64) -> Color {
    if fill >= 0.9 {
        Color::Red
    } else if fill >= 0.7 {
        Color::Yellow
    } else {
        Color::Green
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::command::top::feed::News;
    use crate::command::top::screen::tests::screen;

    fn shown(screen: &Screen, width: u16, height: u16, now: Instant) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| {
                draw(frame, screen, false, now);
            })
            .unwrap();
        let buffer = terminal.backend().buffer();
        assert!(
            buffer
                .content()
                .iter()
                .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
        );
        let lines = buffer.content().chunks(usize::from(width));
        lines
            .map(|cells| {
                cells
                    .iter()
                    .map(|cell| cell.symbol())
                    .collect::<String>()
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn a_small_terminal_shows_the_table_with_the_focus() {
        let lines = shown(&screen(20, 200), 40, 12, Instant::now());
        assert_eq!(lines[0], "ipn:1.0  dhow 0.1.0  up 11 s");
        assert!(
            lines[1].starts_with("store [██░░░░░░] 250.0 MB/1.0 GB"),
            "{lines:#?}"
        );
        assert!(lines[2].contains("▶ Links 20"), "{lines:#?}");
        assert!(
            lines[3].contains("LINK▾") && lines[3].contains("OUT"),
            "{lines:#?}"
        );
        assert!(
            lines[4].contains("link1") && lines[4].contains("1.00 Mbit/s"),
            "{lines:#?}"
        );
    }

    #[test]
    fn a_large_terminal_shows_all_and_says_what_is_left_out() {
        let lines = shown(&screen(20, 20_003), 200, 60, Instant::now()).join("\n");
        for words in [
            "Links 20",
            "Queues 20,000",
            "3 smaller ones are left out",
            "Contacts 2",
            "begins in 9 min 49 s",
            "LAST ERROR",
            "Connection refused",
        ] {
            assert!(lines.contains(words), "{words} in\n{lines}");
        }
    }

    #[test]
    fn any_size_is_drawn_with_anything_over_it() {
        let mut screen = screen(20, 200);
        screen.take(
            News::Away("cannot reach the node".to_owned()),
            Instant::now(),
        );
        let words = Over::Words("why".to_owned(), "long ".repeat(400));
        let confirm = Over::Confirm {
            link: "beta".to_owned(),
            up: false,
        };
        for over in [Over::Nothing, Over::Help, Over::Filter, confirm, words] {
            screen.over = over;
            for (width, height) in [
                (1, 1),
                (3, 2),
                (20, 5),
                (40, 12),
                (80, 24),
                (109, 30),
                (300, 100),
            ] {
                shown(&screen, width, height, Instant::now());
            }
        }
    }

    #[test]
    fn a_node_that_is_away_is_said_to_be_since_when() {
        let (mut screen, begun) = (screen(1, 1), Instant::now());
        screen.take(News::Away("it is gone".to_owned()), begun);
        let later = begun + std::time::Duration::from_secs(75);
        screen.take(News::Away("it is gone".to_owned()), later);
        assert_eq!(
            shown(&screen, 60, 30, later)[1],
            "AWAY since 1 min 15 s: it is gone"
        );
    }
}
