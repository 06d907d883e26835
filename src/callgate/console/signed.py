"""What lasts takes a passkey's signature, each time: over the path and exactly the body that is sent to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import ConsoleSession
from callgate.canonical import canonical
from callgate.console.bodies import Body, Signed, refit
from callgate.console.desk import Desk

B = TypeVar("B", bound=Body)

# Who may do it and whether it can be done, in a sentence for the person; refused before anybody is asked to sign.
Ready = Callable[[Request, ConsoleSession, B], Awaitable[str]]
Do = Callable[[Request, ConsoleSession, B], Awaitable[Response]]


class _Act(Signed, frozen=True, rename="camel"):
    body: dict[str, Any]


class Act(Generic[B]):
    """One thing that a page does with a signature; `name` is what the audit log and the passkey's challenge call it."""

    def __init__(self, desk: Desk, name: str, kind: type[B], ready: Ready[B], do: Do[B]) -> None:
        self._desk = desk
        self._name = name
        self._kind = kind
        self._ready = ready
        self._do = do

    async def options(self, request: Request) -> Response:
        session, body = await self._desk.change(request, self._kind)
        text = await self._ready(request, session, body)
        path = str(request.scope["path"]).removesuffix("/options")
        issued = await self._desk.approvals.begin_act(session.user, self._name, _meant(path, body), text)
        return JSONResponse(issued.result)

    async def carry_out(self, request: Request) -> Response:
        session, act = await self._desk.change(request, _Act)
        body = refit(act.body, self._kind)
        await self._ready(request, session, body)
        meant = _meant(str(request.scope["path"]), body)
        await self._desk.approvals.finish_act(session.user, self._name, meant, act.evidence)
        return await self._do(request, session, body)

    def routes(self, path: str) -> list[Route]:
        """The way to a challenge and the way to do it; `signedPost` in signed.js goes both."""
        return [
            Route(f"{path}/options", self.options, methods=["POST"]),
            Route(path, self.carry_out, methods=["POST"]),
        ]


def _meant(path: str, body: Body) -> bytes:
    return canonical({"path": path, "body": msgspec.to_builtins(body)})
