"""Devices that answer for their people: enrolled here with a passkey, and asking here for what waits
(docs/reference/device-protocol.md). What a device sends is signed each time; it has no session and no cookie.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.action import to_base64url
from callgate.approval.device import PROTOCOL, AskBody
from callgate.approval.display import escape
from callgate.approval.model import ConsoleSession, Credential
from callgate.approval.model import Request as Asked
from callgate.approval.overview import asker, fingerprint, phase
from callgate.console.context import ConsoleContext, Page
from callgate.console.guard import AttemptLimit, check_program
from callgate.console.pages.approvals import seen_of
from callgate.console.rendering import exact, lines_of, statement
from callgate.console.requests import PageBody, Word, read_body, signed
from callgate.errors import Reason, Refused

# Asking twice a second would be twice what anybody needs.
_A_MINUTE: Final = 120
_IN_ALL: Final = 20_000


Line = Annotated[str, Meta(min_length=1, max_length=4096)]


class _Answer(PageBody, frozen=True):
    request: Word
    evidence: dict[str, Any]


class DevicesPage(Page):
    """Enrolling for people, and the three messages of devices."""

    def __init__(self, context: ConsoleContext) -> None:
        super().__init__(context)
        self._asked = AttemptLimit(_A_MINUTE, _IN_ALL, context.clock)

    async def ready_add(self, session: ConsoleSession, line: Line) -> str:
        found = await self._context.approvals.new_device(session.user, line)
        return (
            f"Let the device “{escape(found.name)}” (key {fingerprint(found.public_key)}) answer calls for "
            f"{session.user}, without a passkey"
        )

    async def add(self, session: ConsoleSession, line: Line) -> Response:
        found = await self._context.approvals.new_device(session.user, line)
        held = await self._context.approvals.add_device(session.user, found, signed_with=session.credential)
        return JSONResponse({"name": held.name})

    async def gateway(self, _request: Request) -> Response:
        """What a device has to know before it is enrolled."""
        gateway = await self._context.approvals.gateway_id()
        return JSONResponse({"protocol": PROTOCOL, "gateway": gateway, "time": self._context.now()})

    async def waiting(self, request: Request) -> Response:
        device, _ = await self._ask(request, "waiting")
        rows = [
            {
                "request": asked.id,
                "server": escape(asked.server),
                "tool": escape(asked.tool),
                "askedBy": escape(asker(asked)),
                "expiresAt": asked.expires_at,
            }
            for asked in await self._open_requests(device)
        ]
        return JSONResponse({"user": device.user, "name": device.name, "time": self._context.now(), "waiting": rows})

    async def call(self, request: Request) -> Response:
        """One call, whole, and a challenge to answer it with."""
        device, body = await self._ask(request, "call")
        asked = await self._context.approvals.shelf.request(body.request)
        if asked is None:
            raise Refused(Reason.NOT_ASKED)
        challenge = (await self._context.approvals.device_challenge(asked, device)).challenge
        return JSONResponse(
            {
                "request": asked.id,
                "challengeId": challenge.id,
                "nonce": to_base64url(challenge.nonce),
                "actionHash": to_base64url(challenge.action_hash),
                "expiresAt": challenge.expires_at,
                "time": self._context.now(),
                "call": await self._whole(asked),
            }
        )

    async def answer(self, request: Request) -> Response:
        check_program(request, self._context.address)
        body = await read_body(request, _Answer)
        decided = await self._context.approvals.answer(body.request, body.evidence)
        return JSONResponse({"state": phase(decided, self._context.now())})

    async def _ask(self, request: Request, what: str) -> tuple[Credential, AskBody]:
        check_program(request, self._context.address)
        body = await read_body(request, AskBody)
        device = await self._context.approvals.asking_device(what, body)
        # Only what its own key has signed counts: nobody else can use up the tries of a device.
        self._asked.step(device.id)
        await self._context.approvals.take_ask(device, body)
        return device, body

    async def _open_requests(self, device: Credential) -> list[Asked]:
        now, shelf = self._context.now(), self._context.approvals.shelf
        found = await shelf.requests(device.user, states=("waiting",))
        return [one for one in found if one.expires_at > now and one.policy.takes(device)]

    async def _whole(self, asked: Asked) -> dict[str, Any]:
        """What the approval page shows, in the same lines: nothing in it is invisible or misleads the eye."""
        signers = await self._context.approvals.signers(asked) if asked.policy.quorums else None
        return {
            "server": escape(asked.server),
            "about": escape(self._context.describe_server(asked.server)),
            "tool": escape(asked.tool),
            "version": escape(asked.version or ""),
            "askedBy": escape(asker(asked)),
            "askedAt": asked.created_at,
            "agent": {name: escape(value) for name, value in seen_of(asked).items()},
            "why": lines_of(asked.why),
            "lines": statement(asked.display_text).lines(),
            "arguments": exact(asked.canonical),
            "people": escape(asked.policy.people),
            "signed": [] if signers is None else [f"{escape(name)} {how}" for name, _, how in signers.signed],
        }


def routes(context: ConsoleContext) -> list[Route]:
    page = DevicesPage(context)
    return [
        *signed(context, "devices/add", page.ready_add, page.add, role="approver"),
        Route("/devices/v1", page.gateway),
        Route("/devices/v1/waiting", page.waiting, methods=["POST"]),
        Route("/devices/v1/call", page.call, methods=["POST"]),
        Route("/devices/v1/answer", page.answer, methods=["POST"]),
    ]
