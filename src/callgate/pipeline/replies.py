"""Changing what a server answers: only the replies that need it, and in those only the bytes that need it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from callgate.errors import MessageError, Reason, UpstreamError
from callgate.jsonrpc import RequestId, elements, error_reply, member_span, peek, put_member
from callgate.jsonrpc.reading import result_of
from callgate.pipeline.dispatcher import Transform

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
AskServer: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[bytes]]

_TOOLS_MAX: Final = 10_000
_PAGES_MAX: Final = 100
_LIST_BYTES: Final = 32 * 1024 * 1024


class ToolListReply(msgspec.Struct, frozen=True):
    """A reply to `tools/list`, read once, of which encoding gives the very bytes that came.

    So no key in it comes twice, at whatever depth; and all changes to it are written at once, when they are all made.
    """

    value: dict[str, Any]

    @classmethod
    def read(cls, raw: bytes) -> ToolListReply | None:
        """None where it is no such reply, or is written in another way: then its bytes have to be looked at."""
        try:
            value = _decode(raw)
            if _encode(value) != raw:
                return None
        except (msgspec.MsgspecError, UnicodeError, OverflowError, RecursionError):
            return None
        result = value.get("result") if isinstance(value, dict) else None
        return cls(value) if isinstance(result, dict) and isinstance(result.get("tools"), list) else None

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = self.value["result"]
        return found

    def with_result(self, **members: Any) -> ToolListReply:
        """The same with these members in its result: each in its place, or at the end."""
        return ToolListReply({**self.value, "result": {**self.result, **members}})

    def without_others(self, known: Collection[str]) -> ToolListReply:
        """The same without members of its result that are not known; itself where there are none."""
        kept = {name: value for name, value in self.result.items() if name == "tools" or name in known}
        return self if len(kept) == len(self.result) else ToolListReply({**self.value, "result": kept})

    def raw(self) -> bytes:
        return _encode(self.value)


class TransformById:
    """What to do with each reply to one message of a client, by the id it answers, and with everything else."""

    def __init__(self, by_id: Mapping[RequestId, Transform], otherwise: Transform = lambda raw: raw) -> None:
        self._by_id = by_id
        self._otherwise = otherwise

    def __call__(self, raw: bytes) -> bytes:
        if raw[:1] == b"{":
            return self._one(raw)
        try:
            several = elements(raw)
        except MessageError:
            # We cannot take it apart; another reader may.
            return self._otherwise(raw)
        if several is None:
            return self._one(raw)
        amended = [self._one(part) for part in several]
        return raw if amended == several else b"[" + b",".join(amended) + b"]"

    def _one(self, raw: bytes) -> bytes:
        seen = peek(raw) if self._by_id else None
        if seen is None or not seen.is_reply or seen.outcome == "error" or seen.id is None:
            return self._otherwise(raw)
        amend = self._by_id.get(seen.id)
        if amend is None:
            return self._otherwise(raw)
        try:
            return amend(raw)
        except MessageError as error:
            # A key twice: what we cannot change as it has to be, the client does not get. Not the error's own sentence:
            # it may quote the server, and ours reach the model.
            text = f"the server's answer can be read in more than one way: {error.reason.meaning}"
            return error_reply(seen.id, UpstreamError(Reason.UPSTREAM_GARBAGE, text))


def add_list_changed(reply: bytes) -> bytes:
    """`listChanged` of tools and prompts in a greeting: where they are, a reviewer's decision changes the list."""
    for name in ("tools", "prompts"):
        span = member_span(reply, ("result", "capabilities", name))
        if span is not None and is_object(reply[span[0] : span[1]]):
            changed = put_member(reply[span[0] : span[1]], "listChanged", b"true")
            reply = reply[: span[0]] + changed + reply[span[1] :]
    return reply


def is_object(raw: bytes) -> bool:
    return raw.lstrip(b" \t\r\n")[:1] == b"{"


def listed_tools(result: object) -> dict[str, dict[str, Any]]:
    """The entries in a result of `tools/list`, by name; what has no name is none."""
    listed = result.get("tools") if isinstance(result, dict) else None
    return {
        entry["name"]: entry
        for entry in (listed if isinstance(listed, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    }


async def ask_for_entries(ask: AskServer) -> dict[str, dict[str, Any]]:
    """Every page of `tools/list`; bounded, and refused where it goes on beyond that."""
    tools: dict[str, dict[str, Any]] = {}
    params: dict[str, Any] = {}
    size = 0
    for _ in range(_PAGES_MAX):
        reply = await ask("tools/list", params)
        result = result_of(reply)
        if result is None:
            return tools
        tools |= listed_tools(result)
        size += len(reply)
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return tools
        if size > _LIST_BYTES or len(tools) > _TOOLS_MAX:
            break
        params = {"cursor": cursor}
    raise UpstreamError(Reason.UPSTREAM_TOO_LARGE, "the server's list of tools does not end")
