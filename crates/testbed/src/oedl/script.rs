//! A script's text, so that Ruby takes what printers make of it.

/// A script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    text: String,
}

/// The tokens that begin a line in print and must end the line before in Ruby.
const MISPLACED: [&str; 3] = ["do", "{", "=>"];

impl Script {
    /// A script of that text. A `do`, a block's `{` or `=>` at the beginning of a line moves to the end of the line before;
    /// every line keeps its number.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut before: Option<usize> = None;
        for number in 0..lines.len() {
            let Some(line) = lines.get(number).cloned() else {
                break;
            };
            let code = code_of(&line);
            if code.trim().is_empty() {
                continue;
            }
            if let (Some((moved, rest)), Some(place)) = (misplaced(&line), before)
                && let Some(earlier) = lines.get_mut(place)
            {
                let end = code_of(earlier).trim_end().len();
                earlier.insert_str(end, &format!(" {moved}"));
                if let Some(line) = lines.get_mut(number) {
                    *line = rest;
                }
            }
            if lines
                .get(number)
                .is_some_and(|line| !code_of(line).trim().is_empty())
            {
                before = Some(number);
            }
        }
        let mut text = lines.join("\n");
        text.push('\n');
        Self { text }
    }

    /// The text that Ruby is given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The part of a line that is to move to the line before, with a block's parameters, and the rest of the line.
fn misplaced(line: &str) -> Option<(String, String)> {
    let indent = line.len() - line.trim_start().len();
    let (indent, code) = line.split_at_checked(indent)?;
    let word = MISPLACED.into_iter().find(|word| code.starts_with(word))?;
    let behind = code.strip_prefix(word)?;
    let parameters = behind.trim_start();
    match word {
        "do" if behind.starts_with(|c: char| !c.is_whitespace() && c != '|') => return None,
        // Without parameters it may be a hash.
        "{" if !parameters.starts_with('|') => return None,
        "=>" => return Some((word.to_owned(), format!("{indent}{behind}"))),
        _ => {}
    }
    let Some(inner) = parameters.strip_prefix('|') else {
        return Some((word.to_owned(), format!("{indent}{behind}")));
    };
    let (names, rest) = inner.split_once('|')?;
    Some((format!("{word} |{names}|"), format!("{indent}{rest}")))
}

/// A line without its comment: up to the first `#` outside of quotes.
fn code_of(line: &str) -> &str {
    let mut quote = None;
    let mut is_escaped = false;
    for (place, c) in line.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => return line.get(..place).unwrap_or(line),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        Script::new(text).text
    }

    #[test]
    fn a_block_of_the_next_line_begins_on_its_own_and_lines_keep_their_numbers() {
        assert_eq!(
            of("defGroup('A', 'a') # who\n  # sends\n\n  do |node|\n  x\nend"),
            "defGroup('A', 'a') do |node| # who\n  # sends\n\n  \n  x\nend\n"
        );
        assert_eq!(of("f('#')\ndo\nend"), "f('#') do\n\nend\n");
        assert_eq!(of("f(1)\n { | app | g }"), "f(1) { | app |\n  g }\n");
    }

    #[test]
    fn an_arrow_of_the_next_line_belongs_to_the_one_before() {
        assert_eq!(
            of("m('p', :samples\n   =>1)"),
            "m('p', :samples =>\n   1)\n"
        );
    }

    #[test]
    fn all_else_stays_as_it_is() {
        for text in [
            "done = 1\ndouble(x)\n",
            "x =\n{ 'a' => 1 }\n",
            "[1].each do |a|\n  p a\nend\n",
        ] {
            assert_eq!(of(text), text);
        }
    }
}
