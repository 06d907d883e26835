"""Everybody who signs in here, what each may do, and the changes to that: an operator's, each signed with a passkey."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.display import escape
from callgate.approval.model import ROLES, ConsoleSession, Credential, Role, Ticket, User
from callgate.approval.overview import passkeys, people, person, tickets
from callgate.approval.people import check_group_name, check_user_name
from callgate.console.context import ConsoleContext, Page
from callgate.console.requests import Name, PageBody, signed
from callgate.errors import Reason, Refused

UserName = Annotated[str, Meta(min_length=1, max_length=64)]


class _Invite(PageBody, frozen=True, rename="camel"):
    name: UserName
    role: Role
    display_name: Name = ""


class _SetRole(PageBody, frozen=True):
    role: Role
    # What the page showed: a decision on something else is none on this.
    before: Role


class _SetGroup(PageBody, frozen=True):
    group: Annotated[str, Meta(min_length=1, max_length=64)]
    member: bool


class _Passkey(PageBody, frozen=True):
    passkey: Annotated[str, Meta(min_length=1, max_length=2048)]


class _Link(PageBody, frozen=True):
    link: Annotated[str, Meta(min_length=1, max_length=128)]


class _Remove(PageBody, frozen=True):
    passkeys: Annotated[int, Meta(ge=0, le=1_000)]


class PeoplePage(Page):
    """The same functions as `callgate users`, `callgate enroll` and `callgate credentials`."""

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        rows = await people(self._context.approvals.shelf, self._context.now())
        return await self._context.show("people", session, rows=rows, roles=ROLES, path_of=_path_of)

    async def one(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        self._context.at_least(session, "operator")
        user = await self._user(request)
        shelf = self._context.approvals.shelf
        return await self._context.show(
            "person",
            session,
            row=await person(shelf, user, self._context.now()),
            passkeys=await passkeys(shelf, user.name),
            links=await tickets(shelf, self._context.now(), user.name),
            roles=ROLES,
            path=_path_of(user.name),
        )

    async def ready_invite(self, _request: Request, session: ConsoleSession, body: _Invite) -> str:
        self._context.at_least(session, "operator")
        name = check_user_name(body.name)
        if await self._context.approvals.shelf.user(name) is not None:
            raise Refused(Reason.USER_EXISTS, f"{name} is here already.", advice="Choose another name.")
        return f"Invite {name} as {body.role}"

    async def invite(self, _request: Request, session: ConsoleSession, body: _Invite) -> Response:
        shown = body.display_name.strip()
        ticket = await self._context.approvals.invite(
            body.name, shown, by=session.user, role=body.role, signed_with=session.credential
        )
        return JSONResponse({"user": body.name, "ticket": ticket})

    async def ready_link(self, request: Request, session: ConsoleSession, _body: PageBody) -> str:
        self._context.at_least(session, "operator")
        return f"Make a link with which {(await self._user(request)).name} enrols a passkey"

    async def link(self, request: Request, session: ConsoleSession, _body: PageBody) -> Response:
        user = await self._user(request)
        ticket = await self._context.approvals.invite_again(user.name, by=session.user, signed_with=session.credential)
        return JSONResponse({"user": user.name, "ticket": ticket})

    async def ready_cancel(self, _request: Request, session: ConsoleSession, body: _Link) -> str:
        return f"Cancel the enrolment link of {(await self._open(session, body)).user}"

    async def cancel(self, _request: Request, session: ConsoleSession, body: _Link) -> Response:
        await self._context.approvals.cancel_ticket(await self._open(session, body), by=session.user)
        return JSONResponse({})

    async def _open(self, session: ConsoleSession, body: _Link) -> Ticket:
        """The link that is meant: one's own, or anybody's for an operator."""
        found = await self._context.approvals.open_ticket(body.link)
        if found is None or found.user != session.user:
            self._context.at_least(session, "operator")
        if found is None:
            raise Refused(Reason.PAGE_OUTDATED, "This link was used, has run out, or was cancelled.")
        return found

    async def ready_role(self, request: Request, session: ConsoleSession, body: _SetRole) -> str:
        self._context.at_least(session, "operator")
        user = await self._user(request)
        if user.role != body.before:
            raise Refused(Reason.PAGE_OUTDATED, f"{user.name} is {user.role} by now. Nothing was changed.")
        return f"Make {user.name} {body.role}"

    async def role(self, request: Request, session: ConsoleSession, body: _SetRole) -> Response:
        user = await self._user(request)
        await self._context.approvals.set_role(user.name, body.role, by=session.user)
        return JSONResponse({"role": body.role})

    async def ready_group(self, request: Request, session: ConsoleSession, body: _SetGroup) -> str:
        self._context.at_least(session, "operator")
        user, group = await self._user(request), check_group_name(body.group)
        if (group in (await self._context.approvals.shelf.groups()).get(user.name, ())) == body.member:
            where = "is in" if body.member else "is not in"
            raise Refused(Reason.PAGE_OUTDATED, f"{user.name} {where} {group} already. Nothing was changed.")
        return f"Put {user.name} into the group {group}" if body.member else f"Take {user.name} out of {group}"

    async def group(self, request: Request, session: ConsoleSession, body: _SetGroup) -> Response:
        user = await self._user(request)
        change = self._context.approvals.join_group if body.member else self._context.approvals.leave_group
        await change(body.group, user.name, by=session.user)
        return JSONResponse({})

    async def ready_revoke(self, request: Request, session: ConsoleSession, body: _Passkey) -> str:
        self._context.at_least(session, "operator")
        held = await self._held(request, body)
        return f"Revoke the passkey “{escape(held.name)}” ({held.id[:8]}…) of {held.user}"

    async def revoke(self, request: Request, session: ConsoleSession, body: _Passkey) -> Response:
        held = await self._held(request, body)
        await self._context.approvals.revoke(held.id, by=session.user)
        return JSONResponse({})

    async def ready_remove(self, request: Request, session: ConsoleSession, body: _Remove) -> str:
        self._context.at_least(session, "operator")
        user = await self._user(request)
        if user.name == session.user:
            raise Refused(Reason.INVALID_PARAMS, "Nobody removes themselves.", advice="Another operator can.")
        if len(await self._context.approvals.shelf.credentials(user.name)) != body.passkeys:
            raise Refused(Reason.PAGE_OUTDATED)
        return f"Remove {user.name} with {body.passkeys} passkeys, for good"

    async def remove(self, request: Request, session: ConsoleSession, _body: _Remove) -> Response:
        user = await self._user(request)
        await self._context.approvals.remove(user.name, by=session.user)
        return JSONResponse({})

    async def _user(self, request: Request) -> User:
        found = await self._context.approvals.shelf.user(request.path_params["name"])
        if found is None:
            raise Refused(Reason.PAGE_UNKNOWN, "There is nobody of that name here.", advice="Look on /people.")
        return found

    async def _held(self, request: Request, body: _Passkey) -> Credential:
        user = await self._user(request)
        found = await self._context.approvals.shelf.credential(body.passkey)
        if found is None or found.user != user.name or found.revoked_at is not None:
            raise Refused(Reason.PAGE_OUTDATED, f"{user.name} has no such passkey any more. Nothing was changed.")
        return found


def _path_of(name: str) -> str:
    return f"/people/{quote(name, safe='')}"


def routes(context: ConsoleContext) -> list[Route]:
    page = PeoplePage(context)
    return [
        Route("/people", page.show),
        *signed(context, "people/invite", _Invite, page.ready_invite, page.invite),
        Route("/people/{name}", page.one),
        *signed(context, "people/link", PageBody, page.ready_link, page.link, path="/people/{name}/link"),
        *signed(context, "people/cancel-link", _Link, page.ready_cancel, page.cancel, path="/links/cancel"),
        *signed(context, "people/role", _SetRole, page.ready_role, page.role, path="/people/{name}/role"),
        *signed(context, "people/groups", _SetGroup, page.ready_group, page.group, path="/people/{name}/groups"),
        *signed(context, "people/revoke", _Passkey, page.ready_revoke, page.revoke, path="/people/{name}/revoke"),
        *signed(context, "people/remove", _Remove, page.ready_remove, page.remove, path="/people/{name}/remove"),
    ]
