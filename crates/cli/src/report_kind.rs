//! The kinds of status reports that a sender may ask for (RFC 9171 4.2.3, 6.1.1).

use std::time::Duration;

use clap::ValueEnum;
use dhow_bundle::BundleFlags;

/// An event of a bundle of which a status report tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportKind {
    /// A node received it
    Reception,
    /// A node forwarded it
    #[value(alias = "forwarding")]
    Forward,
    /// It was delivered
    Delivery,
    /// A node deleted it
    Deletion,
}

impl ReportKind {
    /// The bundle processing control flag that requests it (RFC 9171 4.2.3).
    pub const fn flag(self) -> BundleFlags {
        match self {
            Self::Reception => BundleFlags::REPORT_RECEPTION,
            Self::Forward => BundleFlags::REPORT_FORWARDING,
            Self::Delivery => BundleFlags::REPORT_DELIVERY,
            Self::Deletion => BundleFlags::REPORT_DELETION,
        }
    }

    /// The flags of several kinds together.
    pub fn flags(kinds: &[Self]) -> BundleFlags {
        kinds
            .iter()
            .fold(BundleFlags::NONE, |flags, kind| flags | kind.flag())
    }
}

/// The time without any report after which it is said that reports seem to be off.
pub const REPORTS_OFF_AFTER: Duration = Duration::from_secs(10);

/// Told when reports were asked for and none came.
pub const REPORTS_OFF: &str = "reports seem to be off on the way, or the bundle has not arrived; \
    a node makes only the reports that its configuration names: \
    [reports] generate = [\"reception\", \"forward\", \"delivery\", \"deletion\"]";
