"""What the log says of a gateway's calls, asked as an operator would."""

from __future__ import annotations

import json
from typing import Any

from support.fork_server import CALLGATE, run
from support.gateway import Gateway


def calls_of(gateway: Gateway, tool: str | None = None) -> list[dict[str, Any]]:
    """The calls on record, oldest first: each with its decision and, if there is one yet, its outcome."""
    which = [] if tool is None else ["--tool", tool]
    said = ask(gateway, "audit", "list", "--json", "--limit", "100000", *which)
    return [json.loads(line) for line in said.splitlines()]


def ask(gateway: Gateway, *words: str, status: int = 0) -> str:
    """Run `callgate WORDS` on the gateway's configuration."""
    done = run([CALLGATE, *words, "-c", str(gateway.config)])
    assert done.returncode == status, done.stderr
    return done.stdout
