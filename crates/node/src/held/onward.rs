//! The view of a held bundle for those that report on it, answer it, or send it on.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::session_id::SessionId;
use crate::config::Config;
use crate::config::PayloadChecksum;
use crate::held::Held;
use crate::held::bundles::Entry;
use crate::outbox::Outbox;
use crate::reports::ReportKind;
use crate::reports::Subject;
use crate::transmission::HOP_LIMIT;
use dhow_bundle::BundleBuilder;
use dhow_bundle::BundleFlags;
use dhow_bundle::CrcType;
use dhow_bundle::FragmentRange;
use dhow_bundle::Header;
use dhow_bundle::HopEdit;
use dhow_bundle::Now;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::v7::forward::UnsupportedBlocks;

impl Held {
    /// The changes of a bundle's header blocks at this hop.
    pub(crate) fn hop_edit(
        &self,
        adjacencies: &Adjacencies,
        now: Now,
        session: SessionId,
        (key, header): (BundleKey, &Header),
        fragment: Option<FragmentRange>,
    ) -> HopEdit {
        let entry = self.bundles.entry(key);
        let received = entry.is_some_and(|entry| entry.previous().is_some());
        let count = header.hop_count().map_or(0, |hops| hops.count);
        let behind = entry.and_then(|entry| entry.hops()).map_or(0, u64::from);
        HopEdit {
            previous_node: Some(self.endpoints.local().node_id().clone()),
            // RFC 9171 5.4 step 4: the age grows by the time since the bundle was received, in this run
            // of the node and in earlier ones.
            age_increase_ms: entry.map_or(0, |entry| entry.held_ms(now.monotonic)),
            // RFC 9171 4.4.3: it is zero at first, and counts how often a bundle was sent before, or a copy that ended here.
            hop_increment: match received || behind > 0 {
                true => behind.saturating_sub(count) + 1,
                false => 0,
            },
            unsupported: if received {
                UnsupportedBlocks::Discard
            } else {
                UnsupportedBlocks::Keep
            },
            fragment,
            payload_crc: adjacencies.payload_crc(session),
            permits: None,
            custodian: self.new_custodian(key, header, fragment.is_some()),
            age_dialect: adjacencies.age_dialect(session),
        }
    }

    /// An answer to nobody, or to a service that would answer again, is no answer.
    pub(crate) fn wants_answer(&self, entry: &Entry) -> bool {
        let flags = BundleFlags::from_bits(entry.flags());
        let source = self.endpoints.id(entry.source());
        !source.is_null()
            && entry.source() != entry.destination()
            && !self.endpoints.local().is_service(source)
            && !flags.contains(BundleFlags::ADMINISTRATIVE_RECORD)
    }

    /// The answer to a question, but for its payload.
    pub(crate) fn answer_to(
        &mut self,
        out: &mut Outbox,
        config: &Config,
        now: Now,
        (key, question): (BundleKey, &Header),
        crc_type: CrcType,
    ) -> BundleBuilder {
        let source = question.primary.destination.clone();
        let destination = question.primary.source.clone();
        let creation = self.next_creation(out, now, &source);
        let lifetime_ms = question.primary.lifetime_ms;
        let crc_type = match config.payload_checksum {
            PayloadChecksum::Crc32C => crc_type,
            PayloadChecksum::None => CrcType::None,
        };
        let priority = self.entry(key).map(Entry::priority).unwrap_or_default();
        BundleBuilder::new(source, destination, creation, lifetime_ms)
            .with_version(question.version())
            .with_priority(priority)
            .with_payload_crc_type(crc_type)
            .with_hop_limit(HOP_LIMIT)
    }

    /// Whether a bundle with these flags asks for a report of this kind, and this node makes it.
    pub(crate) fn reports_on(&self, config: &Config, flags: u64, kind: ReportKind) -> bool {
        let flags = BundleFlags::from_bits(flags);
        // RFC 9171 5.1: off by default. 4.2.3: never about administrative records.
        BundleFlags::from_bits(config.reports.generate).contains(kind.flag())
            && (flags.contains(kind.flag()) || planted(Mutant::ReportNotAskedFor))
            && !flags.contains(BundleFlags::ADMINISTRATIVE_RECORD)
    }

    /// The properties of a bundle that a report of this kind needs; `None` where none will be made.
    pub(crate) fn reported(
        &self,
        config: &Config,
        entry: &Entry,
        kind: ReportKind,
    ) -> Option<Subject> {
        // A bundle that goes round in a ring would be reported on at every turn.
        let is_told =
            entry.returns() > 0 && matches!(kind, ReportKind::Received | ReportKind::Forwarded);
        (!is_told && self.reports_on(config, entry.flags(), kind)).then(|| self.subject(entry))
    }

    pub(crate) fn subject(&self, entry: &Entry) -> Subject {
        Subject {
            id: self.bundle_id(entry),
            version: entry.version(),
            flags: entry.flags(),
            reads_aggregated_reports: entry.reads_aggregated_reports(),
            report_to: self.endpoints.id(entry.report_to()).clone(),
            lifetime_ms: entry.lifetime_ms(),
            expires: entry.expires(),
        }
    }
}
