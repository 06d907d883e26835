"""The services behind the verbs, opened on the store in force: approvals, pins, trust, agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from callgate.approval import Approvals
from callgate.approval.people import no_witness
from callgate.approval.reach import Demand
from callgate.cli.common import configuration, keys_of, log_of, open_store, operator, say, store_file
from callgate.cli.printing import escaped, plain, word_to_type
from callgate.config import Config
from callgate.errors import Reason, Refused, StoreError
from callgate.keyring import CHECKPOINT, SEAL
from callgate.pinning.model import PinningSettings, ServerSeen
from callgate.pinning.review.views import Labelling, ToolView
from callgate.pinning.service import Pins
from callgate.pinning.storage import PinRepository
from callgate.trust.proposing import label_line, propose_label
from callgate.trust.quarantine import Seals, Unopened
from callgate.trust.service import TrustService

if TYPE_CHECKING:
    from callgate.store import SqlAgents, Store

T = TypeVar("T")

PIN_KEY: Final = "pinning"
# The key that held results are sealed with.
TRUST_KEY: Final = "trust"
WHERE_TOOLS_COME_FROM: Final = (
    "Tools wait for review once a client has listed them through the gate; `callgate install` puts the gate in front "
    "of the servers of your clients."
)
_SHOWN: Final = 5
_LONG: Final = 400


@dataclass(frozen=True)
class OpenedStore:
    """The store in force, and the services over it. `options` name it again on a command line; `admin` makes the audit
    row of what an operator does."""

    config: Config
    store: Store
    runner: asyncio.Runner
    options: tuple[str, ...]
    admin: Callable[[str, str, dict[str, Any]], Any]

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out what a service does, from a command."""
        return self.runner.run(work)

    def command(self, *words: str) -> str:
        """A command for the person to type, on the same store."""
        return " ".join(["callgate", *(word_to_type(word) for word in (*words, *self.options))])

    def record(self, action: str, detail: dict[str, Any]) -> None:
        """Put what was done on record, with who did it."""
        with self.store.audit_writing() as tables:
            tables.insert(self.admin(action, operator(), detail))

    @cached_property
    def approvals(self) -> Approvals:
        from callgate.app.approval import party, settings
        from callgate.store import SqlApprovals

        section = self.config.approval
        return Approvals(SqlApprovals(self.store), party(section), settings(section), witness=self.admin)

    async def demands(self) -> list[Demand] | None:
        """The tools that do not take every passkey; None where nobody is asked about any call."""
        from callgate.app.approval import demands

        return await demands(self.config, self.pin_store)

    @cached_property
    def pin_store(self) -> PinRepository:
        from callgate.store import SqlPins

        return SqlPins(self.store)

    @cached_property
    def pins(self) -> Pins:
        return pins_of(self.config, self.pin_store, self.admin)

    @cached_property
    def trust(self) -> TrustService:
        from callgate.store import SqlTrust

        keyring = keys_of(self.config)

        def unseal(sealed: bytes, handle: str) -> bytes:
            keys = [key.secret for key in keyring.versions(TRUST_KEY)]
            if not keys:
                raise Unopened("the key that it was sealed with is not here")
            return Seals(keys).open(sealed, handle)

        return TrustService(SqlTrust(self.store), witness=self.admin, unseal=unseal)

    @cached_property
    def agents(self) -> SqlAgents:
        from callgate.store import SqlAgents

        return SqlAgents(self.store)


@contextmanager
def open_services(path: Path | None, url: str | None, *, create: bool = False) -> Iterator[OpenedStore]:
    """To read; needs no keys."""
    with open_store(path, url, create=create) as (config, store), asyncio.Runner() as runner:
        yield OpenedStore(config, store, runner, options_of(path, url), no_witness)


@contextmanager
def edit_services(path: Path | None, url: str | None, *, create: bool = False) -> Iterator[OpenedStore]:
    """To change; each change is on record. The log must have its keys, unless a new one is begun."""
    with open_services(path, url, create=create) as opened:
        keyring = keys_of(opened.config)
        if not create:
            keyring.require(SEAL, CHECKPOINT)
        yield replace(opened, admin=log_of(opened.config, opened.store, keyring).admin)


@contextmanager
def open_pins(path: Path | None, url: str | None) -> Iterator[OpenedStore]:
    """To read tools and decisions on them, which hold only under the key that they were written with."""
    _require_store(path, url)
    with open_services(path, url) as opened:
        if opened.wait(opened.pin_store.head()) is not None:
            keys_of(opened.config).require(PIN_KEY)
        opened.wait(opened.pins.refresh())
        yield opened


@contextmanager
def edit_pins(path: Path | None, url: str | None) -> Iterator[OpenedStore]:
    """To decide on tools; the first decision makes the key."""
    _require_store(path, url)
    with edit_services(path, url) as opened:
        keyring = keys_of(opened.config)
        if opened.wait(opened.pin_store.head()) is not None:
            keyring.require(PIN_KEY)
        else:
            keyring.make(PIN_KEY)
        opened.wait(opened.pins.refresh())
        yield opened


def _require_store(path: Path | None, url: str | None) -> None:
    file = store_file(configuration(path, url))
    if file is not None and not file.exists():
        raise StoreError(
            f"there is no store at {file}, so no server's tools were met yet",
            advice=f"{WHERE_TOOLS_COME_FROM} If the store is elsewhere, name it with --store or with -c.",
        )


def pins_of(config: Config, shelf: PinRepository, witness: Any) -> Pins:
    """The service over decisions on tools."""
    keyring = keys_of(config)
    return Pins(
        shelf,
        lambda: [key.secret for key in keyring.versions(PIN_KEY)],
        settings=settings_of(config),
        witness=witness,
        configured=groups_of(config),
        # What reviews know of what tools do.
        labelling=Labelling(propose_label, label_line),
    )


def groups_of(config: Config) -> dict[str, str] | None:
    """The group of each configured server; None where none is named, as `callgate wrap` needs no configuration."""
    return {name: server.pinning.group or "" for name, server in config.servers.items()} or None


def settings_of(config: Config) -> PinningSettings:
    """What `[pinning]` says."""
    section = config.pinning
    known = [name for name in PinningSettings.__struct_fields__ if name in section.__struct_fields__]
    return PinningSettings(**{name: getattr(section, name) for name in known})


def options_of(path: Path | None, url: str | None) -> tuple[str, ...]:
    """The options that name the same store again."""
    words: tuple[str, ...] = () if path is None else ("-c", str(path))
    if url is None:
        return words
    # An address of another kind may hold a password, which is not repeated.
    return (*words, "--store", url if url.startswith("sqlite:") else "URL")


# -- naming ----------------------------------------------------------------------------------------------------


def find_server(opened: OpenedStore, given: str) -> ServerSeen:
    """The server that is meant by its configured name or its identity; of several identities, the one met last."""
    known = opened.wait(opened.pin_store.servers())
    exact = [one for one in known if one.server_id == given]
    # By when each was met under this name, the last first.
    found = sorted((one for one in known if given in one.called), key=lambda one: -one.names.get(given, one.last_seen))
    named = exact or found
    if not named:
        names = ", ".join(dict.fromkeys(plain(name) for one in known for name in one.called))
        raise Refused(
            Reason.TOOL_UNKNOWN,
            f"no server {plain(given, _LONG)!r} was met",
            advice=f"Those that were met: {names}. `{opened.command('tools', 'servers')}` has their identities."
            if known
            else WHERE_TOOLS_COME_FROM,
        )
    if len(named) > 1:
        say(
            f"{plain(given)} was met under {len(named)} identities; this is the last: {escaped(named[0].server_id)}\n"
            f"`{opened.command('tools', 'servers')}` has the others; give one of them as --server."
        )
    return named[0]


def find_tool(opened: OpenedStore, server: str, tool: str) -> ToolView:
    """A tool as it was met last."""
    seen = find_server(opened, server)
    names = [one.tool for one in opened.wait(opened.pin_store.tools(seen.server_id))]
    if tool not in names:
        near = [name for name in names if name.casefold() == tool.casefold()] or names
        some = ", ".join(escaped(name) for name in near[:_SHOWN]) + (", …" if len(near) > _SHOWN else "")
        advice = f"It lists {some}." if names else "It lists none."
        raise Refused(
            Reason.TOOL_UNKNOWN,
            f"{escaped(seen.name)} was never seen to list a tool {plain(tool, _LONG)!r}",
            advice=f"{advice} `{opened.command('tools', 'list', '--server', server)}` shows all of them.",
        )
    return opened.wait(opened.pins.find(seen.server_id, tool))
