//! The text form of patterns, read.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use core::str::FromStr;

use thiserror::Error;

use super::pattern::{Demux, EidPattern, Item, NodeName, Numbers};
use super::text::{check_demux, check_node_name, parse_number};
use super::{EidError, EndpointId, LOCAL_NODE_NUMBER, MAX_EID_OCTETS};

/// Items of one pattern; the draft asks for 100 at least.
const MAX_ITEMS: usize = 128;
/// Intervals of one part; the draft asks for 100 at least.
const MAX_INTERVALS: usize = 128;
/// Octets of one pattern: room for the items above at the length that real ones have.
const MAX_PATTERN_OCTETS: usize = 16 * MAX_EID_OCTETS;

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum PatternError {
    /// Longer than a pattern may be.
    #[error("it has {octets} octets, more than {MAX_PATTERN_OCTETS}")]
    TooLong {
        /// Its length.
        octets: usize,
    },
    /// More alternatives than a pattern may have.
    #[error("it has more than {MAX_ITEMS} items")]
    TooManyItems,
    /// More intervals than a part may have.
    #[error("a part has more than {MAX_INTERVALS} intervals")]
    TooManyIntervals,
    /// `*:**` stands alone.
    #[error("\"*:**\" matches everything and cannot be one of several items")]
    AnySchemeInList,
    /// A scheme other than `ipn` and `dtn`.
    #[error("the scheme of \"{item}\" is neither ipn nor dtn")]
    UnknownScheme {
        /// The item.
        item: String,
    },
    /// An `ipn` item has two or three parts.
    #[error("an ipn pattern has two or three parts with dots between, not {parts}")]
    IpnParts {
        /// Number of parts in the item.
        parts: usize,
    },
    /// Not `[first-last,…]`.
    #[error("\"{part}\" is not a number, \"*\" or intervals such as \"[1-5,9,100+]\"")]
    Intervals {
        /// The part.
        part: String,
    },
    /// A wildcard in a place where it means nothing.
    #[error("in \"{item}\" a wildcard can only be the whole node name or the end of the demux")]
    Wildcard {
        /// The item.
        item: String,
    },
    /// A part that no endpoint ID has.
    #[error(transparent)]
    Eid(#[from] EidError),
}

impl FromStr for EidPattern {
    type Err = PatternError;

    /// Reads a pattern. The empty text is the pattern that matches nothing.
    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text.len() > MAX_PATTERN_OCTETS {
            return Err(PatternError::TooLong { octets: text.len() });
        }
        let mut items = Vec::new();
        if text.is_empty() {
            return Ok(Self { items });
        }
        for item in text.split('|') {
            if items.len() == MAX_ITEMS {
                return Err(PatternError::TooManyItems);
            }
            items.push(parse_item(item)?);
        }
        if items.len() > 1 && items.contains(&Item::AnyScheme) {
            return Err(PatternError::AnySchemeInList);
        }
        Ok(Self { items })
    }
}

fn parse_item(item: &str) -> Result<Item, PatternError> {
    if item == "*" || item == "*:**" {
        return Ok(Item::AnyScheme);
    }
    let unknown = || PatternError::UnknownScheme { item: quoted(item) };
    let (scheme, part) = item.split_once(':').ok_or_else(unknown)?;
    // Section 2.3.1: schemes are compared in lower case.
    match scheme.to_ascii_lowercase().as_str() {
        "ipn" | "2" | "[2,ipn]" if part == "**" => Ok(Item::AnyIpn),
        "dtn" | "1" | "[1,dtn]" if part == "**" => Ok(Item::AnyDtn),
        "ipn" if part == "*" => Ok(Item::AnyIpn),
        "dtn" if part == "*" => Ok(Item::AnyDtn),
        "dtn" if part == "none" => Ok(Item::Null),
        "ipn" => parse_ipn(part),
        "dtn" => parse_dtn(item, part),
        _ => Err(unknown()),
    }
}

fn parse_ipn(part: &str) -> Result<Item, PatternError> {
    let parts: Vec<&str> = part.split('.').take(5).collect();
    let (allocator, node, service) = match parts.as_slice() {
        ["!", service] => (
            Numbers::One(0),
            Numbers::One(LOCAL_NODE_NUMBER),
            parse_numbers(service)?,
        ),
        [node, service] => {
            let (allocator, node) = parse_qualified_node(node)?;
            (allocator, node, parse_numbers(service)?)
        }
        [allocator, node, service] => (
            parse_numbers(allocator)?,
            parse_numbers(node)?,
            parse_numbers(service)?,
        ),
        _ => {
            return Err(PatternError::IpnParts {
                parts: part.split('.').count(),
            });
        }
    };
    if let (Numbers::One(allocator), Numbers::One(node), Numbers::One(service)) =
        (&allocator, &node, &service)
        && EndpointId::from_ipn_numbers(*allocator, *node, *service)?.is_null()
    {
        return Ok(Item::Null);
    }
    Ok(Item::Ipn {
        allocator,
        node,
        service,
    })
}

/// Section 2.4.3: in the two-part form a number is a fully qualified node number, of 64 bits.
fn parse_qualified_node(part: &str) -> Result<(Numbers, Numbers), PatternError> {
    let plain = part.bytes().all(|octet| octet.is_ascii_digit()) && !part.starts_with('0');
    match part.parse::<u64>() {
        Ok(number) if plain => {
            let low = u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX);
            let high = u32::try_from(number >> 32).unwrap_or(u32::MAX);
            Ok((Numbers::One(high), Numbers::One(low)))
        }
        _ => Ok((Numbers::One(0), parse_numbers(part)?)),
    }
}

fn parse_numbers(part: &str) -> Result<Numbers, PatternError> {
    if part == "*" {
        return Ok(Numbers::Any);
    }
    match part
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(intervals) => parse_intervals(intervals),
        None => match parse_number(part) {
            Ok(number) => Ok(Numbers::One(number)),
            Err(_) => Err(PatternError::Intervals { part: quoted(part) }),
        },
    }
}

/// Section 2.4: intervals are cut to the part's domain, ordered and coalesced.
fn parse_intervals(text: &str) -> Result<Numbers, PatternError> {
    let mut intervals = Vec::new();
    for interval in text.split(',') {
        if intervals.len() == MAX_INTERVALS {
            return Err(PatternError::TooManyIntervals);
        }
        let (first, last) = if let Some(first) = interval.strip_suffix('+') {
            (parse_bound(first)?, u64::from(u32::MAX))
        } else if let Some((first, last)) = interval.split_once('-') {
            (parse_bound(first)?, parse_bound(last)?)
        } else {
            let only = parse_bound(interval)?;
            (only, only)
        };
        let (first, last) = (first.min(last), first.max(last));
        let Ok(first) = u32::try_from(first) else {
            return Err(PatternError::Intervals {
                part: quoted(interval),
            });
        };
        intervals.push((first, u32::try_from(last).unwrap_or(u32::MAX)));
    }
    intervals.sort_unstable();
    let mut joined: Vec<(u32, u32)> = Vec::new();
    for (first, last) in intervals {
        match joined.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    Ok(match joined.as_slice() {
        [(0, u32::MAX)] => Numbers::Any,
        [(first, last)] if first == last => Numbers::One(*first),
        _ => Numbers::Intervals(joined.into_boxed_slice()),
    })
}

fn parse_bound(text: &str) -> Result<u64, PatternError> {
    let plain =
        text.bytes().all(|octet| octet.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse()
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| PatternError::Intervals { part: quoted(text) })
}

fn parse_dtn(item: &str, part: &str) -> Result<Item, PatternError> {
    let rest = part.strip_prefix("//").ok_or(EidError::DtnForm)?;
    let (name, demux) = rest.split_once('/').ok_or(EidError::SlashMissing)?;
    let name = match name {
        "*" | "**" => NodeName::Any,
        name if name.contains('*') => return Err(PatternError::Wildcard { item: quoted(item) }),
        name => {
            check_node_name(name)?;
            NodeName::One(name.into())
        }
    };
    let exact: Box<str> = demux.trim_end_matches('*').into();
    if exact.contains('*') {
        return Err(PatternError::Wildcard { item: quoted(item) });
    }
    check_demux(demux)?;
    let demux = match demux.len() - exact.len() {
        0 => Demux::One(exact),
        1 => Demux::Level(exact),
        2 => Demux::Below(exact),
        _ => return Err(PatternError::Wildcard { item: quoted(item) }),
    };
    Ok(Item::Dtn { name, demux })
}

/// As much of a text as an error message shows.
fn quoted(text: &str) -> String {
    text.chars().take(80).collect()
}
