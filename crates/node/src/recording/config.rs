//! A node's configuration, as an item.

use alloc::vec::Vec;

use dhow_bundle::cbor::Reader;

use super::item::{Item, ItemError, choice, structure};
use crate::changes::{ChangedLink, ChangedListener, Changes, LiveSettings};
use crate::config::{
    Acknowledge, Acknowledgments, AgeDialect, Aggregation, BibeDialect, BibePolicy, BundleVersions,
    Config, CustodyPolicy, DialTime, DiscoverConfig, DiscoverId, DropPolicy, Enabled,
    ExternalConfig, ExternalPolicy, ExternalRouting, FirstRead, Framing, Limits, LinkConfig,
    LinkId, ListenerConfig, ListenerId, LtpAuthentication, LtpPolicy, OnSent, PayloadChecksum,
    Protocol, ReadingPolicy, RedPart, Reports, Route, RouterKind, Routing, SendOrder,
    SessionPolicy, SourceLimits, StcpPolicy, Tls, UdpPolicy,
};
use crate::contacts::{ContactTable, PlannedContact};
use crate::driver::Telling;
use crate::view::LinkOrigin;

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
choice!(FirstRead { 0 => Whole {}, 1 => HeaderBlocks {} });
choice!(PayloadChecksum { 0 => Crc32C {}, 1 => None {} });
choice!(SendOrder { 0 => Arrival {}, 1 => Expiry {} });
choice!(OnSent { 0 => Forget {}, 1 => Keep {} });
structure!(UdpPolicy {
    mtu_octets,
    octets_per_s,
    on_sent,
});
choice!(RedPart { 0 => All {}, 1 => None {}, 2 => Octets { 0: octets } });
choice!(Aggregation { 0 => Shared {}, 1 => Alone {} });
choice!(LtpAuthentication { 0 => None {}, 1 => Key {}, 2 => Signature { 0: octets } });
structure!(LtpPolicy {
    engine,
    remote_engine,
    red,
    mtu_octets,
    octets_per_s,
    light_time_ms,
    block_octets,
    blocks,
    on_sent,
    authentication,
    aggregation,
});
choice!(Framing { 0 => Stcp {}, 1 => StcpDraft {}, 2 => Mtcp {}, 3 => Encapsulation {} });
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
    6 => Ltp { 0: policy },
    9 => Program {},
});
choice!(ReadingPolicy { 0 => Strict {}, 1 => Lenient {} });
choice!(BundleVersions { 0 => Both {}, 1 => Six {}, 2 => Seven {} });
choice!(AgeDialect { 0 => Type20 {}, 1 => Type10 {} });
choice!(Telling { 0 => Everything {}, 1 => Exceptions {}, 2 => Steps {} });

structure!(Limits {
    octets_per_s,
    bundles_per_s,
    held_octets,
    held_bundles,
});
structure!(SourceLimits { octets, bundles });

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
    ; bundle_versions, age_dialect, highest_priority, limits
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
    0 => None {}, 1 => FirstIn {}, 2 => MostCopied {}, 3 => NearestExpiry {}, 4 => Largest {}, 5 => Last {}, 6 => FirstOfAll {}, 7 => LastOfAll {}
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

choice!(LinkOrigin { 0 => Configured {}, 1 => Added {}, 2 => Found {} });
structure!(ChangedLink { origin, config });
structure!(ChangedListener { id, config });
structure!(LiveSettings {
    reports,
    payload_checksum,
    default_lifetime_ms,
    highest_priority,
});
structure!(Changes {
    links_deleted,
    links,
    listeners_closed,
    listeners,
    routes_deleted,
    routes,
    contacts_deleted,
    contacts,
    settings,
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
    ; routing, contacts, custody, external, discover, highest_priority, source_limits, first_read
});
