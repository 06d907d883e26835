"""What is put before a reviewer: every tool of every server, how it stands, what was found, and what changed."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from typing import Final

from callgate.errors import Reason
from callgate.inspection import ToolFinding
from callgate.pinning.book import Book
from callgate.pinning.combined import Combined, Present
from callgate.pinning.diffing import difference
from callgate.pinning.document import approval_hash, entry_digest
from callgate.pinning.judging import Standing, judge
from callgate.pinning.known import Known
from callgate.pinning.looking import Looking
from callgate.pinning.model import BLOCKED_BEFORE, Listed, Pin, State, ToolSeen
from callgate.pinning.settings import Settings
from callgate.pinning.views import NO_LABELS, Difference, Labelling, Review, ServerView, ToolView
from callgate.pinning.words import Effort

# After so many changes of its text a tool is told to keep still.
RESTLESS: Final = 3
_LEISURE: Final = 1_000
_SUMMARY: Final = 200
_SENTENCE: Final = re.compile(r"(.+?(?:[.!?。](?=\s|\Z)|\n|\Z))", re.DOTALL)
_STEADY: Final = (
    "Its text changes again and again. State belongs in what a tool answers, not in its description: ask the server's "
    "author to move it into a tool such as list_resources or get_context, and to keep the description constant."
)


class Reviewer:
    """Makes views. What it has read, inspected or compared once it remembers by its hash."""

    def __init__(self, labelling: Labelling = NO_LABELS) -> None:
        self.looking = Looking()
        self.labelling = labelling
        self._proposals: dict[tuple[str, bytes], tuple[str, str]] = {}
        self._differences: dict[tuple[int, bytes, bool], Difference] = {}

    def compare(self, pin: Pin, listed: Listed, effort: Effort, *, other: bool) -> Difference:
        key = (pin.seq, hashlib.sha256(listed.raw).digest(), other)
        made = self._differences.get(key)
        if made is None:
            made = difference(pin, listed, other_identity=other, effort=effort)
            if effort.left >= 0:
                if len(self._differences) > 20_000:
                    self._differences.clear()
                self._differences[key] = made
        return made

    def propose(self, server_id: str, listed: Listed) -> tuple[str, str]:
        """The label that is proposed for a tool, and its line."""
        key = (server_id, hashlib.sha256(listed.raw).digest())
        made = self._proposals.get(key)
        if made is None:
            if len(self._proposals) > 20_000:
                self._proposals.clear()
            made = self._proposals[key] = self.labelling.propose(server_id, listed.entry)
        return made


class Sitting:
    """One review under the decisions of one moment. Make it where nobody else reads the book meanwhile."""

    def __init__(self, reviewer: Reviewer, book: Book, settings: Settings, present: Sequence[Present]) -> None:
        self._reviewer = reviewer
        self._looking = reviewer.looking
        self._book = book
        self._settings = settings
        self._effort = Effort()
        self.known = Known(book)
        self.combined = Combined(reviewer.looking, book, settings, present)
        # Of a great many approved tools only what touches others is looked at again; each alone shows all of it.
        self._at_leisure = sum(len(one.tools) for one in present) <= _LEISURE

    def review(self) -> Review:
        """All of it. Takes its time where much is new: call it on a thread."""
        servers = [self.server(one) for one in self.combined.present.values()]
        servers.sort(key=lambda view: (not view.pending, view.seen.name, view.seen.server_id))
        return Review(on_behalf_of=self._settings.on_behalf_of, servers=tuple(servers), sets=self.combined.sets())

    # ---- servers ----

    def server(self, one: Present) -> ServerView:
        wanted = [tool for tool in one.tools if not tool.gone or self._book.pin(one.seen.server_id, tool.tool)]
        views = [self.tool(one, tool, whole=self._at_leisure) for tool in wanted]
        views.sort(key=lambda view: (not view.needs_review, view.state == State.GONE, view.tool))
        return ServerView(
            seen=one.seen, connected=one.connected, tools=tuple(views), notices=tuple(self._notices(one, views))
        )

    def _notices(self, one: Present, views: Iterable[ToolView]) -> Iterable[str]:
        seen = one.seen
        yield from seen.warnings
        if seen.problem:
            yield f"None of its tools can be used: {seen.problem}."
        if not any(view.needs_review for view in views):
            return
        if former := self.known.former_identity(seen.lineage, seen.server_id, self._beside(one)):
            yield (
                f"A known server has a new identity. It was {former} and is {seen.server_id} now; "
                "no approval was carried over."
            )
        for other in self.known.namesakes(seen.name, seen.lineage):
            yield f"Another server had the name {seen.name} before: {other}. None of its approvals hold for this one."

    def _beside(self, one: Present) -> set[str]:
        """Identities that are there now and never shared a configured name with this server: one program may start
        several servers. What had one of its names before is what it was before."""
        return {
            other.seen.server_id
            for other in self.combined.present.values()
            if other.joined and not other.every_name & one.every_name
        }

    # ---- tools ----

    def tool(self, one: Present, tool: ToolSeen, *, whole: bool = True) -> ToolView:
        """One tool; `whole` with all findings even if it is one of many approved ones."""
        listed = self.combined.listed(one, tool)
        standing = self._standing(one, tool, listed)
        pin = self._book.pin(one.seen.server_id, tool.tool)
        compared = self._difference(one, listed, standing, pin)
        label, does = self.label(one, tool, listed)
        held_by = self.combined.held.get(one.seen.server_id, {}).get(tool.tool, "") if standing.open else ""
        return ToolView(
            server_id=one.seen.server_id,
            server=one.seen.name,
            also=one.seen.called[1:],
            tool=tool.tool,
            state=standing.state,
            approval_hash=listed.approval_hash,
            entry_digest=entry_digest(listed.approval_hash, listed.beside),
            summary=summary(listed.description),
            description=listed.description,
            input_schema=listed.input_schema,
            raw=listed.raw.decode("utf-8", "backslashreplace"),
            findings=self._findings(one, tool, standing, whole=whole),
            difference=compared,
            pin=pin,
            label=label,
            does=does,
            unchanged=self._is_unchanged(one, listed, standing),
            blocks=self.blocks(one, tool),
            hints=tuple(self._hints(one, tool, listed, pin)),
            problem=listed.problem,
            refusal=held_by or _refusal(standing),
            first_seen=tool.first_seen,
            last_seen=tool.last_seen,
            size=tool.size or len(tool.raw),
            tokens=self._looking.tokens(tool.raw),
        )

    def label(self, one: Present, tool: ToolSeen, listed: Listed) -> tuple[str, str]:
        """What a tool does, and the line that tells it: as it was approved, also for another version of its server as
        long as its text is the same; else as it is proposed."""
        if listed.problem:
            return "", ""
        pin = self._book.pin(one.seen.server_id, tool.tool)
        if pin is not None and pin.action == "approve" and pin.approval_hash == listed.approval_hash and pin.label:
            return pin.label, self._reviewer.labelling.line(pin.label)
        former = self._book.latest_of(one.seen.lineage, tool.tool)
        if former is not None and former.label and _same_text(former, listed):
            return former.label, self._reviewer.labelling.line(former.label)
        return self._reviewer.propose(one.seen.server_id, listed)

    def _is_unchanged(self, one: Present, listed: Listed, standing: Standing) -> bool:
        """Whether a tool that waits is, word for word, what is approved for another version of its server."""
        if standing.state not in (State.NEW, State.RETIRED) or listed.problem:
            return False
        former = self._book.latest_of(one.seen.lineage, listed.name)
        if former is None or former.server_id == one.seen.server_id or not self._holds(former):
            return False
        return _same_text(former, listed) and dict(former.beside) == dict(listed.beside)

    def _findings(self, one: Present, tool: ToolSeen, standing: Standing, *, whole: bool) -> tuple[ToolFinding, ...]:
        if whole or standing.state not in (State.APPROVED, State.GONE):
            return (*self.findings(one, tool), *self.combined.beyond(one, tool))
        crossing = self.combined.crossing(one.seen.server_id).get(tool.tool, ())
        return (*crossing, *self.combined.spoken_of(one, tool))

    def findings(self, one: Present, tool: ToolSeen) -> tuple[ToolFinding, ...]:
        """What a reviewer should know of a tool: from the inspection, and from blocks under other identities."""
        return (*map(_blocked, self.blocks(one, tool)), *self.combined.findings(one, tool))

    def blocks(self, one: Present, tool: ToolSeen) -> tuple[Pin, ...]:
        """The blocks of this tool under other identities of its server."""
        found = self.known.blocked(one.seen.lineage, tool.tool)
        return tuple(pin for pin in found if pin.server_id != one.seen.server_id)

    def _standing(self, one: Present, tool: ToolSeen, listed: Listed) -> Standing:
        if tool.gone and not self._book.broken:
            return Standing(State.GONE, Reason.TOOL_UNKNOWN, "the server does not list this tool any more")
        return judge(listed, one.identity, self._book, self._settings)

    def _difference(self, one: Present, listed: Listed, standing: Standing, pin: Pin | None) -> Difference | None:
        if listed.problem or standing.state in (State.GONE, State.UNFIT):
            return None
        if standing.state is State.APPROVED:
            if pin is None or dict(pin.beside) == dict(listed.beside):
                return None
            return self._reviewer.compare(pin, listed, self._effort, other=False)
        since = self._since(one, listed.name, standing)
        if since is None:
            return None
        other = since.server_id != one.seen.server_id
        return self._reviewer.compare(since, listed, self._effort, other=other)

    def _since(self, one: Present, tool: str, standing: Standing) -> Pin | None:
        """The approval that a text is compared with: the last under this identity, else the last of its lineage."""
        latest = self._book.latest_of(one.seen.lineage, tool)
        if standing.state is State.RETIRED:
            return latest
        own = [pin for pin in self._book.history(one.seen.server_id, tool) if pin.action == "approve"]
        return own[-1] if own else latest

    def _hints(self, one: Present, tool: ToolSeen, listed: Listed, pin: Pin | None) -> Iterable[str]:
        if tool.changes >= RESTLESS:
            yield _STEADY
        if pin is not None and pin.action == "block" and listed.approval_hash != pin.approval_hash:
            yield "Its text has changed since it was blocked; it stays blocked."
        if pin is None:
            former = self._book.latest_of(one.seen.lineage, tool.tool)
            if former is not None and former.server_id != one.seen.server_id and self._holds(former):
                yield f"It was approved for {former.server_id}, not yet for {one.seen.server_id}."
        if self._settings.strict_schemas and (why := self._looking.catch_all(listed)):
            yield f"It cannot be approved, because pinning.strict_schemas is on and its input schema is open: {why}."

    def _holds(self, former: Pin) -> bool:
        """Whether an approval is still the last word under its identity: nobody has blocked or withdrawn it since."""
        newest = self._book.pin(former.server_id, former.tool)
        return newest is not None and newest.action == "approve"


def _same_text(pin: Pin, listed: Listed) -> bool:
    """Whether a text is the one of an approval, under whatever identity."""
    named = (pin.server_id, listed.name, listed.entry.get("description"), listed.entry.get("inputSchema"))
    return hmac.compare_digest(approval_hash(*named), pin.approval_hash)


def _blocked(pin: Pin) -> ToolFinding:
    """A block that was made of another version of the same server; approving the tool now overrules it."""
    why = f": {pin.note}" if pin.note else ""
    return ToolFinding(
        BLOCKED_BEFORE,
        "hard",
        "name",
        f"{pin.approved_by} blocked it under another identity of this server, {pin.server_id}{why}.",
        "Who blocks a tool means the tool, not one version of its server.",
    )


def _refusal(standing: Standing) -> str:
    return "" if standing.reason is None else standing.detail or standing.reason.meaning


def summary(text: str) -> str:
    """The first sentence."""
    match = _SENTENCE.match(text.strip())
    first = " ".join(match[1].split()) if match else ""
    return first if len(first) <= _SUMMARY else first[: _SUMMARY - 1] + "…"
