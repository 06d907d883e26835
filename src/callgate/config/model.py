"""The sections of callgate.toml. Each key has its description under it; docs and schema are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import platformdirs
from msgspec import Meta, field

from callgate.config import rules
from callgate.config.agents import AgentsSection, exposure_clashes, server_clashes
from callgate.config.approval import ApprovalSection
from callgate.config.notify import Notify
from callgate.config.pinning import Pinning
from callgate.config.rules import Address, Clash, IdleSeconds, KeyRule, Processes, Section, Sessions
from callgate.config.secret import Secret, mask_url
from callgate.config.server import ServerSection
from callgate.config.trust import Trust, undefined_labels
from callgate.config.witnesses import WitnessSection


def _default_store() -> Secret:
    url = f"sqlite:///{(platformdirs.user_state_path('callgate', appauthor=False) / 'callgate.db').as_posix()}"
    return Secret(url, url)


class Gateway(Section, frozen=True):
    """Where the gateway listens and whom it answers."""

    listen: Annotated[str, KeyRule(check=rules.address)] = "127.0.0.1:8420"
    """Address and port to listen on. Port 0 takes a free one; IPv6 is written `[::1]:8420`."""
    allowed_hosts: Annotated[tuple[str, ...], KeyRule(check=rules.allowed_host)] = ()
    """Further values of the Host header to answer, as `host` or `host:port`. Needed when listening beyond loopback: it
    guards against DNS rebinding."""
    allowed_origins: Annotated[tuple[str, ...], KeyRule(check=rules.allowed_origin)] = ()
    """Origins of web pages that may call, such as `https://app.example`. Others are refused."""
    refusals: Literal["auto", "error", "result"] = "auto"
    """How a client is told that its call was refused. `error`: a JSON-RPC error. `result`: a result with `isError`,
    whose text says what to do and whose `_meta["dev.callgate/refusal"]` has the error. `auto`: a result for clients
    that are known to show it to their model, an error for all others. A client that does SEP-2672 gets the error, and
    so does whoever has to prove first who they are."""
    shutdown_seconds: Annotated[float, Meta(ge=0, le=3600)] = 10.0
    """How long a stopping gateway lets calls under way finish."""

    @property
    def address(self) -> Address:
        return rules.parse_address(self.listen)

    def clashes(self) -> Iterator[Clash]:
        if not self.address.is_loopback and not self.allowed_hosts:
            yield Clash(
                "listen",
                f"{self.listen} can be reached from other machines, and no allowed_hosts says by which names; "
                'add allowed_hosts = ["HOST"] to [gateway], or listen on 127.0.0.1',
                ("listen", "allowed_hosts"),
            )


class StoreSection(Section, frozen=True):
    """Where decisions, sessions and settings are kept."""

    url: Annotated[Secret, KeyRule(check=rules.store_url, expand=True, place=rules.place_store, shown=mask_url)] = (
        field(default_factory=_default_store)
    )
    """`sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`. `~` and `${NAME}` are expanded; a relative file
    is taken from the folder of this configuration. By default `callgate.db` in the state directory of the user."""
    durability: Literal["full", "normal"] = "full"
    """`full`: a decision survives a power cut before its call leaves. `normal`: it survives a crash of the gateway, not
    always one of the machine."""
    busy_seconds: Annotated[float, Meta(ge=0, le=600)] = 5.0
    """How long to wait for a store that another process has locked."""
    keys_dir: Annotated[Path | None, KeyRule(check=rules.word, expand=True, place=rules.place_path)] = None
    """Directory of the gateway's own keys; `~` and `${NAME}` are expanded. By default `keys` beside the SQLite file, or
    in the state directory of the user."""

    @property
    def keys_path(self) -> Path:
        """Where the keys are: as configured, beside the SQLite file, or in the state directory of the user."""
        if self.keys_dir is not None:
            return self.keys_dir
        url = self.url.reveal()
        if url.startswith("sqlite:///"):
            return Path(url.removeprefix("sqlite:///").partition("?")[0]).parent / "keys"
        return platformdirs.user_state_path("callgate", appauthor=False) / "keys"


_WITNESSES: Final = 32


class AuditSection(Section, frozen=True):
    """What the audit log keeps, and for how long."""

    arguments: Literal["whole", "redacted", "hashed"] = "redacted"
    """How arguments of calls are kept: `whole`; `redacted`, with the values of secret-looking keys replaced; or
    `hashed`, only a salted hash that can be proved later."""
    redact: Annotated[tuple[str, ...], KeyRule(check=rules.word)] = ()
    """Further names of arguments whose values are never kept when `arguments` is `redacted`."""
    retention_days: Annotated[int, Meta(ge=0, le=36500)] = 180
    """Contents of older records are dropped; their hashes stay, so the log can still be verified. 0 keeps
    everything."""
    witnesses: Annotated[dict[str, WitnessSection], KeyRule(name=rules.witness_name)] = field(default_factory=dict)
    """Who cosigns the heads of the log, one table `[audit.witnesses.NAME]` each."""
    quorum: Annotated[int, Meta(ge=1, le=32)] | None = None
    """How many witnesses have to cosign a head for it to count. By default all of them."""
    witness_seconds: Annotated[float, Meta(ge=1, le=86400)] = 30.0
    """How often the witnesses are asked, while there are new records."""
    cosigned_within_seconds: Annotated[float, Meta(ge=10, le=2592000)] | None = None
    """Refuse calls while a record has waited longer than this for the witnesses. By default a witness that does not
    answer stops no call."""

    @property
    def demanded(self) -> int:
        """How many witnesses have to cosign."""
        return len(self.witnesses) if self.quorum is None else self.quorum

    def clashes(self) -> Iterator[Clash]:
        if self.demanded > len(self.witnesses):
            text = f"{self.demanded} witnesses have to cosign, and {len(self.witnesses)} are configured"
            yield Clash("quorum", text, ("quorum", "witnesses"))
        if len({witness.key for witness in self.witnesses.values()}) < len(self.witnesses):
            yield Clash("witnesses", "two witnesses have the same key; each counts once", ("witnesses",))
        if len(self.witnesses) > _WITNESSES:
            yield Clash("witnesses", f"at most {_WITNESSES} witnesses are asked", ("witnesses",))
        if self.cosigned_within_seconds is not None and not self.witnesses:
            text = "nobody cosigns the log; add a table such as [audit.witnesses.NAME]"
            yield Clash("cosigned_within_seconds", text, ("cosigned_within_seconds", "witnesses"))


class PolicySection(Section, frozen=True):
    """What is let through at all."""

    block_all: bool = False
    """The kill switch: refuse every call, whatever the switch in the store says."""


class LimitsSection(Section, frozen=True):
    """Bounds on everything a peer can send, open or hold."""

    message_bytes: Annotated[int, Meta(ge=1024, le=2**30), KeyRule(read=rules.read_size)] = 33554432
    """Largest message, in bytes or as a size such as `"32 MiB"`."""
    held_bytes: Annotated[int, Meta(ge=1024, le=2**40), KeyRule(read=rules.read_size)] = 2**30
    """Most bytes of request bodies held at once, also as a size such as `"1 GiB"`."""
    depth: Annotated[int, Meta(ge=4, le=1000)] = 100
    """Deepest nesting of a message."""
    batch: Annotated[int, Meta(ge=1, le=10000)] = 100
    """Most messages in one batch."""
    connections: Annotated[int, Meta(ge=1, le=1000000)] = 10000
    """Most client connections open at once."""
    in_flight: Annotated[int, Meta(ge=1, le=1000000)] = 2000
    """Most requests under way at once."""
    header_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    """How long a client may take to send the head of a request."""
    body_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 30.0
    """How long a client may take to send the body of a request."""
    check_seconds: Annotated[float, Meta(ge=0.01, le=600)] = 5.0
    """How long the checks of one call may take; then it is refused."""
    sessions: Sessions = 10000
    """Most sessions of one server."""
    processes: Processes = 64
    """Most processes of one server that is started by a command."""
    idle_seconds: IdleSeconds = 1800.0
    """A session without traffic ends after this time."""


class Logging(Section, frozen=True):
    """What the gateway says on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important messages to show."""
    format: Literal["auto", "pretty", "json"] = "auto"
    """`pretty` for people, `json` for machines; `auto` is pretty on a terminal, JSON otherwise."""


class Telemetry(Section, frozen=True):
    """What is measured and where it goes."""

    metrics: bool = True
    """Serve Prometheus metrics at `/metrics`."""
    otlp_endpoint: Annotated[str | None, KeyRule(check=rules.http_url, expand=True)] = None
    """Send OpenTelemetry spans to this OTLP/HTTP address, such as `http://127.0.0.1:4318`. Needs `pip install
    'callgate[otel]'`. By default what OTEL_EXPORTER_OTLP_ENDPOINT says, or nowhere."""


class ServerLimits(NamedTuple):
    """The limits that hold for one server."""

    sessions: int
    processes: int
    idle_seconds: float


class Config(Section, frozen=True):
    """The whole of callgate.toml."""

    gateway: Gateway = Gateway()
    store: StoreSection = field(default_factory=StoreSection)
    audit: AuditSection = AuditSection()
    agents: AgentsSection = field(default_factory=AgentsSection)
    approval: ApprovalSection = ApprovalSection()
    pinning: Pinning = Pinning()
    trust: Trust = Trust()
    policy: PolicySection = PolicySection()
    notify: Notify = Notify()
    limits: LimitsSection = LimitsSection()
    logging: Logging = Logging()
    telemetry: Telemetry = Telemetry()
    servers: Annotated[dict[str, ServerSection], KeyRule(name=rules.server_name)] = field(default_factory=dict)
    """The MCP servers behind the gateway, one table `[servers.NAME]` each."""

    @property
    def approves(self) -> bool:
        """Whether calls may need a person: switched on, the trust policy may ask, or some server's tools need one."""
        if self.approval.enabled is not None:
            return self.approval.enabled
        return self.trust.mode == "enforce" or any(server.approval.patterns for server in self.servers.values())

    @property
    def has_console(self) -> bool:
        """Whether people have something to do in the console: calls to approve, tools to review, sessions to see."""
        return self.approves or self.pinning.mode != "off" or self.trust.mode != "off"

    def clashes(self) -> Iterator[Clash]:
        yield from exposure_clashes(self.agents, self.gateway.address, self.gateway.listen)
        yield from server_clashes(self.agents, self.servers)
        if self.approval.enabled is False:
            for name, server in self.servers.items():
                if server.approval.patterns:
                    text = (
                        "these tools need a person's approval, and approval.enabled is false; take one of the two away"
                    )
                    yield Clash(("servers", name, "approval", "tools"), text, ("approval", "servers"))
        own = [(("sensitivity",), word) for word in self.trust.defaults.own_labels]
        yield from undefined_labels(self.trust, own, ("trust", "defaults"))
        for name, server in self.servers.items():
            yield from undefined_labels(self.trust, server.trust.used_labels(), ("servers", name, "trust"))

    def server_limits(self, name: str) -> ServerLimits:
        server = self.servers[name]
        return ServerLimits(
            self.limits.sessions if server.sessions is None else server.sessions,
            self.limits.processes if server.processes is None else server.processes,
            self.limits.idle_seconds if server.idle_seconds is None else server.idle_seconds,
        )
