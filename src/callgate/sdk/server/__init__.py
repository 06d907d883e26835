"""Verified approval for authors of MCP servers (SEP-2672): a tool runs only when a person has signed exactly this call.

approval = VerifiedApproval(user="alice")
mcp = MCPServer("files", extensions=[approval])

@approval.tool(mcp, describe=lambda call: f"Permanently delete resource {call['resourceId']}")
def delete_resource(resourceId: str) -> str: ...

approval.run(mcp)
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

import anyio
import uvicorn
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension, MethodBinding
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolRequestParams
from msgspec.structs import replace
from starlette.applications import Starlette

from callgate.approval import (
    ApprovalPolicy,
    ApprovalRepository,
    Approvals,
    ApprovalSettings,
    Describe,
    RelyingParty,
    check_class,
)
from callgate.approval.action import check_server_id
from callgate.approval.people import Witness
from callgate.errors import ConfigError
from callgate.jsonrpc import Limits
from callgate.protocol import CHALLENGE_CREATE, ENROLL_BEGIN, ENROLL_FINISH, META
from callgate.sdk.connection import AnyModel
from callgate.sdk.server.handler import (
    ApprovalHandler,
    Approver,
    Context,
    GatedTools,
    Mark,
    OpenedService,
    Place,
    SharedService,
    open_service,
    registered,
)
from callgate.sdk.server.strict import StrictBodies, strict_stdio

F = TypeVar("F", bound=Callable[..., Any])
AnyServer: TypeAlias = MCPServer[Any] | Server[Any]

LOCAL: Final = "http://localhost:*"
# What the SDK calls a server that has no name.
_NAMELESS: Final = "mcp-server"
Intercept: TypeAlias = Callable[[CallToolRequestParams, Context, CallNext], Awaitable[HandlerResult]]


class VerifiedApproval(Extension):
    """An extension of the `mcp` SDK: gated tools, the ceremony around them, and what it keeps on record.

    Pass it to `MCPServer(extensions=[...])`, or call `attach` with a low-level `Server`. One object serves one server.
    """

    identifier = META

    def __init__(
        self,
        *,
        store: Place = None,
        user: Approver | None = None,
        server_id: str | None = None,
        rp_id: str = "localhost",
        rp_name: str = "Callgate",
        origins: Sequence[str] = (LOCAL,),
        top_origins: Sequence[str] = (),
        first_use: bool = False,
        settings: ApprovalSettings | None = None,
        strict_defaults: bool = False,
        enabled: bool = True,
        clock: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """`store`: a file, a URL such as `postgresql://…`, or your own repository; by default the store of `callgate`.

        `user`: who approves, or a function that tells it from the request; by default the only user in the store.
        `server_id`: what sets this server apart in all that is signed; by default one is made and kept in the store.
        `rp_id` and `origins`: the domain that passkeys belong to, and the pages on which people sign.
        `first_use`: lets whoever comes first enrol without a ticket, as long as `user` has no passkey.
        `settings`: how long things last and how many may be open. `enabled=False` switches all of it off.
        """
        if first_use and user is None:
            raise ConfigError("first_use needs to know whose first passkey it is", advice="Give `user` as well.")
        self.enabled = enabled
        self._place = store
        self._approver = user
        self._server_id = None if server_id is None else check_server_id(server_id)
        self._party = RelyingParty(rp_id, rp_name, tuple(origins), tuple(top_origins))
        chosen = settings or ApprovalSettings()
        self._settings = replace(chosen, first_use=first_use or chosen.first_use)
        self._clock = clock
        self._random = random
        self._tools = GatedTools(strict_defaults=strict_defaults)
        self._shared = SharedService(self._open)
        self._handler = ApprovalHandler(self._tools, lambda: self._shared.service, user)
        self._server: Server[Any] | None = None

    # ---- gating tools ----

    def tool(
        self,
        server: MCPServer[Any],
        *,
        describe: Describe | None = None,
        authenticator_class: str = "cross-platform",
        require_counter: bool = False,
        extra: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Callable[[F], F]:
        """`server.tool(**options)` for a tool that needs a person; see `gate` for the rest."""

        def register(function: F) -> F:
            made = Tool.from_function(function, **options)
            mark = _mark(describe, authenticator_class, require_counter=require_counter, extra=extra)
            # Gated before it exists, so that it never exists without.
            self._gate(server, made.name, mark, made.parameters)
            return server.tool(**options)(function)

        return register

    def gate(
        self,
        server: AnyServer,
        name: str,
        *,
        describe: Describe | None = None,
        authenticator_class: str = "cross-platform",
        require_counter: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Let a tool run only with a person's approval, however and whenever it is registered.

        `describe` says in words what a call does, from its arguments; those that it leaves out are shown below it.
        `authenticator_class`: `cross-platform` takes passkeys that work from another device, `platform` takes any.
        `require_counter` refuses passkeys whose counter never moves. `extra` members go into the tool's annotation.
        """
        mark = _mark(describe, authenticator_class, require_counter=require_counter, extra=extra)
        entry = registered(server, name) if isinstance(server, MCPServer) else None
        self._gate(server, name, mark, None if entry is None else entry.get("inputSchema"))

    def _gate(self, server: AnyServer, name: str, mark: Mark, schema: Any) -> None:
        if not self.enabled:
            raise ConfigError(
                f"{name!r} cannot be gated: verified approval is switched off", advice="Leave enabled=False out."
            )
        self.attach(server)
        self._tools.add(name, mark, schema)

    # ---- the server ----

    def attach(self, server: AnyServer) -> None:
        """Put all of this into a server; `tool`, `gate`, `run` and `http_app` do it by themselves."""
        low = server._lowlevel_server if isinstance(server, MCPServer) else server  # noqa: SLF001 - no public way
        if self._server is low:
            return
        if self._server is not None:
            raise ConfigError("this VerifiedApproval serves another server already", advice="Make one for each server.")
        if not self.enabled:
            self._server = low
            self._tools.attach(server)
            low.extensions.pop(META, None)
            low.middleware.append(self._handler.hide)
            return
        if self._server_id is None and isinstance(server, MCPServer) and low.name == _NAMELESS:
            raise ConfigError(
                "a server without a name cannot be told apart from others in what people sign",
                advice='Name it, as in MCPServer("files"), or give a server_id.',
            )
        bind(low, self.methods(), self.intercept_tool_call)
        self._handler.attach(low)
        low.middleware.append(self._handler.present)
        around_lifespan(low, self._shared.held)
        read_strictly(low)
        self._server = low
        self._tools.attach(server)

    # ---- what the SDK asks of an extension ----

    def methods(self) -> Sequence[MethodBinding]:
        """The three methods of SEP-2672 §4.4; none of them where it is switched off."""
        if not self.enabled:
            return ()
        handlers = {
            ENROLL_BEGIN: self._handler.begin,
            ENROLL_FINISH: self._handler.finish,
            CHALLENGE_CREATE: self._handler.create,
        }
        return [MethodBinding(name, AnyModel, handler) for name, handler in handlers.items()]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """Every `tools/call` of the server; tools that are not gated go through untouched."""
        return await (self._handler.call(params, ctx, call_next) if self.enabled else call_next(ctx))

    # ---- running ----

    def run(
        self,
        server: AnyServer,
        transport: Literal["stdio", "streamable-http"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        **options: Any,
    ) -> None:
        """Run the server until it ends; `options` are those of `streamable_http_app`.

        Messages are read strictly: a duplicate key, NaN or half a character in a call is refused before the SDK, which
        would take it, sees it. Over HTTP that holds for every server this is attached to; over stdio, for this way.
        """
        if transport == "stdio":
            with contextlib.suppress(KeyboardInterrupt):
                anyio.run(self.run_stdio_async, server)
        elif transport == "streamable-http":
            app = self.http_app(server, host=host, **options)
            uvicorn.run(app, host=host, port=port, log_level="info")
        else:
            raise ConfigError(f"{transport!r} is not a transport", advice='Use "stdio" or "streamable-http".')

    async def run_stdio_async(self, server: AnyServer, limits: Limits | None = None) -> None:
        """Serve one client on stdin and stdout."""
        self.attach(server)
        low = self._server
        assert low is not None
        async with strict_stdio(limits or Limits()) as (read, write):
            self._handler.read_strictly()
            await low.run(read, write, low.create_initialization_options())

    def http_app(self, server: AnyServer, **options: Any) -> Starlette:
        """The ASGI application of the server, which reads messages strictly."""
        self.attach(server)
        return server.streamable_http_app(**options)

    # ---- the service ----

    @property
    def approvals(self) -> Approvals:
        """People, passkeys and tickets, while the server runs."""
        return self._shared.service.approvals

    def _open(self) -> contextlib.AbstractAsyncContextManager[OpenedService]:
        user = None if callable(self._approver) else self._approver
        return open_service(self._place, self._make_approvals, self._handler.server_name, self._server_id, user=user)

    def _make_approvals(self, repository: ApprovalRepository, witness: Witness) -> Approvals:
        return Approvals(
            repository, self._party, self._settings, clock=self._clock, random=self._random, witness=witness
        )


def _mark(
    describe: Describe | None, authenticator_class: str, *, require_counter: bool, extra: Mapping[str, Any] | None
) -> Mark:
    return Mark(ApprovalPolicy(check_class(authenticator_class), require_counter), describe, dict(extra or {}))


def bind(low: Server[Any], methods: Sequence[MethodBinding], intercept: Intercept) -> None:
    """Add the methods, and the gate around `tools/call`, unless `MCPServer(extensions=[...])` has done so."""
    first = methods[0]
    bound = low.get_request_handler(first.method)
    if bound is not None and bound.handler == first.handler:
        return
    if bound is not None:
        raise ConfigError(f"the server has its own {first.method}", advice="Attach one VerifiedApproval, once.")
    entry = low.get_request_handler("tools/call")
    if entry is None:
        raise ConfigError(
            "the server has no tools/call handler yet", advice="Attach verified approval after its handlers."
        )
    for method in methods:
        low.add_request_handler(method.method, method.params_type, method.handler)

    async def call(ctx: Context, params: CallToolRequestParams) -> HandlerResult:
        async def run(inner: Context) -> HandlerResult:
            return await entry.handler(inner, params)

        return await intercept(params, ctx, run)

    low.add_request_handler("tools/call", CallToolRequestParams, call)


def around_lifespan(low: Server[Any], opened: Callable[[], contextlib.AbstractAsyncContextManager[None]]) -> None:
    """Hold something open for as long as the server serves."""
    inner = low.lifespan

    @contextlib.asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncIterator[Any]:
        async with opened(), inner(server) as state:
            yield state

    low.lifespan = lifespan


def read_strictly(low: Server[Any]) -> None:
    """Whoever asks this server for its HTTP application gets one that reads strictly."""
    make = low.streamable_http_app

    def streamable_http_app(**options: Any) -> Starlette:
        app = make(**options)
        manager = low.session_manager
        limits = Limits(bytes=manager.max_request_body_size)
        # Inside the SDK's own checks of bearer tokens: who may not connect is told so first.
        manager.asgi_app = StrictBodies(manager.asgi_app, limits)  # type: ignore[assignment]
        return app

    low.streamable_http_app = streamable_http_app  # type: ignore[method-assign]
