"""Which tools of a server need a person, and what is known of them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp_types import PaginatedRequestParams
from pydantic import BaseModel

from callgate.approval import ApprovalPolicy, Describe, UnreadableAnnotation, annotation, read_annotation
from callgate.approval.action import check_tool_name
from callgate.approval.schema import defaults_in
from callgate.errors import ConfigError, Reason, Refused
from callgate.protocol import META, REQUIRED

log = logging.getLogger("callgate.sdk")

Context: TypeAlias = ServerRequestContext[Any, Any]

_PAGES: Final = 100


class Mark(msgspec.Struct, frozen=True):
    """What the author says of a gated tool; `extra` members stand in its annotation (SEP-2672 §4.2)."""

    policy: ApprovalPolicy = ApprovalPolicy()
    describe: Describe | None = None
    extra: Mapping[str, Any] = {}


class GatedTool(msgspec.Struct, frozen=True):
    """A gated tool, and its entry in the list; None where the list does not have it."""

    mark: Mark
    entry: Mapping[str, Any] | None


def registered(server: MCPServer[Any], name: str) -> Mapping[str, Any] | None:
    """A tool of an `MCPServer`, as its entry in the list; its public list would describe every tool again each time."""
    tool = server._tool_manager.get_tool(name)  # noqa: SLF001
    if tool is None:
        return None
    return {"name": name, "title": tool.title, "inputSchema": tool.parameters, "_meta": tool.meta or {}}


async def listed(server: Server[Any], name: str, ctx: Context) -> Mapping[str, Any] | None:
    """A tool of a low-level `Server`, which only its own `tools/list` knows."""
    listing = server.get_request_handler("tools/list")
    if listing is None:
        return None
    asking = dataclasses.replace(ctx, method="tools/list", params=None)
    cursor: str | None = None
    for _ in range(_PAGES):
        result = _plain(await listing.handler(asking, PaginatedRequestParams(cursor=cursor)))
        for tool in result.get("tools", ()):
            if _plain(tool).get("name") == name:
                return _plain(tool)
        cursor = result.get("nextCursor")
        if cursor is None:
            return None
    raise Refused(Reason.CHECK_FAILED, f"the list of tools has more than {_PAGES} pages")


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value if isinstance(value, dict) else {}


class GatedTools:
    """The tools that the author has named, and those whose own `_meta` carries the mark."""

    def __init__(self, *, strict_defaults: bool) -> None:
        # Whose tools they are, once that is known.
        self._server: MCPServer[Any] | Server[Any] | None = None
        self._strict_defaults = strict_defaults
        self._marks: dict[str, Mark] = {}
        self._warned: set[str] = set()

    def attach(self, server: MCPServer[Any] | Server[Any]) -> None:
        self._server = server

    def add(self, name: str, mark: Mark, schema: Any = None) -> None:
        """Gate a tool; ConfigError where what is said of it cannot hold."""
        try:
            check_tool_name(name)
        except Refused as refused:
            raise ConfigError(str(refused), advice="Choose another name for the tool.") from None
        check_extra(mark)
        self.check_defaults(name, schema)
        self._marks[name] = mark

    def check_defaults(self, name: str, schema: Any) -> None:
        """§8.3.3: what a default fills in is not what was signed."""
        places = list(defaults_in(schema))
        if not places:
            return
        text = f"the input schema of {name!r} has defaults, which nobody sees or signs: {', '.join(places)}"
        if self._strict_defaults:
            raise ConfigError(text, advice="Make these properties required, or leave strict_defaults off.")
        if name not in self._warned:
            self._warned.add(name)
            log.warning(text)

    async def find(self, name: str, ctx: Context) -> GatedTool | None:
        """The tool if it is gated; Refused(APPROVAL_UNAVAILABLE) where nobody could approve it."""
        if self._server is None:
            raise _not_attached()
        at = self._server
        # As this caller's `tools/list` would have it.
        entry = registered(at, name) if isinstance(at, MCPServer) else await listed(at, name, ctx)
        mark = self._marks.get(name)
        if mark is None:
            try:
                policy = read_annotation(entry or {})
            except UnreadableAnnotation as error:
                raise Refused(Reason.APPROVAL_UNAVAILABLE, f"nobody can approve {name!r}: {error}") from None
            if policy is None:
                return None
            mark = Mark(policy)
        try:
            self.check_defaults(name, (entry or {}).get("inputSchema"))
        except ConfigError as error:
            raise Refused(Reason.APPROVAL_UNAVAILABLE, str(error), advice=error.advice) from None
        return GatedTool(mark, entry)

    def annotated(self, tool: dict[str, Any]) -> dict[str, Any]:
        """A tool's entry in `tools/list`, with the mark if it is gated here (§4.2)."""
        mark = self._marks.get(tool.get("name", ""))
        if mark is None:
            return tool
        return tool | {"_meta": (tool.get("_meta") or {}) | {META: annotation(mark.policy, mark.extra)}}


def check_extra(mark: Mark) -> None:
    """Members of our own are not to be overruled: `required` has the one value that there is (§4.2)."""
    fixed = {"required": REQUIRED, "authenticatorClass": mark.policy.authenticator_class}
    for name, value in fixed.items():
        if mark.extra.get(name, value) != value:
            raise ConfigError(
                f"the annotation of a gated tool cannot have {name} = {mark.extra[name]!r}",
                advice=f"Leave {name} out of `extra`; it is set to {value!r}.",
            )


def _not_attached() -> Refused:
    return Refused(
        Reason.APPROVAL_UNAVAILABLE,
        "verified approval is not attached to this server",
        advice="Call `approval.attach(server)` before the server runs, or start it with `approval.run(server)`.",
    )
