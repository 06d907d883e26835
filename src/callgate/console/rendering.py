"""Templates: HTML is escaped, and so is every character that could pretend to be something else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from callgate._version import __version__
from callgate.approval.action import to_iso
from callgate.approval.display import escape, escape_rest
from callgate.console.assets import Assets

_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"


class Shown(str):
    """Text whose invisible characters are spelt out already."""

    __slots__ = ()

    def lines(self) -> list[Shown]:
        return [Shown(line) for line in self.split("\n")]


def statement(text: str) -> Shown:
    """What will be done, in the words that were hashed with it."""
    return Shown(escape_rest(text))


def exact(canonical: bytes) -> Shown:
    """Canonical JSON: an invisible character becomes the escape that JSON has for it."""
    return statement(canonical.decode("utf-8", "backslashreplace"))


def lines_of(text: str, most: int = 60, chars: int = 600) -> list[Shown]:
    """A sentence or several, a line each, as far as anybody reads; what is invisible in them is spelt out."""
    lines = [line for line in text[: most * chars].split("\n") if line.strip()]
    shown = [Shown(escape(line if len(line) <= chars else f"{line[:chars]}…")) for line in lines[:most]]
    return shown if len(lines) <= most else [*shown, Shown(f"and {len(lines) - most} lines more")]


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
