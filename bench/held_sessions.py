"""Memory at 1, 100 and 10,000 held sessions: initialize done, one call made, up to 9,000 connections left open.

Run as a script it holds the sessions itself and prints one JSON object, so that 10,000 sockets are not the runner's.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import uvloop

from environments import Say
from processes import HERE, Running, Unavailable, rss_bytes
from subjects import Subject
from wire import Caller, Target

SIZES = (1, 100, 10_000)
OPENERS = 32
# A gateway keeps a descriptor for the server beside each client's; machines often allow 20,000. The last sessions push
# the connections of the first ones out; as sessions they stay.
CONNECTIONS = 9_000
SETTLE_SECONDS = 1.0
MEASURED = ("relay", "callgate-sqlite", "callgate-postgres")


async def _open(target: Target, callers: list[Caller], numbers: itertools.count[int], size: int) -> None:
    async def opener() -> None:
        while (number := next(numbers)) < size:
            caller = Caller(target, number)
            callers.append(caller)
            await caller.open()
            await caller.call_once()
            if number >= CONNECTIONS:
                callers[number - CONNECTIONS].connection.close()

    await asyncio.gather(*(opener() for _ in range(OPENERS)))


async def hold(target: Target, pid: int, sizes: Sequence[int]) -> dict[str, Any]:
    callers: list[Caller] = []
    found: dict[str, Any] = {}
    try:
        for size in sizes:
            await _open(target, callers, itertools.count(len(callers)), size)
            await asyncio.sleep(SETTLE_SECONDS)
            still_open = sum(not caller.connection.lost for caller in callers)
            found[str(size)] = {"rss_mb": round(rss_bytes(pid) / 2**20, 1), "connections_open": still_open}
    finally:
        for caller in callers:
            caller.connection.close()
    return found


def measure(
    subjects: Sequence[Subject], running: Mapping[str, Running], reasons: Mapping[str, str], step: Say
) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for subject in subjects:
        if subject.name not in MEASURED:
            continue
        step(f"sessions {subject.label}")
        try:
            if subject.name not in running:
                raise Unavailable(reasons.get(subject.name, "not started"))
            rows[subject.name] = {"label": subject.label, "status": "ok", **_one(running[subject.name])}
        except Unavailable as why:
            rows[subject.name] = {"label": subject.label, "status": "unavailable", "reason": str(why)}
    return rows


def _one(running: Running) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "held_sessions.py"), running.url, "--pid", str(running.pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable("did not open the sessions within 120 s") from None
    if done.returncode:
        raise Unavailable(done.stderr.strip().splitlines()[-1][:200])
    at = json.loads(done.stdout)
    few, many = (str(size) for size in SIZES[-2:])
    grown_kb = (at[many]["rss_mb"] - at[few]["rss_mb"]) * 1024
    return {"sessions": at, "kb_per_session": round(grown_kb / (SIZES[-1] - SIZES[-2]), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, required=True)
    options = parser.parse_args()
    print(json.dumps(uvloop.run(hold(Target(options.url), options.pid, SIZES))))


if __name__ == "__main__":
    main()
