"""Posts changes of tools to an address of the operator's. What cannot be delivered is logged; nothing waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final

import msgspec

from callgate.config import Secret, Server
from callgate.errors import CallgateError, Reason, UpstreamError, place
from callgate.gateway.http_client import HttpClient

log = logging.getLogger("callgate.pinning")

_WAITING_MAX: Final = 1_000
_TRIES: Final = 3
_PAUSE_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 10.0
_ANSWER_BYTES: Final = 65_536
_HEADERS: Final = ((b"content-type", b"application/json"), (b"user-agent", b"callgate"))
_encode: Final = msgspec.json.Encoder().encode


class Webhook:
    """One address; `send` never blocks, the oldest that wait are dropped when there are too many."""

    def __init__(self, url: Secret) -> None:
        self.url = url
        self._client = HttpClient(Server(url=url), _ANSWER_BYTES)
        self._waiting: deque[bytes] = deque(maxlen=_WAITING_MAX)
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._work(), name="callgate-webhook")

    def send(self, message: dict[str, Any]) -> None:
        if len(self._waiting) == _WAITING_MAX:
            log.error("alert not delivered", extra={"fields": {"error": "too many alerts wait"}})
        self._waiting.append(_encode(message))
        self._news.set()

    async def close(self) -> None:
        """Deliver what waits, once each, and let go."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._waiting:
                    await self._deliver(self._waiting.popleft(), tries=1)
        except TimeoutError:
            log.warning("alerts not delivered", extra={"fields": {"alerts": len(self._waiting)}})
        self._client.close()

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                first = self._waiting[0]
                await self._deliver(first, tries=_TRIES)
                # Where too many came meanwhile, it was dropped already.
                if self._waiting and self._waiting[0] is first:
                    self._waiting.popleft()

    async def _deliver(self, body: bytes, *, tries: int) -> None:
        why = ""
        for number in range(tries):
            if number:
                await asyncio.sleep(_PAUSE_SECONDS * number)
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self._post(body)
            except TimeoutError:
                why = "no answer in time"
            except CallgateError as error:
                why = str(error)
            except Exception as error:  # noqa: BLE001 - an alert that cannot be sent must not keep the next from it
                why = place(error)
            else:
                return
        log.error("alert not delivered", extra={"fields": {"error": why}})

    async def _post(self, body: bytes) -> None:
        answer = await self._client.open(b"POST", body, _HEADERS)
        try:
            if answer.status >= 300:
                raise UpstreamError(Reason.UPSTREAM_GARBAGE, f"the webhook answered with HTTP status {answer.status}")
        finally:
            answer.close()
