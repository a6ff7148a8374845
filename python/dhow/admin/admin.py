"""The operator's side of a node: HTTP and JSON (docs/admin-api.md)."""

import http.client
import json
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TypeVar
from urllib.parse import quote

from dhow.address import ADMIN_SUFFIX, Address, locate, parse
from dhow.admin import objects
from dhow.admin.reading import read
from dhow.blocking.world import connect_unix
from dhow.bundle import BundleId
from dhow.errors import DhowError, ProtocolError, Refused
from dhow.world import silent, unreachable

# The longest answer that is read: a listing of a million bundles fits.
ANSWER_OCTETS_MAX = 1 << 30
PIECE_OCTETS = 1 << 20

T = TypeVar("T")


class Connection(http.client.HTTPConnection):
    """HTTP over a node's socket, also a Unix one."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        super().__init__(address.host or "dhow", address.port or None, timeout=timeout_s)
        self._address = address
        self._timeout_s = timeout_s

    def connect(self) -> None:
        if self._address.path is None:
            super().connect()
            return
        self.sock = connect_unix(self._address.path, time.monotonic() + self._timeout_s)
        self.sock.settimeout(self._timeout_s)


class Admin:
    """A node's operator; every call is a request of its own, bounded by `timeout` seconds for each piece of the answer.

    `node`: the path of the API socket, beside which the operator's is found, or HOST:PORT of `[admin] tcp`, which needs its
    `token`; without it the node is found as the command line does. Raises Unreachable, Denied, Silent, Refused or ProtocolError.
    """

    def __init__(self, node: str | os.PathLike[str] | None = None, *, token: str = "", timeout: float = 30.0) -> None:
        address = parse(node) if node is not None and parse(node).path is None else locate(node)
        if address.path is None and not token:
            raise DhowError(f"cannot operate the node at {address}", "on TCP the operator's interface needs the token of [admin]")
        self._address = address if address.path is None else Address(path=address.path + ADMIN_SUFFIX)
        self._token = token
        self._timeout_s = timeout

    def node(self) -> objects.NodeStatus:
        """The node as a whole."""
        return read(objects.NodeStatus, self.request("GET", "/v1/node"))

    def links(self) -> list[objects.Link]:
        """Links: those of the node file, then those that were added."""
        return self._list(objects.Link, "/v1/links")

    def add_link(self, name: str, address: str | None, *, like: str, peer: str | None = None) -> None:
        """Adds a link until the node ends, with the settings of link `like`."""
        body = {"name": name, "address": address, "like": like, "peer": peer}
        self.request("POST", "/v1/links", {key: value for key, value in body.items() if value is not None})

    def delete_link(self, name: str) -> None:
        """Deletes a link that was added and over which no route leads."""
        self.request("DELETE", f"/v1/links/{quote(name, safe='')}")

    def link_up(self, name: str) -> objects.LinkDirection:
        """Lets a link go up."""
        return read(objects.LinkDirection, self.request("POST", f"/v1/links/{quote(name, safe='')}/up"))

    def link_down(self, name: str) -> objects.LinkDirection:
        """Takes a link down: its sessions end in order, its bundles wait."""
        return read(objects.LinkDirection, self.request("POST", f"/v1/links/{quote(name, safe='')}/down"))

    def sessions(self) -> list[objects.Session]:
        """Established sessions."""
        return self._list(objects.Session, "/v1/sessions")

    def routes(self) -> list[objects.Route]:
        """Routes, best first."""
        return self._list(objects.Route, "/v1/routes")

    def add_route(self, to: str, via: str, *, priority: int = 0) -> objects.Route:
        """Adds a route until the node restarts."""
        return read(objects.Route, self.request("POST", "/v1/routes", {"to": to, "via": via, "priority": priority}))

    def delete_route(self, to: str, via: str) -> None:
        """Deletes a route."""
        self.request("DELETE", "/v1/routes", {"to": to, "via": via})

    def contacts(self) -> list[objects.Contact]:
        """Planned contacts."""
        return self._list(objects.Contact, "/v1/contacts")

    def neighbours(self) -> list[objects.Neighbour]:
        """Neighbours: those that beacons told of, then the peers of other links."""
        return self._list(objects.Neighbour, "/v1/neighbours")

    def registrations(self) -> list[objects.Registration]:
        """Endpoints that applications hold."""
        return self._list(objects.Registration, "/v1/registrations")

    def destinations(self) -> list[objects.Destination]:
        """The stored bundles, by destination."""
        return self._list(objects.Destination, "/v1/destinations")

    def bundles(self, limit: int = 100) -> list[objects.StoredBundle]:
        """Stored bundles, at most so many (1,000,000 at most)."""
        return self._list(objects.StoredBundle, f"/v1/bundles?limit={limit}")

    def drop(self, bundle: BundleId | str) -> objects.BundleName:
        """Drops a stored bundle."""
        return read(objects.BundleName, self.request("DELETE", f"/v1/bundles/{quote(str(bundle), safe='')}"))

    def why(self, subject: BundleId | str) -> objects.Why:
        """Why a bundle, or what is for an endpoint, waits."""
        return read(objects.Why, self.request("GET", f"/v1/why/{quote(str(subject), safe='')}"))

    def metrics(self) -> str:
        """Metrics as OpenMetrics text."""
        return self._exchange("GET", "/metrics", None).decode(errors="replace")

    def request(self, method: str, path: str, body: Mapping[str, object] | None = None) -> object:
        """The JSON of an answer, for what this class has no method for."""
        octets = self._exchange(method, path, body)
        try:
            return json.loads(octets) if octets else None
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"the node's answer is not JSON: {error}") from error

    def _list(self, kind: type[T], path: str) -> list[T]:
        value = self.request("GET", path)
        if not isinstance(value, list):
            raise ProtocolError(f"the node's answer is not a list: {value!r:.80}")
        return [read(kind, item) for item in value]

    def _exchange(self, method: str, path: str, body: Mapping[str, object] | None) -> bytes:
        connection = Connection(self._address, self._timeout_s)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        octets = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            octets = json.dumps(body).encode()
        try:
            connection.request(method, path, octets, headers)
            response = connection.getresponse()
            answer = bytearray()
            while piece := response.read(PIECE_OCTETS):
                answer += piece
                if len(answer) > ANSWER_OCTETS_MAX:
                    raise ProtocolError(f"the node's answer is longer than {ANSWER_OCTETS_MAX} octets")
        except TimeoutError:
            raise silent(self._timeout_s) from None
        except OSError as error:
            raise unreachable(self._address, error) from error
        except http.client.HTTPException as error:
            raise ProtocolError(f"the node's answer is not HTTP: {error!r}") from error
        finally:
            connection.close()
        if response.status >= 300:
            raise refusal(response.status, bytes(answer))
        return bytes(answer)

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


def refusal(status: int, answer: bytes) -> Refused:
    """The refusal that a node says: `{"error": …, "hint": …}`."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        value = None
    told = value if isinstance(value, dict) else {}
    error, hint = told.get("error"), told.get("hint")
    message = error if isinstance(error, str) else f"the node refused: HTTP status {status}"
    return Refused(message, hint if isinstance(hint, str) else None, status)
