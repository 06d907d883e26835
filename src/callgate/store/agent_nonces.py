"""Nonces as rows: all of a batch are one conditional insert, and only that decides who was first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from callgate.store.backend import Backend
from callgate.store.sqlite import SqliteBackend

# A row whose time is over counts as none, whether it was swept out already or not.
_TAKE: Final = (
    "INSERT INTO agent_nonce (digest, expires_at) VALUES (?, ?) ON CONFLICT (digest)"
    " DO UPDATE SET expires_at = excluded.expires_at WHERE agent_nonce.expires_at < ?"
)
# PostgreSQL: in one order over all processes, so that batches wait for each other but never in a circle.
_TAKE_ALL: Final = (
    b"INSERT INTO agent_nonce (digest, expires_at) SELECT d, e FROM unnest(%b::bytea[], %b::int8[]) AS n(d, e)"
    b" ORDER BY d ON CONFLICT (digest)"
    b" DO UPDATE SET expires_at = excluded.expires_at WHERE agent_nonce.expires_at < %b::int8 RETURNING digest"
)


class Nonce(msgspec.Struct, frozen=True, gc=False):
    """One that somebody wants to use."""

    digest: bytes
    expires_at: int
    now: int


class Nonces:
    """Writes the nonces of a batch; for each, whether it was new."""

    def __init__(self, backend: Backend) -> None:
        self._changes = backend.changes if isinstance(backend, SqliteBackend) else None

    def write(self, driver: Any, nonces: Sequence[Nonce]) -> list[bool]:
        if self._changes is not None:
            taken = [driver.execute(_TAKE, (one.digest, one.expires_at, one.now)).rowcount == 1 for one in nonces]
            if any(taken):
                self._changes.wrote()
            return taken
        # Of equal ones in a batch the first may pass, and never two.
        firsts: dict[bytes, Nonce] = {}
        for one in nonces:
            firsts.setdefault(one.digest, one)
        earliest = min(one.now for one in nonces)
        columns = list(firsts), [one.expires_at for one in firsts.values()]
        rows = driver.execute(_TAKE_ALL, (*columns, earliest), binary=True).fetchall()
        new = {bytes(row[0]) for row in rows}
        return [one.digest in new and firsts[one.digest] is one for one in nonces]
