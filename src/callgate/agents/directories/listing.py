"""The one spelling of a directory's address, and which addresses an operator lets requests name.

A key counts together with the directory it came from, so an address that could be spelt in two ways would be two
directories. `https://agent.example` stands for the well-known path there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from callgate.agents.directories.documents import Documents
from callgate.agents.fetching import USUAL, FetchFailed, FetchTarget, Reach, place
from callgate.agents.keys import MAX_BYTES, BadKeys, PublicKey, read_key, strict_json
from callgate.agents.model import WELL_KNOWN, Verified
from callgate.agents.storage import Listed
from callgate.errors import ConfigError

# Directories that have no address: keys an operator gave whole, the gate's own, those inside a request.
STATIC: Final = "static"
SELF: Final = "self"
INLINE: Final = "data:"
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
    """Agents by directory and key; keys that were given whole; and what could not be taken, with its reason."""

    def __init__(self, entries: Iterable[Listed], reach: Reach, by: str = "listed") -> None:
        self.entries: dict[tuple[str, str], AgentIdentity] = {}
        self.keys: dict[str, PublicKey] = {}
        self.problems: list[str] = []
        directories: dict[str, None] = {}
        for entry in entries:
            try:
                directory = self._take(entry, reach, by)
            except (BadKeys, FetchFailed) as why:
                self.problems.append(f"agent {entry.agent[:128]!r}: {why}")
            else:
                directories[directory] = None
        # Those that have an address, in the order they were listed.
        self.urls = tuple(one for one in directories if "://" in one)

    def __len__(self) -> int:
        return len(self.entries)

    def agent(self, directory: str, thumbprint: str) -> AgentIdentity | None:
        """The agent of a key of a directory: its own entry first, then that of the whole directory."""
        return self.entries.get((directory, thumbprint)) or self.entries.get((directory, ""))

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
        entries = [_entry(key, agent) for key, agent in agents.items()]
        self._roster = Roster([one for one in entries if one.directory], reach, "static")
        self._alone = {
            one.thumbprint: AgentIdentity(_agent(one.agent), by="static") for one in entries if not one.directory
        }
        self._trusted = frozenset(directory_url(one, reach) for one in trusted)
        self._any = alone
        if self._roster.problems:
            raise BadKeys("; ".join(self._roster.problems))

    async def agent(self, verified: Verified) -> AgentIdentity | None:
        found = self._roster.agent(verified.directory, verified.keyid)
        if found is None and (self._any or verified.directory in self._trusted):
            return self._alone.get(verified.keyid)
        return found


class AgentsDocument(msgspec.Struct, frozen=True):
    """A document of agents, read."""

    roster: Roster
    alone: Mapping[str, AgentIdentity]


class HttpDirectory:
    """Agents of a JSON document at an address an operator trusts (WB-030). `Directories` makes these."""

    def __init__(
        self, url: str, documents: Documents[AgentsDocument], *, trusted: frozenset[str], alone: bool = False
    ) -> None:
        self.url = url
        self._documents = documents
        self._trusted = trusted
        self._any = alone

    async def agent(self, verified: Verified) -> AgentIdentity | None:
        def knows(document: AgentsDocument) -> bool:
            return self._find(document, verified) is not None

        document = await self._documents.get(self.url, knows)
        return None if document is None else self._find(document, verified)

    def _find(self, document: AgentsDocument, verified: Verified) -> AgentIdentity | None:
        found = document.roster.agent(verified.directory, verified.keyid)
        if found is None and (self._any or verified.directory in self._trusted):
            return document.alone.get(verified.keyid)
        return found


class Composed:
    """Several directories of agents, asked in turn (WB-032)."""

    def __init__(self, *directories: AgentDirectory) -> None:
        self.directories = directories

    async def agent(self, verified: Verified) -> AgentIdentity | None:
        for directory in self.directories:
            if (found := await directory.agent(verified)) is not None:
                return found
        return None


def read_agents(url: str, raw: bytes, reach: Reach) -> AgentsDocument:
    """A document of agents: a map of thumbprints to agents, or a list of entries that also name the directory."""
    if len(raw) > MAX_BYTES:
        raise BadKeys(f"larger than {MAX_BYTES} bytes")
    document = strict_json(raw)
    agents = document.get("agents", document) if isinstance(document, dict) else document
    if not isinstance(agents, dict | list) or len(agents) > MAX_AGENTS:
        raise BadKeys(f"neither a map nor a list of at most {MAX_AGENTS} agents")
    entries = _mapped(agents) if isinstance(agents, dict) else [_listed(one) for one in agents]
    roster = Roster([one for one in entries if one.directory], reach, url)
    alone: dict[str, AgentIdentity] = {}
    for one in entries:
        if not one.directory:
            identity = AgentIdentity(_agent(one.agent), _name(one.name), url)
            if alone.setdefault(one.thumbprint, identity).agent != identity.agent:
                raise BadKeys(f"the key {one.thumbprint[:43]} is two agents")
    if roster.problems:
        raise BadKeys(roster.problems[0])
    return AgentsDocument(roster, alone)


def _mapped(agents: Mapping[str, Any]) -> Sequence[Listed]:
    return [_entry(key, agent) for key, agent in agents.items()]


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
