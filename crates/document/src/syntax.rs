//! Text that is not valid TOML: the line, and a hint of what was meant.

use std::path::Path;

use crate::fault::FileError;
use crate::schema::{Occurs, Section};

/// TOML's own words for a key or a section that stands there twice.
const TWICE: &str = "duplicate key";

/// The error about a text that is not valid TOML; `line` is the text of the line from 1 that it is about, where it is about one.
pub(crate) fn no_toml(
    path: &Path,
    line: Option<(usize, &str)>,
    message: &str,
    schema: &[Section],
) -> FileError {
    FileError {
        line: line.map(|(number, _)| number),
        ..FileError::of_file(path, format!("this is not valid TOML: {message}"))
    }
    .with_hint(match line {
        Some((_, text)) if message == TWICE => twice(text.trim(), schema),
        _ => "a section begins with a line [NAME], and below it each line is KEY = VALUE; texts, sizes and times stand in quotes: quota = \"1GiB\"".to_owned(),
    })
}

/// The hint about a line of which another says the same name.
fn twice(line: &str, schema: &[Section]) -> String {
    let Some(name) = line.strip_prefix('[') else {
        return "a key stands once in its section".to_owned();
    };
    let name = name.trim_start_matches('[');
    let name = name.split(']').next().unwrap_or_default().trim();
    let section = schema.iter().find(|section| section.name == name);
    match section {
        Some(section) if section.occurs == Occurs::Many => format!(
            "each section of this name begins with a line {}",
            section.title()
        ),
        _ => format!("[{name}] stands once: write all of its keys below it"),
    }
}
