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
_PARAMS: Final = re.compile(rb'"params"[ \t\r\n]*:[ \t\r\n]*\{')
_META: Final = re.compile(rb'"_meta"[ \t\r\n]*:[ \t\r\n]*')


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
            inner = drop_member(inner, (name,))
        if annotations is not None:
            inner = put_member(inner, ANNOTATIONS_META, _encode(annotations))
    return raw[: span[0]] + inner + raw[span[1] :]


def _certain(message: Message) -> tuple[int, int] | None:
    """Where `_meta` stands, or where it can be put in; None where that takes a closer look.

    Without such escapes a name is written as it is, and quotes around it are no part of a string: what occurs once, and
    is known to be there, is there.
    """
    raw, params = message.raw, message.params
    if not isinstance(params, dict) or (b"\\" in raw and b"\\u" in raw) or raw.count(b'"params"') != 1:
        return None
    if "_meta" not in params:
        found = _PARAMS.search(raw)
        return None if found is None else (found.end(), found.end())
    found = _META.search(raw)
    if found is None or not isinstance(params["_meta"], dict) or raw.count(b'"_meta"') != 1:
        return None
    rest = raw[found.end() :]
    if not rest.isascii():
        return None
    _, length = _scan(rest.decode("ascii"))
    return found.end(), found.end() + length


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
