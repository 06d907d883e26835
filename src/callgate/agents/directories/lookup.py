"""Whose key is it: the directories of agents, and the lists and answers about them that are kept."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from callgate.agents.directories.documents import INLINE, DocumentKind, Documents, Times, UnsharedDirectories
from callgate.agents.directories.publishing import publishing, read_inline
from callgate.agents.fetching import USUAL, Caps, Fetcher, FetchFailed, FetchTarget, Reach, place, place_of
from callgate.agents.keys import MAX_BYTES, MAX_KEYS, BadKeys, KeySet, PublicKey, key_set, read_key, strict_json, usable
from callgate.agents.model import WELL_KNOWN, Verified
from callgate.agents.storage import DirectoryStore, Listed
from callgate.caching import BoundedCache
from callgate.errors import ConfigError, Reason

# Directories that have no address: keys an operator gave whole, the gate's own, those inside a request.
STATIC: Final = "static"
SELF: Final = "self"
TEST: Final = "test"
NAMELESS: Final = frozenset((STATIC, SELF, INLINE, TEST))
# What says who an agent is that nobody listed: its key alone.
BY_KEY: Final = "key"

_PATTERN: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])"
    r"(?P<port>:\d{1,5})?/?"
)


def directory_place(text: str, reach: Reach = USUAL) -> FetchTarget:
    """A directory's address as Signature-Agent or a configuration names it; raises `FetchFailed`."""
    where = place(text, reach)
    if where.path == "/" and "?" not in where.url:
        return where._replace(url=f"{where.origin}{WELL_KNOWN}", path=WELL_KNOWN)
    return where


def directory_url(text: str, reach: Reach = USUAL) -> str:
    """The same, as the text that keys and agents are listed under."""
    return text if text in NAMELESS else directory_place(text, reach).url


class Pattern(NamedTuple):
    """Which directories may be named: an origin, `https://*.example.com` or `https://*`.

    It stands for the well-known path only: on a host where anybody may put files, any other path could be anybody's.
    """

    scheme: str
    # The host, or what it ends with, from the dot on; empty for every host.
    host: str
    wild: bool
    port: str

    def fits(self, where: FetchTarget) -> bool:
        """Whether a directory is one of those."""
        if where.scheme != self.scheme or where.authority.removeprefix(_spelt(where)) != self.port:
            return False
        if not (_spelt(where).endswith(self.host) if self.wild else _spelt(where) == self.host):
            return False
        return where.path == WELL_KNOWN and "?" not in where.url


def pattern(text: str) -> Pattern:
    """A pattern as an operator writes it; `ConfigError` where it could mean more than they think."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        what = 'expected an origin such as "https://agent.example" or "https://*.example.com"'
        raise ConfigError(f"{text!r} cannot be allowed: {what}; * stands for whole names only")
    host = match["host"]
    port = match["port"] or ""
    if port == {"https": ":443", "http": ":80"}[match["scheme"]]:
        port = ""
    return Pattern(match["scheme"], host.removeprefix("*"), host.startswith("*"), port)


def _spelt(where: FetchTarget) -> str:
    return f"[{where.host}]" if ":" in where.host else where.host


MAX_AGENTS: Final = 10_000
MAX_NAME: Final = 200
# It becomes the value of a header, a label of a metric, and what rules are written for.
_AGENT: Final = re.compile(r"[!-~]{1,128}")
_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")


class AgentIdentity(msgspec.Struct, frozen=True):
    """An agent as a directory of agents knows it. `agent` stays the same when its keys change."""

    agent: str
    name: str = ""
    # Who says so: `listed`, the address of a document, or `key` where the key itself is the name.
    by: str = ""


class AgentDirectory(Protocol):
    """Says which agent a verified key belongs to; anybody may write one (WB-020)."""

    async def agent(self, verified: Verified) -> AgentIdentity | None:
        """None where it knows nothing of this key."""


class Roster:
    """Agents by directory and key; keys that were given whole; and what could not be taken, with its reason.

    `alone` are keys that are listed without their directory, where that is taken.
    """

    def __init__(self, entries: Iterable[Listed], reach: Reach, by: str = "listed", *, alone: bool = False) -> None:
        self.entries: dict[tuple[str, str], AgentIdentity] = {}
        self.alone: dict[str, AgentIdentity] = {}
        self.keys: dict[str, PublicKey] = {}
        self.problems: list[str] = []
        directories: dict[str, None] = {}
        for entry in entries:
            try:
                if alone and not entry.directory:
                    self._take_alone(entry, by)
                    continue
                directory = self._take(entry, reach, by)
            except (BadKeys, FetchFailed) as why:
                self.problems.append(f"agent {entry.agent[:128]!r}: {why}")
            else:
                directories[directory] = None
        # Those that have an address, in the order they were listed.
        self.urls = tuple(one for one in directories if "://" in one)

    def __len__(self) -> int:
        return len(self.entries)

    def names(self) -> set[str]:
        """Every agent in it."""
        return {one.agent for one in (*self.entries.values(), *self.alone.values())}

    def agent(self, directory: str, thumbprint: str) -> AgentIdentity | None:
        """The agent of a key of a directory: its own entry first, then that of the whole directory."""
        return self.entries.get((directory, thumbprint)) or self.entries.get((directory, ""))

    def found(self, verified: Verified, trusted: Collection[str], *, alone: bool) -> AgentIdentity | None:
        """The same of a verified key. Without its directory it counts from trusted ones, or with `alone` from any."""
        found = self.agent(verified.directory, verified.keyid)
        if found is None and (alone or verified.directory in trusted):
            return self.alone.get(verified.keyid)
        return found

    def _take_alone(self, entry: Listed, by: str) -> None:
        identity = AgentIdentity(_agent(entry.agent), _name(entry.name), by)
        if self.alone.setdefault(entry.thumbprint, identity).agent != identity.agent:
            raise BadKeys(f"the key {entry.thumbprint[:43]} is two agents")

    def _take(self, entry: Listed, reach: Reach, by: str) -> str:
        identity = AgentIdentity(_agent(entry.agent), _name(entry.name), by)
        directory = directory_url(entry.directory, reach)
        thumbprint = "" if entry.thumbprint == "*" else entry.thumbprint
        key = read_key(strict_json(entry.jwk), STATIC) if entry.jwk else None
        if key is not None and (thumbprint not in {"", key.thumbprint} or directory != STATIC):
            raise BadKeys("the key is not the one that its thumbprint names, or it has a directory beside it")
        if key is not None:
            thumbprint = key.thumbprint
        if thumbprint and not _THUMBPRINT.fullmatch(thumbprint):
            raise BadKeys("its thumbprint is not one of RFC 7638 with SHA-256")
        if directory == STATIC and key is None:
            raise BadKeys("a static entry needs its key")
        before = self.entries.setdefault((directory, thumbprint), identity)
        if before.agent != identity.agent:
            raise BadKeys(f"this key of this directory is agent {before.agent} already")
        if key is not None:
            self.keys[key.thumbprint] = key
        return directory


class StaticDirectory:
    """Agents of a map in the configuration (WB-031): by directory, by (directory, thumbprint), or by thumbprint.

    A thumbprint alone counts for keys of configured directories, unless `alone` says that any directory will do.
    """

    def __init__(
        self,
        agents: Mapping[str | tuple[str, str], str],
        *,
        reach: Reach | None = None,
        trusted: Iterable[str] = (STATIC,),
        alone: bool = False,
    ) -> None:
        reach = reach or Reach()
        self._roster = Roster([_entry(key, agent) for key, agent in agents.items()], reach, "static", alone=True)
        self._trusted = frozenset(directory_url(one, reach) for one in trusted)
        self._any = alone
        if self._roster.problems:
            raise BadKeys("; ".join(self._roster.problems))

    async def agent(self, verified: Verified) -> AgentIdentity | None:
        return self._roster.found(verified, self._trusted, alone=self._any)


class HttpDirectory:
    """Agents of a JSON document at an address an operator trusts (WB-030). `Directories` makes these."""

    def __init__(self, url: str, documents: Documents[Roster], *, trusted: frozenset[str], alone: bool = False) -> None:
        self.url = url
        self._documents = documents
        self._trusted = trusted
        self._any = alone

    async def agent(self, verified: Verified) -> AgentIdentity | None:
        def find(roster: Roster) -> AgentIdentity | None:
            return roster.found(verified, self._trusted, alone=self._any)

        roster = await self._documents.get(self.url, lambda one: find(one) is not None)
        return None if roster is None else find(roster)


class Composed:
    """Several directories of agents, asked in turn (WB-032)."""

    def __init__(self, *directories: AgentDirectory) -> None:
        self.directories = directories

    async def agent(self, verified: Verified) -> AgentIdentity | None:
        for directory in self.directories:
            if (found := await directory.agent(verified)) is not None:
                return found
        return None


def read_agents(url: str, raw: bytes, reach: Reach, *, alone: bool = True) -> Roster:
    """A document of agents: a map of thumbprints to agents, or a list of entries that also name the directory.

    `alone`: a key may be named without its directory. Where no such entry could ever count, it is refused.
    """
    if len(raw) > MAX_BYTES:
        raise BadKeys(f"larger than {MAX_BYTES} bytes")
    document = strict_json(raw)
    agents = document.get("agents", document) if isinstance(document, dict) else document
    if not isinstance(agents, dict | list) or len(agents) > MAX_AGENTS:
        raise BadKeys(f"neither a map nor a list of at most {MAX_AGENTS} agents")
    listed = [_entry(*one) for one in agents.items()] if isinstance(agents, dict) else [_listed(one) for one in agents]
    roster = Roster(listed, reach, url, alone=True)
    if roster.problems:
        raise BadKeys(roster.problems[0])
    if roster.alone and not alone:
        raise BadKeys(
            "it names keys without their directory, which counts only for keys of jwks_urls or with keyid_alone; write "
            '{"agents": [{"agentId": "NAME", "keyid": "THUMBPRINT", "directory": "https://agent.example"}]}'
        )
    return roster


def _entry(key: str | tuple[str, str], agent: object) -> Listed:
    if not isinstance(agent, str):
        raise BadKeys("an agent is not named by a text")
    if isinstance(key, tuple):
        return Listed(agent, key[1], key[0])
    if "://" in key:
        return Listed(agent, "", key)
    if not _THUMBPRINT.fullmatch(key):
        raise BadKeys(f"{key[:64]!r} is neither the address of a directory nor a thumbprint")
    return Listed(agent, key, "")


def _listed(one: object) -> Listed:
    if not isinstance(one, dict):
        raise BadKeys("an entry is no object")
    agent, keyid = one.get("agentId", one.get("agent")), one.get("keyid", "")
    directory, name = one.get("directory", ""), one.get("name", "")
    if not all(isinstance(text, str) for text in (agent, keyid, directory, name)) or not (keyid or directory):
        raise BadKeys("an entry has agentId, and keyid or directory or both, all of them texts")
    if keyid and not _THUMBPRINT.fullmatch(keyid):
        raise BadKeys(f"the keyid {keyid[:64]!r} is no thumbprint")
    return Listed(str(agent), keyid, directory, name=name)


def _agent(text: str) -> str:
    if not _AGENT.fullmatch(text):
        raise BadKeys("its name has to be 1 to 128 printable ASCII characters without spaces")
    return text


def _name(text: str) -> str:
    return "".join(one for one in text[:MAX_NAME] if one.isprintable())


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
    documents: Documents[T], repository: DirectoryStore, url: str, names: Callable[[T], Collection[str]], now: int
) -> Refreshed:
    """Fetch it; what came counts everywhere at once. If that fails, what was held stays, here and elsewhere."""
    before = await documents.held(url)
    held = await documents.renew(url)
    if held is None:
        failure = documents.failure(url)
        reason, text = ("unknown", "") if failure is None else (failure.reason, failure.text)
        return Refreshed(url, ok=False, failure=reason, text=text)
    # Others hold their own copies: the flush makes them let go, and what was fetched is put back in its place.
    await repository.flush_directory(url, now)
    await repository.keep_directory(replace(held.fetched, version=await repository.directories_version()))
    had = set() if before is None else set(names(before.value))
    has = set(names(held.value))
    return Refreshed(url, ok=True, added=tuple(sorted(has - had)), removed=tuple(sorted(had - has)))


async def shown(documents: Documents[KeySet], url: str, source: str, now: float) -> DirectoryShown:
    """What is held of a key directory, without a fetch."""
    held = await documents.held(url)
    failure = documents.failure(url)
    text = "" if failure is None else f"{failure.reason}: {failure.text}"
    if held is None:
        return DirectoryShown(url, source, failed_at=0 if failure is None else failure.at, failure=text)
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
        for key in held.value.keys.values()
    ]
    return DirectoryShown(
        url,
        source,
        held.fetched.fetched_at,
        held.fetched.fresh_until,
        held.fetched.failed_at,
        text,
        tuple(keys),
        held.value.left_out,
    )


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
        self.published: Documents[KeySet] = Documents(kind, fetcher, self._repository, clock, sources.times)
        # Whether any key could count that a document of agents names without its directory.
        alone = sources.keyid_alone or bool(sources.jwks_urls or sources.self_jwks or sources.inline_keys)
        alone = alone or any(one.jwk for one in sources.agents)
        self.documents: Documents[Roster] = Documents(
            DocumentKind(
                lambda answer: answer.body, lambda url, raw: read_agents(url, raw, sources.reach, alone=alone)
            ),
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

    async def key(
        self, keyid: str, named: str | None = None, steps: list[LookupStep] | None = None
    ) -> PublicKey | None:
        """The key of this id, from the directory that the request names or one that an operator named."""
        await self._follow()
        by_kid = self.sources.kid_fallback
        found = self._roster.keys.get(keyid)
        if found is None and by_kid:
            found = KeySet(self._roster.keys).find(keyid, by_kid=True)
        if (key := self._take(found, STATIC, steps)) is not None:
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

        def has(keys: KeySet) -> bool:
            return keys.find(keyid, by_kid=by_kid) is not None

        published = await self.published.get(url, has if again else None)
        if published is None:
            _note_step(steps, url, "failed", self._failure(url))
            return None
        return self._take(published.find(keyid, by_kid=by_kid), url, steps)

    def _take(self, key: PublicKey | None, where: str, steps: list[LookupStep] | None) -> PublicKey | None:
        taken = key if key is not None and usable(key, self._clock()) else None
        if steps is not None:
            if key is None:
                _note_step(steps, where, "absent")
            elif taken is None:
                _note_step(steps, where, "outside_its_time", f"nbf {key.not_before}, exp {key.not_after}")
            else:
                _note_step(steps, where, "found", key.thumbprint)
        return taken

    def _inside(self, keyid: str, named: str, steps: list[LookupStep] | None) -> PublicKey | None:
        try:
            found = read_inline(named, self._inline)
        except BadKeys as why:
            _note_step(steps, INLINE, "refused", why.message)
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
            _note_step(steps, named, "refused", found.message)
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
            _note_step(steps, where.url, "ignored", "directories that requests name are ignored here")
            return False
        if self.sources.discovery == "allow" and not any(one.fits(where) for one in self._allowed):
            _note_step(steps, where.url, "refused", "it is not among the allowed directories")
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
        key = await self.key(keyid, directory_url, steps)
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
            done = await refreshed(self.documents, self._repository, where, Roster.names, now)
        else:
            done = await refreshed(self.published, self._repository, where, lambda keys: keys.keys, now)
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


def _note_step(steps: list[LookupStep] | None, where: str, outcome: Outcome, text: str = "") -> None:
    if steps is not None:
        steps.append(LookupStep(where, outcome, text))
