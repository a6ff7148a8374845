//! `[[program]]`: programs that run on a node beside it.

use std::collections::BTreeSet;
use std::time::Duration;

use dhow_document::{Document, FileError};

use crate::network::Network;
use crate::scenario::NodeIndex;

/// Names in braces that are neither nodes nor values.
const OTHERS: [&str; 3] = ["collector", "port", "run"];

/// A program that runs on a node of a testbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The node on whose host it runs.
    pub node: NodeIndex,
    /// The program, and its words; names in braces are not yet addresses.
    pub words: Vec<String>,
    /// When it begins, from the start of the run.
    pub start: Duration,
    /// When it is told to end; with the run where absent.
    pub stop: Option<Duration>,
    /// The position of the program that it waits for before it begins: until that one is ready, or has ended well.
    pub after: Option<usize>,
    /// The position of the program with whose end it is told to end.
    pub until: Option<usize>,
    /// The text in what it prints that says that it is ready; of one without, those that wait for it wait for its end.
    pub ready: Option<String>,
    /// The position of the program with which its time begins; its own where absent.
    pub since: Option<usize>,
    /// The meaning of its failure for the run.
    pub failure: Failure,
    /// Variables of its environment; names in braces are not yet addresses.
    pub environment: Vec<(String, String)>,
    /// The form of its output.
    pub output: Output,
}

/// The meaning of a program's failure for a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failure {
    /// The run has failed.
    #[default]
    OfRun,
    /// The failure is what was measured; the run goes on.
    Measured,
}

/// The form of a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Lines for people.
    Log,
    /// Figures, a line of JSON each.
    Figures,
    /// Figures, as iperf 2 tells them, with `-y C` or for people.
    Iperf,
    /// Figures, as iperf3 tells them with `-J`.
    Iperf3,
    /// Figures, as sftp and scp tell them with `-v`.
    Sftp,
    /// Lines for people; the figure is how long it ran.
    Time,
}

/// Reads all programs of a file, whose runs end at a time.
pub(crate) fn read(
    document: &Document<'_>,
    network: &Network,
    end: Duration,
) -> Result<Vec<Program>, FileError> {
    let mut programs = Vec::new();
    let mut names = BTreeSet::new();
    let values = Values::read(document, network)?;
    for entries in document.all("program") {
        let wrong = |key: &str, what: String| document.fault(entries.line_of(key), what);
        let name = entries.text("name").unwrap_or_default().to_owned();
        if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
            return Err(wrong("name", format!("'{name}' is not a valid file name")));
        }
        if !names.insert(name.clone()) {
            return Err(wrong("name", format!("two programs are named '{name}'")));
        }
        let node = entries.text("node").unwrap_or_default();
        let node = network.node(document, entries, "node", node)?;
        let words = split(&values.fill(entries.text("run").unwrap_or_default()))
            .map_err(|what| wrong("run", format!("'run' {what}")))?;
        if words.is_empty() {
            return Err(wrong("run", "'run' names no program".to_owned()));
        }
        if words.iter().any(|word| word.contains('\0')) {
            let error = wrong("run", "'run' has a NUL, which no word may have".to_owned());
            return Err(error.with_hint("leave out \\u0000"));
        }
        let (start, stop) = (entries.duration("start"), entries.duration_if_set("stop"));
        if stop.is_some_and(|stop| stop <= start) {
            return Err(wrong("stop", "a program stops after it starts".to_owned()));
        }
        if start >= end {
            let what = format!("a program starts at {start:?}, and the run is over at {end:?}");
            return Err(wrong("start", what).with_hint("a later 'at' of [stop]"));
        }
        let variables = entries.list("environment").iter().map(|variable| {
            let parts = variable
                .split_once('=')
                .filter(|(name, _)| !name.is_empty() && !variable.contains('\0'));
            let (name, value) = parts.ok_or_else(|| {
                let what = format!("'{variable}' sets no variable");
                wrong("environment", what).with_hint("for example: environment = [\"RATE=5\"]")
            })?;
            Ok((name.to_owned(), values.fill(value)))
        });
        programs.push(Program {
            name,
            node,
            words,
            start,
            stop,
            after: None,
            until: None,
            ready: entries.text("ready").map(str::to_owned),
            since: None,
            failure: match entries.is_true("may_fail") {
                true => Failure::Measured,
                false => Failure::OfRun,
            },
            environment: variables.collect::<Result<_, FileError>>()?,
            output: match entries.text("output") {
                Some("figures") => Output::Figures,
                Some("iperf") => Output::Iperf,
                Some("iperf3") => Output::Iperf3,
                Some("sftp") => Output::Sftp,
                Some("time") => Output::Time,
                _ => Output::Log,
            },
        });
    }
    order(document, &mut programs)?;
    Ok(programs)
}

/// Reads for which others each program waits, with which it ends, and from which on its time counts.
fn order(document: &Document<'_>, programs: &mut [Program]) -> Result<(), FileError> {
    let names: Vec<String> = programs.iter().map(|it| it.name.clone()).collect();
    for (own, (entries, program)) in document.all("program").zip(&mut *programs).enumerate() {
        let wrong = |key: &str, what: String| document.fault(entries.line_of(key), what);
        let named = |key: &str| {
            let Some(name) = entries.text(key) else {
                return Ok(None);
            };
            match names.iter().position(|it| it == name) {
                Some(found) if found == own => Err(wrong(
                    key,
                    format!("'{key}' of a program names another one"),
                )),
                Some(found) => Ok(Some(found)),
                None => {
                    let error = wrong(key, format!("there is no program '{name}'"));
                    Err(error.with_hint(format!("there are: {}", names.join(", "))))
                }
            }
        };
        program.after = named("after")?;
        program.until = named("until")?;
        program.since = named("since")?;
        if program.since.is_some() && program.output != Output::Time {
            let error = wrong("since", "'since' says nothing of this program".to_owned());
            return Err(error.with_hint("with output = \"time\" it does"));
        }
        if program.ready.as_deref() == Some("") {
            let what = "'ready' is a text in what the program prints".to_owned();
            return Err(wrong("ready", what).with_hint("\"Server listening\""));
        }
        let has_log = matches!(program.output, Output::Log | Output::Sftp | Output::Time);
        if program.ready.is_some() && !has_log {
            let what = "'ready' is looked for in a log, and this program prints figures".to_owned();
            return Err(wrong("ready", what).with_hint("output = \"log\""));
        }
    }
    for (own, entries) in document.all("program").enumerate() {
        let next = |at: usize| programs.get(at).and_then(|it| it.after);
        let chain = std::iter::successors(next(own), |at| next(*at));
        // One that comes back to itself is as long as one wants.
        if chain.take(programs.len()).any(|at| at == own) {
            let what = "programs wait for each other, so that none of them begins";
            return Err(document.fault(entries.line_of("after"), what));
        }
    }
    Ok(())
}

/// Names that programs call their values by: what stands in `[values]`.
struct Values(Vec<(String, String)>);

impl Values {
    /// The names of a file.
    ///
    /// # Errors
    /// When a name stands for something else, or for nothing that a program says.
    fn read(document: &Document<'_>, network: &Network) -> Result<Self, FileError> {
        let said = || {
            let programs = document.all("program");
            programs.flat_map(|program| {
                let run = program.text("run").map(str::to_owned);
                run.into_iter().chain(program.list("environment").to_vec())
            })
        };
        let mut values = Vec::new();
        for value in document.loose("values") {
            let name = &value.path;
            let wrong = |what: String| document.fault(value.line, what);
            if value.is_list {
                let error = wrong(format!("'{name}' of [values] is one value"));
                return Err(error.with_hint(format!("[sweep] has lists: \"values.{name}\" = […]")));
            }
            if OTHERS.contains(&name.as_str()) || network.node_named(name).is_some() {
                let what = format!(
                    "{{{name}}} stands for something else, and cannot be the name of a value"
                );
                return Err(
                    wrong(what).with_hint("nodes' names, {collector}, {port} and {run} are taken")
                );
            }
            let braced = format!("{{{name}}}");
            if !said().any(|text| text.contains(&braced)) {
                let error = wrong(format!("no program says {braced}"));
                return Err(error.with_hint("'run' and 'environment' of [[program]] may"));
            }
            values.push((braced, value.values.concat()));
        }
        Ok(Self(values))
    }

    /// A text with values in the places of their names.
    fn fill(&self, text: &str) -> String {
        let values = self.0.iter();
        values.fold(text.to_owned(), |text, (braced, value)| {
            text.replace(braced, value)
        })
    }
}

/// The words of a line, as a shell would part them: by spaces, but for those in quotes or behind a backslash.
fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(character),
            (_, '\\') => match characters.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err("ends with a backslash".to_owned()),
            },
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err("has a quote that does not end".to_owned());
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parted_as_a_shell_does() {
        let words = |line: &str| split(line).expect("it has words");
        assert_eq!(words("a  b\tc\n"), ["a", "b", "c"]);
        assert_eq!(
            words(r#"sh -c 'echo "$1"; x' '' a\ b"#),
            ["sh", "-c", r#"echo "$1"; x"#, "", "a b"]
        );
        assert_eq!(words(r#"a"b \" c"'d'e"#), [r#"ab " cde"#]);
        assert!(split("'a").is_err() && split("a\\").is_err());
    }
}
