"""How pages read the log: beside the writer, and never for long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from callgate.store import Store
from callgate.store.audit import AuditTables

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

# How long one page may search; the gateway's own work waits for no page.
SEARCH_SECONDS: Final = 0.1


async def in_log(store: Store, query: Callable[[AuditTables], T]) -> T:
    """What a query finds in one view of the log; text in it is not believed to be text."""

    def read(conn: Connection) -> T:
        with store.backend.doubting(conn):
            return query(AuditTables(conn, store.backend))

    return await store.read(read)


def tired(seconds: float = SEARCH_SECONDS) -> Callable[[], bool]:
    """Says when that much time is over, from now on."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until
