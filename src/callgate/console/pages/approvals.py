"""Calls that wait for this person, what they decided lately, and the page on which one call is approved or refused."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import WITHDRAWN, ConsoleSession, Credential, reaches
from callgate.approval.model import Request as Asked
from callgate.approval.overview import RequestRow, asker, how_answered, phase, requests
from callgate.approval.reach import how_to_add, kind_of
from callgate.approval.service import Signers
from callgate.console.cards import Card
from callgate.console.context import ConsoleContext, Page, Waits
from callgate.console.marking import hosts_behind_a_user, mixed_hosts
from callgate.console.rendering import EscapedText, exact, json_tree, lines_of, statement
from callgate.console.requests import Note, SignedBody, change
from callgate.errors import Reason, Refused
from callgate.pinning.model import State
from callgate.protocol import DEVICE
from callgate.trust.effects import decode
from callgate.trust.words import read_with, sources

_RECENT: Final = 10
_PREVIEW: Final = 160
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


class ApprovalsPage(Page):
    """What one person was asked, nothing of anybody else: the rows of the command line, and each call whole."""

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        shelf, now = self._context.approvals.shelf, self._context.now()
        waiting, asked, tools = await asyncio.gather(
            requests(shelf, now, session.user),
            requests(shelf, now, session.user, everything=True),
            self._context.tools_wait(session),
        )
        return await self._context.show(
            "approvals",
            session,
            waiting=[_card(row) for row in waiting],
            recent=[row for row in asked if row.state != "waiting"][:_RECENT],
            waits=tools,
            stamp=_stamp(waiting, tools),
        )

    async def stamp(self, request: Request) -> Response:
        """Changes whenever what waits does: open pages ask for it now and then."""
        session = await self._context.signed_in(request)
        waiting = await requests(self._context.approvals.shelf, self._context.now(), session.user)
        stamp = _stamp(waiting, await self._context.tools_wait(session))
        return JSONResponse({"waiting": len(waiting), "stamp": stamp})

    async def one(self, request: Request) -> Response:
        session = await self._context.person(request)
        if session is None:
            return self._context.sign_in_page(onward=f"/approve/{quote(request.path_params['id'])}", status=401)
        asked = await self._own(request, session)
        now = self._context.now()
        held = await self._context.approvals.shelf.credentials(session.user)
        signers = await self._context.approvals.signers(asked) if asked.policy.quorums else None
        taken = [one.name for one in held if asked.policy.takes(one)]
        arguments = asked.canonical.decode("utf-8", "replace")
        return await self._context.show(
            "approve",
            session,
            asked=asked,
            signers=signers,
            signed=signers is not None and any(one[0] == session.user for one in signers.signed),
            kind="" if len(taken) == len(held) else kind_of(asked.policy),
            taken=taken,
            devices=[one.name for one in await self._devices(session) if asked.policy.takes(one)],
            add=how_to_add(asked.policy, _ADD),
            phase=phase(asked, now),
            may_decide=reaches(session.role, "approver"),
            left=max(0, asked.expires_at - now),
            who=asker(asked),
            text=statement(asked.display_text),
            tree=json_tree(asked.canonical),
            exact=exact(asked.canonical),
            hosts=mixed_hosts(arguments),
            behind_a_user=hosts_behind_a_user(arguments),
            about_server=self._context.describe_server(asked.server),
            seen=seen_of(asked),
            said={name.capitalize(): value for name, value in asked.agent.items() if name not in _SEEN},
            why=lines_of(asked.why),
            sources=await self._sources(asked, session),
            happened=_timeline(asked, now, signers),
        )

    async def _devices(self, session: ConsoleSession) -> Sequence[Credential]:
        return await self._context.approvals.shelf.credentials(session.user, method=DEVICE)

    async def _sources(self, asked: Asked, session: ConsoleSession) -> list[Card]:
        """The tools that a stranger's values in this call were read with, where this person may say that what they
        return is the user's own."""
        tools = self._context.tools
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
        asked = await self._own(request, await self._context.signed_in(request))
        now = self._context.now()
        signed = len(await self._context.approvals.shelf.signatures(asked.id)) if asked.policy.quorums else 0
        body = {"state": phase(asked, now), "signed": signed, "expires_at": asked.expires_at, "now": now}
        return JSONResponse(body)

    async def options(self, request: Request, session: ConsoleSession) -> Response:
        asked = await self._open(request, session)
        try:
            issued = await self._context.approvals.page_challenge(asked, session.user)
        except Refused as refused:
            if refused.reason is not Reason.NO_ELIGIBLE_CREDENTIAL:
                raise
            text = f"None of your passkeys is of the kind that this tool demands: {kind_of(asked.policy)}."
            raise Refused(refused.reason, text, advice=how_to_add(asked.policy, _ADD)) from None
        return JSONResponse(issued.result)

    async def approve(self, request: Request, session: ConsoleSession, body: SignedBody) -> Response:
        asked = await self._open(request, session)
        return self._decided(await self._context.approvals.approve(asked.id, body.evidence, by=session.user))

    async def refuse(self, request: Request, session: ConsoleSession, note: Note = "") -> Response:
        asked = await self._open(request, session)
        return self._decided(await self._context.approvals.refuse(asked.id, by=session.user, note=note.strip()))

    def _decided(self, asked: Asked) -> Response:
        return JSONResponse({"state": phase(asked, self._context.now())})

    async def _own(self, request: Request, session: ConsoleSession) -> Asked:
        """The request of this address; somebody else's is as unknown as one that never was."""
        asked = await self._context.approvals.shelf.request(request.path_params["id"])
        if asked is None or not await self._context.approvals.is_asked(asked, session.user):
            raise Refused(
                Reason.PAGE_UNKNOWN,
                "There is no such call for you to decide.",
                advice=f"You are signed in as {session.user}; calls for somebody else open when they sign in.",
            )
        return asked

    async def _open(self, request: Request, session: ConsoleSession) -> Asked:
        """The same, still to be decided by who may. The store has the last word on that; this one says it sooner."""
        asked = await self._own(request, session)
        self._context.at_least(session, "approver")
        if asked.state != "waiting":
            raise Refused(Reason.APPROVAL_DECIDED)
        if phase(asked, self._context.now()) == "expired":
            raise Refused(Reason.APPROVAL_EXPIRED)
        return asked


def seen_of(asked: Asked) -> dict[str, str]:
    """What the gateway knows of whoever called, not by their own word."""
    return {_SEEN[name]: value for name, value in asked.agent.items() if name in _SEEN}


def _card(row: RequestRow) -> dict[str, Any]:
    return {"row": row, "preview": _preview(row.text)}


def _preview(text: str) -> EscapedText:
    """Enough to tell two calls apart; the call's own page has all of it."""
    joined = ""
    for part in (line.strip() for line in text.split("\n")[1:] if line.strip()):
        between = " " if joined.endswith(":") else " · "
        joined += f"{between if joined else ''}{part}"
        if len(joined) > _PREVIEW:
            break
    return statement(joined if len(joined) <= _PREVIEW else f"{joined[:_PREVIEW]}…")


def _stamp(waiting: Sequence[RequestRow], tools: Waits) -> str:
    return hashlib.sha256(
        "\0".join([f"{tools.total} {tools.held}", *(row.id for row in waiting)]).encode()
    ).hexdigest()[:16]


def _timeline(asked: Asked, now: int, signers: Signers | None) -> list[dict[str, Any]]:
    """The story of a decided request, for the timeline."""
    # The rest stands beside it.
    why = EscapedText("".join(lines_of(asked.why)[:1]))
    story: list[dict[str, Any]] = [{"head": f"{asker(asked)} asked", "at": asked.created_at, "text": why}]
    for name, at, how in () if signers is None else signers.signed:
        story.append({"head": f"{name} approved {how}", "at": at, "tone": "good"})
    # The last signature was the decision, and stands there already.
    if asked.decided_at is not None and (signers is None or asked.state == "refused"):
        refused = asked.state == "refused"
        how = f"approved {how_answered(asked.evidence)}"
        if refused:
            # A no on the page is nobody's signature, and what was taken back later was a yes.
            signed_no = (asked.evidence or {}).get("decision") == "no"
            how = f"refused {how_answered(asked.evidence)}" if signed_no else "refused"
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


def routes(context: ConsoleContext) -> list[Route]:
    page = ApprovalsPage(context)
    return [
        Route("/approvals", page.show),
        Route("/waiting", page.stamp),
        Route("/approve/{id}", page.one),
        Route("/approve/{id}/state", page.state),
        change(context, "/approve/{id}/options", page.options),
        change(context, "/approve/{id}/approve", page.approve),
        change(context, "/approve/{id}/refuse", page.refuse),
    ]
