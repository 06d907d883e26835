"""stdio: client, subject, echo server. A closed loop with a window of requests in flight, rounds in rotating order."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

import gateway
from environments import FASTMCP, Say, ensure
from processes import HERE, Unavailable, child_environment, cpu_seconds, end, last_line
from rows import Row, Sample
from wire import HANDSHAKE, Reply

WINDOW = 16
BLOCK = 1 << 16
ANSWER_SECONDS = 30.0
ECHO = "echo_stdio.py"
ECHO_COMMAND = (sys.executable, str(HERE / ECHO))

_decode = msgspec.json.Decoder(Reply).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class StdioSubject:
    name: str
    label: str
    command: Callable[[Path, Say], list[str]]
    in_the_middle: bool = True
    # A process in the middle that is not the subject's child, once the subject runs; it ends with the stack.
    beside: Callable[[ExitStack, Path], int] | None = None


def _fastmcp(*arguments: str) -> Callable[[Path, Say], list[str]]:
    def command(_: Path, say: Say) -> list[str]:
        ensure(FASTMCP, say)
        return [str(FASTMCP.program("python")), str(HERE / "fastmcp_proxy.py"), *arguments, "--", *ECHO_COMMAND]

    return command


STDIO_SUBJECTS = (
    StdioSubject("direct", "direct (no middle)", lambda _folder, _say: list(ECHO_COMMAND), in_the_middle=False),
    StdioSubject(
        "relay", "bare pipe relay", lambda _folder, _say: [sys.executable, str(HERE / "pipe_relay.py"), *ECHO_COMMAND]
    ),
    StdioSubject(
        "callgate-sqlite",
        "callgate wrap",
        lambda folder, _say: gateway.wrap_command(folder),
        beside=gateway.shared_process,
    ),
    StdioSubject("fastmcp", "FastMCP proxy, default", _fastmcp()),
    StdioSubject("fastmcp-shared", "FastMCP proxy, shared client", _fastmcp("--shared")),
)


class StdioClient:
    """Speaks to one subject over its pipes with plain reads and writes; there is nothing else to wait for."""

    def __init__(self, subject: StdioSubject, command: list[str], log: Path, stack: ExitStack) -> None:
        output = stack.enter_context(log.open("wb"))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, env=child_environment()
        )
        stack.callback(end, self._process)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._subject = subject
        self._log = log
        self._rest = b""
        self._count = 0
        self._shake_hands()
        self._beside = subject.beside(stack, log.parent) if subject.beside is not None else None

    def _shake_hands(self) -> None:
        client = {"name": "bench", "version": "1"}
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": client}
        self._write(_encode({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}) + b"\n")
        while not any(reply.id == 0 for reply in self._replies()):
            pass
        self._write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._in, data) :]
        except BrokenPipeError:
            raise Unavailable(f"closed its input: {last_line(self._log)}") from None

    def _replies(self) -> list[Reply]:
        """The next block's messages that have an id; notifications are dropped."""
        if not select.select([self._out], [], [], ANSWER_SECONDS)[0]:
            raise Unavailable(f"no answer in {ANSWER_SECONDS:.0f} s: {last_line(self._log)}")
        block = os.read(self._out, BLOCK)
        if not block:
            raise Unavailable(f"closed its output: {last_line(self._log)}")
        *lines, self._rest = (self._rest + block).split(b"\n")
        return [reply for reply in map(_decode, lines) if reply.id is not None]

    def _cpu(self) -> float:
        return cpu_seconds(self._process.pid, leave_out=ECHO) + cpu_seconds(self._beside, leave_out=ECHO)

    def round(self, seconds: float) -> Sample:
        sent: dict[int, float] = {}
        latencies: list[float] = []
        errors = 0

        def send(number: int) -> None:
            frames = []
            for _ in range(number):
                self._count += 1
                params = {"name": "echo", "arguments": {"text": f"hello {self._count}"}}
                frames.append(
                    _encode({"jsonrpc": "2.0", "id": self._count, "method": "tools/call", "params": params}) + b"\n"
                )
                sent[self._count] = time.perf_counter()
            self._write(b"".join(frames))

        cpu, started = self._cpu(), time.perf_counter()
        send(WINDOW)
        while sent:
            replies = self._replies()
            now = time.perf_counter()
            for reply in replies:
                assert isinstance(reply.id, int)
                began = sent.pop(reply.id)
                if reply.texts == [f"hello {reply.id}"]:
                    latencies.append(now - began)
                else:
                    errors += 1
            if now - started < seconds:
                send(len(replies))
        elapsed = time.perf_counter() - started
        if not latencies:
            raise Unavailable("every answer was wrong")
        ordered = sorted(latencies)
        return Sample(
            per_second=len(ordered) / elapsed,
            p50_ms=ordered[len(ordered) // 2] * 1e3,
            p99_ms=ordered[len(ordered) * 99 // 100] * 1e3,
            cpu_us=(self._cpu() - cpu) / (len(ordered) + errors) * 1e6 if self._subject.in_the_middle else None,
            errors=errors,
        )


def measure(
    subjects: list[StdioSubject], scratch: Path, rounds: int, seconds: float, say: Say, step: Say
) -> dict[str, Row]:
    reasons: dict[str, str] = {}
    clients: dict[str, StdioClient] = {}
    samples: dict[str, list[Sample]] = {subject.name: [] for subject in subjects}
    with ExitStack() as stack:
        for subject in subjects:
            say(f"starting stdio {subject.label}")
            folder = scratch / f"stdio-{subject.name}"
            folder.mkdir(parents=True, exist_ok=True)
            try:
                command = subject.command(folder, say)
                clients[subject.name] = StdioClient(subject, command, folder / "stderr.log", stack)
                clients[subject.name].round(0.2)
            except Unavailable as why:
                reasons[subject.name] = str(why)
        for number in range(rounds):
            turn = number % len(subjects)
            for subject in (*subjects[turn:], *subjects[:turn]):
                step(f"stdio {subject.label}")
                if subject.name not in reasons:
                    try:
                        samples[subject.name].append(clients[subject.name].round(seconds))
                    except Unavailable as why:
                        reasons[subject.name] = str(why)
    return {
        subject.name: Row(subject.label, tuple(samples[subject.name]), reasons.get(subject.name, ""))
        for subject in subjects
    }
