"""Which agents are known here and by what, how that changes, and what would become of a call of theirs."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from callgate.agents.directories import Directories, Explained
    from callgate.agents.model import ApiKey
    from callgate.agents.storage import AgentRepository
    from callgate.config import AgentsSection, Config
    from callgate.store import SqlAgents, Store

By: TypeAlias = Literal["signature", "api-key", "oauth"]

FILE: Final = "callgate.toml"
ADDED: Final = "added"


class RecognisedAgent(msgspec.Struct, frozen=True):
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


async def everybody(config: Config, shelf: SqlAgents) -> list[RecognisedAgent]:
    """Who is known here: by the configuration first, then as added."""
    found = [
        *_configured(config),
        *(
            RecognisedAgent(
                one.agent, "signature", one.thumbprint, one.directory, one.name, ADDED, one.added_at, one.added_by
            )
            for one in await shelf.agents()
        ),
    ]
    found += [_key(one) for one in await shelf.keys()]
    return sorted(found, key=lambda one: (one.agent, one.source != FILE, one.since or 0))


def is_live(one: RecognisedAgent, now: int) -> bool:
    """Whether this way in still works."""
    return one.revoked_at is None and (one.expires_at is None or one.expires_at > now)


def ways_in(config: Config) -> Sequence[str]:
    """What is open at the gateway of this configuration, in words; empty where nobody is asked."""
    from callgate.app.agents import accepted_proofs

    is_open = accepted_proofs(config.agents, config.gateway.address)
    if is_open is None:
        return ()
    pairs = (("signature", is_open.signatures), ("oauth", is_open.bearer), ("api-key", is_open.api_keys))
    return tuple(name for name, on in pairs if on)


@asynccontextmanager
async def directories(config: Config, shelf: AgentRepository) -> AsyncIterator[Directories]:
    """Directories as the gateway of this configuration looks keys up."""
    from callgate.agents.stage import AcceptedProofs
    from callgate.app.agent_proofs import configured_proofs

    ways = configured_proofs(config.agents, AcceptedProofs(signatures=True), shelf, production=False)
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


def added(rows: Sequence[RecognisedAgent], agent: str, now: int, key: str | None = None) -> list[RecognisedAgent]:
    """What can be taken away from an agent: what was added for it and still counts; all of it, or one key."""
    live = [one for one in rows if one.agent == agent and one.source == ADDED and is_live(one, now)]
    return [one for one in live if key is None or key == one.key != ""]


async def take_away(shelf: SqlAgents, rows: Sequence[RecognisedAgent], now: int, key: str | None = None) -> None:
    """Take what was added for one agent away, at once and everywhere."""
    for one in rows:
        if one.by == "api-key":
            await shelf.revoke_key(one.key, now)
    if any(one.by == "signature" for one in rows):
        await shelf.remove_agent(rows[0].agent, key or "")


def counted(rows: Sequence[RecognisedAgent]) -> str:
    """How much of what, in words."""
    kinds = {"signature": "listed key", "api-key": "API key", "oauth": "token subject"}
    counts = {by: sum(one.by == by for one in rows) for by in kinds}
    return ", ".join(f"{count} {kinds[by]}{'s' if count > 1 else ''}" for by, count in counts.items() if count)


def _configured(config: Config) -> Iterator[RecognisedAgent]:
    from callgate.agents.keys import thumbprint
    from callgate.config.agents import LISTED

    for name, one in config.agents.known.items():
        if one.jwk:
            yield RecognisedAgent(name, "signature", thumbprint(one.jwk), "static", source=FILE)
        elif one.directory not in (None, LISTED):
            yield RecognisedAgent(name, "signature", one.thumbprint or "", str(one.directory), source=FILE)
        if one.subject is not None:
            issuer, _, subject = one.subject.partition("#")
            yield RecognisedAgent(name, "oauth", subject, issuer, source=FILE)


def _key(one: ApiKey) -> RecognisedAgent:
    return RecognisedAgent(
        one.agent,
        "api-key",
        one.id,
        since=one.created_at,
        added_by=one.created_by,
        expires_at=one.expires_at,
        revoked_at=one.revoked_at,
    )


_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")


class CallForecast(msgspec.Struct):
    """What would become of a call. `reason` is the one a request would be refused with; empty where it passes."""

    agent: str
    server: str = ""
    tool: str = ""
    reason: str = ""
    lines: list[str] = []
    lookup: Any = None


async def forecast(
    config: Config,
    shelf: SqlAgents,
    store: Store,
    answer: CallForecast,
    *,
    directory: str | None = None,
    fetch: bool = True,
) -> CallForecast:
    """The answer, filled in. A key is looked up in its directory, which may be fetched; not so without `fetch`."""
    who = answer.agent
    if (blocked := await _blocked(config, store)) is not None:
        answer.lines.append(blocked)
        answer.reason = "blocked_by_policy"
    by_name = [one for one in await everybody(config, shelf) if one.agent == who]
    if fetch and not by_name and who not in config.agents.known and _THUMBPRINT.fullmatch(who):
        async with directories(config, shelf) as found:
            explained = await found.why(who, directory)
        _looked_up(answer, explained)
    else:
        _recognised(answer, config, by_name)
    if answer.reason not in ("unknown_keyid", "agent_not_in_directory"):
        _judge(answer, config.agents)
    return answer


async def _blocked(config: Config, store: Store) -> str | None:
    from callgate.store import read_block

    if (await store.read(read_block)).on or config.policy.block_all:
        return "The kill switch is on: everybody is refused until `callgate block-all off`."
    return None


def _looked_up(answer: CallForecast, explained: Explained) -> None:
    """What the lookup of a key did, step by step."""
    answer.lookup = msgspec.to_builtins(explained)
    for step in explained.steps:
        answer.lines.append(f"looked in {step.where}: {step.outcome}" + (f" ({step.text})" if step.text else ""))
    if not explained.steps:
        answer.lines.append("There is no directory to look in: name the one of its requests with --directory URL.")
    if explained.agent is not None:
        answer.agent = explained.agent.agent
        answer.lines.append(f"The key is agent {explained.agent.agent}, as {explained.agent.by or 'listed'} says.")
    elif explained.directory:
        answer.lines.append("The key is known, and nobody said whose it is: `callgate agents add` does.")
    answer.reason = answer.reason or explained.reason


def _recognised(answer: CallForecast, config: Config, rows: Sequence[RecognisedAgent]) -> None:
    """By what an agent of this name would be recognised."""
    now = round(time.time() * 1000)
    ways = ways_in(config)
    usable = False
    for one in rows:
        state = "" if is_live(one, now) else (" (revoked)" if one.revoked_at is not None else " (expired)")
        closed = "" if one.by in ways else ", but that is no way in here"
        where = f" of {one.directory}" if one.directory else ""
        answer.lines.append(f"known by {one.by}: {one.key or 'every key'}{where}, from {one.source}{state}{closed}")
        usable = usable or (not state and not closed)
    if not ways:
        answer.lines.append("Nobody is asked who they are here: agents.mode is off.")
    elif not usable:
        answer.lines.append("Nothing that works tells who this is: `callgate agents add` gives it a key.")
        fits = "signature" in ways
        answer.reason = answer.reason or ("agent_not_in_directory" if fits else "credentials_invalid")


def _judge(answer: CallForecast, agents: AgentsSection) -> None:
    from callgate.agents.limits import permits
    from callgate.app.agents import make_acl

    policy = make_acl(agents).policy(answer.agent, answer.server)
    answer.lines += list(_tables(agents, answer))
    if policy.denied:
        answer.reason = answer.reason or "agent_denied"
    elif answer.tool and not permits(policy, answer.tool):
        answer.reason = answer.reason or "tool_denied"


def _tables(agents: AgentsSection, answer: CallForecast) -> Iterator[str]:
    """Which table says what of this call, in the order in which they count."""
    entry = agents.known.get(answer.agent)
    here = agents.servers.get(answer.server)
    name = f"agents.known.{answer.agent}"
    if entry is None:
        places = [("agents.default", agents.default), (f"agents.servers.{answer.server}", here)]
    else:
        places = [(name, entry), (f"{name}.servers.{answer.server}", entry.servers.get(answer.server))]
        places.append((f"agents.servers.{answer.server}", here))
    written = [(place, rules) for place, rules in places if rules is not None]
    if not written:
        yield "No rule is for it: it may call every tool."
    for place, rules in written:
        # The server's own list of allowed tools is for agents without an entry.
        allows = entry is None or not place.startswith("agents.servers.")
        yield from _said(place, rules, answer.tool, allows=allows)
    if not answer.server and (agents.servers or (entry is not None and entry.servers)):
        yield "Some rules are for single servers: add --server NAME to count them in."


def _said(place: str, rules: Any, tool: str, *, allows: bool) -> Iterator[str]:
    from callgate.agents.limits import permits
    from callgate.agents.model import ToolPolicy

    said = False
    if rules.denied:
        said = True
        yield f"[{place}] denied = true: everything is refused"
    for glob in rules.deny_tools if tool else ():
        if not permits(ToolPolicy(deny=(glob,)), tool):
            said = True
            yield f"[{place}] deny_tools has {glob!r}: {tool} is refused"
    if tool and allows and rules.allow_tools is not None:
        said = True
        fits = [glob for glob in rules.allow_tools if permits(ToolPolicy(allow=(glob,)), tool)]
        yield f"[{place}] allow_tools has {fits[0]!r}" if fits else f"[{place}] allow_tools does not have {tool}"
    if rules.per_minute is not None:
        yield f"[{place}] {rules.per_minute:g} calls a minute are let through"
    if not said:
        yield f"[{place}] has nothing against it"
