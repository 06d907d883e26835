"""What a server with verified approval stands on: the store, its log, and the service, for as long as it serves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shlex
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import msgspec

from callgate.approval import ApprovalRepository, Approvals
from callgate.approval.action import check_server_id
from callgate.approval.base import Witness, no_witness
from callgate.audit import ArgumentsPolicy, AuditLog, OutcomeRecord
from callgate.audit.records import decision_record
from callgate.errors import Reason, Refused
from callgate.gate import Call, Decision
from callgate.sdk.store import open_store, store_option, store_section, switch_refusal
from callgate.store import SqlApprovals

log = logging.getLogger("callgate.sdk")

# A file, a URL as `store.url` takes it, or somebody's own shelf; None is the store that `callgate` uses by default.
Place: TypeAlias = str | Path | ApprovalRepository | None
MakeApprovals: TypeAlias = Callable[[ApprovalRepository, Witness], Approvals]
_REDACTED: Final = ArgumentsPolicy("redacted", ())


class OpenedService(msgspec.Struct, frozen=True):
    """The parts, opened. `server_id` is that of SEP-2672 §4.6; `closed` is the kill switch as the gate asks for it."""

    approvals: Approvals
    server_id: str
    recorder: ApprovalRecorder
    closed: Callable[[], Refused | None]


class SharedService:
    """The service while anybody needs it: opened for the first, closed after the last."""

    def __init__(self, opening: Callable[[], contextlib.AbstractAsyncContextManager[OpenedService]]) -> None:
        self._opening = opening
        self._service: OpenedService | None = None
        self._users = 0
        self._turn = asyncio.Lock()
        self._closing = contextlib.AsyncExitStack()

    @property
    def service(self) -> OpenedService:
        if self._service is None:
            raise Refused(Reason.APPROVAL_UNAVAILABLE, "verified approval is not running on this server")
        return self._service

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        async with self._turn:
            if not self._users:
                self._service = await self._closing.enter_async_context(self._opening())
            self._users += 1
        try:
            yield
        finally:
            # What is on its way to the store gets there even if the server is being stopped; closing is bounded.
            with anyio.CancelScope(shield=True):
                await self._leave()

    async def _leave(self) -> None:
        async with self._turn:
            self._users -= 1
            if not self._users:
                self._service = None
                await self._closing.aclose()


@contextlib.asynccontextmanager
async def open_service(
    place: Place, make: MakeApprovals, server: str, server_id: str | None, *, user: str | None = None
) -> AsyncIterator[OpenedService]:
    """Open everything; what is durable is flushed when the block ends. `user` is who is asked, if that is known."""
    if place is None or isinstance(place, (str, Path)):
        async with _open_store(place, make, server, server_id) as service:
            if not await service.approvals.shelf.credentials(user):
                _tell_how_to_enrol(place, user)
            yield service
    else:
        approvals = make(place, no_witness)
        chosen = await _server_id(place, server, server_id)
        yield OpenedService(approvals, chosen, ApprovalRecorder(place, None, secrets.token_hex(6)), lambda: None)


@contextlib.asynccontextmanager
async def _open_store(
    place: str | Path | None, make: MakeApprovals, server: str, server_id: str | None
) -> AsyncIterator[OpenedService]:
    async with open_store(store_section(place)) as (store, audit, switch):
        shelf = SqlApprovals(store)
        approvals = make(shelf, audit.admin)
        chosen = await _server_id(shelf, server, server_id)
        recorder = ApprovalRecorder(shelf, audit, secrets.token_hex(6))
        yield OpenedService(approvals, chosen, recorder, lambda: switch_refusal(switch))


def _tell_how_to_enrol(place: str | Path | None, user: str | None) -> None:
    log.warning("nobody can approve yet: %s", "nobody has a passkey" if user is None else f"{user} has no passkey")
    # Not as a part of the message: log handlers break lines, and a command in pieces cannot be copied.
    sys.stderr.write(f"To enrol a passkey:\n\n  {how_to_enrol(place, user)}\n\n")
    sys.stderr.flush()


def how_to_enrol(place: str | Path | None, user: str | None) -> str:
    """The command to type for the first passkey."""
    words = ["callgate", "enroll", user or "USER", "--here"]
    if place is not None:
        words += store_option(store_section(place))
    return shlex.join(words)


async def _server_id(shelf: ApprovalRepository, server: str, given: str | None) -> str:
    """§4.6: never the same for two servers, also where both keep their approvals in one store."""
    if given is not None:
        return given
    return check_server_id(f"{await shelf.identity(str(uuid.uuid4()))}/library:{server}")


class ApprovalRecorder:
    """Decisions and outcomes; without a log, only what a decision uses up is kept."""

    def __init__(self, shelf: ApprovalRepository, audit: AuditLog | None, process: str) -> None:
        self._shelf = shelf
        self._audit = audit
        self._process = process

    async def record(self, call: Call, decision: Decision) -> None:
        """Make a decision durable, in one transaction with what it uses up (SEP-2672 §4.8, steps 13 and 14)."""
        record = decision_record(call, decision, _REDACTED, self._process)
        for use in decision.uses:
            await self._shelf.use(use, None if self._audit is None else self._audit.row(record))
        if self._audit is not None and not decision.uses:
            await self._audit.decided(record)
        if decision.refused is not None:
            log.warning("call of %s refused: %s", call.tool, decision.refused.reason.value)

    def completed(self, call: Call, outcome: str, seconds: float) -> None:
        """How a call that was let through ended."""
        if self._audit is not None:
            at, ms = round(time.time() * 1000), round(seconds * 1000)
            self._audit.completed(OutcomeRecord(call=call.id, at=at, outcome=outcome, ms=ms))
