//! Tables of a page.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::quantity::{count, percent, thousands};

/// A table: its columns, of which the first is a name, and its lines.
#[derive(Debug)]
pub struct List {
    /// The table's tag.
    tag: String,
    columns: Vec<String>,
    /// Columns with words in them, by their number.
    words: BTreeSet<usize>,
    /// Its lines so far.
    out: String,
    lines: usize,
}

/// Lines of a table beyond which it has a box of its own that scrolls, with its columns' names and its first column always in sight.
const TALL: usize = 24;

/// Columns whose names are said beside each cell where a screen is too narrow for a table; as many as the page's style knows.
const NAMED_MAX: usize = 16;

/// The content of a cell of which nothing is known.
const UNKNOWN: &str = "–";

/// The content of one cell of a table.
#[derive(Clone, Debug)]
pub enum Cell {
    /// HTML: a number or a name.
    Text(String),
    /// HTML: words, which take as many lines as they need.
    Words(String),
    /// A part of a whole, with a bar.
    Part(u64, u64),
}

/// A cell with HTML in it.
pub fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// A cell with words in it, as HTML.
pub fn words(text: impl Into<String>) -> Cell {
    Cell::Words(text.into())
}

impl Cell {
    fn is_unknown(&self) -> bool {
        matches!(self, Self::Text(html) | Self::Words(html) if html == UNKNOWN)
    }
}

impl List {
    /// The table with these lines, without columns of which every line says that nothing is known.
    #[must_use]
    pub fn of_known<C: AsRef<str>>(columns: &[C], lines: &[Vec<Cell>]) -> Self {
        let is_known = |number: &usize| {
            let cells = lines.iter().filter_map(|line| line.get(*number));
            lines.is_empty() || cells.into_iter().any(|cell| !cell.is_unknown())
        };
        let known: Vec<usize> = (0..columns.len()).filter(is_known).collect();
        let names = known.iter().filter_map(|number| columns.get(*number));
        let mut list = Self::new(&names.collect::<Vec<_>>());
        for line in lines {
            let cells = known.iter().filter_map(|number| line.get(*number));
            list.line(&cells.cloned().collect::<Vec<_>>());
        }
        list
    }

    /// A table without lines; columns are HTML without tags.
    #[must_use]
    pub fn new<C: AsRef<str>>(columns: &[C]) -> Self {
        let mut names = String::new();
        for (number, column) in (1..=NAMED_MAX).zip(columns) {
            let quoted = column.as_ref().replace('\\', "\\\\").replace('\'', "\\'");
            // Writing into a text does not fail.
            let _ = write!(names, "--h{number}:'{quoted}';");
        }
        let columns = columns.iter().map(|it| it.as_ref().to_owned()).collect();
        Self {
            tag: format!("<table style=\"{names}\">"),
            columns,
            words: BTreeSet::new(),
            out: String::new(),
            lines: 0,
        }
    }

    /// The names of columns, each above what its cells begin with.
    fn head(&self) -> String {
        let names = self.columns.iter().enumerate();
        let names = names.map(|(number, name)| match self.words.contains(&number) {
            true => format!("<th class=\"named\">{name}</th>"),
            false => format!("<th>{name}</th>"),
        });
        format!("<thead><tr>{}</tr></thead>", names.collect::<String>())
    }

    /// Adds a line.
    pub fn line(&mut self, cells: &[Cell]) {
        self.lines += 1;
        self.out += "<tr>";
        for (number, cell) in cells.iter().enumerate() {
            if matches!(cell, Cell::Words(_)) {
                self.words.insert(number);
            }
            // Writing into a text does not fail.
            let _ = match cell {
                Cell::Text(text) => write!(self.out, "<td>{text}</td>"),
                Cell::Words(text) => {
                    write!(self.out, "<td><span class=\"words\">{text}</span></td>")
                }
                Cell::Part(part, whole) => {
                    let share = u128::from(*part) * 100 / u128::from((*whole).max(1));
                    write!(
                        self.out,
                        "<td>{}<span class=\"bar\" style=\"--part:{}%\"></span></td>",
                        percent(*part, *whole),
                        share.min(100),
                    )
                }
            };
        }
        self.out += "</tr>";
    }

    /// The whole table, which shows so many of all lines; if those are not all, `what` says which.
    #[must_use]
    pub fn end(self, shown: usize, all: usize, what: &str) -> String {
        // A box that scrolls is one that the keyboard has to reach too.
        let class = match self.lines > TALL {
            true => "class=\"wide tall\" tabindex=\"0\"",
            false => "class=\"wide\"",
        };
        let mut out = format!(
            "<div {class}>{}{}<tbody>{}</tbody></table></div>",
            self.tag,
            self.head(),
            self.out
        );
        if shown < all {
            out += &format!(
                "<p class=\"note\">{shown} of {}; {what}</p>",
                thousands(count(all))
            );
        }
        out
    }

    /// The whole table.
    #[must_use]
    pub fn whole(self) -> String {
        self.end(0, 0, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_are_strings_of_the_style() {
        let table = List::new(&["it's", "a\\b", "±, 95 %"]).whole();
        assert!(
            table.contains("<table style=\"--h1:'it\\'s';--h2:'a\\\\b';--h3:'±, 95 %';\">"),
            "{table}"
        );
    }

    #[test]
    fn columns_of_which_nothing_is_known_are_left_out() {
        let line = |value: &str| Vec::from([text("a"), text("–"), words(value)]);
        let html = List::of_known(&["name", "σ", "limit"], &[line("–"), line("link")]).whole();
        assert!(
            html.contains("<th>name</th><th class=\"named\">limit</th>"),
            "{html}"
        );
        assert!(
            html.contains("<td>a</td><td><span class=\"words\">link</span></td>"),
            "{html}"
        );
        let none = List::of_known(&["name", "σ"], &[]).whole();
        assert!(none.contains("<th>σ</th>"), "{none}");
    }

    #[test]
    fn a_table_of_many_lines_has_a_box_of_its_own() {
        let of = |lines: usize| {
            let mut table = List::new(&["name"]);
            (0..lines).for_each(|_| table.line(&[text("it")]));
            table.whole()
        };
        assert!(!of(TALL).contains("tall"));
        assert!(of(TALL + 1).contains("<div class=\"wide tall\" tabindex=\"0\"><table"));
    }

    #[test]
    fn names_of_columns_are_above_the_beginnings_of_words() {
        let mut table = List::new(&["number", "limit"]);
        table.line(&[text("1"), words("none")]);
        let html = table.whole();
        assert!(
            html.contains("<th>number</th><th class=\"named\">limit</th>"),
            "{html}"
        );
    }
}
