"""Texts that want secrets, carry away what the model knows, or want something kept from the person."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from callgate.inspection.data_files import pattern
from callgate.inspection.engine import Hit, phrase_rule, quoted_hit, rule
from callgate.inspection.tool_texts import Text, ToolTexts
from callgate.inspection.words import Match, WordIndex

# Texts that ask for keys, passwords and the files they are in.

_OFFER: Final = ("PASS", "SEND")
_SENTENCE: Final = 5


def _asked(text: Text, *steps: Match) -> Iterator[Match]:
    """Matches that are a request: not one to leave it be, nor the first word, which says what the tool does."""
    for match in steps:
        if match[0] > 0 and not text.words.near(match, "NOT", 3) and not text.words.near(match, "SECRET_SCAN", 8):
            yield match


@rule("secrets.key-file")
def key_file(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        words = text.words
        if not words.at("KEY_FILE"):
            continue
        matches = [
            *words.chain("READ", ("KEY_FILE", 9), (_OFFER, 16)),
            *words.chain(_OFFER, ("KEY_FILE", 9)),
            *words.chain("READ", ("KEY_FILE", 6)),
            *words.chain(("MUST", "NEEDS"), ("CONTENTS", 5), ("KEY_FILE", 4)),
            *words.chain("USE", ("KEY_PATH", 9)),
        ]
        if text.kind == "key":
            matches += [(0, len(words.words) - 1)] if words.at(("CONTENTS", "READ")) else []
            yield from (quoted_hit(text, match, "A parameter's name asks for a key file: {}.") for match in matches[:1])
            continue
        for match in _asked(text, *matches):
            yield quoted_hit(text, match, "It asks for a file that holds keys: {}.")


@rule("secrets.settings-file")
def settings_file(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        words = text.words
        if not words.at("SETTINGS_FILE") or text.kind == "name":
            continue
        matches = [
            *(
                match
                for match in words.chain("READ", ("SETTINGS_FILE", 8))
                if words.words[match[0] - 1] not in {"be", "is", "are"}
            ),
            *words.chain((*_OFFER, "NEEDS"), ("CONTENTS", 6), ("SETTINGS_FILE", 6)),
        ]
        parameter = words.chain("CONTENTS", ("SETTINGS_FILE", 4)) if ".properties." in text.where else []
        for match in [*_asked(text, *matches), *parameter]:
            yield quoted_hit(text, match, "It asks for a file that often holds passwords: {}.")


def _of_language(words: WordIndex, match: Match) -> bool:
    """Tokens that models count."""
    word, before = words.words[match[1]], words.words[match[1] - 1]
    after = words.words[match[1] + 1 : match[1] + 2]
    counted = before in {"save", "saves", "saving", "fewer", "many", "more", "max", "of", "input", "output", "reduce"}
    return word in {"token", "tokens"} and (counted or after in (["count"], ["limit"], ["budget"], ["usage"]))


@rule("secrets.asked")
def asked(tool: ToolTexts) -> Iterator[Hit]:
    business = any(text.words.at(("SECRET", "ENV")) for text in tool.texts if text.kind == "name") or any(
        text.words.at("SECRET") for text in tool.texts if text.kind == "description"
    )
    for text in tool.prose:
        words = text.words
        # A tool that is called after what it handles asks for nothing.
        if not words.at("SECRET") or (text.kind == "name" and len(words.words) < _SENTENCE):
            continue
        matches = [
            match
            for match in [*words.chain(("READ", *_OFFER), ("SECRET", 10)), *words.together(8, "SECRET", "SEND")]
            if words.near(match, ("LOOSE", "USER", "EVERY"), 2) and not _of_language(words, match)
        ]
        handed = [
            *words.chain("READ", ("SECRET", 10), (_OFFER, 10)),
            *words.chain("USE", ("SECRET", 4), ("TOOL", 2), (_OFFER, 4)),
        ]
        parameter = ".properties." in text.where
        # A parameter of a tool for secrets may well speak of them.
        if parameter and business:
            continue
        lying = words.together(9, "SECRET", "PLACES") if parameter else []
        for match in [*_asked(text, *matches, *handed), *lying]:
            yield quoted_hit(text, match, "It asks for passwords, keys or tokens: {}.")


# Texts that carry away what the model knows: the conversation, its instructions, its tools, results of other calls.

# A sample of a call, in JSON or a program.
_CODE: Final = re.compile(r"\":|=\s{0,2}[\"']")
_BEACON: Final = re.compile(r"!\[[^\]\n]{0,80}\]\(\s{0,3}[a-z]{2,10}://[^)\s]{1,300}")
_MODELS: Final = pattern("exfiltration", "models")
_BEGINNING: Final = 200


@rule("exfiltration.conversation")
def conversation(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        if text.kind == "key":
            continue
        words = text.words
        parameter = ".properties." in text.where
        matches = [
            *words.together(9, ("PASS", "SEND", "SENDS"), "ENTIRE", "TALK"),
            *(
                match
                for match in words.chain(("PASS", "SEND", "READ", "PRINT"), ("OWN", 9))
                if not _passed_on(words, match)
            ),
            *words.chain(("PASS", "SEND", "PRINT"), ("MINE", 5), ("TALK", 2)),
            *(words.together(7, "ENTIRE", ("TALK", "OWN")) if parameter else ()),
            *(words.chain("MINE", ("ENTIRE", 2), ("TALK", 3)) if parameter else ()),
        ]
        for match in matches:
            if (match[0] > 0 or parameter) and not words.near(match, "NOT", 2):
                yield quoted_hit(text, match, "It asks for what was said to the model: {}.")
        for match in words.together(7, ("PRINT", "PASS", "SEND"), "YOURS", "PROMPT"):
            if not words.before(match[0], "NOT", 3):
                yield quoted_hit(text, match, "It asks for the model's own instructions: {}.")


def _passed_on(words: WordIndex, match: Match) -> bool:
    """ "Pass the id to other tools" gives them something; what is wanted of them is another matter."""
    return words.words[match[1] - 1] in {"to", "by", "in", "with", "for"}


@rule("exfiltration.parameter")
def parameter(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.texts:
        if text.kind != "key" or not text.where.startswith("inputSchema") or _is_switch(tool, text):
            continue
        words = text.words
        whole = (0, len(words.words) - 1)
        if words.at("KEYS") and len(words.words) <= 5 and not words.at("FLAG") and not _for_its_model(tool, text):
            yield quoted_hit(text, whole, "The parameter {} asks for what only the model knows.")
        elif (len(words.words) > 5 and words.at(("PASS", "SEND")) and words.words[-1] == "here") or (
            len(words.words) > 4
            and words.chain(("READ", "PASS", "SEND", "TO_DO"), (("DATA", "SECRET", "TALK", "ENV_NAMED"), 8))
            and words.at(("EVERY", "HERE"))
        ):
            yield quoted_hit(text, whole, "The parameter {} is an instruction.")


def _is_switch(tool: ToolTexts, key: Text) -> bool:
    """A parameter that takes yes or no, or a number: nothing can be put there."""
    schema = tool.definition.input_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    one = properties.get(key.raw) if isinstance(properties, Mapping) else None
    return isinstance(one, Mapping) and one.get("type") in ("boolean", "integer", "number")


def _for_its_model(tool: ToolTexts, key: Text) -> bool:
    """A prompt for a model behind the tool: the tool is about models, or the parameter's own text is, and that does not
    speak to whoever reads it."""
    if not key.words.at("PROMPT"):
        return False
    for text in tool.texts:
        if text.kind in {"name", "description"} and _MODELS.search(text.folded.text[:_BEGINNING]):
            return True
        if text.where == f"{key.where}.description":
            return bool(_MODELS.search(text.folded.text)) and not text.words.at("MODEL")
    return False


@rule("exfiltration.address")
def address(tool: ToolTexts) -> Iterator[Hit]:
    for text in tool.prose:
        words = text.words
        matches = [
            *words.chain(("SEND", "SENDS"), (("DATA", "SECRET"), 6), (("URL", "MAIL"), 10)),
            *words.chain("A_COPY", ("TO_GO", 9), (("URL", "MAIL"), 5)),
            *words.chain(("SEND", "SENDS"), ("TO", 2), (("URL", "MAIL"), 3)),
            *words.together(8, "BLIND", "MAIL"),
            *words.chain(("PASS", "SEND"), ("MAIL", 3)),
        ]
        for match in matches:
            sample = _CODE.search(text.original(match))
            if (
                match[0] > 0
                and not sample
                and not words.before(match[1], "EXAMPLE", 4)
                and not words.before(match[0], "NOT", 3)
            ):
                yield quoted_hit(text, match, "It names an address that data is to be sent to: {}.")
        beacon = _BEACON.search(text.raw.lower())
        if beacon:
            what = f"It has an image that is loaded from elsewhere: {text.quote(beacon.span())}."
            yield Hit(text.where, what, beacon.span())
        for match in words.chain(("PASS", "SEND"), (("USER", "MODEL"), 4), ("QUERY", 10)):
            yield quoted_hit(text, match, "It puts the person's data in an address: {}.")


@phrase_rule("exfiltration.by-name", "It speaks of taking data away: {}.")
def by_name(text: Text) -> Iterator[Match]:
    return (match for match in text.words.chain("STEAL") if not text.words.near(match, ("AGAINST", "NOT"), 8))


@phrase_rule("exfiltration.secrets", "It sends secrets to an address: {}.")
def secrets_sent(text: Text) -> Iterator[Match]:
    words = text.words
    for match in words.together(16, "SEND", ("SECRET", "KEY_FILE", "TALK"), ("URL", "MAIL")):
        places = [place for place in words.at(("URL", "MAIL")) if match[0] <= place <= match[1]]
        examples = all(words.before(place, "EXAMPLE", 4) for place in places)
        if match[0] > 0 and not examples and not words.near(match, "NOT", 2):
            yield match


# Texts that want something kept from the person.


@phrase_rule("secrecy.from-user", "It wants something kept from the person: {}.")
def kept_from_the_user(text: Text) -> Iterator[Match]:
    words = text.words
    for match in words.chain("NOT", ("TELL", 3), ("USER", 7)):
        # "to nobody but the user", "until the user agrees" keep nothing from the user.
        if not words.after(match[1], "EXCEPT", 2) and not words.after(match[1], "UNLESS", 9):
            yield match
    yield from words.together(7, "NOT", "TELL", "FOREIGN_USER")
    yield from (
        match for match in words.chain("NOT", ("SPEAK_OF", 2), ("THIS", 2)) if not words.after(match[1], "EXCEPT", 4)
    )
    yield from (match for match in words.chain("HIDE", ("USER", 6)) if words.near(match, "FROM", 0))
    yield from words.chain("HIDE", ("YOURS_ONLY", 6), ("REPLY", 3))
    yield from words.chain("NOT", ("SPEAK_OF", 3), ("YOUR", 6), ("REPLY", 3))


def _of_itself(words: WordIndex, match: Match) -> bool:
    """ "Is silently put": what a program does, told of it. What is silently sent is another matter."""
    return match[0] > 0 and words.words[match[0] - 1] in {"is", "are", "be", "gets"} and not words.within(match, "SEND")


@phrase_rule("secrecy.unnoticed", "It wants something done without the person's knowledge: {}.")
def unnoticed(text: Text) -> Iterator[Match]:
    words = text.words
    for match in words.chain("USER", ("NEVER_DOES", 6), ("LEARN", 4)):
        if not words.before(match[0], "IF", 3):
            yield match
    yield from words.chain("NOT", ("MATTER", 2), ("USER", 3), ("LEARN", 3))
    yield from words.chain("WITHOUT", ("KNOWING", 5), ("USER", 5))
    yield from words.chain("WITHOUT", ("USER", 3), ("KNOWING", 3))
    for match in words.together(4, "QUIETLY", ("SEND", "READ", "PASS", "USE")):
        if not words.near(match, "FAILS", 2) and not _of_itself(words, match):
            yield match


@phrase_rule("secrecy.cover-story", "It tells the model what to keep or to pretend: {}.")
def cover_story(text: Text) -> Iterator[Match]:
    words = text.words
    for match in words.chain("KEEP", ("HUSHED", 7)):
        if words.near(match, "STEP", 0) and not words.near(match, "SECRET_NOUN", 1):
            yield match
    yield from words.chain("IF_ASKED", ("CLAIM", 7))
