"""What an operator sets about directories, with its defaults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from callgate.agents.directories.documents import DocumentKind, Documents, Times, UnsharedDirectories
from callgate.agents.directories.listing import (
    BY_KEY,
    INLINE,
    SELF,
    STATIC,
    AgentDirectory,
    AgentIdentity,
    AgentsDocument,
    HttpDirectory,
    Roster,
    directory_place,
    pattern,
    read_agents,
)
from callgate.agents.directories.publishing import PublishedKeys, publishing, read_inline
from callgate.agents.fetching import Caps, Fetcher, FetchFailed, FetchTarget, Reach, place_of
from callgate.agents.keys import MAX_KEYS, BadKeys, KeySet, PublicKey, key_set, usable
from callgate.agents.model import Verified
from callgate.agents.storage import DirectoryStore, Listed
from callgate.caching import BoundedCache
from callgate.errors import ConfigError, Reason

Discovery: TypeAlias = Literal["trust", "allow", "ignore"]


class Sources(msgspec.Struct, frozen=True):
    """Where keys and agents come from. There is no address that is asked unless it is here or a request names it."""

    # Key directories that are trusted by configuration, ahead of discovered ones (WB-046).
    jwks_urls: tuple[str, ...] = ()
    # What becomes of a directory that a request names: believed, believed if allowed, or ignored (WB-047, WB-048).
    discovery: Discovery = "trust"
    # With `allow`: `https://agent.example`, `https://*.example.com`.
    allowed: tuple[str, ...] = ()
    # Our own origin is never fetched; its keys are these (WB-049).
    self_origin: str = ""
    self_jwks: Mapping[str, Any] | None = None
    # Keys that may come inside a request, in a data: URI, by thumbprint; without any, such URIs are refused (WB-093).
    inline_keys: tuple[str, ...] = ()
    # Whether the `kid` of a key may stand for its thumbprint within its directory (WB-005).
    kid_fallback: bool = False
    # Whether a directory has to be signed by the keys in it, and that signature to cover the document (WB-092).
    signed: Literal["optional", "required"] = "optional"
    signed_digest: Literal["required", "optional"] = "required"
    # Agents of the configuration, and documents of agents (WB-030, WB-031).
    agents: tuple[Listed, ...] = ()
    agent_urls: tuple[str, ...] = ()
    # Whether a document of agents may name a key without its directory, whichever directory the key then comes from.
    keyid_alone: bool = False
    # Whether an agent that nobody listed is refused; None: as soon as anything is listed (WB-035, WB-077).
    listed_only: bool | None = None
    most_keys: int = MAX_KEYS
    reach: Reach = Reach()
    caps: Caps = Caps()
    times: Times = Times()


Outcome: TypeAlias = Literal["found", "absent", "outside_its_time", "refused", "failed", "ignored"]


class LookupStep(NamedTuple):
    """One place that was looked at (a URL, `static`, `self`, `data:`), and what came of it."""

    where: str
    outcome: Outcome
    text: str = ""


class Explained(msgspec.Struct, frozen=True):
    """Why a key counts or not, and whose it is."""

    keyid: str
    # As the request named it; empty where it named none.
    named: str
    steps: tuple[LookupStep, ...]
    # Where the key was found; empty where it was not.
    directory: str = ""
    thumbprint: str = ""
    agent: AgentIdentity | None = None
    # Machine-readable, as a request would be refused; empty where it would go on.
    reason: str = ""


class KeyShown(msgspec.Struct, frozen=True):
    """A key of a directory."""

    thumbprint: str
    kid: str
    algorithms: tuple[str, ...]
    not_before: int | None
    not_after: int | None
    proven: bool
    usable: bool


class DirectoryShown(msgspec.Struct, frozen=True):
    """A directory as it is held; times in milliseconds, 0 for never."""

    url: str
    # Why it is asked: `configured`, `listed` or `discovered`.
    source: str
    fetched_at: int = 0
    fresh_until: int = 0
    failed_at: int = 0
    failure: str = ""
    keys: tuple[KeyShown, ...] = ()
    left_out: tuple[str, ...] = ()


class Refreshed(msgspec.Struct, frozen=True):
    """What a refresh brought: keys that came and went, or why nothing was fetched (then what was held stays)."""

    url: str
    ok: bool
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    failure: str = ""
    text: str = ""


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


async def shown(documents: Documents[PublishedKeys], url: str, source: str, now: float) -> DirectoryShown:
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


def key_names(published: PublishedKeys) -> Collection[str]:
    return published.keys.keys.keys()


def agent_names(document: AgentsDocument) -> Collection[str]:
    entries = (*document.roster.entries.values(), *document.alone.values())
    return {one.agent for one in entries}


# How often the store is asked whether something changed, beside being told so.
_FOLLOW_SECONDS: Final = 1.0
_MOST_PLACES: Final = 4096
_USUAL: Final = Sources()


class Directories:
    """Keys and agents of all directories that are used here."""

    def __init__(
        self,
        sources: Sources = _USUAL,
        shelf: DirectoryStore | None = None,
        *,
        fetcher: Fetcher | None = None,
        agents: Sequence[AgentDirectory] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.sources = sources
        self._repository: DirectoryStore = shelf if shelf is not None else UnsharedDirectories()
        self._clock = clock
        self._reach = sources.reach
        fetcher = fetcher or Fetcher(sources.reach, sources.caps)
        kind = publishing(
            sources.most_keys,
            clock,
            signed=sources.signed == "required",
            digest=sources.signed == "required" and sources.signed_digest == "required",
        )
        self.published: Documents[PublishedKeys] = Documents(kind, fetcher, self._repository, clock, sources.times)
        self.documents: Documents[AgentsDocument] = Documents(
            DocumentKind(lambda answer: answer.body, lambda url, raw: read_agents(url, raw, sources.reach)),
            fetcher,
            self._repository,
            clock,
            sources.times,
        )
        self._configure(sources, agents)
        self._places: BoundedCache[str, FetchTarget | FetchFailed] = BoundedCache(_MOST_PLACES)
        self._lock = asyncio.Lock()
        self._version: int | None = None
        self._changed = True
        self._checked = 0.0
        self._unwatch = self._repository.watch(self._note_change)

    def _configure(self, sources: Sources, agents: Sequence[AgentDirectory]) -> None:
        try:
            self._configured = tuple(directory_place(url, self._reach).url for url in sources.jwks_urls)
            urls = tuple(directory_place(url, self._reach).url for url in sources.agent_urls)
            self._own = place_of(sources.self_origin).origin if sources.self_origin else ""
            own = (sources.self_jwks or {}).get("keys", ())
            self._own_keys = key_set(own, SELF, sources.most_keys) if sources.self_jwks else KeySet({})
        except (FetchFailed, BadKeys) as why:
            raise ConfigError(f"directories: {why}") from why
        if self._own_keys.left_out or (sources.self_jwks is not None and not self._own):
            raise ConfigError(f"self_jwks needs self_origin, and keys that can be used: {self._own_keys.left_out}")
        self._allowed = tuple(pattern(one) for one in sources.allowed)
        if sources.discovery == "allow" and not self._allowed:
            raise ConfigError("only allowed directories are believed, and none is allowed", advice="Name some.")
        self._roster = Roster(sources.agents, self._reach)
        if self._roster.problems:
            raise ConfigError("; ".join(self._roster.problems))
        self._inline = frozenset(sources.inline_keys)
        trusted = frozenset((STATIC, SELF, INLINE, *self._configured))
        http = [HttpDirectory(url, self.documents, trusted=trusted, alone=sources.keyid_alone) for url in urls]
        self._agents: tuple[AgentDirectory, ...] = (*http, *agents)
        self.documents.known = frozenset(urls)
        self.published.known = frozenset((*self._configured, *self._roster.urls))

    # ---- keys ----

    async def key(self, keyid: str, directory_url: str | None = None) -> PublicKey | None:
        """The key of this id, from the directory that the request names or one that an operator named."""
        return await self._search(keyid, directory_url, None)

    async def _search(self, keyid: str, named: str | None, steps: list[LookupStep] | None) -> PublicKey | None:
        await self._follow()
        by_kid = self.sources.kid_fallback
        static = KeySet(self._roster.keys)
        if (key := self._take(static.find(keyid, by_kid=by_kid), STATIC, steps)) is not None:
            return key
        if named is not None and named[:5].lower() == INLINE:
            return self._inside(keyid, named, steps)
        where = None if named is None else self._place(named, steps)
        if where is not None and where.origin == self._own:
            return self._take(self._own_keys.find(keyid, by_kid=by_kid), SELF, steps)
        configured = (*self._configured, *(one for one in self._roster.urls if one not in self._configured))
        if where is not None and where.url in configured:
            return await self._published(keyid, where.url, steps)
        follow = where if where is not None and self._believed(where, steps) else None
        for url in configured:
            # Another directory is meant: no reason to fetch these again because the key is not in them.
            key = await self._published(keyid, url, steps, again=follow is None)
            if key is not None:
                return key
        return None if follow is None else await self._published(keyid, follow.url, steps)

    async def _published(
        self, keyid: str, url: str, steps: list[LookupStep] | None, *, again: bool = True
    ) -> PublicKey | None:
        by_kid = self.sources.kid_fallback

        def has(published: PublishedKeys) -> bool:
            return published.keys.find(keyid, by_kid=by_kid) is not None

        published = await self.published.get(url, has if again else None)
        if published is None:
            _tell(steps, url, "failed", self._failure(url))
            return None
        return self._take(published.keys.find(keyid, by_kid=by_kid), url, steps)

    def _take(self, key: PublicKey | None, where: str, steps: list[LookupStep] | None) -> PublicKey | None:
        if key is None:
            _tell(steps, where, "absent")
        elif not usable(key, self._clock()):
            _tell(steps, where, "outside_its_time", f"nbf {key.not_before}, exp {key.not_after}")
        else:
            _tell(steps, where, "found", key.thumbprint)
            return key
        return None

    def _inside(self, keyid: str, named: str, steps: list[LookupStep] | None) -> PublicKey | None:
        try:
            found = read_inline(named, self._inline)
        except BadKeys as why:
            _tell(steps, INLINE, "refused", why.message)
            return None
        return self._take(found.find(keyid), INLINE, steps)

    def _place(self, named: str, steps: list[LookupStep] | None) -> FetchTarget | None:
        found = self._places.get(named)
        if found is None:
            try:
                found = directory_place(named, self._reach)
            except FetchFailed as why:
                found = self._own_place(named) or why
            self._places.put(named, found)
        if isinstance(found, FetchFailed):
            _tell(steps, named, "refused", found.message)
            return None
        return found

    def _own_place(self, named: str) -> FetchTarget | None:
        # Our own origin is not fetched, so it need not be https.
        try:
            where = place_of(named)
        except FetchFailed:
            return None
        return where if self._own and where.origin == self._own else None

    def _believed(self, where: FetchTarget, steps: list[LookupStep] | None) -> bool:
        if self.sources.discovery == "ignore":
            _tell(steps, where.url, "ignored", "directories that requests name are ignored here")
            return False
        if self.sources.discovery == "allow" and not any(one.fits(where) for one in self._allowed):
            _tell(steps, where.url, "refused", "it is not among the allowed directories")
            return False
        return True

    def _failure(self, url: str) -> str:
        failure = self.published.failure(url)
        return "" if failure is None else f"{failure.reason}: {failure.text}"

    # ---- agents ----

    async def agent(self, verified: Verified) -> AgentIdentity | None:
        """The agent of a key that was verified; None where it has to be listed and is not."""
        await self._follow()
        found = self._roster.agent(verified.directory, verified.keyid)
        if found is not None:
            return found
        for directory in self._agents:
            if (found := await directory.agent(verified)) is not None:
                return found
        only = self.sources.listed_only
        if only is None:
            # An entry that cannot be read is one all the same.
            only = bool(self._agents) or len(self._roster) > 0 or bool(self._roster.problems)
        return None if only else AgentIdentity(verified.keyid, by=BY_KEY)

    async def roster(self) -> Roster:
        """Who is listed, in the configuration and by `callgate agents add`."""
        await self._follow()
        return self._roster

    # ---- for operators ----

    async def why(self, keyid: str, directory_url: str | None = None) -> Explained:
        """The lookup of a key as a request would make it, told step by step."""
        steps: list[LookupStep] = []
        key = await self._search(keyid, directory_url, steps)
        named = directory_url or ""
        if key is None:
            return Explained(keyid, named, tuple(steps), reason=Reason.UNKNOWN_KEYID.value)
        meant = Verified("", key.thumbprint, key.algorithms[0], key.directory, 0, 0, None, ())
        agent = await self.agent(meant)
        reason = "" if agent is not None else Reason.AGENT_NOT_IN_DIRECTORY.value
        return Explained(keyid, named, tuple(steps), key.directory, key.thumbprint, agent, reason)

    async def refresh(self, url: str) -> Refreshed:
        """Fetch a directory now. What it brings counts in all processes at once; if it fails, all stays as it is."""
        await self._follow()
        where = directory_place(url, self._reach).url
        now = int(self._clock() * 1000)
        if where in self.documents.known:
            done = await refreshed(self.documents, self._repository, where, agent_names, now)
        else:
            done = await refreshed(self.published, self._repository, where, key_names, now)
        self._changed = True
        return done

    async def show(self, url: str | None = None) -> tuple[DirectoryShown, ...]:
        """What is held of one directory, or of all that an operator named; without a fetch."""
        await self._follow()
        listed = [one for one in self._roster.urls if one not in self._configured]
        every = dict.fromkeys(self._configured, "configured") | dict.fromkeys(listed, "listed")
        if url is not None:
            where = directory_place(url, self._reach).url
            every = {where: every.get(where, "discovered")}
        return tuple([await shown(self.published, one, source, self._clock()) for one, source in every.items()])

    async def flush(self, url: str | None = None) -> int:
        """Believe nothing that was fetched (from there) until it is fetched again, in all processes."""
        where = None if url is None else directory_place(url, self._reach).url
        gone = await self._repository.flush_directory(where, int(self._clock() * 1000))
        self._changed = True
        return gone

    async def close(self) -> None:
        self._unwatch()
        await self.published.close()
        await self.documents.close()

    # ---- following the store ----

    def _note_change(self) -> None:
        self._changed = True

    async def _follow(self) -> None:
        """Notice what other processes flushed, added or removed."""
        if not self._changed and not self._lock.locked() and 0 <= self._clock() - self._checked < _FOLLOW_SECONDS:
            return
        async with self._lock:
            if not self._changed and 0 <= self._clock() - self._checked < _FOLLOW_SECONDS:
                return
            self._changed = False
            try:
                await self._catch_up()
            except BaseException:
                self._changed = True
                raise
            self._checked = self._clock()

    async def _catch_up(self) -> None:
        version = await self._repository.directories_version()
        if version == self._version:
            return
        roster = Roster([*self.sources.agents, *await self._repository.agents()], self._reach)
        self._roster = roster
        self.published.known = frozenset((*self._configured, *roster.urls))
        self.published.forget()
        self.documents.forget()
        self._version = version


def _tell(steps: list[LookupStep] | None, where: str, outcome: Outcome, text: str = "") -> None:
    if steps is not None:
        steps.append(LookupStep(where, outcome, text))
