"""Structured logs on stderr (stdout belongs to the stdio protocol): lines for people on a terminal, JSON otherwise.

An event is a short constant sentence; what varies goes into fields: `log.info("call refused", call=..., reason=...)`.
Rooms, which import nothing of this, say the same with `logging` and `extra={"fields": {...}}`.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import re
import sys
from typing import Any, Final, TextIO

from callgate.telemetry import redact

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_RESERVED: Final = frozenset({"time", "level", "logger", "event", "exception"})
_COLOURS: Final = {
    logging.DEBUG: "2",
    logging.INFO: "36",
    logging.WARNING: "33",
    logging.ERROR: "31",
    logging.CRITICAL: "31",
}
_BARE: Final = re.compile(r"[A-Za-z0-9_.:/@+*\[\]$-]+")


class EventLog:
    """A logger whose methods take an event and its fields. Costs next to nothing while the level is off."""

    __slots__ = ("_enabled", "_logger")

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self._enabled = self._logger.isEnabledFor

    def debug(self, event: str, **fields: object) -> None:
        if self._enabled(logging.DEBUG):
            self._logger.debug("%s", event, extra={"fields": fields}, stacklevel=2)

    def info(self, event: str, **fields: object) -> None:
        if self._enabled(logging.INFO):
            self._logger.info("%s", event, extra={"fields": fields}, stacklevel=2)

    def warning(self, event: str, **fields: object) -> None:
        if self._enabled(logging.WARNING):
            self._logger.warning("%s", event, extra={"fields": fields}, stacklevel=2)

    def error(self, event: str, *, error: BaseException | None = None, **fields: object) -> None:
        """With `error`, its traceback goes into the log too."""
        if self._enabled(logging.ERROR):
            self._logger.error("%s", event, exc_info=error, extra={"fields": fields}, stacklevel=2)


def get(name: str) -> EventLog:
    """The log of a module: `log = logs.get(__name__)`."""
    return EventLog(name)


class Redact(logging.Filter):
    """Leaves on a record only what may be written; formatters read nothing but `shown_event` and `shown_fields`."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.shown_event = redact.text(record.getMessage())
        fields = getattr(record, "fields", None)
        record.shown_fields = redact.fields(fields) if isinstance(fields, dict) else {}
        if record.exc_info and record.exc_info[1] is not None:
            record.shown_exception = _traceback(record.exc_info[1])
        return True


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record.created).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "shown_event", ""),
        }
        for name, value in getattr(record, "shown_fields", {}).items():
            line[f"{name}_" if name in _RESERVED else name] = value
        if exception := getattr(record, "shown_exception", None):
            line["exception"] = exception
        return json.dumps(line, ensure_ascii=True, allow_nan=True, separators=(",", ":"), default=str)


class Pretty(logging.Formatter):
    """One line for people. Control characters of a peer's text cannot begin a new line or move the cursor."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        clock = _time(record.created).astimezone().strftime("%H:%M:%S")
        level = self._paint(f"{record.levelname.lower():<7}", _COLOURS.get(record.levelno, "0"))
        parts = [self._paint(clock, "2"), level, one_line(getattr(record, "shown_event", ""))]
        parts += [
            f"{self._paint(f'{one_line(name)}=', '2')}{_pretty(value)}"
            for name, value in getattr(record, "shown_fields", {}).items()
            if value is not None
        ]
        line = " ".join(parts)
        if exception := getattr(record, "shown_exception", None):
            line += "".join(f"\n    {one_line(text)}" for text in exception.splitlines())
        return line

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


class _Stderr(logging.StreamHandler[TextIO]):
    """A log that cannot be written must not stop a call."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        pass


def configure(level: str = "info", format: str = "auto", *, stream: TextIO | None = None) -> logging.Handler:  # noqa: A002
    """Sends all logs to stderr. May be called again, to change level or format while running."""
    stream = sys.stderr if stream is None else stream
    terminal = stream.isatty()
    pretty = format == "pretty" or (format == "auto" and terminal)
    handler = _Stderr(stream)
    handler.addFilter(Redact())
    handler.setFormatter(Pretty(colour=terminal and _wants_colour()) if pretty else JsonLines())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Stderr)]:
        root.removeHandler(old)
    root.addHandler(handler)
    # Other libraries speak only when something is wrong: their debug texts would show headers and bodies.
    root.setLevel(max(LEVELS[level], logging.WARNING))
    logging.getLogger("callgate").setLevel(LEVELS[level])
    return handler


def one_line(text: str) -> str:
    """The text with everything escaped that a terminal could act on."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _pretty(value: object) -> str:
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else one_line(json.dumps(value, ensure_ascii=False))
    if isinstance(value, float):
        return f"{value:.6g}"
    return one_line(json.dumps(value, ensure_ascii=False, default=str))


def _traceback(error: BaseException) -> str:
    """Where it happened and what it was: no source lines, no values of variables."""
    frames: list[str] = []
    place = error.__traceback__
    while place is not None:
        code = place.tb_frame.f_code
        frames.append(f"{code.co_filename}:{place.tb_lineno} {code.co_qualname}")
        place = place.tb_next
    return "\n".join([redact.text(f"{type(error).__name__}: {error}"), *frames[-20:]])


def _time(created: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(created, dt.UTC)


def _wants_colour() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
