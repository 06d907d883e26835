"""The store under the libraries: a file or an address, its log, and the kill switch, for as long as it is open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from callgate.audit import AuditLog
from callgate.config.model import StoreSection
from callgate.config.secret import Secret
from callgate.keyring import Keyring
from callgate.store import KillSwitch, Store


def store_section(place: str | Path | None) -> StoreSection:
    """The store as a configuration would name it, with the folder of its keys."""
    if place is None:
        return StoreSection()
    text = str(place)
    url = text if "://" in text else f"sqlite:///{Path(text).expanduser().absolute().as_posix()}"
    return StoreSection(url=Secret(url, url))


def store_option(section: StoreSection) -> tuple[str, str]:
    """The option that names this store on a command line. Another kind of address may hold a password."""
    url = section.url.reveal()
    return "--store", url if url.startswith("sqlite:") else "URL"


@contextlib.asynccontextmanager
async def open_store(section: StoreSection) -> AsyncIterator[tuple[Store, AuditLog, KillSwitch]]:
    """Open everything; what is durable is flushed when the block ends. StoreError where the store cannot be used."""
    async with contextlib.AsyncExitStack() as stack:
        store = await asyncio.to_thread(Store.open, section.url.reveal())
        stack.push_async_callback(store.close)
        audit = await asyncio.to_thread(AuditLog, store, Keyring(section.keys_path))
        await audit.start()
        stack.push_async_callback(audit.close)
        switch = KillSwitch(store)
        await switch.start()
        stack.push_async_callback(switch.stop)
        yield store, audit, switch
