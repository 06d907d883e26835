"""`callgate doctor` on the store, the keys, the clock and the kill switch."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from callgate.cli.doctor_findings import Finding, Setup, count, ok, sentence, some, told

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
    from callgate.cli.common import connect, store_file
    from callgate.errors import StoreError
    from callgate.store import inspect

    file = store_file(setup.settings)
    if file is not None:
        yield from _room(file)
        if not file.exists():
            setup.is_new = True
            yield from _none_yet(setup, file)
            return
    try:
        opened = connect(setup.settings)
    except StoreError as error:
        yield told(error)
        return
    report = inspect.inspect(opened, quick=True)
    if not report.ok:
        opened.close_sync()
        for problem in report.problems:
            yield _damage(setup, problem)
        return
    setup.store = opened
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
    from callgate.audit import note
    from callgate.cli.common import keys_of
    from callgate.keyring import CHECKPOINT, SEAL

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
    yield ok(f"{some(names)} in {keyring.directory}, for its owner only; the log's head is signed with them.")


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
    from callgate.audit.reading import entries
    from callgate.audit.storage import Filter
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
