"""Gateways that share a session: what one of them has handed on, every other knows at its next call.

Run as a program, this is one of them: `python tainting.py URL`, with a line on stdin for each thing to do.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from typing import Any, Final

from callgate.store import SqlTrust, Store
from callgate.trust.model import Step
from callgate.trust.propagation import adds
from callgate.trust.provenance import Fingerprints, Memory, Retention, trace
from callgate.trust.session_cache import LiveSession, SessionName, TrustSessionCache
from callgate.trust.storage import NewStep
from support.fork_server import Forked
from support.remembering import label, reading
from support.trust_store import KEY, STRANGE

NAME: Final = SessionName(KEY, "127.0.0.1 host", idles=False)
FINGERPRINTS: Final = Fingerprints(bytes(32))
KEPT: Final = Retention(1000, 3600.0)
PAGE: Final = reading("read", "untrustedPublic")
SEND: Final = label("send", critical=("to",))


class Gateway:
    """Such a process, from outside."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, __file__, url]
        self.process = Forked(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self._heard() == "ready"

    def reads(self, word: str) -> None:
        """It hands a stranger's text on."""
        assert self.ask("read", word)

    def knows(self, word: str) -> Any:
        """Whether it takes a word for a stranger's, and whether it does so with all words."""
        return self.ask("look", word)

    def ask(self, *what: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        return self._heard()

    def _heard(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class _Serving:
    def __init__(self, url: str) -> None:
        shelf = SqlTrust(Store.open(url, busy_seconds=20))
        self.sessions = TrustSessionCache(
            shelf, lambda: Memory(FINGERPRINTS, retention=lambda: KEPT), idle_ms=lambda: 0
        )

    async def looks(self) -> LiveSession:
        return self.sessions.at_once(NAME) or await self.sessions.get(NAME)

    async def reads(self, text: str) -> None:
        def make(live: LiveSession) -> NewStep:
            memory = live.memory.remember_result(PAGE, STRANGE, None, [text], {}, open_world=True)
            step = Step(0, time.time_ns() // 1_000_000, "", "web", "read", "allow", label=STRANGE, memory=memory)
            return NewStep(KEY, step, adds(STRANGE))

        live = await self.looks()
        await self.sessions.add(live, make, keep=2000, expires_at=1 << 60)

    async def goes_on(self) -> None:
        """Most results bring nothing new."""
        while True:
            await asyncio.sleep(random.random() * 0.02)
            await self.reads(random.choice(("all is well", "all is well", "nothing of note")))

    async def does(self, what: str, word: str) -> Any:
        if what == "read":
            await self.reads(f"pay {word}@evil.example")
            return True
        live = await self.looks()
        found = trace(live.memory, SEND, {"to": f"{word}@evil.example"}).values[0].found
        return found == "untrusted" and live.session.label.open_world, live.memory.overflowed


async def _serve(url: str) -> None:
    serving, loop, lines = _Serving(url), asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    beside = [loop.create_task(serving.goes_on()) for _ in range(3)]
    print(json.dumps("ready"), flush=True)
    while line := await lines.readline():
        assert not any(task.done() for task in beside)
        print(json.dumps(await serving.does(*json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
