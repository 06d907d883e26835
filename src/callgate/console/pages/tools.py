"""The review of tools: what waits, each text whole, and the decisions on it; one tool with its history; one server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.display import escape
from callgate.approval.model import ConsoleSession
from callgate.console.cards import Card, changed_since, key_of, seen_of
from callgate.console.context import ConsoleContext, Page, ReviewBrief, ToolReviews, Waits
from callgate.console.rendering import EscapedText, exact, statement
from callgate.console.requests import Note, PageBody, Word, change, signed
from callgate.errors import Reason, Refused
from callgate.inspection import ToolFinding
from callgate.pinning.model import ArgumentAction, Pin, ToolSeen
from callgate.pinning.review.views import (
    ArgumentView,
    Review,
    ServerView,
    SetView,
    ToolView,
    count_items,
    in_words,
    worst,
)
from callgate.pinning.service import Choice
from callgate.trust.effects import EFFECTS, relabelled

# How much one sheet of the review has: more would stall the browser, and nobody reads so much at once.
SHEET_TOOLS: Final = 50
SHEET_BYTES: Final = 262_144
# Of the tools that nothing is to be decided about; the server's own page has all of them.
_SETTLED: Final = 100
_DECISIONS: Final = 200
# Of the tools that a signature is about, so many are named to the person once more.
_NAMED: Final = 3
# Of what has findings, so much is named above everything else.
_FOUND: Final = 8
_OVERRULE: Final = "Read what was found; a box at the tool says that you approve it all the same."

Key = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
_ROWS: Final = 500
_DID: Final = {"approve": ("approved it", "good"), "block": ("blocked it", "bad"), "withdraw": ("withdrew it", "plain")}


class _Decision(PageBody, frozen=True):
    action: Literal["approve", "block", "withdraw"]
    server: Key
    tool: Key
    hash: Annotated[str, Meta(max_length=256)]
    # What was on the page of it, whole; an approval has to say so.
    seen: Annotated[str, Meta(max_length=128)] = ""
    note: Note = ""
    override: bool = False
    # What the tool does, where the reader said something else than was proposed.
    label: Literal["", "reads_own", "reads_others", "changes", "sends", "destroys", "runs"] = ""


Decisions = Annotated[tuple[_Decision, ...], Meta(min_length=1, max_length=_DECISIONS)]
# The servers that were on the page whole.
Together = Annotated[tuple[Key, ...], Meta(max_length=1_000)]
# An argument of a server's command, and what it was on the page.
Place = Annotated[int, Meta(ge=0, le=100_000)]
Digest = Annotated[str, Meta(max_length=128)]


class ToolsPage(Page):
    """Pages carry no state: what is marked for approval lives in the browser until it is sent.

    What was decided of a tool is never lost: its page has the whole story.
    """

    def __init__(self, context: ConsoleContext, tools: ToolReviews) -> None:
        super().__init__(context)
        self._tools = tools

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        review = await self._tools.review()
        brief = ReviewBrief.of(review)
        sheets = _sheets(review)
        number = _number(request, len(sheets))
        return await self._context.show(
            "tools",
            session,
            review=review,
            sections=_sections(review, sheets[number - 1]),
            **_with_findings(review),
            sets=[(one, key_of(one.group), _spoken(one, review)) for one in review.sets if not one.reviewed],
            number=number,
            sheets=[len(sheet) for sheet in sheets],
            before=sum(len(sheet) for sheet in sheets[: number - 1]),
            may_decide=self._tools.may_decide(session),
            broken=self._tools.pins.book.broken,
            waits=await self._context.and_theirs(session, brief.waits),
            heading=_heading(brief.waits),
            marks=" ".join(brief.marks),
            stamp=brief.stamp,
            effects=EFFECTS,
        )

    async def waiting(self, request: Request) -> Response:
        """What open pages ask now and then; the marks of all texts that wait only if they are others than before."""
        await self._context.signed_in(request)
        brief = await self._tools.brief()
        answer: dict[str, Any] = {"waiting": brief.waits.total, "heading": _heading(brief.waits), "stamp": brief.stamp}
        if request.query_params.get("stamp") != brief.stamp:
            answer["marks"] = list(brief.marks)
        return JSONResponse(answer)

    async def decide(self, session: ConsoleSession, decisions: Decisions, together: Together = ()) -> Response:
        """Decisions that take something away; to approve takes a signature."""
        self._tools.check(session)
        if any(one.action == "approve" for one in decisions):
            raise Refused(Reason.SIGNATURE_NEEDED)
        return await self.carry_out(session, decisions, together)

    async def ready(self, session: ConsoleSession, decisions: Decisions) -> str:
        self._tools.check(session)
        # Nobody is asked to sign what cannot hold.
        names = [escape(one.tool) for one in _choices(decisions, _views_by_key(await self._tools.review()))]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"Decide on {', '.join(names[:_NAMED])}{more}"

    async def carry_out(self, session: ConsoleSession, decisions: Decisions, together: Together = ()) -> Response:
        self._tools.check(session)
        review = await self._tools.review()
        choices = list(_choices(decisions, _views_by_key(review)))
        servers = {key_of(server.seen.server_id): server.seen.server_id for server in review.servers}
        whole = tuple(servers[key] for key in dict.fromkeys(together) if key in servers)
        try:
            await self._tools.pins.decide(choices, by=session.user, together=whole)
        except Refused as refused:
            if refused.reason is not Reason.FINDINGS_NOT_OVERRIDDEN:
                raise
            raise Refused(refused.reason, f"{refused.message}. Nothing was decided.", advice=_OVERRULE) from None
        return JSONResponse({"decided": len(choices)})

    async def ready_labels(self, session: ConsoleSession, server: Key, seen: Key) -> str:
        """For a server whose tools were approved before labels came with approvals; `seen` are those on the page."""
        self._tools.check(session)
        name, tools = _unlabelled_tools(await self._tools.review(), server, seen)
        do = "does" if len(tools) == 1 else "do"
        return f"Agree what {_count_text(len(tools), 'tool', 'tools')} of {escape(name)} {do}"

    async def labels(self, session: ConsoleSession, server: Key, seen: Key) -> Response:
        self._tools.check(session)
        _, tools = _unlabelled_tools(await self._tools.review(), server, seen)
        choices = [
            Choice("approve", view.server_id, view.tool, view.approval_hash, entry=view.entry_digest, label=view.label)
            for view in tools
        ]
        await self._tools.pins.decide(choices, by=session.user)
        return JSONResponse({"decided": len(choices)})

    async def ready_together(self, session: ConsoleSession) -> str:
        self._tools.check(session)
        return "Approve that these servers are used together"

    async def reviewed(self, session: ConsoleSession, group: Key, version: Word) -> Response:
        for one in (await self._tools.review()).sets:
            if key_of(one.group) == group:
                await self._tools.pins.review_set(one.group, version, by=session.user)
                return JSONResponse({})
        raise Refused(Reason.PAGE_UNKNOWN, "There is no such set of servers.", advice="Load the page again.")

    async def ready_argument(self, session: ConsoleSession, server: Key, place: Place, digest: Digest) -> str:
        self._tools.check(session)
        found, view = _argument(await self._tools.review(), server, place, digest)
        if view.fixed:
            raise Refused(Reason.INVALID_PARAMS, f"This argument cannot be marked as data: {view.fixed}.")
        return f"Let {escape(view.shown)} of {escape(found.seen.name)} be another {view.sort} without a new review"

    async def argument(self, session: ConsoleSession, server: Key, place: Place, digest: Digest) -> Response:
        return await self._mark(session, server, place, digest, "vary")

    async def bind(self, session: ConsoleSession, server: Key, place: Place, digest: Digest) -> Response:
        """This takes something away, and needs no signature."""
        return await self._mark(session, server, place, digest, "bind")

    async def _mark(
        self, session: ConsoleSession, server: str, place: int, digest: str, action: ArgumentAction
    ) -> Response:
        self._tools.check(session)
        found, _ = _argument(await self._tools.review(), server, place, digest)
        await self._tools.pins.mark_argument(found.seen.server_id, place, digest, by=session.user, action=action)
        return JSONResponse({})

    async def one(self, request: Request) -> Response:
        server_key, tool_key = request.path_params["server"], request.path_params["tool"]
        session = await self._context.visitor(request)
        review = await self._tools.review()
        server = _server(review, server_key)
        view = next((one for one in server.tools if key_of(one.tool) == tool_key), None)
        if view is None:
            raise Refused(Reason.PAGE_UNKNOWN, "This server has no such tool.", advice="Look for it on /tools.")
        pins = self._tools.pins
        return await self._context.show(
            "tool",
            session,
            card=Card(view),
            server=server,
            may_decide=self._tools.may_decide(session),
            effects=EFFECTS,
            history=[_entry(pin) for pin in reversed(await pins.history(view.server_id, view.tool))],
            texts=[_text(one, view) for one in await pins.shelf.texts(view.server_id, view.tool)],
            waits=await self._context.and_theirs(session, Waits.of(review)),
        )

    async def server(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        review = await self._tools.review()
        server = _server(review, request.path_params["server"])
        sheets = max(1, -(-len(server.tools) // _ROWS))
        text = request.query_params.get("sheet", "1")
        number = min(max(int(text), 1), sheets) if text.isascii() and text.isdigit() and len(text) < 6 else 1
        first = (number - 1) * _ROWS
        rows = [(view, key_of(view.tool)) for view in server.tools[first : first + _ROWS]]
        return await self._context.show(
            "server",
            session,
            key=key_of(server.seen.server_id),
            server=server,
            rows=rows,
            first=first,
            number=number,
            sheets=sheets,
            waits=await self._context.and_theirs(session, Waits.of(review)),
        )


def _heading(waits: Waits) -> str:
    """What stands above the review, and above one that is open while more comes."""
    if not waits.total:
        return "No tool waits for review"
    parts = [
        _count_text(waits.tools - waits.texts, "tool", "tools"),
        _count_text(waits.texts, "other text", "other texts"),
        _count_text(waits.sets, "set of servers", "sets of servers"),
    ]
    return f"{in_words(list(filter(None, parts)))} {'waits' if waits.total == 1 else 'wait'} for review"


def _with_findings(review: Review) -> dict[str, Any]:
    """What the inspection found in what waits, on whatever sheet: the worst first, each with its first finding."""
    found = sorted((view for view in review.pending if not view.plain), key=lambda view: view.concern)
    listed = [
        {"view": view, "place": f"{key_of(view.server_id)}/{key_of(view.tool)}", "finding": worst(view)}
        for view in found[:_FOUND]
    ]
    return {"found": listed, "found_text": count_items(found), "found_more": max(0, len(found) - _FOUND)}


def _count_text(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}" if count else ""


def _views_by_key(review: Review) -> dict[tuple[str, str], ToolView]:
    return {(key_of(view.server_id), key_of(view.tool)): view for server in review.servers for view in server.tools}


def tool_name(view: ToolView) -> str:
    """A tool in a sentence of ours."""
    return f"{escape(view.tool)} on {escape(view.server)}"


def _choices(decisions: Iterable[_Decision], known: dict[tuple[str, str], ToolView]) -> Iterator[Choice]:
    """The decisions with the names that stand behind their keys; refused where the reader approves another text.

    The store looks at the text again in the transaction that writes the decision, and has the last word. Blocking and
    withdrawing hold for every text: no server escapes them by changing all the time.
    """
    seen = set()
    for one in decisions:
        view = known.get((one.server, one.tool))
        if view is None:
            raise Refused(
                Reason.TOOL_UNKNOWN, "One of these tools is not known any more.", advice="Load the page again."
            )
        if (one.server, one.tool) in seen:
            raise Refused(
                Reason.INVALID_PARAMS, f"{tool_name(view)} is decided on twice.", advice="Load the page again."
            )
        seen.add((one.server, one.tool))
        if one.action == "approve" and (one.hash != view.approval_hash or one.seen != seen_of(view)):
            members = changed_since(one.seen, view) if one.hash == view.approval_hash else ""
            what = f": its {members}" if members else ""
            raise Refused(
                Reason.TOOL_CHANGED,
                f"{tool_name(view)} has changed since you read it{what}. Nothing was decided.",
                advice="It is on the page as it is now; read it, then decide again.",
            )
        note = one.note.strip()
        if one.action == "block" and not note:
            raise Refused(Reason.INVALID_PARAMS, "Blocking a tool needs a reason.", advice="Say why; others read it.")
        chosen = Choice(one.action, view.server_id, view.tool, one.hash, note=note, override=one.override)
        # The page had exactly this: `seen` says so.
        label = relabelled(view.label, [one.label]) if one.label else view.label
        yield msgspec.structs.replace(chosen, entry=view.entry_digest, shown=view.hard, label=label)


def _argument(review: Review, key: str, place: int, digest: str) -> tuple[ServerView, ArgumentView]:
    """The argument that was on the page; refused where the server is started otherwise by now."""
    for server in review.servers:
        for view in server.arguments if key_of(server.seen.server_id) == key else ():
            if (view.place, view.digest) == (place, digest):
                return server, view
    raise Refused(
        Reason.TOOL_CHANGED, "The server is not started with this argument any more.", advice="Load the page again."
    )


def _unlabelled_tools(review: Review, key: str, seen: str) -> tuple[str, list[ToolView]]:
    """The server and its tools without a label; refused where these are not what was on the page."""
    for server in review.servers:
        tools = [view for view in server.tools if view.unlabelled]
        if key_of(server.seen.server_id) == key and tools and labels_seen(tools) == seen:
            return server.seen.name, tools
    raise Refused(Reason.TOOL_CHANGED, "These labels are not what was on the page.", advice="Load the page again.")


def labels_seen(tools: Iterable[ToolView]) -> str:
    """A digest of what is proposed for some tools."""
    return key_of("\0".join(f"{view.tool}\0{view.approval_hash}\0{view.label}" for view in tools))


def _sheets(review: Review) -> list[list[ToolView]]:
    """What waits, in portions; each tool whole."""
    sheets: list[list[ToolView]] = [[]]
    room = SHEET_BYTES
    for view in review.pending:
        if sheets[-1] and (len(sheets[-1]) == SHEET_TOOLS or len(view.raw) > room):
            sheets.append([])
            room = SHEET_BYTES
        sheets[-1].append(view)
        room -= len(view.raw)
    return sheets


def _number(request: Request, most: int) -> int:
    text = request.query_params.get("sheet", "1")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1
    return min(max(number, 1), most)


def _sections(review: Review, sheet: list[ToolView]) -> list[dict[str, Any]]:
    """Every server, those with something to decide first."""
    here = {(view.server_id, view.tool) for view in sheet}
    made = []
    for server in review.servers:
        pending = [view for view in server.tools if view.needs_review]
        cards = [Card(view) for view in pending if (view.server_id, view.tool) in here]
        settled = [view for view in server.tools if not view.needs_review]
        unlabelled = [view for view in server.tools if view.unlabelled]
        section = {
            "key": key_of(server.seen.server_id),
            "server": server,
            "cards": cards,
            # Whether everything that waits of this server is before the reader, or how much is on other sheets.
            "whole": len(pending) == len(cards),
            "elsewhere": len(pending) - len(cards),
            "plain": sum(card.view.plain for card in cards),
            # What another version of the server had word for word, approved.
            "unchanged": sum(card.view.unchanged for card in cards),
            # Tools that were approved before labels came with approvals.
            "unlabelled": unlabelled,
            "labels_seen": labels_seen(unlabelled),
            "settled": [(view, key_of(view.tool)) for view in settled[:_SETTLED]],
            "unshown": max(0, len(settled) - _SETTLED),
            "counts": Counter(view.state.value for view in settled),
            "settled_text": count_items(settled),
        }
        made.append(section)
    return sorted(made, key=lambda one: not one["cards"])


def _spoken(one: SetView, review: Review) -> list[dict[str, Any]]:
    """What was found between the servers of a set, with who says it."""
    between = {_spot(finding) for finding in one.findings}
    return [
        {"server": view.server, "tool": view.tool, "server_key": key_of(view.server_id), "tool_key": key_of(view.tool)}
        | {"finding": finding}
        for server in review.servers
        if server.seen.name in one.servers
        for view in server.tools
        for finding in view.findings
        if finding.server and _spot(finding) in between
    ]


def _spot(finding: ToolFinding) -> tuple[object, ...]:
    """A finding by its place: a set's own sentences differ from a tool's."""
    return finding.rule, finding.where, finding.span, finding.server, finding.tool


def _server(review: Review, key: str) -> ServerView:
    for server in review.servers:
        if key_of(server.seen.server_id) == key:
            return server
    raise Refused(Reason.PAGE_UNKNOWN, "No such server was met here.", advice="Look for it on /tools.")


def _entry(pin: Pin) -> dict[str, Any]:
    did, tone = _DID[pin.action]
    return {
        "head": f"{pin.approved_by} {did}",
        "at": pin.approved_at,
        "note": statement(pin.note),
        "overrides": ", ".join(pin.overrides),
        "tone": tone,
        "hash": pin.approval_hash,
        "raw": _exact(pin.raw),
    }


def _text(seen: ToolSeen, view: ToolView) -> dict[str, Any]:
    now = seen.approval_hash == view.approval_hash and not seen.gone
    return {"seen": seen, "raw": _exact(seen.raw), "now": now}


def _exact(raw: bytes) -> EscapedText | None:
    return exact(raw) if raw else None


def routes(context: ConsoleContext) -> list[Route]:
    if context.tools is None:
        return []
    page = ToolsPage(context, context.tools)
    return [
        Route("/tools", page.show),
        Route("/tools/waiting", page.waiting),
        change(context, "/tools/decide", page.decide),
        *signed(context, "tools/approve", page.ready, page.carry_out),
        *signed(context, "tools/labels", page.ready_labels, page.labels),
        *signed(context, "tools/together", page.ready_together, page.reviewed, path="/tools/reviewed-together"),
        *signed(context, "tools/argument", page.ready_argument, page.argument),
        change(context, "/tools/argument/bind", page.bind),
        Route("/tools/{server}", page.server),
        Route("/tools/{server}/{tool}", page.one),
    ]
