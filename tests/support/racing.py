"""Processes that begin at the same moment: programs that say `ready`, read their jobs from stdin, and write what came of
each of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.fork_server import Forked

Job = dict[str, Any]


def started(script: str, folder: Path, *words: str) -> Forked:
    """A program of a test, forked with the imports of the product done; what it prints is read as text."""
    path = folder / "program.py"
    path.write_text(script, encoding="utf-8")
    return Forked(
        [sys.executable, str(path), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def race(program: str, url: str, jobs: Sequence[Sequence[Job]], timeout: float = 120) -> list[list[Any]]:
    """Give each process its jobs, let all begin at once; what each job of each process came to."""
    command = [sys.executable, program, url]
    running = [Forked(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) for _ in jobs]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process, share in zip(running, jobs, strict=True):
            assert process.stdin is not None
            process.stdin.write(json.dumps(share) + "\n")
        ends = []
        for process in running:
            out, _ = process.communicate(timeout=timeout)
            assert process.returncode == 0
            ends.append(json.loads(out))
        return ends
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()
