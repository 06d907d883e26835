"""Templates, static files and trees of JSON: HTML is escaped, and so is every character that could mislead the eye."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callgate._version import __version__
from callgate.approval.action import to_iso
from callgate.approval.display import escape, escape_rest
from callgate.errors import Reason, Refused

_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Beyond this a tree helps nobody, and a page of it would stall the browser. The exact JSON always has everything.
MOST_LINES: Final = 2_000


class EscapedText(str):
    """Text whose invisible characters are spelt out already."""

    __slots__ = ()

    def lines(self) -> list[EscapedText]:
        return [EscapedText(line) for line in self.split("\n")]


def statement(text: str) -> EscapedText:
    """What will be done, in the words that were hashed with it."""
    return EscapedText(escape_rest(text))


def exact(canonical: bytes) -> EscapedText:
    """Canonical JSON: an invisible character becomes the escape that JSON has for it."""
    return statement(canonical.decode("utf-8", "backslashreplace"))


def lines_of(text: str, most: int = 60, chars: int = 600) -> list[EscapedText]:
    """A sentence or several, a line each, as far as anybody reads; what is invisible in them is spelt out."""
    lines = [line for line in text[: most * chars].split("\n") if line.strip()]
    shown = [EscapedText(escape(line if len(line) <= chars else f"{line[:chars]}…")) for line in lines[:most]]
    return shown if len(lines) <= most else [*shown, EscapedText(f"and {len(lines) - most} lines more")]


def when(at: int) -> str:
    """A time for people, in UTC; a script of the page turns it into the reader's own."""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"


def short(digest: str) -> str:
    """The first letters of a hash, enough to compare by eye."""
    kind, colon, rest = digest.rpartition(":")
    return f"{kind}{colon}{rest[:12]}" if len(rest) > 16 else digest


def environment(assets: Assets) -> Environment:
    """The one environment of all pages."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(iso=to_iso, when=when, short=short)
    made.globals.update(asset=assets.path, version=__version__)
    return made


def _visible(value: Any) -> Any:
    # Whatever a template puts on the page passes here, so no page can forget to escape.
    return escape(value) if type(value) is str else value


_FOLDER: Final = Path(__file__).resolve().parent / "static"


class Assets:
    """All static files; `path(name)` is the address of one.

    One digest stands for the whole set: scripts import each other by relative addresses, and a page never gets
    a script of one version and a stylesheet of another.
    """

    def __init__(self) -> None:
        self._files = {file.name: file.read_bytes() for file in sorted(_FOLDER.iterdir()) if file.suffix in _KINDS}
        digest = hashlib.sha256()
        for name, content in self._files.items():
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
        self._digest = digest.hexdigest()[:16]

    def path(self, name: str) -> str:
        if name not in self._files:
            raise KeyError(name)
        return f"/static/{self._digest}/{name}"

    def routes(self) -> list[Route]:
        return [Route("/static/{digest}/{name}", self._serve)]

    async def _serve(self, request: Request) -> Response:
        name = request.path_params["name"]
        content = self._files.get(name)
        if content is None or request.path_params["digest"] != self._digest:
            raise Refused(Reason.PAGE_UNKNOWN)
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(content, media_type=_KINDS[Path(name).suffix], headers=headers)


class TreeLine(NamedTuple):
    """`open` and `close` stand around the lines of an object or array; `leaf` is a value."""

    what: Literal["open", "close", "leaf"]
    key: EscapedText = EscapedText()
    kind: str = ""
    text: EscapedText = EscapedText()


class _Number(str):
    """A number as it stands in the canonical text, which is what is signed."""

    __slots__ = ()


def json_tree(canonical: bytes) -> list[TreeLine] | None:
    """The lines, or None where a tree is no help: no JSON object, too deep, too many values."""
    try:
        value = json.loads(canonical, parse_int=_Number, parse_float=_Number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    lines: list[TreeLine] = []
    for line in _walk(value):
        if len(lines) == MOST_LINES:
            return None
        lines.append(line)
    return lines


def _walk(value: dict[str, Any]) -> Iterator[TreeLine]:
    stack = [_items(value)]
    while stack:
        for key, item in stack[-1]:
            if isinstance(item, (dict, list)) and item:
                yield TreeLine("open", key, "object" if isinstance(item, dict) else "array", _count(item))
                stack.append(_items(item))
                break
            yield TreeLine("leaf", key, *_leaf(item))
        else:
            stack.pop()
            if stack:
                yield TreeLine("close")


def _items(value: dict[str, Any] | list[Any]) -> Iterator[tuple[EscapedText, Any]]:
    if isinstance(value, dict):
        return ((EscapedText(escape(key)), item) for key, item in value.items())
    return ((EscapedText(f"[{at}]"), item) for at, item in enumerate(value))


def _count(value: dict[str, Any] | list[Any]) -> EscapedText:
    noun = "field" if isinstance(value, dict) else "item"
    return EscapedText(f"{len(value)} {noun}{'' if len(value) == 1 else 's'}")


def _leaf(item: Any) -> tuple[str, EscapedText]:
    if isinstance(item, _Number):
        return "number", EscapedText(item)
    if isinstance(item, str):
        return "text", EscapedText('"' + escape(item).replace('"', '\\"') + '"')
    return "word", EscapedText(json.dumps(item))
