"""Everybody who signs in here, what each may do, and the changes to that: an operator's, each signed with a passkey."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.display import escape
from callgate.approval.model import ROLES, ConsoleSession, Credential, Role, Ticket, User
from callgate.approval.overview import live_grants, passkeys, people, person, tickets
from callgate.approval.people import check_group_name, check_user_name
from callgate.console.context import ConsoleContext, Page
from callgate.console.requests import Handler, Name, signed
from callgate.errors import Reason, Refused

UserName = Annotated[str, Meta(min_length=1, max_length=64)]


GroupName = Annotated[str, Meta(min_length=1, max_length=64)]
PasskeyId = Annotated[str, Meta(min_length=1, max_length=2048)]
LinkId = Annotated[str, Meta(min_length=1, max_length=128)]


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
            grants=await live_grants(shelf, self._context.now(), user.name),
            roles=ROLES,
            path=_path_of(user.name),
        )

    async def ready_invite(self, name: UserName, role: Role) -> str:
        name = check_user_name(name)
        if await self._context.approvals.shelf.user(name) is not None:
            raise Refused(Reason.USER_EXISTS, f"{name} is here already.", advice="Choose another name.")
        return f"Invite {name} as {role}"

    async def invite(self, session: ConsoleSession, name: UserName, role: Role, display_name: Name = "") -> Response:
        ticket = await self._context.approvals.invite(
            name, display_name.strip(), by=session.user, role=role, signed_with=session.credential
        )
        return JSONResponse({"user": name, "ticket": ticket})

    async def ready_link(self, request: Request) -> str:
        return f"Make a link with which {(await self._user(request)).name} enrols a passkey"

    async def link(self, request: Request, session: ConsoleSession) -> Response:
        user = await self._user(request)
        ticket = await self._context.approvals.invite_again(user.name, by=session.user, signed_with=session.credential)
        return JSONResponse({"user": user.name, "ticket": ticket})

    async def ready_cancel(self, session: ConsoleSession, link: LinkId) -> str:
        return f"Cancel the enrolment link of {(await self._open(session, link)).user}"

    async def cancel(self, session: ConsoleSession, link: LinkId) -> Response:
        await self._context.approvals.cancel_ticket(await self._open(session, link), by=session.user)
        return JSONResponse({})

    async def _open(self, session: ConsoleSession, link: str) -> Ticket:
        """The link that is meant: one's own, or anybody's for an operator."""
        found = await self._context.approvals.open_ticket(link)
        if found is None or found.user != session.user:
            self._context.at_least(session, "operator")
        if found is None:
            raise Refused(Reason.PAGE_OUTDATED, "This link was used, has run out, or was cancelled.")
        return found

    async def ready_role(self, request: Request, role: Role, before: Role) -> str:
        user = await self._user(request)
        # What the page showed: a decision on something else is none on this.
        if user.role != before:
            raise Refused(Reason.PAGE_OUTDATED, f"{user.name} is {user.role} by now. Nothing was changed.")
        return f"Make {user.name} {role}"

    async def role(self, request: Request, session: ConsoleSession, role: Role) -> Response:
        user = await self._user(request)
        await self._context.approvals.set_role(user.name, role, by=session.user)
        return JSONResponse({"role": role})

    async def ready_group(self, request: Request, group: GroupName, *, member: bool) -> str:
        user, group = await self._user(request), check_group_name(group)
        if (group in (await self._context.approvals.shelf.groups()).get(user.name, ())) == member:
            where = "is in" if member else "is not in"
            raise Refused(Reason.PAGE_OUTDATED, f"{user.name} {where} {group} already. Nothing was changed.")
        return f"Put {user.name} into the group {group}" if member else f"Take {user.name} out of {group}"

    async def group(self, request: Request, session: ConsoleSession, group: GroupName, *, member: bool) -> Response:
        user = await self._user(request)
        change = self._context.approvals.join_group if member else self._context.approvals.leave_group
        await change(group, user.name, by=session.user)
        return JSONResponse({})

    async def ready_revoke(self, request: Request, passkey: PasskeyId) -> str:
        held = await self._held(request, passkey)
        return f"Revoke the {held.what} “{escape(held.name)}” ({held.id[:8]}…) of {held.user}"

    async def revoke(self, request: Request, session: ConsoleSession, passkey: PasskeyId) -> Response:
        held = await self._held(request, passkey)
        await self._context.approvals.revoke(held.id, by=session.user)
        return JSONResponse({})

    async def ready_remove(
        self, request: Request, session: ConsoleSession, passkeys: Annotated[int, Meta(ge=0, le=1_000)]
    ) -> str:
        user = await self._user(request)
        if user.name == session.user:
            raise Refused(Reason.INVALID_PARAMS, "Nobody removes themselves.", advice="Another operator can.")
        if len(await self._context.approvals.shelf.credentials(user.name)) != passkeys:
            raise Refused(Reason.PAGE_OUTDATED)
        return f"Remove {user.name} with {passkeys} passkeys, for good"

    async def remove(self, request: Request, session: ConsoleSession) -> Response:
        user = await self._user(request)
        await self._context.approvals.remove(user.name, by=session.user)
        return JSONResponse({})

    async def _user(self, request: Request) -> User:
        found = await self._context.approvals.shelf.user(request.path_params["name"])
        if found is None:
            raise Refused(Reason.PAGE_UNKNOWN, "There is nobody of that name here.", advice="Look on /people.")
        return found

    async def _held(self, request: Request, passkey: str) -> Credential:
        user = await self._user(request)
        found = await self._context.approvals.shelf.credential(passkey)
        if found is None or found.user != user.name or found.revoked_at is not None:
            raise Refused(Reason.PAGE_OUTDATED, f"{user.name} has no such passkey any more. Nothing was changed.")
        return found


def _path_of(name: str) -> str:
    return f"/people/{quote(name, safe='')}"


def routes(context: ConsoleContext) -> list[Route]:
    page = PeoplePage(context)

    def act(name: str, ready: Callable[..., Awaitable[str]], do: Handler) -> list[Route]:
        """Of one person, by an operator."""
        path = f"/people/{{name}}/{name}"
        return signed(context, f"people/{name}", ready, do, role="operator", path=path)

    return [
        Route("/people", page.show),
        *signed(context, "people/invite", page.ready_invite, page.invite, role="operator"),
        Route("/people/{name}", page.one),
        *act("link", page.ready_link, page.link),
        *signed(context, "people/cancel-link", page.ready_cancel, page.cancel, path="/links/cancel"),
        *act("role", page.ready_role, page.role),
        *act("groups", page.ready_group, page.group),
        *act("revoke", page.ready_revoke, page.revoke),
        *act("remove", page.ready_remove, page.remove),
    ]
