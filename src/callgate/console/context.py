"""What all pages share: the services, who is signed in, what waits for them, how pages and answers are made."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from callgate.approval.delegation import Delegable
from callgate.approval.model import ConsoleSession, Role, reaches
from callgate.approval.reach import Demand
from callgate.approval.service import Approvals
from callgate.audit import AuditLog
from callgate.config import Config
from callgate.console.cards import mark_of
from callgate.console.guard import ConsoleOrigin, check_change, check_token
from callgate.console.rendering import Assets, environment
from callgate.console.requests import B, read_body
from callgate.console.statistics import Recent
from callgate.errors import Reason, Refused
from callgate.pinning.review.views import Review
from callgate.pinning.service import Configured, Pins
from callgate.store import KillSwitch, SqlAgents, Store
from callgate.trust.model import Quarantined
from callgate.trust.service import Settled, TrustService

_SECRET_CHARS: Final = 512
# How far held results are counted.
_HELD_MOST: Final = 100
_CALLS_MOST: Final = 1_000
# These reasons travel with status 200 in JSON-RPC; a browser's fetch wants to be told by the status.
_STATUS: Final = {
    Reason.APPROVAL_EXPIRED: 410,
    Reason.APPROVAL_LIMIT: 429,
    Reason.TOOL_CHANGED: 409,
    Reason.TOOL_UNKNOWN: 404,
    Reason.TOOL_UNFIT: 409,
}

# The tools that do not take every passkey; None where that is not known, or no call is asked about.
Demands: TypeAlias = Callable[[], Awaitable[Sequence[Demand] | None]]
_DAY: Final = 86_400_000


async def _no_tools() -> Sequence[Delegable]:
    return ()


@dataclass(frozen=True)
class GatewayParts:
    """The gateway's own store and log, its agents, and the configuration in force with the file it came from."""

    store: Store
    log: AuditLog
    agents: SqlAgents
    switch: KillSwitch
    config: Config
    path: Path | None = None
    # The tools that a grant can be about.
    delegable: Callable[[], Awaitable[Sequence[Delegable]]] = _no_tools


class Waits(NamedTuple):
    """How much waits for a reviewer: tools, and sets of servers that nobody has reviewed together; and results that
    are kept back until somebody has read them; and calls that wait for this person."""

    tools: int = 0
    sets: int = 0
    held: int = 0
    calls: int = 0
    # What of `tools` is none: prompts, and what servers say of themselves.
    texts: int = 0

    @property
    def total(self) -> int:
        """Of tools and sets."""
        return self.tools + self.sets

    @classmethod
    def of(cls, review: Review) -> Waits:
        texts = sum(view.kind != "tool" for view in review.pending)
        return cls(len(review.pending), sum(not one.reviewed for one in review.sets), texts=texts)


NOTHING: Final = Waits()


class ReviewBrief(NamedTuple):
    """Of one review: how much waits, the marks of its texts, and a stamp that changes whenever what waits does; and
    other versions of known servers, which wait for one question: identity, names, and how many tools are as they were.
    """

    waits: Waits
    marks: tuple[str, ...]
    stamp: str
    versions: tuple[tuple[str, str, int], ...] = ()

    @classmethod
    def of(cls, review: Review) -> ReviewBrief:
        marks = tuple(map(mark_of, review.pending))
        sets = (f"{one.group}\0{one.version}" for one in review.sets if not one.reviewed)
        text = "\n".join([*marks, *sets])
        stamp = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        same = [(one.seen, sum(tool.unchanged for tool in one.tools)) for one in review.servers]
        versions = tuple((seen.server_id, ", ".join(seen.called), count) for seen, count in same if count)
        return cls(Waits.of(review), marks, stamp, versions)


async def _unknown() -> None:
    """Nobody knows which tools demand what."""


def _may_decide(session: ConsoleSession, named: tuple[str, ...]) -> bool:
    """Those who are named, unless they are there to look only; where nobody is, the operators."""
    if named:
        return session.user in named and reaches(session.role, "approver")
    return reaches(session.role, "operator")


class ToolReviews:
    """What tools are reviewed with: the pins, who may decide (empty: every operator), what is configured.

    Remembers the last review, as long as nothing was met or decided since: one of thousands of tools is work.
    """

    def __init__(
        self,
        pins: Pins,
        reviewers: tuple[str, ...] = (),
        configured: Callable[[], Configured | None] = lambda: None,
    ) -> None:
        self.pins = pins
        self.reviewers = reviewers
        self.configured = configured
        self._last: tuple[Hashable, Review, ReviewBrief] | None = None

    def may_decide(self, session: ConsoleSession) -> bool:
        return _may_decide(session, self.reviewers)

    def check(self, session: ConsoleSession) -> None:
        """Refused for who may look at tools and not decide on them."""
        if not self.may_decide(session):
            raise Refused(Reason.NOT_A_REVIEWER)

    async def review(self) -> Review:
        """What `callgate review` shows."""
        return (await self._look())[1]

    async def brief(self) -> ReviewBrief:
        """What waits, without the work of a review where nothing has happened since the last one."""
        return (await self._look())[2]

    async def _look(self) -> tuple[Hashable, Review, ReviewBrief]:
        # Read before the review: what comes in between is looked at again the next time.
        configured = self.configured()
        key = await self._key(configured)
        if self._last is None or self._last[0] != key:
            review = await self.pins.review(configured)
            self._last = (key, review, ReviewBrief.of(review))
        return self._last

    async def _key(self, configured: Configured | None) -> Hashable:
        """Everything that a review is made of, but for the texts: those come with a server's own time and digest."""
        shelf, now = self.pins.shelf, self.pins.now()
        head = await shelf.head()
        return (
            None if head is None else (head.seq, head.mac),
            tuple(await shelf.servers()),
            frozenset((one.name, one.group, one.server_id) for one in await shelf.connected(now)),
            None if configured is None else frozenset(configured.items()),
            self.pins.settings,
            now // _DAY,
        )


class TrustReviews:
    """What agents' sessions and held results are shown with, and who may let a result go (empty: every operator)."""

    def __init__(self, service: TrustService, deciders: tuple[str, ...] = ()) -> None:
        self.service = service
        self.deciders = deciders
        self._held = Recent(self._count_held, service.now)

    def may_decide(self, session: ConsoleSession) -> bool:
        return _may_decide(session, self.deciders)

    def check(self, session: ConsoleSession) -> None:
        """Refused for who may read here and not decide."""
        if not self.may_decide(session):
            raise Refused(Reason.NOT_A_REVIEWER, "This person may not decide on results that are held back.")

    async def settle(self, handle: str, state: Settled, *, by: str, note: str) -> Quarantined:
        self._held.forget()
        return await self.service.settle(handle, state, by=by, note=note)

    async def _count_held(self, _now: int) -> int:
        return len(await self.service.holding(limit=_HELD_MOST))

    async def held(self) -> int:
        """How many results wait; every page shows it, so it is not counted each time."""
        return await self._held.get()


class ConsoleContext:
    """State is all in the service's shelf; nothing here differs from one request to the next."""

    def __init__(
        self,
        approvals: Approvals,
        address: ConsoleOrigin,
        *,
        describe_server: Callable[[str], str] = lambda _: "",
        clock: Callable[[], float] = time.time,
        tools: ToolReviews | None = None,
        trust: TrustReviews | None = None,
        gateway: GatewayParts | None = None,
        demands: Demands = _unknown,
    ) -> None:
        self.approvals = approvals
        self.demands = demands
        self.gateway = gateway
        self.tools = tools
        self.trust = trust
        self.address = address
        self.assets = Assets()
        self.describe_server = describe_server
        self.clock = clock
        self._templates = environment(self.assets)

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self.clock() * 1000)

    async def person(self, request: Request) -> ConsoleSession | None:
        """Who is signed in, if anybody."""
        secret = request.cookies.get(self.address.cookie, "")
        return await self.approvals.session(secret) if 0 < len(secret) <= _SECRET_CHARS else None

    async def signed_in(self, request: Request) -> ConsoleSession:
        """Who is signed in; refused if nobody is."""
        session = await self.person(request)
        if session is None:
            raise Refused(Reason.SIGN_IN_NEEDED)
        return session

    async def visitor(self, request: Request) -> ConsoleSession:
        """Who looks at a page; somebody who is not signed in is led to where they can, and back."""
        session = await self.person(request)
        if session is None:
            raise Refused(Reason.SIGN_IN_NEEDED, data={"onward": str(request.scope["path"])})
        return session

    async def tools_wait(self, session: ConsoleSession | None) -> Waits:
        """How much waits for this person: the badges of every page."""
        if session is None or self.tools is None or not self.tools.may_decide(session):
            return await self.and_theirs(session, Waits())
        return await self.and_theirs(session, (await self.tools.brief()).waits)

    async def and_theirs(self, session: ConsoleSession | None, waits: Waits) -> Waits:
        """The same with the results that are held back, and the calls that wait."""
        if session is None:
            return waits
        now = self.now()
        asked = await self.approvals.shelf.requests(session.user, states=("waiting",), limit=_CALLS_MOST)
        waits = waits._replace(calls=sum(one.expires_at > now for one in asked))
        if self.trust is None or not self.trust.may_decide(session):
            return waits
        return waits._replace(held=await self.trust.held())

    async def open_change(self, request: Request, kind: type[B]) -> B:
        """What a script of ours sends for somebody who need not be signed in."""
        check_change(request, self.address)
        return await read_body(request, kind)

    async def change(self, request: Request, kind: type[B]) -> tuple[ConsoleSession, B]:
        """What a script of ours sends for the person who is signed in."""
        check_change(request, self.address)
        session = await self.signed_in(request)
        check_token(request, session)
        return session, await read_body(request, kind)

    def at_least(self, session: ConsoleSession, role: Role) -> None:
        """Refused for whom this is not."""
        if not reaches(session.role, role):
            raise Refused(Reason.ROLE_NEEDED)

    async def show(self, name: str, session: ConsoleSession, *, waits: Waits | None = None, **values: Any) -> Response:
        """A page for somebody who is signed in, with what waits for them."""
        return self.page(name, session, tools_wait=waits or await self.tools_wait(session), **values)

    def page(self, name: str, session: ConsoleSession | None = None, *, status: int = 200, **values: Any) -> Response:
        """A page from its template."""
        template = self._templates.get_template(f"{name}.html")
        shared = {
            "session": session,
            "origin": self.address.origin,
            "has_tools": self.tools is not None,
            "has_trust": self.trust is not None,
            "has_gateway": self.gateway is not None,
            "switch": None if self.gateway is None else self.gateway.switch,
            "is_operator": session is not None and reaches(session.role, "operator"),
        }
        text = template.render(**shared, **values)
        return HTMLResponse(text, status_code=status)

    def sign_in_page(self, *, onward: str, status: int = 200) -> Response:
        """The way in; `onward` is the path of ours that is shown afterwards."""
        return self.page("sign_in", onward=onward, status=status, home=onward == "/")

    def enter(self, response: Response, session: ConsoleSession, secret: str) -> None:
        """Let the browser hold the session's secret."""
        response.set_cookie(
            self.address.cookie,
            secret,
            max_age=max(0, (session.expires_at - self.now()) // 1000),
            path="/",
            secure=self.address.secure,
            httponly=True,
            samesite="lax",
        )

    async def leave(self, request: Request) -> None:
        """End the session that this browser holds."""
        secret = request.cookies.get(self.address.cookie, "")
        if 0 < len(secret) <= _SECRET_CHARS:
            await self.approvals.sign_out(secret)

    def forget(self, response: Response) -> None:
        """Take the secret back from the browser."""
        response.delete_cookie(self.address.cookie, path="/", secure=self.address.secure, httponly=True, samesite="lax")

    def refusal(
        self, request: Request, refused: Refused, session: ConsoleSession | None = None, waits: Waits = NOTHING
    ) -> Response:
        """A refusal as a script reads it, or as a page."""
        status = _STATUS.get(refused.reason, refused.status if refused.status >= 400 else 403)
        if request.method not in ("GET", "HEAD") or "text/html" not in request.headers.get("accept", ""):
            error = {"reason": refused.reason.value, "message": refused.message, "advice": refused.advice}
            wait = refused.data.get("retryAfter")
            headers = {} if wait is None else {"retry-after": str(wait)}
            return JSONResponse({"error": error}, status_code=status, headers=headers)
        return self.page("error", session, status=status, refused=refused, tools_wait=waits)


class Page:
    """The base of the pages: their handlers stand on what all pages share."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context


class GatewayPage(Page):
    """A page of a whole gateway."""

    def __init__(self, context: ConsoleContext, gateway: GatewayParts) -> None:
        super().__init__(context)
        self._gateway = gateway

    async def _record(self, action: str, by: str, detail: dict[str, Any]) -> None:
        """Put what was done on record."""
        row = self._gateway.log.admin(action, by, detail)
        await self._gateway.store.run(lambda conn: self._gateway.store.insert(conn, row))
