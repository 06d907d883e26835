"""The audit log by itself: durable records a second, and the time of an inclusion proof, as the log grows to 10^6."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import gateway
import pgserver
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


# As many writers at once as a busy gateway has calls under way: that is what group commit is for.
WRITERS = 64


class CallgateLog:
    """The gateway's own log, without a gateway around it."""

    def __init__(self, store_url: str, folder: Path) -> None:
        from callgate.audit import AuditLog
        from callgate.keyring import Keyring
        from callgate.store import Store

        self._store = Store.open(store_url)
        self._log = AuditLog(self._store, Keyring(folder / "keys"))
        self._count = 0

    def append(self, count: int) -> None:
        asyncio.run(self._append(count))

    async def _append(self, count: int) -> None:
        share, rest = divmod(count, WRITERS)
        await asyncio.gather(*(self._write(share + (writer < rest)) for writer in range(WRITERS)))

    async def _write(self, count: int) -> None:
        from callgate.audit import Arguments, DecisionRecord

        for _ in range(count):
            self._count += 1
            record = DecisionRecord(
                call=f"{self._count:032x}",
                at=1_700_000_000_000 + self._count,
                gateway="bench",
                server="echo",
                session="0" * 32,
                transport="http",
                protocol="2025-11-25",
                tool="echo",
                arguments=Arguments("redacted", {"text": "hello, world"}),
                args_hash="sha256:" + "0" * 64,
                verdict="allow",
            )
            await self._log.decided(record)

    def integrate(self) -> None:
        self._log.catch_up()

    def prove(self, index: int) -> None:
        from callgate.audit import merkle, note, proofs

        # Writers run side by side, so the index is a leaf's, and its record is found by that.
        with self._store.audit_reading() as tables:
            record = tables.record_of(index)
            if record is None:
                raise RuntimeError(f"leaf {index} has no record")
            proof = proofs.inclusion(tables, record)
            (_, body, _), *_ = tables.sealed(record - 1, record, 1)
        checkpoint = note.parse(proof.note)
        if not merkle.includes(merkle.leaf_hash(body), index, checkpoint.size, proof.path, checkpoint.root):
            raise RuntimeError(f"the proof of leaf {index} does not hold")

    def close(self) -> None:
        self._store.close_sync()


def open_log(store_url: str, folder: Path) -> Log:
    """The one place that opens Callgate's log."""
    gateway.check_installed()
    return CallgateLog(store_url, folder)


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
                    url = pgserver.start(stack, folder / "pgdata").url
                else:
                    url = f"sqlite:///{(folder / 'audit.db').as_posix()}"
                log = open_log(url, folder)
                stack.callback(log.close)
                rows[store] = {"status": "ok", "records": _grow(log, sizes[store], SECONDS[store], step)}
            except Unavailable as why:
                rows[store] = {"status": "unavailable", "reason": str(why)}
    return rows
