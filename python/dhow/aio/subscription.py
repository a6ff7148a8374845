"""Deliveries at an endpoint, also after the node has been away."""

import time
from collections import OrderedDict
from types import TracebackType

from dhow import wire
from dhow.aio.delivery import Delivery
from dhow.bundle import BundleId
from dhow.connection import Connection
from dhow.errors import (
    STATUS_ACK, STATUS_SUCCESS, Denied, DhowError, Disconnected, ProtocolError, Refused, Silent, Unreachable, refused)
from dhow.settings import BACKOFF_MAX_S, BACKOFF_MIN_S, Settings
from dhow.world import World

# Identities of confirmed bundles that are remembered: a delivery whose confirmation was lost comes again, and is dropped.
REMEMBERED = 65_536

# Deliveries that a node lets be unconfirmed, at most.
WINDOW_MAX = 1024

# A healthy node greets within this time, also where a delivery is not waited for as long.
GREETING_MIN_S = 1.0

# The time that is waited at the end for the node to have read all confirmations.
FINISH_S = 5.0


class Subscription:
    """Deliveries, in order; an asynchronous iterator that ends when nothing has come for `timeout_s`, and a context manager.

    It outlives a restart of the node. Bundles that were confirmed are not given out again.
    """

    def __init__(self, world: World, settings: Settings, endpoint: str, timeout_s: float | None, window: int, *, abandon: bool) -> None:
        if not 1 <= window <= WINDOW_MAX:
            raise ValueError(f"a window has 1 to {WINDOW_MAX} deliveries, not {window}")
        self.endpoint = endpoint
        self._world = world
        self._settings = settings
        self._timeout_s = timeout_s
        self._window = window
        self._abandon = abandon
        self._connection: Connection | None = None
        self._newest: Delivery | None = None
        self._unanswered = 0
        self._has_answered = False
        self._confirmed: OrderedDict[BundleId, None] = OrderedDict()
        self._was_there = False
        self._backoff_s = BACKOFF_MIN_S

    @property
    def is_away(self) -> bool:
        """Whether the node is away at present."""
        return self._connection is None

    async def subscribe(self, within_s: float | None = None) -> None:
        """Subscribes, where it is not done; the node must be there and answer in time. Raises Unreachable, Silent or Refused."""
        if self._connection:
            return
        settings = self._settings
        greeting_s = settings.greeting_s if within_s is None else min(settings.greeting_s, max(GREETING_MIN_S, within_s))
        connection = await Connection.open(self._world, settings.address, greeting_s, settings.patience_s)
        try:
            message = wire.config(
                self.endpoint, subscribes=True, secret=settings.secret, abandon=self._abandon, window=self._window)
            await connection.configure(message, greeting_s)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._was_there = True
        self._backoff_s = BACKOFF_MIN_S

    async def next(self, timeout_s: float | None = None) -> Delivery | None:
        """The next delivery; None when nothing has come for so long (without it: as long as it takes).

        Raises Disconnected when the time is over and the node is away, Refused when it ends the subscription.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        if not self._was_there:
            await self.subscribe()
        while True:
            try:
                if self._connection is None:
                    if not await self._subscribe_again(end):
                        raise Disconnected("nothing came, and the node is away", "is it running? `dhow status` says")
                    continue
                return await self._next(self._connection, end)
            except (Disconnected, Silent):
                if self._connection is None:
                    raise
                self._lose()
            except (ProtocolError, Refused):
                self._lose()
                raise

    async def _next(self, connection: Connection, end: float | None) -> Delivery | None:
        if self._newest:
            await self._newest.skip()
        if self._unanswered >= self._window:
            raise DhowError(
                f"{self._unanswered} deliveries were neither confirmed nor declined, and the node gives no more",
                "take each in a block, `with delivery:`, or call its confirm()")
        while True:
            octets = await connection.message(end)
            if octets is None:
                return None
            # Messages that are no delivery may come without end.
            is_late = end is not None and time.monotonic() >= end
            match wire.message(octets):
                case wire.Adu() as head:
                    delivery = self._newest = Delivery(self._world, connection, head, self._answer)
                    self._unanswered += 1
                    await delivery.read_ahead()
                    if delivery.id not in self._confirmed:
                        return delivery
                    await delivery.skip()
                    await delivery.confirm()
                case wire.Keepalive():
                    await connection.write(wire.answer(STATUS_ACK))
                case wire.Response(status=status, message=text):
                    raise refused(status, text)
                case wire.Welcome():
                    raise ProtocolError("a subscriber was sent no delivery")
                case None:
                    pass
            if is_late:
                return None

    async def _subscribe_again(self, end: float | None) -> bool:
        left_s = None if end is None else end - time.monotonic()
        if left_s is not None and left_s <= 0:
            return False
        await self._world.sleep(self._backoff_s if left_s is None else min(self._backoff_s, left_s))
        backoff_s = min(2 * self._backoff_s, BACKOFF_MAX_S)
        try:
            await self.subscribe(left_s)
        except Denied:
            raise
        except (Disconnected, Silent, Unreachable):
            self._backoff_s = backoff_s
        return True

    async def _answer(self, delivery: Delivery, status: int) -> None:
        if status == STATUS_SUCCESS:
            self._confirmed[delivery.id] = None
            if len(self._confirmed) > REMEMBERED:
                self._confirmed.popitem(last=False)
        connection = self._connection
        if connection is None or delivery.connection is not connection:
            return  # of a connection that is lost: the bundle comes again, and is answered then
        try:
            await connection.write(wire.answer(status, delivery.delivery_id))
            self._unanswered -= 1
            self._has_answered = True
        except (Disconnected, Silent):
            self._lose()

    def _lose(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None
        self._newest = None
        self._unanswered = 0

    async def close(self) -> None:
        """Ends the subscription once the node has read all confirmations; deliveries that have none come again."""
        connection, self._connection = self._connection, None
        if connection and self._has_answered:
            await connection.finish(FINISH_S)
        elif connection:
            connection.close()

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Delivery:
        delivery = await self.next(self._timeout_s)
        if delivery is None:
            await self.close()
            raise StopAsyncIteration
        return delivery

    async def __aenter__(self) -> "Subscription":
        await self.subscribe()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
