"""Who calls, for one gateway process: what a configuration makes of it, and what outlives a configuration."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from callgate.agents.acl import MAX_NAME, Acl, folded, restricts
from callgate.agents.apikeys import ApiKeys
from callgate.agents.directories.lookup import Directories, Sources
from callgate.agents.fetching import Fetcher, Reach
from callgate.agents.keys import thumbprint
from callgate.agents.kya import KyaPay, KyaPolicy, KyaSettings, attest
from callgate.agents.limits import Allowance, Limit, Limiter, MemoryLimiter, StoreLimiter
from callgate.agents.model import AgentPolicy, Signed, ToolPolicy, Verified
from callgate.agents.stage import AcceptedProofs, AgentCheck, Headers, ReportProof, RequestAuthenticator
from callgate.agents.storage import AgentRepository, Listed, Take
from callgate.agents.tokens import Bearer, BearerSettings, Fetch, Issuer
from callgate.agents.verifying import PUBLISHED, Verifier, VerifySettings
from callgate.config import AgentRules, Agents, Config, KnownAgent
from callgate.config.agent_rules import LISTED
from callgate.config.rules import Address
from callgate.errors import CallgateError, ConfigError, Reason, Refused
from callgate.gate import Caller, Check, no_objection
from callgate.store import SqlAgents, Store

_FREE: Final = Allowance()


class _Calls(Limit, frozen=True):
    """A limit that several calls of one request come under."""

    calls: int = 1

    def take(self, agent: str) -> Take:
        return replace(super().take(agent), cost=float(self.calls))


class CallLimits:
    """The limits as an operator wrote them. An agent with an entry of its own is counted by that entry.

    Its own limit, that of one server and that of one tool each count by themselves: a call has to be within all.
    """

    def __init__(self, agents: Agents, limiter: Limiter) -> None:
        self._agents = agents
        self._limiter = limiter
        self.any = any(rules.limits for rules in agents.rules())

    async def take(self, agent: str, server: str, tools: Sequence[str]) -> Allowance:
        """Count these calls, all of them or none."""
        found = Counter(limit for tool in tools for limit in self._of(agent, server, tool))
        if not found:
            return _FREE
        limits = [_Calls(one.name, one.per_minute, one.burst, one.of, calls) for one, calls in found.items()]
        never = [one for one in limits if one.calls > one.most]
        if never:
            # However long one waits: so many never pass at once.
            wait = max(one.window for one in never)
            over = tuple(dict.fromkeys(one.name for one in never))
            return Allowance(ok=False, retry_after=wait, headers=(("Retry-After", str(wait)),), over=over)
        return await self._limiter.take(agent, limits)

    def _of(self, agent: str, server: str, tool: str) -> Iterator[Limit]:
        entry = self._agents.known.get(agent)
        if entry is not None:
            yield from _limits(entry, "agent", "", server, tool)
            narrower = entry.servers.get(server)
        else:
            if self._agents.default is not None:
                yield from _limits(self._agents.default, "agent", "", server, tool)
            narrower = self._agents.servers.get(server)
        if narrower is not None:
            yield from _limits(narrower, "server", server, server, tool)


def _limits(rules: AgentRules, name: str, of: str, server: str, tool: str) -> Iterator[Limit]:
    if rules.per_minute is not None:
        yield Limit(name, rules.per_minute, rules.burst, of)
    for glob, per_minute in rules.per_tool.items():
        if restricts(glob, tool):
            # By tool, not by pattern: `get_*` lets each of these tools be called so often. As a careless server may
            # read the name: nobody is to be counted anew for spelling it otherwise.
            yield Limit("tool", per_minute, None, f"{server}/{folded(tool[:MAX_NAME])}")
            break


_REALM: Final = 'Bearer realm="callgate"'


class ConfiguredProofs:
    """What one configuration takes as proof. `close` ends what is being fetched."""

    def __init__(self, agents: Agents, is_open: AcceptedProofs, shelf: AgentRepository, *, production: bool) -> None:
        self._production = production
        self.directories: Directories | None = None
        self._strict: Verifier | None = None
        self._lenient: Verifier | None = None
        self._fetcher = Fetcher(_reach(agents))
        self._issuers = self._fetcher.apart()
        if is_open.signatures:
            self._take_signatures(agents, shelf)
        self._bearer = _bearer(agents, self._fetch) if is_open.bearer else None
        self._api_keys = ApiKeys(shelf, _now_ms) if is_open.api_keys else None
        self._kya = _kya(agents, self._fetch, shelf)
        self.kya_header = self._kya.header

    def _take_signatures(self, agents: Agents, shelf: AgentRepository) -> None:
        self.directories = Directories(_sources(agents), shelf, fetcher=self._fetcher)
        required = agents.signatures.content_digest == "required" or agents.names_tools
        settings = _settings(agents, production=self._production)
        self._lenient = Verifier(settings, self.directories.key, shelf)
        digest = msgspec.structs.replace(settings, content_digest="required" if required else "optional")
        self._strict = Verifier(digest, self.directories.key, shelf)

    async def signed(self, request: Signed, *, body: bool) -> Caller:
        """Who signed a request. Without a body of its own it has nothing that a digest could bind."""
        verifier = self._strict if body else self._lenient
        assert verifier is not None
        assert self.directories is not None
        verified = await verifier.verify(request)
        found = await self.directories.agent(verified)
        if found is None:
            raise Refused(Reason.AGENT_NOT_IN_DIRECTORY)
        return _caller(verified, found.agent, found.name)

    async def token(self, text: str) -> Caller:
        """Whose token this is."""
        if self._bearer is None:
            raise Refused(Reason.CREDENTIALS_INVALID, "this is no API key of this gateway")
        return await self._bearer.verify(text)

    async def api_key(self, text: str) -> Caller:
        """Whose key this is."""
        assert self._api_keys is not None
        return await self._api_keys.verify(text)

    async def attested(self, headers: Headers, caller: Caller) -> Caller:
        """The same caller, with whom it acts for by its KYA token; raises Refused."""
        found = await attest(self._kya, headers, caller)
        if found is None:
            return caller
        claims = {**caller.claims, "kya": found.claims}
        return msgspec.structs.replace(caller, principal=found.principal, claims=claims)

    def challenge(self, refused: Refused) -> str | None:
        """What a refusal says of how to get in (RFC 6750 §3); nothing where only signatures do."""
        if self._bearer is not None:
            return self._bearer.challenge(refused)
        if self._api_keys is None or refused.status != Reason.CREDENTIALS_REQUIRED.status:
            return None
        return f'{_REALM}, error="invalid_token"' if refused.reason is Reason.CREDENTIALS_INVALID else _REALM

    def documents(self) -> dict[str, bytes]:
        """What is published at well-known paths: how to get a token (RFC 9728)."""
        if self._bearer is None:
            return {}
        return {self._bearer.metadata_path: msgspec.json.encode(dict(self._bearer.metadata()))}

    async def close(self) -> None:
        if self.directories is not None:
            await self.directories.close()

    async def _fetch(self, url: str) -> bytes:
        return (await self._issuers.fetch(url)).body


def _caller(verified: Verified, agent: str, name: str) -> Caller:
    return Caller(
        id=agent,
        source="web-bot-auth",
        key=verified.keyid,
        directory=verified.directory,
        name=name,
        digest_verified=verified.digest_verified,
    )


def _reach(agents: Agents) -> Reach:
    return Reach(networks=agents.signatures.allow_addresses)


def _sources(agents: Agents) -> Sources:
    section = agents.signatures
    named = section.agents_directory
    return Sources(
        jwks_urls=section.directories,
        discovery=section.discovers,
        allowed=section.origins,
        inline_keys=section.data_uris,
        kid_fallback=section.kid_fallback or section.profile == "legacy",
        signed="required" if section.require_signed_directories else "optional",
        agents=tuple(_listed(agents)),
        agent_urls=() if named is None else (named,),
        # Where agents are to be listed, nobody is let in while there is none yet.
        listed_only=(agents.lists or None) if agents.strangers is None else agents.strangers == "refuse",
        reach=_reach(agents),
    )


def _listed(agents: Agents) -> list[Listed]:
    """Agents of the configuration that sign, as a directory of agents has them."""
    found = []
    for name, one in agents.known.items():
        if not agents.signatures.test_keys and _published(one):
            raise ConfigError(
                f"agents.known.{name}: the private half of this key is printed in a specification",
                advice="Make a key of its own with `callgate agents keygen`; test_keys is for trying things out.",
            )
        if one.jwk:
            found.append(Listed(name, "", "static", msgspec.json.encode(one.jwk)))
        elif one.directory not in (None, LISTED):
            found.append(Listed(name, one.thumbprint or "", str(one.directory)))
    return found


def _published(one: KnownAgent) -> bool:
    try:
        name = thumbprint(one.jwk) if one.jwk else one.thumbprint
    except (Refused, KeyError):
        return False  # no key at all, which the directory says better
    return name in PUBLISHED


def _settings(agents: Agents, *, production: bool) -> VerifySettings:
    section = agents.signatures
    return VerifySettings(
        profile=section.profile,
        max_window=section.max_window_seconds,
        nonce=section.nonce,
        rsa_pss_sha256=section.rsa_pss_sha256,
        kid_fallback=section.kid_fallback,
        allow_test_keys=section.test_keys,
        production=production,
    )


def _bearer(agents: Agents, fetch: Fetch) -> Bearer:
    section = agents.oauth
    names: dict[str, dict[str, str]] = {issuer: {} for issuer in section.issuers}
    for name, one in agents.known.items():
        if one.subject is not None:
            issuer, _, subject = one.subject.partition("#")
            names[issuer][subject] = name
    issuers = tuple(
        Issuer(issuer, url, algorithms=section.algorithms, agents=names[issuer])
        for issuer, url in section.issuers.items()
    )
    resource = section.resource or agents.external_url or ""
    return Bearer(BearerSettings(resource, issuers, section.audiences, section.scopes), fetch, time.time)


def _kya(agents: Agents, fetch: Fetch, shelf: AgentRepository) -> KyaPolicy:
    section = agents.kya
    if section.mode == "off":
        return KyaPolicy()
    settings = KyaSettings(section.issuers, section.audience, section.environment, section.max_life_seconds)
    return KyaPolicy(section.mode, KyaPay(settings, fetch, shelf, time.time))


def _now_ms() -> int:
    return round(time.time() * 1000)


log = logging.getLogger("callgate.agents")

_PRUNE_SECONDS: Final = 300.0
# A directory may have to be fetched before anybody knows who calls.
_FETCH_SECONDS: Final = 12.0


def accepted_proofs(agents: Agents, address: Address) -> AcceptedProofs | None:
    """Which ways in a gateway that listens there has; None where nobody is asked."""
    mode = agents.in_force(address)
    if mode == "off":
        return None
    signs = agents.signatures.enabled
    if signs is None:
        # Who may be anybody is not let in by a directory of their own, unless the operator said so.
        signs = mode == "optional" or "signatures" in agents.kinds
    return AcceptedProofs(
        required=mode == "required",
        signatures=signs,
        bearer=bool(agents.oauth.issuers),
        api_keys=agents.api_keys.enabled is not False,
        kya=agents.kya.mode != "off",
        digest=agents.names_tools or agents.signatures.content_digest == "required",
    )


def agent_check(config: Config, address: Address) -> Check:
    """What the gate asks of callers; nothing, where any caller may do anything."""
    agents, is_open = config.agents, accepted_proofs(config.agents, address)
    if is_open is None or not (is_open.required or is_open.kya or any(True for _ in agents.rules())):
        return no_objection
    return AgentCheck(make_acl(agents), required=is_open.required)


class AgentWiring:
    """What one configuration needs at its HTTP door. What verifies is made when it is first needed."""

    def __init__(
        self,
        config: Config,
        address: Address,
        shelf: SqlAgents,
        *,
        is_open: AcceptedProofs,
        limiter: Limiter,
        tell: ReportProof,
    ) -> None:
        agents = config.agents
        self._agents = agents
        self._open = is_open
        self._shelf = shelf
        self._production = agents.signatures.production is True or (
            agents.signatures.production is None and not address.is_loopback
        )
        self.door = RequestAuthenticator(
            is_open,
            lambda: self.ways,
            acl=make_acl(agents),
            limits=CallLimits(agents, limiter),
            external=_external(agents.external_url),
            names=config.gateway.allowed_hosts,
            seconds=max(config.limits.check_seconds, _FETCH_SECONDS),
            tell=tell,
        )
        # What is published at well-known paths.
        self.documents: dict[str, bytes] = {}
        if agents != Agents():
            # Mistakes are told at the start, not by the first request.
            self.documents = self.ways.documents()

    @cached_property
    def ways(self) -> ConfiguredProofs:

        return ConfiguredProofs(self._agents, self._open, self._shelf, production=self._production)

    async def close(self) -> None:
        if "ways" in self.__dict__:
            await self.ways.close()


class AgentRuntime:
    """Made once for a process. Nonces, budgets and fetched directories stay when the configuration changes."""

    def __init__(self, store: Store, tell: ReportProof) -> None:
        self.shelf = SqlAgents(store)
        self._tell = tell
        self._alone: Limiter = MemoryLimiter()
        self._together: Limiter = StoreLimiter(self.shelf)
        self._made: tuple[Config, AgentWiring] | None = None
        self._used = False
        self._tasks: set[asyncio.Task[None]] = set()

    def furnish(self, config: Config, address: Address) -> AgentWiring | None:
        """The reception of a configuration; ConfigError where it contradicts itself."""
        is_open = accepted_proofs(config.agents, address)
        old = self._made
        if is_open is None:
            self._made = None
        elif old is None or _concerning(old[0]) != _concerning(config):
            limiter = self._together if config.agents.shared_limits else self._alone
            self._made = (
                config,
                AgentWiring(config, address, self.shelf, is_open=is_open, limiter=limiter, tell=self._told),
            )
        if old is not None and (self._made is None or self._made[1] is not old[1]):
            self._later(old[1].close())
        return None if self._made is None else self._made[1]

    async def start(self) -> None:
        self._later(self._prune())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._made is not None:
            await self._made[1].close()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _told(self, source: str, reason: Reason | None) -> None:
        self._used = self._used or source != "none"
        self._tell(source, reason)

    async def _prune(self) -> None:
        """Drop nonces and budgets whose time is over, where there can be any."""
        while True:
            await asyncio.sleep(_PRUNE_SECONDS)
            if not self._used:
                continue
            self._used = False
            try:
                await self.shelf.prune(round(time.time() * 1000))
            except CallgateError as error:
                log.warning("nonces not pruned", extra={"fields": {"error": str(error)}})


def _concerning(config: Config) -> tuple[object, ...]:
    return config.agents, config.limits.check_seconds, config.gateway.allowed_hosts


def _external(url: str | None) -> tuple[str, str] | None:
    if url is None:
        return None
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def make_acl(agents: Agents) -> Acl:
    """The rules of a configuration."""
    return Acl(
        (
            AgentPolicy(name, _policy(one), {server: _policy(rules) for server, rules in one.servers.items()})
            for name, one in agents.known.items()
        ),
        default=None if agents.default is None else _policy(agents.default),
        servers={server: _policy(rules) for server, rules in agents.servers.items()},
    )


def _policy(rules: AgentRules) -> ToolPolicy:
    return ToolPolicy(rules.allow_tools, rules.deny_tools, rules.denied, rules.per_minute, rules.burst)
