"""The operator's side of a node (docs/admin-api.md)."""

from dhow.admin.admin import Admin
from dhow.admin.objects import (
    Arriving, Bar, BundleName, Cause, Contact, Datagrams, Destination, Link, LinkDirection, Neighbour, NextHop, NodeStatus, Program,
    Registration, Route, Session, Store, StoredBundle, Why)

__all__ = [
    "Admin", "Arriving", "Bar", "BundleName", "Cause", "Contact", "Datagrams", "Destination", "Link", "LinkDirection", "Neighbour",
    "NextHop", "NodeStatus", "Program", "Registration", "Route", "Session", "Store", "StoredBundle", "Why",
]
