"""Changing what a server answers: only the replies that need it, and in those only the bytes that need it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from callgate.approval import Policy, annotation
from callgate.approval.names import CAPABILITIES, META
from callgate.errors import MessageError, Reason, UpstreamError
from callgate.gateway.catalogue import decode_leniently
from callgate.gateway.entering import Amend
from callgate.jsonrpc import RequestId, elements, error_reply, member_span, peek, put_member

PolicyFor = Callable[[str], Policy | None]

_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


class Amends:
    """What to do with each reply to one message of a client, by the id it answers, and with everything else."""

    def __init__(self, by_id: Mapping[RequestId, Amend], otherwise: Amend = lambda raw: raw) -> None:
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


def add_capability(reply: bytes) -> bytes:
    """SEP-2672 §4.3: the capability under both of its names; what the server says there stays."""
    span = member_span(reply, ("result", "capabilities"))
    if span is None or not _is_object(reply[span[0] : span[1]]):
        return reply
    capabilities = reply[span[0] : span[1]]
    inner = member_span(capabilities, ("extensions",))
    extensions = b"{}" if inner is None else capabilities[inner[0] : inner[1]]
    if not _is_object(extensions):
        extensions = b"{}"
    declared = {name: extensions[at[0] : at[1]] for name in CAPABILITIES if (at := member_span(extensions, (name,)))}
    missing = [name for name in CAPABILITIES if name not in declared]
    if not missing:
        return reply
    for name in missing:
        extensions = put_member(extensions, name, next(iter(declared.values()), b"{}"))
    return reply[: span[0]] + put_member(capabilities, "extensions", extensions) + reply[span[1] :]


def add_list_changed(reply: bytes) -> bytes:
    """`tools.listChanged` in a greeting: where tools are, the list may change by a reviewer's decision."""
    span = member_span(reply, ("result", "capabilities", "tools"))
    if span is None or not _is_object(reply[span[0] : span[1]]):
        return reply
    return reply[: span[0]] + put_member(reply[span[0] : span[1]], "listChanged", b"true") + reply[span[1] :]


def mark_tools(reply: bytes, policy_for: PolicyFor) -> bytes:
    """§4.2: the mark on each tool of a list that has a policy; everything else of an entry stays as it is."""
    span = member_span(reply, ("result", "tools"))
    if span is None:
        return reply
    try:
        entries = [bytes(entry) for entry in _decode_list(reply[span[0] : span[1]])]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _mark_leniently(reply, policy_for)
    marked = [_mark(entry, policy_for) for entry in entries]
    if marked == entries:
        return reply
    return reply[: span[0]] + b"[" + b",".join(marked) + b"]" + reply[span[1] :]


def _mark(entry: bytes, policy_for: PolicyFor) -> bytes:
    tool = decode_leniently(entry)
    mark = _mark_for(tool, policy_for)
    if mark is None:
        return entry
    span = member_span(entry, ("_meta",))
    meta = b"{}" if span is None else entry[span[0] : span[1]]
    return put_member(entry, "_meta", put_member(meta if _is_object(meta) else b"{}", META, _encode(mark)))


def _mark_leniently(reply: bytes, policy_for: PolicyFor) -> bytes:
    """The same where only a lenient reader can take the list apart: half an emoji in an honest description."""
    message = decode_leniently(reply)
    result = message.get("result") if isinstance(message, dict) else None
    tools = result.get("tools") if isinstance(result, dict) else None
    changed = False
    for tool in tools if isinstance(tools, list) else ():
        mark = _mark_for(tool, policy_for)
        if mark is not None:
            meta = tool.get("_meta")
            tool["_meta"] = {**(meta if isinstance(meta, dict) else {}), META: mark}
            changed = True
    return json.dumps(message).encode() if changed else reply


def _mark_for(tool: Any, policy_for: PolicyFor) -> dict[str, Any] | None:
    """The mark that an entry lacks; None where it needs none or has it."""
    name = tool.get("name") if isinstance(tool, dict) else None
    policy = policy_for(name) if isinstance(name, str) else None
    if policy is None:
        return None
    meta = tool.get("_meta")
    there = meta.get(META) if isinstance(meta, dict) else None
    mark = annotation(policy, there if isinstance(there, dict) else None)
    return None if mark == there else mark


def _is_object(raw: bytes) -> bool:
    return raw.lstrip(b" \t\r\n")[:1] == b"{"
