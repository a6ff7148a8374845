//! Tables of a page.

use std::fmt::Write as _;

use super::quantity::{count, percent, thousands};

/// A table: its columns, of which the first is a name, and its lines.
#[derive(Debug)]
pub struct List {
    out: String,
}

/// Columns whose names are said beside each cell where a screen is too narrow for a table; as many as the page's style knows.
const NAMED_MAX: usize = 16;

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

impl List {
    /// A table without lines; columns are HTML without tags.
    #[must_use]
    pub fn new<C: AsRef<str>>(columns: &[C]) -> Self {
        let mut names = String::new();
        for (number, column) in (1..=NAMED_MAX).zip(columns) {
            let quoted = column.as_ref().replace('\\', "\\\\").replace('\'', "\\'");
            // Writing into a text does not fail.
            let _ = write!(names, "--h{number}:'{quoted}';");
        }
        let mut out = format!("<div class=\"wide\"><table style=\"{names}\"><thead><tr>");
        for column in columns {
            out += &format!("<th>{}</th>", column.as_ref());
        }
        out += "</tr></thead><tbody>";
        Self { out }
    }

    /// Adds a line.
    pub fn line(&mut self, cells: &[Cell]) {
        self.out += "<tr>";
        for cell in cells {
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
    pub fn end(mut self, shown: usize, all: usize, what: &str) -> String {
        self.out += "</tbody></table></div>";
        if shown < all {
            self.out += &format!(
                "<p class=\"note\">{shown} of {}; {what}</p>",
                thousands(count(all))
            );
        }
        self.out
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
}
