"""The audit log by itself: durable records a second, and the time of an inclusion proof, as the log grows to 10^6."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import database
import gateway
from environments import Say
from processes import Unavailable

SIZES = (10**3, 10**4, 10**5, 10**6)
PROOFS = 200
# How long each store may take: the run as a whole has six minutes.
SECONDS = {"sqlite": 60.0, "postgres": 30.0}
STORES = ("sqlite", "postgres")


class Log(Protocol):
    def append(self, count: int) -> None:
        """Adds that many decision records through the store's group commit; returns when the last is durable."""

    def integrate(self) -> None:
        """Returns when the sequencer has taken every record into the tree."""

    def prove(self, index: int) -> None:
        """Makes the inclusion proof of one record and verifies it; raises if it does not hold."""

    def close(self) -> None: ...


def open_log(store_url: str, folder: Path) -> Log:
    """SEAM: the one place that calls Callgate's own audit API. To fill: import it here and give back a `Log`."""
    gateway.check_installed()
    raise Unavailable(f"no audit API to call yet, for {store_url.partition(':')[0]} in {folder.name}")


def _grow(log: Log, sizes: Sequence[int], seconds: float, step: Say) -> dict[str, Any]:
    at: dict[str, Any] = {}
    have, deadline, pace = 0, time.monotonic() + seconds, 0.0
    choice = random.Random(1)
    for size in sizes:
        left = deadline - time.monotonic()
        if (size - have) * pace > left:
            at[str(size)] = {"status": "skipped", "reason": f"would take more than the {left:.0f} s left"}
            continue
        step(f"audit {size:,} records")
        started = time.perf_counter()
        log.append(size - have)
        appended = time.perf_counter()
        log.integrate()
        integrated = time.perf_counter()
        added, have = size - have, size
        pace = (integrated - started) / added
        times = []
        for index in choice.sample(range(size), PROOFS):
            before = time.perf_counter()
            log.prove(index)
            times.append(time.perf_counter() - before)
        at[str(size)] = {
            "status": "ok",
            "records_per_second": round(added / (appended - started)),
            "integrate_seconds": round(integrated - appended, 3),
            "proof_us": round(median(times) * 1e6, 1),
        }
    return at


def measure(scratch: Path, step: Say, *, quick: bool) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    # PostgreSQL stops a power of ten earlier: the growth shows as well, and the run must fit its time.
    sizes = {"sqlite": SIZES[:2] if quick else SIZES, "postgres": SIZES[:2] if quick else SIZES[:-1]}
    for store in STORES:
        folder = scratch / f"audit-{store}"
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                gateway.check_installed()
                if store == "postgres":
                    url = database.start(stack, folder / "pgdata").url
                else:
                    url = f"sqlite:///{(folder / 'audit.db').as_posix()}"
                log = open_log(url, folder)
                stack.callback(log.close)
                rows[store] = {"status": "ok", "records": _grow(log, sizes[store], SECONDS[store], step)}
            except Unavailable as why:
                rows[store] = {"status": "unavailable", "reason": str(why)}
    return rows
