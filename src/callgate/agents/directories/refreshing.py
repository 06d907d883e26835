"""What operators do with directories by hand: fetch one now, look at what is held of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from msgspec.structs import replace

from callgate.agents.directories.documents import Documents
from callgate.agents.directories.explaining import DirectoryShown, KeyShown, Refreshed
from callgate.agents.directories.listing import AgentsDocument
from callgate.agents.directories.publishing import Published
from callgate.agents.jwks import usable
from callgate.agents.storage import DirectoryStore

T = TypeVar("T")


async def refreshed(
    documents: Documents[T], shelf: DirectoryStore, url: str, names: Callable[[T], Collection[str]], now: int
) -> Refreshed:
    """Fetch it; what came counts everywhere at once. If that fails, what was held stays, here and elsewhere."""
    before = await documents.held(url)
    held = await documents.renew(url)
    if held is None:
        failure = documents.failure(url)
        reason, text = ("unknown", "") if failure is None else (failure.reason, failure.text)
        return Refreshed(url, ok=False, failure=reason, text=text)
    # Others hold their own copies: the flush makes them let go, and what was fetched is put back in its place.
    await shelf.flush_directory(url, now)
    await shelf.keep_directory(replace(held.fetched, version=await shelf.directories_version()))
    had = set() if before is None else set(names(before.value))
    has = set(names(held.value))
    return Refreshed(url, ok=True, added=tuple(sorted(has - had)), removed=tuple(sorted(had - has)))


async def shown(documents: Documents[Published], url: str, source: str, now: float) -> DirectoryShown:
    """What is held of a key directory, without a fetch."""
    held = await documents.held(url)
    failure = documents.failure(url)
    told = "" if failure is None else f"{failure.reason}: {failure.text}"
    if held is None:
        return DirectoryShown(url, source, failed_at=0 if failure is None else failure.at, failure=told)
    keys = [
        KeyShown(
            key.thumbprint,
            key.kid,
            key.algorithms,
            key.not_before,
            key.not_after,
            proven=key.thumbprint in held.value.proven,
            usable=usable(key, now),
        )
        for key in held.value.keys.keys.values()
    ]
    return DirectoryShown(
        url,
        source,
        held.fetched.fetched_at,
        held.fetched.fresh_until,
        held.fetched.failed_at,
        told,
        tuple(keys),
        held.value.keys.left_out,
    )


def key_names(published: Published) -> Collection[str]:
    return published.keys.keys.keys()


def agent_names(document: AgentsDocument) -> Collection[str]:
    entries = (*document.roster.entries.values(), *document.alone.values())
    return {one.agent for one in entries}
