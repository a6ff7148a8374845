//! `[[messages]]`: bundles among many nodes, one sender and one receiver drawn for each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dhow_bundle::v6::Priority;
use dhow_document::{Document, Entries, FileError};

use super::read_size;
use crate::entropy::Entropy;
use crate::network::Network;
use crate::scenario::{Listed, NodeIndex, Pace, Service, Size, Traffic};

/// The purpose of the random numbers for times, senders and receivers.
const PURPOSE: u64 = Entropy::OURS + 12;

/// Bundles that one section makes, at most.
const MESSAGES_MAX: usize = 10_000_000;

/// The messages of all sections, as the traffic of each pair of nodes.
pub(super) fn read(
    document: &Document<'_>,
    network: &Network,
    (seed, end): (u64, Duration),
    traffic: &mut Vec<Traffic>,
) -> Result<(), FileError> {
    for (number, entries) in document.all("messages").enumerate() {
        let entropy = Entropy::new(seed, PURPOSE, number);
        let lifetime = entries.duration("lifetime");
        if lifetime.as_millis() == 0 {
            let what = "'lifetime' is at least 1 ms";
            return Err(document.fault(entries.line_of("lifetime"), what));
        }
        let pairs = draw(document, entries, network, (entropy, end))?;
        traffic.extend(pairs.into_iter().map(|((from, to), list)| Traffic {
            from,
            to,
            count: u64::try_from(list.len()).ok(),
            size: Size {
                min: list.iter().map(|it| it.octets).min().unwrap_or(Size::MIN),
                max: list.iter().map(|it| it.octets).max().unwrap_or(Size::MIN),
            },
            list: Arc::from(list),
            start: Duration::ZERO,
            pace: Pace::Listed,
            burst: 1,
            lifetime,
            at_once_octets: 0,
            reports: 0,
            aggregates: false,
            must_not_fragment: false,
            service: Service::Newest {
                class: Priority::Normal,
            },
        }));
    }
    Ok(())
}

type Pairs = BTreeMap<(NodeIndex, NodeIndex), Vec<Listed>>;

fn draw(
    document: &Document<'_>,
    entries: &Entries,
    network: &Network,
    (mut entropy, end): (Entropy, Duration),
) -> Result<Pairs, FileError> {
    let among = named(document, entries, network, "among")?;
    let to = match entries.has("to") {
        true => named(document, entries, network, "to")?,
        false => among.clone(),
    };
    if to.len() == 1 && to.iter().any(|to| among.contains(to)) {
        let what =
            "[[messages]] go from one node to another, and the only receiver is one of 'among'";
        return Err(document.fault(entries.line_of("among"), what));
    }
    let size = read_size(document, entries)?;
    let (least, most) = entries.durations("every").unwrap_or_default();
    if least < Duration::from_millis(1) {
        let what = "'every' is at least 1 ms";
        return Err(document.fault(entries.line_of("every"), what));
    }
    let until = entries.duration_if_set("until").unwrap_or(end).min(end);
    let mut at = entries.duration("start");
    let mut pairs = Pairs::new();
    let mut count = 0;
    loop {
        at = at.saturating_add(entropy.between(least, most));
        if at >= until {
            return Ok(pairs);
        }
        count += 1;
        if count > MESSAGES_MAX {
            let what = format!("[[messages]] are at most {MESSAGES_MAX}");
            let error = document.fault(entries.line_of("every"), what);
            return Err(error.with_hint("send one less often, or until an earlier time"));
        }
        let from = one(&among, &mut entropy);
        // Another than the one that sends, wherever that one is in the list.
        let mut receiver = one(&to, &mut entropy);
        while receiver == from {
            receiver = one(&to, &mut entropy);
        }
        let octets = size.min + entropy.below(size.max - size.min + 1);
        let list = pairs.entry((from, receiver)).or_default();
        list.push(Listed { at, octets });
    }
}

/// The nodes that one of a key's names means, each once, in order.
fn named(
    document: &Document<'_>,
    entries: &Entries,
    network: &Network,
    key: &str,
) -> Result<Vec<NodeIndex>, FileError> {
    let mut nodes = Vec::new();
    for pattern in entries.list(key) {
        nodes.extend(network.nodes_named(document, entries, key, pattern)?);
    }
    nodes.sort_unstable();
    nodes.dedup();
    match nodes.is_empty() {
        true => Err(document.fault(entries.line_of(key), format!("'{key}' names no node"))),
        false => Ok(nodes),
    }
}

fn one(nodes: &[NodeIndex], entropy: &mut Entropy) -> NodeIndex {
    let drawn = entropy.below(u64::try_from(nodes.len()).unwrap_or(0));
    let drawn = usize::try_from(drawn).unwrap_or(0);
    nodes.get(drawn).copied().unwrap_or(NodeIndex(0))
}
