"""Five real servers of one client behind `callgate wrap` as it ships: memory of all of Callgate, and the first answer.

Each first answer is measured without the gate, with a gateway that runs, and with one that has to be started, in turn.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]

from environments import Say
from processes import Unavailable
from sessions import install, world
from sessions.gate import CALLGATE, Home, Person, connected, reviewed
from sessions.sets import DEFAULT

SERVERS = ("files", "memory", "git", "fetch", "time")
ROUNDS = 5
SETTLE_SECONDS = 1.0
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


def measure(say: Say, *, quick: bool) -> dict[str, Any]:
    try:
        install.ensure(say)
        with tempfile.TemporaryDirectory(prefix="callgate-wrapped-", ignore_cleanup_errors=True) as scratch:
            return {"status": "ok", **_measure(Path(scratch), say, rounds=1 if quick else ROUNDS)}
    except Unavailable as why:
        return {"status": "unavailable", "reason": str(why)}


def _measure(scratch: Path, say: Say, *, rounds: int) -> dict[str, Any]:
    with world.pages(DEFAULT.world / "pages") as web:
        place = world.make(scratch / "world", web)
        say(f"reviewing the tools of {len(SERVERS)} servers")
        home = reviewed(scratch / "person", place, SERVERS, Person())
        with connected(home, place, SERVERS) as servers:
            for server in servers.values():
                server.tools()
            time.sleep(SETTLE_SECONDS)
            gateway = json.loads(home.callgate("status", "--json"))
            memory = _memory(gateway["pid"], [one["process"] for one in gateway["servers"]])
        seconds = {name: _first_answers(home, place, name, say, rounds) for name in SERVERS}
    return {"servers": len(SERVERS), "memory": memory, "seconds": seconds} | _later(seconds)


def _memory(gateway: int, wraps: list[int]) -> dict[str, float]:
    """Resident, in megabytes; `shared` counts pages that several of them have once."""
    processes = [psutil.Process(pid) for pid in (gateway, *wraps)]
    resident = [process.memory_info().rss / 2**20 for process in processes]
    return {
        "gateway": round(resident[0], 1),
        "each_wrap": round(statistics.mean(resident[1:]), 1),
        "all": round(sum(resident), 1),
        "shared": round(sum(process.memory_full_info().pss for process in processes) / 2**20, 1),
    }


def _first_answers(home: Home, place: world.World, name: str, say: Say, rounds: int) -> dict[str, list[float]]:
    """Seconds to the answer of the handshake."""
    words, more = install.commands()[name].at(place.places)
    wrapped = [CALLGATE, "wrap", name, "--", *words]
    found: dict[str, list[float]] = {"without": [], "warm": [], "cold": []}
    for number in range(rounds):
        say(f"first answer of {name}, {number + 1} of {rounds}")
        found["without"].append(_first_answer(words, home, more))
        with _running(home):
            found["warm"].append(_first_answer(wrapped, home, more))
        found["cold"].append(_first_answer(wrapped, home, more))
        home.callgate("stop")
    return found


@contextmanager
def _running(home: Home) -> Iterator[None]:
    home.callgate("restart")
    yield
    home.callgate("stop")


def _first_answer(words: list[str], home: Home, more: dict[str, str]) -> float:
    began = time.perf_counter()
    pipe = subprocess.PIPE
    environ = home.environ | more
    with subprocess.Popen(
        words, env=environ, cwd=home.folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        took = time.perf_counter() - began
        process.stdin.close()
    if b'"result"' not in line:
        raise Unavailable(f"{words[0]} did not answer: {line[:200]!r}")
    return took


def _later(seconds: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """How much later the first answer is, of the server for which it is most."""
    later: dict[str, float] = {}
    for way in ("warm", "cold"):
        each = [statistics.median(one[way]) - statistics.median(one["without"]) for one in seconds.values()]
        later[f"{way}_later"] = round(max(each), 3)
    return later
