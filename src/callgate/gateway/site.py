"""The servers of one configuration as the HTTP face sees them, and the paths that lead to them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

import msgspec

from callgate.errors import Reason, Refused
from callgate.gateway.agent_door import AgentDoor
from callgate.gateway.door import Door
from callgate.gateway.entering import Entry
from callgate.gateway.exchange import Exchange
from callgate.gateway.guard import Guard
from callgate.jsonrpc import Batch, Message

SUFFIX: Final = "/mcp"
_PREFIX: Final = "/servers/"
_GROUPS: Final = "/groups/"


class Upstream(Protocol):
    """A server as the HTTP face sees it."""

    name: str
    sees_headers: bool
    busy: int

    @property
    def sessions(self) -> int: ...

    async def prepare(self, exchange: Exchange, message: Message | Batch) -> None:
        """Before a message is decided on: what it will go to is there, so that it is decided on for that."""

    async def ask(self, exchange: Exchange, message: Message) -> bytes:
        """The reply to a request of the gateway's own, in the session of the exchange."""

    def hold(self, exchange: Exchange) -> AbstractContextManager[None]:
        """Keep the session of the exchange while its call waits."""

    async def post(self, exchange: Exchange, entry: Entry) -> None: ...

    async def get(self, exchange: Exchange) -> None: ...

    async def delete(self, exchange: Exchange) -> None: ...

    async def close(self) -> None: ...


class Site(msgspec.Struct, frozen=True):
    """One configuration's worth of the gateway: replaced whole when the configuration changes."""

    door: Door
    guard: Guard
    upstreams: Mapping[str, Upstream]
    body_seconds: float
    in_flight: int
    held_bytes: int
    # The group of each server; empty for those that stand in none.
    groups: Mapping[str, str] = {}
    # Who calls; None where nobody is asked. And what is published at well-known paths.
    agents: AgentDoor | None = None
    documents: Mapping[str, bytes] = {}

    def upstream(self, path: str) -> Upstream:
        """The server a path leads to. A server of a group is found under that group's path only."""
        group, rest = "", path
        if path.startswith(_GROUPS):
            group, _, rest = path[len(_GROUPS) :].partition("/")
            rest = "/" + rest
        company = [name for name in self.upstreams if self.groups.get(name, "") == group]
        if rest == SUFFIX and len(company) == 1 and (group or len(self.upstreams) == 1):
            return self.upstreams[company[0]]
        if rest.startswith(_PREFIX) and rest.endswith(SUFFIX):
            name = rest[len(_PREFIX) : -len(SUFFIX)]
            if name in company:
                return self.upstreams[name]
            if name in self.upstreams:
                raise Refused(Reason.SERVER_UNKNOWN, advice=f"Use {endpoint(name, self.groups.get(name, ''))}.")
        if path == SUFFIX:
            raise Refused(
                Reason.SERVER_UNKNOWN,
                "/mcp leads somewhere only while exactly one server is configured",
                advice="Use /servers/NAME/mcp; `callgate check` lists the names.",
            )
        raise Refused(Reason.SERVER_UNKNOWN)


def endpoint(server: str, group: str = "") -> str:
    """The path that a server is served under."""
    return (f"{_GROUPS}{group}" if group else "") + f"{_PREFIX}{server}{SUFFIX}"
