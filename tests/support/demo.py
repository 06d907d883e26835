"""A running `callgate demo`, and what it printed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

CALLGATE: Final = str(Path(sys.executable).with_name("callgate"))
LAST_LINE: Final = "Ctrl-C stops the demo."
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0


class Demo:
    """The process, with its output in files so that nothing can block on a pipe."""

    def __init__(self, out: Path, err: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
        self._out, self._err = out, err
        with out.open("wb") as stdout, err.open("wb") as stderr:
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

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while LAST_LINE not in self.printed:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the demo did not come up:\n{self.printed}\n{self.complained}")
            time.sleep(0.05)

    def end(self, number: int) -> int:
        """Send it a signal; its exit code."""
        self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the demo did not end:\n{self.printed}\n{self.complained}") from None

    @property
    def steps(self) -> dict[str, str]:
        """What it says to try: the comment line, and the command below it."""
        blocks = self.printed.split("\n\n")
        return {
            about.removeprefix("# "): command
            for about, _, command in (block.partition("\n") for block in blocks)
            if about.startswith("# ")
        }

    @property
    def fact(self) -> dict[str, str]:
        """What it says runs where: `gateway`, `server`, `state`."""
        rows = [line.split(maxsplit=2) for line in self.printed.splitlines() if line.startswith("  ")]
        return {row[0]: row[1] for row in rows if len(row) > 1}

    @property
    def url(self) -> str:
        return self.fact["gateway"]

    @property
    def config(self) -> Path:
        return Path(self.fact["state"]) / "callgate.toml"


@contextlib.contextmanager
def running_demo(*words: str, env: Mapping[str, str] | None = None) -> Iterator[Demo]:
    """A demo that answers; ended afterwards if the test has not done so."""
    with tempfile.TemporaryDirectory() as folder:
        demo = Demo(Path(folder) / "out", Path(folder) / "err", *words, env=env)
        try:
            demo.wait_until_ready()
            yield demo
        finally:
            if demo.process.poll() is None:
                demo.process.terminate()
                demo.process.wait(STOP_SECONDS)
