"""What agents may do, and how one is recognised: the tables that `[agents]` has for single agents and servers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta, field

from callgate.config import rules
from callgate.config.rules import Rule
from callgate.config.section import Clash, Section

# A directory of ours: the agents that `callgate agents add` put into the store.
LISTED: Final = "listed"
# RFC 7638 with SHA-256, in base64url.
_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# RFC 6749 §3.3
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_SECRET_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
# As agents/directories/listing.py takes it
_AGENT: Final = re.compile(r"[!-~]{1,128}")
_SUBJECT_CHARS: Final = 1024

PerMinute = Annotated[float, Meta(ge=0.001, le=1000000)]
Burst = Annotated[int, Meta(ge=1, le=1000000)]


def https_url(text: str) -> str | None:
    wrong = rules.http_url(text)
    if wrong is not None or not text.startswith("https://") or "@" in text:
        return wrong or 'expected an https address without a user, such as "https://agent.example/keys.json"'
    return None


def https_url_or_empty(text: str) -> str | None:
    return https_url(text) if text else None


def https_origin(text: str) -> str | None:
    wrong = rules.allowed_origin(text)
    return wrong or (None if text.startswith("https://") else 'expected an https origin, as "https://agent.example"')


def own_origin(text: str) -> str | None:
    wrong = rules.http_url(text) or rules.allowed_origin(text)
    return wrong or (None if text == text.lower() else "write the origin in small letters, as agents sign it")


def thumbprint(text: str) -> str | None:
    if _THUMBPRINT.fullmatch(text):
        return None
    return "a thumbprint (RFC 7638, SHA-256) has 43 letters, digits, - and _; `callgate agents keygen` prints it"


def network(text: str) -> str | None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return 'expected a network such as "10.1.0.0/16" or "127.0.0.1/32", with the host\'s bits at zero'
    return None


def scope(text: str) -> str | None:
    return None if _SCOPE.fullmatch(text) else "a scope is one word of printable ASCII without quotes (RFC 6749 §3.3)"


def agent_name(text: str) -> str | None:
    if _AGENT.fullmatch(text):
        return None
    return "an agent's name has 1 to 128 printable ASCII characters without spaces"


def directory(text: str) -> str | None:
    return None if text == LISTED else https_url(text)


def token_subject(text: str) -> str | None:
    issuer, mark, subject = text.partition("#")
    if mark and subject and subject.isprintable() and len(text) <= _SUBJECT_CHARS and https_url(issuer) is None:
        return None
    return 'expected an issuer and whom its tokens name, such as "https://login.example#reports"'


def tool_glob(text: str) -> str | None:
    return None if 0 < len(text) <= 1024 else 'expected a tool\'s name, or a pattern such as "get_*"'


class AgentRules(Section, frozen=True):
    """What an agent may do. With no rules at all, every agent that proves who it is may call everything."""

    allow_tools: Annotated[
        tuple[str, ...] | None,
        Meta(description="The only tools that may be called; `*` stands for any letters. By default all."),
        Rule(check=tool_glob),
    ] = None
    deny_tools: Annotated[
        tuple[str, ...],
        Meta(description="Tools that may not be called, whatever is allowed; `*` stands for any letters."),
        Rule(check=tool_glob),
    ] = ()
    denied: Annotated[bool, Meta(description="Refuse everything.")] = False
    per_minute: Annotated[
        PerMinute | None, Meta(description="Calls per minute that are let through in the long run.")
    ] = None
    burst: Annotated[
        Burst | None, Meta(description="How many calls may come at once. By default those of a minute.")
    ] = None

    per_tool: Annotated[
        dict[str, PerMinute],
        Meta(
            description="Calls per minute of single tools, by name or pattern, the first that fits: "
            '`{ "send_*" = 6 }` lets each of these tools be called six times a minute.'
        ),
        Rule(name=tool_glob),
    ] = field(default_factory=dict)

    @property
    def names_tools(self) -> bool:
        return self.allow_tools is not None or bool(self.deny_tools or self.per_tool)

    @property
    def restricts(self) -> bool:
        """Whether it says no to anything."""
        return self.denied or self.names_tools or self.limits

    @property
    def limits(self) -> bool:
        return self.per_minute is not None or bool(self.per_tool)

    def clashes(self) -> Iterator[Clash]:
        if self.burst is not None and self.per_minute is None:
            yield Clash("burst", "this goes with per_minute; add it, or take this away", ("burst", "per_minute"))


class KnownAgent(AgentRules, frozen=True):
    """An agent by name: how it is recognised, and what it may do. Its rules count instead of the default ones."""

    thumbprint: Annotated[
        str | None,
        Meta(description="Thumbprint of the key that it signs with; `directory` says where that key is published."),
        Rule(check=thumbprint),
    ] = None
    directory: Annotated[
        str | None,
        Meta(
            description="Address of its directory, or its origin; without `thumbprint` every key there is this "
            "agent's. `listed`: the keys that `callgate agents add` has for this name."
        ),
        Rule(check=directory),
    ] = None
    jwk: Annotated[
        dict[str, str],
        Meta(description='Its public key itself, as `{ kty = "OKP", crv = "Ed25519", x = "…" }`.'),
    ] = field(default_factory=dict)
    subject: Annotated[
        str | None,
        Meta(description="Its OAuth tokens, as `https://ISSUER#SUBJECT`: what their `sub` says, not the client."),
        Rule(check=token_subject),
    ] = None
    servers: Annotated[
        dict[str, AgentRules],
        Meta(description="What differs on one server, as `[agents.known.NAME.servers.SERVER]`."),
        Rule(name=rules.server_name),
    ] = field(default_factory=dict)

    @property
    def signs(self) -> bool:
        """Whether it is recognised by a signature."""
        return self.directory is not None or bool(self.jwk)

    @property
    def marks(self) -> tuple[tuple[str, str], ...]:
        """What must not be two agents'."""
        found = []
        if self.thumbprint is not None:
            found.append(("key", f"{self.directory} {self.thumbprint}"))
        elif self.directory not in (None, LISTED):
            found.append(("directory", str(self.directory)))
        if self.jwk:
            found.append(("jwk", " ".join(f"{name}={self.jwk[name]}" for name in sorted(self.jwk))))
        if self.subject is not None:
            found.append(("subject", self.subject))
        return tuple(found)

    def clashes(self) -> Iterator[Clash]:
        yield from super().clashes()
        if self.thumbprint is not None and (self.directory is None or self.directory == LISTED):
            text = 'a key counts together with its directory; add directory = "https://agent.example"'
            yield Clash("thumbprint", text, ("thumbprint", "directory"))
        if self.jwk and self.directory is not None:
            text = "the key is written here or found in a directory, not both; take one away"
            yield Clash("jwk", text, ("jwk", "directory"))
        if _SECRET_MEMBERS & self.jwk.keys():
            text = "this is the private half of a key: make a new key, and write only its public half here"
            yield Clash("jwk", text, ("jwk",))
