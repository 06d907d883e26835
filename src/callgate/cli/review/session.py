"""One review at a terminal: screen after screen, decisions in between, and one step at the end that stores them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from callgate.cli.common import operator
from callgate.cli.printing import Line, blank, escaped, heading, text_line
from callgate.cli.review.screen import END, NEXT, Screen, held_back, overview, set_lines
from callgate.cli.services import OpenedStore
from callgate.cli.tools.decide import approval
from callgate.cli.tools.hints import blocked_words
from callgate.cli.tools.show import brief_lines, raw_lines, tool_lines
from callgate.errors import Reason, Refused
from callgate.pinning.judging import beside_of, changed_members, named_members
from callgate.pinning.model import BLOCKED_BEFORE, ArgumentAction
from callgate.pinning.review.views import ArgumentView, Review, ServerView, SetView, ToolView, count_items
from callgate.pinning.service import Choice
from callgate.trust.effects import EFFECTS

_KEYS: Final = {
    "a": "approve",
    "b": "block",
    "s": "skip",
    "l": "label",
    "r": "raw",
    "p": "previous",
    "?": "help",
    "q": "finish",
}
_EARLY: Final = ("b", "s", "p", "?", "q")
_LATE: Final = "Read it to its end first: space shows more."
_OVERRIDE: Final = "override"
_MARKED: Final = {"approve": "Marked to be approved.", "block": "Marked to be blocked."}
# Not the key that led here: whoever presses it twice would lose everything.
_STORE: Final = {"n": "leave without storing"}
_HELP: Final = (
    "a  approve exactly this description and this schema, from exactly this server; any change asks again",
    "b  block the tool, whatever its text becomes; you are asked for the reason",
    "s  skip it: it stays hidden and cannot be called until somebody decides",
    "o  approve it in spite of hard findings, which are recorded with the approval, or of a block of another version",
    "l  say what the tool does, where the line beside `does` is wrong: that decides when you are asked about a call",
    "r  the whole entry as it was received, byte for byte",
    "p  back to the tool before this one",
    "q  to the summary, where all decisions are stored in one step, or none",
)


class TerminalReview:
    """What was decided so far is only here until the end."""

    def __init__(self, opened: OpenedStore, screen: Screen, review: Review) -> None:
        self._opened = opened
        self._screen = screen
        self._review = review
        self._choices: dict[tuple[str, str], Choice] = {}
        self._sets: dict[str, SetView] = {}
        self._marks: dict[tuple[str, int], tuple[ServerView, ArgumentView]] = {}
        # The tools that are to be decided on, as they are counted.
        self._order: list[tuple[str, str]] = []
        # What tools do, where it was said to be something else than is proposed.
        self._labels: dict[tuple[str, str], str] = {}
        # By its whole entry: another one that comes meanwhile was not shown.
        self._shown: set[tuple[str, str, str]] = set()
        # Whether what is said at the end may still be that nothing was.
        self.stored = False

    def run(self) -> None:
        begin = {NEXT: "begin", **({"d": "an argument is data"} if self._arguments() else {}), "q": "quit"}
        page = self._screen.open(overview(self._review))
        while (pressed := page.read(begin, ("q",))) == "d":
            self._mark_argument()
        if pressed in ("q", END):
            self._screen.say("Nothing was stored.")
            return
        while True:
            if not self._walk() or not self._store():
                return

    # -- arguments ---------------------------------------------------------------------------------------------

    def _arguments(self) -> list[tuple[ServerView, ArgumentView]]:
        """What a person can mark as data, or bind again."""
        return [
            (server, view)
            for server in self._review.servers
            for view in server.arguments
            if view.pin is not None or not view.fixed
        ]

    def _mark_argument(self) -> None:
        """Ask which argument is only data; the one that there is needs no asking."""
        known = self._arguments()
        at = 0
        if len(known) > 1:
            self._screen.show(
                text_line(f"{number}  `{escaped(view.shown)}` of {escaped(server.seen.name)}", lead="  ")
                for number, (server, view) in enumerate(known, 1)
            )
            typed = self._screen.line(f"Which one is only data? 1 to {len(known)} (empty: none):")
            if not typed.isdecimal() or not 1 <= int(typed) <= len(known):
                return
            at = int(typed) - 1
        server, view = known[at]
        key = (server.seen.server_id, view.place)
        if self._marks.pop(key, None) is not None:
            self._screen.say(f"`{escaped(view.shown)}`: as it was.", "dim")
            return
        self._marks[key] = server, view
        after = "is bound again" if view.pin is not None else f"may be another {view.sort}"
        self._screen.say(f"`{escaped(view.shown)}` {after}. It is stored at the end.", "dim")

    # -- tools -------------------------------------------------------------------------------------------------

    def _walk(self) -> bool:
        """Each tool that is not decided yet; False at the end of input."""
        self._order = [_key(view) for view in self._review.pending if _key(view) not in self._choices]
        for server in self._review.servers:
            tools = [view for view in server.tools if view.needs_review and _key(view) not in self._choices]
            same = [view for view in tools if view.unchanged and not view.hard and not view.blocks]
            step = self._decide_unchanged(server, same) if same else ""
            tools = [view for view in tools if _key(view) not in self._choices]
            plain = [view for view in tools if view.plain and not view.blocks]
            step = (
                step
                if step in (END, "q")
                else self._walk_tools([view for view in tools if view not in plain] if len(plain) > 1 else tools)
            )
            if step not in (END, "q") and len(plain) > 1:
                step = self._decide_together(server.seen.name, plain)
            if step not in (END, "q"):
                step = self._relabel_approved(server)
            if step == END:
                self._screen.say("Nothing was stored.")
                return False
            if step == "q":
                return True
        return self._walk_sets()

    def _walk_tools(self, tools: list[ToolView]) -> str:
        """One after the other; the key that ended it, if one did."""
        at = 0
        while at < len(tools):
            step = self._decide(tools[at], self._order.index(_key(tools[at])) + 1, len(self._order))
            if step in (END, "q"):
                return step
            at = max(0, at - 1) if step == "p" else at + 1
        return ""

    def _decide_unchanged(self, server: ServerView, tools: list[ToolView]) -> str:
        """Another version of a known server whose tools are word for word what was approved: one question."""
        keys = {"a": _these(tools), "o": "look at each", "s": "skip them", "q": "finish"}
        pressed = self._screen.read(_unchanged_page(server, tools), keys, ("o", "s", "q"), _LATE)
        if pressed == "a":
            self._mark(tools)
        return pressed

    def _decide_together(self, server: str, tools: list[ToolView]) -> str:
        """All of a server in which nothing was found: each is shown whole, and one key approves them."""
        keys = {"a": _these(tools), "o": "one by one", "s": "skip them", "q": "finish"}
        pressed = self._screen.read(_pages(server, tools), keys, ("o", "s", "q"), _LATE)
        if pressed == "o":
            return self._walk_tools(tools)
        if pressed == "a":
            self._mark(tools)
        return pressed

    def _mark(self, tools: list[ToolView]) -> None:
        """All of them are to be approved, as they were shown."""
        for view in tools:
            self._shown.add(_entry(view))
            self._choices[_key(view)] = self._approval(view)
        self._screen.say("Marked to be approved. It is stored at the end.", "dim")

    def _relabel_approved(self, server: ServerView) -> str:
        """Tools that were approved before labels came with approvals: one question for all of them."""
        tools = [view for view in server.tools if view.unlabelled and _key(view) not in self._choices]
        if not tools:
            return ""
        keys = {"a": f"take these {len(tools)} labels", "s": "not now", "q": "finish"}
        pressed = self._screen.read(_unlabelled_page(server.seen.name, tools), keys, ("s", "q"), _LATE)
        if pressed == "a":
            for view in tools:
                self._choices[_key(view)] = self._approval(view)
        return pressed

    def _decide(self, view: ToolView, number: int, count: int) -> str:
        self._choices.pop(_key(view), None)
        keys = self._keys(view)
        page = self._screen.open(_page(view, number, count))
        while True:
            # Whatever came in between, the page goes on where it was: `keys` are asked for behind its end only.
            pressed = page.read(keys, _EARLY, _LATE)
            if page.ended:
                self._shown.add(_entry(view))
            if pressed == "?":
                self._screen.show(text_line(line, lead="  ", rest="     ") for line in _HELP)
            elif pressed == "r":
                page = self._screen.open(raw_lines(view))
            elif pressed == "l":
                self._label(view)
            elif pressed in ("a", "o", "b"):
                choice = self._chosen(view, pressed)
                if choice is not None:
                    self._choices[_key(view)] = choice
                    self._screen.say(f"{_MARKED[choice.action]} It is stored at the end.", "dim")
                    return pressed
            else:
                return pressed

    def _chosen(self, view: ToolView, pressed: str) -> Choice | None:
        chosen = (view.server_id, view.tool, view.approval_hash)
        if pressed == "b":
            why = self._screen.line("Why is it blocked? (empty: not blocked)")
            return Choice("block", *chosen, note=why) if why else None
        against = self._against(view)
        if pressed == "a" and against:
            for why in against:
                self._screen.say(why, "red")
            self._screen.say("To approve it all the same, press o.", "red")
            return None
        if pressed == "o":
            typed = self._screen.line(f"Approve in spite of {self._what_of(view)}? Type `{_OVERRIDE}`:")
            if typed != _OVERRIDE:
                self._screen.say("Not approved.")
                return None
            return self._approval(view, override=True)
        return self._approval(view)

    def _approval(self, view: ToolView, *, override: bool = False) -> Choice:
        label = self._labels.get(_key(view))
        return approval(view, note="", override=override, label=None if label is None else [label])

    def _label(self, view: ToolView) -> None:
        """Ask what a tool does."""
        words = list(EFFECTS)
        self._screen.show(text_line(f"{at}  {line}", lead="  ") for at, line in enumerate(EFFECTS.values(), 1))
        typed = self._screen.line(f"What does {escaped(view.tool)} do? 1 to {len(words)} (empty: as proposed):")
        self._labels.pop(_key(view), None)
        if typed.isdecimal() and 1 <= int(typed) <= len(words):
            self._labels[_key(view)] = words[int(typed) - 1]
            self._screen.say(f"{escaped(view.tool)}: {EFFECTS[words[int(typed) - 1]]}.", "dim")
        else:
            self._screen.say(f"{escaped(view.tool)}: {escaped(view.does)}, as proposed.", "dim")

    def _against(self, view: ToolView) -> list[str]:
        """What an approval of this tool would have to overrule, in sentences."""
        found = ["There are hard findings."] if _has_hard_findings(view) else []
        return [*found, *(f"{blocked_words(pin)}." for pin in view.blocks)]

    def _what_of(self, view: ToolView) -> str:
        blocked = "a block" if view.blocks else ""
        return " and ".join(what for what in (blocked, "hard findings" if _has_hard_findings(view) else "") if what)

    def _keys(self, view: ToolView) -> dict[str, str]:
        if not self._against(view):
            return _KEYS
        return {"o": "override", **{key: told for key, told in _KEYS.items() if key != "a"}, "a": ""}

    def _walk_sets(self) -> bool:
        """Servers that are to be seen together, where the decisions on tools do not say it already."""
        for one in self._review.sets:
            if one.reviewed or self._covers(one):
                continue
            keys = {"a": "reviewed together", "s": "skip", "q": "finish"}
            pressed = self._screen.read(self._set_page(one), keys, ("s", "q"), _LATE)
            if pressed == END:
                self._screen.say("Nothing was stored.")
                return False
            if pressed == "a":
                self._sets[one.group] = one
            if pressed == "q":
                break
        return True

    def _covers(self, one: SetView) -> bool:
        """Whether each pair has a tool that is approved now, by somebody who saw all of both servers."""
        names = {server.seen.server_id: server.seen.name for server in self._review.servers}
        # Two servers may have one name; then both have to have been seen.
        seen = set(names.values()) - {name for one, name in names.items() if one not in self._together}
        approved = {names[key[0]] for key, choice in self._choices.items() if choice.action == "approve"}
        return bool(one.open_pairs) and all(
            seen.issuperset(pair) and approved.intersection(pair) for pair in one.open_pairs
        )

    def _set_page(self, one: SetView) -> Iterator[Line]:
        yield from set_lines(one, self._review)
        for view in held_back(self._review, one):
            yield from heading(f"── held back: {escaped(view.tool)} on {escaped(view.server)} ──")
            yield from tool_lines(view, raw=False)

    # -- the end -----------------------------------------------------------------------------------------------

    def _store(self) -> bool:
        """Ask once, store all or nothing; True where tools that changed meanwhile are to be looked at again."""
        count = len(self._choices) + len(self._sets) + len(self._marks)
        if not count:
            self._screen.say("Nothing was decided, and nothing was stored.")
            return False
        what = "this decision" if count == 1 else f"these {count} decisions"
        pressed = self._screen.read(self._summary(), {"y": f"store {what}", **_STORE}, ("n",))
        if pressed != "y":
            self._screen.say("Nothing was stored.")
            return False
        return self._again()

    @property
    def _together(self) -> tuple[str, ...]:
        """The servers of which nothing was left out: whoever quits before the last tool has not seen all of them."""
        return tuple(
            server.seen.server_id
            for server in self._review.servers
            if all(_entry(view) in self._shown for view in server.tools if view.needs_review)
        )

    def _again(self) -> bool:
        fresh, moved = self._look_again()
        if not moved:
            try:
                self._write()
            except Refused as refused:
                if refused.reason != Reason.TOOL_CHANGED:
                    return self._refused(refused)
                fresh, moved = self._look_again()
            else:
                return False
        self._screen.say("Nothing was stored: this is not what you saw any more.", "bold red")
        for key, why in moved:
            self._screen.say(f"  {escaped(key[1])}: {why}")
            self._choices.pop(key, None)
        self._review = fresh
        if not any(_key(view) not in self._choices for view in fresh.pending):
            return self._store()
        return self._screen.ask({"y": "look at what changed", **_STORE}) == "y"

    def _look_again(self) -> tuple[Review, list[tuple[tuple[str, str], str]]]:
        """What is there now, and what of it is not what was decided on."""
        fresh = self._opened.wait(self._opened.pins.review())
        return fresh, list(self._moved(fresh))

    def _moved(self, fresh: Review) -> Iterator[tuple[tuple[str, str], str]]:
        """Tools that changed, or that somebody else decided on, since they were shown."""
        before = {_key(view): view for server in self._review.servers for view in server.tools}
        now = {_key(view): view for server in fresh.servers for view in server.tools}
        for key, choice in self._choices.items():
            old, new = before[key], now.get(key)
            if new is None or new.state == "gone":
                yield key, "the server lists it no more"
            elif new.approval_hash != old.approval_hash:
                yield key, "its description or schema changed"
            elif new.pin is not None and (old.pin is None or new.pin.seq != old.pin.seq):
                yield key, f"{escaped(new.pin.approved_by)} decided on it: {new.pin.action}"
            elif choice.action == "approve":
                yield from ((key, why) for why in _not_seen(old, new))

    def _write(self) -> None:
        pins = self._opened.pins
        if self._choices:
            self._opened.wait(pins.decide(list(self._choices.values()), by=operator(), together=self._together))
            self.stored = True
        done = len(self._choices) + self._write_sets() + self._write_marks()
        if done:
            force = "It is in force now." if done == 1 else "They are in force now."
            self._screen.say(f"Stored: {done} decision{'' if done == 1 else 's'}. {force}", "bold green")
        left = self._opened.wait(pins.review()).waits
        if left:
            self._screen.say(f"{left} still {'waits' if left == 1 else 'wait'}: `{self._opened.command('review')}`.")

    def _write_sets(self) -> int:
        """Sets come after the tools, each by itself: one that has changed takes nothing back that is stored."""
        done = 0
        for one in self._sets.values():
            try:
                self._opened.wait(self._opened.pins.review_set(one.group, one.version, by=operator()))
                done += 1
            except Refused as refused:
                names = ", ".join(map(escaped, one.servers))
                why = f"{escaped(refused.message)} ({refused.reason.value})"
                self._screen.say(f"Not recorded as reviewed together, {names}: {why}", "bold red")
        return done

    def _write_marks(self) -> int:
        """Each by itself, as sets are."""
        done = 0
        for (server_id, place), (_, view) in self._marks.items():
            action: ArgumentAction = "vary" if view.pin is None else "bind"
            marking = self._opened.pins.mark_argument(server_id, place, view.digest, by=operator(), action=action)
            try:
                self._opened.wait(marking)
                done += 1
            except Refused as refused:
                why = f"{escaped(refused.message)} ({refused.reason.value})"
                self._screen.say(f"`{escaped(view.shown)}` stays as it was: {why}", "bold red")
        return done

    def _refused(self, refused: Refused) -> bool:
        self._screen.say(f"Nothing was stored: {escaped(refused.message)} ({refused.reason.value})", "bold red")
        if refused.advice:
            self._screen.say(escaped(refused.advice))
        return False

    def _summary(self) -> Iterator[Line]:
        yield from heading("Your decisions")
        every = {_key(view): view for server in self._review.servers for view in server.tools}
        views = {_key(view): view for view in self._review.pending}
        for key, choice in self._choices.items():
            view = every[key]
            what = f"approve in spite of {self._what_of(view)}" if choice.override else choice.action
            what = "label" if view.unlabelled else what
            note = f": {escaped(choice.note)}" if choice.note else ""
            style = "red" if choice.action == "block" else "green"
            yield text_line(
                f"{what}  {escaped(view.tool)} on {escaped(view.server)}{note}", style, lead="  ", rest="    "
            )
        for one in self._sets.values():
            yield text_line(
                f"reviewed together  {', '.join(map(escaped, one.servers))}", "green", lead="  ", rest="    "
            )
        for server, argument in self._marks.values():
            what = "bound again" if argument.pin is not None else f"may be another {argument.sort}"
            told = f"{what}  `{escaped(argument.shown)}` of {escaped(server.seen.name)}"
            yield text_line(told, "green", lead="  ", rest="    ")
        skipped = [view for key, view in views.items() if key not in self._choices]
        for view in skipped:
            yield text_line(f"undecided  {escaped(view.tool)} on {escaped(view.server)}", "dim", lead="  ", rest="    ")


def _page(view: ToolView, number: int, count: int) -> Iterator[Line]:
    yield blank()
    yield text_line(f"── {number} of {count} ── {escaped(view.tool)} on {escaped(view.server)} ──", "bold reverse")
    yield from tool_lines(view, raw=False)


def _pages(server: str, tools: list[ToolView]) -> Iterator[Line]:
    """What waits of a server, one after the other, with all that a model reads of each."""
    yield blank()
    yield text_line(f"── {escaped(server)}: {count_items(tools)} without findings ──", "bold reverse")
    for view in tools:
        yield from brief_lines(view)


def _does(view: ToolView) -> str:
    """What a tool does; of what does nothing, how it begins."""
    return escaped(view.does if view.kind == "tool" else view.summary)


def _these(tools: list[ToolView]) -> str:
    return f"approve these {len(tools)}" if len(tools) > 1 else "approve this one"


def _unchanged_page(server: ServerView, tools: list[ToolView]) -> Iterator[Line]:
    others = server.pending - len(tools)
    rest = (
        "all unchanged" if not others else f"{len(tools)} unchanged, {others} other{'' if others == 1 else 's'} below"
    )
    many = count_items(view for view in server.tools if view.needs_review)
    yield blank()
    yield text_line(f"── {escaped(server.seen.name)}: another identity, {many}, {rest} ──", "bold reverse")
    yield text_line(escaped(server.seen.server_id), "dim")
    yield text_line("Texts, schemas and everything beside them are what you approved for the one before.")
    for notice in (*server.notices, *server.started):
        yield text_line(escaped(notice), "yellow")
    for view in tools:
        yield text_line(f"{escaped(view.tool)}: {_does(view)}", lead="  ", rest="    ")


def _unlabelled_page(server: str, tools: list[ToolView]) -> Iterator[Line]:
    yield blank()
    yield text_line(f"── {escaped(server)}: what {len(tools)} approved tools do ──", "bold reverse")
    yield text_line(
        "They were approved before Callgate asked what a tool does. Until you agree, each counts as unknown."
    )
    for view in tools:
        yield text_line(f"{escaped(view.tool)}: {escaped(view.does)}", lead="  ", rest="    ")


def _key(view: ToolView) -> tuple[str, str]:
    return view.server_id, view.tool


def _entry(view: ToolView) -> tuple[str, str, str]:
    return view.server_id, view.tool, view.entry_digest or view.approval_hash


def _not_seen(old: ToolView, new: ToolView) -> Iterator[str]:
    """What there is about a tool, with its text as it was, that whoever approves it did not have before them."""
    known = {pin.seq for pin in old.blocks}
    blocks = [blocked_words(pin) for pin in new.blocks if pin.seq not in known]
    if new.entry_digest != old.entry_digest:
        changed = changed_members(beside_of(old.raw), beside_of(new.raw))
        yield f"its {named_members(changed)} changed" if changed else "what it has beside its text changed"
    elif blocks:
        yield from blocks
    elif any(finding not in old.hard for finding in new.hard):
        yield "there are hard findings by now that were not shown"


def _has_hard_findings(view: ToolView) -> bool:
    """Whether the text itself has something that an approval overrules; a block is told by itself."""
    return any(finding.rule != BLOCKED_BEFORE for finding in view.hard)
