//! OML's configuration of a client: `<omlc>` in XML, with the names of its attributes of today and of before.
//!
//! Two things differ from liboml2, where they surprise: filters come out in the order in which they stand, and a point that stands twice gives two
//! streams and not one with doubled columns.

use std::time::Duration;

use roxmltree::{Document, Node, ParsingOptions};

use crate::client::Target;
use crate::filter::{Filter, INTERVAL_MIN, Operation, Plan, Rule, Window};
use crate::omsp::Encoding;

/// Octets of a configuration.
pub const CONFIG_OCTETS_MAX: usize = 1 << 20;

/// Streams of a configuration.
const RULES_MAX: usize = 254;

/// Elements and attributes: more nodes than any configuration needs.
const NODES_MAX: u32 = 100_000;

/// The content of a configuration; `None` for settings that it leaves to others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The domain.
    pub domain: Option<String>,
    /// The name of the sender.
    pub sender: Option<String>,
    /// The destination of measurements.
    pub target: Option<Target>,
    /// The encoding of rows.
    pub encoding: Option<Encoding>,
    /// The points that are sent, and their filters.
    pub plan: Plan,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// It is no XML, or says what cannot be; with the line.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.len() > CONFIG_OCTETS_MAX {
            return Err(ConfigError::new(
                1,
                format!("more than {CONFIG_OCTETS_MAX} octets"),
            ));
        }
        let options = ParsingOptions {
            nodes_limit: NODES_MAX,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(text, options)
            .map_err(|error| ConfigError::new(error.pos().row, error.to_string()))?;
        let root = document.root_element();
        if root.tag_name().name() != "omlc" {
            return Err(wrong(
                root,
                format!("<{}> is not <omlc>", root.tag_name().name()),
            ));
        }
        known(root, &["domain", "exp_id", "experiment", "id"])?;
        let mut config = Self {
            domain: either(root, &["domain", "exp_id", "experiment"]),
            sender: either(root, &["id"]),
            ..Self::default()
        };
        let mut rules = Vec::new();
        let mut is_everything = true;
        for collect in elements(root) {
            if collect.tag_name().name() != "collect" {
                return Err(wrong(collect, "only <collect> stands in <omlc>"));
            }
            config.collect(collect)?;
            for stream in elements(collect) {
                is_everything = false;
                rules.push(rule(stream)?);
                if rules.len() > RULES_MAX {
                    return Err(wrong(stream, format!("more than {RULES_MAX} streams")));
                }
            }
        }
        name_apart(&mut rules);
        config.plan = match is_everything {
            true => Plan::default(),
            false => Plan::Listed(rules),
        };
        Ok(config)
    }

    fn collect(&mut self, collect: Node<'_, '_>) -> Result<(), ConfigError> {
        known(collect, &["url", "encoding"])?;
        if let Some(url) = collect.attribute("url") {
            let target: Target = url.parse().map_err(|error| wrong(collect, error))?;
            if self.target.as_ref().is_some_and(|other| *other != target) {
                return Err(wrong(
                    collect,
                    "a program has one collector, and another one is named before",
                ));
            }
            self.target = Some(target);
        }
        match collect.attribute("encoding") {
            None => {}
            Some("text") => self.encoding = Some(Encoding::Text),
            Some("binary") => self.encoding = Some(Encoding::Binary),
            Some(other) => {
                return Err(wrong(
                    collect,
                    format!("the encoding '{other}' is neither text nor binary"),
                ));
            }
        }
        Ok(())
    }
}

fn rule(stream: Node<'_, '_>) -> Result<Rule, ConfigError> {
    if !matches!(stream.tag_name().name(), "stream" | "mp") {
        return Err(wrong(stream, "only <stream> stands in <collect>"));
    }
    // Before, a stream was called <mp>, its point `name` and its own name `rename`.
    let is_old = stream.tag_name().name() == "mp" || stream.attribute("mp").is_none();
    let (point, alias): (&[&str], &[&str]) = match is_old {
        true => (&["name"], &["rename"]),
        false => (&["mp"], &["name", "rename"]),
    };
    known(stream, &["mp", "name", "rename", "samples", "interval"])?;
    let point =
        either(stream, point).ok_or_else(|| wrong(stream, "a stream needs mp=\"POINT\""))?;
    let window = match (stream.attribute("samples"), stream.attribute("interval")) {
        (Some(_), Some(_)) => return Err(wrong(stream, "samples and interval exclude each other")),
        (None, None) => {
            return Err(wrong(
                stream,
                "a stream needs samples=\"NUMBER\" or interval=\"SECONDS\"",
            ));
        }
        (Some(samples), None) => {
            Window::Samples(parse_samples(samples).map_err(|error| wrong(stream, error))?)
        }
        (None, Some(interval)) => {
            Window::Interval(parse_interval(interval).map_err(|error| wrong(stream, error))?)
        }
    };
    let filters = elements(stream).map(filter).collect::<Result<_, _>>()?;
    Ok(Rule {
        point,
        alias: either(stream, alias),
        window,
        filters,
    })
}

fn filter(element: Node<'_, '_>) -> Result<Filter, ConfigError> {
    if !matches!(element.tag_name().name(), "filter" | "f") {
        return Err(wrong(element, "only <filter> stands in <stream>"));
    }
    known(
        element,
        &["field", "pname", "operation", "fname", "rename", "sname"],
    )?;
    let field = either(element, &["field", "pname"])
        .ok_or_else(|| wrong(element, "a filter needs field=\"FIELD\""))?;
    let name = either(element, &["operation", "fname"])
        .ok_or_else(|| wrong(element, "a filter needs operation=\"NAME\""))?;
    let mut operation = Operation::named(&name).ok_or_else(|| {
        wrong(
            element,
            format!("the filter '{name}' is none of {}", Operation::NAMES),
        )
    })?;
    for property in elements(element) {
        known(property, &["name", "type"])?;
        let setting = property.attribute("name").unwrap_or_default();
        let text = property.text().unwrap_or_default();
        operation.set(setting, text).map_err(|expected| {
            wrong(
                property,
                format!("the property '{setting}' of {name} is not {expected}"),
            )
        })?;
    }
    if let Operation::Histogram { low, high, .. } = operation
        && low >= high
    {
        return Err(wrong(element, "a histogram begins below its end"));
    }
    Ok(Filter {
        field,
        operation,
        rename: either(element, &["rename", "sname"]),
    })
}

/// Two streams of one name would be two schemas of one table: the second is POINT_2.
fn name_apart(rules: &mut [Rule]) {
    let mut names: Vec<String> = Vec::new();
    for rule in rules {
        let name = rule.alias.clone().unwrap_or_else(|| rule.point.clone());
        let mut unique = name.clone();
        let mut number = 2;
        while names.contains(&unique) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        if unique != name {
            rule.alias = Some(unique.clone());
        }
        names.push(unique);
    }
}

/// So many samples; OML takes 0 for 1.
///
/// # Errors
/// Not a whole number.
pub fn parse_samples(text: &str) -> Result<u64, String> {
    let samples: u64 = text
        .trim()
        .parse()
        .map_err(|_| format!("'{text}' is not a number of samples"))?;
    Ok(samples.max(1))
}

/// An interval in seconds: `0.5`.
///
/// # Errors
/// Not a number of seconds, or less than a millisecond.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.trim().parse().ok();
    let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    interval
        .filter(|interval| *interval >= INTERVAL_MIN)
        .ok_or_else(|| format!("'{text}' is not an interval of a millisecond and more, in seconds"))
}

fn elements<'a, 'input>(of: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    of.children().filter(Node::is_element)
}

fn either(of: Node<'_, '_>, names: &[&str]) -> Option<String> {
    let found = names.iter().find_map(|name| of.attribute(*name));
    found.map(str::to_owned)
}

/// A misspelt attribute would be one that is silently not obeyed.
fn known(of: Node<'_, '_>, names: &[&str]) -> Result<(), ConfigError> {
    match of.attributes().find(|a| !names.contains(&a.name())) {
        None => Ok(()),
        Some(other) => Err(wrong(
            of,
            format!(
                "<{}> has no attribute '{}' (it has {})",
                of.tag_name().name(),
                other.name(),
                names.join(", ")
            ),
        )),
    }
}

fn wrong(at: Node<'_, '_>, what: impl std::fmt::Display) -> ConfigError {
    let place = at.document().text_pos_at(at.range().start);
    ConfigError::new(place.row, what.to_string())
}

/// A fault in a configuration, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ConfigError {
    /// The line, from 1.
    pub line: u32,
    /// The description of the fault.
    pub what: String,
}

impl ConfigError {
    fn new(line: u32, what: impl Into<String>) -> Self {
        Self {
            line,
            what: what.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_configuration_say_the_same() {
        let new = r#"<omlc domain="D" id="N"><collect url="tcp://h:3004" encoding="binary">
            <stream mp="udp_out" samples="10" name="every10"/>
            <stream mp="udp_out" interval="0.5">
              <filter field="pkt_length" operation="sum" rename="octets"/>
              <filter field="ts" operation="histogram"><property name="high" type="double">8</property></filter>
            </stream></collect></omlc>"#;
        let old = r#"<omlc exp_id="D" id="N"><collect url="h:3004" encoding="binary">
            <mp name="udp_out" samples="10" rename="every10"/>
            <mp name="udp_out" interval="0.5">
              <f pname="pkt_length" fname="sum" sname="octets"/>
              <f pname="ts" fname="histogram"><fp name="high">8</fp></f>
            </mp></collect></omlc>"#;
        let config = Config::parse(new).unwrap();
        assert_eq!(config, Config::parse(old).unwrap());
        assert_eq!(config.domain.as_deref(), Some("D"));
        assert_eq!(config.target.unwrap().to_string(), "tcp:h:3004");
        let Plan::Listed(rules) = config.plan else {
            panic!("streams are listed")
        };
        assert_eq!(rules[0].alias.as_deref(), Some("every10"));
        assert_eq!(
            rules[1].window,
            Window::Interval(Duration::from_millis(500))
        );
        let names: Vec<&str> = rules[1]
            .filters
            .iter()
            .map(|f| f.operation.name())
            .collect();
        assert_eq!(names, ["sum", "histogram"], "in the order of the document");
    }

    #[test]
    fn a_point_that_stands_twice_gives_two_streams() {
        let text = "<omlc><collect><stream mp='p' samples='1'/></collect><collect><stream mp='p' samples='0'/></collect></omlc>";
        let Plan::Listed(rules) = Config::parse(text).unwrap().plan else {
            panic!("streams are listed")
        };
        let aliases: Vec<_> = rules.iter().map(|rule| rule.alias.as_deref()).collect();
        assert_eq!(aliases, [None, Some("p_2")]);
        assert_eq!(
            Config::parse("<omlc><collect/></omlc>").unwrap().plan,
            Plan::default()
        );
    }

    #[test]
    fn what_cannot_be_is_said_with_its_line() {
        for (text, words) in [
            ("<omlc>", "line 1"),
            ("<oml/>", "line 1: <oml> is not <omlc>"),
            (
                "<omlc>\n<collect>\n<stream mp='p'/></collect></omlc>",
                "line 3: a stream needs samples",
            ),
            (
                "<omlc>\n<collect>\n<stream samples='1'/></collect></omlc>",
                "line 3: a stream needs mp",
            ),
            (
                "<omlc>\n<collect url='http://x/y'/></omlc>",
                "line 2: 'http://x/y' is neither",
            ),
            (
                "<omlc><collect><stream mp='p' sample='1'/></collect></omlc>",
                "no attribute 'sample'",
            ),
            (
                "<omlc><collect><stream mp='p' interval='0'/></collect></omlc>",
                "not an interval",
            ),
            (
                "<omlc><collect><stream mp='p' samples='1'><filter field='x' operation='mean'/></stream></collect></omlc>",
                "the filter 'mean' is none of first, last",
            ),
            (
                "<omlc><collect><stream mp='p' samples='1'><filter field='x' operation='sum'><property name='y'>1</property></filter></stream></collect></omlc>",
                "a setting that the filter has",
            ),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
