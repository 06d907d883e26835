"""The file of a pinned client: decisions, what was met, the log, and the keys beside it, for as long as it is open.

It has the schema of every store of Callgate, so that the command line reviews it: `callgate review --store URL`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from callgate.audit import AuditLog
from callgate.errors import Reason, Refused, StoreError
from callgate.keyring import Keyring
from callgate.pinning.model import PinningSettings
from callgate.pinning.service import Pins
from callgate.sdk.server_store import store_section
from callgate.store import KillSwitch, SqlPins, Store

KEY: Final = "pinning"

# What the advice of the gateway's reasons becomes where the store is this file.
_ADVICE: Final = {
    Reason.TOOL_NOT_APPROVED: ("A reviewer looks at it with", "review"),
    Reason.TOOL_CHANGED: ("A reviewer looks at the difference with", "review"),
    Reason.SET_NOT_REVIEWED: ("A reviewer looks at both servers with", "review"),
    Reason.TOOL_BLOCKED: ("Do without it, or ask the reviewer. This says why:", "tools list"),
    Reason.TOOL_UNFIT: ("The server's author puts it right. This says what is wrong:", "tools list"),
    Reason.PIN_TAMPERED: ("This says which decision does not hold:", "tools verify"),
    Reason.STORE_UNAVAILABLE: ("This says what is wrong with it:", "store check"),
    Reason.AUDIT_UNAVAILABLE: ("Look at free disk space, and at", "store check"),
    Reason.BLOCKED_BY_POLICY: ("An operator turns it off with", "block-all off"),
}


class Desk(msgspec.Struct, frozen=True):
    """The parts, opened. `closed` is the kill switch as the gate has it; `options` name this store in a command."""

    pins: Pins
    shelf: SqlPins
    audit: AuditLog
    closed: Callable[[], Refused | None]
    options: tuple[str, ...]

    def command(self, words: str) -> str:
        """A command to type, on this store."""
        return shlex.join(["callgate", *words.split(), *self.options])

    def told(self, refused: Refused) -> Refused:
        """The same refusal, with a next step that works on this store."""
        if refused.reason not in _ADVICE:
            return refused
        lead, words = _ADVICE[refused.reason]
        advice = f"{lead} `{self.command(words)}`."
        return Refused(refused.reason, refused.message, advice=advice, data=refused.data)

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Whatever is refused inside says what to do next; a store that fails is a refusal as well."""
        try:
            yield
        except StoreError as error:
            raise self.told(Refused(Reason.STORE_UNAVAILABLE, str(error))) from error
        except Refused as refused:
            raise self.told(refused) from refused.__cause__


@contextlib.asynccontextmanager
async def open_desk(place: str | Path, settings: PinningSettings) -> AsyncIterator[Desk]:
    """Open everything; what is durable is flushed when the block ends. StoreError where the file cannot be used."""
    section = store_section(place)
    url = section.url.reveal()
    keyring = Keyring(section.keys_path)

    def keys() -> list[bytes]:
        return [key.secret for key in keyring.versions(KEY)]

    async with contextlib.AsyncExitStack() as stack:
        store = await asyncio.to_thread(Store.open, url)
        stack.push_async_callback(store.close)
        audit = await asyncio.to_thread(AuditLog, store, keyring)
        await audit.start()
        stack.push_async_callback(audit.close)
        switch = KillSwitch(store)
        await switch.start()
        stack.push_async_callback(switch.stop)
        shelf = SqlPins(store)
        if await shelf.head() is None:
            # Only where nothing was sealed yet: a key that is missing later must be missed.
            await asyncio.to_thread(keyring.make, KEY)
        pins = Pins(shelf, keys, settings=settings, witness=audit.admin)
        # Another kind of address may hold a password.
        options = ("--store", url if url.startswith("sqlite:") else "URL")
        yield Desk(pins, shelf, audit, lambda: _closed(switch), options)


def _closed(switch: KillSwitch) -> Refused | None:
    if switch.engaged:
        return Refused(Reason.BLOCKED_BY_POLICY, f"{Reason.BLOCKED_BY_POLICY.meaning} ({switch.why})")
    return Refused(Reason.STORE_UNAVAILABLE) if switch.stale else None
