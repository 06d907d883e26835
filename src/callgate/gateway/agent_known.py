"""Who is known here and by what, and how that changes: one account for the command line and the console."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from callgate.agents.directories import Directories
    from callgate.agents.model import ApiKey
    from callgate.agents.storage import AgentShelf
    from callgate.config import Config
    from callgate.store import SqlAgents

By: TypeAlias = Literal["signature", "api-key", "oauth"]

FILE: Final = "callgate.toml"
ADDED: Final = "added"


class Known(msgspec.Struct, frozen=True):
    """One way in which an agent is recognised."""

    agent: str
    by: By
    # The thumbprint, the id of the API key or the token's subject; empty for every key of a directory.
    key: str
    directory: str = ""
    name: str = ""
    # Who says so: the configuration, or `callgate agents add`.
    source: str = ADDED
    since: int | None = None
    added_by: str = ""
    expires_at: int | None = None
    revoked_at: int | None = None


async def everybody(config: Config, shelf: SqlAgents) -> list[Known]:
    """Who is known here: by the configuration first, then as added."""
    found = [
        *_configured(config),
        *(
            Known(one.agent, "signature", one.thumbprint, one.directory, one.name, ADDED, one.added_at, one.added_by)
            for one in await shelf.agents()
        ),
    ]
    found += [_key(one) for one in await shelf.keys()]
    return sorted(found, key=lambda one: (one.agent, one.source != FILE, one.since or 0))


def is_live(one: Known, now: int) -> bool:
    """Whether this way in still works."""
    return one.revoked_at is None and (one.expires_at is None or one.expires_at > now)


def ways_in(config: Config) -> Sequence[str]:
    """What is open at the gateway of this configuration, in words; empty where nobody is asked."""
    from callgate.gateway.agent_setup import opened

    is_open = opened(config.agents, config.gateway.address)
    if is_open is None:
        return ()
    pairs = (("signature", is_open.signatures), ("oauth", is_open.bearer), ("api-key", is_open.api_keys))
    return tuple(name for name, on in pairs if on)


@asynccontextmanager
async def directories(config: Config, shelf: AgentShelf) -> AsyncIterator[Directories]:
    """Directories as the gateway of this configuration looks keys up."""
    from callgate.gateway.agent_door import Open
    from callgate.gateway.agent_ways import Furnished

    ways = Furnished(config.agents, Open(signatures=True), shelf, production=False)
    assert ways.directories is not None
    try:
        yield ways.directories
    finally:
        await ways.close()


def rules_of(config: Config, agent: str) -> dict[str, str]:
    """The tables that hold for an agent, and what each says."""
    section = config.agents
    entry = section.known.get(agent)
    found: dict[str, Any] = {}
    if entry is not None:
        found[f"agents.known.{agent}"] = entry
        found |= {f"agents.known.{agent}.servers.{name}": rules for name, rules in entry.servers.items()}
    elif section.default is not None:
        found["agents.default"] = section.default
    found |= {f"agents.servers.{name}": rules for name, rules in section.servers.items()}
    return {place: text for place, rules in found.items() if (text := rules_text(rules))}


def rules_text(rules: Any) -> str:
    """What a table of rules says."""
    parts = []
    if rules.denied:
        parts.append("refuses everything")
    if rules.allow_tools is not None:
        parts.append(f"allows {', '.join(rules.allow_tools) or 'nothing'}")
    if rules.deny_tools:
        parts.append(f"denies {', '.join(rules.deny_tools)}")
    if rules.per_minute is not None:
        parts.append(f"{rules.per_minute:g} calls a minute")
    parts += [f"{name}: {count:g} a minute" for name, count in rules.per_tool.items()]
    return "; ".join(parts)


def added(rows: Sequence[Known], agent: str, now: int, key: str | None = None) -> list[Known]:
    """What can be taken away from an agent: what was added for it and still counts; all of it, or one key."""
    live = [one for one in rows if one.agent == agent and one.source == ADDED and is_live(one, now)]
    return [one for one in live if key is None or key == one.key != ""]


async def take_away(shelf: SqlAgents, rows: Sequence[Known], now: int, key: str | None = None) -> None:
    """Take what was added for one agent away, at once and everywhere."""
    for one in rows:
        if one.by == "api-key":
            await shelf.revoke_key(one.key, now)
    if any(one.by == "signature" for one in rows):
        await shelf.remove_agent(rows[0].agent, key or "")


def counted(rows: Sequence[Known]) -> str:
    """How much of what, in words."""
    kinds = {"signature": "listed key", "api-key": "API key", "oauth": "token subject"}
    counts = {by: sum(one.by == by for one in rows) for by in kinds}
    return ", ".join(f"{count} {kinds[by]}{'s' if count > 1 else ''}" for by, count in counts.items() if count)


def _configured(config: Config) -> Iterator[Known]:
    from callgate.agents.keys import thumbprint
    from callgate.config.agent_rules import LISTED

    for name, one in config.agents.known.items():
        if one.jwk:
            yield Known(name, "signature", thumbprint(one.jwk), "static", source=FILE)
        elif one.directory not in (None, LISTED):
            yield Known(name, "signature", one.thumbprint or "", str(one.directory), source=FILE)
        if one.subject is not None:
            issuer, _, subject = one.subject.partition("#")
            yield Known(name, "oauth", subject, issuer, source=FILE)


def _key(one: ApiKey) -> Known:
    return Known(
        one.agent,
        "api-key",
        one.id,
        since=one.created_at,
        added_by=one.created_by,
        expires_at=one.expires_at,
        revoked_at=one.revoked_at,
    )
