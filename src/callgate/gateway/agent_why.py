"""What would become of an agent's call, and which line of which table says so: for commands and pages alike."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from callgate.gateway.agent_known import Known, directories, everybody, is_live, ways_in

if TYPE_CHECKING:
    from callgate.agents.directories import Explained
    from callgate.config import Agents, Config
    from callgate.store import SqlAgents, Store

_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")


class Answer(msgspec.Struct):
    """What would become of a call. `reason` is the one a request would be refused with; empty where it passes."""

    agent: str
    server: str = ""
    tool: str = ""
    reason: str = ""
    lines: list[str] = []
    lookup: Any = None


async def answered(
    config: Config,
    shelf: SqlAgents,
    store: Store,
    answer: Answer,
    *,
    directory: str | None = None,
    fetch: bool = True,
) -> Answer:
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


def _looked_up(answer: Answer, explained: Explained) -> None:
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


def _recognised(answer: Answer, config: Config, rows: Sequence[Known]) -> None:
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


def _judge(answer: Answer, agents: Agents) -> None:
    from callgate.agents.acl import permits
    from callgate.gateway.agent_check import make_acl

    policy = make_acl(agents).policy(answer.agent, answer.server)
    answer.lines += list(_tables(agents, answer))
    if policy.denied:
        answer.reason = answer.reason or "agent_denied"
    elif answer.tool and not permits(policy, answer.tool):
        answer.reason = answer.reason or "tool_denied"


def _tables(agents: Agents, answer: Answer) -> Iterator[str]:
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
    from callgate.agents.acl import permits
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
