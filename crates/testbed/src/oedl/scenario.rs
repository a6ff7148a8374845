//! A plan as a scenario's text, for `dhow lab run` and for people.

use std::fmt::Write as _;

use super::config;
use super::evaluate::OedlError;
use super::network::{Link, Network, unique};
use super::plan::{InputLine, Note, Plan, PlannedRun};
use super::words::{command, join, quote_for_shell};
use crate::toml_text::quoted as toml;

/// The rate of a link if neither the script nor the options name one: in effect no limit.
const RATE: &str = "10Gbit";

/// Values that a script does not give.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The scenario's name if the script gives none.
    pub name: String,
    /// The rate of links that no topology describes, as a scenario has it.
    pub link_rate: Option<String>,
}

/// A program of the scenario.
struct Program {
    name: String,
    node: String,
    run: String,
    start_s: f64,
    stop_s: Option<f64>,
    environment: Vec<String>,
}

impl Plan {
    /// The scenario's text, and what people should know.
    ///
    /// # Errors
    /// A statement that no scenario can have, with the script's line.
    pub fn scenario(&self, options: &Options) -> Result<(String, Vec<Note>), OedlError> {
        let network = Network::of(self)?;
        let mut notes = self.notes.clone();
        if network.is_implied {
            notes.push(Note {
                line: None,
                what: "the script joins no nodes: each two have a link".to_owned(),
            });
        }
        if self.runs.is_empty() {
            let what = "the script starts nothing";
            let hint = "onEvent(:ALL_UP_AND_INSTALLED) { allGroups.startApplications; wait 10; Experiment.done }";
            return Err(OedlError::Script {
                line: None,
                what: what.to_owned(),
                hint: Some(hint.to_owned()),
            });
        }
        let mut programs: Vec<Program> = Vec::new();
        for run in &self.runs {
            let program = self.program(run, &network, &programs)?;
            programs.push(program);
        }
        Ok((self.write(options, &network, &programs), notes))
    }

    fn program(
        &self,
        run: &PlannedRun,
        network: &Network,
        earlier: &[Program],
    ) -> Result<Program, OedlError> {
        let node = network.name(&run.node).to_owned();
        let told = run.told.iter().map(|told| &told.text);
        let environment: Vec<String> = (run.environment.iter())
            .map(|(name, value)| match value.as_str() {
                Some(text) => format!("{name}={text}"),
                None => format!("{name}={value}"),
            })
            .collect();
        let texts = run.words.iter().flatten().chain(&run.command).chain(told);
        let mut texts = texts.chain(&environment);
        if let Some(text) = texts.find(|text| text.contains('{')) {
            let what =
                format!("'{text}' has a brace, which begins the name of a node in a scenario");
            return Err(OedlError::of_line(run.line, what));
        }
        let is_taken = |name: &String| earlier.iter().any(|program| program.name == *name);
        let name = unique(format!("{}-{node}", run.label), is_taken);
        let line = match (&run.words, &run.command) {
            (Some(words), _) => {
                let mut words: Vec<String> = words
                    .iter()
                    .map(|word| network.addresses.name_word(word, &node))
                    .collect();
                if run.builtin == Some(true) {
                    words.extend(told_as_options(run)?);
                } else {
                    words = as_others_take_it(words, run, &name);
                }
                join(&words)
            }
            (None, Some(text)) => command(&network.addresses.name_words(text, &node)),
            (None, None) => String::new(),
        };
        let mut environment = environment;
        if !run.measures.is_empty() {
            environment.push(format!(
                "OML_CONFIG={}",
                config::document(&run.node, &run.measures)
            ));
        }
        Ok(Program {
            name,
            node,
            run: line,
            start_s: run.start_s,
            stop_s: run.stop_s.filter(|stop| *stop < self.end_s),
            environment,
        })
    }

    fn write(&self, options: &Options, network: &Network, programs: &[Program]) -> String {
        let name = self.name.as_deref().unwrap_or(&options.name);
        let mut text = format!(
            "# An experiment in OEDL as a scenario: dhow lab run\n\nname = {}\n",
            toml(name)
        );
        if !self.properties.is_empty() {
            text += "\n# Properties of the experiment, already in what follows:\n";
            for property in &self.properties {
                let _ = writeln!(text, "#   {} = {}", property.name, property.value);
            }
        }
        let _ = write!(text, "\n[stop]\nat = {}\n", toml(&seconds(self.end_s)));
        for (id, name) in &network.nodes {
            let was = if id == name {
                String::new()
            } else {
                format!(" # {id}")
            };
            let _ = write!(
                text,
                "\n[[node]]\nname = {}{was}\nkind = \"command\"\n",
                toml(name)
            );
        }
        for link in &network.links {
            text += &written(link, options.link_rate.as_deref());
        }
        for program in programs {
            let _ = write!(
                text,
                "\n[[program]]\nname = {}\nnode = {}\nrun = {}\nstart = {}\n",
                toml(&program.name),
                toml(&program.node),
                toml(&program.run),
                toml(&seconds(program.start_s)),
            );
            if let Some(stop_s) = program.stop_s {
                let _ = writeln!(text, "stop = {}", toml(&seconds(stop_s)));
            }
            if !program.environment.is_empty() {
                let each: Vec<String> = program.environment.iter().map(|it| toml(it)).collect();
                let _ = writeln!(text, "environment = [{}]", each.join(", "));
            }
        }
        if let Some(graph) = self.graphs.first() {
            let _ = write!(text, "\n[report]\ntitle = {}\n", toml(&graph.name));
            if let Some(caption) = &graph.caption {
                let _ = writeln!(text, "question = {}", toml(caption));
            }
        }
        text
    }
}

fn written(link: &Link, link_rate: Option<&str>) -> String {
    let (first, second) = &link.between;
    let rate = link.rate.as_deref().or(link_rate);
    let mut text = format!(
        "\n[[link]]\nname = {}\nbetween = [{}, {}]\nrate = {}\n",
        toml(&link.name),
        toml(first),
        toml(second),
        toml(rate.unwrap_or(RATE)),
    );
    let is_plain = link.delay.is_none() && link.loss.is_none();
    if rate.is_none() && is_plain {
        text += "by = \"veth\" # as fast as it goes\n";
    }
    if let Some(delay) = &link.delay {
        let _ = writeln!(text, "delay = {}", toml(delay));
    }
    if let Some(loss) = link.loss {
        let _ = writeln!(text, "loss = {loss}");
    }
    text
}

/// The commands that one of Dhow's own programs gets while it runs, as its options.
fn told_as_options(run: &PlannedRun) -> Result<Vec<String>, OedlError> {
    if !run.told.is_empty()
        && run
            .words
            .as_ref()
            .and_then(|words| words.get(1))
            .is_none_or(|word| word != "otg")
    {
        let what = format!("{} reads nothing while it runs", run.label);
        return Err(OedlError::of_line(run.line, what));
    }
    let option = |told: &InputLine| {
        [
            "--at".to_owned(),
            format!("{} {}", seconds(told.at_s), told.text),
        ]
    };
    Ok(run.told.iter().flat_map(option).collect())
}

/// Commands for other programs come on their standard input, and their measurement plan from a file beside their log: a shell
/// sees to both.
fn as_others_take_it(words: Vec<String>, run: &PlannedRun, name: &str) -> Vec<String> {
    let mut shell = String::new();
    if !run.measures.is_empty() {
        let file = quote_for_shell(&format!("{name}.oml.xml"));
        shell = format!(
            r#"file=$PWD/{file} && printf %s "$OML_CONFIG" >"$file" && OML_CONFIG=$file exec "$0" "$@""#
        );
    }
    if !run.told.is_empty() {
        let mut lines = String::new();
        let mut before_s = 0.0;
        for told in &run.told {
            let _ = write!(
                lines,
                r"sleep {}; printf '%s\n' {}; ",
                told.at_s - before_s,
                quote_for_shell(&told.text)
            );
            before_s = told.at_s;
        }
        // The standard input ends when the program does.
        let program = if shell.is_empty() {
            r#"exec "$0" "$@""#
        } else {
            &shell
        };
        shell = format!("({lines}exec sleep infinity) | ({program})");
    }
    if shell.is_empty() {
        return words;
    }
    ["sh".to_owned(), "-c".to_owned(), shell]
        .into_iter()
        .chain(words)
        .collect()
}

/// A time as scenarios have it.
fn seconds(seconds: f64) -> String {
    let time = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}
