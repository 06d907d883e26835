"""Posts what people should know to an address of the operator's. What cannot be delivered is logged; nothing waits.

With a key, messages are signed as Standard Webhooks has it: HMAC-SHA256 over `ID.TIMESTAMP.BODY`, in the headers
`webhook-id`, `webhook-timestamp` and `webhook-signature`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from callgate.config import Secret, Server
from callgate.errors import CallgateError, Reason, UpstreamError, place
from callgate.gateway.http_client import HttpClient

log = logging.getLogger("callgate.webhook")

_WAITING_MAX: Final = 1_000
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 10.0
_ANSWER_BYTES: Final = 65_536
_HEADERS: Final = ((b"content-type", b"application/json"), (b"user-agent", b"callgate"))
_encode: Final = msgspec.json.Encoder().encode


class Letter(NamedTuple):
    """A message; its id stays the same however often it is tried, so that whoever gets it twice can tell."""

    id: str
    body: bytes


class Webhook:
    """One address; `send` never blocks, the oldest that wait are dropped when there are too many.

    With several `hands` a message that is tried again and again does not keep the next one from being sent.
    """

    def __init__(
        self, url: Secret, key: bytes | None = None, *, hands: int = 1, clock: Callable[[], float] = time.time
    ) -> None:
        self.url = url
        self.key = key
        self._clock = clock
        self._client = HttpClient(Server(url=url), _ANSWER_BYTES)
        self._waiting: deque[Letter] = deque()
        self._under_way: set[Letter] = set()
        self._news = asyncio.Event()
        self._tasks = [asyncio.create_task(self._work(), name="callgate-webhook") for _ in range(hands)]

    def send(self, message: dict[str, Any], ident: str | None = None) -> None:
        if len(self._waiting) >= _WAITING_MAX:
            self._waiting.popleft()
            log.error("alert not delivered", extra={"fields": {"error": "too many alerts wait"}})
        self._waiting.append(Letter(ident or secrets.token_urlsafe(18), _encode(message)))
        self._news.set()

    async def close(self) -> None:
        """Deliver what waits, once each, and let go."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        left = deque([*self._under_way, *self._waiting])
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while left:
                    await self._deliver(left.popleft(), tries=1)
        except TimeoutError:
            log.warning("alerts not delivered", extra={"fields": {"alerts": len(left)}})
        self._client.close()

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            if not self._waiting:
                self._news.clear()
                continue
            letter = self._waiting.popleft()
            self._under_way.add(letter)
            await self._deliver(letter, tries=_TRIES)
            self._under_way.discard(letter)

    async def _deliver(self, letter: Letter, *, tries: int) -> None:
        why = ""
        for number in range(tries):
            if number:
                # 1, 2, 4 and 8 seconds, and a little, so that several gateways do not come at once.
                await asyncio.sleep(_PAUSE_SECONDS * 2 ** (number - 1) * (1 + secrets.randbelow(250) / 1000))
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self._post(letter)
            except TimeoutError:
                why = "no answer in time"
            except CallgateError as error:
                why = str(error)
            except Exception as error:  # noqa: BLE001 - an alert that cannot be sent must not keep the next from it
                why = place(error)
            else:
                return
        log.error("alert not delivered", extra={"fields": {"error": why}})

    async def _post(self, letter: Letter) -> None:
        signed = () if self.key is None else sign(self.key, letter.id, int(self._clock()), letter.body)
        # Where it sends us on to is not followed: only the operator says who is told.
        answer = await self._client.open(b"POST", letter.body, (*_HEADERS, *signed))
        try:
            if answer.status >= 300:
                raise UpstreamError(Reason.UPSTREAM_GARBAGE, f"the webhook answered with HTTP status {answer.status}")
        finally:
            answer.close()


def sign(key: bytes, ident: str, at: int, body: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that prove who sent a message, and when (Standard Webhooks, signature scheme v1)."""
    stamp = str(at).encode()
    mac = hmac.new(key, b".".join((ident.encode(), stamp, body)), hashlib.sha256).digest()
    return (
        (b"webhook-id", ident.encode()),
        (b"webhook-timestamp", stamp),
        (b"webhook-signature", b"v1," + base64.b64encode(mac)),
    )
