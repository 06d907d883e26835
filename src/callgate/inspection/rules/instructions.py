"""Texts that take over the model: they void what it was told, claim an authority, or want a guard taken away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from callgate.inspection.data_files import pattern
from callgate.inspection.engine import Hit, phrase_rule, rule
from callgate.inspection.tool_texts import Text, ToolTexts
from callgate.inspection.words import Match

# Texts that want to take the place of what the model was told before.

_QUOTES: Final = frozenset("\"'`“”‘’«»„「」『』")
# A quotation may begin a few words before the telling ones, and end a few after.
_NEAR: Final = 24
_FAR: Final = 80


def _overridden(text: Text) -> list[Match]:
    words = text.words
    if not words.at(("IGNORE", "VOID", "ASIDE")):
        return []
    return [
        *words.chain("IGNORE", ("EARLIER", 4), ("ORDERS", 5)),
        *words.together(7, "IGNORE", "EARLIER", "ORDERS"),
        *words.chain("PLAIN_IGNORE", ("EARLIER", 1), ("RULES", 1)),
        *(match for match in words.together(8, "IGNORE", "EARLIER", "RULES") if words.near(match, "MODEL", 4)),
        *words.together(6, "IGNORE", "EARLIER", "SAFETY"),
        *words.chain("IGNORE", ("ABOVE", 2)),
        *words.together(7, "ASIDE", "EARLIER", "ORDERS"),
        *words.chain("IGNORE", ("USER", 2), ("ORDERS", 1)),
        *words.together(9, "VOID", "MODEL", ("ORDERS", "RULES")),
        *words.together(9, "VOID", "EARLIER", "ORDERS"),
        # "Override only if the user asks for it" is what the user wants.
        *(
            match
            for match in words.chain("IGNORE", ("USER", 4))
            if not words.within(match, "IF") and words.near(match, "ASKED", 3)
        ),
    ]


@phrase_rule("instructions.override", "It tells the model to set aside what it was told: {}.")
def override(text: Text) -> Iterator[Match]:
    for match in _overridden(text):
        spared = text.words.before(match[0], "DONT", 2) or text.words.before(match[0], "SAMPLE", 3)
        if not spared and not _mentioned(text, match):
            yield match


def _mentioned(text: Text, match: Match) -> bool:
    """In quotation marks or as what somebody else does, in a text about detecting such words."""
    start, end = text.span(match)
    such = _against_such(text)
    before, after = text.raw[max(0, start - _NEAR) : start + _NEAR], text.raw[end : end + (_FAR if such else _NEAR)]
    marked = not _QUOTES.isdisjoint(before) and not _QUOTES.isdisjoint(after)
    ignoring = next((place for place in text.words.at("IGNORE") if place >= match[0]), match[0])
    reported = text.words.before(ignoring, "THAT", 1)
    looked_for = text.words.near(match, "DETECTS", 10)
    return (reported and (such or looked_for)) or (
        marked and (such or (looked_for and text.words.near(match, "TEXTS", 10)))
    )


def _against_such(text: Text) -> bool:
    """Whether the opening says that the tool is for finding such words."""
    opening = next(iter(text.words.sentences), (0, -1))
    return (
        text.where == "description" and text.words.within(opening, "DETECTS") and text.words.within(opening, "ATTACKS")
    )


@phrase_rule("mention.instruction", "It quotes an instruction to set aside other instructions: {}.")
def mentioned(text: Text) -> Iterator[Match]:
    return (match for match in _overridden(text) if _mentioned(text, match))


@phrase_rule("instructions.new-orders", "It gives the model orders beyond the use of the tool: {}.")
def new_orders(text: Text) -> Iterator[Match]:
    words = text.words
    for match in (
        *words.chain("OBEY", (("MODEL", "ORDERS", "RULES", "WHO"), 6)),
        *words.chain("YOURS_NEW", ("NEW", 2), (("ORDERS", "RULES"), 3)),
        *words.chain("NEW", ("ORDERS", 1), (("MODEL", "ARE"), 2)),
        *words.chain("INSTEAD", ("AS_YOURS", 8), (("ORDERS", "RULES"), 3)),
        *words.chain("INSTEAD", ("ONLY", 1), ("WRITTEN", 4)),
        *words.chain("MODEL", ("OBEY", 3)),
    ):
        if not words.before(match[0], "NOT", 3) and not words.near(match, "REPLY", 0):
            yield match


# Texts that speak with an authority they do not have, threaten, or want to last.

_ACT: Final = ("SEND", "READ", "PASS", "USE")


@phrase_rule("authority.claimed", "It claims an authority over the model: {}.")
def claimed(text: Text) -> Iterator[Match]:
    words = text.words
    offices = words.chain("OFFICE", ("DEMANDS", 4), (("MODEL", "ASSISTANT"), 6))
    notices = [match for match in words.chain("NOTICE") if words.near(match, ("MODEL", "MUST", "TREAT", *_ACT), 14)]
    return (one for one in (*notices, *words.chain("ROLE"), *offices) if not words.before(one[0], "NOT", 2))


@phrase_rule("authority.model-addressed", "It orders the model to do something: {}.")
def model_addressed(text: Text) -> Iterator[Match]:
    for match in text.words.chain("ASSISTANT", ("OBLIGED", 2), ((*_ACT, "DISCLOSE"), 3)):
        if not text.words.near(match, "NOT", 0) and "," not in text.original(match):
            yield match


# Texts that want a guard taken away: a confirmation, a check, a log, a refusal.

SHELL: Final = pattern("disarming", "shell")


@phrase_rule("disarming.guard", "It wants a guard taken away: {}.")
def guard(text: Text) -> Iterator[Match]:
    words = text.words
    if text.kind == "key":
        return
    for match in words.chain("OFF", ("GUARD", 5)):
        if match[0] and not words.before(match[0], "OPTION", 3) and not words.before(match[0], "NOT", 3):
            yield match
    asks = words.chain("NOT", ("ASK", 2), ("LEAVE", 5))
    yield from (match for match in asks if words.near(match, ("USER", "MODEL"), 6))
    yield from (match for match in words.chain("TRUST") if not words.before(match[0], ("NOT",), 3))


@rule("disarming.shell")
def shell(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        found = SHELL.search(text.folded.text)
        if not found:
            continue
        words = text.words
        words.mark("COMMAND", found.start())
        for match in words.chain("RUN", ("COMMAND", 6)):
            if not words.before(match[1], "NOT", 6):
                span = text.folded.span(found.start(), found.end())
                yield Hit(text.where, f"It wants a dangerous command run: {text.quote(span)}.", span)
