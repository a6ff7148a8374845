//! The words of programs: names in braces, and their values in a run.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use dhow_scenario::scenario::Link;
use dhow_scenario::{Entropy, Scenario};

use super::program::Task;
use crate::failure::LabError;
use crate::place::Layout;
use crate::place::detour::Detour;

/// The purpose of the random numbers for ports.
const PURPOSE: u64 = Entropy::OURS + 101;

/// Ports that may be drawn: above those that nodes listen at, and those that the kernel gives to clients.
const PORTS: std::ops::RangeInclusive<u16> = 61_000..=65_535;

/// The values of names in braces in a program's words, beside nodes.
#[derive(Clone, Debug)]
pub(super) struct Context<'a> {
    pub layout: &'a Layout,
    /// The address of the collector.
    pub collector: &'a str,
    /// The run's name.
    pub run: &'a str,
    /// The port that is drawn for the run.
    pub port: u16,
    /// The links of the scenario.
    pub links: &'a [Link],
}

/// Says what in programs' words names nothing, and which program is not there.
///
/// # Errors
/// The first such word.
pub(super) fn check(scenario: &Scenario, layout: &Layout) -> Result<(), LabError> {
    let context = Context {
        layout,
        collector: "",
        run: "",
        port: 0,
        links: &scenario.links,
    };
    let mut programs = scenario.programs.iter();
    programs.try_for_each(|program| Task::new(program, &context, Path::new(""))?.check_there())
}

/// A text in which what stands in braces has become what it names.
pub(super) fn fill(text: &str, here: usize, context: &Context<'_>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        filled += before;
        let Some((name, after)) = behind.split_once('}') else {
            filled.push('{');
            rest = behind;
            continue;
        };
        filled += &match name {
            "collector" => context.collector.to_owned(),
            "run" => context.run.to_owned(),
            // Nodes may have been named so before.
            "port" if context.layout.host("port").is_none() => context.port.to_string(),
            _ => match name.split_once(':') {
                Some(("collector", by)) => collector_by(by, here, context)?,
                Some(("delay", link)) if context.layout.host("delay").is_none() => {
                    delay_of(link, context)?
                }
                parts => {
                    let (node, link) = parts.map_or((name, None), |(it, link)| (it, Some(link)));
                    let host = context.layout.host(node);
                    let (there, _) = host.ok_or_else(|| format!("'{{{name}}}' names no node"))?;
                    let address = context.layout.address_from(here, there, link);
                    let address = address.ok_or_else(|| {
                        format!("'{{{name}}}' has no address on a link from here")
                    })?;
                    address.to_string()
                }
            },
        };
        rest = after;
    }
    filled += rest;
    Ok(filled)
}

/// The delay of a link at the start of the run, as programs read it.
fn delay_of(link: &str, context: &Context<'_>) -> Result<String, String> {
    let found = context.links.iter().find(|it| it.name == link);
    let found = found.ok_or_else(|| format!("'{{delay:{link}}}' names no link"))?;
    Ok(format!("{}us", found.delay.at(Duration::ZERO).as_micros()))
}

/// The address of a host's measurements that go by way of a node.
fn collector_by(node: &str, here: usize, context: &Context<'_>) -> Result<String, String> {
    let layout = context.layout;
    let host = layout.host(node);
    let (there, host) = host.ok_or_else(|| format!("'{{collector:{node}}}' names no node"))?;
    if here == there {
        return Ok(context.collector.to_owned());
    }
    match layout.addresses_between(here, there) {
        Some(_) => Ok(layout.collector_by(host)),
        None => Err(format!(
            "'{{collector:{node}}}' needs a link from here to '{node}' that is always there"
        )),
    }
}

/// All that programs of a scenario are told: their words and variables, with the position of their host.
fn told(scenario: &Scenario) -> impl Iterator<Item = (usize, &String)> {
    scenario.programs.iter().flat_map(|program| {
        let values = program.environment.iter().map(|(_, value)| value);
        let texts = program.words.iter().chain(values);
        texts.map(move |text| (program.node.0, text))
    })
}

/// True if a program sends measurements to the lab's collector.
pub(super) fn measures(scenario: &Scenario) -> bool {
    told(scenario).any(|(_, text)| text.contains("{collector}") || text.contains("{collector:"))
}

/// Programs' hosts whose measurements go by way of another, and which.
pub(super) fn detours(scenario: &Scenario, layout: &Layout) -> BTreeSet<Detour> {
    let mut detours = BTreeSet::new();
    for (here, text) in told(scenario) {
        let names = text.split('{').filter_map(|part| part.split_once('}'));
        let gateways = names.filter_map(|(name, _)| layout.host(name.strip_prefix("collector:")?));
        detours.extend(gateways.map(|(there, _)| (here, there)));
    }
    detours.retain(|(here, there)| here != there);
    detours
}

/// The port of a run: its hosts are its own, so nobody else listens at it.
pub(super) fn port(seed: u64, number: u32) -> u16 {
    let which = usize::try_from(number).unwrap_or(usize::MAX);
    let ports = u64::from(PORTS.end() - PORTS.start()) + 1;
    let drawn = Entropy::new(seed, PURPOSE, which).below(ports);
    PORTS.start() + u16::try_from(drawn).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_drawn_for_each_run_and_above_those_in_use() {
        let drawn: BTreeSet<u16> = (0..100).map(|run| port(7, run)).collect();
        assert!(drawn.len() > 90, "{drawn:?}");
        assert!(drawn.iter().all(|port| PORTS.contains(port)));
        assert_eq!(port(7, 1), port(7, 1));
    }
}
