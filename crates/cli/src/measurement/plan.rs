//! The bundles that a measurement sends.

use std::time::Duration;

use dhow_bundle::{EndpointId, NodeId};
use dhow_client::Registration;
use dhow_node::perf::wire::PROBE_OCTETS;

/// Service number of the perf service on `ipn:` nodes, unless their configuration says otherwise.
pub const SERVICE: u32 = 5201;

/// Bundles on their way at a time, at most: the service tells of 4,096 at a time, and nodes between must
/// hold them all while a link is down.
const OUTSTANDING_MAX: u64 = 65_536;

/// Octets of the smallest payload.
pub const SIZE_MIN: u64 = 52;
const _: () = assert!(PROBE_OCTETS == 52, "the smallest payload is a probe's head");

/// A measurement to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The perf service.
    pub service: EndpointId,
    /// The endpoint of the node here to which summaries come.
    pub registration: Registration,
    /// Octets of each payload.
    pub size: u64,
    /// The end of the measurement.
    pub limit: Limit,
    /// Sending connections, 1 to 64.
    pub streams: u16,
    /// The rate of sending; without one, as fast as it goes.
    pub rate: Option<Rate>,
    /// Octets of payload that may be on their way.
    pub window_octets: u64,
    /// Time between two summaries.
    pub interval: Duration,
    /// Lifetime of the bundles.
    pub lifetime: Duration,
    /// The time for which the node here may be silent.
    pub timeout: Duration,
}

/// The end of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After so many bundles.
    Count(u64),
    /// After this time.
    Time(Duration),
}

/// A rate at which bundles are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Bundles a second.
    Bundles(u64),
    /// Bits of payload a second.
    Bits(u64),
}

impl Rate {
    /// Time from one bundle of `size` octets to the next.
    pub fn gap(self, size: u64) -> Duration {
        let (one, second) = match self {
            Self::Bundles(each) => (1, each),
            Self::Bits(each) => (size.saturating_mul(8), each),
        };
        let nanos = u128::from(one) * 1_000_000_000 / u128::from(second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl std::str::FromStr for Rate {
    type Err = String;

    /// `500` or `500/s` for bundles, `10Mbit`, `2.5Gbit` or `64kbit` for bits of payload, all per second.
    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            format!(
                "'{text}' is not a rate: bundles a second as in 500, or bits a second as in 64kbit, 10Mbit, 2.5Gbit"
            )
        };
        let units = [
            ("Gbit", 1_000_000_000),
            ("Mbit", 1_000_000),
            ("kbit", 1_000),
            ("bit", 1),
        ];
        let bare = text.strip_suffix("/s").unwrap_or(text);
        for (unit, factor) in units {
            if let Some(number) = bare.strip_suffix(unit) {
                return decimal(number.trim(), factor)
                    .filter(|bits| *bits > 0)
                    .map(Self::Bits)
                    .ok_or_else(fault);
            }
        }
        match bare.parse() {
            Ok(0) | Err(_) => Err(fault()),
            Ok(each) => Ok(Self::Bundles(each)),
        }
    }
}

/// A decimal number times `factor`, rounded down.
fn decimal(text: &str, factor: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    if part.is_empty() {
        return (!text.ends_with('.')).then_some(whole);
    }
    let digits = u32::try_from(part.len())
        .ok()
        .filter(|digits| *digits <= 9)?;
    let is_number = part.bytes().all(|digit| digit.is_ascii_digit());
    let part = part.parse::<u64>().ok().filter(|_| is_number)?;
    whole.checked_add(part.checked_mul(factor)? / 10_u64.checked_pow(digits)?)
}

impl Plan {
    /// Bundles that may be on their way.
    pub fn outstanding_max(&self) -> u64 {
        let least = u64::from(self.streams).saturating_mul(2);
        (self.window_octets / self.size.max(1)).clamp(least, OUTSTANDING_MAX)
    }
}

/// The perf service that somebody means by an endpoint: of a node by its node ID, else the endpoint itself.
pub fn service(named: &EndpointId) -> EndpointId {
    let Ok(node) = NodeId::new(named.clone()) else {
        return named.clone();
    };
    let name = match named {
        EndpointId::Ipn { .. } => SERVICE.to_string(),
        _ => "perf".to_owned(),
    };
    node.service(&name).unwrap_or_else(|_| named.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_measured_at_its_perf_service() {
        for (named, meant) in [
            ("ipn:4.0", "ipn:4.5201"),
            ("ipn:4.9", "ipn:4.9"),
            ("dtn://delta/", "dtn://delta/perf"),
            ("dtn://delta/speed", "dtn://delta/speed"),
        ] {
            assert_eq!(service(&named.parse().unwrap()), meant.parse().unwrap());
        }
    }

    #[test]
    fn rates_count_bundles_or_bits() {
        for (text, rate) in [
            ("500", Ok(Rate::Bundles(500))),
            ("500/s", Ok(Rate::Bundles(500))),
            ("10Mbit", Ok(Rate::Bits(10_000_000))),
            ("2.5Gbit/s", Ok(Rate::Bits(2_500_000_000))),
            ("64kbit", Ok(Rate::Bits(64_000))),
            ("0", Err(())),
            ("0Mbit", Err(())),
            ("1.Mbit", Err(())),
            ("-1", Err(())),
            ("10MB", Err(())),
            ("99999999999999999999Gbit", Err(())),
        ] {
            assert_eq!(text.parse::<Rate>().map_err(|_| ()), rate, "{text}");
        }
        assert_eq!(Rate::Bundles(4).gap(1_000), Duration::from_millis(250));
        assert_eq!(Rate::Bits(8_000_000).gap(1_000), Duration::from_millis(1));
    }
}
