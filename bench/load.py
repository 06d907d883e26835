"""The load generator: N keep-alive connections, each a closed loop of `tools/call echo`, every answer checked.

It speaks HTTP/1.1 over an `asyncio.Protocol` and allows only what the subjects send: Content-Length or chunked bodies,
JSON or one-event SSE. It runs in a process of its own and prints one JSON object, so that its CPU is not the subject's.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import time
from dataclasses import dataclass

import uvloop

from processes import cpu_seconds
from wire import HANDSHAKE, MODERN, Caller, Connection, Target


@dataclass(frozen=True, slots=True)
class LoadResult:
    requests: int
    errors: int
    seconds: float
    p50_ms: float
    p99_ms: float
    load_cpu_seconds: float
    middle_cpu_seconds: float
    store_cpu_seconds: float
    first_error: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """Whose CPU time to take, around the calls alone: the middle process and, where it is another, its database."""

    pid: int | None = None
    store_pid: int | None = None

    def cpu(self) -> tuple[float, float, float]:
        return time.process_time(), cpu_seconds(self.pid), cpu_seconds(self.store_pid)


class ClosedLoop:
    """Runs every caller for a number of seconds, each sending as soon as it has its answer."""

    def __init__(self, callers: list[Caller], seconds: float, watched: Watched) -> None:
        self._callers = callers
        self._seconds = seconds
        self._watched = watched
        self._latencies: list[float] = []
        self._errors = 0
        self._first_error = ""
        self._in_flight = 0

    async def run(self) -> LoadResult:
        done = asyncio.get_running_loop().create_future()
        cpu_before = self._watched.cpu()
        started = time.perf_counter()
        deadline = started + self._seconds
        for caller in self._callers:
            self._start(caller, deadline, done)
        await asyncio.wait_for(done, self._seconds + 60)
        seconds = time.perf_counter() - started
        load_cpu, middle_cpu, store_cpu = (
            after - before for before, after in zip(cpu_before, self._watched.cpu(), strict=True)
        )
        ordered = sorted(self._latencies) or [0.0]
        return LoadResult(
            requests=len(self._latencies),
            errors=self._errors,
            seconds=seconds,
            p50_ms=ordered[len(ordered) // 2] * 1e3,
            p99_ms=ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1e3,
            load_cpu_seconds=load_cpu,
            middle_cpu_seconds=middle_cpu,
            store_cpu_seconds=store_cpu,
            first_error=self._first_error,
        )

    def _start(self, caller: Caller, deadline: float, done: asyncio.Future[None]) -> None:
        """Drives one caller by callback: a task switch for each reply would cost as much as the rest."""
        sent = 0.0

        def on_reply(connection: Connection) -> None:
            nonlocal sent
            now = time.perf_counter()
            if wrong := caller.check():
                self._errors += 1
                self._first_error = self._first_error or wrong
            else:
                self._latencies.append(now - sent)
            if now >= deadline or connection.lost:
                self._in_flight -= 1
                if not self._in_flight and not done.done():
                    done.set_result(None)
                return
            request = caller.next_request()
            sent = time.perf_counter()
            connection.send(request)

        self._in_flight += 1
        caller.connection.on_reply = on_reply
        request = caller.next_request()
        sent = time.perf_counter()
        caller.connection.send(request)


async def load(target: Target, connections: int, seconds: float, watched: Watched) -> LoadResult:
    callers = [Caller(target, number) for number in range(connections)]
    try:
        for caller in callers:
            await caller.open()
        return await ClosedLoop(callers, seconds, watched).run()
    finally:
        for caller in callers:
            caller.connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--era", choices=(HANDSHAKE, MODERN), default=HANDSHAKE)
    parser.add_argument("--tool", default="echo")
    parser.add_argument("--key", default="", help="the seed of an Ed25519 key to sign requests with, in hex")
    parser.add_argument("--pid", type=int, help="the middle process, whose CPU time to take")
    parser.add_argument("--store-pid", type=int, help="the database's process, likewise")
    options = parser.parse_args()
    target = Target(options.url, options.era, options.tool, options.key)
    result = uvloop.run(load(target, options.connections, options.seconds, Watched(options.pid, options.store_pid)))
    print(json.dumps(dataclasses.asdict(result)))


if __name__ == "__main__":
    main()
