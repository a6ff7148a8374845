"""The operator's side of a node under asyncio: each request is made by a thread, which its timeout bounds."""

import asyncio
import os
from collections.abc import Mapping

from dhow.admin import admin, objects
from dhow.bundle import BundleId


class Admin:
    """A node's operator; the calls are those of `dhow.Admin`."""

    def __init__(self, node: str | os.PathLike[str] | None = None, *, token: str = "", timeout: float = 30.0) -> None:
        self._inner = admin.Admin(node, token=token, timeout=timeout)

    async def node(self) -> objects.NodeStatus:
        """The node as a whole."""
        return await asyncio.to_thread(self._inner.node)

    async def links(self) -> list[objects.Link]:
        """Links: those of the node file, then those that were added."""
        return await asyncio.to_thread(self._inner.links)

    async def add_link(self, name: str, address: str | None, *, like: str, peer: str | None = None) -> None:
        """Adds a link until the node ends, with the settings of link `like`."""
        await asyncio.to_thread(self._inner.add_link, name, address, like=like, peer=peer)

    async def delete_link(self, name: str) -> None:
        """Deletes a link that was added and over which no route leads."""
        await asyncio.to_thread(self._inner.delete_link, name)

    async def link_up(self, name: str) -> objects.LinkDirection:
        """Lets a link go up."""
        return await asyncio.to_thread(self._inner.link_up, name)

    async def link_down(self, name: str) -> objects.LinkDirection:
        """Takes a link down: its sessions end in order, its bundles wait."""
        return await asyncio.to_thread(self._inner.link_down, name)

    async def sessions(self) -> list[objects.Session]:
        """Established sessions."""
        return await asyncio.to_thread(self._inner.sessions)

    async def routes(self) -> list[objects.Route]:
        """Routes, best first."""
        return await asyncio.to_thread(self._inner.routes)

    async def add_route(self, to: str, via: str, *, priority: int = 0) -> objects.Route:
        """Adds a route until the node restarts."""
        return await asyncio.to_thread(self._inner.add_route, to, via, priority=priority)

    async def delete_route(self, to: str, via: str) -> None:
        """Deletes a route."""
        await asyncio.to_thread(self._inner.delete_route, to, via)

    async def contacts(self) -> list[objects.Contact]:
        """Planned contacts."""
        return await asyncio.to_thread(self._inner.contacts)

    async def neighbours(self) -> list[objects.Neighbour]:
        """Neighbours: those that beacons told of, then the peers of other links."""
        return await asyncio.to_thread(self._inner.neighbours)

    async def registrations(self) -> list[objects.Registration]:
        """Endpoints that applications hold."""
        return await asyncio.to_thread(self._inner.registrations)

    async def destinations(self) -> list[objects.Destination]:
        """The stored bundles, by destination."""
        return await asyncio.to_thread(self._inner.destinations)

    async def bundles(self, limit: int = 100) -> list[objects.StoredBundle]:
        """Stored bundles, at most so many (1,000,000 at most)."""
        return await asyncio.to_thread(self._inner.bundles, limit)

    async def drop(self, bundle: BundleId | str) -> objects.BundleName:
        """Drops a stored bundle."""
        return await asyncio.to_thread(self._inner.drop, bundle)

    async def why(self, subject: BundleId | str) -> objects.Why:
        """Why a bundle, or what is for an endpoint, waits."""
        return await asyncio.to_thread(self._inner.why, subject)

    async def metrics(self) -> str:
        """Metrics as OpenMetrics text."""
        return await asyncio.to_thread(self._inner.metrics)

    async def request(self, method: str, path: str, body: Mapping[str, object] | None = None) -> object:
        """The JSON of an answer, for what this class has no method for."""
        return await asyncio.to_thread(self._inner.request, method, path, body)
