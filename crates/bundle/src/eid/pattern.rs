//! [`EidPattern`]: the endpoints that a route, a policy or a certificate means.

use alloc::boxed::Box;
use alloc::vec::Vec;

use core::fmt;

use super::EndpointId;

/// A set of endpoint IDs, written as in draft-ietf-dtn-eid-pattern: items joined by `|`, where an item is
///
/// * `*:**` (also `*`): everything; `ipn:**` (also `ipn:*`), `dtn:**` (also `dtn:*`): everything of a scheme;
/// * `ipn:A.N.S` or, for the default allocator, `ipn:N.S`, each part a number, `*` or intervals such as
///   `[1-5,9,100+]`;
/// * `dtn://name/demux` where the name may be `*` and the demux may end in `*`: one level (no `/`) for a single
///   `*`, any number of levels for `**`.
///
/// An endpoint ID without `*` or `|` in it is a pattern that matches only itself. The draft leaves the structure of `dtn` patterns and
/// wildcards in two-part `ipn` ones open; these are our own choice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EidPattern {
    pub(super) items: Vec<Item>,
}

/// One alternative of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Item {
    AnyScheme,
    AnyDtn,
    AnyIpn,
    Ipn {
        allocator: Numbers,
        node: Numbers,
        service: Numbers,
    },
    Dtn {
        name: NodeName,
        demux: Demux,
    },
    Null,
}

/// A set of numbers in one part of an `ipn` endpoint ID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Numbers {
    Any,
    One(u32),
    /// Inclusive bounds, ascending, neither overlapping nor touching.
    Intervals(Box<[(u32, u32)]>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum NodeName {
    Any,
    One(Box<str>),
}

/// A set of demuxes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Demux {
    One(Box<str>),
    /// Begins so, and has no further `/` after that.
    Level(Box<str>),
    /// Demuxes that begin with this text.
    Below(Box<str>),
}

impl EidPattern {
    /// The pattern that matches everything.
    #[must_use]
    pub fn any() -> Self {
        Self {
            items: alloc::vec![Item::AnyScheme],
        }
    }

    /// Whether an endpoint is in the set.
    #[must_use]
    pub fn matches(&self, endpoint: &EndpointId) -> bool {
        self.items.iter().any(|item| item.matches(endpoint))
    }

    /// Whether the set has a node ID in it (RFC 9171 4.2.5.2): `ipn` ones have service number 0 (RFC 9758 5.6), `dtn` ones no demux.
    #[must_use]
    pub fn has_node_ids(&self) -> bool {
        self.items.iter().any(Item::has_node_ids)
    }

    /// Rank of the pattern among those that match an endpoint, greater for smaller sets: schemes before everything, then nodes before
    /// services, numbers before intervals before `*`, and longer names of demuxes. `None` where it does not match.
    #[must_use]
    pub fn specificity(&self, endpoint: &EndpointId) -> Option<u64> {
        let items = self.items.iter().filter(|item| item.matches(endpoint));
        items.map(Item::specificity).max()
    }

    /// The sets of which the pattern is the union, each with its [specificity](Self::specificity).
    pub fn sets(&self) -> impl Iterator<Item = (u64, Self)> {
        self.items.iter().map(|item| {
            let items = alloc::vec![item.clone()];
            (item.specificity(), Self { items })
        })
    }

    /// The one endpoint that the pattern matches, if it is written as one.
    #[must_use]
    pub fn as_endpoint(&self) -> Option<EndpointId> {
        let [item] = self.items.as_slice() else {
            return None;
        };
        match item {
            Item::Null => Some(EndpointId::Null),
            Item::Ipn {
                allocator: Numbers::One(allocator),
                node: Numbers::One(node),
                service: Numbers::One(service),
            } => EndpointId::from_ipn_numbers(*allocator, *node, *service).ok(),
            Item::Dtn {
                name: NodeName::One(name),
                demux: Demux::One(demux),
            } => Some(EndpointId::Dtn(alloc::format!("//{name}/{demux}").into())),
            _ => None,
        }
    }
}

impl From<&EndpointId> for EidPattern {
    /// The pattern that matches only this endpoint.
    fn from(endpoint: &EndpointId) -> Self {
        let item = match endpoint {
            EndpointId::Null => Item::Null,
            EndpointId::Ipn {
                allocator,
                node,
                service,
            } => Item::Ipn {
                allocator: Numbers::One(*allocator),
                node: Numbers::One(*node),
                service: Numbers::One(*service),
            },
            EndpointId::Dtn(_) => Item::Dtn {
                name: NodeName::One(endpoint.node_name().unwrap_or_default().into()),
                demux: Demux::One(endpoint.demux().unwrap_or_default().into()),
            },
        };
        Self {
            items: alloc::vec![item],
        }
    }
}

impl Item {
    /// Greater for smaller sets.
    fn specificity(&self) -> u64 {
        /// One digit for each part; the first weighs most.
        const DIGIT: u64 = 1 << 16;
        let [first, second, third] = match self {
            Self::AnyScheme => [0, 0, 0],
            Self::AnyDtn | Self::AnyIpn => [1, 0, 0],
            Self::Null => [u64::from(u16::MAX), 0, 0],
            Self::Ipn {
                allocator,
                node,
                service,
            } => [
                2 + node.specificity(),
                allocator.specificity(),
                service.specificity(),
            ],
            Self::Dtn { name, demux } => {
                let one = u64::from(*name != NodeName::Any);
                [2 + 2 * one, demux.specificity(), 0]
            }
        };
        first * DIGIT * DIGIT + second * DIGIT + third
    }

    fn has_node_ids(&self) -> bool {
        match self {
            Self::AnyScheme | Self::AnyDtn | Self::AnyIpn => true,
            Self::Null => false,
            Self::Ipn {
                allocator,
                node,
                service,
            } => {
                let is_null = *allocator == Numbers::One(0) && *node == Numbers::One(0);
                service.has(0) && !is_null
            }
            Self::Dtn { demux, .. } => demux.has(""),
        }
    }

    fn matches(&self, endpoint: &EndpointId) -> bool {
        match (self, endpoint) {
            (Self::AnyScheme, _)
            | (Self::AnyDtn, EndpointId::Dtn(_) | EndpointId::Null)
            | (Self::AnyIpn, EndpointId::Ipn { .. } | EndpointId::Null)
            | (Self::Null, EndpointId::Null) => true,
            (
                Self::Ipn {
                    allocator,
                    node,
                    service,
                },
                EndpointId::Ipn {
                    allocator: in_allocator,
                    node: in_node,
                    service: in_service,
                },
            ) => allocator.has(*in_allocator) && node.has(*in_node) && service.has(*in_service),
            (
                Self::Ipn {
                    allocator,
                    node,
                    service,
                },
                EndpointId::Null,
            ) => allocator.has(0) && node.has(0) && service.has(0),
            (Self::Dtn { name, demux }, EndpointId::Dtn(_)) => {
                endpoint.node_name().is_some_and(|other| name.has(other))
                    && endpoint.demux().is_some_and(|other| demux.has(other))
            }
            _ => false,
        }
    }
}

impl Numbers {
    const fn specificity(&self) -> u64 {
        match self {
            Self::Any => 0,
            Self::Intervals(_) => 1,
            Self::One(_) => 2,
        }
    }

    fn has(&self, number: u32) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => *one == number,
            Self::Intervals(intervals) => intervals
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&number)),
        }
    }
}

impl NodeName {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => one.as_ref() == name,
        }
    }
}

impl Demux {
    fn specificity(&self) -> u64 {
        let (Self::One(start) | Self::Level(start) | Self::Below(start)) = self;
        let kind = match self {
            Self::Below(_) => 0,
            Self::Level(_) => 1,
            Self::One(_) => 2,
        };
        u64::try_from(start.len()).unwrap_or(0).min(16_000) * 3 + kind
    }

    fn has(&self, demux: &str) -> bool {
        match self {
            Self::One(one) => one.as_ref() == demux,
            Self::Level(start) => demux
                .strip_prefix(start.as_ref())
                .is_some_and(|rest| !rest.contains('/')),
            Self::Below(start) => demux.starts_with(start.as_ref()),
        }
    }
}

impl fmt::Display for EidPattern {
    /// The text that reads back as this pattern; two-part `ipn` items for the default allocator.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, item) in self.items.iter().enumerate() {
            if place > 0 {
                f.write_str("|")?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyScheme => f.write_str("*:**"),
            Self::AnyDtn => f.write_str("dtn:**"),
            Self::AnyIpn => f.write_str("ipn:**"),
            Self::Null => f.write_str("dtn:none"),
            Self::Ipn {
                allocator: Numbers::One(0),
                node: Numbers::One(super::LOCAL_NODE_NUMBER),
                service,
            } => {
                write!(f, "ipn:!.{service}")
            }
            Self::Ipn {
                allocator: Numbers::One(0),
                node,
                service,
            } => write!(f, "ipn:{node}.{service}"),
            Self::Ipn {
                allocator,
                node,
                service,
            } => write!(f, "ipn:{allocator}.{node}.{service}"),
            Self::Dtn { name, demux } => {
                f.write_str("dtn://")?;
                match name {
                    NodeName::Any => f.write_str("*")?,
                    NodeName::One(name) => f.write_str(name)?,
                }
                match demux {
                    Demux::One(demux) => write!(f, "/{demux}"),
                    Demux::Level(start) => write!(f, "/{start}*"),
                    Demux::Below(start) => write!(f, "/{start}**"),
                }
            }
        }
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::One(number) => write!(f, "{number}"),
            Self::Intervals(intervals) => {
                for (place, (first, last)) in intervals.iter().enumerate() {
                    f.write_str(if place == 0 { "[" } else { "," })?;
                    match (*first, *last) {
                        (first, u32::MAX) => write!(f, "{first}+")?,
                        (first, last) if first == last => write!(f, "{first}")?,
                        (first, last) => write!(f, "{first}-{last}")?,
                    }
                }
                f.write_str("]")
            }
        }
    }
}
