"""The client's end of a call while it is before the gate: who it is, and how to speak with it and with its server."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from callgate.gate import Caller, Context
from callgate.jsonrpc import Message, MessageKind
from callgate.protocol import (
    CAPABILITIES,
    CAPABILITIES_META,
    CLIENT_INFO_META,
    HANDSHAKE_VERSIONS,
    SESSION_META,
    VERSION_META,
)

_CLIENTS_MAX: Final = 20_000
_TEXT_CHARS: Final = 120
_PROOF_CHARS: Final = 2048
_ENVELOPE: Final = (VERSION_META, CAPABILITIES_META, CLIENT_INFO_META)
_encode: Final = msgspec.json.Encoder().encode
ToolDigests: TypeAlias = tuple[str, Mapping[str, str]]


class ClientInfo(msgspec.Struct, frozen=True):
    """What a client said of itself: its name, and how it can be told of an approval page.

    `ceremony`: it does SEP-2672 by itself. `opens_urls`: it takes URL elicitation.
    """

    name: str = ""
    version: str = ""
    ceremony: bool = False
    opens_urls: bool = False

    @classmethod
    def read(cls, info: object, capabilities: object) -> ClientInfo:
        """From `clientInfo` and the capabilities, whatever they are."""
        known = capabilities if isinstance(capabilities, dict) else {}
        extensions, elicitation = known.get("extensions"), known.get("elicitation")
        about = info if isinstance(info, dict) else {}
        said = {name: value for name in ("name", "version") if isinstance(value := about.get(name), str)}
        shown = _shown(said, _TEXT_CHARS)
        return cls(
            shown.get("name", ""),
            shown.get("version", ""),
            isinstance(extensions, dict) and any(isinstance(extensions.get(name), dict) for name in CAPABILITIES),
            isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict),
        )


def greeting_client(message: Message) -> ClientInfo:
    """The client as its `initialize` names it."""
    params = message.params if isinstance(message.params, dict) else {}
    return ClientInfo.read(params.get("clientInfo"), params.get("capabilities"))


class ClientInfos:
    """Who is at the other end of each handshake session; the oldest are forgotten."""

    def __init__(self, most: int = _CLIENTS_MAX, opened: Callable[[str], None] = lambda _session: None) -> None:
        self._most = most
        # Told the id of each session, before its client can use it.
        self.opened = opened
        self._known: OrderedDict[tuple[str, str], ClientInfo] = OrderedDict()

    def greet(self, server: str, session: str, client: ClientInfo) -> None:
        self._known[(server, session)] = client
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def at(self, server: str, session: str | None) -> ClientInfo:
        return self._known.get((server, session or ""), NOBODY_KNOWN)


NOBODY_KNOWN: Final = ClientInfo()


class SessionOpening:
    """A session that begins with this exchange: its id may be known before the server's greeting, or after it."""

    __slots__ = ("_session", "_then")

    def __init__(self) -> None:
        self._session: str | None = None
        self._then: Callable[[str], None] | None = None

    def opened(self, session: str) -> None:
        self._session = session
        if self._then is not None:
            self._then(session)

    def then(self, done: Callable[[str], None]) -> None:
        """Do something with the session's id, now or as soon as it is known."""
        self._then = done
        if self._session is not None:
            done(self._session)


class Channel(Protocol):
    """What a transport can do for a call that is not decided yet."""

    # How long the call has waited for a person so far.
    waited: float
    # Whom a caller without a session looks like to the server, once somebody has asked.
    caller: str | None
    # The tools that calls on it were held against last, where none of them had to wait for that.
    held: object
    # What the list said then of each tool that was called: the hash that is approved, and the digests beside it.
    judged: dict[str, ToolDigests]

    @property
    def can_say(self) -> bool:
        """Whether messages can reach the client before the reply does."""

    @property
    def stopping(self) -> bool:
        """Whether the gateway is about to end."""

    async def turn(self) -> None:
        """Wait until the server has everything that the client sent before, such as `initialized`."""

    async def ask(self, message: Message) -> bytes:
        """The server's reply to a request of ours, in the session that the call belongs to."""

    async def say(self, message: bytes) -> None:
        """A message to the client, ahead of the reply."""

    async def breathe(self) -> None:
        """Show the client that the connection lives, where that can be shown."""

    async def gone(self) -> None:
        """Wait until the client has left."""

    def aside(self) -> AbstractContextManager[None]:
        """Around a long wait: the session stays, and what comes behind the call is not held up by it."""


class StreamContext(Context, frozen=True, kw_only=True):
    """A Context whose client is known, as that of a stream is.

    Who the client is stands in the message itself (`meta`) in the modern era, else in what it said at its greeting.
    """

    greeted: ClientInfo = NOBODY_KNOWN
    meta: Mapping[str, Any] = {}
    # Worked out once, when it is made: the era, the client, and whose the stream is (`whom`).
    modern: bool = False
    client: ClientInfo = NOBODY_KNOWN
    whose: str = ""

    def __post_init__(self) -> None:
        version = self.meta.get(VERSION_META)
        modern = isinstance(version, str) and version not in HANDSHAKE_VERSIONS
        client = self.greeted
        if modern:
            client = ClientInfo.read(self.meta.get(CLIENT_INFO_META), self.meta.get(CAPABILITIES_META))
        force_setattr(self, "modern", modern)
        force_setattr(self, "client", client)
        force_setattr(self, "whose", whom(self))


class RequestContext(StreamContext, frozen=True, kw_only=True):
    """A Context that one can speak through; `alone` is false for a call in a batch."""

    line: Channel
    alone: bool = True
    opening: SessionOpening | None = None


def own_request(method: str, params: Mapping[str, Any], meta: Mapping[str, Any]) -> Message:
    """A request of the gateway's own to a server; of the client's `_meta` it carries what the modern era demands."""
    kept = {name: meta[name] for name in _ENVELOPE if name in meta}
    whole = {**params, "_meta": kept} if kept else dict(params)
    rpc_id = f"callgate-{secrets.token_hex(16)}"
    raw = _encode({"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": whole})
    return Message(MessageKind.REQUEST, raw, method, rpc_id, whole, kept)


def whom(context: Context) -> str:
    """Whose a call is, as far as that is known for certain: the verified agent's, else the machine's."""
    if context.caller is not None:
        # Whatever it proved it by: an agent with a key and a signature is one agent.
        return f"agent:{context.caller.id}"
    return f"peer:{context.peer or 'unknown'}"


def line_of(context: Context) -> str:
    """Who is at the other end, in the same session of the transport where there is one. A session's id can be read by
    others on its way; who has it and calls from elsewhere is somebody else."""
    return f"{whom(context)} {context.session or ''}"


def caller_of(context: Context) -> str:
    """Who may use an approval: whoever it was asked for, in the session that the client names where it names one."""
    named = _named_session(context)
    return f"{line_of(context)}\n{named}" if named else line_of(context)


def _named_session(context: Context) -> str:
    named = context.meta.get(SESSION_META) if isinstance(context, StreamContext) else None
    return named if isinstance(named, str) else ""


def has_session(context: Context) -> bool:
    """Whether the caller can be told from others at the same address."""
    return context.session is not None


def agent_of(context: Context) -> dict[str, str]:
    """What a person is shown of the caller. What was verified comes first; only `client` is its own word."""
    client = context.client if isinstance(context, RequestContext) else NOBODY_KNOWN
    named = _named_session(context)
    facts = {
        "client": " ".join(filter(None, (client.name, client.version))),
        "transport": context.transport,
        "peer": context.peer,
        "session": context.session[:8] if context.session else named,
        "protocol": context.protocol,
        "usable by": None,
    }
    if context.session is None:
        anybody = f"any program at {context.peer or 'an unknown address'} that makes the same call"
        usable = "this agent, wherever it makes the same call" if context.caller is not None else anybody
        facts["usable by"] = f"{usable} and names the same session" if named else usable
    proved = {} if context.caller is None else proof_of(context.caller)
    return proved | _shown(facts, _TEXT_CHARS)


def proof_of(caller: Caller) -> dict[str, str]:
    """A verified caller in words: who, proved how, with which key, for whom."""
    facts = {
        "agent": caller.id,
        "agent name": caller.name if caller.name != caller.id else "",
        "proved by": caller.source,
        "key": caller.key,
        "directory": caller.directory,
        "on behalf of": caller.principal,
        # A signature may leave the body out (WB-094).
        "body signed": ("yes" if caller.digest_verified else "no") if caller.source == "web-bot-auth" else "",
    }
    return _shown(facts, _PROOF_CHARS)


def _shown(facts: Mapping[str, str | None], most: int) -> dict[str, str]:
    """What is known of these, cut and printable."""
    return {
        name: value if len(value) <= most and value.isprintable() else printable(value, most)
        for name, value in facts.items()
        if value
    }


def printable(value: str, most: int) -> str:
    """A stranger's text: cut, with a mark for each character that does not print."""
    short = value[:most]
    return short if short.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in short)
