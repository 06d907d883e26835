"""Verified approval of one gateway process: what a configuration makes of it, and what outlives a configuration."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Final

import msgspec

from callgate.app.observations import ServerObservations
from callgate.approval import ApprovalBounds, Approvals, ApprovalSettings, Attestation, RelyingParty, Request
from callgate.approval.delegation import Delegable
from callgate.approval.overview import who_can_answer
from callgate.approval.pending import PendingApprovals, RequestDecisions
from callgate.approval.reach import Demand
from callgate.approval.request_state import REQUEST_STATE_KEY, MultiRoundState, RequestStateSigner
from callgate.approval.requirements import (
    FRESH_SECONDS,
    FRESH_SECONDS_HTTP,
    CatalogueTool,
    Deployment,
    ServerApprovalPolicy,
    ToolCatalogue,
    read_tools,
)
from callgate.approval.stage import ApprovalStage, ApprovalTimes, CommandOptions
from callgate.config import ApprovalSection, Config, ServerApproval
from callgate.errors import ConfigError, Reason, Refused
from callgate.jsonrpc.reading import decode_leniently
from callgate.keyring import Keyring
from callgate.store import SqlApprovals, SqlPins, Store
from callgate.transport.http.exchange import origin_of

if TYPE_CHECKING:
    from callgate.audit import AuditLog
    from callgate.pinning.identity import ServerRef
    from callgate.pinning.storage import PinRepository

_ANY_LOCAL_PORT: Final = "http://localhost:*"
# Beyond the waiting itself: the server is asked, the store answers.
_MARGIN_SECONDS: Final = 60.0
# How long a server's own question to the caller of an approved call may stay open.
_ROUND_SECONDS: Final = 600.0


class ApprovalWiring(msgspec.Struct, frozen=True):
    """What one configuration needs; `patience` is how long the check may take."""

    approvals: Approvals
    stage: ApprovalStage
    patience: float


class ApprovalRuntime:
    """Made once for a process. Sessions, lists of tools and waiting calls stay when the configuration changes."""

    def __init__(
        self,
        store: Store,
        audit: AuditLog,
        keyring: Keyring,
        closed: Callable[[], Refused | None],
        *,
        address: Callable[[], Awaitable[str]] | None,
        opened: Callable[[Request, str], None],
        options: Callable[[], CommandOptions],
    ) -> None:
        keyring.make(REQUEST_STATE_KEY)
        # Where browsers find the console.
        self._address = address or _nowhere
        # Told of each call that begins to wait, with its page.
        self._opened = opened
        # What commands in its texts end with.
        self._options = options
        self._store = store
        self._audit = audit
        self._closed = closed
        self._shelf = SqlApprovals(store)
        self._seals = RequestStateSigner(lambda: [key.secret for key in keyring.versions(REQUEST_STATE_KEY)])
        self._rounds = MultiRoundState(_ROUND_SECONDS)
        self._lobby = PendingApprovals()
        self._made: tuple[ApprovalSection, Approvals] | None = None
        # Of each configuration that is in force, and whether it is of a server that the person's programs start.
        self._policies: list[tuple[weakref.ref[ApprovalPolicies], bool]] = []

    def furnish(
        self, config: Config, learnt: ServerObservations, places: Mapping[str, ServerRef] | None = None
    ) -> ApprovalWiring:
        """The stage of a configuration, which says what stands behind each name."""
        section = config.approval
        approvals = self.service(section)
        deployment = Deployment(section.server_id, self._shelf.identity, cache(partial(_runs, places or {})))
        gating = ApprovalPolicies(config, learnt.catalogues, deployment)
        learnt.gatings = gating
        self._policies = [(one, local) for one, local in self._policies if one() is not None]
        self._policies.append((weakref.ref(gating), learnt.place is not None))
        approver = Approver(config, self._shelf)
        times = ApprovalTimes(section.park_seconds, section.request_seconds, config.limits.check_seconds)
        stage = ApprovalStage(
            approvals,
            gating=gating.__getitem__,
            deployment=gating.deployment,
            approver=approver,
            named=approver.named,
            page=lambda request: self._page(section, request),
            closed=self._closed,
            seals=self._seals,
            rounds=self._rounds,
            lobby=self._lobby,
            decisions=RequestDecisions(self._shelf, approvals.now, self._store.watch),
            times=times,
            opened=self._opened,
            options=self._options,
            first_use=(section.user or "operator") if section.first_use else None,
        )
        return ApprovalWiring(approvals, stage, section.request_seconds + times.ask + _MARGIN_SECONDS)

    def service(self, section: ApprovalSection) -> Approvals:
        """The same one for as long as nothing about it changes: the console holds on to it."""
        if self._made is None or self._made[0] != section:
            made = Approvals(self._shelf, party(section), settings(section), witness=self._audit.admin)
            self._made = section, made
        return self._made[1]

    async def delegable(self) -> list[Delegable]:
        """The tools that a grant can be about: those that servers listed to this process, and those on record."""
        recorded = await _recorded(SqlPins(self._store))
        found: dict[str, Delegable] = {}
        for one, local in self._policies:
            policies = one()
            if policies is None:
                continue
            if not policies.deployment.known:
                await policies.deployment.find_out()
            for server in policies.servers:
                policy, asked = policies[server], await _asked(Approver(policies.config, self._shelf), server)
                entries = {} if local else dict(recorded.get(server, {}))
                entries |= {tool.name: tool for tool in policy.catalogue.listed}
                for tool in entries.values():
                    made = policy.delegable(tool, local=local, person=asked)
                    found[made.key] = made
        return sorted(found.values(), key=lambda made: (made.server, made.tool))

    async def _page(self, section: ApprovalSection, request: str) -> str:
        base = section.url.rstrip("/") if section.url is not None else await self._address()
        return f"{base}/approve/{request}"


def _runs(places: Mapping[str, ServerRef], server: str) -> str:
    """What stands behind a name, as far as the configuration decides it: not what the server says of itself."""
    at = places.get(server)
    return "" if at is None else hashlib.sha256(at.identify("").server_id.encode()).hexdigest()[:32]


class ApprovalPolicies(dict[str, ServerApprovalPolicy]):
    """The policy of each server by its name, made when it is first asked for."""

    def __init__(self, config: Config, catalogues: dict[str, ToolCatalogue], deployment: Deployment) -> None:
        super().__init__()
        self.deployment = deployment
        self.config = config
        self._catalogues = catalogues

    @property
    def servers(self) -> list[str]:
        """The configured ones, and those that were asked about."""
        return list(dict.fromkeys((*self.config.servers, *self)))

    def __missing__(self, server: str) -> ServerApprovalPolicy:
        configured = self.config.servers.get(server)
        piped = configured is not None and configured.kind == "stdio"
        made = ServerApprovalPolicy(
            server,
            ServerApproval() if configured is None else configured.approval,
            self._catalogues.setdefault(server, ToolCatalogue(fresh=FRESH_SECONDS if piped else FRESH_SECONDS_HTTP)),
            self.deployment,
            strict_defaults=self.config.approval.strict_defaults,
        )
        self[server] = made
        return made


async def demands(config: Config, pins: PinRepository) -> list[Demand] | None:
    """The tools on record that do not take every passkey, decided as for a call of theirs now; None where nobody is
    asked about any call.
    """
    if not config.approves:
        return None
    names = {one.server_id: one.called for one in await pins.servers()}
    gating = ApprovalPolicies(config, {}, Deployment(config.approval.server_id, _no_identity))
    found: dict[tuple[str, str], Demand] = {}
    for seen in await pins.tools():
        # Without the bytes of a text that nobody decided on: then only what the operator says is known.
        entry = read_tools({"tools": [decode_leniently(seen.raw)]}).get(seen.tool)
        for server in () if seen.gone else names.get(seen.server_id, ()):
            policy = gating[server].policy_of(seen.tool, entry)
            if not policy.takes_any:
                whom = None if policy.quorums else named_for(config, server)
                found[server, seen.tool] = Demand(server, seen.tool, policy, whom)
    return [found[one] for one in sorted(found)]


async def _recorded(pins: PinRepository) -> dict[str, dict[str, CatalogueTool]]:
    """The tools on record that are still offered, by the names of their servers."""
    names = {one.server_id: one.called for one in await pins.servers()}
    found: dict[str, dict[str, CatalogueTool]] = {}
    for seen in await pins.tools():
        entry = read_tools({"tools": [decode_leniently(seen.raw)]}).get(seen.tool)
        if entry is None or seen.gone:
            continue
        for server in names.get(seen.server_id, ()):
            found.setdefault(server, {})[seen.tool] = entry
    return found


async def _no_identity(_made: str) -> str:
    raise AssertionError("what a passkey approves needs no identity")


def named_for(config: Config, server: str) -> str | None:
    """Whom the operator names to be asked about a server's calls, enrolled or not."""
    configured = config.servers.get(server)
    return (configured.approval.user if configured is not None else None) or config.approval.user


class Approver:
    """Who is asked: the person named for the server, or for all of them, or the only one who can answer."""

    def __init__(self, config: Config, shelf: SqlApprovals) -> None:
        self._config = config
        self._shelf = shelf

    def named(self, server: str) -> str | None:
        return named_for(self._config, server)

    async def __call__(self, server: str) -> str | None:
        named = self.named(server)
        if named is not None:
            return named if await self._shelf.user(named) is not None else None
        able = who_can_answer(await self._shelf.users(), await self._shelf.credentials())
        if len(able) > 1:
            raise Refused(
                Reason.APPROVAL_UNAVAILABLE,
                "the call needs a person's approval, several people are enrolled and none of them is named",
                advice=f"The operator sets approval.user in callgate.toml to one of: {', '.join(able[:5])}.",
            )
        return able[0] if able else None


async def _asked(approver: Approver, server: str) -> str:
    """The same, for who only wants to know; nobody where it is not clear."""
    try:
        return await approver(server) or ""
    except Refused:
        return ""


def party(section: ApprovalSection) -> RelyingParty:
    """Who asks for signatures, and on which pages they may be made."""
    origins = [] if section.url is None else [origin_of(section.url)]
    origins += section.origins
    if section.rp_id == "localhost":
        origins.append(_ANY_LOCAL_PORT)
    if not origins:
        raise ConfigError(
            f"approval.rp_id is {section.rp_id!r}, and no page is known that people could sign on",
            advice=f'Set approval.url to the console\'s address, such as "https://{section.rp_id}".',
        )
    return RelyingParty(section.rp_id, section.rp_name, tuple(dict.fromkeys(origins)), section.top_origins)


def settings(section: ApprovalSection) -> ApprovalSettings:
    return ApprovalSettings(
        challenge_ms=round(section.challenge_seconds * 1000),
        registration_ms=round(section.enrolment_seconds * 1000),
        ticket_ms=round(section.ticket_seconds * 1000),
        request_ms=round(section.request_seconds * 1000),
        session_ms=round(section.session_seconds * 1000),
        argument_bytes=section.argument_bytes,
        bounds=ApprovalBounds(
            per_user=section.pending_per_user,
            in_all=section.pending,
            requests_per_user=section.pending_per_user,
        ),
        first_use=section.first_use,
        recovery_codes=section.recovery_codes,
        locale=section.locale,
        attestation=Attestation(section.attestation, _roots(section), frozenset(section.aaguids)),
        server_id=section.server_id,
    )


def _roots(section: ApprovalSection) -> tuple[bytes, ...]:
    try:
        return tuple(path.read_bytes() for path in section.attestation_roots)
    except OSError as error:
        raise ConfigError(
            f"approval.attestation_roots: {error.filename} cannot be read: {error.strerror}",
            advice="Give the path of a PEM file that the gateway may read.",
        ) from None


async def _nowhere() -> str:
    raise Refused(Reason.APPROVAL_UNAVAILABLE, "the call needs a person's approval, and no approval page is served")
