"""Processes that use one shelf of agents at the same moment, for tests.

Run as a program, this is one of those processes: `python agents_race.py URL`, with its jobs on stdin.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from callgate.agents.limits import Limit, StoreLimiter
from callgate.agents.storage import NonceUse
from callgate.canonical import parts_hash
from callgate.errors import Reason, SentBefore
from callgate.gate import Use
from callgate.store import DECISION, AuditRow, SqlAgents, Store
from support import racing

NOW: Final = 1_800_000_000_000
SCOPE: Final = "https://agent.example|thumbprint"


def rush(url: str, jobs: Sequence[Sequence[dict[str, Any]]]) -> list[list[Any]]:
    """Let processes begin at once; what each job of each process came to."""
    return racing.race(__file__, url, jobs)


async def _do(shelf: SqlAgents, store: Store, job: dict[str, Any]) -> Any:
    kind = job["do"]
    if kind == "nonce":
        return await shelf.take_nonce(job.get("scope", SCOPE), job["nonce"], job.get("expires_at", NOW), NOW)
    if kind == "decide":
        return await _decide(shelf, store, job)
    if kind == "prune":
        return await shelf.prune(job["now"])
    limits = [Limit(f"limit-{number}", 60, job["burst"], of) for number, of in enumerate(job["of"])]
    return (await StoreLimiter(shelf, clock=lambda: NOW / 1000).take(job["agent"], limits)).ok


async def _decide(shelf: SqlAgents, store: Store, job: dict[str, Any]) -> list[bool]:
    """A record that uses up a nonce and a call of a budget; what became of each use."""
    limiter = StoreLimiter(shelf, clock=lambda: NOW / 1000)
    nonce = NonceUse(parts_hash(SCOPE, job["nonce"]), NOW, NOW)
    uses = (
        Use(shelf.write_nonces, nonce, bool, lambda _: SentBefore(Reason.NONCE_REPLAY)),
        limiter.use("somebody", [Limit("agent", 1e-6, job["burst"])]),
    )
    row = AuditRow(DECISION, NOW, job["nonce"], "srv", "tool", "allow", None, b"body", b"seal" * 9)
    found = await store.append(row, uses)
    return [use.holds(result) for use, result in zip(uses, found, strict=False)]


async def _main(url: str) -> None:
    store = Store.open(url, busy_seconds=30)
    shelf = SqlAgents(store)
    # The first use of a connection is slow; it is not what the race is about.
    await shelf.take_nonce("a scope", "of nobody", NOW, NOW)
    print("ready", flush=True)
    jobs = json.loads(sys.stdin.readline())
    # All of one process at once too, so that batches hold several.
    print(json.dumps(await asyncio.gather(*(_do(shelf, store, job) for job in jobs))), flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
