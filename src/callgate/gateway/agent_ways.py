"""The ways to prove who one is, as a configuration opens them: signatures and their directories, tokens, keys.

Loaded when the first of them is needed: a gateway on loopback that nobody shows anything to need not wait for it.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from callgate.agents.apikeys import ApiKeys
from callgate.agents.bearer import Bearer, BearerSettings, Issuer
from callgate.agents.directories.looking import Directories
from callgate.agents.directories.sources import Sources
from callgate.agents.fetching import Fetcher
from callgate.agents.keys import thumbprint
from callgate.agents.kya import KyaPay, KyaPolicy, KyaSettings, attest
from callgate.agents.model import Caller, Signed, Verified
from callgate.agents.reaching import Reach
from callgate.agents.storage import AgentShelf, Listed
from callgate.agents.test_keys import PUBLISHED
from callgate.agents.tokens import Fetch
from callgate.agents.verifying import Settings, Verifier
from callgate.config import Agents, KnownAgent
from callgate.config.agent_rules import LISTED
from callgate.errors import ConfigError, Reason, Refused
from callgate.gateway.agent_door import Headers, Open

_REALM: Final = 'Bearer realm="callgate"'


class Furnished:
    """What one configuration takes as proof. `close` ends what is being fetched."""

    def __init__(self, agents: Agents, is_open: Open, shelf: AgentShelf, *, production: bool) -> None:
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

    def _take_signatures(self, agents: Agents, shelf: AgentShelf) -> None:
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


def _settings(agents: Agents, *, production: bool) -> Settings:
    section = agents.signatures
    return Settings(
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


def _kya(agents: Agents, fetch: Fetch, shelf: AgentShelf) -> KyaPolicy:
    section = agents.kya
    if section.mode == "off":
        return KyaPolicy()
    settings = KyaSettings(section.issuers, section.audience, section.environment, section.max_life_seconds)
    return KyaPolicy(section.mode, KyaPay(settings, fetch, shelf, time.time))


def _now_ms() -> int:
    return round(time.time() * 1000)
