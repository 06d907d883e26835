"""What a server with verified approval stands on: the store, its log, and the service, for as long as it serves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shlex
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeAlias

import anyio
import msgspec

from callgate.approval import ApprovalRepository, Approvals
from callgate.approval.action import check_server_id
from callgate.approval.base import Witness, no_witness
from callgate.audit import AuditLog
from callgate.config.model import Store as StoreSection
from callgate.config.secret import Secret
from callgate.errors import Reason, Refused
from callgate.keyring import Keyring
from callgate.sdk.server_books import Books
from callgate.store import KillSwitch, SqlApprovals, Store

log = logging.getLogger("callgate.sdk")

# A file, a URL as `store.url` takes it, or somebody's own shelf; None is the store that `callgate` uses by default.
Place: TypeAlias = str | Path | ApprovalRepository | None
MakeApprovals: TypeAlias = Callable[[ApprovalRepository, Witness], Approvals]


class Service(msgspec.Struct, frozen=True):
    """The parts, opened. `server_id` is that of SEP-2672 §4.6; `closed` is the kill switch as the gate asks for it."""

    approvals: Approvals
    server_id: str
    books: Books
    closed: Callable[[], Refused | None]


class Tenancy:
    """The service while anybody needs it: opened for the first, closed after the last."""

    def __init__(self, opening: Callable[[], contextlib.AbstractAsyncContextManager[Service]]) -> None:
        self._opening = opening
        self._service: Service | None = None
        self._tenants = 0
        self._turn = asyncio.Lock()
        self._closing = contextlib.AsyncExitStack()

    @property
    def service(self) -> Service:
        if self._service is None:
            raise Refused(Reason.APPROVAL_UNAVAILABLE, "verified approval is not running on this server")
        return self._service

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        async with self._turn:
            if not self._tenants:
                self._service = await self._closing.enter_async_context(self._opening())
            self._tenants += 1
        try:
            yield
        finally:
            # What is on its way to the store gets there even if the server is being stopped; closing is bounded.
            with anyio.CancelScope(shield=True):
                await self._leave()

    async def _leave(self) -> None:
        async with self._turn:
            self._tenants -= 1
            if not self._tenants:
                self._service = None
                await self._closing.aclose()


@contextlib.asynccontextmanager
async def open_service(
    place: Place, make: MakeApprovals, server: str, server_id: str | None, *, user: str | None = None
) -> AsyncIterator[Service]:
    """Open everything; what is durable is flushed when the block ends. `user` is who is asked, if that is known."""
    if place is None or isinstance(place, (str, Path)):
        async with _open_store(place, make, server, server_id) as service:
            if not await service.approvals.shelf.credentials(user):
                _tell_how_to_enrol(place, user)
            yield service
    else:
        approvals = make(place, no_witness)
        chosen = await _server_id(place, server, server_id)
        yield Service(approvals, chosen, Books(place, None, secrets.token_hex(6)), lambda: None)


@contextlib.asynccontextmanager
async def _open_store(
    place: str | Path | None, make: MakeApprovals, server: str, server_id: str | None
) -> AsyncIterator[Service]:
    section = store_section(place)
    async with contextlib.AsyncExitStack() as stack:
        store = await asyncio.to_thread(Store.open, section.url.reveal())
        stack.push_async_callback(store.close)
        audit = await asyncio.to_thread(AuditLog, store, Keyring(section.keys_path))
        await audit.start()
        stack.push_async_callback(audit.close)
        switch = KillSwitch(store)
        await switch.start()
        stack.push_async_callback(switch.stop)
        shelf = SqlApprovals(store)
        approvals = make(shelf, audit.admin)
        chosen = await _server_id(shelf, server, server_id)
        yield Service(approvals, chosen, Books(shelf, audit, secrets.token_hex(6)), lambda: _closed(switch))


def _tell_how_to_enrol(place: str | Path | None, user: str | None) -> None:
    log.warning("nobody can approve yet: %s", "nobody has a passkey" if user is None else f"{user} has no passkey")
    # Not as a part of the message: log handlers break lines, and a command in pieces cannot be copied.
    sys.stderr.write(f"To enrol a passkey:\n\n  {how_to_enrol(place, user)}\n\n")
    sys.stderr.flush()


def how_to_enrol(place: str | Path | None, user: str | None) -> str:
    """The command to type for the first passkey."""
    words = ["callgate", "enroll", user or "USER", "--here"]
    if place is not None:
        url = store_section(place).url.reveal()
        # Another kind of address may hold a password.
        words += ["--store", url if url.startswith("sqlite:") else "URL"]
    return shlex.join(words)


def store_section(place: str | Path | None) -> StoreSection:
    """The store as a configuration would name it, with the folder of its keys."""
    if place is None:
        return StoreSection()
    text = str(place)
    url = text if "://" in text else f"sqlite:///{Path(text).expanduser().absolute().as_posix()}"
    return StoreSection(url=Secret(url, url))


async def _server_id(shelf: ApprovalRepository, server: str, given: str | None) -> str:
    """§4.6: never the same for two servers, also where both keep their approvals in one store."""
    if given is not None:
        return given
    return check_server_id(f"{await shelf.identity(str(uuid.uuid4()))}/library:{server}")


def _closed(switch: KillSwitch) -> Refused | None:
    if switch.engaged:
        return Refused(Reason.BLOCKED_BY_POLICY, f"{Reason.BLOCKED_BY_POLICY.meaning} ({switch.why})")
    return Refused(Reason.STORE_UNAVAILABLE) if switch.stale else None
