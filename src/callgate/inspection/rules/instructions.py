"""Texts that take over the model: they void what it was told, claim an authority, or want a guard taken away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from callgate.inspection.data_files import pattern
from callgate.inspection.engine import Hit, quoted_hit, rule
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
    ordered = words.chain("IGNORE", ("EARLIER", 4), ("ORDERS", 5))
    loose = words.together(7, "IGNORE", "EARLIER", "ORDERS")
    rules = [match for match in words.together(8, "IGNORE", "EARLIER", "RULES") if words.near(match, "MODEL", 4)]
    void = words.together(9, "VOID", "MODEL", ("ORDERS", "RULES"))
    safety = words.together(6, "IGNORE", "EARLIER", "SAFETY")
    above = [*words.chain("IGNORE", ("ABOVE", 2)), *words.together(7, "ASIDE", "EARLIER", "ORDERS")]
    plainly = words.chain("PLAIN_IGNORE", ("EARLIER", 1), ("RULES", 1))
    gone = words.together(9, "VOID", "EARLIER", "ORDERS")
    # "Override only if the user asks for it" is what the user wants.
    wishes = [match for match in words.chain("IGNORE", ("USER", 4)) if not words.within(match, "IF")]
    above = [*above, *words.chain("IGNORE", ("USER", 2), ("ORDERS", 1))]
    return [
        *ordered,
        *loose,
        *plainly,
        *rules,
        *safety,
        *above,
        *void,
        *gone,
        *(match for match in wishes if words.near(match, "ASKED", 3)),
    ]


@rule("instructions.override")
def override(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        for match in _overridden(text):
            if (
                not _mentioned(text, match)
                and not text.words.before(match[0], "DONT", 2)
                and not text.words.before(match[0], "SAMPLE", 3)
            ):
                yield quoted_hit(text, match, "It tells the model to set aside what it was told: {}.")


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
    opening = next(text.words.sentences(), (0, -1))
    return (
        text.where == "description" and text.words.within(opening, "DETECTS") and text.words.within(opening, "ATTACKS")
    )


@rule("mention.instruction")
def mentioned(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        for match in _overridden(text):
            if _mentioned(text, match):
                yield quoted_hit(text, match, "It quotes an instruction to set aside other instructions: {}.")


@rule("instructions.sample")
def sample(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        for match in _overridden(text):
            if text.words.before(match[0], "SAMPLE", 3) and not _mentioned(text, match):
                yield quoted_hit(text, match, "Its sample is an instruction to set aside other instructions: {}.")


@rule("instructions.new-orders")
def new_orders(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        words = text.words
        matches = [
            *words.chain("OBEY", (("MODEL", "ORDERS", "RULES", "WHO"), 6)),
            *words.chain("YOURS_NEW", ("NEW", 2), (("ORDERS", "RULES"), 3)),
            *words.chain("NEW", ("ORDERS", 1), (("MODEL", "ARE"), 2)),
            *words.chain("INSTEAD", ("AS_YOURS", 8), (("ORDERS", "RULES"), 3)),
            *words.chain("INSTEAD", ("ONLY", 1), ("WRITTEN", 4)),
            *words.chain("MODEL", ("OBEY", 3)),
        ]
        for match in matches:
            if not words.before(match[0], "NOT", 3) and not words.near(match, "REPLY", 0):
                yield quoted_hit(text, match, "It gives the model orders beyond the use of the tool: {}.")


# Texts that speak with an authority they do not have, threaten, or want to last.

_ACT: Final = ("SEND", "READ", "PASS", "USE")


@rule("authority.claimed")
def claimed(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        words = text.words
        offices = words.chain("OFFICE", ("DEMANDS", 4), (("MODEL", "ASSISTANT"), 6))
        notices = [match for match in words.chain("NOTICE") if words.near(match, ("MODEL", "MUST", "TREAT", *_ACT), 14)]
        for match in [*notices, *words.chain("ROLE"), *offices]:
            if not words.before(match[0], "NOT", 2):
                yield quoted_hit(text, match, "It claims an authority over the model: {}.")


@rule("authority.threat")
def threat(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        for match in text.words.together(12, "OR_ELSE", "HARM", "MODEL"):
            yield quoted_hit(text, match, "It threatens with consequences: {}.")


@rule("authority.lasting")
def lasting(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        words = text.words
        lasting_ = [
            match
            for match in words.chain("FROM_NOW")
            if words.near(match, ("MODEL", "MUST", "EVERY", *_ACT), 10) and not words.near(match, "OWN_CALLS", 5)
        ]
        sight = [match for match in words.chain("ON_SIGHT") if words.near(match, ("MUST", *_ACT, "MODEL"), 14)]
        for match in [*lasting_, *sight]:
            yield quoted_hit(text, match, "It wants to steer the model beyond the use of this tool: {}.")


@rule("authority.model-addressed")
def model_addressed(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        words = text.words
        for match in words.chain("ASSISTANT", ("OBLIGED", 2), ((*_ACT, "DISCLOSE"), 3)):
            if not words.near(match, "NOT", 0) and "," not in text.original(match):
                yield quoted_hit(text, match, "It orders the model to do something: {}.")


# Texts that want a guard taken away: a confirmation, a check, a log, a refusal.

_MEMORY_FILES: Final = pattern("disarming", "memory_files")
SHELL: Final = pattern("disarming", "shell")


@rule("disarming.guard")
def guard(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        words = text.words
        if text.kind == "key":
            continue
        off = [
            match
            for match in words.chain("OFF", ("GUARD", 5))
            if match[0] and not words.before(match[0], "OPTION", 3) and not words.before(match[0], "NOT", 3)
        ]
        asks = words.chain("NOT", ("ASK", 2), ("LEAVE", 5))
        trust = [match for match in words.chain("TRUST") if not words.before(match[0], ("NOT",), 3)]
        for match in [*off, *(one for one in asks if words.near(one, ("USER", "MODEL"), 6)), *trust]:
            yield quoted_hit(text, match, "It wants a guard taken away: {}.")


@rule("disarming.memory")
def memory(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        found = list(_MEMORY_FILES.finditer(text.words.folded.text))
        if not found:
            continue
        for each in found:
            text.words.mark("MEMORY", each.start())
        for match in text.words.chain("WRITE_TO", ("MEMORY", 12)):
            if match[0] > 0 and not text.words.before(match[0], "NOT", 3):
                yield quoted_hit(text, match, "It wants to be written into the assistant's own set-up: {}.")


@rule("disarming.relay")
def relay(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        words = text.words
        matches = [
            *words.together(10, "FOLLOW", "RESULT", ("ORDERS", "TELLS")),
            *words.chain("READ", ("URL", 14), ("FOLLOW", 5)),
            *words.chain("DECODE", ("FOLLOW", 5)),
            *words.chain(("FOLLOW", "RUN"), ("ENCODED", 3), ("TELLS", 3)),
        ]
        for match in matches:
            if match[0] > 0 and not words.before(match[0], "NOT", 3):
                yield quoted_hit(text, match, "It wants the model to follow what a result says: {}.")


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
