"""What the verbs on agents share: the store they are in, the directories behind them, and who is known here."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from callgate.app import agent_registry as known
from callgate.app.agent_registry import RecognisedAgent
from callgate.cli.common import keys_of, log_of, open_store, operator
from callgate.cli.pinned import options_of, word_to_type

if TYPE_CHECKING:
    from callgate.agents.directories import Directories
    from callgate.config import Config
    from callgate.store import SqlAgents, Store

T = TypeVar("T")


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


def directories(opened: Office) -> AbstractAsyncContextManager[Directories]:
    """Directories as the gateway of this configuration looks keys up."""
    return known.directories(opened.config, opened.shelf)


async def everybody(opened: Office) -> list[RecognisedAgent]:
    """Who is known here: by the configuration first, then as added."""
    return await known.everybody(opened.config, opened.shelf)
