"""What scripts of our pages send: small JSON objects of a known shape; what lasts takes a signature each time.

A handler takes what it needs by name: the `request`, the `session`, and the members of the body, each a parameter with
its type. `body` is the whole of it, for what is sent in one piece.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast, get_type_hints

import msgspec
from msgspec import Meta
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import Role
from callgate.canonical import canonical
from callgate.errors import Reason, Refused

if TYPE_CHECKING:
    from callgate.console.context import ConsoleContext

BODY_BYTES: Final = 65_536
BODY_SECONDS: Final = 10.0

Word = Annotated[str, Meta(min_length=1, max_length=256)]
Secret = Annotated[str, Meta(min_length=1, max_length=512)]
Name = Annotated[str, Meta(max_length=64)]
Note = Annotated[str, Meta(max_length=500)]

S = TypeVar("S", bound=msgspec.Struct)
B = TypeVar("B", bound="PageBody")


class PageBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of them all; by itself an empty object."""


class SignedBody(PageBody, frozen=True, rename="camel"):
    """What a passkey answered to a challenge."""

    challenge_id: Word
    response: dict[str, Any]

    @property
    def evidence(self) -> dict[str, Any]:
        """In the form of SEP-2672 §4.5."""
        return {"method": "webauthn", "challengeId": self.challenge_id, "response": self.response}


async def read_body(request: Request, kind: type[S]) -> S:
    """The body as what it has to be; refused where it is too large, too slow, no JSON or of another shape."""
    raw = await _bytes(request)
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise _misshapen(error) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Refused(Reason.PARSE_ERROR, "The body is not JSON.", advice="Send one JSON object in UTF-8.") from None


def refit(value: dict[str, Any], kind: type[B]) -> B:
    """A part of a body as what it has to be."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _misshapen(error) from None


def _misshapen(error: msgspec.ValidationError) -> Refused:
    return Refused(
        Reason.INVALID_PARAMS,
        f"The request has another shape than this page sends: {error}",
        advice="Load the page again, then use its buttons.",
    )


async def _bytes(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length[:12]) > BODY_BYTES:
        raise _too_large()
    parts = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                parts += chunk
                if len(parts) > BODY_BYTES:
                    raise _too_large()
    except TimeoutError:
        raise Refused(Reason.BODY_TIMEOUT, advice="Send it faster.") from None
    except ClientDisconnect:
        raise Refused(Reason.BODY_TIMEOUT, "The client left before its request was whole.") from None
    return bytes(parts)


def _too_large() -> Refused:
    return Refused(
        Reason.MESSAGE_TOO_LARGE, f"The console takes at most {BODY_BYTES} bytes.", advice="Send less at once."
    )


Handler = Callable[..., Awaitable[Response]]
_GIVEN: Final = frozenset({"request", "session"})


def shape_of(*handlers: Callable[..., Any]) -> type[PageBody]:
    """The body that these functions take together."""
    members: dict[str, tuple[str, Any, Any]] = {}
    for handler in handlers:
        kinds = get_type_hints(handler, include_extras=True)
        for name, parameter in inspect.signature(handler).parameters.items():
            if name == "body":
                whole: type[PageBody] = kinds[name]
                return whole
            if name not in _GIVEN:
                default = msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default
                member = (name, kinds[name], default)
                if members.setdefault(name, member) != member:
                    raise TypeError(f"{handler.__qualname__}: {name} is of another kind than in the function before it")
    made = msgspec.defstruct("Body", [*members.values()], bases=(PageBody,), frozen=True, rename="camel", kw_only=True)
    return cast("type[PageBody]", made)


def _bound(handler: Callable[..., Any], body: PageBody, **given: Any) -> dict[str, Any]:
    """What a handler asks for, by name."""
    every = {"body": body, **msgspec.structs.asdict(body), **given}
    return {name: every[name] for name in inspect.signature(handler).parameters}


def open_change(context: ConsoleContext, path: str, do: Handler) -> Route:
    """What a page does for somebody who need not be signed in."""
    kind = shape_of(do)

    async def carry_out(request: Request) -> Response:
        return await do(**_bound(do, await context.open_change(request, kind), request=request))

    return Route(path, carry_out, methods=["POST"])


def change(context: ConsoleContext, path: str, do: Handler, *, role: Role = "viewer") -> Route:
    """What a page does for somebody who is signed in and has at least this role."""
    kind = shape_of(do)

    async def carry_out(request: Request) -> Response:
        session, body = await context.change(request, kind)
        context.at_least(session, role)
        return await do(**_bound(do, body, request=request, session=session))

    return Route(path, carry_out, methods=["POST"])


class _SignedAction(SignedBody, frozen=True, rename="camel"):
    body: dict[str, Any]


def signed(
    context: ConsoleContext,
    name: str,
    ready: Callable[..., Awaitable[str]],
    do: Handler,
    *,
    role: Role = "viewer",
    path: str = "",
) -> list[Route]:
    """One thing that a page does with a signature; `name` is what the audit log and the passkey's challenge call it.

    `ready` says whether it can be done, in a sentence for the person; it refuses before anybody is asked to sign.
    The way to a challenge and the way to do it; `signedPost` in signed.js goes both.
    """
    kind = shape_of(ready, do)

    async def options(request: Request) -> Response:
        session, body = await context.change(request, kind)
        context.at_least(session, role)
        text = await ready(**_bound(ready, body, request=request, session=session))
        meant = _signed_bytes(str(request.scope["path"]).removesuffix("/options"), body)
        return JSONResponse((await context.approvals.begin_act(session.user, name, meant, text)).result)

    async def carry_out(request: Request) -> Response:
        session, act = await context.change(request, _SignedAction)
        context.at_least(session, role)
        body = refit(act.body, kind)
        await ready(**_bound(ready, body, request=request, session=session))
        meant = _signed_bytes(str(request.scope["path"]), body)
        credential = await context.approvals.finish_act(session.user, name, meant, act.evidence)
        # Whatever opened the session: it is this passkey that answers for what is done now.
        session = msgspec.structs.replace(session, credential=credential)
        return await do(**_bound(do, body, request=request, session=session))

    path = path or f"/{name}"
    return [Route(f"{path}/options", options, methods=["POST"]), Route(path, carry_out, methods=["POST"])]


def _signed_bytes(path: str, body: PageBody) -> bytes:
    return canonical({"path": path, "body": msgspec.to_builtins(body)})
