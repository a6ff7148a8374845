//! Options of bundles that a command sends, the same for all such commands.

use std::time::Duration;

use clap::Args;
use dhow_bundle::{BundleFlags, EndpointId, Priority, Version, v6};
use dhow_client::SendHead;

use crate::arguments::parse_lifetime;
use crate::failure::Failure;
use crate::report_kind::ReportKind;

/// Options of bundles that a command sends.
#[derive(Args, Debug)]
pub struct BundleOptions {
    /// Source endpoint [default: a random service of the node]; reports go there
    #[arg(long, value_name = "ENDPOINT")]
    pub from: Option<EndpointId>,
    /// Lifetime of a bundle [default: the node's, `[api] default_lifetime`]
    #[arg(long, value_name = "DURATION", value_parser = parse_lifetime)]
    lifetime: Option<Duration>,
    /// Status reports asked for
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub report: Vec<ReportKind>,
    /// Version of the Bundle Protocol: 6 for programs of that version (DTN2, DTNME, IBR-DTN, ION)
    #[arg(long = "version", value_name = "6|7", default_value = "7", value_parser = parse_version)]
    bundle_version: Version,
    /// Ask for custody: the next custodian keeps the bundle until another has it (version 6)
    #[arg(long)]
    custody: bool,
    /// Order in which bundles leave nodes: bulk, normal, expedited or expedited:ORDINAL (0 to 254)
    #[arg(
        long,
        value_name = "PRIORITY",
        default_value = "normal",
        alias = "class"
    )]
    priority: Priority,
}

/// A version of the Bundle Protocol.
fn parse_version(text: &str) -> Result<Version, String> {
    (text.parse().ok())
        .and_then(Version::of_number)
        .ok_or_else(|| "a version is 6 or 7".into())
}

impl BundleOptions {
    /// Refuses options that contradict each other.
    pub fn check(&self) -> Result<(), Failure> {
        if self.custody && self.bundle_version == Version::V7 {
            return Err(Failure::usage("bundles of version 7 have no custody")
                .with_hint("send the bundle as one of version 6: --version 6"));
        }
        Ok(())
    }

    /// A bundle for an endpoint by these options, with `more` flags.
    pub fn head(&self, destination: &EndpointId, more: BundleFlags) -> SendHead {
        let flags = ReportKind::flags(&self.report) | more;
        let head = SendHead::to(destination.clone());
        let head = match self.lifetime {
            Some(lifetime) => head.with_lifetime(lifetime),
            None => head,
        };
        let head = head
            .with_version(self.bundle_version)
            .with_priority(self.priority)
            .with_flags(match self.bundle_version {
                Version::V6 => self.flags_v6(flags),
                Version::V7 => flags.bits(),
            });
        if self.from == Some(EndpointId::Null) {
            head.with_source(EndpointId::Null)
        } else {
            head
        }
    }

    /// The flags of a bundle of version 6, whose reports always have times.
    fn flags_v6(&self, flags: BundleFlags) -> u64 {
        let flags = flags.without(BundleFlags::STATUS_TIME_REQUESTED);
        v6::BundleFlags::from_bits(flags.bits())
            .with(v6::BundleFlags::CUSTODY_REQUESTED, self.custody)
            .bits()
    }
}
