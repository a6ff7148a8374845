//! The links of a plan: nodes of one network, and those that a topology joins.

use dhow_document::quantity::{parse_duration, parse_rate};

use super::evaluate::OedlError;
use super::plan::{Plan, PlannedLink};
use super::words::Addresses;

/// Nodes of one network: each two of them have a link.
const NETWORK_NODES_MAX: usize = 32;

/// Bits of an address that name the network, where no netmask says it.
const PREFIX: u8 = 24;

/// A link of the scenario.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    pub name: String,
    pub between: (String, String),
    pub rate: Option<String>,
    pub delay: Option<String>,
    /// The fraction of packets that are lost.
    pub loss: Option<f64>,
}

/// Nodes by their names in the script and in the scenario, their links and addresses.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// Names in the script, and in the scenario, in the script's order.
    pub nodes: Vec<(String, String)>,
    pub links: Vec<Link>,
    pub addresses: Addresses,
    /// True if links were added because nodes that no script joins could not meet.
    pub is_implied: bool,
}

/// A node of a network, with its address there.
type Member = (String, Option<String>);

impl Network {
    /// The network of a plan.
    ///
    /// # Errors
    /// A link that no scenario has.
    pub fn of(plan: &Plan) -> Result<Self, OedlError> {
        let mut network = Self::default();
        for node in &plan.nodes {
            let name = network.free_name(&node.id);
            network.addresses.add_host(&node.id, &name);
            network.nodes.push((node.id.clone(), name));
        }
        for (name, members) in network.shared(plan) {
            network.join(&name, &members)?;
        }
        for link in &plan.links {
            network.add(link)?;
        }
        if network.links.is_empty() && network.nodes.len() > 1 {
            let all: Vec<Member> = network
                .nodes
                .iter()
                .map(|(_, name)| (name.clone(), None))
                .collect();
            network.join("net", &all)?;
            network.is_implied = true;
        }
        Ok(network)
    }

    /// A node's name in the scenario.
    pub fn name<'a>(&'a self, id: &'a str) -> &'a str {
        let found = self.nodes.iter().find(|(known, _)| known == id);
        found.map_or(id, |(_, name)| name)
    }

    /// Networks with their nodes: of one name for radios, else of one range of addresses.
    fn shared(&self, plan: &Plan) -> Vec<(String, Vec<Member>)> {
        let mut networks: Vec<(String, String, Vec<Member>)> = Vec::new();
        for node in &plan.nodes {
            for interface in &node.interfaces {
                let address = interface
                    .setting("ip")
                    .or_else(|| interface.setting("ip_addr"));
                let radio = interface
                    .setting("essid")
                    .or_else(|| interface.setting("network"));
                let key = radio.clone().or_else(|| {
                    range(address.as_deref()?, interface.setting("netmask").as_deref())
                });
                let Some(key) = key else { continue };
                let bare = address.map(|address| {
                    address
                        .split_once('/')
                        .map_or(address.clone(), |(bare, _)| bare.to_owned())
                });
                let member = (self.name(&node.id).to_owned(), bare);
                match networks.iter_mut().find(|(known, ..)| *known == key) {
                    Some((_, _, members)) => members.push(member),
                    None => {
                        let name = sanitized(radio.as_deref().unwrap_or(&interface.name));
                        networks.push((key, name, vec![member]));
                    }
                }
            }
        }
        networks
            .into_iter()
            .map(|(_, name, members)| (name, members))
            .collect()
    }

    /// A link between each two members.
    fn join(&mut self, name: &str, members: &[Member]) -> Result<(), OedlError> {
        if members.len() > NETWORK_NODES_MAX {
            let what = format!(
                "network '{name}' has {} nodes; {NETWORK_NODES_MAX} are possible",
                members.len()
            );
            return Err(OedlError::of_line(None, what));
        }
        let is_pair = members.len() == 2;
        let mut rest = members;
        while let Some(((first, address), others)) = rest.split_first() {
            for (second, other) in others {
                let wanted = match is_pair {
                    true => name.to_owned(),
                    false => format!("{name}-{first}-{second}"),
                };
                let link = self.push(wanted, (first.clone(), second.clone()));
                let ends = [(first, address), (second, other)];
                for (node, address) in ends {
                    if let Some(address) = address {
                        self.addresses.add(address, node, &link);
                    }
                }
            }
            rest = others;
        }
        Ok(())
    }

    fn push(&mut self, wanted: String, between: (String, String)) -> String {
        let is_taken = |name: &String| self.links.iter().any(|link| link.name == *name);
        let name = unique(wanted, is_taken);
        self.links.push(Link {
            name: name.clone(),
            between,
            rate: None,
            delay: None,
            loss: None,
        });
        name
    }

    /// A topology's link: it says what the link of a network is like, or is one of its own.
    fn add(&mut self, planned: &PlannedLink) -> Result<(), OedlError> {
        let wrong = |what: String| OedlError::of_line(planned.line, what);
        let (first, second) = &planned.between;
        let (first, second) = (self.name(first).to_owned(), self.name(second).to_owned());
        if first == second {
            return Err(wrong(format!("'{first}' needs no link to itself")));
        }
        let joins = |link: &Link| {
            let ends = (&link.between.0, &link.between.1);
            ends == (&first, &second) || ends == (&second, &first)
        };
        if let Some(rate) = &planned.bw {
            parse_rate(rate).map_err(|error| wrong(format!(":bw is not a rate: {error}")))?;
        }
        if let Some(delay) = &planned.delay {
            parse_duration(delay)
                .map_err(|error| wrong(format!(":delay is not a time: {error}")))?;
        }
        let loss =
            match &planned.loss {
                Some(loss) => Some(part(loss).ok_or_else(|| {
                    wrong(format!(":loss is not a fraction such as 10%: '{loss}'"))
                })?),
                None => None,
            };
        let place = match self.links.iter().position(joins) {
            Some(place) => place,
            None => {
                let between = (first.clone(), second.clone());
                self.push(format!("{first}-{second}"), between);
                self.links.len() - 1
            }
        };
        if let Some(link) = self.links.get_mut(place) {
            link.rate.clone_from(&planned.bw);
            link.delay.clone_from(&planned.delay);
            link.loss = loss;
        }
        Ok(())
    }

    fn free_name(&self, id: &str) -> String {
        unique(sanitized(id), |name| {
            self.nodes.iter().any(|(_, known)| known == name)
        })
    }
}

/// A part of a whole: `10%`, or as `tc` takes it, `10`.
fn part(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().trim_end_matches('%').parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// The network's part of an IPv4 address; the address where it is none.
fn range(address: &str, netmask: Option<&str>) -> Option<String> {
    let (bare, prefix) = match address.split_once('/') {
        Some((bare, prefix)) => (bare, prefix.parse().ok()?),
        None => (address, netmask.map_or(Some(PREFIX), prefix_of)?),
    };
    let octets: std::net::Ipv4Addr = bare.parse().ok()?;
    let mask = u32::MAX
        .checked_shl(32 - u32::from(prefix.min(32)))
        .unwrap_or(0);
    Some(format!(
        "{}/{prefix}",
        std::net::Ipv4Addr::from(octets.to_bits() & mask)
    ))
}

fn prefix_of(netmask: &str) -> Option<u8> {
    let mask: std::net::Ipv4Addr = netmask.parse().ok()?;
    u8::try_from(mask.to_bits().leading_ones()).ok()
}

/// A name that files, namespaces and paths of a scenario take.
fn sanitized(name: &str) -> String {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(keep).collect();
    match name.trim_matches('-') {
        "" => "node".to_owned(),
        name => name.to_owned(),
    }
}

/// The name, with a number where it is taken.
pub(super) fn unique(wanted: String, is_taken: impl Fn(&String) -> bool) -> String {
    let numbered = (2_u32..).map(|number| format!("{wanted}-{number}"));
    let mut names = std::iter::once(wanted.clone()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_addresses_are_those_of_masks() {
        for (address, mask, network) in [
            ("192.168.0.7", None, "192.168.0.0/24"),
            ("10.1.2.3/16", None, "10.1.0.0/16"),
            ("10.1.2.3", Some("255.0.0.0"), "10.0.0.0/8"),
        ] {
            assert_eq!(range(address, mask).as_deref(), Some(network), "{address}");
        }
        assert_eq!(range("node", None), None);
    }

    #[test]
    fn parts_are_percents_with_and_without_their_sign() {
        assert_eq!((part("10%"), part("0.5")), (Some(0.1), Some(0.005)));
        assert_eq!((part("101%"), part("much")), (None, None));
    }

    #[test]
    fn names_are_made_of_what_a_scenario_takes() {
        assert_eq!(sanitized("omf.pats.alix1"), "omf-pats-alix1");
        assert_eq!(sanitized("..."), "node");
        let taken = ["a".to_owned(), "a-2".to_owned()];
        assert_eq!(unique("a".to_owned(), |name| taken.contains(name)), "a-3");
    }
}
