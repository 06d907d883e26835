"""What somebody looks for in the log, as the address of the page says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

import msgspec

from callgate.audit.reading import Search
from callgate.audit.storage import Filter
from callgate.errors import Reason, Refused

FIELDS: Final = ("q", "server", "tool", "verdict", "reason", "agent", "session", "person", "call", "since", "until")
VERDICTS: Final = ("allow", "refuse", "approved")
_CHARS: Final = 256
_SPAN: Final = re.compile(r"([0-9]{1,6})([mhdw])")
_MS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_CURSOR: Final = re.compile(r"[1-9][0-9]{0,17}")


class Asked(msgspec.Struct, frozen=True):
    """The fields as they were filled in, what they mean, and where to go on."""

    fields: Mapping[str, str]
    search: Search
    before: int | None
    after: int | None

    def address(self, **cursor: int) -> str:
        """The same search from another place."""
        return f"/audit?{urlencode({**self.fields, **cursor})}"


def read(query: Mapping[str, str], now: int) -> Asked:
    """What an address asks for; refused where it cannot be meant."""
    fields = {name: value for name in FIELDS if (value := query.get(name, "").strip())}
    for name, value in fields.items():
        if len(value) > _CHARS or "\0" in value or not _writable(value):
            raise _odd(f"What is looked for in “{name}” is too long, or no text.", "Look for less.")
    if fields.get("verdict", "allow") not in VERDICTS:
        raise _odd("A verdict is allow, refuse or approved.", "Choose one of them.")
    approved = fields.get("verdict") == "approved"
    wanted = Filter(
        server=fields.get("server"),
        tool=fields.get("tool"),
        verdict="allow" if approved else fields.get("verdict"),
        reason=fields.get("reason"),
        call=fields.get("call"),
        since=_time(fields.get("since"), now),
        until=_time(fields.get("until"), now),
        text=fields.get("q"),
    )
    within = Search(wanted, fields.get("agent"), fields.get("session"), fields.get("person"), approved)
    return Asked(fields, within, _cursor(query.get("before")), _cursor(query.get("after")))


def _cursor(text: str | None) -> int | None:
    if text is None:
        return None
    if not _CURSOR.fullmatch(text):
        raise _odd("This is no place in the log.", "Go on with the buttons below the calls.")
    return int(text)


def _time(text: str | None, now: int) -> int | None:
    """`24h`, `7d` ago, or a date or time, in UTC unless it says otherwise."""
    if text is None:
        return None
    span = _SPAN.fullmatch(text)
    if span is not None:
        return max(0, now - int(span[1]) * _MS[span[2]])
    try:
        moment = datetime.fromisoformat(text)
        at = int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise _odd(
            "That is no time.", "Write 24h or 7d for so long ago, or 2026-11-15, or 2026-11-15T14:00 in UTC."
        ) from None
    return min(max(at, 0), 2**53)


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _odd(detail: str, advice: str) -> Refused:
    return Refused(Reason.INVALID_PARAMS, detail, advice=advice)
