"""What the verbs on agents share: the store they are in, the directories behind them, and who is known here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from callgate.cli.common import keys_of, log_of, open_store, operator
from callgate.cli.pinned import options_of, word_to_type

if TYPE_CHECKING:
    from callgate.agents.directories import Directories
    from callgate.agents.model import ApiKey
    from callgate.config import Config
    from callgate.store import SqlAgents, Store

T = TypeVar("T")
By: TypeAlias = Literal["signature", "api-key", "oauth"]

FILE: Final = "callgate.toml"
ADDED: Final = "added"


class Known(msgspec.Struct, frozen=True):
    """One way in which an agent is recognised."""

    agent: str
    by: By
    # The thumbprint, the id of the API key or the token's subject; empty for every key of a directory.
    key: str
    directory: str = ""
    name: str = ""
    # Who says so: the configuration, or `callgate agents add`.
    source: str = ADDED
    since: int | None = None
    added_by: str = ""
    expires_at: int | None = None
    revoked_at: int | None = None


class Office(NamedTuple):
    """The agents of the store in force."""

    config: Config
    store: Store
    shelf: SqlAgents
    runner: asyncio.Runner
    options: tuple[str, ...]

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def command(self, *words: str) -> str:
        """A command for the person to type, on the same store."""
        return " ".join(["callgate", *(word_to_type(word) for word in (*words, *self.options))])

    def record(self, action: str, detail: dict[str, Any]) -> None:
        """Put what was done on record, with who did it."""
        log = log_of(self.config, self.store, keys_of(self.config))
        with self.store.audit_writing() as tables:
            tables.insert(log.admin(action, operator(), detail))


@contextmanager
def office(path: Path | None, url: str | None, *, changing: bool = False) -> Iterator[Office]:
    """The agents of a store. To change something, the log has to be one that can take the record of it."""
    from callgate.store import SqlAgents

    with open_store(path, url, create=True) as (config, store), asyncio.Runner() as runner:
        if changing:
            log_of(config, store, keys_of(config))
        yield Office(config, store, SqlAgents(store), runner, options_of(path, url))


@asynccontextmanager
async def directories(opened: Office) -> AsyncIterator[Directories]:
    """Directories as the gateway of this configuration looks keys up."""
    from callgate.gateway.agent_door import Open
    from callgate.gateway.agent_ways import Furnished

    ways = Furnished(opened.config.agents, Open(signatures=True), opened.shelf, production=False)
    assert ways.directories is not None
    try:
        yield ways.directories
    finally:
        await ways.close()


async def everybody(opened: Office) -> list[Known]:
    """Who is known here: by the configuration first, then as added."""
    found = [
        *_configured(opened.config),
        *(
            Known(one.agent, "signature", one.thumbprint, one.directory, one.name, ADDED, one.added_at, one.added_by)
            for one in await opened.shelf.agents()
        ),
    ]
    found += [_key(one) for one in await opened.shelf.keys()]
    return sorted(found, key=lambda one: (one.agent, one.source != FILE, one.since or 0))


def is_live(one: Known, now: int) -> bool:
    """Whether this way in still works."""
    return one.revoked_at is None and (one.expires_at is None or one.expires_at > now)


def ways_in(config: Config) -> Sequence[str]:
    """What is open at the gateway of this configuration, in words; empty where nobody is asked."""
    from callgate.gateway.agent_setup import opened

    is_open = opened(config.agents, config.gateway.address)
    if is_open is None:
        return ()
    pairs = (("signature", is_open.signatures), ("oauth", is_open.bearer), ("api-key", is_open.api_keys))
    return tuple(name for name, on in pairs if on)


def _configured(config: Config) -> Iterator[Known]:
    from callgate.agents.keys import thumbprint
    from callgate.config.agent_rules import LISTED

    for name, one in config.agents.known.items():
        if one.jwk:
            yield Known(name, "signature", thumbprint(one.jwk), "static", source=FILE)
        elif one.directory not in (None, LISTED):
            yield Known(name, "signature", one.thumbprint or "", str(one.directory), source=FILE)
        if one.subject is not None:
            issuer, _, subject = one.subject.partition("#")
            yield Known(name, "oauth", subject, issuer, source=FILE)


def _key(one: ApiKey) -> Known:
    return Known(
        one.agent,
        "api-key",
        one.id,
        since=one.created_at,
        added_by=one.created_by,
        expires_at=one.expires_at,
        revoked_at=one.revoked_at,
    )
