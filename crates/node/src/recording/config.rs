//! A node's configuration, as an item.

use alloc::vec::Vec;

use dhow_bundle::cbor::Reader;

use super::item::{Item, ItemError, choice, structure};
use crate::config::{
    Acknowledge, Acknowledgments, AgeDialect, BibeDialect, BibePolicy, BundleVersions, Config,
    CustodyPolicy, DialTime, DiscoverConfig, DiscoverId, DropPolicy, Enabled, ExternalConfig,
    ExternalPolicy, ExternalRouting, Framing, LinkConfig, LinkId, ListenerConfig, ListenerId,
    OnSent, PayloadChecksum, Protocol, ReadingPolicy, Reports, Route, RouterKind, Routing,
    SendOrder, SessionPolicy, StcpPolicy, Tls, UdpPolicy,
};
use crate::contacts::{ContactTable, PlannedContact};
use crate::driver::Telling;

macro_rules! position {
    ($($type:ident),*) => {
        $(impl Item for $type {
            fn write(&self, out: &mut Vec<u8>) {
                self.0.write(out);
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
                Ok(Self(u32::read(reader)?))
            }
        })*
    };
}

position!(LinkId, ListenerId);

choice!(Enabled { 0 => Yes {}, 1 => No {} });
choice!(Tls { 0 => Required {}, 1 => Preferred {}, 2 => Never {} });
choice!(Acknowledge { 0 => Here {}, 1 => NextHop {} });
choice!(PayloadChecksum { 0 => Crc32C {}, 1 => None {} });
choice!(SendOrder { 0 => Arrival {}, 1 => Expiry {} });
choice!(OnSent { 0 => Forget {}, 1 => Keep {} });
structure!(UdpPolicy {
    mtu_octets,
    octets_per_s,
    on_sent,
});
choice!(Framing { 0 => Stcp {}, 1 => StcpDraft {}, 2 => Mtcp {} });
structure!(StcpPolicy { framing, on_sent });
choice!(BibeDialect { 0 => Draft {}, 1 => Ion {}, 2 => Dtnme {}, 3 => Ud3tn {} });
structure!(BibePolicy {
    dialect,
    custody,
    latency_ms,
    delay_ms,
});
choice!(Protocol {
    0 => Tcpcl4 {},
    1 => Tcpcl3 {},
    2 => Auto {},
    3 => Udp { 0: policy },
    4 => Stcp { 0: policy },
    5 => Bibe { 0: policy },
    9 => Program {},
});
choice!(ReadingPolicy { 0 => Strict {}, 1 => Lenient {} });
choice!(BundleVersions { 0 => Both {}, 1 => Six {}, 2 => Seven {} });
choice!(AgeDialect { 0 => Type20 {}, 1 => Type10 {} });
choice!(Telling { 0 => Everything {}, 1 => Exceptions {} });

structure!(SessionPolicy {
    keepalive_s,
    segment_mru,
    transfer_mru,
    segment_octets,
    idle_timeout_s,
    answer_timeout_s,
    transfer_timeout_s,
    tls,
    require_node_id,
    peer,
    reading,
    fragment_octets,
    window_octets,
    window_bundles,
    cut_through,
    resume,
    strip_checksum,
    acknowledge,
    order,
    accept_relayed,
    relay,
    accept_sources,
    ; bundle_versions, age_dialect
});

choice!(DialTime { 0 => Always {}, 1 => Contacts {} });

structure!(LinkConfig {
    name,
    policy,
    enabled,
    sessions,
    backoff_min_ms,
    backoff_max_ms,
    ; protocol, dial
});

structure!(ListenerConfig { policy; protocol });
structure!(Route { to, via, priority });
choice!(RouterKind { 0 => Static {}, 1 => Flood {}, 2 => SprayAndWait {}, 3 => Prophet {}, 4 => Epidemic {}, 5 => MaxProp {} });
choice!(Acknowledgments { 0 => None {}, 1 => Verified {}, 2 => Anyone {} });
choice!(DropPolicy {
    0 => None {}, 1 => FirstIn {}, 2 => MostCopied {}, 3 => NearestExpiry {}, 4 => Largest {}, 5 => Last {}
});
structure!(Routing { to, router; copies, acknowledgments, drop });
structure!(PlannedContact {
    from,
    to,
    start,
    end,
    octets_per_s,
    light_time_ms,
});

impl Item for ContactTable {
    fn write(&self, out: &mut Vec<u8>) {
        self.iter().collect::<Vec<_>>().write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        let mut table = Self::default();
        for contact in Vec::read(reader)? {
            table.insert(contact)?;
        }
        Ok(table)
    }
}

structure!(ExternalPolicy {
    questions,
    answer_ms,
    fallback_ms,
});
structure!(ExternalRouting { to, program });
structure!(ExternalConfig { policy, routing });

position!(DiscoverId);

structure!(DiscoverConfig {
    link,
    accept,
    announce,
    listen,
    dtn2,
    period_ms,
    destinations,
    neighbours,
    new_per_second,
});

structure!(CustodyPolicy {
    accept,
    aggregate,
    delay_ms,
    retry_ms,
});

structure!(Reports {
    generate,
    per_second,
    collect_ms,
    collect_most,
});

structure!(Config {
    node_ids,
    links,
    listeners,
    routes,
    quota_octets,
    quota_bundles,
    memory_octets,
    store_queue_octets,
    reports,
    echo_service,
    perf_service,
    answers_per_second,
    perf_sources,
    payload_checksum,
    default_lifetime_ms,
    removed_bound,
    seed,
    ; routing, contacts, custody, external, discover
});
