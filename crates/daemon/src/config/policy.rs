//! Session policy out of the keys that listeners and links share.

use dhow_bundle::Priority;
use dhow_bundle::eid::EidPattern;
use dhow_bundle::priority::NoPriority;
use dhow_node::config::{
    Acknowledge, DEFAULT_TRANSFER_MRU, ReadingPolicy, SendOrder, SessionPolicy, Tls,
};

use super::file::{TlsSettings, enabled, read_node_id, small};
use super::gateway::read_gateway;
use super::limits::read_limits;
use super::memory::Memory;
use dhow_document::{Document, Entries, FileError};

/// The policy of a listener or link.
///
/// # Errors
/// When a value makes no sense, or TLS is wanted without an identity.
pub(super) fn read_policy(
    document: &Document<'_>,
    entries: &Entries,
    tls: Option<&TlsSettings>,
    memory: &Memory,
) -> Result<SessionPolicy, FileError> {
    let whole_seconds = |key: &str, most: u64| {
        let duration = entries.duration(key);
        if duration.subsec_nanos() != 0 || duration.as_secs() > most {
            let what = format!("'{key}' must be whole seconds, at most {most}s");
            return Err(document.fault_of(entries, key, what));
        }
        Ok(duration.as_secs())
    };
    let octets = |key: &str| match entries.size(key) {
        Some(0) => Err(document.fault_of(entries, key, format!("'{key}' must not be 0"))),
        octets => Ok(octets),
    };
    let answer_timeout = whole_seconds("answer_timeout", u64::from(u32::MAX))?;
    if answer_timeout == 0 {
        let what = "'answer_timeout' must not be 0: no peer answers at once";
        return Err(document.fault_of(entries, "answer_timeout", what));
    }
    let use_tls = match entries.text("tls") {
        Some("required") => Tls::Required,
        Some("preferred") => Tls::Preferred,
        _ => Tls::Never,
    };
    if use_tls != Tls::Never && tls.is_none() {
        return Err(document
            .fault(entries.line_of("tls"), "TLS needs a [tls] section")
            .with_hint(
                "[tls] names this node's certificate and key, and the authorities that it believes",
            ));
    }
    if entries.is_true("require_node_id") && use_tls != Tls::Required {
        // A session that fell back to the clear would prove nothing (RFC 9174 4.4.4).
        return Err(document
            .fault(
                entries.line_of("require_node_id"),
                "'require_node_id' needs tls = \"required\": without TLS nobody proves a node ID",
            )
            .with_hint("write tls = \"required\" beside it, and a [tls] section"));
    }
    let peer = entries
        .text("peer")
        .map(|text| read_node_id(document, entries.line_of("peer"), text))
        .transpose()?;
    let (bundle_versions, age_dialect) = read_gateway(entries);
    Ok(SessionPolicy {
        keepalive_s: u16::try_from(whole_seconds("keepalive", u64::from(u16::MAX))?)
            .unwrap_or(u16::MAX),
        segment_mru: octets("segment_mru")?.unwrap_or(0),
        transfer_mru: octets("transfer_mru")?.unwrap_or(DEFAULT_TRANSFER_MRU),
        segment_octets: octets("segment")?.unwrap_or(0),
        idle_timeout_s: u32::try_from(whole_seconds("idle_timeout", u64::from(u32::MAX))?)
            .unwrap_or(u32::MAX),
        answer_timeout_s: u32::try_from(answer_timeout).unwrap_or(u32::MAX),
        transfer_timeout_s: u32::try_from(whole_seconds("transfer_timeout", u64::from(u32::MAX))?)
            .unwrap_or(u32::MAX),
        tls: use_tls,
        require_node_id: enabled(entries.is_true("require_node_id")),
        peer,
        reading: if entries.text("reading") == Some("lenient") {
            ReadingPolicy::Lenient
        } else {
            ReadingPolicy::Strict
        },
        fragment_octets: octets("fragment")?,
        window_octets: octets("window")?.unwrap_or_else(|| memory.window_octets()),
        window_bundles: small(entries, "window_bundles").unwrap_or(1),
        cut_through: enabled(entries.is_true("cut_through")),
        resume: enabled(entries.is_true("resume")),
        strip_checksum: enabled(entries.is_true("strip_checksum")),
        acknowledge: if entries.text("acknowledge") == Some("next-hop") {
            Acknowledge::NextHop
        } else {
            Acknowledge::Here
        },
        order: if entries.text("order") == Some("expiry") {
            SendOrder::Expiry
        } else {
            SendOrder::Arrival
        },
        accept_relayed: enabled(entries.is_true("accept_relayed")),
        relay: enabled(entries.is_true("relay")),
        accept_sources: read_patterns(document, entries, "accept_sources")?,
        highest_priority: read_priority(document, entries)?,
        bundle_versions,
        age_dialect,
        limits: read_limits(document, entries)?,
    })
}

/// The greatest priority that bundles may have; none for any.
pub(super) fn read_priority(
    document: &Document,
    entries: &Entries,
) -> Result<Option<Priority>, FileError> {
    const KEY: &str = "highest_priority";
    let Some(text) = entries.text(KEY) else {
        return Ok(None);
    };
    let fault = |refusal: NoPriority| {
        let what = format!("'{KEY}' is \"{text}\": {refusal}");
        let fault = document.fault(entries.line_of(KEY), what);
        fault.with_hint("for example: highest_priority = \"normal\"")
    };
    text.parse().map(Some).map_err(fault)
}

/// A list of endpoint-ID patterns, as text that can be read.
pub(super) fn read_patterns(
    document: &Document,
    entries: &Entries,
    key: &str,
) -> Result<Vec<String>, FileError> {
    let patterns = entries.list(key);
    if patterns.is_empty() && entries.has(key) {
        let what = format!("'{key}' names nobody");
        return Err(document.fault(entries.line_of(key), what).with_hint(
            "without the key every source is taken; for example: accept_sources = [\"ipn:1.*\"]",
        ));
    }
    for pattern in patterns {
        pattern.parse::<EidPattern>().map_err(|error| {
            document.fault(
                entries.line_of(key),
                format!("'{pattern}' is not an endpoint-ID pattern: {error}"),
            )
        })?;
    }
    Ok(patterns.to_vec())
}
