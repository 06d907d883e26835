"""A console over a real store with a log in it: calls let through, refused and approved, with hostile names among them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

from callgate.audit import AuditLog, CheckNote
from callgate.config import parse
from callgate.console.context import GatewayParts
from callgate.keyring import Keyring
from callgate.store import KillSwitch, SqlAgents, SqlApprovals, Store
from support.auditing import decision, outcome
from support.console import LiveConsole, live_console
from support.stores import write_ready

HOSTILE: Final = '<script>alert("x")</script>\u202e\u200b'
CONFIG: Final = """
[servers.files]
command = ["notes-server", "--root", "/srv"]
[servers.mail]
url = "https://mail.example/mcp"
[servers.mail.approval]
tools = ["send_*"]
"""
SESSION: Final = "5e551077" * 4
MINUTE: Final = 60_000


def write(log: AuditLog, records: Sequence[Any]) -> None:
    """Records of any kind, in this order."""
    with log.store.audit_writing() as tables:
        for one in records:
            tables.insert(log.row(one))


def story(now: int) -> list[Any]:
    """A day's calls: twelve let through, three refused for two reasons, one lost on its way, one of a hostile server."""
    said: list[Any] = []
    for number in range(1, 13):
        said.append(decision(number, at=now - (13 - number) * 30 * MINUTE, session="conn-1"))
        said.append(outcome(number, at=now - (13 - number) * 30 * MINUTE + 5))
    refused = {"verdict": "refuse", "server": "mail", "tool": "send_mail"}
    trust = {
        "trust": {
            "session": SESSION,
            "effect": "block",
            "rule": "secrets-leave",
            "taken": {"open_world": True, "sensitivity": ["financial"]},
            "agent": {"id": "agent-7", "client": "Fieldwork"},
        }
    }
    note = CheckNote("trust", "refuse", "rule_blocked", "Only a stranger named the recipient.")
    for number in (13, 14):
        at = now - (15 - number) * MINUTE
        more = {"reason": "rule_blocked", "detail": "Only a stranger named the recipient.", "extra": trust}
        said.append(decision(number, at=at, checks=(CheckNote("agents", "pass"), note), **refused, **more))
    said.append(decision(15, at=now - 30_000, reason="tool_not_approved", **{**refused, "tool": HOSTILE}))
    said.append(decision(16, at=now - 20_000, server="mail", tool="list_mail", caller={"client": "Fieldwork 1.4"}))
    said.append(outcome(16, at=now - 19_000, outcome="lost", code=-32000))
    return said


@contextlib.asynccontextmanager
async def audited_console(
    folder: Path, config: str = CONFIG, **options: Any
) -> AsyncIterator[tuple[LiveConsole, GatewayParts]]:
    """A console with the rooms of a gateway; nothing is in its log yet."""
    store = Store.open(f"sqlite:///{write_ready(folder / 'store.db')}", busy_seconds=60)
    try:
        log = AuditLog(store, Keyring(folder / "keys", environ={}))
        switch = KillSwitch(store, environ={})
        await switch.start()
        rooms = GatewayParts(store, log, SqlAgents(store), switch, parse(config, environ={}), folder / "callgate.toml")
        try:
            async with live_console(shelf=SqlApprovals(store), gateway=rooms, **options) as console:
                yield console, rooms
        finally:
            await switch.stop()
    finally:
        await store.close()


def now_of(console: LiveConsole) -> int:
    return int(console.clock() * 1000)
