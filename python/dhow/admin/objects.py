"""A node's answers to its operators (docs/admin-api.md), as values. The last word of a name is its unit."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Store:
    """The store of a node; `effective_quota_octets` is what the disk has room for, where that is less than the quota, and `index_octets` the memory of its index."""

    path: str | None
    durability: str
    bundles: int
    octets: int
    damaged: int
    quota_bundles: int
    quota_octets: int
    effective_quota_octets: int
    index_octets: int | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A router that is a program of its own."""

    to: tuple[str, ...]
    connected: bool
    sessions: int
    undecided: int
    unanswered: int
    questions: int
    decisions: int
    stale: int


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node as a whole; counts are since its start."""

    node_id: str
    node_ids: tuple[str, ...]
    version: str
    uptime_ms: int
    dtn_time_ms: int | None
    listen: tuple[str, ...]
    api: str | None
    api_tcp: tuple[str, ...]
    admin_tcp: tuple[str, ...]
    http: tuple[str, ...]
    certificate_left_s: int | None
    sessions: int
    store: Store
    counters: Mapping[str, int]
    connections: Mapping[str, int]
    datagrams: Mapping[str, int]
    routers: Mapping[str, Program] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Link:
    """A link; `state` is down, dialling, waiting, absent or up; `queued` bundles go by it next, told in lists of links alone."""

    name: str
    origin: str
    enabled: bool
    state: str
    retry_in_ms: int | None
    peer: str | None
    bundle_versions: tuple[int, ...]
    sessions: int
    failures: int
    last_error: str | None
    heard_ago_ms: int | None = None
    queued: int | None = None


@dataclass(frozen=True, slots=True)
class LinkDirection:
    """A link that was told to go up or down."""

    link: str
    direction: str


@dataclass(frozen=True, slots=True)
class Arriving:
    """A bundle of which the beginning has come."""

    id: str
    octets: int
    received_octets: int


@dataclass(frozen=True, slots=True)
class Datagrams:
    """Datagrams of a session over UDP."""

    sent: int
    sent_octets: int
    received: int
    received_octets: int
    faults: int


@dataclass(frozen=True, slots=True)
class Session:
    """An established session; `link` is None where the peer dialled."""

    session: int
    link: str | None
    peer: str
    protocol: str
    bundle_versions: tuple[int, ...]
    secured: bool
    age_ms: int
    heard_ago_ms: int | None
    bundles_sent: int
    octets_sent: int
    bundles_received: int
    octets_received: int
    in_flight: int
    limited: int = 0
    arriving: Arriving | None = None
    datagrams: Datagrams | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """A route; `router` decides where `via` is `*`."""

    to: str
    via: str
    priority: int
    implicit: bool = False
    usable: bool = False
    router: str | None = None


@dataclass(frozen=True, slots=True)
class Contact:
    """A planned contact in one direction; `state` is now, next, later or over. `from_` is its `from`."""

    from_: str
    to: str
    start_dtn_ms: int
    end_dtn_ms: int
    octets_per_s: int
    light_time_ms: int
    state: str


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A neighbour: found by beacons, or the peer of a link."""

    node_id: str
    origin: str
    address: str | None
    protocol: str | None
    format: str | None
    heard_ago_ms: int | None
    known_for_ms: int | None
    period_ms: int | None
    beacons: int | None
    link: str | None
    sessions: int
    verified: bool
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Registration:
    """An endpoint that applications hold; `failure_action` is defer or abandon."""

    endpoint: str
    subscribers: int
    failure_action: str
    waiting: int


@dataclass(frozen=True, slots=True)
class Destination:
    """The stored bundles for a destination."""

    destination: str
    bundles: int
    octets: int
    next_expiry_ms: int | None
    next_hop: str | None
    routed: bool
    local: bool


@dataclass(frozen=True, slots=True)
class StoredBundle:
    """A stored bundle; `id` is SOURCE/TIME/SEQUENCE, with @OFFSET+LENGTH for a fragment."""

    id: str
    version: int
    custodian: bool
    priority: str
    destination: str
    octets: int
    payload_octets: int
    expires_in_ms: int
    received_dtn_ms: int | None
    previous: str | None
    in_flight: bool
    state: str


@dataclass(frozen=True, slots=True)
class BundleName:
    """The identity of a bundle that was dropped."""

    id: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Why a bundle may not go to a next hop: came_from_there, too_large, other_version, has_left."""

    bar: str
    octets: int | None = None
    transfer_mru_octets: int | None = None


@dataclass(frozen=True, slots=True)
class NextHop:
    """A next hop of a bundle, and what keeps it from going there."""

    name: str
    sessions: int
    link: Link | None
    full_for_ms: int | None
    contact_ends_in_ms: int | None
    contact_begins_in_ms: int | None
    light_time_ms: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of waiting; which fields it has beside `cause` is in docs/admin-api.md."""

    cause: str
    next_hop: NextHop | None = None
    neighbours: int | None = None
    to: tuple[str, ...] = ()
    retry_in_ms: int | None = None
    by: str | None = None
    reason: str | None = None
    ago_ms: int | None = None
    octets: int | None = None
    total_octets: int | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """Why a bundle, or what is for an endpoint, waits."""

    destination: str
    bundle: StoredBundle | None
    waiting: int
    in_flight: int
    resting: int
    retry_in_ms: int | None
    fragments: int
    sent: int
    damaged: int
    router: str | None
    causes: tuple[Cause, ...]
