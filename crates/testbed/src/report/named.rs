//! Nodes and programs of which a report may ask something.

use std::collections::BTreeSet;

use dhow_scenario::Scenario;
use dhow_scenario::scenario::Output;

use super::measure::{Measure, did_you_mean};
use super::study::{Question, ReportError};
use crate::message_stats;
use crate::run::measures;

/// The names that the runs of a study have between them.
#[derive(Clone, Debug, Default)]
pub struct Named {
    nodes: BTreeSet<String>,
    /// Programs that tell figures.
    programs: BTreeSet<String>,
    /// True if a program or node sends measurements, so that there are figures of senders that no scenario names.
    measures: bool,
}

impl Named {
    /// Adds the nodes and programs of a scenario.
    pub fn add(&mut self, scenario: &Scenario) {
        let nodes = scenario.nodes.iter().map(|node| node.name.clone());
        self.nodes.extend(nodes);
        let programs = scenario.programs.iter();
        let telling = programs.filter(|program| program.output != Output::Log);
        self.programs
            .extend(telling.map(|program| program.name.clone()));
        self.measures |= measures(scenario);
    }

    /// Names the request about a node or a program that is not there.
    ///
    /// # Errors
    /// The first such measure.
    pub fn check(&self, question: &Question) -> Result<(), ReportError> {
        let asked = question
            .y
            .iter()
            .chain(&question.table)
            .chain(&question.more);
        let unknown = asked.filter_map(|measure| self.unknown(measure));
        { unknown }
            .next()
            .map_or(Ok(()), |what| Err(ReportError::Question(what)))
    }

    /// The fault of a measure; nothing where it may have a value.
    fn unknown(&self, measure: &Measure) -> Option<String> {
        let node = |node: &String| {
            let names: Vec<&str> = self.nodes.iter().map(String::as_str).collect();
            let meant = did_you_mean(node, &names);
            let what = format!("{measure} is asked for, and no node is named '{node}'");
            (!self.nodes.contains(node)).then(|| with_question(what, &meant))
        };
        match measure {
            Measure::Used(name) | Measure::Share(name) => node(name),
            Measure::WrittenRatio(one, other) => node(one).or_else(|| node(other)),
            Measure::Figure(..) | Measure::GoodputOf(..) if self.measures => None,
            // Virtual time tells them.
            Measure::Figure(_, Some(program)) if program == message_stats::NETWORK => None,
            Measure::Figure(_, Some(program)) | Measure::GoodputOf(_, Some(program))
                if !self.programs.contains(program) =>
            {
                let names: Vec<&str> = self.programs.iter().map(String::as_str).collect();
                let meant = did_you_mean(program, &names);
                let what =
                    format!("{measure} is asked for, and no program '{program}' tells figures");
                Some(with_question(what, &meant))
            }
            Measure::Figure(..) | Measure::GoodputOf(..) if self.programs.is_empty() => {
                Some(format!(
                    "{measure} is asked for, and no program tells figures ('output' of [[program]])"
                ))
            }
            _ => None,
        }
    }
}

/// A fault, and what may be meant.
fn with_question(what: String, meant: &str) -> String {
    match meant.trim_end() {
        "" => what,
        meant => format!("{what}: {meant}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn measures_of_nobody_are_refused() {
        let text = "[[node]]\nname = \"box\"\n[[program]]\nname = \"p\"\nnode = \"box\"\nrun = \"true WORD\"\n\
                    output = \"figures\"\n[stop]\nat = \"1s\"\n";
        let named = |text: &str| {
            let scenario = Scenario::parse(Path::new("s.toml"), text).expect("a scenario");
            let mut named = Named::default();
            named.add(&scenario);
            named
        };
        let (one, silent) = (named(text), named(&text.replace("figures", "log")));
        let measuring = named(&text.replace("WORD", "{collector}"));
        let refused = |named: &Named, measure: &str| {
            let measure = measure.parse().expect("a measure");
            named.unknown(&measure)
        };
        assert_eq!(refused(&silent, "figure:overhead_ratio:network"), None);
        for measure in [
            "cpu:box",
            "figure:rate:p",
            "figure:rate",
            "goodput_of:rate:p",
            "written_ratio:box:box",
        ] {
            assert_eq!(refused(&one, measure), None, "{measure}");
        }
        for (measure, said) in [
            ("cpu:bax", "no node is named 'bax': did you mean 'box'?"),
            ("cpu_share:zz", "no node is named 'zz'"),
            ("written_ratio:box:zz", "no node is named 'zz'"),
            ("figure:rate:q", "no program 'q' tells figures"),
            ("goodput_of:rate:q", "no program 'q' tells figures"),
        ] {
            let what = refused(&one, measure).expect(measure);
            assert!(what.contains(said), "{what}");
        }
        assert!(refused(&silent, "figure:rate").is_some());
        // A sender of measurements has the name that it gives itself.
        assert_eq!(refused(&measuring, "figure:rate:q"), None);
    }
}
