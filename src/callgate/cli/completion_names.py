"""Names that a shell can complete: from the configuration, and from a store that is a file of this machine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from callgate.config import Config
    from callgate.store import Store

Names: TypeAlias = Iterable[tuple[str, str]]

_CALLS: Final = 30
# Somebody waits with a finger on the key: a store that is locked for longer has no names.
_BUSY_SECONDS: Final = 0.3


class Line:
    """What is known of the command line so far."""

    def __init__(self, command: str, given: dict[str, str], words: list[str]) -> None:
        self.command = command
        self.given = given
        self.words = words

    def config(self) -> Config:
        from callgate.cli.common import configuration

        named = self.given.get("config") or self.given.get("path")
        return configuration(Path(named).expanduser() if named else None, self.given.get("store"))

    @contextmanager
    def store(self) -> Iterator[Store | None]:
        """The store, if it is a file that is there: a database elsewhere may take long to answer."""
        config = self.config()
        url = config.store.url.reveal()
        file = Path(url.removeprefix("sqlite:///").partition("?")[0])
        if not url.startswith("sqlite:///") or not file.is_file():
            yield None
            return
        from callgate.store import Store

        store = Store.open(url, busy_seconds=_BUSY_SECONDS)
        try:
            yield store
        finally:
            store.close_sync()

    def ask(self, question: Callable[[Store], Coroutine[Any, Any, Names]]) -> Names:
        import asyncio

        with self.store() as store:
            return [] if store is None else list(asyncio.run(question(store)))


def names_for(parameter: str, command: str, given: dict[str, str], words: list[str]) -> Names:
    """What a parameter of this name may be; nothing for those of which nothing is known."""
    if parameter == "words":  # of `callgate call`: SERVER TOOL KEY=VALUE
        parameter = ("server", "tool")[len(words)] if len(words) < 2 else ""
        given = {**given, **({"server": words[0]} if words else {})}
    elif parameter == "name":
        parameter = {"wrap": "server", "rotate": "key_name"}.get(command, "")
    elif parameter == "tool" and "server" not in given and command == "show" and words:
        given = {**given, "server": words[0]}  # `callgate labels show SERVER TOOL`
    elif parameter == "user" and command in ("add", "enroll"):
        return []
    source = _SOURCES.get(parameter)
    return [] if source is None else source(Line(command, given, words))


def _servers(line: Line) -> Names:
    config = line.config()
    found: dict[str, str] = {name: server.kind for name, server in config.servers.items()}
    if line.command not in ("wrap", "doctor", "call"):
        found |= {name: about for name, about in line.ask(_met) if name not in found}
    return found.items()


async def _met(store: Store) -> Names:
    from callgate.store import SqlPins

    return [(one.name, "was met") for one in await SqlPins(store).servers()]


def _tools(line: Line) -> Names:
    server = line.given.get("server")

    async def met(store: Store) -> Names:
        from callgate.store import SqlPins

        pins = SqlPins(store)
        wanted = {one.server_id: one.name for one in await pins.servers() if server in (None, one.name, one.server_id)}
        tools = [tool for server_id in wanted for tool in await pins.tools(server_id)]
        return dict.fromkeys((tool.tool, wanted[tool.server_id]) for tool in tools)

    return line.ask(met)


def _users(line: Line) -> Names:
    async def people(store: Store) -> Names:
        from callgate.store import SqlApprovals

        return [(user.name, user.display_name) for user in await SqlApprovals(store).users()]

    return line.ask(people)


def _agents(line: Line) -> Names:
    async def listed(store: Store) -> Names:
        from callgate.store import SqlAgents

        shelf = SqlAgents(store)
        keyed = [(key.agent, "API key") for key in await shelf.keys()]
        return [*((one.agent, "listed") for one in await shelf.agents()), *keyed]

    found = dict.fromkeys(line.config().agents.known, "configured")
    return {**dict(line.ask(listed)), **found}.items()


def _calls(line: Line) -> Names:
    from callgate.audit.reading import entries
    from callgate.audit.storage import Filter

    with line.store() as store:
        if store is None:
            return []
        with store.audit_reading() as tables:
            found = entries(tables, Filter(), _CALLS)
    return [(one.decision.call, f"{one.decision.verdict} {one.decision.server} {one.decision.tool}") for one in found]


def _reasons(_line: Line) -> Names:
    from callgate.errors import Reason

    return [(reason.value, reason.meaning) for reason in Reason]


_SOURCES: Final[dict[str, Callable[[Line], Names]]] = {
    "server": _servers,
    "tool": _tools,
    "user": _users,
    "agent": _agents,
    "call": _calls,
    "reason": _reasons,
    "verdict": lambda _line: [("allow", ""), ("refuse", "")],
    "key_name": lambda _line: [("checkpoint", "signs the log"), ("seal", "seals records")],
}
