//! Aligned columns for people.

/// On which side the cells of a column line up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table: a heading and rows of as many cells.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    columns: Vec<(&'a str, Align)>,
    rows: Vec<Vec<String>>,
}

/// Spaces between two columns.
const GAP: &str = "  ";

impl<'a> Table<'a> {
    /// An empty table with these columns.
    pub fn new(columns: &[(&'a str, Align)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; cells that are missing stay empty.
    pub fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// True when no row was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, each line indented by `indent` spaces and ended.
    pub fn render(&self, indent: usize) -> String {
        let heading: Vec<String> = self
            .columns
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect();
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(column, (name, _))| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(column))
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
                    .max(name.chars().count())
            })
            .collect();
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let mut line = " ".repeat(indent);
            for (position, ((_, align), width)) in self.columns.iter().zip(&widths).enumerate() {
                if position > 0 {
                    line.push_str(GAP);
                }
                let cell = row.get(position).map_or("", String::as_str);
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                match align {
                    Align::Left => line.extend([cell, &padding]),
                    Align::Right => line.extend([&padding, cell]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_line_up_right_words_left_and_lines_end_without_spaces() {
        let mut table = Table::new(&[
            ("NAME", Align::Left),
            ("OCTETS", Align::Right),
            ("STATE", Align::Left),
        ]);
        table.push(vec!["gamma".into(), "1200".into(), "up".into()]);
        table.push(vec!["d".into(), "7".into(), String::new()]);
        assert_eq!(
            table.render(2),
            "  NAME   OCTETS  STATE\n  gamma    1200  up\n  d           7\n"
        );
    }
}
