"""Who may call, and what: `[agents]` with its tables for signatures, tokens, keys, and for single agents."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta, field

from callgate.config import rules
from callgate.config.rules import Address, Clash, KeyRule, Section

# A directory of ours: the agents that `callgate agents add` put into the store.
LISTED: Final = "listed"
_SECRET_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_SUBJECT_CHARS: Final = 1024

PerMinute = Annotated[float, Meta(ge=0.001, le=1000000)]
Burst = Annotated[int, Meta(ge=1, le=1000000)]
_NOBODY: Final = (
    "can be reached from other machines, and nothing here tells who calls; set up one of [agents.api_keys] "
    "enabled = true, [agents.oauth] issuers, or [agents.signatures] enabled = true, or listen on 127.0.0.1"
)


# RFC 7638 with SHA-256, in base64url.
thumbprint: Final = rules.matching(
    r"[A-Za-z0-9_-]{43}",
    "a thumbprint (RFC 7638, SHA-256) has 43 letters, digits, - and _; `callgate agents keygen` prints it",
)
scope: Final = rules.matching(
    r"[\x21\x23-\x5b\x5d-\x7e]{1,256}",
    "a scope is one word of printable ASCII without quotes (RFC 6749 §3.3)",
)
# As agents/directories/lookup.py takes it
agent_name: Final = rules.matching(
    r"[!-~]{1,128}", "an agent's name has 1 to 128 printable ASCII characters without spaces"
)


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


def network(text: str) -> str | None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return 'expected a network such as "10.1.0.0/16" or "127.0.0.1/32", with the host\'s bits at zero'
    return None


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

    allow_tools: Annotated[tuple[str, ...] | None, KeyRule(check=tool_glob)] = None
    """The only tools that may be called; `*` stands for any letters. By default all."""
    deny_tools: Annotated[tuple[str, ...], KeyRule(check=tool_glob)] = ()
    """Tools that may not be called, whatever is allowed; `*` stands for any letters."""
    denied: bool = False
    """Refuse everything."""
    per_minute: PerMinute | None = None
    """Calls per minute that are let through in the long run."""
    burst: Burst | None = None
    """How many calls may come at once. By default those of a minute."""

    per_tool: Annotated[dict[str, PerMinute], KeyRule(name=tool_glob)] = field(default_factory=dict)
    """Calls per minute of single tools, by name or pattern, the first that fits: `{ "send_*" = 6 }` lets each of these
    tools be called six times a minute."""

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

    thumbprint: Annotated[str | None, KeyRule(check=thumbprint)] = None
    """Thumbprint of the key that it signs with; `directory` says where that key is published."""
    directory: Annotated[str | None, KeyRule(check=directory)] = None
    """Address of its directory, or its origin; without `thumbprint` every key there is this agent's. `listed`: the keys
    that `callgate agents add` has for this name."""
    jwk: dict[str, str] = field(default_factory=dict)
    """Its public key itself, as `{ kty = "OKP", crv = "Ed25519", x = "…" }`."""
    subject: Annotated[str | None, KeyRule(check=token_subject)] = None
    """Its OAuth tokens, as `https://ISSUER#SUBJECT`: what their `sub` says, not the client."""
    servers: Annotated[dict[str, AgentRules], KeyRule(name=rules.server_name)] = field(default_factory=dict)
    """What differs on one server, as `[agents.known.NAME.servers.SERVER]`."""

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


class Signatures(Section, frozen=True):
    """Web Bot Auth: requests that an agent signed with a key of a directory (RFC 9421)."""

    enabled: bool | None = None
    """Whether signatures are a way in. By default yes; beyond loopback only where this table or a known agent says
    whose: then write `true` to take every agent that has a directory."""
    profile: Literal["ietf", "legacy"] = "ietf"
    """`ietf` follows the working group's draft; `legacy` takes older agents as well."""
    max_window_seconds: Annotated[int, Meta(ge=1, le=86400)] = 480
    """Longest time between `created` and `expires` of a signature."""
    content_digest: Literal["optional", "required"] | None = None
    """Whether signatures have to cover the body by Content-Digest. By default `optional`, and `required` as soon as any
    rule names tools: a body that nobody signed can be swapped."""
    nonce: Literal["optional", "required"] = "required"
    """Whether signatures need a nonce. One that is there is good once, whatever this says."""
    discovery: Literal["trust", "allow", "ignore"] | None = None
    """Whose directories are fetched because a request's Signature-Agent names them: of anybody (`trust`), of `origins`
    only (`allow`), or of nobody (`ignore`). By default `trust`, but `ignore` where `directories` or `data_uris` say
    whose keys count and neither `enabled` nor `agents_directory` is set."""
    origins: Annotated[tuple[str, ...], KeyRule(check=https_origin)] = ()
    """Origins of directories for `discovery = allow`, such as `https://agent.example`."""
    directories: Annotated[tuple[str, ...], KeyRule(check=https_url, expand=True)] = ()
    """Addresses of directories (JWKS) whose keys count for every request."""
    agents_directory: Annotated[str | None, KeyRule(check=https_url, expand=True)] = None
    """Address of a JSON document that names agents: each keyid with its agent."""
    require_signed_directories: bool = False
    """Believe a directory only if its answer is signed by the keys in it."""
    rsa_pss_sha256: bool = False
    """Take RSA-PSS with SHA-256 too, for older agents."""
    kid_fallback: bool = False
    """Find keys by their `kid` where a keyid is no thumbprint, for older directories."""
    data_uris: Annotated[tuple[str, ...], KeyRule(check=thumbprint)] = ()
    """Thumbprints of keys that may come inside a `data:` Signature-Agent. By default none."""
    allow_addresses: Annotated[tuple[str, ...], KeyRule(check=network)] = ()
    """Networks, such as `10.1.0.0/16`, where directories and keys of issuers may be although the addresses are not
    public."""
    test_keys: bool = False
    """Take the keys that RFC 9421 prints with their private halves: for trying things out only."""
    production: bool | None = None
    """Refuse to start with settings for trying things out. By default yes beyond loopback."""

    @property
    def discovers(self) -> Literal["trust", "allow", "ignore"]:
        """Whose directories are fetched: who names the keys that count does not mean everybody else's as well."""
        if self.discovery is not None:
            return self.discovery
        named = self.directories or self.data_uris
        return "ignore" if named and not self.enabled and self.agents_directory is None else "trust"

    def clashes(self) -> Iterator[Clash]:
        if self.origins and self.discovery != "allow":
            text = f'these count with discovery = "allow", and it is "{self.discovers}"; write that, or take them away'
            yield Clash("origins", text, ("origins", "discovery"))
        if self.discovery == "allow" and not self.origins:
            text = 'name whose directories may be fetched, as origins = ["https://agent.example"]'
            yield Clash("discovery", text, ("origins", "discovery"))
        if self.test_keys and self.production:
            text = "anybody has the private halves of these keys; take test_keys or production away"
            yield Clash("test_keys", text, ("test_keys", "production"))


class Kya(Section, frozen=True):
    """Know your agent: tokens (KYAPay) that say on whose behalf an agent that signs its requests acts."""

    mode: Literal["off", "optional", "required"] = "off"
    """Whether a token is asked for; `optional` takes requests without one, but no bad one."""
    issuers: Annotated[dict[str, str], KeyRule(name=https_url, check=https_url_or_empty)] = field(default_factory=dict)
    """Whose tokens count, each with the address of its keys; empty for the usual place of them."""
    audience: Annotated[str, KeyRule(check=rules.word)] = ""
    """Whom tokens have to be for: what their `aud` says."""
    environment: Annotated[str, KeyRule(check=rules.word)] = "production"
    """The `env` that tokens have to be for, where they name one."""
    max_life_seconds: Annotated[int, Meta(ge=1, le=604800)] = 86400
    """Longest life of a token."""

    def clashes(self) -> Iterator[Clash]:
        if self.mode != "off" and not self.issuers:
            text = 'name whose tokens count, as issuers = { "https://issuer.example" = "" }'
            yield Clash("mode", text, ("mode", "issuers"))
        if self.mode != "off" and not self.audience:
            text = 'say whom tokens have to be for, as audience = "https://gate.example"'
            yield Clash("mode", text, ("mode", "audience"))


class OAuth(Section, frozen=True):
    """OAuth access tokens as JWT (RFC 9068); the gateway is the protected resource (RFC 9728)."""

    issuers: Annotated[dict[str, str], KeyRule(name=https_url, check=https_url_or_empty)] = field(default_factory=dict)
    """Authorization servers whose tokens count, each with the address of its keys; empty where its own metadata says it
    (RFC 8414)."""
    resource: Annotated[str | None, KeyRule(check=https_url)] = None
    """What tokens have to be for (`aud`), an https address without a query. By default `agents.external_url`."""
    audiences: Annotated[tuple[str, ...], KeyRule(check=rules.word)] = ()
    """Further values of `aud` that are this gateway."""
    scopes: Annotated[tuple[str, ...], KeyRule(check=scope)] = ()
    """Scopes that a token has to have, all of them."""
    algorithms: tuple[Literal["ES256", "ES384", "PS256", "RS256", "Ed25519"], ...] = (
        "ES256",
        "ES384",
        "PS256",
        "RS256",
        "Ed25519",
    )
    """Algorithms that tokens may be signed with."""


class ApiKeysSection(Section, frozen=True):
    """Static keys, for callers that can neither sign nor get tokens."""

    enabled: bool | None = None
    """Whether keys are a way in; `callgate agents add NAME --api-key` makes one. By default they are looked at where
    they come, but do not count as a reason to listen beyond loopback."""


class AgentsSection(Section, frozen=True):
    """Agents: who is calling, and which tools they may call."""

    mode: Literal["auto", "off", "optional", "required"] = "auto"
    """`required`: who does not say who they are, and prove it, is refused. `optional`: they pass unnamed, but what is
    false is refused. `off`: nobody is asked. `auto` is `required` beyond loopback and `optional` on it."""
    external_url: Annotated[str | None, KeyRule(check=own_origin, expand=True)] = None
    """The origin that agents know this gateway by, such as `https://gate.example`, where something stands in front of
    it. Signatures have to be for it. By default what the request's Host says, with http: one of
    `gateway.allowed_hosts`, or the address and port that it came to."""
    strangers: Literal["refuse", "admit"] | None = None
    """What becomes of an agent whose signature holds, but whom nobody listed: by default `refuse` as soon as any agent
    is listed, else `admit`."""
    shared_limits: bool = True
    """Count calls for rate limits in the store, for all processes together, not for each alone."""
    signatures: Signatures = Signatures()
    """Signed requests, as `[agents.signatures]`."""
    kya: Kya = field(default_factory=Kya)
    """Tokens that say for whom an agent acts, as `[agents.kya]`."""
    oauth: OAuth = field(default_factory=OAuth)
    """OAuth access tokens, as `[agents.oauth]`."""
    api_keys: ApiKeysSection = ApiKeysSection()
    """Static keys, as `[agents.api_keys]`."""
    default: AgentRules | None = None
    """Rules for every agent without its own, as `[agents.default]`."""
    servers: Annotated[dict[str, AgentRules], KeyRule(name=rules.server_name)] = field(default_factory=dict)
    """Rules for one server, as `[agents.servers.SERVER]`: what it denies is denied to everybody, the rest holds for
    agents without rules of their own."""
    known: Annotated[dict[str, KnownAgent], KeyRule(name=agent_name)] = field(default_factory=dict)
    """Agents by name: how each is recognised and what it may do, as `[agents.known.NAME]`."""

    @property
    def names_tools(self) -> bool:
        """Whether any rule looks at a tool."""
        return any(one.names_tools for one in self.rules())

    @property
    def lists(self) -> bool:
        """Whether agents that sign are listed anywhere."""
        return self.signatures.agents_directory is not None or any(one.signs for one in self.known.values())

    @property
    def kinds(self) -> tuple[str, ...]:
        """The ways to prove who one is that an operator has set up."""
        signed = self.signatures
        found = []
        if signed.enabled or (
            signed.enabled is None and (signed.directories or signed.origins or signed.data_uris or self.lists)
        ):
            found.append("signatures")
        if self.oauth.issuers:
            found.append("oauth")
        if self.api_keys.enabled:
            found.append("api-keys")
        return tuple(found)

    def in_force(self, address: Address) -> Literal["off", "optional", "required"]:
        """The mode of a gateway that listens there: nobody passes unnamed who may be anybody."""
        if not address.is_loopback:
            return "required"
        return "optional" if self.mode == "auto" else self.mode

    def clashes(self) -> Iterator[Clash]:
        if self.signatures.content_digest == "optional" and self.names_tools:
            text = (
                "rules name tools, and a body that is not signed can be swapped for another tool's call; "
                "take this line away, or those rules"
            )
            between = ("signatures", "default", "servers", "known")
            yield Clash(("signatures", "content_digest"), text, between)
        if self.mode == "required" and not self.kinds:
            text = "nobody could prove who they are; enable signatures, OAuth or API keys"
            yield Clash("mode", text, ("mode", "signatures", "oauth", "api_keys", "known"))
        if self.mode == "off" and any(one.restricts for one in self.rules()):
            text = "nobody is asked who they are, and these rules would hold for nobody; take this away, or them"
            yield Clash("mode", text, ("mode", "default", "servers", "known"))
        if self.oauth.issuers and self.oauth.resource is None and not _https(self.external_url):
            text = 'tokens have to be for this gateway; write external_url = "https://gate.example" in [agents]'
            yield Clash(("oauth", "issuers"), text, ("oauth", "external_url"))
        yield from self._unknowable()
        yield from self._twice()

    def _unknowable(self) -> Iterator[Clash]:
        """Rules for an agent that nobody could ever be recognised as (the seed's agents without a directory)."""
        elsewhere = self.signatures.agents_directory is not None or self.api_keys.enabled
        for name, one in self.known.items():
            issuer = (one.subject or "").partition("#")[0]
            if one.subject is not None and issuer not in self.oauth.issuers:
                text = f"{issuer} is none of the issuers in [agents.oauth]; add it there, spelt in the same way"
                yield Clash(("known", name, "subject"), text, ("known", "oauth"))
            if not one.signs and one.subject is None and not elsewhere:
                text = (
                    "nobody can be recognised as this agent; add its thumbprint and directory, its jwk or subject, "
                    'directory = "listed" for keys of `callgate agents add`, or enable API keys'
                )
                yield Clash(("known", name), text, ("known", "signatures", "api_keys"))

    def _twice(self) -> Iterator[Clash]:
        seen: dict[tuple[str, str], str] = {}
        for name, one in self.known.items():
            for mark in one.marks:
                if seen.setdefault(mark, name) != name:
                    text = f'this {mark[0]} is that of "{seen[mark]}" already'
                    yield Clash(("known", name), text, ("known",))

    def rules(self) -> Iterator[AgentRules]:
        """Every table of rules there is."""
        if self.default is not None:
            yield self.default
        yield from self.servers.values()
        for one in self.known.values():
            yield one
            yield from one.servers.values()


def exposure_clashes(agents: AgentsSection, address: Address, listen: str) -> Iterator[Clash]:
    """What must not be so on such an address, and above all on one that others can reach."""
    both = ("gateway", "agents")
    if agents.kya.mode == "required" and agents.in_force(address) != "required":
        text = 'who does not sign would need no token; write mode = "required" in [agents], or "optional" here'
        yield Clash(("agents", "kya", "mode"), text, both)
    if address.is_loopback:
        return
    if not agents.kinds:
        yield Clash(("gateway", "listen"), f"{listen} {_NOBODY}", both)
    elif agents.mode in ("off", "optional"):
        text = f"{listen} can be reached from other machines, which have to say who they are there; take this away"
        yield Clash(("agents", "mode"), text, both)
    if agents.signatures.test_keys and agents.signatures.production is not False:
        text = f"anybody has the private halves of these keys, and {listen} can be reached from other machines"
        yield Clash(("agents", "signatures", "test_keys"), text, both)


def server_clashes(agents: AgentsSection, servers: Collection[str]) -> Iterator[Clash]:
    """Rules for a server that is not there: most likely misspelt, and then they would hold for nobody."""
    places: list[tuple[tuple[str, ...], Collection[str]]] = [
        (("agents", "servers"), agents.servers),
        *((("agents", "known", name, "servers"), one.servers) for name, one in agents.known.items()),
    ]
    for place, names in places:
        for name in names:
            if name not in servers:
                yield Clash((*place, name), "no server of that name is configured", ("agents", "servers"))


def _https(url: str | None) -> bool:
    return url is not None and url.startswith("https://")
