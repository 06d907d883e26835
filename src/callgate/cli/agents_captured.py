"""A captured HTTP/1.1 request, read back: from a file, or as `curl -v` printed it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from callgate.agents.model import Signed
from callgate.errors import CallgateError

_LINE: Final = re.compile(rb"([A-Z]{1,16}) (\S{1,8192})(?: HTTP/[0-9.]{1,3})?")
_NAME: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_HOW: Final = "It begins with a line such as `POST /mcp HTTP/1.1`, then headers, an empty line and the body."


def captured(raw: bytes, scheme: str, authority: str | None) -> Signed:
    """The request; the body are the bytes after the empty line, to the last one."""
    head, body = _parted(raw)
    lines = head.splitlines()
    if lines and all(line[:1] in (b">", b"*", b"{", b"}", b"<") or not line.strip() for line in lines):
        lines = [line[1:].removeprefix(b" ") for line in lines if line[:1] == b">"]
    first = _LINE.fullmatch(lines[0].strip()) if lines else None
    if first is None:
        raise CallgateError("this is no HTTP request", advice=_HOW)
    headers = _headers([line for line in lines[1:] if line.strip()])
    target = first[2].decode("latin-1")
    parts = urlsplit(target)
    if parts.scheme:
        scheme, authority = parts.scheme, authority or parts.netloc
        target = target.partition("://")[2].partition("/")[2]
        target = f"/{target}"
    path, mark, query = target.partition("?")
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if authority is None and len(hosts) != 1:
        raise CallgateError("the request does not say whom it is for", advice="Add --authority HOST.")
    where = authority if authority is not None else hosts[0]
    return Signed(first[1].decode(), scheme, where, path, query if mark else None, headers, body)


def _parted(raw: bytes) -> tuple[bytes, bytes]:
    raw = raw.lstrip(b"\r\n")
    found = re.search(rb"\r?\n\r?\n", raw)
    return (raw, b"") if found is None else (raw[: found.start()], raw[found.end() :])


def _headers(lines: list[bytes]) -> tuple[tuple[bytes, bytes], ...]:
    found: list[tuple[bytes, bytes]] = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(name):
            raise CallgateError(f"{line[:80]!r} is no header", advice=_HOW)
        found.append((name.lower(), value.strip(b" \t\r")))
    return tuple(found)
