"""A client's message as its server gets it: without what was meant for the gateway alone, with the session's labels.

Only `params._meta` changes. Where it stands is found by its name if that is certain, which it nearly always is, and by
taking the message apart otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from callgate.jsonrpc import Message, drop_member, member_span, put_member
from callgate.trust.model import ANNOTATIONS_META, CONSENT_META, PROMPT_META, SESSION_META

# Members of `_meta` that are for the gateway alone.
PRIVATE: Final = (PROMPT_META, SESSION_META, CONSENT_META)
_encode: Final = msgspec.json.Encoder().encode
_scan: Final = json.JSONDecoder().raw_decode
_SPACE: Final = b" \t\r\n"
_OBJECT: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*\{")


def for_the_server(message: Message) -> bytes:
    """A message without what it told the gateway alone; the same bytes where there is no such thing."""
    raw, meta = message.raw, message.meta
    for name in PRIVATE:
        if name in meta:
            raw = drop_member(raw, ("params", "_meta", name))
    return raw


def labelled(message: Message, annotations: Mapping[str, Any] | None, *, as_it_came: bool) -> bytes:
    """The same with these annotations, and without any others; `as_it_came` where nobody has changed its bytes."""
    meta = message.meta
    dropped = [name for name in PRIVATE if name in meta]
    if annotations is None and ANNOTATIONS_META in meta:
        # What the client wrote there is in the session's labels by now, and those are not for this server.
        dropped.append(ANNOTATIONS_META)
    if annotations is None and not dropped:
        return message.raw
    span = _certain(message) if as_it_came else None
    if span is None:
        return _slowly(message, annotations, dropped)
    raw = message.raw
    if span[0] == span[1]:
        comma = b"," if message.params else b""
        return raw[: span[0]] + b'"_meta":{"annotations":' + _encode(annotations) + b"}" + comma + raw[span[1] :]
    if meta.keys() <= {*dropped, ANNOTATIONS_META}:
        inner = b"{}" if annotations is None else b'{"annotations":' + _encode(annotations) + b"}"
    else:
        inner = raw[span[0] : span[1]]
        for name in dropped:
            inner = _without(inner, name)
        if annotations is not None and ANNOTATIONS_META in meta:
            inner = put_member(inner, ANNOTATIONS_META, _encode(annotations))
        elif annotations is not None:
            # Something else is in there, so a comma comes before it.
            inner = inner[:-1].rstrip(_SPACE) + b',"annotations":' + _encode(annotations) + b"}"
    return raw[: span[0]] + inner + raw[span[1] :]


def _certain(message: Message) -> tuple[int, int] | None:
    """Where `_meta` stands, or where it can be put in; None where that takes a closer look.

    Without such escapes a name is written as it is, and quotes around it are no part of a string: what occurs once, and
    is known to be there, is there.
    """
    raw, params = message.raw, message.params
    if not isinstance(params, dict) or (b"\\" in raw and b"\\u" in raw):
        return None
    at = _once(raw, b'"params"')
    if at < 0:
        return None
    if "_meta" not in params:
        found = _OBJECT.match(raw, at)
        return None if found is None else (found.end(), found.end())
    at = _once(raw, b'"_meta"')
    if at < 0 or not isinstance(params["_meta"], dict):
        return None
    rest = raw[raw.index(b"{", at) :]
    if not rest.isascii():
        return None
    start = len(raw) - len(rest)
    return start, start + _scan(rest.decode("ascii"))[1]


def _once(raw: bytes, name: bytes) -> int:
    """Where a name ends that occurs once; -1 where it occurs more or less often."""
    at = raw.find(name)
    end = at + len(name)
    return end if at >= 0 and raw.find(name, end) < 0 else -1


def _without(inner: bytes, name: str) -> bytes:
    """An object of ASCII without this member, which it is known to have, and the comma that goes with it.

    Without escapes a name is written as it is: one that occurs once is that member's.
    """
    written = b'"' + name.encode() + b'"'
    end = _once(inner, written)
    if b"\\" in inner or end < 0:
        return drop_member(inner, (name,))
    start = end - len(written)
    colon = inner.index(b":", end) + 1
    while inner[colon] in _SPACE:
        colon += 1
    end = _scan(inner.decode("ascii"), colon)[1]
    before, behind = inner[:start].rstrip(_SPACE), inner[end:]
    if before != b"{":
        return before[:-1].rstrip(_SPACE) + behind
    rest = behind.lstrip(_SPACE)
    return inner[:start] + (rest[1:].lstrip(_SPACE) if rest[:1] == b"," else behind)


def _slowly(message: Message, annotations: Mapping[str, Any] | None, dropped: list[str]) -> bytes:
    raw = message.raw
    for name in dropped:
        raw = drop_member(raw, ("params", "_meta", name))
    if annotations is None:
        return raw
    span = member_span(raw, ("params",))
    if span is None:
        return raw
    params = raw[span[0] : span[1]]
    inner = member_span(params, ("_meta",))
    meta = b"{}" if inner is None else params[inner[0] : inner[1]]
    meta = put_member(meta if meta[:1] == b"{" else b"{}", ANNOTATIONS_META, _encode(annotations))
    return raw[: span[0]] + put_member(params, "_meta", meta) + raw[span[1] :]
