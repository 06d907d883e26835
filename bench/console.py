"""How long the console's server takes for each page over a full store: no network, no browser, the whole answer.

`python bench/console.py [FOLDER]` prints the table; with FOLDER the store is kept there and used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Any

from environments import Say

RECORDS = 100_000
TOOLS = 1_000
SERVERS = 20
REQUESTS = 500
SESSIONS = 500
DAYS = 7
LIMIT_MS = 200.0
ORIGIN = "http://localhost:8700"
USER = "ann"
KEY = bytes(range(32))
REASONS = ("tool_not_approved", "rule_blocked", "missing_evidence", "tool_changed")


def measure(scratch: Path, say: Say, *, quick: bool) -> dict[str, Any]:
    """Milliseconds for each page, of wall time and of CPU: the first time, and the median of several after it."""
    folder = scratch / "console"
    folder.mkdir(exist_ok=True)
    return asyncio.run(_measure(folder, say, rounds=3 if quick else 9))


async def _measure(folder: Path, say: Say, *, rounds: int) -> dict[str, Any]:
    async with _opened(folder, say) as (app, cookie, paths):
        found: dict[str, Any] = {}
        for name, path in paths.items():
            first = await _request(app, path, cookie)
            again = [await _request(app, path, cookie) for _ in range(rounds)]
            found[name] = {
                "first_cpu_ms": round(first[1], 1),
                "cpu_ms": round(median(one[1] for one in again), 1),
                "first_ms": round(first[0], 1),
                "ms": round(median(one[0] for one in again), 1),
                "kilobytes": round(first[2] / 1000),
            }
    counts = {"records": RECORDS, "tools": TOOLS, "requests": REQUESTS, "sessions": SESSIONS}
    return {**counts, "limit_ms": LIMIT_MS, "pages": found}


async def _request(app: Any, path: str, cookie: str) -> tuple[float, float, int]:
    """One GET through the ASGI application itself: milliseconds, those of CPU on all threads, the size of the page."""
    place, _, query = path.partition("?")
    headers = [(b"host", b"localhost:8700"), (b"accept", b"text/html"), (b"cookie", cookie.encode())]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": place,
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "server": ("localhost", 8700),
        "client": ("127.0.0.1", 1),
    }
    status, size = 0, 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, size
        status = message.get("status", status)
        size += len(message.get("body", b""))

    began, cpu = time.perf_counter(), time.process_time()
    await app(scope, receive, send)
    spent, worked = (time.perf_counter() - began) * 1000, (time.process_time() - cpu) * 1000
    if status != 200:
        raise RuntimeError(f"{path} answered with {status}")
    return spent, worked, size


# -- a full store ----------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _opened(folder: Path, say: Say) -> AsyncIterator[tuple[Any, str, dict[str, str]]]:
    """The console over a store that has everything in it, somebody's cookie, and the pages to ask for."""
    from callgate.approval import Approvals, ApprovalSettings, RelyingParty
    from callgate.approval.model import ApprovalBounds
    from callgate.audit import AuditLog
    from callgate.config import parse
    from callgate.console import console_app
    from callgate.console.context import GatewayParts
    from callgate.keyring import Keyring
    from callgate.pinning.service import Pins
    from callgate.store import KillSwitch, SqlAgents, SqlApprovals, SqlPins, SqlTrust, Store
    from callgate.trust.service import TrustService

    fresh = not (folder / "store.db").exists()
    store = Store.open(f"sqlite:///{folder / 'store.db'}")
    try:
        log = AuditLog(store, Keyring(folder / "keys", environ={}))
        pins, trust = Pins(SqlPins(store), lambda: [KEY]), TrustService(SqlTrust(store))
        # More than one person may have by default: the page is to be measured, not the bound.
        settings = ApprovalSettings(request_ms=86_400_000, bounds=ApprovalBounds(requests_per_user=REQUESTS))
        approvals = Approvals(SqlApprovals(store), RelyingParty("localhost", origins=(ORIGIN,)), settings)
        cookie = await _sign_in(approvals, fresh=fresh)
        if fresh:
            say(f"writing {RECORDS:,} audit records, {TOOLS:,} tools and {REQUESTS} requests")
            await asyncio.to_thread(_records, log)
            await _tools(pins)
            await _requests(approvals)
            await _sessions(trust.shelf)
        switch = KillSwitch(store, environ={})
        await switch.start()
        names = [f"server-{number}" for number in range(SERVERS)]
        text = "".join(f'[servers.{name}]\nurl = "https://{name}.example/mcp"\n' for name in names)
        rooms = GatewayParts(store, log, SqlAgents(store), switch, parse(text, environ={}))
        configured = dict.fromkeys(names, "")
        app = console_app(
            approvals,
            origin=ORIGIN,
            secure=False,
            pins=pins,
            configured=lambda: configured,
            trust=trust,
            gateway=rooms,
        )
        try:
            yield app, cookie, _paths()
        finally:
            await switch.stop()
    finally:
        await store.close()


def _paths() -> dict[str, str]:
    deep = RECORDS // 2
    return {
        "overview": "/",
        "overview, 7 days": "/?span=7d",
        "audit, first page": "/audit",
        "audit, deep page": f"/audit?before={deep}",
        "audit, next newer": f"/audit?after={deep}",
        "audit, one server": "/audit?server=server-3",
        "audit, a rare reason": "/audit?reason=tool_changed",
        "audit, a word in nothing": "/audit?q=nowhere",
        "audit, an agent": "/audit?agent=agent-7",
        "audit, an agent in nothing": "/audit?agent=nobody-at-all",
        "audit, two days ago": "/audit?since=3d&until=2d",
        "audit, one call with proof": f"/audit/{_call(RECORDS // 4)}",
        "servers": "/servers",
        "one server": "/servers/server-3",
        "approvals": "/approvals",
        "tools": "/tools",
        "sessions": "/sessions",
        "settings": "/settings",
    }


async def _sign_in(approvals: Any, *, fresh: bool) -> str:
    from callgate.sdk.authenticators.software import SoftwareAuthenticator

    key = SoftwareAuthenticator(ORIGIN)
    begun = await approvals.begin_enrolment(await approvals.ticket(USER, by="bench"))
    enrolled = await approvals.finish_enrolment(key.create(begun["options"]), name="Bench", codes=fresh)
    _, secret = await approvals.session_for(enrolled.credential)
    return f"callgate_session_8700={secret}"


def _call(number: int) -> str:
    return f"01benchcall{number:016d}"


def _records(log: Any) -> None:
    """Calls of a week, a tenth of them refused, as a gateway with every check on writes them; then their tree."""
    from callgate.audit import Arguments, CheckNote, DecisionRecord, OutcomeRecord

    dice = random.Random(7)
    now, calls = int(time.time() * 1000), RECORDS // 2
    checks = tuple(CheckNote(name, "pass") for name in ("agents", "pinning", "trust", "approval"))
    pin = {"server_id": "https://x.example/mcp", "approval_hash": f"sha256:{'a' * 64}", "state": "approved"}
    with log.store.audit_writing() as tables:
        for number in range(calls):
            at = now - (calls - number) * (DAYS * 86_400_000 // calls)
            reason = dice.choices(REASONS, (50, 30, 19, 1))[0] if dice.random() < 0.1 else None
            seen = [(f"path.{one}", "text", "prompt", False) for one in range(6)]
            agent = {"id": f"agent-{number % 40}", "client": "Fieldwork", "transport": "http"}
            trust = {"session": f"{number % SESSIONS:032x}", "effect": "allow", "values": seen, "agent": agent}
            record = DecisionRecord(
                call=_call(number),
                at=at,
                gateway="bench",
                server=f"server-{dice.randrange(SERVERS)}",
                session=f"connection-{number % SESSIONS}",
                transport="http",
                protocol="2025-11-25",
                tool=f"tool_{dice.randrange(TOOLS)}",
                arguments=Arguments("whole", {"path": f"/srv/{number}", "text": "x" * 300}),
                args_hash=f"sha256:{'0' * 64}",
                verdict="allow" if reason is None else "refuse",
                reason=reason,
                checks=checks,
                extra={"trust": trust, "pin": pin},
            )
            tables.insert(log.row(record))
            tables.insert(log.row(OutcomeRecord(call=record.call, at=at + 5, outcome="result", ms=5.0, bytes=900)))
    log.catch_up()


async def _tools(pins: Any) -> None:
    """Servers with fifty tools each; every other server's are approved."""
    from callgate.pinning.document import approval_hash
    from callgate.pinning.model import Connected, ServerSeen, ToolSeen
    from callgate.pinning.service import Choice

    now, each = int(time.time() * 1000), TOOLS // SERVERS
    schema = {"type": "object", "properties": {"path": {"type": "string", "maxLength": 200}}, "required": ["path"]}
    for number in range(SERVERS):
        name = f"server-{number}"
        server_id = f"https://{name}.example/mcp"
        seen = []
        for at in range(each):
            tool = f"read_{number}_{at}"
            entry = {"name": tool, "description": f"Reads what is at path {number}, kind {at}.", "inputSchema": schema}
            made = approval_hash(server_id, tool, entry["description"], schema)
            raw = json.dumps(entry).encode()
            seen.append(
                ToolSeen(
                    server_id=server_id,
                    tool=tool,
                    approval_hash=made,
                    raw=raw,
                    size=len(raw),
                    first_seen=now,
                    last_seen=now,
                )
            )
        met = ServerSeen(
            server_id=server_id,
            lineage=server_id,
            name=name,
            kind="http",
            tools=each,
            size=sum(one.size for one in seen),
            first_seen=now,
            last_seen=now,
        )
        await pins.shelf.saw(met, seen, whole=True)
        await pins.shelf.connect(Connected(name, "", server_id, "bench", now + 86_400_000), now, SERVERS)
        if number % 2:
            choices = [Choice("approve", server_id, one.tool, one.approval_hash, override=True) for one in seen]
            await pins.decide(choices, by=USER)


async def _requests(approvals: Any) -> None:
    from callgate.approval import ApprovalPolicy, Gated
    from callgate.canonical import canonical

    gated = Gated(
        "server-1", "urn:bench", "delete_resource", ApprovalPolicy("cross-platform"), version=f"sha256:{'c' * 64}"
    )
    agent = {"client": "Fieldwork 1.4.2", "transport": "http"}
    for number in range(REQUESTS):
        arguments = {"resourceId": f"prod/{number}", "text": "x" * 200}
        await approvals.ask(
            gated, arguments, canonical(arguments), USER, caller=f"caller-{number}", agent=agent, why="It asks first."
        )


async def _sessions(shelf: Any) -> None:
    now = int(time.time() * 1000)
    for number in range(SESSIONS):
        await shelf.open(f"{number:032x}", f"127.0.0.1 Fieldwork {number % 40}", now, 0)


def table(found: dict[str, Any]) -> str:
    """The figures as the README has them."""
    lines = ["| page | first, CPU | then, CPU | first | then | size |", "|---|---:|---:|---:|---:|---:|"]
    for name, one in found["pages"].items():
        times = " | ".join(f"{one[key]:.0f} ms" for key in ("first_cpu_ms", "cpu_ms", "first_ms", "ms"))
        lines.append(f"| {name} | {times} | {one['kilobytes']} kB |")
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        found = asyncio.run(_measure(Path(sys.argv[1]), print, rounds=9))
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(_measure(Path(folder), print, rounds=9))
    print(table(found))


if __name__ == "__main__":
    main()
