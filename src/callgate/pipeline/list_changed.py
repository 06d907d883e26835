"""Tells clients that the tools or prompts which they may see are others now: a reviewer decided, or a server changed
its list."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from callgate.gate import Context
from callgate.jsonrpc import Message, RequestId, peek
from callgate.protocol import CHANGED, PROMPTS_CHANGED

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

    def ring(self, server: str, session: str | None, changed: str = CHANGED) -> None:
        """Tell the session; without one, everybody who listens to the server without a session of their own."""
        for ear in list(self._ears):
            if ear.server == server and ear.session == session:
                ear.push(notification(ear.subscription, changed))


def notification(subscription: RequestId | None = None, changed: str = CHANGED) -> bytes:
    """That a list changed, as its era has it."""
    message: dict[str, object] = {"jsonrpc": "2.0", "method": changed}
    if subscription is not None:
        message["params"] = {"_meta": {SUBSCRIPTION_META: subscription}}
    return _encode(message)


_WANTED: Final = {"toolsListChanged": CHANGED, "promptsListChanged": PROMPTS_CHANGED}


def wanted_changes(message: Message) -> frozenset[str]:
    """Which of these a subscription of the modern era is for (2026-07-28, subscriptions)."""
    params = message.params if isinstance(message.params, dict) else {}
    wanted = params.get("notifications") if message.method == LISTEN else None
    found = wanted if isinstance(wanted, dict) else {}
    return frozenset(method for name, method in _WANTED.items() if found.get(name) is True)


def only(wanted: frozenset[str], push: Push) -> Push:
    """For a stream that takes some of these messages."""

    def filtered(message: bytes) -> None:
        seen = peek(message)
        if seen is not None and seen.method in wanted:
            push(message)

    return filtered
