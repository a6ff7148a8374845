//! A violation as a person is told of it: the steps that led to it, and the command that shows it again.

use dhow_sim::Outcome;
use dhow_sim::run::Finding;

use crate::output;
use crate::quantity;

/// Says on stderr what was wrong in a run, if anything was.
pub fn tell(outcome: &Outcome, command: &str) {
    let Some(first) = outcome.findings.first() else {
        return;
    };
    for finding in &outcome.findings {
        output::note(&format!(
            "seed {}, {:.3} s, '{}': {}",
            outcome.seed,
            finding.at.as_secs_f64(),
            finding.oracle,
            finding.sentence
        ));
    }
    let told = u64::try_from(outcome.findings.len()).unwrap_or(u64::MAX);
    if told < outcome.violations {
        let all = quantity::thousands(outcome.violations);
        output::note(&format!("the first {told} of {all} violations"));
    }
    output::talk("  what came before:");
    for (name, step) in &first.steps {
        output::talk(&format!("    {name} {step}"));
    }
    output::talk(&format!("  replay: {}", replay(outcome, first, command)));
}

/// The command that shows it again.
pub fn replay(outcome: &Outcome, finding: &Finding, command: &str) -> String {
    format!(
        "{command} --seed {} --from {} --trace",
        outcome.seed, finding.replay_from
    )
}
