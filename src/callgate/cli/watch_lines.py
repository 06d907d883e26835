"""How `callgate watch` writes what happened: a line each, for a terminal, a pipe, or a machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from callgate.cli.common import console, say
from callgate.cli.people import plain
from callgate.cli.watch_calls import CallSeen
from callgate.cli.watch_following import ApprovalSeen, Begun, Happened, SwitchSeen, VersionSeen

if TYPE_CHECKING:
    from rich.text import Text

_WHERE: Final = 32
_NAME: Final = 60
_BELL: Final = "\a"
_STATES: Final = {
    "waiting": ("WAITS", "bold yellow"),
    "approved": ("approved", "green"),
    "used": ("approved", "green"),
    "refused": ("refused", "red"),
    "expired": ("expired", "dim"),
}
_encode: Final = msgspec.json.Encoder().encode


class Printer:
    """Lines only, so that nothing flickers and everything can be scrolled back to."""

    def __init__(self, *, as_json: bool, bell: bool) -> None:
        self._json = as_json
        self._bell = bell
        self._console = None if as_json else console()

    def begin(self, standing: Sequence[Happened]) -> None:
        for one in standing:
            if self._json or not isinstance(one, Begun):
                self.show(one)
                continue
            waits = "Nothing waits for approval" if not one.waiting else f"{one.waiting} waiting for approval"
            say(f"Watching. {waits}. Ctrl-C ends this.")
            if one.blocked:
                say("The kill switch is on: every call is refused.")

    def show(self, happened: Happened) -> None:
        if self._console is None:
            sys.stdout.buffer.write(_encode(happened) + b"\n")
            sys.stdout.buffer.flush()
        elif not isinstance(happened, Begun):
            # Whole, however narrow the window: a link that is cut in two cannot be opened.
            self._console.print(_line(happened), soft_wrap=True)
        if isinstance(happened, VersionSeen) or (isinstance(happened, ApprovalSeen) and happened.new):
            self._ring()

    def _ring(self) -> None:
        """On the terminal, if there is one: a pipe gets no bell."""
        for stream in (sys.stderr, sys.stdout) if self._bell else ():
            if stream.isatty():
                stream.write(_BELL)
                stream.flush()
                return


def _line(happened: CallSeen | ApprovalSeen | SwitchSeen | VersionSeen) -> Text:
    from rich.text import Text

    if isinstance(happened, SwitchSeen):
        (word, style), rest = _switch(happened)
    elif isinstance(happened, VersionSeen):
        (word, style), rest = _STATES["waiting"], _version(happened)
    elif isinstance(happened, ApprovalSeen):
        (word, style), rest = _STATES[happened.state], _approval(happened)
    else:
        (word, style), rest = _verdict(happened), _call(happened)
    at = f"{datetime.fromtimestamp(happened.at / 1000).astimezone():%H:%M:%S}"
    return Text.assemble((at, "dim"), "  ", (f"{word:8}", style), "  ", rest)


def _switch(seen: SwitchSeen) -> tuple[tuple[str, str], str]:
    by = f"{plain(seen.by)}: {plain(seen.note)}" if seen.note else plain(seen.by)
    if seen.on:
        return ("BLOCKED", "bold red"), f"the kill switch is on, every call is refused ({by})"
    return ("OPEN", "bold green"), f"the kill switch is off ({by})"


def _version(seen: VersionSeen) -> str:
    tools = "its tool" if seen.tools == 1 else f"its {seen.tools} tools"
    where = plain(seen.server, _NAME).ljust(_WHERE)
    return f"{where}  another version, {plain(seen.server_id)}: `callgate review` asks about {tools}"


def _approval(seen: ApprovalSeen) -> str:
    where = _where(seen)
    if seen.state == "waiting":
        page = f" at {plain(seen.page, len(seen.page))}" if seen.page else "; `callgate approvals list` shows it"
        return f"{where}  for {plain(seen.agent, _NAME)}: {plain(seen.user, _NAME)} approves{page}"
    by = f"  by {plain(seen.by, _NAME)}" if seen.by else ""
    return f"{where}{by}"


def _verdict(seen: CallSeen) -> tuple[str, str]:
    if seen.state == "refused":
        return "refuse", "red"
    return ("running", "cyan") if seen.state == "running" else ("allow", "green")


def _call(seen: CallSeen) -> str:
    by = f"  {plain(seen.agent, _NAME)}" if seen.agent else ""
    if seen.state == "refused":
        times = f"  {seen.calls:,} calls" if seen.calls > 1 else ""
        return f"{_where(seen)}  {plain(seen.reason or 'refused')}{times}{by}"
    took = "" if seen.ms is None else f"  {seen.ms:.0f} ms"
    # What an ordinary answer is called says nothing; an error does.
    outcome = "" if seen.outcome in (None, "result") else f"  {plain(seen.outcome)}"
    return f"{_where(seen)}{outcome}{took}{by}"


def _where(seen: CallSeen | ApprovalSeen) -> str:
    return f"{plain(seen.server, _NAME)}/{plain(seen.tool, _NAME)}".ljust(_WHERE)
