"""What the demo reads and decides in the store of its gateway, through the services that the other commands use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from callgate.approval import Approvals, Request
from callgate.audit import receipt as receipts
from callgate.audit.reading import entries
from callgate.audit.storage import Filter
from callgate.cli.common import OpenedLog, keys_of, log_of, open_store, operator
from callgate.config import Config
from callgate.pinning.review.views import ToolView
from callgate.pinning.service import Choice, Pins

# Whom the gateway asks.
PERSON: Final = "me"


class DemoServices(NamedTuple):
    """The tools, the approvals and the log of a running demo."""

    config: Config
    pins: Pins
    approvals: Approvals
    audit: OpenedLog

    # -- tools --

    async def knows_servers(self) -> bool:
        """Whether the tools of any server were ever put on record."""
        return bool(await self.pins.shelf.servers())

    async def tools(self) -> dict[tuple[str, str], ToolView]:
        """Every tool that was met, by server and name."""
        review = await self.pins.review()
        return {(one.server, one.tool): one for server in review.servers for one in server.tools}

    async def approve(self, views: Sequence[ToolView]) -> None:
        """Approve each for its text of now, all of them seen together."""
        choices = [
            Choice("approve", one.server_id, one.tool, one.approval_hash, entry=one.entry_digest) for one in views
        ]
        together = [one.seen.server_id for one in (await self.pins.review()).servers]
        if choices:
            await self.pins.decide(choices, by=operator(), together=together)

    async def block(self, view: ToolView, note: str) -> None:
        choice = Choice("block", view.server_id, view.tool, view.approval_hash, note=note)
        await self.pins.decide([choice], by=operator())

    # -- people --

    async def enrolled(self) -> bool:
        return bool(await self.approvals.shelf.credentials(PERSON))

    async def ticket(self) -> str:
        return await self.approvals.ticket(PERSON, by=operator())

    async def waiting(self, known: Sequence[str]) -> Request | None:
        """The call that waits and is not among those known."""
        found = await self.approvals.shelf.requests(PERSON, states=("waiting",))
        return next((one for one in found if one.id not in known), None)

    async def requests(self) -> list[str]:
        return [one.id for one in await self.approvals.shelf.requests(PERSON)]

    async def refuse(self, request: Request, note: str) -> None:
        await self.approvals.refuse(request.id, by=operator(), note=note)

    async def decided(self, request: Request) -> Request | None:
        """What became of it; None while it waits."""
        found = await self.approvals.shelf.request(request.id)
        return found if found is None or found.state != "waiting" or self.approvals.expired(found) else None

    # -- the log --

    async def call_of(self, tool: str, iban: str) -> str | None:
        """The newest call of a tool with this IBAN that was let through."""
        return await asyncio.to_thread(self._call_of, tool, iban)

    def _call_of(self, tool: str, iban: str) -> str | None:
        with self.audit.store.audit_reading() as tables:
            found = entries(tables, Filter(tool=tool, verdict="allow"), 100)
        calls = [one.decision.call for one in found if one.outcome and iban in str(one.decision.arguments.value)]
        return calls[-1] if calls else None

    async def receipt(self, call: str, to: Path) -> None:
        await asyncio.to_thread(self._receipt, call, to)

    def _receipt(self, call: str, to: Path) -> None:
        self.audit.log.catch_up()
        with self.audit.store.audit_reading() as tables:
            document = receipts.encode(receipts.make(tables, call, self.audit.keyring.public_keys()))
        to.write_bytes(document)


@contextmanager
def open_services(path: Path) -> Iterator[DemoServices]:
    """The services over the store of this configuration."""
    from callgate.app.approval import party, settings
    from callgate.cli.services import pins_of
    from callgate.store import SqlApprovals, SqlPins

    with open_store(path, None) as (config, store):
        keyring = keys_of(config)
        log = log_of(config, store, keyring)
        section = config.approval
        approvals = Approvals(SqlApprovals(store), party(section), settings(section), witness=log.admin)
        pins = pins_of(config, SqlPins(store), log.admin)
        yield DemoServices(config, pins, approvals, OpenedLog(log, store, keyring))
