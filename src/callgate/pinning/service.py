"""What a decision has to be before it is written: explicit, on a known text, by somebody, and not against a finding."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from callgate.errors import Reason, Refused
from callgate.inspection import ToolFinding
from callgate.pinning.chain import DecisionChain, Keys
from callgate.pinning.document import entry_digest
from callgate.pinning.model import (
    Action,
    ArgumentAction,
    ListedTool,
    MarkedArgument,
    Pin,
    PinningSettings,
    ServerSeen,
    ToolSeen,
)
from callgate.pinning.review import Reviewer, ReviewSession, argument_views, current, statuses
from callgate.pinning.review.sets import PresentServer
from callgate.pinning.review.views import NO_LABELS, Labelling, Review, ServerStatus, ServerView, ToolView
from callgate.pinning.storage import ChainHead, ExpectedTool, Link, PinRepository, Sealed

_NOTE: Final = 500
_WHO: Final = 200
_MOST: Final = 10_000
ACTIONS: Final[dict[str, str]] = {
    "approve": "pinning.approved",
    "block": "pinning.blocked",
    "withdraw": "pinning.withdrawn",
}
_ARGUMENT_ACTIONS: Final[dict[ArgumentAction, str]] = {
    "vary": "pinning.argument_marked",
    "bind": "pinning.argument_bound",
}


class Choice(msgspec.Struct, frozen=True):
    """One decision on one tool: there is none on a whole server. An approval names the hash that was reviewed.

    `entry` is the digest of the whole entry that was reviewed, and `shown` the hard findings that were: `override` is
    for those. Who names neither decides on the entry, and overrules the findings, as they are at that moment.
    """

    action: Action
    server_id: str
    tool: str
    approval_hash: str = ""
    note: str = ""
    override: bool = False
    entry: str = ""
    shown: tuple[ToolFinding, ...] | None = None
    # What the tool does, as it was shown and agreed to; the proposal where none is named.
    label: str = ""


class Subject(msgspec.Struct, frozen=True):
    """What a choice is about: what was met of the tool, if anything, and what was decided before."""

    server: ServerSeen | None
    seen: ToolSeen | None
    listed: ListedTool | None
    pin: Pin | None
    findings: tuple[ToolFinding, ...] = ()
    catch_all: str = ""
    # What is proposed for its label.
    label: str = ""


def check_reviewer(by: str) -> None:
    if not by.strip() or len(by) > _WHO or not by.isprintable():
        raise Refused(Reason.INVALID_PARAMS, "a decision needs the name of whoever makes it", advice="Say who decides.")


def check_request(choices: Sequence[Choice], by: str) -> None:
    """Refuses what no store has to be asked for."""
    check_reviewer(by)
    if not choices or len(choices) > _MOST:
        raise Refused(Reason.INVALID_PARAMS, f"{len(choices)} decisions at once", advice=f"Send 1 to {_MOST:,}.")
    named = set()
    for choice in choices:
        if choice.action not in ACTIONS:
            raise Refused(
                Reason.INVALID_PARAMS, f"there is no decision {choice.action!r}", advice="Approve, block or withdraw."
            )
        if not choice.server_id or not choice.tool:
            raise Refused(
                Reason.INVALID_PARAMS, "a decision names one server and one tool", advice="Name both, tool by tool."
            )
        if (choice.server_id, choice.tool) in named:
            raise Refused(
                Reason.INVALID_PARAMS, f"{choice.tool!r} is decided on twice", advice="Decide on each tool once."
            )
        named.add((choice.server_id, choice.tool))
        _check_words(choice)


def _check_words(choice: Choice) -> None:
    if choice.action == "approve" and not choice.approval_hash:
        raise Refused(
            Reason.INVALID_PARAMS,
            f"the approval of {choice.tool!r} does not say of which text",
            advice="Give the approval_hash of the text that was reviewed.",
        )
    if len(choice.note) > _NOTE:
        raise Refused(Reason.INVALID_PARAMS, "the note is too long", advice=f"{_NOTE} characters are taken.")
    if choice.action == "block" and not choice.note.strip():
        raise Refused(
            Reason.INVALID_PARAMS, f"blocking {choice.tool!r} needs a reason", advice="Say why; others read it later."
        )


def check_choice(choice: Choice, subject: Subject, *, strict_schemas: bool) -> None:
    """Refuses a decision that does not fit what is known of its tool; findings are looked at by `check_findings`."""
    if choice.action == "withdraw":
        if subject.pin is None or subject.pin.action == "withdraw":
            raise _refused(Reason.TOOL_NOT_APPROVED, choice, "there is no decision on it to withdraw")
        return
    if subject.seen is None:
        if choice.action == "block" and subject.pin is not None:
            return
        raise _refused(Reason.TOOL_UNKNOWN, choice, "no tool of this name was met at this server")
    if choice.action == "approve":
        _check_approval(choice, subject, subject.seen, strict_schemas=strict_schemas)


def _check_approval(choice: Choice, subject: Subject, seen: ToolSeen, *, strict_schemas: bool) -> None:
    if seen.gone:
        raise _refused(Reason.TOOL_UNKNOWN, choice, "the server does not list it any more")
    listed = subject.listed
    if listed is None or listed.problem or not listed.approval_hash:
        why = listed.problem if listed is not None and listed.problem else "it has no hash"
        raise _refused(Reason.TOOL_UNFIT, choice, f"nobody can approve it: {why}")
    if not hmac.compare_digest(choice.approval_hash.encode("utf-8", "replace"), listed.approval_hash.encode()):
        detail = "it has another text by now than the one that was reviewed"
        data = {"met": listed.approval_hash, "reviewed": choice.approval_hash}
        raise _refused(Reason.TOOL_CHANGED, choice, detail, data)
    met = entry_digest(listed.approval_hash, listed.beside)
    if choice.entry and not hmac.compare_digest(choice.entry.encode("utf-8", "replace"), met.encode()):
        detail = "what it has beside its text is not what was reviewed"
        raise _refused(Reason.TOOL_CHANGED, choice, detail, {"met": met, "reviewed": choice.entry})
    if strict_schemas and subject.catch_all:
        raise _refused(Reason.SCHEMA_REFUSED, choice, f"pinning.strict_schemas is on, and {subject.catch_all}")


def check_findings(choices: Sequence[Choice], subjects: Sequence[Subject]) -> None:
    """Refuses approvals that would pass over a hard finding without a word; the refusal has all of them."""
    overlooked = [
        (choice, found)
        for choice, subject in zip(choices, subjects, strict=True)
        if choice.action == "approve" and (found := _overlooked(choice, subject))
    ]
    if not overlooked:
        return
    names = ", ".join(dict.fromkeys(repr(choice.tool) for choice, _ in overlooked[:5]))
    more = f" and {len(overlooked) - 5} more" if len(overlooked) > 5 else ""
    raise Refused(
        Reason.FINDINGS_NOT_OVERRIDDEN,
        f"the inspection found something in {names}{more} that approving has to overrule",
        data={
            "findings": [
                {"server_id": choice.server_id, "of": choice.tool} | msgspec.to_builtins(finding)
                for choice, found in overlooked
                for finding in found
            ]
        },
    )


def _overlooked(choice: Choice, subject: Subject) -> list[ToolFinding]:
    """What would have to be overruled and is not: nobody overrules what they were not shown."""
    found = hard(subject.findings)
    if not choice.override:
        return list(found)
    return [] if choice.shown is None else [finding for finding in found if finding not in choice.shown]


def hard(findings: Iterable[ToolFinding]) -> tuple[ToolFinding, ...]:
    return tuple(finding for finding in findings if finding.tier == "hard")


def make_pin(choice: Choice, subject: Subject, *, by: str, at: int, together: Iterable[str]) -> Pin:
    """The decision as it goes into the book. What is approved is what was read and hashed here, not what was sent."""
    server, listed, pin = subject.server, subject.listed, subject.pin
    approving = choice.action == "approve"
    overruled = hard(subject.findings) if approving else ()
    return Pin(
        action=choice.action,
        server_id=choice.server_id,
        lineage=server.lineage if server is not None else pin.lineage if pin is not None else "",
        server=server.name if server is not None else pin.server if pin is not None else "",
        tool=choice.tool,
        approval_hash=listed.approval_hash if listed is not None else pin.approval_hash if pin is not None else "",
        approved_at=at,
        approved_by=by,
        beside=listed.beside if listed is not None else {},
        raw=listed.raw if listed is not None else b"",
        note=choice.note.strip(),
        overrides=tuple(sorted({finding.rule for finding in overruled})),
        overruled=tuple(sorted({spot for finding in overruled if (spot := finding.spot)})),
        together=_together(choice.server_id, together) if approving else (),
        label=(choice.label or subject.label) if approving else "",
    )


def _together(server_id: str, together: Iterable[str]) -> tuple[str, ...]:
    """Which servers were in view with this one: none, where this one was not in view itself, all of it."""
    seen = set(together)
    return tuple(sorted(seen)) if server_id in seen else (server_id,)


def detail(pin: Pin, before: Pin | None, retires: Sequence[str]) -> dict[str, Any]:
    """What the audit log says of a decision; `previous` is the hash that was approved before, if it is another."""
    made: dict[str, Any] = {
        "server": pin.server,
        "server_id": pin.server_id,
        "tool": pin.tool,
        "approval_hash": pin.approval_hash,
        "approved_at": pin.approved_at,
        "approved_by": pin.approved_by,
    }
    if before is not None and (before.approval_hash, before.server_id) != (pin.approval_hash, pin.server_id):
        made["previous"] = before.approval_hash
        if before.server_id != pin.server_id:
            made["previous_server_id"] = before.server_id
    optional: Mapping[str, Any] = {
        "overrides": list(pin.overrides),
        "note": pin.note,
        "together": list(pin.together),
        "retires": list(retires),
        "label": pin.label,
    }
    return made | {name: value for name, value in optional.items() if value}


def _refused(reason: Reason, choice: Choice, why: str, data: Mapping[str, Any] | None = None) -> Refused:
    named = {"server_id": choice.server_id, "tool": choice.tool}
    return Refused(reason, f"{choice.tool!r}: {why}", data={**named, **(data or {})})


# Makes the audit row that says who did what; None where no log is kept.
Witness: TypeAlias = Callable[[str, str, dict[str, Any]], Any]
# The group of each server that a configuration names.
Configured: TypeAlias = Mapping[str, str]

_TOGETHER: Final = 1_000


def no_witness(_action: str, _by: str, _detail: dict[str, Any]) -> None:
    """For a store without a log."""


class Pins:
    """Decisions and what was met, over one store. `configured` is what reviews go by where they are not told."""

    def __init__(
        self,
        shelf: PinRepository,
        keys: Keys,
        *,
        settings: PinningSettings | None = None,
        witness: Witness = no_witness,
        clock: Callable[[], float] = time.time,
        configured: Configured | None = None,
        labelling: Labelling = NO_LABELS,
    ) -> None:
        self.shelf = shelf
        self.settings = settings or PinningSettings()
        self.configured = configured
        self.book = DecisionChain(keys)
        self._keys = keys
        self._witness = witness
        self._clock = clock
        self._reading = asyncio.Lock()
        self._reviewer = Reviewer(labelling)

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1000)

    async def refresh(self) -> None:
        """Take in what was decided since, here or in another process."""
        async with self._reading:
            head, rows = await self.shelf.since(self.book.version)
            self.book.read(head, rows)

    async def reread(self) -> None:
        """Believe nothing that was read before: the whole chain anew."""
        async with self._reading:
            book = DecisionChain(self._keys)
            book.read(*await self.shelf.since(0))
            self.book = book

    # ---- deciding ----

    async def decide(self, choices: Sequence[Choice], *, by: str, together: Iterable[str] = ()) -> list[Pin]:
        """Write decisions, all or none. `together`: the identities of all servers whose tools the reviewer had in view.

        Refused where a tool is not known, has changed, is unfit, or has findings that are not overruled. What is
        approved is one entry, whole: a change of any member until it is written refuses all.
        """
        check_request(choices, by)
        beside = sorted(set(together))[:_TOGETHER]
        sitting, present = await self._sit({choice.server_id for choice in choices})
        known = {one.seen.server_id: one for one in present}
        subjects = await asyncio.to_thread(self._subjects, choices, sitting, known)
        for choice, subject in zip(choices, subjects, strict=True):
            check_choice(choice, subject, strict_schemas=self.settings.strict_schemas)
        check_findings(choices, subjects)
        at = self.now()
        pins = [
            make_pin(choice, subject, by=by, at=at, together=beside)
            for choice, subject in zip(choices, subjects, strict=True)
        ]
        wanted = [
            _wanted(pin)
            for pin, subject in zip(pins, subjects, strict=True)
            if pin.action != "withdraw" and subject.seen is not None
        ]
        return await self._write(pins, wanted, [self._told(pin, sitting) for pin in pins])

    async def mark_argument(
        self, server_id: str, place: int, digest: str, *, by: str, action: ArgumentAction = "vary"
    ) -> Pin:
        """Record that an argument of a server's command is only data and may vary, or that it may not any more.

        `place` and `digest` are those of an `ArgumentView`. Approvals hold on. Refused where another value could make
        other code run.
        """
        check_reviewer(by)
        await self.refresh()
        if self.book.broken:
            raise Refused(Reason.PIN_TAMPERED, f"no decision can be made: {self.book.broken}")
        seen = next((one for one in await self.shelf.servers() if one.server_id == server_id), None)
        views = [] if seen is None else argument_views(seen, self.book)
        view = next((one for one in views if (one.place, one.digest) == (place, digest)), None)
        if seen is None or view is None:
            raise Refused(
                Reason.TOOL_CHANGED,
                "the server is not started with this argument any more",
                advice="Look at its arguments as they are now, and decide again.",
            )
        if action == "vary" and view.fixed:
            raise Refused(
                Reason.INVALID_PARAMS,
                f"`{view.shown}` cannot be marked as data: {view.fixed}",
                advice="It stays part of what was approved. Another value is one more review.",
            )
        if (action == "vary") is (view.pin is not None):
            raise Refused(
                Reason.INVALID_PARAMS,
                f"`{view.shown}` is marked as data already" if view.pin else f"`{view.shown}` is not marked as data",
                advice="There is nothing to do.",
            )
        parts = tuple(part.digest for part in seen.bound if not part.data)
        pin = Pin(
            action=action,
            server_id=server_id,
            lineage=seen.lineage,
            server=seen.name,
            tool="",
            approval_hash="",
            approved_at=self.now(),
            approved_by=by,
            argument=MarkedArgument(parts, place, view.varies, view.shown),
        )
        told = {
            "server": seen.name,
            "server_id": server_id,
            "argument": view.shown,
            "place": place,
            "varies": view.varies,
            "approved_at": pin.approved_at,
        }
        made = await self._write([pin], [], [self._witness(_ARGUMENT_ACTIONS[action], by, told)])
        return made[0]

    async def review_set(self, group: str, version: str, *, by: str, configured: Configured | None = None) -> Pin:
        """Record that somebody has looked at the servers of a group together, as they are in this version."""
        check_reviewer(by)
        sitting, _ = await self._sit((), configured)
        now = sitting.combined.version(group)
        if now != version:
            raise Refused(
                Reason.TOOLSET_OUTDATED,
                "servers came, went or changed since these were reviewed together",
                advice="Look at the servers as they are now, and confirm again.",
                data={"version": now},
            )
        members = sorted({member.server_id for member in sitting.combined.groups.get(group, [])})
        pin = Pin(
            action="approve",
            server_id=f"group:{group}",
            lineage="",
            server=group,
            tool="",
            approval_hash=version,
            approved_at=self.now(),
            approved_by=by,
            together=tuple(members),
        )
        told = {"group": group, "version": version, "servers": members, "approved_at": pin.approved_at}
        made = await self._write([pin], [], [self._witness("pinning.set_reviewed", by, told)])
        return made[0]

    def _subjects(
        self, choices: Sequence[Choice], sitting: ReviewSession, known: Mapping[str, PresentServer]
    ) -> list[Subject]:
        made = []
        for choice in choices:
            one = known.get(choice.server_id)
            pin = self.book.pin(choice.server_id, choice.tool)
            seen = next((tool for tool in one.tools if tool.tool == choice.tool), None) if one is not None else None
            if one is None or seen is None:
                made.append(Subject(one.seen if one is not None else None, None, None, pin))
                continue
            listed = self._reviewer.looking.listed(choice.server_id, seen, self.settings)
            approving = choice.action == "approve"
            made.append(
                Subject(
                    one.seen,
                    seen,
                    listed,
                    pin,
                    sitting.findings(one, seen) if approving else (),
                    self._reviewer.looking.catch_all(listed) if approving else "",
                    sitting.label(one, seen, listed)[0] if approving else "",
                )
            )
        return made

    def _told(self, pin: Pin, sitting: ReviewSession) -> Any:
        before = [one for one in self.book.history(pin.server_id, pin.tool) if one.action == "approve"][-1:]
        latest = before[0] if before else self.book.latest_of(pin.lineage, pin.tool)
        retiring = pin.action == "approve" and self.settings.rollback == "ask"
        retires = sitting.known.retired_by(pin) if retiring else []
        return self._witness(ACTIONS[pin.action], pin.approved_by, detail(pin, latest, retires))

    async def _write(self, pins: Sequence[Pin], wanted: Sequence[ExpectedTool], witnesses: Sequence[Any]) -> list[Pin]:
        if not self._keys():
            raise Refused(Reason.STORE_UNAVAILABLE, "there is no key to seal decisions with")
        made: list[Pin] = []
        link = self.book.link(pins)

        def numbered(head: ChainHead | None) -> tuple[Sequence[Sealed], ChainHead]:
            rows, last = link(head)
            made[:] = [msgspec.structs.replace(pin, seq=row.seq) for pin, row in zip(pins, rows, strict=True)]
            return rows, last

        linked: Link = numbered
        await self.shelf.decide(wanted, linked, [one for one in witnesses if one is not None])
        await self.refresh()
        return made

    # ---- looking ----

    async def review(self, configured: Configured | None = None) -> Review:
        """Everything that waits, of all servers together, and the tools that stand beside it."""
        sitting, _ = await self._sit((), configured, tampered=True)
        return await asyncio.to_thread(sitting.review)

    async def preview(self, seen: ServerSeen, tools: Sequence[ToolSeen]) -> ServerView:
        """How a server and its tools would stand beside those that are there. Nothing of it is kept."""
        _, present = await self._sit(())
        one = PresentServer(seen, seen.group, tuple(tools), connected=True, joined=True)
        others = [other for other in present if other.seen.server_id != seen.server_id]
        sitting = ReviewSession(self._reviewer, self.book, self.settings, [*others, one])
        return await asyncio.to_thread(sitting.server, one)

    async def held(self, configured: Configured | None = None) -> dict[str, dict[str, str]]:
        """The tools that wait until two servers are reviewed together: server_id, tool, a sentence."""
        sitting, _ = await self._sit((), configured, tampered=True)
        return await asyncio.to_thread(lambda: sitting.combined.held)

    async def find(self, server: str, tool: str) -> ToolView:
        """One tool; the server by its identity or by its configured name, then as it is connected or was met last."""
        live = {place.server_id for place in await self.shelf.connected(self.now())}
        chosen = _named(await self.shelf.servers(), server, live)
        if chosen is None:
            raise Refused(
                Reason.TOOL_UNKNOWN, f"no server {server!r} was met", advice="`callgate tools servers` lists them."
            )
        found = await self.tools(chosen.server_id, [tool])
        if not found:
            raise Refused(Reason.TOOL_UNKNOWN, f"{chosen.name!r} was never seen to list a tool {tool!r}")
        return found[0]

    async def tools(self, server_id: str, names: Collection[str]) -> list[ToolView]:
        """Those tools of a server that were met, by its identity."""
        sitting, present = await self._sit({server_id}, tampered=True)

        def look() -> list[ToolView]:
            return [
                sitting.tool(one, seen)
                for one in present
                if one.seen.server_id == server_id
                for seen in one.tools
                if seen.tool in names
            ]

        return await asyncio.to_thread(look)

    async def history(self, server_id: str, tool: str) -> list[Pin]:
        """Every decision on a tool, the oldest first."""
        await self.refresh()
        return self.book.history(server_id, tool)

    async def statuses(self, configured: Configured | None = None) -> list[ServerStatus]:
        """Every identity on record and what is odd about it: orphans, and the same server under several identities."""
        await self.refresh()
        now = self.now()
        return statuses(
            self.book,
            self.settings,
            servers=await self.shelf.servers(),
            tools=await self.shelf.tools(),
            connected=await self.shelf.connected(now),
            configured=self.configured if configured is None else configured,
            now=now,
            looking=self._reviewer.looking,
        )

    async def _sit(
        self, wanted: Iterable[str], configured: Configured | None = None, *, tampered: bool = False
    ) -> tuple[ReviewSession, list[PresentServer]]:
        """A review of all that is current, and of the identities wanted. `tampered`: even if none is believed."""
        await self.refresh()
        if self.book.broken and not tampered:
            raise Refused(Reason.PIN_TAMPERED, f"no decision can be made: {self.book.broken}")
        if configured is not None:
            self.configured = configured
        now = self.now()
        places = current(
            await self.shelf.servers(),
            await self.shelf.connected(now),
            self.configured,
            set(wanted),
            now - self.settings.orphan_days * 86_400_000,
        )
        present = [
            msgspec.structs.replace(one, tools=tuple(await self.shelf.tools(one.seen.server_id))) for one in places
        ]
        return ReviewSession(self._reviewer, self.book, self.settings, present), present


def _wanted(pin: Pin) -> ExpectedTool:
    if pin.action != "approve":
        return ExpectedTool(pin.server_id, pin.tool, "")
    entry = entry_digest(pin.approval_hash, pin.beside)
    return ExpectedTool(pin.server_id, pin.tool, pin.approval_hash, entry)


def _named(servers: Sequence[ServerSeen], given: str, live: Collection[str]) -> ServerSeen | None:
    exact = [one for one in servers if one.server_id == given]
    named = exact or [one for one in servers if given in one.called]
    return next((one for one in named if one.server_id in live), named[0] if named else None)
