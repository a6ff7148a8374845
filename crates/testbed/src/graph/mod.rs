//! A scenario's network as a picture: nodes and the links between them.

mod layout;

use std::fmt::Write as _;

use dhow_scenario::Scenario;
use dhow_scenario::scenario::{HostKind, Link, Presence};

pub use layout::Layout;

/// The size of a node's box.
const BOX: (f64, f64) = (84.0, 28.0);

/// The network as Graphviz reads it.
#[must_use]
pub fn dot(scenario: &Scenario) -> String {
    let mut text = format!("graph {} {{\n  node [shape=box];\n", quoted(&scenario.name));
    for node in &scenario.nodes {
        let style = match node.host.kind {
            HostKind::Dhow => "",
            HostKind::Command => " [style=dashed]",
        };
        // Writing to a text does not fail.
        let _ = writeln!(text, "  {}{style};", quoted(&node.name));
    }
    for link in &scenario.links {
        let style = match link.presence {
            Presence::Always => "",
            Presence::Planned => ", style=dashed",
        };
        let [first, second] = ends(scenario, link);
        let _ = writeln!(
            text,
            "  {} -- {} [label={}{style}];",
            quoted(first),
            quoted(second),
            quoted(&words(scenario, link))
        );
    }
    text + "}\n"
}

/// The network as SVG.
#[must_use]
pub fn svg(scenario: &Scenario) -> String {
    let layout = Layout::of(scenario);
    let ((width, height), at) = (layout.size(), |place| layout.place(place));
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escaped(&scenario.name)
    );
    for link in &scenario.links {
        let (x1, y1) = at(link.between.0.0);
        let (x2, y2) = at(link.between.1.0);
        let dashes = match link.presence {
            Presence::Always => "",
            Presence::Planned => " stroke-dasharray=\"6 4\"",
        };
        let _ = writeln!(
            text,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#567\"{dashes}/>\n<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#345\" font-size=\"10\">{}</text>",
            x1.midpoint(x2),
            y1.midpoint(y2) - 4.0,
            escaped(&words(scenario, link))
        );
    }
    for (place, node) in scenario.nodes.iter().enumerate() {
        let (x, y) = at(place);
        let dashes = match node.host.kind {
            HostKind::Dhow => "",
            HostKind::Command => " stroke-dasharray=\"3 3\"",
        };
        let _ = writeln!(
            text,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"#eef4fa\" stroke=\"#234\"{dashes}/>\n<text x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            x - BOX.0 / 2.0,
            y - BOX.1 / 2.0,
            BOX.0,
            BOX.1,
            y + 4.0,
            escaped(&node.name)
        );
    }
    text + "</svg>\n"
}

fn ends<'a>(scenario: &'a Scenario, link: &Link) -> [&'a str; 2] {
    let name = |node: usize| {
        scenario
            .nodes
            .get(node)
            .map_or("", |node| node.name.as_str())
    };
    [name(link.between.0.0), name(link.between.1.0)]
}

/// A link in few words: its rate, and its delay where it has one.
fn words(scenario: &Scenario, link: &Link) -> String {
    if let Some(wire) = link.over.and_then(|wire| scenario.links.get(wire.0)) {
        return format!("over {}", wire.name);
    }
    let bits = link.rate.octets_per_s().saturating_mul(8);
    let rate = match bits {
        1_000_000_000.. if bits.is_multiple_of(1_000_000_000) => {
            format!("{} Gbit/s", bits / 1_000_000_000)
        }
        1_000_000.. if bits.is_multiple_of(1_000_000) => format!("{} Mbit/s", bits / 1_000_000),
        1_000.. if bits.is_multiple_of(1_000) => format!("{} kbit/s", bits / 1_000),
        _ => format!("{bits} bit/s"),
    };
    let delay = link.delay.longest();
    match delay.is_zero() {
        true => rate,
        false => format!("{rate}, {delay:?}"),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_node_and_link_is_in_the_picture() {
        let text = "name = \"A < B\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\nkind = \"command\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"8Mbit\"\ndelay = \"5ms\"\n[[contact]]\nlink = \"a-b\"\nfor = \"1s\"\n[stop]\nat = \"1s\"\n";
        let scenario = Scenario::parse(Path::new("s.toml"), text).expect("a scenario");
        let dot = dot(&scenario);
        assert!(dot.contains("\"b\" [style=dashed];"), "{dot}");
        assert!(
            dot.contains("\"a\" -- \"b\" [label=\"8 Mbit/s, 5ms\", style=dashed];"),
            "{dot}"
        );
        let svg = svg(&scenario);
        assert!(
            svg.contains("<title>A &lt; B</title>") && svg.contains("stroke-dasharray=\"6 4\"")
        );
        assert_eq!(svg.matches("<rect x=").count(), 2);
    }
}
