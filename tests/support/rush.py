"""Processes that use one shelf of agents at the same moment, for tests.

Run as a program, this is one of those processes: `python rush.py URL`, with its jobs on stdin.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from callgate.agents.limits import Limit, StoreLimiter
from callgate.store import SqlAgents, Store

NOW: Final = 1_800_000_000_000
SCOPE: Final = "https://agent.example|thumbprint"


def rush(url: str, jobs: Sequence[Sequence[dict[str, Any]]], timeout: float = 100) -> list[list[Any]]:
    """Give each process its jobs, let all begin at once; what each job of each process came to."""
    command = [sys.executable, __file__, url]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) for _ in jobs
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process, share in zip(started, jobs, strict=True):
            assert process.stdin is not None
            process.stdin.write(json.dumps(share) + "\n")
        ends = []
        for process in started:
            out, _ = process.communicate(timeout=timeout)
            assert process.returncode == 0
            ends.append(json.loads(out))
        return ends
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.communicate()


async def _do(shelf: SqlAgents, job: dict[str, Any]) -> Any:
    kind = job["do"]
    if kind == "nonce":
        return await shelf.take_nonce(job.get("scope", SCOPE), job["nonce"], job.get("expires_at", NOW), NOW)
    if kind == "prune":
        return await shelf.prune(job["now"])
    limits = [Limit(f"limit-{number}", 60, job["burst"], of) for number, of in enumerate(job["of"])]
    return (await StoreLimiter(shelf, clock=lambda: NOW / 1000).take(job["agent"], limits)).ok


async def _main(url: str) -> None:
    store = Store.open(url, busy_seconds=30)
    shelf = SqlAgents(store)
    # The first use of a connection is slow; it is not what the race is about.
    await shelf.take_nonce("a scope", "of nobody", NOW, NOW)
    print("ready", flush=True)
    jobs = json.loads(sys.stdin.readline())
    # All of one process at once too, so that batches hold several.
    print(json.dumps(await asyncio.gather(*(_do(shelf, job) for job in jobs))), flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
