"""Times as people type them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import typer

_SPAN: Final = re.compile(r"(?P<count>[0-9]{1,9})(?P<unit>[smhdw])\Z")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_when(text: str | None, now: float) -> int | None:
    """`2h`, `30m`, `7d` ago, or an ISO date or time (local unless it says otherwise), in milliseconds."""
    if text is None:
        return None
    span = _SPAN.match(text.strip())
    if span is not None:
        return int((now - int(span["count"]) * _SECONDS[span["unit"]]) * 1000)
    try:
        return int(datetime.fromisoformat(text.strip()).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        message = f"{text!r} is not a time; write 2h, 7d, 2026-11-15 or 2026-11-15T14:00"
        raise typer.BadParameter(message) from None


def parse_span(text: str) -> int:
    """`30m`, `90d` as seconds."""
    span = _SPAN.match(text.strip())
    if span is None or not int(span["count"]):
        raise typer.BadParameter(f"{text!r} is not a span of time; write 30m, 12h or 90d")
    return int(span["count"]) * _SECONDS[span["unit"]]


def show_when(at: int) -> str:
    """A time for people, local, to the millisecond."""
    return datetime.fromtimestamp(at / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")[:23]
