"""Small logs for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from callgate.audit import Arguments, AuditLog, CheckNote, DecisionRecord, OutcomeRecord
from callgate.keyring import Keyring
from callgate.store import Store
from support.stores import write_ready

START = 1_800_000_000_000


def decision(number: int, **changes: Any) -> DecisionRecord:
    values: dict[str, Any] = {
        "call": f"01testcall{number:016d}",
        "at": START + number,
        "gateway": "gw-1",
        "server": "files",
        "transport": "http",
        "tool": "read",
        "arguments": Arguments("whole", {"path": f"/tmp/{number}"}),
        "args_hash": "sha256:" + "0" * 64,
        "verdict": "allow",
        "checks": (CheckNote("kill_switch", "pass"),),
    }
    return DecisionRecord(**{**values, **changes})


def outcome(number: int, **changes: Any) -> OutcomeRecord:
    values: dict[str, Any] = {
        "call": f"01testcall{number:016d}",
        "at": START + number + 5,
        "outcome": "result",
        "ms": 5.0,
    }
    return OutcomeRecord(**{**values, **changes})


def open_log(url: str, keys: Path, *, busy_seconds: float = 20.0, **options: Any) -> AuditLog:
    file = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and file.parent.is_dir() and not file.exists():
        write_ready(file)
    store = Store.open(url, busy_seconds=busy_seconds)
    try:
        return AuditLog(store, Keyring(keys, environ={}), **options)
    except BaseException:
        store.close_sync()
        raise


def fill(log: AuditLog, count: int, *, first: int = 1) -> None:
    """Records of `count` calls, decision and outcome each, not in the tree yet."""
    with log.store.audit_writing() as tables:
        for number in range(first, first + count):
            tables.insert(log.row(decision(number)))
            tables.insert(log.row(outcome(number)))
