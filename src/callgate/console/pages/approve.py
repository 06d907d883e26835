"""The approval page: what will be done, by whom, with what; a passkey lets it through, a word refuses it.

The page is drawn by the gateway from what the gateway stored. The program that wants the approval has no part in it
(SEP-2672 §8.3.1).
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import WITHDRAWN, ConsoleSession, reaches
from callgate.approval.model import Request as Asked
from callgate.approval.overview import asker, phase
from callgate.approval.reach import how_to_add, kind_of
from callgate.console.bodies import Body, Note, Signed
from callgate.console.cards import Card
from callgate.console.desk import Desk
from callgate.console.rendering import Shown, exact, lines_of, statement
from callgate.console.tree import tree
from callgate.errors import Reason, Refused
from callgate.pinning.model import State
from callgate.trust.effects import decode
from callgate.trust.words import read_with, sources

# What the gateway saw for itself of whoever called; the rest is the caller's own word.
_SEEN: Final = {
    "agent": "Agent",
    "agent name": "Agent's name",
    "proved by": "Proved by",
    "key": "Key",
    "directory": "Directory",
    "on behalf of": "On behalf of",
    "body signed": "Body signed",
    "transport": "Transport",
    "peer": "Address",
    "usable by": "Usable by",
}
# Tools that one call is asked about for.
_SOURCES: Final = 4
_ADD: Final = "“Add another device” on the page of your passkeys"


class _Refuse(Body, frozen=True):
    note: Note = ""


class Approve:
    """One call that waits, or what became of it; shown to its own person only."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self, request: Request) -> Response:
        session = await self._desk.person(request)
        if session is None:
            return self._desk.sign_in_page(onward=f"/approve/{quote(request.path_params['id'])}", status=401)
        asked = await self._own(request, session)
        now = self._desk.now()
        held = await self._desk.approvals.shelf.credentials(session.user)
        taken = [one.name for one in held if asked.policy.takes(one)]
        return await self._desk.show(
            "approve",
            session,
            asked=asked,
            kind="" if len(taken) == len(held) else kind_of(asked.policy),
            taken=taken,
            add=how_to_add(asked.policy, _ADD),
            phase=phase(asked, now),
            may_decide=reaches(session.role, "approver"),
            left=max(0, asked.expires_at - now),
            who=asker(asked),
            text=statement(asked.display_text),
            tree=tree(asked.canonical),
            exact=exact(asked.canonical),
            about_server=self._desk.describe_server(asked.server),
            seen={_SEEN[name]: value for name, value in asked.agent.items() if name in _SEEN},
            said={name.capitalize(): value for name, value in asked.agent.items() if name not in _SEEN},
            why=lines_of(asked.why),
            sources=await self._sources(asked, session),
            happened=_happened(asked, now),
        )

    async def _sources(self, asked: Asked, session: ConsoleSession) -> list[Card]:
        """The tools that a stranger's values in this call were read with, where this person may say that what they
        return is the user's own."""
        tools = self._desk.tools
        read = sources(asked.why)
        if not read or asked.state != "waiting" or tools is None or not tools.may_decide(session):
            return []
        return [
            Card(view)
            for server in (await tools.review()).servers
            for view in server.tools
            if view.state is State.APPROVED
            and (label := decode(view.label)) is not None
            and label.effects == ("reads_others",)
            and read_with(view.server, view.tool) in read
        ][:_SOURCES]

    async def state(self, request: Request) -> Response:
        asked = await self._own(request, await self._desk.signed_in(request))
        now = self._desk.now()
        return JSONResponse({"state": phase(asked, now), "expires_at": asked.expires_at, "now": now})

    async def options(self, request: Request) -> Response:
        session, _ = await self._desk.change(request, Body)
        asked = await self._open(request, session)
        try:
            issued = await self._desk.approvals.page_challenge(asked)
        except Refused as refused:
            if refused.reason is not Reason.NO_ELIGIBLE_CREDENTIAL:
                raise
            text = f"None of your passkeys is of the kind that this tool demands: {kind_of(asked.policy)}."
            raise Refused(refused.reason, text, advice=how_to_add(asked.policy, _ADD)) from None
        return JSONResponse(issued.result)

    async def approve(self, request: Request) -> Response:
        session, body = await self._desk.change(request, Signed)
        asked = await self._open(request, session)
        return self._decided(await self._desk.approvals.approve(asked.id, body.evidence, by=session.user))

    async def refuse(self, request: Request) -> Response:
        session, body = await self._desk.change(request, _Refuse)
        asked = await self._open(request, session)
        return self._decided(await self._desk.approvals.refuse(asked.id, by=session.user, note=body.note.strip()))

    def _decided(self, asked: Asked) -> Response:
        return JSONResponse({"state": phase(asked, self._desk.now())})

    async def _own(self, request: Request, session: ConsoleSession) -> Asked:
        """The request of this address; somebody else's is as unknown as one that never was."""
        asked = await self._desk.approvals.shelf.request(request.path_params["id"])
        if asked is None or asked.user != session.user:
            raise Refused(
                Reason.PAGE_UNKNOWN,
                "There is no such call for you to decide.",
                advice=f"You are signed in as {session.user}; calls for somebody else open when they sign in.",
            )
        return asked

    async def _open(self, request: Request, session: ConsoleSession) -> Asked:
        """The same, still to be decided by who may. The store has the last word on that; this one says it sooner."""
        asked = await self._own(request, session)
        self._desk.at_least(session, "approver")
        if asked.state != "waiting":
            raise Refused(Reason.APPROVAL_DECIDED)
        if phase(asked, self._desk.now()) == "expired":
            raise Refused(Reason.APPROVAL_EXPIRED)
        return asked


def _happened(asked: Asked, now: int) -> list[dict[str, Any]]:
    """The story of a decided request, for the timeline."""
    # The rest stands beside it.
    why = Shown("".join(lines_of(asked.why)[:1]))
    story: list[dict[str, Any]] = [{"head": f"{asker(asked)} asked", "at": asked.created_at, "text": why}]
    if asked.decided_at is not None:
        refused = asked.state == "refused"
        how = "refused" if refused else "approved with a passkey"
        note = statement(asked.note or "") if refused else None
        tone = "bad" if refused else "good"
        story.append({"head": f"{asked.decided_by} {how}", "at": asked.decided_at, "text": note, "tone": tone})
    if asked.call == WITHDRAWN:
        text = "The tool, or who or what approves it, has changed since. No call was let through."
        story.append({"head": "The approval was withdrawn", "text": text, "tone": "bad"})
    elif asked.state == "used":
        story.append({"head": "The call was let through", "text": f"Call {asked.call}", "tone": "good"})
    elif phase(asked, now) == "expired":
        story.append({"head": "The time ran out", "at": asked.expires_at})
    return story


def routes(desk: Desk) -> list[Route]:
    page = Approve(desk)
    return [
        Route("/approve/{id}", page.show),
        Route("/approve/{id}/state", page.state),
        Route("/approve/{id}/options", page.options, methods=["POST"]),
        Route("/approve/{id}/approve", page.approve, methods=["POST"]),
        Route("/approve/{id}/refuse", page.refuse, methods=["POST"]),
    ]
