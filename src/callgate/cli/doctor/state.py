"""`callgate doctor` on the store, keys, clock and kill switch, and on people and what waits for them."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from callgate.approval import Credential, User
from callgate.approval.model import counting, people_in
from callgate.approval.reach import Demand, demanded, how_to_add, lacking, reach
from callgate.audit import note
from callgate.audit.reading import entries
from callgate.audit.storage import Filter
from callgate.cli.check import approval_notes, listed_tools
from callgate.cli.common import connect, file_to_write, keys_of, store_file
from callgate.cli.doctor.findings import Finding, Level, Setup, finding_of, name_list, ok, sentence
from callgate.cli.printing import count
from callgate.cli.serve import first_name, who_is_asked
from callgate.cli.services import WHERE_TOOLS_COME_FROM, open_pins
from callgate.config.approval import ServerApproval, ToolDemand
from callgate.errors import StoreError
from callgate.gate import Quorum
from callgate.keyring import CHECKPOINT, SEAL

Groups: TypeAlias = Mapping[str, frozenset[str]]

_MIB: Final = 2**20
_LITTLE: Final = 500 * _MIB
_TOO_LITTLE: Final = 20 * _MIB
# Clocks of machines that share a store differ a little; a minute is no longer little.
_AHEAD_MS: Final = 60_000
_DRIFT_SECONDS: Final = 2.0
# No record and no release is older: a clock before this was never set.
_EPOCH: Final = 1_767_225_600


def store(setup: Setup) -> Iterator[Finding]:
    """Does the store open, is its schema ours, is it whole, private, and is there room?"""
    from callgate.store import inspect

    file = store_file(setup.settings)
    if file is not None:
        yield from _room(file)
        if not file.exists():
            setup.use(None)
            yield from _none_yet(setup, file)
            return
    try:
        opened = connect(setup.settings)
    except StoreError as error:
        yield finding_of(error)
        return
    report = inspect.inspect(opened, quick=True)
    if not report.ok:
        opened.close_sync()
        for problem in report.problems:
            yield _damage(setup, problem)
        return
    setup.use(opened)
    megabytes = max(1, round(report.bytes / _MIB))
    yield ok(f"{report.place} can be used: schema {report.schema}, {count(report.records, 'record')}, {megabytes} MiB.")


def _none_yet(setup: Setup, file: Path) -> Iterator[Finding]:
    folder = next(one for one in file.parents if one.exists())
    if not os.access(folder, os.W_OK):
        text = f"There is no store at {file} yet, and it cannot be made: {folder} cannot be written."
        yield Finding("problem", text, "Write another place as `url` under [store] in callgate.toml.")
        return
    # `callgate serve` refuses to serve nothing; the gateway for wrapped servers knows no other store.
    makes = setup.serve() if setup.settings.servers or setup.url is not None else setup.command("restart")
    yield Finding("note", f"There is no store at {file} yet; the first gateway makes it.", "", (makes,))


def _damage(setup: Setup, problem: str) -> Finding:
    if "callgate store upgrade" in problem:
        upgrade = setup.command("store", "upgrade")
        backup = setup.command("store", "backup", "callgate-backup.db")
        text = sentence(problem.partition(". ")[0])
        return Finding("problem", text, "Stop the gateways on it, copy it, then upgrade it:", (backup, upgrade))
    return Finding("problem", sentence(problem))


def _room(file: Path) -> Iterator[Finding]:
    folder = next(one for one in file.absolute().parents if one.exists())
    free = shutil.disk_usage(folder).free
    if free < _LITTLE:
        text = f"Only {free // _MIB} MiB are free in {folder}; a call that cannot be recorded is refused."
        yield Finding("problem" if free < _TOO_LITTLE else "warning", text, "Make room, or lower audit.retention_days.")


def keys(setup: Setup) -> Iterator[Finding]:
    """Are the keys there, private, and those of this log?"""
    keyring = keys_of(setup.settings)
    names = keyring.names()
    if setup.store is None:
        if names:
            yield ok(f"{count(len(names), 'key')} in {keyring.directory}, for its owner only.")
        return
    with setup.store.audit_reading() as tables:
        head = tables.head()
    if head is None and not names:
        yield Finding("note", f"There are no keys in {keyring.directory} yet; the first gateway makes them.")
        return
    keyring.require(SEAL, CHECKPOINT)
    keyring.current(CHECKPOINT)
    if head is not None:
        note.verify(head.note, keyring.public_keys())
    yield ok(f"{name_list(names)} in {keyring.directory}, for its owner only; the log's head is signed with them.")


def clock(setup: Setup) -> Iterator[Finding]:
    """Challenges, tickets and signatures run out by the clock: is it set, steady, and not behind what is on record?"""
    now = setup.wall()
    if now < _EPOCH:
        yield Finding("problem", f"The clock says {_moment(now)}: it was never set.", "Set the time of this machine.")
        return
    began, beat = setup.began
    drift = abs((now - began) - (time.monotonic() - beat))
    if drift > _DRIFT_SECONDS:
        text = f"The clock jumped by {drift:.0f} seconds while this ran."
        yield Finding("warning", text, "Let one service set the time, and let it slew, not step.")
    newest = None if setup.store is None else _newest(setup)
    if newest is not None and newest > now * 1000 + _AHEAD_MS:
        behind = round((newest / 1000 - now) / 60)
        text = f"The clock is {count(behind, 'minute')} behind the newest record, of {_moment(newest / 1000)}."
        advice = "Set the time of this machine, or of the one that wrote the record: approvals would run out at once."
        yield Finding("problem", text, advice)
        return
    yield ok(f"The clock says {_moment(now)}" + (", after everything on record." if newest is not None else "."))


def _newest(setup: Setup) -> int | None:
    from callgate.store import read_block

    with setup.opened.audit_reading() as tables:
        calls = entries(tables, Filter(), 1)
    with setup.opened.reading() as conn:
        turned = read_block(conn).at
    times = [one.decision.at for one in calls] + ([turned] if turned else [])
    return max(times, default=None)


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def switch(setup: Setup) -> Iterator[Finding]:
    """The kill switch: a set-up in which nothing works may be meant so."""
    from callgate.store import read_block
    from callgate.store.control import VARIABLE, forced_by_environment

    if forced_by_environment():
        yield Finding("warning", f"{VARIABLE} is set: every call is refused.", "", (f"unset {VARIABLE}",))
    elif setup.settings.policy.block_all:
        advice = "Write `block_all = false` under [policy] to let calls through."
        yield Finding("warning", "policy.block_all is true in the configuration: every call is refused.", advice)
    if setup.store is None:
        return
    with setup.store.reading() as conn:
        state = read_block(conn)
    if state.on:
        why = f": {state.note}" if state.note else ""
        text = f"The kill switch is on, turned by {state.by} at {_moment(state.at / 1000)}{why}; every call is refused."
        yield Finding("warning", text, "When the reason is gone:", (setup.command("block-all", "off"),))
    else:
        yield ok("The kill switch is off.")


def tools(setup: Setup) -> Iterator[Finding]:
    """Which tools nobody has reviewed yet, and names in the configuration that no server lists."""
    mode = setup.settings.pinning.mode
    if mode == "off":
        yield Finding("note", "Pinning is off: tools are not reviewed, and a changed one is not noticed.")
        return
    with open_pins(setup.path, setup.url) as opened:
        review = opened.wait(opened.pins.review())
    if not review.servers:
        yield Finding("note", "No server's tools were met yet.", WHERE_TOOLS_COME_FROM)
        return
    if review.waits:
        waiting = [tool.tool for tool in review.pending]
        what = (
            f"{count(len(waiting), 'tool')} for review: {name_list(waiting)}"
            if waiting
            else "Servers for a look together"
        )
        effect = "agents do not see them" if mode == "enforce" else "they are only observed"
        yield Finding("warning", sentence(f"{what}; {effect}"), "", (setup.command("review"),))
    else:
        known = sum(len(server.tools) for server in review.servers)
        yield ok(f"{count(known, 'tool')} of {count(len(review.servers), 'server')} met; none waits for review.")
    for text in approval_notes(setup.settings, listed_tools(review)):
        yield Finding("warning", text)


def people(setup: Setup) -> Iterator[Finding]:
    """Can those who are asked answer?"""
    from callgate.app.approval import demands
    from callgate.store import SqlApprovals, SqlPins

    config = setup.settings
    if not config.has_console:
        return

    async def look() -> tuple[dict[str, User], dict[str, list[Credential]], Groups, list[Demand] | None]:
        if setup.store is None:
            return {}, {}, {}, None
        shelf = SqlApprovals(setup.store)
        users = {user.name: user for user in await shelf.users()}
        keys: dict[str, list[Credential]] = {}
        for held in await shelf.credentials():
            keys.setdefault(held.user, []).append(held)
        return users, keys, await shelf.groups(), await demands(config, SqlPins(setup.opened))

    people, keys, groups, demanding = asyncio.run(look())
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
        yield ok(f"{name_list(sorted(able))} can sign in to the console.")
        return
    wanted, several = who_is_asked(config, list(people.values()), list(itertools.chain(*keys.values())))
    if several:
        names = name_list(several)
        text = f"Several people are here ({names}) and none is named, so calls that need a person are refused."
        yield Finding("problem", text, f"Write who is asked as `user` under [approval] in {file_to_write(setup.path)}.")
    for name in wanted:
        found = _answer(setup, name, users, able)
        yield found
        if found.level == "ok":
            yield from _kinds(setup, people[name], keys[name], demanding or [])
    may = {name: groups.get(name, frozenset()) for name in able if users.get(name) not in (None, "viewer")}
    yield from _quorums(setup, may)
    for name in sorted(set(config.pinning.reviewers) - set(users)):
        text = f"pinning.reviewers names {name}, who is not known here."
        yield Finding("warning", text, "Correct the name, or set them up:", (setup.command("enroll", name),))


def _quorums(setup: Setup, able: Groups) -> Iterator[Finding]:
    """Whether enough people can approve where several have to, or one of a group."""
    for server, section in ((name, one.approval) for name, one in setup.settings.servers.items()):
        tables: dict[str, ServerApproval | ToolDemand] = {"": section, **section.demands}
        for tool, table in tables.items():
            quorum = Quorum(table.approvals, table.of)
            if quorum == Quorum():
                continue
            found, what = counting(quorum, able), f"{server}/{tool}" if tool else server
            text = f"Calls of {what} need {people_in(quorum)}; {len(found)} can approve"
            if len(found) >= quorum.approvals:
                yield ok(f"{text}: {name_list(sorted(found))}.")
                continue
            command = setup.command("groups", "add", quorum.of[0] if quorum.of else "GROUP", "USER")
            yield Finding("problem", f"{text}, so these calls are refused.", "Let more people approve:", (command,))


def _answer(setup: Setup, name: str, users: dict[str, str], able: set[str]) -> Finding:
    """Whether one who is asked can answer."""
    enrol = (setup.command("enroll", name),)
    if name not in users:
        known = f" (people here: {name_list(users)})" if users else ""
        return Finding("problem", f"{name} is asked to approve calls and is not known here{known}.", "", enrol)
    if name not in able:
        return Finding("problem", f"{name} is asked to approve calls and has no passkey.", "Open its link:", enrol)
    if users[name] == "viewer":
        text = f"{name} is asked to approve calls and is a viewer, who may only look."
        return Finding("problem", text, "", (setup.command("users", "role", name, "approver"),))
    return ok(f"{name} is asked to approve calls and has a passkey.")


def _kinds(setup: Setup, user: User, held: list[Credential], demands: list[Demand]) -> Iterator[Finding]:
    """What each passkey of somebody who is asked approves, and which kind they lack."""
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
