"""Agents, issuers and callers for tests: real keys and real signatures, a clock that stands still, and no network."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jws
from joserfc.jwk import ECKey

from callgate.agents.authenticator import Authenticator, VerifyOptions
from callgate.agents.directories import Directories, Sources
from callgate.agents.model import Signed
from callgate.agents.signing import Signer
from callgate.agents.stage import AgentDecision
from callgate.agents.storage import Listed
from callgate.store.memory import MemoryAgents

NOW = 1_794_800_000
DIRECTORY = "https://agent.example"


class Clock:
    """Seconds; moved by hand."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def ms(self) -> int:
        return int(self.now * 1000)


def call(*tools: str, **arguments: Any) -> bytes:
    """The body of a call; of a batch, where there are several tools."""
    messages = [
        {"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        for at, tool in enumerate(tools)
    ]
    return json.dumps(messages[0] if len(messages) == 1 else messages).encode()


def request(body: bytes = b"", headers: Mapping[str, str] | None = None, **parts: Any) -> Signed:
    """A plain request, not signed by anybody."""
    raw = tuple((name.lower().encode(), value.encode()) for name, value in (headers or {}).items())
    given = {"method": "POST", "scheme": "https", "authority": "gate.example", "path": "/mcp", "query": None, **parts}
    return Signed(headers=((b"content-type", b"application/json"), *raw), body=body, **given)


@dataclass
class Agent:
    """An agent with a key of its own, published in its directory."""

    clock: Clock
    directory: str = DIRECTORY
    private: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    def signer(self, label: str = "sig1") -> Signer:
        return Signer(self.private, self.directory, label=label, clock=self.clock)

    @property
    def keyid(self) -> str:
        return self.signer().keyid

    @property
    def jwk(self) -> dict[str, str]:
        return dict(self.signer().jwk)

    def send(self, body: bytes = b"", headers: Mapping[str, str] | None = None, **signing: Any) -> Signed:
        """A request that this agent signed."""
        label = signing.pop("label", "sig1")
        plain = request(body, headers)
        added = self.signer(label).sign(plain, **signing)
        names = {name.lower() for name in added}
        kept = {name: value for name, value in (headers or {}).items() if name.lower() not in names}
        return request(body, {**kept, **added})


def listed(name: str, agent: Agent) -> Listed:
    """An agent as an operator adds it, with its key."""
    return Listed(name, agent.keyid, "static", jwk=json.dumps(agent.jwk).encode())


class Gate:
    """An authenticator with agents in front of it; `also` are further agents by name, each with its keys."""

    def __init__(self, clock: Clock | None = None, *, named: bool = True, **options: Any) -> None:
        self.clock = clock or Clock()
        self.alice, self.bob, self.stranger = (Agent(self.clock) for _ in range(3))
        # Its key is known, but nobody said whose it is.
        self.unlisted = Agent(self.clock, "https://gate.example")
        self.shelf = MemoryAgents()
        also = options.pop("also", {})
        known = [("alice", self.alice), ("bob", self.bob), *((name, one) for name in also for one in also[name])]
        self.sources = Sources(
            agents=tuple(listed(name, agent) for name, agent in known),
            self_origin=self.unlisted.directory,
            self_jwks={"keys": [self.unlisted.jwk]},
            discovery="ignore",
        )
        self.directories = Directories(self.sources, self.shelf, clock=self.clock)
        verify = options.pop("verify", {})
        if named:
            options.setdefault("directory", self.directories)
        self.auth = Authenticator(
            self.directories.key,
            verify=VerifyOptions(**{"nonces": self.shelf, "now": self.clock, **verify}),
            **options,
        )

    async def decide(self, sent: Signed, server: str = "") -> AgentDecision:
        return await self.auth.authorize(sent, server=server)

    async def reason(self, sent: Signed, server: str = "") -> tuple[int, str]:
        """How a request was refused; (200, "") where it was not."""
        decision = await self.decide(sent, server)
        return decision.status, decision.reason.value if decision.reason is not None else ""


class Issuer:
    """An issuer of tokens that publishes its keys; it counts who fetches them."""

    def __init__(self, url: str = "https://issuer.example", clock: Clock | None = None) -> None:
        self.url = url
        self.clock = clock or Clock()
        self.key = ECKey.generate_key("P-256", {"kid": "k1", "use": "sig"})
        self.documents: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.publish()

    def publish(self, *more: dict[str, Any]) -> None:
        keys = [self.key.as_dict(private=False), *more]
        for path in ("/.well-known/jwks.json", "/jwks"):
            self.documents[f"{self.url}{path}"] = json.dumps({"keys": keys}).encode()

    async def fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        if url not in self.documents:
            raise OSError("nothing there")
        return self.documents[url]

    def sign(self, claims: Mapping[str, Any], header: Mapping[str, Any] | None = None, key: Any = None) -> str:
        """A token with these claims, whatever they are."""
        head = {"alg": "ES256", "kid": "k1", **(header or {})}
        head = {name: value for name, value in head.items() if value is not None}
        body = {name: value for name, value in claims.items() if value is not ...}
        if head["alg"] == "ES256":
            return compact(head, body, lambda signed: es256(key or self.key, signed))
        return jws.serialize_compact(head, json.dumps(body), key, ["RS256", "PS256", "Ed25519"])

    def access(self, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """An access token for the gate."""
        now = int(self.clock())
        good = {"iss": self.url, "sub": "carol", "aud": "https://gate.example/mcp", "iat": now, "exp": now + 300}
        return self.sign({**good, **claims}, {"typ": "at+jwt", **(header or {})})

    def kya(self, agent: Agent, header: Mapping[str, Any] | None = None, key: Any = None, **claims: Any) -> str:
        """A token that says on whose behalf an agent acts."""
        now = int(self.clock())
        good = {
            "iss": self.url,
            "sub": "buyer-7",
            "aud": "seller-1",
            "iat": now,
            "exp": now + 300,
            "jti": "7e5f2a4c-0001",
            "env": "production",
            "hid": {"email": "carol@private.example"},
            "cnf": {"jwk": agent.jwk},
        }
        return self.sign({**good, **claims}, {"typ": "kya+jwt", **(header or {})}, key)


def compact(header: Mapping[str, Any], claims: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """A token that no library would make."""
    parts = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    signature = urlsafe_b64encode(sign(b".".join(parts))).rstrip(b"=")
    return b".".join((*parts, signature)).decode()


def es256(key: ECKey, signed: bytes) -> bytes:
    """RFC 7518 §3.4."""
    made = key.private_key
    assert made is not None
    r, s = decode_dss_signature(made.sign(signed, ECDSA(SHA256())))
    return r.to_bytes(32) + s.to_bytes(32)
