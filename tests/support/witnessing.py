"""Witnesses: the real one in a process of its own, and one that answers whatever a test says."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from callgate.audit import AuditLog, note
from callgate.audit.cosigning import Cosigning, WitnessParty, WitnessReport
from callgate.audit.note import WITNESS, VerifierKey


class RunningWitness(NamedTuple):
    """Where it is, and its key."""

    url: str
    key: VerifierKey


def log_key(log: AuditLog) -> VerifierKey:
    """The public key of a log."""
    with log.store.audit_reading() as tables:
        head = tables.head()
    assert head is not None
    return VerifierKey(note.parse(head.note).origin, log.keyring.public_keys()[0])


@contextlib.contextmanager
def witness(folder: Path, *logs: str, name: str = "w.example/one") -> Iterator[RunningWitness]:
    """`callgate witness serve` as somebody else would run it."""
    argv = [sys.executable, "-m", "callgate", "witness", "serve", "--name", name, "--folder", str(folder)]
    argv += ["--listen", "127.0.0.1:0", *(word for log in logs for word in ("--log", log))]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert process.stdout is not None
        said = process.stderr.readline()
        assert "listens at" in said, said + process.stderr.read()
        url = said.split(" listens at ")[1].split(". ")[0]
        yield RunningWitness(url, VerifierKey.parse(process.stdout.readline(), WITNESS))
    finally:
        process.terminate()
        process.communicate(timeout=20)


class Asked(NamedTuple):
    """What a witness of a test was sent."""

    method: str
    path: str
    body: bytes


Answers = Callable[[Asked], tuple[int, str, bytes] | None]


@contextlib.contextmanager
def pretender(answer: Answers) -> Iterator[str]:
    """A witness that answers what it likes: status, content type and body; None keeps silent until the test is over."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            said = answer(Asked(self.command, self.path, body))
            if said is None:
                over.wait(60)
                return
            with contextlib.suppress(OSError):
                self.send_response(said[0])
                self.send_header("content-type", said[1])
                self.send_header("location", "http://127.0.0.1:9/elsewhere")
                self.end_headers()
                self.wfile.write(said[2])

        do_GET = do_POST = _any

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def cosign(log: AuditLog, *parties: WitnessParty, quorum: int | None = None, seconds: float = 10.0) -> WitnessReport:
    """Ask the witnesses once; what came of it."""

    async def ask() -> WitnessReport:
        cosigning = Cosigning(log, seconds=seconds)
        cosigning.configure(parties, len(parties) if quorum is None else quorum)
        await cosigning.run_once()
        return cosigning.report()

    return asyncio.run(ask())
