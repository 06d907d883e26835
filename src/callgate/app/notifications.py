"""What people are told of by webhook: which events, in which words, and how they are delivered. Calls never wait."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from callgate.config import Notify, Secret, ServerSection
from callgate.config.notify import webhook_key
from callgate.errors import CallgateError, Reason, UpstreamError, place
from callgate.transport.upstream.http import HttpClient

if TYPE_CHECKING:
    from callgate.approval import Request
    from callgate.store import Block
    from callgate.trust.model import Quarantined

log = logging.getLogger("callgate.webhook")

_WAITING_MAX: Final = 1_000
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 10.0
_ANSWER_BYTES: Final = 65_536
_HEADERS: Final = ((b"content-type", b"application/json"), (b"user-agent", b"callgate"))
_encode: Final = msgspec.json.Encoder().encode


class WebhookMessage(NamedTuple):
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
        self._client = HttpClient(ServerSection(url=url), _ANSWER_BYTES)
        self._waiting: deque[WebhookMessage] = deque()
        self._under_way: set[WebhookMessage] = set()
        self._news = asyncio.Event()
        self._tasks = [asyncio.create_task(self._work(), name="callgate-webhook") for _ in range(hands)]

    def send(self, message: dict[str, Any], ident: str | None = None) -> None:
        if len(self._waiting) >= _WAITING_MAX:
            self._waiting.popleft()
            log.error("alert not delivered", extra={"fields": {"error": "too many alerts wait"}})
        self._waiting.append(WebhookMessage(ident or secrets.token_urlsafe(18), _encode(message)))
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

    async def _deliver(self, letter: WebhookMessage, *, tries: int) -> None:
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

    async def _post(self, letter: WebhookMessage) -> None:
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


_HANDS: Final = 4
_REMEMBERED: Final = 1_000
# A server shows all its tools at once: one message has them all.
_GATHER_SECONDS: Final = 0.5
_NAMES: Final = 50
_NAME_CHARS: Final = 200


class Notifications:
    """One for each gateway process; its address follows the configuration."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._section = Notify()
        self._webhook: Webhook | None = None
        self._told: OrderedDict[str, None] = OrderedDict()
        self._tools: dict[str, dict[str, list[str]]] = {}
        self._work: set[asyncio.Task[None]] = set()

    def follow(self, section: Notify) -> None:
        """Take a configuration over. What waits for another address is sent there still."""
        if section == self._section:
            return
        old, self._section = self._webhook, section
        self._webhook = None
        if section.webhook is not None and section.secret is not None:
            self._webhook = Webhook(section.webhook, webhook_key(section.secret.reveal()), hands=_HANDS)
        if old is not None:
            self._later(old.close())

    async def close(self) -> None:
        for server in list(self._tools):
            self._send_tools(server)
        await asyncio.gather(*self._work, return_exceptions=True)
        if self._webhook is not None:
            await self._webhook.close()

    def approval_waiting(self, request: Request, page: str) -> None:
        """A call began to wait; one message a request, whichever process sends it."""
        if not self._wants("approval_waiting") or request.id in self._told:
            return
        self._told[request.id] = None
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        from callgate.approval.overview import asker

        message: dict[str, Any] = {
            "request": request.id,
            "user": request.user,
            "server": _short(request.server),
            "tool": _short(request.tool),
            "asked_by": _short(asker(request)),
            "page": page,
            "expires_at": _iso(request.expires_at),
        }
        if self._section.arguments:
            message["arguments"] = msgspec.json.decode(request.canonical)
        self._send("approval_waiting", message, request.id)

    def tools_changed(self, server: str, what: str, detail: dict[str, Any]) -> None:
        """Tools that nobody has reviewed as they are now."""
        if what not in ("new", "text") or not self._wants("tool_pending"):
            return
        if server not in self._tools:
            self._tools[server] = {"new": [], "text": []}
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._send_tools, server)
        self._tools[server][what].append(_short(str(detail.get("tool", ""))))

    def _send_tools(self, server: str) -> None:
        found = self._tools.pop(server, None)
        if found is not None:
            new, changed = found["new"], found["text"]
            count = len(new) + len(changed)
            self._send(
                "tool_pending",
                {"server": _short(server), "new": new[:_NAMES], "changed": changed[:_NAMES], "count": count},
            )

    def result_held(self, held: Quarantined) -> None:
        if self._wants("result_held"):
            message = {"handle": held.handle, "server": _short(held.server), "tool": _short(held.tool)}
            self._send("result_held", message, held.handle)

    def switch_turned(self, state: Block) -> None:
        """Every gateway on the store sees it; by its id whoever gets several knows them for one."""
        if self._wants("kill_switch"):
            message = {"on": state.on, "by": _short(state.by), "note": _short(state.note)}
            self._send("kill_switch", message, f"switch-{state.at}")

    def _wants(self, event: str) -> bool:
        return self._webhook is not None and event in self._section.events

    def _send(self, event: str, message: dict[str, Any], ident: str | None = None) -> None:
        if self._webhook is not None:
            self._webhook.send({"event": event, "at": _iso(round(self._clock() * 1000)), **message}, ident)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _short(text: str) -> str:
    """Names come from servers and clients: bounded, on one line, nothing that steers whoever shows them."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text[:_NAME_CHARS])
    return shown if len(text) <= _NAME_CHARS else f"{shown}…"


def _iso(at: int) -> str:
    from callgate.approval.action import to_iso

    return to_iso(at)
