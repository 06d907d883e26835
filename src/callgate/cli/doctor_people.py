"""`callgate doctor` on what waits for a person, and whether there is one who can answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from callgate.cli.doctor_findings import Finding, Level, Setup, count, ok, sentence, some

if TYPE_CHECKING:
    from callgate.approval import Credential, User
    from callgate.approval.reach import Demand


def tools(setup: Setup) -> Iterator[Finding]:
    """Which tools nobody has reviewed yet, and names in the configuration that no server lists."""
    from callgate.cli import pinned

    mode = setup.settings.pinning.mode
    if mode == "off":
        yield Finding("note", "Pinning is off: tools are not reviewed, and a changed one is not noticed.")
        return
    with pinned.reading(setup.path, setup.url) as opened:
        review = opened.wait(opened.pins.review())
    if not review.servers:
        yield Finding("note", "No server's tools were met yet.", pinned.HOW_TOOLS_COME)
        return
    if review.waits:
        waiting = [tool.tool for tool in review.pending]
        what = (
            f"{count(len(waiting), 'tool')} for review: {some(waiting)}" if waiting else "Servers for a look together"
        )
        effect = "agents do not see them" if mode == "enforce" else "they are only observed"
        yield Finding("warning", sentence(f"{what}; {effect}"), "", (setup.command("review"),))
    else:
        known = sum(len(server.tools) for server in review.servers)
        yield ok(f"{count(known, 'tool')} of {count(len(review.servers), 'server')} met; none waits for review.")
    listed = {name: [tool.tool for tool in server.tools] for server in review.servers for name in server.seen.called}
    for name, server in setup.settings.servers.items():
        lost = [] if name not in listed else _unmatched(server.approval.tools, listed[name])
        if lost:
            text = f"{name} lists no tool {some(lost)}, which [servers.{name}.approval] says needs a person."
            yield Finding("warning", text, "Look for a misspelt name: the tool that was meant needs nobody.")


def _unmatched(patterns: tuple[str, ...], tools: list[str]) -> list[str]:
    return [one for one in patterns if not any(fnmatchcase(tool, one) for tool in tools)]


def people(setup: Setup) -> Iterator[Finding]:
    """Can those who are asked answer?"""
    from callgate.app.approval import demands
    from callgate.cli.setting_up import asked, first_name
    from callgate.store import SqlApprovals, SqlPins

    config = setup.settings
    if not config.has_console:
        return

    async def look() -> tuple[dict[str, User], dict[str, list[Credential]], list[Demand] | None]:
        if setup.store is None:
            return {}, {}, None
        shelf = SqlApprovals(setup.store)
        users = {user.name: user for user in await shelf.users()}
        keys: dict[str, list[Credential]] = {}
        for held in await shelf.credentials():
            keys.setdefault(held.user, []).append(held)
        return users, keys, await demands(config, SqlPins(setup.opened))

    people, keys, demanding = asyncio.run(look())
    users, able = {name: str(user.role) for name, user in people.items()}, set(keys)
    if not able:
        name = first_name(config)
        can = "approve calls" if config.approves else "sign in to the console"
        advice = "Type this, and open the link that it prints:"
        level: Level = "warning" if config.approves else "note"
        yield Finding(level, f"Nobody has a passkey, so nobody can {can}.", advice, (setup.command("enroll", name),))
        return
    yield from _roles(setup, users, able)
    if not config.approves:
        yield ok(f"{some(sorted(able))} can sign in to the console.")
        return
    named = asked(config)
    if None in named and len(users) > 1:
        text = f"Several people are here ({some(users)}) and none is named, so calls that need a person are refused."
        yield Finding("problem", text, "Write who is asked as `user` under [approval] in callgate.toml.")
    wanted = {name for name in named if name is not None} | (set(users) if None in named and len(users) == 1 else set())
    for name in sorted(wanted):
        found = _answer(setup, name, users, able)
        yield found
        if found.level == "ok":
            yield from _kinds(setup, people[name], keys[name], demanding or [])
    for name in sorted(set(config.pinning.reviewers) - set(users)):
        text = f"pinning.reviewers names {name}, who is not known here."
        yield Finding("warning", text, "Correct the name, or set them up:", (setup.command("enroll", name),))


def _answer(setup: Setup, name: str, users: dict[str, str], able: set[str]) -> Finding:
    """Whether one who is asked can answer."""
    enrol = (setup.command("enroll", name),)
    if name not in users:
        known = f" (people here: {some(users)})" if users else ""
        return Finding("problem", f"{name} is asked to approve calls and is not known here{known}.", "", enrol)
    if name not in able:
        return Finding("problem", f"{name} is asked to approve calls and has no passkey.", "Open its link:", enrol)
    if users[name] == "viewer":
        text = f"{name} is asked to approve calls and is a viewer, who may only look."
        return Finding("problem", text, "", (setup.command("users", "role", name, "approver"),))
    return ok(f"{name} is asked to approve calls and has a passkey.")


def _kinds(setup: Setup, user: User, held: list[Credential], demands: list[Demand]) -> Iterator[Finding]:
    """What each passkey of somebody who is asked approves, and which kind they lack."""
    from callgate.approval.reach import demanded, how_to_add, lacking, reach

    for one in held:
        yield ok(f"{user.name}'s passkey {one.name!r}: {reach(user, one, demands)}")
    if without := lacking(held, demands, user.name):
        text = f"{user.name} has no passkey of the kind that some tools demand, so nobody can approve calls of them. "
        command = setup.command("enroll", user.name)
        advice = how_to_add(without[0].policy, "this command")
        yield Finding("warning", text + demanded(without), advice, (command,))


def _roles(setup: Setup, users: dict[str, str], able: set[str]) -> Iterator[Finding]:
    if not any(users.get(name) == "operator" for name in able):
        text = "Nobody with a passkey is an operator, so tools and people cannot be managed in the console."
        one = min(able)
        yield Finding("note", text, "Make somebody one:", (setup.command("users", "role", one, "operator"),))
