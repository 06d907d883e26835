"""What it costs to know who calls: the signature alone, and a call through the gateway with all of it on over none.

On means: every request signed with a nonce and a digest, only listed agents let in, rules for their tools, a rate limit
and the nonces in the store that all processes share.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import gateway
import http_bench
import web_bot_auth
from processes import Running
from rows import Row, ratio
from subjects import Bench, Subject, start_echo
from wire import HANDSHAKE

SEED = b"bench key, and nothing but that!".hex()


def _subject(name: str, label: str, key: str) -> Subject:
    def start(stack: ExitStack, bench: Bench) -> Running:
        return gateway.serve(stack, bench.scratch / name, bench.upstream, on_postgres=False, key=key)

    return Subject(name, label, start)


SUBJECTS = (_subject("agents-off", "Callgate, nobody signs", ""), _subject("agents-on", "Callgate, all sign", SEED))


def _calls(measured: dict[str, Row]) -> dict[str, Any]:
    off, on = (measured[subject.name] for subject in SUBJECTS)
    if not off.samples or not on.samples:
        return {"status": "unavailable", "reason": off.reason or on.reason}
    return {
        "status": "ok",
        "unsigned_cpu_us": round(median(sample.cpu_us or 0.0 for sample in off.samples), 1),
        "signed_cpu_us": round(median(sample.cpu_us or 0.0 for sample in on.samples), 1),
        "cpu_ratio": ratio(on, off, lambda sample: sample.cpu_us),
        "throughput_ratio": ratio(on, off, lambda sample: sample.per_second),
        "errors": sum(sample.errors for sample in (*off.samples, *on.samples)),
    }


def measure(scratch: Path, say: Callable[[str], None], *, quick: bool) -> dict[str, Any]:
    """Verifications as `web_bot_auth.measure` has them; calls over HTTP on SQLite."""
    found: dict[str, Any] = {"verify": web_bot_auth.measure(say, quick=quick)}
    folder = scratch / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        bench = Bench(start_echo(stack, folder), folder, say)
        where = stack.enter_context(http_bench.started(SUBJECTS, bench))
        say("web bot auth, calls through the gateway")
        rounds, seconds = (3, 0.5) if quick else (6, 1.0)
        found["calls"] = _calls(http_bench.measure(SUBJECTS, where, HANDSHAKE, rounds, seconds, lambda _: None))
    return found


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        print(json.dumps(measure(Path(made), print, quick="--quick" in sys.argv), indent=1))
