"""Puts calls on record that are refused before the gate decides, because nobody knows who sent them.

Whoever is refused costs little and may come back as often as they like. So nothing waits for the store here, and the
refusals of one caller are counted together: the first is written at once, those that follow within a window as one
record with their number. Callers beyond those that are told apart are counted by server and reason alone.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from callgate.agents.apikeys import shown_id
from callgate.audit import Arguments, ArgumentsPolicy, AuditLog, CheckNote, DecisionRecord, Repeated
from callgate.errors import Refused, place
from callgate.jsonrpc import TOOLS_CALL, BadMessage, Batch, Message, tool_call
from callgate.pipeline.context import printable, proof_of
from callgate.pipeline.dispatcher import new_call_id
from callgate.transport.http.exchange import Exchange

log = logging.getLogger("callgate.agents")

WINDOW_SECONDS: Final = 60.0
# Callers told apart at a time; each leaves at most two records in a window.
CALLERS_MOST: Final = 256
_TOOLS_MOST: Final = 8
_TEXT_CHARS: Final = 256
_DETAIL_CHARS: Final = 512
# Of a longer message no arguments are kept: a stranger must not fill the log.
_MESSAGE_BYTES: Final = 16 * 1024
_HEADER_BYTES: Final = 4096
_KEYID: Final = re.compile(r';\s*keyid="([^"\\]*)"')
# Without what may be a secret in an address: a name and password before the host, a query behind the path.
_DIRECTORY: Final = re.compile(r'"(?P<scheme>[a-z]+:(?://)?)(?:[^"/?#\\]*@)?(?P<place>[^"?#\\]*)', re.IGNORECASE)
_OTHERS: Final = (("peer", "several"), ("proof", "several"))
_NOTHING_KEPT: Final = (Arguments("hashed"), None)

# Who was refused: their address and what they say of themselves, the reason, the server.
Key: TypeAlias = tuple[tuple[tuple[str, str], ...], str, str]


class _Group(msgspec.Struct):
    """The refusals of one caller in a window: those that are not on record yet are counted."""

    ends: float
    count: int = 0
    first: int = 0
    last: int = 0
    detail: str = ""
    tool: str = ""
    tools: tuple[str, ...] = ()


class RefusalRecorder:
    """One for each gateway process. Nothing here raises or waits: the caller is refused, whatever becomes of it."""

    def __init__(
        self,
        log: AuditLog,
        arguments: Callable[[], ArgumentsPolicy],
        gateway: str,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        window: float = WINDOW_SECONDS,
        most: int = CALLERS_MOST,
    ) -> None:
        self._log = log
        self._arguments = arguments
        self._gateway = gateway
        self._clock = clock
        self._monotonic = monotonic
        self._window = window
        self._most = most
        # In the order in which their windows end.
        self._groups: dict[Key, _Group] = {}
        self._timer: asyncio.TimerHandle | None = None

    def refused(self, exchange: Exchange, server: str, message: Message | Batch | None, refused: Refused) -> None:
        """Put the calls of a refused request on record; `message` is None where its body was not read."""
        try:
            caller = _caller(exchange)
            for call in (None,) if message is None else _calls(message):
                self._refused(exchange, caller, server, call, refused)
        except Exception as error:  # noqa: BLE001 - the caller gets the same answer, whatever breaks here
            log.error("refusal not recorded", extra={"fields": {"error": place(error)}})

    def _refused(
        self, exchange: Exchange, caller: dict[str, str], server: str, call: Message | None, refused: Refused
    ) -> None:
        at, tool = round(self._clock() * 1000), _tool(exchange, call)
        detail = refused.message[:_DETAIL_CHARS]
        key: Key = (tuple(caller.items()), refused.reason.value, server)
        group = self._groups.get(key)
        if group is None and len(self._groups) >= self._most:
            key = (_OTHERS, refused.reason.value, server)
            group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(self._monotonic() + self._window)
            self._set_timer()
            if self._log.refused(self._record(key, at, tool, detail, arguments=self._kept(server, tool, call))):
                return
        group.first = group.first if group.count else at
        group.count += 1
        group.last, group.tool, group.detail = at, tool, detail
        if tool and tool not in group.tools and len(group.tools) < _TOOLS_MOST:
            group.tools += (tool,)

    def end_windows(self, *, all_of_them: bool = False) -> None:
        """Write down what was counted in windows that are over. Who goes on is counted in a new one."""
        now, at = self._monotonic(), round(self._clock() * 1000)
        for key, group in [(key, one) for key, one in self._groups.items() if all_of_them or one.ends <= now]:
            del self._groups[key]
            if not group.count:
                continue
            repeated = Repeated(group.count, group.first, group.last, group.tools)
            if self._log.refused(self._record(key, at, group.tool, group.detail, repeated=repeated)):
                group = _Group(now)
            # What could not be written stays counted, and is tried again when the next window ends.
            group.ends = now + self._window
            self._groups[key] = group
        self._set_timer()

    def close(self) -> None:
        """Write down everything that was counted; the store is flushed after this."""
        self.end_windows(all_of_them=True)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        """One timer, for the window that ends first."""
        if self._timer is not None and not self._timer.cancelled():
            return
        first = next(iter(self._groups.values()), None)
        if first is not None:
            left = max(first.ends - self._monotonic(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(left, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.end_windows()

    def _kept(self, server: str, tool: str, call: Message | None) -> tuple[Arguments, str | None]:
        """What is stored of a call's arguments, as configured; nothing of what is long or no call."""
        if call is None or len(call.raw) > _MESSAGE_BYTES:
            return _NOTHING_KEPT
        try:
            wanted = tool_call(call)
        except BadMessage:
            return _NOTHING_KEPT
        return self._arguments().store(server, tool, wanted.arguments, wanted.canonical)

    def _record(
        self,
        key: Key,
        at: int,
        tool: str,
        detail: str,
        *,
        arguments: tuple[Arguments, str | None] = _NOTHING_KEPT,
        repeated: Repeated | None = None,
    ) -> DecisionRecord:
        caller, reason, server = key
        return DecisionRecord(
            call=new_call_id(at),
            at=at,
            gateway=self._gateway,
            server=server,
            transport="http",
            caller=dict(caller),
            tool=tool,
            arguments=arguments[0],
            args_hash=arguments[1],
            verdict="refuse",
            reason=reason,
            detail=detail,
            checks=(CheckNote("agents", "refuse", reason),),
            repeated=repeated,
        )


def _calls(message: Message | Batch) -> Sequence[Message]:
    every: Iterable[Message] = message.messages if isinstance(message, Batch) else (message,)
    return [one for one in every if one.method == TOOLS_CALL]


def _tool(exchange: Exchange, call: Message | None) -> str:
    """The tool that a message calls; where the body was not read, the one that its header names."""
    if call is None:
        name: object = exchange.fields.get(b"mcp-name", b"").decode("latin-1")
    else:
        name = call.params.get("name") if isinstance(call.params, dict) else None
    return name[:_TEXT_CHARS] if isinstance(name, str) else ""


def _caller(exchange: Exchange) -> dict[str, str]:
    """Who was refused, as far as that is known: what is their own word says so."""
    known = {"peer": exchange.peer or "unknown"}
    if exchange.identity.caller is not None:
        return proof_of(exchange.identity.caller) | known
    proof, claimed = _claims(exchange)
    said = {name: printable(text, _TEXT_CHARS) for name, text in claimed.items() if text}
    return known | {"proof": proof} | {f"{name} (claimed, not verified)": text for name, text in said.items()}


def _claims(exchange: Exchange) -> tuple[str, dict[str, str]]:
    """What a request shows for itself, and what it says by that. Never a secret."""
    fields = exchange.fields
    if b"signature-input" in fields or b"signature" in fields:
        key = _KEYID.search(_text(fields, b"signature-input"))
        directory = _DIRECTORY.search(_text(fields, b"signature-agent"))
        place = directory["scheme"] + directory["place"] if directory else ""
        return "signature", {"key": key[1] if key else "", "directory": place}
    if b"authorization" in fields:
        key_id = shown_id(_text(fields, b"authorization"))
        return ("API key", {"key": key_id}) if key_id else ("token", {})
    return "none", {}


def _text(fields: dict[bytes, bytes], name: bytes) -> str:
    return fields.get(name, b"")[:_HEADER_BYTES].decode("latin-1")
