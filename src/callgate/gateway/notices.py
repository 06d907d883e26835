"""What people are told of by webhook: which events, in which words. Nothing of a call waits for it."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec

from callgate.config import Notify
from callgate.config.notify import webhook_key
from callgate.gateway.webhook import Webhook

if TYPE_CHECKING:
    from callgate.approval import Request
    from callgate.store import Block
    from callgate.trust.model import Quarantined

_HANDS: Final = 4
_REMEMBERED: Final = 1_000
# A server shows all its tools at once: one message has them all.
_GATHER_SECONDS: Final = 0.5
_NAMES: Final = 50
_NAME_CHARS: Final = 200


class Notices:
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
    from callgate.approval.encoding import to_iso

    return to_iso(at)
