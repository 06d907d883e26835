"""What a configuration takes as proof of who calls. Loaded where somebody has to prove it."""

from __future__ import annotations

import time

import msgspec

from callgate.agents.apikeys import ApiKeys
from callgate.agents.directories.lookup import Directories, Sources
from callgate.agents.fetching import Fetcher, Reach
from callgate.agents.keys import thumbprint
from callgate.agents.kya import KyaPay, KyaPolicy, KyaSettings
from callgate.agents.nonces import StrangersShare
from callgate.agents.proofs import Proofs
from callgate.agents.stage import AcceptedProofs
from callgate.agents.storage import AgentRepository, Listed
from callgate.agents.tokens import Bearer, BearerSettings, Fetch, Issuer
from callgate.agents.verifying import PUBLISHED, Verifier, VerifySettings
from callgate.config import AgentsSection, KnownAgent
from callgate.config.agents import LISTED
from callgate.errors import ConfigError, Refused


def configured_proofs(
    agents: AgentsSection, is_open: AcceptedProofs, shelf: AgentRepository, *, production: bool
) -> Proofs:
    """What one configuration takes as proof."""
    fetcher = Fetcher(_reach(agents))
    issuers = fetcher.apart()

    async def fetch(url: str) -> bytes:
        return (await issuers.fetch(url)).body

    directories = strict = lenient = None
    if is_open.signatures:
        directories = Directories(_sources(agents), shelf, fetcher=fetcher)
        required = agents.signatures.content_digest == "required" or agents.names_tools
        settings = _settings(agents, production=production)
        share = StrangersShare()
        lenient = Verifier(settings, directories.key, shelf, share=share, later=shelf)
        digest = msgspec.structs.replace(settings, content_digest="required" if required else "optional")
        strict = Verifier(digest, directories.key, shelf, share=share, later=shelf)
    return Proofs(
        directories=directories,
        strict=strict,
        lenient=lenient,
        bearer=_bearer(agents, fetch) if is_open.bearer else None,
        api_keys=ApiKeys(shelf, _now_ms) if is_open.api_keys else None,
        kya=_kya(agents, fetch, shelf),
    )


def _reach(agents: AgentsSection) -> Reach:
    return Reach(networks=agents.signatures.allow_addresses)


def _sources(agents: AgentsSection) -> Sources:
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


def _listed(agents: AgentsSection) -> list[Listed]:
    """AgentsSection of the configuration that sign, as a directory of agents has them."""
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


def _settings(agents: AgentsSection, *, production: bool) -> VerifySettings:
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


def _bearer(agents: AgentsSection, fetch: Fetch) -> Bearer:
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


def _kya(agents: AgentsSection, fetch: Fetch, shelf: AgentRepository) -> KyaPolicy:
    section = agents.kya
    if section.mode == "off":
        return KyaPolicy()
    settings = KyaSettings(section.issuers, section.audience, section.environment, section.max_life_seconds)
    return KyaPolicy(section.mode, KyaPay(settings, fetch, shelf, time.time))


def _now_ms() -> int:
    return round(time.time() * 1000)
