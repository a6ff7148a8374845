//! Assertions that hold for any text that is read as a scenario or a contact plan: the fuzz target and the replay of its corpus
//! call this.

use std::collections::BTreeSet;
use std::path::Path;

use crate::contact_plan;
use crate::scenario::{Scenario, Size};

/// The beginning of an input that is a contact plan of somebody else's rather than a scenario.
const PLAN: &str = "# plan\n";

/// Nodes and links up to which two readings of a text are compared.
const COMPARED_MAX: usize = 1_000;

/// Reads octets as a scenario, or as a plan where they begin with `# plan`, and checks what must be true of the result; true
/// where it is one. Scenarios that name files are not read: a text is to decide what happens, and not what lies beside it.
///
/// # Panics
/// When what comes of it contradicts itself.
pub fn check_scenario(octets: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(octets) else {
        return false;
    };
    if let Some(plan) = text.strip_prefix(PLAN) {
        return contact_plan::check(plan);
    }
    if text.contains("contact_plan") {
        return false;
    }
    let path = Path::new("fuzz.toml");
    match Scenario::parse(path, text) {
        Ok(scenario) => {
            check(&scenario);
            if scenario.nodes.len() + scenario.links.len() <= COMPARED_MAX {
                let again = Scenario::parse(path, text).map(|it| format!("{it:?}"));
                assert_eq!(again, Ok(format!("{scenario:?}")), "a text is one scenario");
            }
            true
        }
        Err(error) => {
            assert!(!error.what.is_empty(), "a refusal says why");
            let lines = text.lines().count().max(1);
            if let Some(line) = error.line {
                assert!((1..=lines + 1).contains(&line), "line {line} of {lines}");
            }
            false
        }
    }
}

fn check(scenario: &Scenario) {
    let nodes = scenario.nodes.len();
    let names: BTreeSet<&str> = scenario.nodes.iter().map(|it| it.name.as_str()).collect();
    let numbers: BTreeSet<u32> = scenario.nodes.iter().map(|it| it.number).collect();
    assert_eq!((names.len(), numbers.len()), (nodes, nodes), "nodes differ");
    assert!(!numbers.contains(&0), "0 is not a node's number");
    for link in &scenario.links {
        let (dials, listens) = link.between;
        assert!(dials != listens && dials.0.max(listens.0) < nodes);
    }
    for contact in &scenario.contacts {
        assert!(contact.link.0 < scenario.links.len() && !contact.length.is_zero());
        assert!(contact.every.is_none_or(|every| every >= contact.length));
    }
    for traffic in &scenario.traffic {
        assert!(traffic.from != traffic.to && traffic.from.0.max(traffic.to.0) < nodes);
        assert!(Size::MIN <= traffic.size.min && traffic.size.min <= traffic.size.max);
    }
    for crash in &scenario.crashes {
        assert!(crash.node.0 < nodes);
    }
}
