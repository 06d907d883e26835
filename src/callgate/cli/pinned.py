"""What the verbs on tools share: the service behind them, how a server is named, and commands that can be typed."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from callgate.cli.common import configuration, keys_of, log_of, open_store, say, store_file
from callgate.cli.people import plain

if TYPE_CHECKING:
    from callgate.config import Config
    from callgate.keyring import Keyring
    from callgate.pinning.model import PinningSettings, ServerSeen
    from callgate.pinning.review.views import Labelling, ToolView
    from callgate.pinning.service import Pins
    from callgate.pinning.storage import PinRepository
    from callgate.store import Store

T = TypeVar("T")

KEY: Final = "pinning"
HOW_TOOLS_COME: Final = (
    "Tools wait for review once a client has listed them through the gate; `callgate install` puts the gate in front "
    "of the servers of your clients."
)
_SHOWN: Final = 5
_DIGITS: Final = 16
_LONG: Final = 400


class Opened(NamedTuple):
    """The service on the store in force; `admin` makes the audit row of what an operator does."""

    pins: Pins
    shelf: PinRepository
    config: Config
    admin: Any
    runner: asyncio.Runner
    options: tuple[str, ...]

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def command(self, *words: str) -> str:
        """A command for the person to type, on the same store."""
        return " ".join(["callgate", *(word_to_type(word) for word in (*words, *self.options))])


@contextmanager
def reading(path: Path | None, url: str | None) -> Iterator[Opened]:
    """The service, to look at what it holds."""
    with _store(path, url) as (config, store), asyncio.Runner() as runner:
        opened = _opened(config, store, runner, None, options_of(path, url))
        _has_its_key(opened, keys_of(config))
        opened.wait(opened.pins.refresh())
        yield opened


@contextmanager
def changing(path: Path | None, url: str | None) -> Iterator[Opened]:
    """The service with the audit log as its witness."""
    from callgate.keyring import CHECKPOINT, SEAL

    with _store(path, url) as (config, store), asyncio.Runner() as runner:
        keyring = keys_of(config)
        keyring.require(SEAL, CHECKPOINT)
        log = log_of(config, store, keyring)
        opened = _opened(config, store, runner, log.admin, options_of(path, url))
        if not _has_its_key(opened, keyring):
            keyring.make(KEY)
        opened.wait(opened.pins.refresh())
        yield opened


@contextmanager
def _store(path: Path | None, url: str | None) -> Iterator[tuple[Config, Store]]:
    from callgate.errors import StoreError

    file = store_file(configuration(path, url))
    if file is not None and not file.exists():
        raise StoreError(
            f"there is no store at {file}, so no server's tools were met yet",
            advice=f"{HOW_TOOLS_COME} If the store is elsewhere, name it with --store or with -c.",
        )
    with open_store(path, url) as opened:
        yield opened


def _has_its_key(opened: Opened, keyring: Keyring) -> bool:
    """Whether there are decisions. They hold only under the key that they were written with."""
    if opened.wait(opened.shelf.head()) is None:
        return False
    keyring.require(KEY)
    return True


def _opened(config: Config, store: Store, runner: asyncio.Runner, admin: Any, options: tuple[str, ...]) -> Opened:
    from callgate.approval.base import no_witness
    from callgate.pinning.service import Pins
    from callgate.store import SqlPins

    keyring = keys_of(config)
    shelf = SqlPins(store)
    witness = admin or no_witness
    return Opened(
        Pins(
            shelf,
            lambda: [key.secret for key in keyring.versions(KEY)],
            settings=settings_of(config),
            witness=witness,
            configured=groups_of(config),
            labelling=labelling(),
        ),
        shelf,
        config,
        witness,
        runner,
        options,
    )


def labelling() -> Labelling:
    """What reviews know of what tools do."""
    from callgate.pinning.review.views import Labelling
    from callgate.trust.proposing import label_line, propose_label

    return Labelling(propose_label, label_line)


def groups_of(config: Config) -> dict[str, str] | None:
    """The group of each configured server; None where none is named, as `callgate wrap` needs no configuration."""
    return {name: server.pinning.group or "" for name, server in config.servers.items()} or None


def settings_of(config: Config) -> PinningSettings:
    """What `[pinning]` says."""
    from callgate.pinning.model import PinningSettings

    section = config.pinning
    known = [name for name in PinningSettings.__struct_fields__ if name in section.__struct_fields__]
    return PinningSettings(**{name: getattr(section, name) for name in known})


# -- naming ----------------------------------------------------------------------------------------------------


def find_server(opened: Opened, given: str) -> ServerSeen:
    """The server that is meant by its configured name or its identity; of several identities, the one met last."""
    from callgate.errors import Reason, Refused

    known = opened.wait(opened.shelf.servers())
    exact = [one for one in known if one.server_id == given]
    named = exact or _met_last([one for one in known if given in one.called], given)
    if not named:
        names = ", ".join(dict.fromkeys(plain(name) for one in known for name in one.called))
        raise Refused(
            Reason.TOOL_UNKNOWN,
            f"no server {plain(given, _LONG)!r} was met",
            advice=f"Those that were met: {names}. `{opened.command('tools', 'servers')}` has their identities."
            if known
            else HOW_TOOLS_COME,
        )
    if len(named) > 1:
        say(
            f"{plain(given)} was met under {len(named)} identities; this is the last: {shown(named[0].server_id)}\n"
            f"`{opened.command('tools', 'servers')}` has the others; give one of them as --server."
        )
    return named[0]


def _met_last(found: list[ServerSeen], name: str) -> list[ServerSeen]:
    """By when each was met under this name, the last first."""
    return sorted(found, key=lambda one: -one.names.get(name, one.last_seen))


def find_tool(opened: Opened, server: str, tool: str) -> ToolView:
    """A tool as it was met last."""
    from callgate.errors import Reason, Refused

    seen = find_server(opened, server)
    names = [one.tool for one in opened.wait(opened.shelf.tools(seen.server_id))]
    if tool not in names:
        near = [name for name in names if name.casefold() == tool.casefold()] or names
        some = ", ".join(shown(name) for name in near[:_SHOWN]) + (", …" if len(near) > _SHOWN else "")
        advice = f"It lists {some}." if names else "It lists none."
        raise Refused(
            Reason.TOOL_UNKNOWN,
            f"{shown(seen.name)} was never seen to list a tool {plain(tool, _LONG)!r}",
            advice=f"{advice} `{opened.command('tools', 'list', '--server', server)}` shows all of them.",
        )
    return opened.wait(opened.pins.find(seen.server_id, tool))


def shown(text: str) -> str:
    """A name or an identity on one line, whole, with what is invisible spelt out."""
    from callgate.approval.display import escape

    return escape(text)


def short_hash(approval_hash: str) -> str:
    """Enough digits of a hash for people to tell texts apart; nothing is approved by them."""
    return approval_hash.removeprefix("sha256:")[:_DIGITS] or "-"


def word_to_type(word: str) -> str:
    """A word as a shell takes it, on one line: what cannot be seen or typed is written as bash and zsh escape it."""
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    if word.isprintable() and shown(word) == word:
        return shlex.quote(word)
    return "$'" + "".join(_escaped(char) for char in word) + "'"


def _escaped(char: str) -> str:
    if char.isascii() and char.isprintable():
        return f"\\{char}" if char in "\\'" else char
    # As bytes: a shell turns \u2800 into what its locale has for it, and in C that is nothing.
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def options_of(path: Path | None, url: str | None) -> tuple[str, ...]:
    """The options that name the same store again."""
    words: tuple[str, ...] = () if path is None else ("-c", str(path))
    if url is None:
        return words
    # An address of another kind may hold a password, which is not repeated.
    return (*words, "--store", url if url.startswith("sqlite:") else "URL")
