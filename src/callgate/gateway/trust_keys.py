"""Which agent session a call belongs to.

A session is the conversation that an agent has with its user, and may span servers and connections. Who calls is part
of its name: an id that another caller has guessed names another session.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from callgate.errors import Reason, Refused
from callgate.gate import Context
from callgate.gateway.line import NOBODY_KNOWN, Visit
from callgate.trust.model import SESSION_META

SESSION_ENVIRON: Final = "CALLGATE_SESSION"
_ID_CHARS: Final = 256


class SessionName(msgspec.Struct, frozen=True):
    """A session's key, whose it is in words, and whether it ends by being idle."""

    key: str
    agent: str
    idles: bool


class Naming:
    """`by_agent`: sessions of one agent on several servers are one, as far as nobody says otherwise."""

    def __init__(self, *, by_agent: bool, environ: Mapping[str, str] = os.environ) -> None:
        self._by_agent = by_agent
        self._own = environ.get(SESSION_ENVIRON, "")[:_ID_CHARS]
        self._parent: str | None = None
        self._known: dict[tuple[object, ...], SessionName] = {}

    def name(self, context: Context, meta: Mapping[str, Any]) -> SessionName:
        """The session of a call; Refused(INVALID_PARAMS) where it names one in a way that cannot be read."""
        given = meta.get(SESSION_META)
        if given is not None and (not isinstance(given, str) or not given or len(given) > _ID_CHARS):
            text = f'_meta["{SESSION_META}"] has to be a text of 1 to {_ID_CHARS} characters'
            raise Refused(Reason.INVALID_PARAMS, text)
        client = context.client if isinstance(context, Visit) else NOBODY_KNOWN
        known = (context.transport, context.peer, client.name, given, context.session)
        name = self._known.get(known)
        if name is None:
            if len(self._known) > 4096:
                self._known.clear()
            name = self._known[known] = self._work_out(context, client.name, given)
        return name

    def _work_out(self, context: Context, client: str, given: str | None) -> SessionName:
        caller = "stdio" if context.transport == "stdio" else f"peer:{context.peer or 'unknown'}"
        agent = " ".join(filter(None, (caller.removeprefix("peer:"), client)))
        if given is not None:
            return SessionName(_digest(caller, "given", given), agent, idles=False)
        if context.transport == "stdio":
            own = self._own or (self._started_by() if self._by_agent else context.session or "")
            return SessionName(_digest(caller, "process", own), agent, idles=False)
        if self._by_agent or context.session is None:
            return SessionName(_digest(caller, "agent", client), agent, idles=True)
        return SessionName(_digest(caller, "transport", context.session), agent, idles=False)

    def _started_by(self) -> str:
        """The client that started this process: all that it starts belongs to one agent."""
        if self._parent is None:
            parent = os.getppid()
            self._parent = f"{parent}:{_start_of(parent)}"
        return self._parent


def _start_of(process: int) -> str:
    """When a process began, so that its number cannot be another's; empty where the system does not say."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError, UnicodeDecodeError):
        return ""


def _digest(*parts: str) -> str:
    text = b"".join(
        len(part.encode("utf-8", "surrogatepass")).to_bytes(4) + part.encode("utf-8", "surrogatepass") for part in parts
    )
    return hashlib.sha256(text).hexdigest()[:32]
