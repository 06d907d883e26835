"""Tells clients that the tools which they may see are others now: a reviewer decided, or a server changed its list."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from callgate.gate import Context
from callgate.jsonrpc import Message, RequestId
from callgate.protocol import CHANGED

SUBSCRIPTION_META: Final = "io.modelcontextprotocol/subscriptionId"
LISTEN: Final = "subscriptions/listen"
_encode: Final = msgspec.json.Encoder().encode

Push: TypeAlias = Callable[[bytes], None]


class ListChangedListener:
    """One stream to one client; `subscription` is the request that the modern era names in every message on it."""

    __slots__ = ("push", "server", "session", "subscription")

    def __init__(self, context: Context, push: Push, subscription: RequestId | None) -> None:
        self.server = context.server
        self.session = context.session
        self.push = push
        self.subscription = subscription


class ListChangedNotifier:
    """One for each gateway process."""

    def __init__(self) -> None:
        self._ears: set[ListChangedListener] = set()

    @contextlib.contextmanager
    def heard_by(self, context: Context, push: Push, subscription: RequestId | None = None) -> Iterator[None]:
        """Around a stream that can take such a message."""
        ear = ListChangedListener(context, push, subscription)
        self._ears.add(ear)
        try:
            yield
        finally:
            self._ears.discard(ear)

    def ring(self, server: str, session: str | None) -> None:
        """Tell the session; without one, everybody who listens to the server without a session of their own."""
        for ear in list(self._ears):
            if ear.server == server and ear.session == session:
                ear.push(changed(ear.subscription))


def changed(subscription: RequestId | None = None) -> bytes:
    """The notification, as its era has it."""
    message: dict[str, object] = {"jsonrpc": "2.0", "method": CHANGED}
    if subscription is not None:
        message["params"] = {"_meta": {SUBSCRIPTION_META: subscription}}
    return _encode(message)


def wants_changes(message: Message) -> bool:
    """Whether a subscription of the modern era is for this too (2026-07-28, subscriptions)."""
    params = message.params if isinstance(message.params, dict) else {}
    wanted = params.get("notifications")
    return message.method == LISTEN and isinstance(wanted, dict) and wanted.get("toolsListChanged") is True
