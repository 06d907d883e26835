"""The store of trust for tests: what to put on them, and processes that write to one session at the same moment.

Run as a program, this is one of those processes: `python trust_store.py URL`, with its jobs on stdin.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from callgate.errors import Spent
from callgate.store import SqlTrust, Store
from callgate.trust.model import DataLabel, Quarantined, Session, SessionLabel, Step
from callgate.trust.storage import NewStep, TrustShelf
from support import racing

NOW: Final = 1_800_000_000_000
LATER: Final = NOW + 3_600_000
KEY: Final = "5e" * 16
STRANGE: Final = DataLabel(open_world=True, sources=frozenset({"untrustedPublic"}))
HOUSE: Final = DataLabel(open_world=False, sources=frozenset({"internal"}))


def step(tool: str = "read", **changes: Any) -> Step:
    plain = Step(
        seq=0,
        at=NOW,
        call=f"call of {tool}",
        server="files",
        tool=tool,
        verdict="allow",
        label=STRANGE,
        memory=b"hashes",
    )
    return replace(plain, **changes)


def labels(*attribution: str, **changes: Any) -> SessionLabel:
    return replace(SessionLabel(open_world=True, attribution=attribution), **changes)


async def add(shelf: TrustShelf, key: str = KEY, **changes: Any) -> Session:
    """A step with what it brings; members of the step itself under `step`."""
    keep, expires_at = changes.pop("keep", 100), changes.pop("expires_at", LATER)
    new = NewStep(session=key, **{"step": step(), **changes})
    return await shelf.add(new, keep=keep, expires_at=expires_at)


def result(handle: str = "cgq_one", **changes: Any) -> Quarantined:
    plain = Quarantined(
        handle=handle,
        session=KEY,
        call="call",
        server="mail",
        tool="read_mail",
        at=NOW,
        warnings=("It tells the agent what to do.",),
        sealed=b"sealed " + handle.encode(),
    )
    return replace(plain, **changes)


def race(url: str, jobs: Sequence[Sequence[dict[str, Any]]]) -> list[list[Any]]:
    """Let processes begin at once; what each job of each process came to."""
    return racing.race(__file__, url, jobs)


async def _do(shelf: SqlTrust, job: dict[str, Any]) -> Any:
    kind, key = job["do"], job.get("key", KEY)
    if kind == "add":
        after = await add(shelf, key, adds=labels(job["source"]), objects=tuple(job.get("objects", ())))
        return after.steps
    if kind == "open":
        return (await shelf.open(key, "agent", NOW, 0)).version
    if kind == "prune":
        return await shelf.prune(NOW, sessions=100)
    try:
        return (await shelf.settle(job["handle"], job["state"], job["by"], NOW)).decided_by
    except Spent as spent:
        return spent.reason.value


async def _main(url: str) -> None:
    store = Store.open(url, busy_seconds=30)
    shelf = SqlTrust(store)
    # The first use of a connection is slow; it is not what the race is about.
    await shelf.sessions()
    print("ready", flush=True)
    jobs = json.loads(sys.stdin.readline())
    # All of one process at once too, so that batches hold several.
    print(json.dumps(await asyncio.gather(*(_do(shelf, job) for job in jobs))), flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
