"""A running `callgate demo`: on a terminal as a newcomer sees it, or by itself with `--auto`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil  # type: ignore[import-untyped,unused-ignore]

from callgate.approval import Approvals, RelyingParty, Request
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from callgate.store import SqlApprovals, Store
from support.terminal import Terminal

T = TypeVar("T")

CALLGATE: Final = str(Path(sys.executable).with_name("callgate"))
LAST_LINE: Final = "Ctrl-C ends the demo."
ME: Final = "me"
SECONDS: Final = 300.0
STEPS: Final = tuple(f"{number}/6  " for number in range(1, 7))


class Demo:
    """The process, with its output in files so that nothing can block on a pipe."""

    def __init__(self, folder: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as stdout, self._err.open("wb") as stderr:
            self.process = subprocess.Popen(
                [CALLGATE, "demo", *words],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=None if env is None else os.environ | env,
            )

    @property
    def printed(self) -> str:
        return self._out.read_text(encoding="utf-8")

    @property
    def complained(self) -> str:
        return self._err.read_text(encoding="utf-8")

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS
        while text not in self.printed:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{text!r} was never said:\n{self.printed}\n{self.complained}")
            time.sleep(0.02)

    def wait(self) -> int:
        """Its exit code, once it has ended by itself."""
        try:
            return self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the demo did not end:\n{self.printed}\n{self.complained}") from None

    def end(self, number: int) -> int:
        """Send it a signal; its exit code."""
        self.process.send_signal(number)
        return self.wait()

    @property
    def config(self) -> Path:
        return config_in(self.printed)


@contextlib.contextmanager
def running_demo(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Iterator[Demo]:
    """A demo without a terminal; ended afterwards if the test has not done so."""
    demo = Demo(folder, *words, env=env)
    try:
        yield demo
    finally:
        if demo.process.poll() is None:
            demo.process.terminate()
            demo.process.wait(SECONDS)


@contextlib.contextmanager
def demo_on_a_terminal(*words: str, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """A demo that takes keys; nothing of it is left afterwards."""
    with Terminal([CALLGATE, "demo", "--no-browser", *words], columns=80, rows=50, env=env) as seen:
        try:
            yield seen
        finally:
            if seen.process.poll() is None:
                children = below(seen.process.pid)
                seen.press("\x03")
                with contextlib.suppress(AssertionError):
                    seen.end()
                for child in children:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()


def fact(printed: str, name: str) -> str:
    """What it says runs where: `gateway`, `console`, `state`."""
    found = re.search(rf"^  {name}\s+(\S+)", printed, re.MULTILINE)
    assert found, printed
    return found[1]


def config_in(printed: str) -> Path:
    return Path(fact(printed, "state")) / "callgate.toml"


def commands(printed: str) -> list[str]:
    """What it says does the same."""
    return re.findall(r"^ +\$ (.+)$", printed, re.MULTILINE)


def settings(printed: str) -> list[str]:
    """What another terminal has to be told first."""
    return [line for line in printed.splitlines() if line.startswith(("export ", "unset "))]


def below(pid: int) -> list[Any]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


class Newcomer:
    """Somebody with a software key, who decides as the console's pages do, in the store of a running demo."""

    def __init__(self, config: Path, console: str) -> None:
        self._config = config
        self._key = SoftwareAuthenticator(console.rstrip("/"))

    def enrol(self) -> None:
        async def enrolled(approvals: Approvals) -> None:
            begun = await approvals.begin_enrolment(await approvals.ticket(ME, by="test"))
            await approvals.finish_enrolment(self._key.create(begun["options"]))

        self._do(enrolled)

    def approve(self) -> Request:
        async def approved(approvals: Approvals) -> Request:
            (request,) = await approvals.shelf.requests(ME, states=("waiting",))
            issued = await approvals.page_challenge(request)
            response = self._key.get(issued.result["requestOptions"])
            evidence = {"method": "webauthn", "challengeId": issued.challenge.id, "response": response}
            return await approvals.approve(request.id, evidence, by=ME)

        return self._do(approved)

    def _do(self, act: Callable[[Approvals], Awaitable[T]]) -> T:
        async def done() -> T:
            store = Store.open(f"sqlite:///{self._config.with_name('callgate.db')}", busy_seconds=10)
            try:
                party = RelyingParty("localhost", origins=("http://localhost:*",))
                return await act(Approvals(SqlApprovals(store), party))
            finally:
                await store.close()

        return asyncio.run(done())
