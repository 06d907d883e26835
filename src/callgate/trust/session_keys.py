"""Which agent session a call belongs to.

A session is the conversation that an agent has with its user, and may span servers and connections. Who calls is part
of its name: an id that another caller has guessed names another session.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from callgate.errors import Reason, Refused
from callgate.gate import Context
from callgate.pipeline.context import NOBODY_KNOWN, ClientInfo, StreamContext, whom
from callgate.trust.model import SESSION_META

log = logging.getLogger("callgate.trust")

SESSION_ENVIRON: Final = "CALLGATE_SESSION"
_ID_CHARS: Final = 256
_LINES: Final = 4096
_NAMES_ON_LINE: Final = 32


class SessionName(msgspec.Struct, frozen=True):
    """A session's key, whose it is in words, and whether it ends by being idle.

    `unmet`: the client connected before this gateway ran, or through another one, and said there who it is. Whose
    session this goes on with cannot be told, nor what was read in it.
    """

    key: str
    agent: str
    idles: bool
    unmet: bool = False


class SessionNaming:
    """`by_agent`: sessions of one agent on several servers are one, as far as nobody says otherwise."""

    def __init__(self, *, by_agent: bool, origin: ClientOrigin) -> None:
        self._by_agent = by_agent
        self._origin = origin
        self._known: dict[tuple[object, ...], SessionName] = {}
        self._lines: OrderedDict[tuple[str, str, str], dict[SessionName, None]] = OrderedDict()

    def name(self, context: Context, meta: Mapping[str, Any]) -> SessionName:
        """The session of a call; Refused(INVALID_PARAMS) where it names one in a way that cannot be read."""
        return self.met(context, meta)[0]

    def met(self, context: Context, meta: Mapping[str, Any]) -> tuple[SessionName, ClientInfo]:
        """The same, and the client that it was told by, which a modern message has to be read for."""
        given = meta.get(SESSION_META)
        if given is not None and (not isinstance(given, str) or not given or len(given) > _ID_CHARS):
            text = f'_meta["{SESSION_META}"] has to be a text of 1 to {_ID_CHARS} characters'
            raise Refused(Reason.INVALID_PARAMS, text)
        client = context.client if isinstance(context, StreamContext) else NOBODY_KNOWN
        known = (context.transport, whom(context), client.name, given, context.session, client is NOBODY_KNOWN)
        name = self._known.get(known)
        if name is None:
            if len(self._known) > 4096:
                self._known.clear()
            name = self._known[known] = self._work_out(context, client, given)
            self._note(context, name)
        return name, client

    def on_line(self, context: Context) -> tuple[SessionName, ...]:
        """Every session that has called over a connection: each may read what a server says there unasked."""
        return tuple(self._lines.get((context.transport, whom(context), context.session or ""), ()))

    def _note(self, context: Context, name: SessionName) -> None:
        if context.session is None:
            return
        line = self._lines.setdefault((context.transport, whom(context), context.session), {})
        line[name] = None
        if len(line) > _NAMES_ON_LINE:
            del line[next(iter(line))]
        while len(self._lines) > _LINES:
            self._lines.popitem(last=False)

    def _work_out(self, context: Context, client: ClientInfo, given: str | None) -> SessionName:
        caller = "stdio" if context.transport == "stdio" else whom(context)
        shown = caller.removeprefix("peer:") if context.caller is None else context.caller.id
        agent = " ".join(filter(None, (shown, client.name)))
        if given is not None:
            return SessionName(_digest(caller, "given", given), agent, idles=False)
        if context.transport == "stdio":
            # All that one client starts belongs to one agent.
            own = self._origin.session or (self._origin.client if self._by_agent else context.session or "")
            if not own:
                # Nobody can say which client it is, so not what that has read from other servers either.
                return SessionName(_digest(caller, "unmet", context.session or ""), agent, idles=False, unmet=True)
            return SessionName(_digest(caller, "process", own), agent, idles=False)
        if self._by_agent and context.caller is not None:
            # Proved, so what the client calls itself makes no difference.
            return SessionName(_digest(caller, "agent"), agent, idles=True)
        if self._by_agent and context.session is not None and client is NOBODY_KNOWN:
            log.warning(
                "client connected elsewhere: taken for one that has read anything", extra={"fields": {"agent": agent}}
            )
            return SessionName(_digest(caller, "unmet", context.session), agent, idles=False, unmet=True)
        if self._by_agent or context.session is None:
            return SessionName(_digest(caller, "agent", client.name), agent, idles=True)
        return SessionName(_digest(caller, "transport", context.session), agent, idles=False)


def started_by(parent: int, environ: Mapping[str, str]) -> ClientOrigin:
    """The origin of a server that a process of this number started, in this environment; no client for 0, as for one
    in another container."""
    client = f"{parent}:{_start_of(parent)}" if parent > 0 else ""
    return ClientOrigin(client, environ.get(SESSION_ENVIRON, "")[:_ID_CHARS])


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


class ClientOrigin(msgspec.Struct, frozen=True):
    """Who started a wrapped server: the client's process, and the session that its environment names."""

    client: str = ""
    session: str = ""
