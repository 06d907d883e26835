"""Code blocks of our pages, and what it means that one works.

A block is run unless a comment right above it says why not: `<!-- not run: reason -->`. Two more comments help a page
tell a story that can be followed: `<!-- file: NAME -->` writes the block to that file, and `<!-- background -->` starts
the commands and leaves them running to the end of the page. Blocks of one page run in order, in one empty folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from callgate.cli.gateway import end
from callgate.config import parse
from callgate.errors import ConfigError
from callgate.local.place import Place
from callgate.trust.policy import Policy
from callgate.trust.policy.cases import read_cases
from support.fork_server import on_path

ROOT = Path(__file__).resolve().parents[2]
CHECKED = ("bash", "console", "python", "toml", "json")
OTHERS = ("text",)
SECONDS = 300

_FENCE = re.compile(r"(?P<indent> *)```(?P<language>[^\n`]*)")
_COMMENT = re.compile(r"<!-- (?P<word>not run|file|background)(?:: (?P<value>.+))? -->")
_ADDRESS = re.compile(r"http://(127\.0\.0\.1:\d+)")


class Broken(Exception):
    """A block that does not do what the page says."""


@dataclass(frozen=True)
class Block:
    """One fenced block and the comment above it."""

    page: str
    line: int
    language: str
    text: str
    not_run: str = ""
    file: str = ""
    background: bool = False

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str, text: str) -> list[Block]:
    """Every fenced block of a page."""
    found: list[Block] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        if fence is None:
            at += 1
            continue
        start, close = at, f"{fence['indent']}```"
        above = next((line for line in reversed(lines[:start]) if line.strip()), "")
        comment = _COMMENT.fullmatch(above.strip())
        at += 1
        body: list[str] = []
        while at < len(lines) and lines[at] != close:
            body.append(lines[at].removeprefix(fence["indent"]))
            at += 1
        if at == len(lines):
            raise Broken(f"{page}:{start + 1}: the block is not closed")
        at += 1
        word, value = (comment["word"], comment["value"] or "") if comment else ("", "")
        found.append(
            Block(
                page,
                start + 1,
                fence["language"].strip(),
                "\n".join(body) + "\n",
                not_run=value if word == "not run" else "",
                file=value if word == "file" else "",
                background=word == "background",
            )
        )
    return found


class Page:
    """An empty folder and home in which the blocks of one page are carried out."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        home = folder / "home"
        home.mkdir()
        orders, self._passed = on_path(folder / "bin")
        self._environ = {
            **orders,
            "HOME": str(home),
            "PATH": os.pathsep.join(
                [str(folder / "bin"), str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
            ),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            # Several pages are carried out at once: each gateway takes a port of its own, and the text follows.
            "CALLGATE_LISTEN": "127.0.0.1:0",
            **environ,
        }
        self._address = "127.0.0.1:8420"
        self._running: list[tuple[Block, subprocess.Popen[bytes]]] = []

    def carry_out(self, block: Block) -> None:
        """Raise Broken if the block does not work."""
        if block.file:
            target = self.work / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        if block.not_run:
            return
        try:
            getattr(self, f"_{block.language}")(block)
        except Broken as error:
            raise Broken(f"{block.place}: {error}") from None

    def _toml(self, block: Block) -> None:
        if re.match(r"\s*(#[^\n]*\n\s*)*\[\[(rules|cases)\]\]", block.text):
            self._policy(block)
            return
        named = re.findall(r"\$\{(\w+)", block.text)
        try:
            parse(block.text, environ=dict.fromkeys(named, "sqlite:///folder/of/the/callgate.db"), base=self.work)
        except ConfigError as error:
            raise Broken(error.message) from None

    def _policy(self, block: Block) -> None:
        """Rules of a policy, or cases to try one on: those have a configuration's form, and none of its keys."""
        try:
            if "[[rules]]" in block.text:
                Policy.load(texts=[(block.place, block.text)])
            else:
                read_cases(block.text, block.place)
        except ConfigError as error:
            raise Broken(error.message) from None

    def _json(self, block: Block) -> None:
        try:
            json.loads(block.text)
        except ValueError as error:
            raise Broken(str(error)) from None

    def _python(self, block: Block) -> None:
        self._run([sys.executable, "-W", "error", "-c", block.text])

    def _bash(self, block: Block) -> None:
        if block.background:
            self._start(block)
        else:
            self._shell(block.text)

    def _console(self, block: Block) -> None:
        """`$ command`, then what it prints; `…` stands for anything."""
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            printed = self._shell(command)
            pattern = re.escape(expected.strip()).replace("…", ".*?")
            if not re.fullmatch(pattern, printed.strip(), re.DOTALL):
                raise Broken(f"`{command}` printed\n{printed}\nand not\n{expected}")

    def _shell(self, text: str) -> str:
        return self._run(["bash", "-euo", "pipefail", "-c", text.replace("127.0.0.1:8420", self._address)])

    def _run(self, argv: list[str]) -> str:
        done = subprocess.run(
            argv,
            cwd=self.work,
            env=self._environ,
            pass_fds=self._passed,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        printed = done.stdout.decode("utf-8", "replace")
        if done.returncode:
            raise Broken(f"exit code {done.returncode}\n{argv[-1]}\n{printed}")
        return printed

    def _start(self, block: Block) -> None:
        output = self.work.parent / f"background-{block.line}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {block.text}"],
                cwd=self.work,
                env=self._environ,
                pass_fds=self._passed,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self._running.append((block, process))
        deadline = time.monotonic() + SECONDS
        while (address := _ADDRESS.search(output.read_text(encoding="utf-8"))) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise Broken(f"it does not say where it listens:\n{output.read_text(encoding='utf-8')}")
            time.sleep(0.05)
        self._address = address[1]

    def close(self) -> None:
        """End what runs in the background; each has to end well."""
        ended = [(block, _interrupt(process)) for block, process in self._running]
        for socket in self.work.parent.rglob("run/gateway*.sock"):
            shared = Place()
            shared.folder, shared.name = str(socket.parent), socket.stem
            end(shared)
        for block, status in ended:
            if status != 0:
                raise Broken(f"{block.place}: ended with {status}")


def _interrupt(process: subprocess.Popen[bytes]) -> int:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        return process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@contextlib.contextmanager
def opened(folder: Path, **environ: str) -> Iterator[Page]:
    page = Page(folder, **environ)
    try:
        yield page
    except BaseException:
        with contextlib.suppress(Broken):  # what broke first is what has to be told
            page.close()
        raise
    page.close()
