"""One row of the audit log as the store takes it."""

from __future__ import annotations

from typing import Final, NamedTuple

DECISION: Final = 1
OUTCOME: Final = 2
ADMIN: Final = 3


class AuditRow(NamedTuple):
    """A sealed record; every field but `body` and `seal` repeats the body, for filtering only."""

    kind: int
    at: int
    call: str | None
    server: str | None
    tool: str | None
    verdict: str | None
    reason: str | None
    body: bytes
    seal: bytes


COLUMNS: Final = AuditRow._fields
