"""What a tool does, in words for the person who reviews it: proposed from its name, text, schema and annotations.

All of these are the server's own word, so the gravest of them counts: an annotation, a harmless name or a soothing text
makes no proposal milder. What nothing tells stays unknown, which counts as the worst.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import dropwhile, islice, takewhile
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from callgate.trust.catalogue import checked
from callgate.trust.effects import EFFECTS, GRAVE, READS, Effects, decode, encode, ordered
from callgate.trust.model import ToolLabel
from callgate.trust.word_lists import word_lists

_LISTS: Final = word_lists("effect_words")
_NONE: Final = frozenset[str]()
_ORDER: Final = {name: place for place, name in enumerate(EFFECTS)}
# What a proposal rests on.
Basis: TypeAlias = Literal["catalogue", "definition", "server", "unknown"]


class Proposal(msgspec.Struct, frozen=True):
    """Effects, and what they rest on. `server`: nothing but an annotation says that the tool only reads."""

    label: Effects = Effects()
    basis: Basis = "unknown"

    @property
    def line(self) -> str:
        """One line beside the tool."""
        if self.basis == "unknown":
            return "unknown: nothing tells what it does"
        return f"{self.label.line} (only its server says so)" if self.basis == "server" else self.label.line


def propose(entry: object, server_id: str = "") -> Proposal:
    """For an entry of a list of tools, whatever it holds, of the server with this identity.

    What the catalogue has for it counts if the definition is the one that was checked; of another definition, the
    graver of the two counts.
    """
    tool = entry if isinstance(entry, Mapping) else {}
    guessed = _guess(tool)
    known = checked(server_id, tool) if server_id else None
    if known is None:
        return guessed
    label, same = known
    own, seen = frozenset(label.effects), frozenset(guessed.label.effects)
    if not own & READS and "reads_others" in seen:
        # The catalogue says what a tool does, and not always whose words it gives back.
        own |= {"reads_others"}
    if not same and _gravest(seen) > _gravest(own):
        return Proposal(Effects(ordered(own | seen)), "definition")
    return Proposal(Effects(ordered(own), label.critical), "catalogue")


def propose_label(server_id: str, entry: Mapping[str, Any]) -> tuple[str, str]:
    """The same as a pin keeps it, with the line for people."""
    made = propose(entry, server_id)
    return encode(made.label), made.line


def label_line(label: str) -> str:
    """What a label that a pin kept says; empty where it says nothing."""
    found = decode(label)
    return "" if found is None else found.line


def _gravest(effects: Iterable[str]) -> int:
    return max((_ORDER[one] for one in effects), default=-1)


def _guess(tool: Mapping[str, Any]) -> Proposal:
    words = _own_words(tool.get("name"))
    schema = tool.get("inputSchema")
    named = [_words(one) for one in _names(schema)]
    named_for = found = _of_name(words)
    # `log_work` may be about a log, or write one.
    unnamed = not found or all(map(_is_noun, (word for word in words if _verb(word) is not None)))
    found = found | _of_text(tool.get("description"), first=unnamed) | _of_text(tool.get("title"), first=unnamed)
    about = str(tool.get("description"))[:_CHARS]
    if named_for == {"reads"} and (_LOOKS_UP.search(about) or _only_asks(about)):
        # `read_query`: to run a query that only reads is to read.
        found.discard("runs")
    told = set(found)
    hints = tool.get("annotations")
    said = hints if isinstance(hints, Mapping) else {}
    found |= _of_nouns(words, named_for or found)
    gives_out = not _LISTS["gives_out"].isdisjoint(words)
    found |= _of_arguments(
        named, name=words, reads=found <= {"reads"} and bool(found), gives_out=gives_out, schema=schema
    )
    if "draft" in words and "sends" not in told:
        # It lies there until it is sent.
        found.discard("sends")
    reads = "reads" in found
    reaches = "reaches" in found
    found -= {"reads", "reaches"}
    strange = reaches or said.get("openWorldHint") is True or not _is_own(words, named, tool.get("description"))
    # The hint is true of whatever does more than add, so of a tool that is named for a change it says nothing new.
    destroys = said.get("destructiveHint") is True and said.get("readOnlyHint") is not True
    if destroys and "changes" not in named_for:
        found.add("destroys")
    if found:
        # What reaches out to do more than read has something to send, and so has what changes what others see.
        arranges = not _LISTS["arranging"].isdisjoint(words) and not _LISTS["letters"].isdisjoint(words)
        if reaches or ("changes" in found and not arranges and not _LISTS["public"].isdisjoint(words)):
            found.add("sends")
            found.discard("changes")
        elif "sends" in told:
            found.discard("changes")
        elif not found & GRAVE and not (
            (_is_kept(words, tool.get("description")) or _is_of_a_file(named))
            and not _is_shared(named)
            and _is_readable(tool)
        ):
            # It may be a change of who sees, gets or runs something.
            found.add("sends")
        return Proposal(Effects(ordered(found | ({"reads_others"} if strange else set()))), "definition")
    if not _is_readable(tool):
        return Proposal()
    if reads:
        return Proposal(Effects(("reads_others",) if strange else ("reads_own",)), "definition")
    if not told and words and (_is_plural(words[-1]) or (words[-1] in _LISTS["given"] and not _has_switch(schema))):
        # `product_reviews`: it is named for what it gives, and its text says of nothing that it is done.
        return Proposal(Effects(("reads_others",) if strange else ("reads_own",)), "definition")
    if said.get("readOnlyHint") is True:
        return Proposal(Effects(("reads_others",) if strange else ("reads_own",)), "server")
    return Proposal()


def _has_switch(schema: object) -> bool:
    """Whether an argument with which something is switched on or off is in a schema."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    names = [str(name) for name in properties] if isinstance(properties, Mapping) else []
    return any(not (_LISTS["switches"] | _LISTS["further"]).isdisjoint(_words(name)) for name in names)


def _own_words(name: object) -> list[str]:
    """The words of a tool's name. `API-post-search` says how it is asked for, and then what is done."""
    words = _words(name)
    return words[2:] if words[:2] == ["api", "post"] and words[-1] in ("search", "query", "find") else words


def _only_asks(text: str) -> bool:
    """Whether a text begins with a query that is run, in a language that is not known for doing more, and says of
    nothing else that it is run."""
    begins = _ASKS.match(text)
    if begins is None or not (_LISTS["consoles"] - {"query"} | _LISTS["commands"]).isdisjoint(_words(text)):
        return False
    return "runs" not in _of_text(text[begins.end() :], first=False)


@lru_cache(4096)
def verbs_of(tool: str) -> tuple[frozenset[str], frozenset[str]]:
    """The verbs in a tool's name, those that are nouns as well included, and what they say that it does: of those
    only where no other one is there."""
    words = _words(tool)
    verbs = {word: kind for word in words if (kind := _verb(word)) is not None}
    sure = {kind for word, kind in verbs.items() if not _is_noun(word)}
    return frozenset(verbs), frozenset(sure or verbs.values())


def is_named(tool: str, says: Callable[[str], bool]) -> bool:
    """Whether the user's words (`says` knows each of them) have what a tool is about: every word of its name but the
    verbs, or the verbs as well where it has nothing else."""
    words = _words(tool)
    about = [word for word in words if _verb(word) is None or _is_noun(word)] or words
    return bool(about) and all(any(map(says, _forms(word))) for word in about)


def _mode_of(label: ToolLabel, arguments: Mapping[str, Any]) -> str | None:
    """What a call of a tool for several acts does: where one argument says which, with a verb that the approved schema
    has for it. None where nothing, or more than one, says so, and for a change of what may not stay with the user."""
    named = [name for name in arguments if name in label.fixed and not _LISTS["modes"].isdisjoint(_words(name))]
    if len(named) != 1 or str(arguments[named[0]]) not in label.fixed[named[0]]:
        return None
    words = _words(str(arguments[named[0]]))
    kind = _verb(words[0]) if words else None
    if kind == "changes" and not _is_kept([words[0], *_words(label.tool)], None):
        return None
    return kind if kind != "runs" else None


class Spared(NamedTuple):
    """What a tool does where a call has no arguments but these `others`: none of them makes it graver."""

    others: frozenset[str]
    effects: tuple[str, ...]
    without: tuple[str, ...]


def spared(tool: Mapping[str, Any]) -> Spared | None:
    """The arguments that a tool can do without and that make it graver, as its schema has them."""
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(properties, Mapping) or len(properties) > _NAMES:
        return None
    required = schema.get("required")
    optional = [name for name in properties if not isinstance(required, list) or name not in required]
    words = {name: [_words(one) for one in _names({"properties": {name: properties[name]}})] for name in optional}
    own = _words(tool.get("name"))
    grave = frozenset(
        name
        for name in optional
        if _of_arguments(words[name], name=own, reads=False, gives_out=False, schema=schema) & GRAVE
    )
    if not grave:
        return None
    left = {name: one for name, one in properties.items() if name not in grave}
    effects = _guess(tool).label.effects
    without = _guess({**tool, "inputSchema": {**schema, "properties": left}}).label.effects
    return Spared(frozenset(left), effects, without) if without and without != effects else None


def effects_of_call(label: ToolLabel, reviewed: Effects, arguments: Mapping[str, Any]) -> Effects:
    """What this call of a tool does, where its arguments tell: it has one of several acts, leaves out what would make
    it graver, or says that more is done."""
    mode = _mode_of(label, arguments) if "runs" not in reviewed.effects else None
    if mode is not None:
        # One tool for several acts, of which the schema has the names: this call is one of them.
        kept = [one for one in reviewed.effects if one == "reads_others" or (one == "sends" and mode != "reads")]
        effects = {"reads": ["reads_own"] if not kept else []}.get(mode, [mode])
        return Effects(ordered((*kept, *effects)), reviewed.critical)
    spares = label.spared
    if spares is not None and spares[1] == reviewed.effects and spares[0].issuperset(arguments):
        reviewed = Effects(spares[2], reviewed.critical)
    if GRAVE.isdisjoint(set(reviewed.effects) - {"sends"}) and any(
        _goes_further(name, value) for name, value in arguments.items()
    ):
        return Effects(ordered((*reviewed.effects, "destroys")), reviewed.critical)
    return reviewed


def _goes_further(name: str, value: object, *, inner: bool = False) -> bool:
    """Whether an argument says that more is done than a change: something is dropped or switched off, or others may
    see it. One within another (`inner`) may be in no schema, so that no proposal knew of it."""
    words = _words(name)
    if inner and not _LISTS["access"].isdisjoint(words):
        return True
    if isinstance(value, Mapping):
        return any(_goes_further(str(key), one, inner=True) for key, one in islice(value.items(), _NAMES))
    if value is False:
        return not _LISTS["switches"].isdisjoint(words)
    if value is True:
        return not _LISTS["seen"].isdisjoint(words) or any(map(_says_further, words))
    return isinstance(value, str) and value.lower() != "private" and not _LISTS["seen"].isdisjoint(words)


def _says_further(word: str) -> bool:
    return word in _LISTS["further"] or (_verb(word) == "destroys" and not _is_noun(word))


def is_named_for_adding(tool: str) -> bool:
    """Whether the only verb in a tool's name says that it makes something new."""
    verbs = [word for word in _words(tool) if _verb(word) is not None and not _is_noun(word)]
    return len(verbs) == 1 and verbs[0] in _LISTS["adds"]


def is_named_for_replacing(tool: str) -> bool:
    """Whether a verb in a tool's name says that it puts something in the place of what is there."""
    return not _LISTS["replaces"].isdisjoint(_words(tool))


@cache
def common_words() -> frozenset[str]:
    """Words that tell nothing and nobody from another."""
    names = ("common_names", "common_things", "english", "prepositions", "articles", "were", "who", "joins")
    return frozenset().union(*(_LISTS[name] for name in names))


def grave_things() -> frozenset[str]:
    """The words for what cannot be taken back once it is changed: who may do what, prices, accounts."""
    return _LISTS["access"] | _LISTS["rights"]


# ---- words ----


@cache
def _verbs() -> Mapping[str, str]:
    return {word: kind for kind in ("reads", "changes", "sends", "destroys", "runs") for word in _LISTS[kind]}


_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_CHARS: Final = 20_000
# What a query that changes nothing is called.
_LOOKS_UP: Final = re.compile(
    r"(?i)\b(?:run|execute)s?\s+(?:an?\s+|the\s+)?(?:read-?only\s+)?(?:select|read|search|find)\b"
)
# A query in a language that cannot change anything.
_ASKS: Final = re.compile(
    r"(?i)\W*(?:run|execute|evaluate)s?\s+(?:an?\s+|the\s+)?"
    r"(?:(?:promql|logql|traceql|range|instant|metrics?|logs?|search|prometheus|loki)\s+){1,2}"
    r"(?:quer(?:y|ies)|expressions?)\b"
)
_CLAUSES: Final = 400
_CLAUSE_WORDS: Final = 24
_BREAKS: Final = re.compile(r"[.;:!?\n\r()•*]+|\s[-–—]\s|,")
_IRREGULAR: Final = {"sent": "send", "paid": "pay", "sold": "sell", "bought": "buy", "run": "run", "told": "tell"}
# A text that is shorter may do without the words that nearly every sentence has.
_SENTENCE_WORDS: Final = 5
# More than a name or an example.
_FOREIGN_LETTERS: Final = 6
_FIRST: Final = re.compile(r"\.\s|[\n\r]")
# Somebody comes to know of it.
_TOLD: Final = re.compile(
    r"\b(?:(?:gets?|receives?) (?:word|notice) of"
    r"|receives? (?:an? |the )(?:copy|e?mail|message|notification|invitation)"
    r"|(?:makes?|keeps?|creates?|puts?|leaves?|gets?) (?:an? )?public"
    r"|(?:hears?|learns?|know) (?:of|about) (?:it|this|that)|lets? \w+ know|made aware)\b"
)
_NAMES: Final = 200
_DEPTH: Final = 8
_RECIPIENT: Final = re.compile(r"recipient|e-?mail|address|phone|account|send|whom", re.IGNORECASE)


def _words(text: object) -> list[str]:
    if not isinstance(text, str):
        return []
    return [part.lower() for part in _PARTS.findall(text[:_CHARS].replace("'", "").replace("’", ""))]


def _verb(word: str) -> str | None:
    """What a verb says, in any of its forms."""
    verbs = _verbs()
    for form in _forms(word):
        if form in verbs:
            return verbs[form]
    return None


def _forms(word: str) -> Iterator[str]:
    yield word
    if word.endswith("es"):
        yield word[:-2]
        if word.endswith("ies"):
            yield word[:-3] + "y"
    if word.endswith("s"):
        yield word[:-1]


def _is_noun(word: str) -> bool:
    return any(form in _LISTS["nouns"] for form in _forms(word))


def _is_plural(word: str) -> bool:
    """Whether a word of a name is several things: `replies`, `orders`. The verb of a name has no ending."""
    return word not in _verbs() and _is_noun(word)


def _of_name(words: list[str]) -> set[str]:
    """What the verbs of a name say. One that may be a noun counts where no other verb is in it."""
    verbs = [
        (at, word, kind) for at, word in enumerate(words) if (kind := _verb(word)) is not None and not _is_plural(word)
    ]
    sure = {kind for at, word, kind in verbs if not _is_noun(word)}
    joined = {kind for at, word, kind in verbs if at and words[at - 1] in _LISTS["joins"]}
    if sure:
        return sure | joined
    # `branch_drop`: the verb may come last.
    last = {kind for at, word, kind in verbs if at == len(words) - 1} & {"destroys"}
    return {verbs[0][2]} | joined | last if verbs else set()


def _of_nouns(words: list[str], verbs: set[str]) -> set[str]:
    """What the things say that a tool is named for, where it does more than read."""
    found = set[str]()
    if "resolve" in words and not (_LISTS["watched"] | _LISTS["public"]).isdisjoint(words):
        found |= {"changes", "sends"}
    if verbs - {"reads"} and not (_LISTS["access"] | _LISTS["rights"]).isdisjoint(words):
        found.add("destroys")
    if "changes" in verbs and not (_LISTS["consoles"] | _LISTS["executed"]).isdisjoint(words):
        found.add("runs")
    return found


def _of_text(text: object, *, first: bool) -> set[str]:
    """What the clauses of a text say that the tool does: the verb that one begins with, and what is joined to it. Of
    what a name has told already, only the grave counts."""
    if not isinstance(text, str):
        return set()
    found: set[str] = set()
    placed = frozenset[str]()
    for number, part in enumerate(_BREAKS.split(text[:_CHARS])[:_CLAUSES]):
        words = _words(part)[:_CLAUSE_WORDS]
        opening = True
        for at, word in enumerate(words):
            kind = _verb(word)
            if kind is None:
                opening = opening and word in _LISTS["leads"]
                continue
            if not _LISTS["negations"].isdisjoint(words[max(0, at - 3) : at]):
                opening = False
                continue
            before = words[at - 1] if at else ""
            if before in ("which", "who") and not placed.isdisjoint(("in", "of", "from", "at", "on", "by")):
                # "… in the store, which sells food" speaks of the store.
                opening = False
                continue
            sure = not _is_noun(word)
            if before == "or" and {words[at - 2], word} in ({"add", "remove"}, {"adds", "removes"}):
                # What is added and removed in one go can be put back in the same way.
                kind = "changes"
            counts = at + 1 < len(words) and (
                (opening and (sure or number == 0))
                or (sure and (before in _LISTS["joins"] or before in ("will", "automatically")))
            )
            if counts and (kind in GRAVE or (first and number == 0)):
                found.add(kind)
            opening = False
        placed = frozenset(words[-4:])
        found |= _undergone(words) | _done_besides(words)
        if _TOLD.search(" ".join(words)):
            found.add("sends")
    return found


def _undergone(words: Sequence[str]) -> set[str]:
    """The grave things that a clause says are done to something: "older ones are deleted". Not what was done before,
    nor what only tells which things are meant: "files that are shared". Behind a comma, "which" tells more of them."""
    found: set[str] = set()
    words = words[1:] if words[:1] in (["which"], ["who"]) else words
    for at, word in enumerate(words[1:], 1):
        before = frozenset(words[max(0, at - 4) : at])
        if words[at - 1] in _LISTS["were"] and before.isdisjoint(_LISTS["negations"] | _LISTS["who"]):
            # "It is called" and "ordered by date" only describe something.
            forms = [form for form in _undone(word) if form not in _LISTS["describing"]]
            found |= {kind for form in forms if (kind := _verbs().get(form)) in GRAVE}
    return found


def _done_besides(words: Sequence[str]) -> set[str]:
    """The grave things that a clause says of somebody or something else: "the vendor bills your account". Not what only
    tells which are meant: "a form that sends a mail"."""
    found: set[str] = set()
    for at, word in enumerate(words[1:-1], 1):
        before = frozenset(words[max(0, at - 3) : at])
        if word.endswith("s") and words[at + 1] in _LISTS["articles"] | {"its", "their"}:
            kind = _verb(word)
            if kind in GRAVE and before.isdisjoint(_LISTS["negations"] | _LISTS["who"] | _LISTS["prepositions"]):
                found.add(kind)
    return found


def _undone(participle: str) -> Iterator[str]:
    """What a participle may be one of: `deleted`, `dropped`, `sent`, `paid`."""
    if participle.endswith("ed") and len(participle) > 4:
        yield participle[:-1]
        yield participle[:-2]
        if participle[-3] == participle[-4]:
            yield participle[:-3]
        if participle[-3] == "i":
            yield participle[:-3] + "y"
    if participle in _IRREGULAR:
        yield _IRREGULAR[participle]


def _is_kept(words: list[str], text: object) -> bool:
    """Whether a change is one of what stays with the user, by the verb, or by what it is done to: the last word of that
    in the tool's name, else in the first clause of its text."""
    clause = _words(_BREAKS.split(text[:_CHARS], maxsplit=1)[0])[:_CLAUSE_WORDS] if isinstance(text, str) else []
    for one in (words, clause):
        verbs = [(at, word) for at, word in enumerate(one) if _verb(word) == "changes"]
        # A verb that is a noun as well counts where no other one is there.
        verbs = [(at, word) for at, word in verbs if not _is_noun(word)] or verbs[:1]
        for at, word in verbs[:1]:
            if not _LISTS["gentle"].isdisjoint(_forms(word)):
                return True
            about = _object(one[at + 1 :]) or ([] if one is clause else _object(one[:at]))
            if about:
                kept = _LISTS["kept"]
                if not _LISTS["arranging"].isdisjoint(_forms(word)):
                    kept |= _LISTS["letters"]
                return not kept.isdisjoint(_forms(about[-1]))
    return False


def _is_of_a_file(named: Sequence[list[str]]) -> bool:
    """Whether a change is one of a file, or within a document: an argument says which."""
    ends = {one[-1] for one in named if one}
    within = {one[0] for one in named if len(one) == 2 and one[1] in ("id", "name", "index", "number")} | ends
    return not _LISTS["file_paths"].isdisjoint(ends) or not _LISTS["documents"].isdisjoint(within)


def _is_shared(named: Sequence[list[str]]) -> bool:
    """Whether a change is one of what others have as well: an argument says where that is, or who has to do with it.
    `repo_path` is a folder here."""
    return any(
        not (_LISTS["elsewhere"] | _LISTS["involved"]).isdisjoint(one) and one[-1] not in _LISTS["file_paths"]
        for one in named
        if one
    )


def _object(words: Sequence[str]) -> list[str]:
    """What a verb is done to: the words behind it up to the next preposition."""
    behind = dropwhile(lambda word: word in _LISTS["prepositions"], words)
    about = list(takewhile(lambda word: word not in _LISTS["prepositions"], behind))
    return [word for word in about if word not in _LISTS["articles"] and not word.isdigit()]


def _is_readable(tool: Mapping[str, Any]) -> bool:
    """Whether a tool's text is in English. What is not may say anything."""
    text = tool.get("description")
    if not isinstance(text, str):
        return True
    for part in _BREAKS.split(text[:_CHARS])[:_CLAUSES]:
        letters = [char for char in part if char.isalpha()]
        foreign = sum(not char.isascii() for char in letters)
        if foreign >= _FOREIGN_LETTERS and 2 * foreign > len(letters):
            return False
    words = _words(text)
    if len(words) < _SENTENCE_WORDS or not _LISTS["english"].isdisjoint(words):
        return True
    return any(_verb(word) is not None for word in words[:_SENTENCE_WORDS])


def _of_arguments(
    named: Iterable[list[str]], *, name: Sequence[str], reads: bool, gives_out: bool, schema: object
) -> set[str]:
    found: set[str] = set()
    counted = _counted(schema)
    made = {name[-1].removesuffix("s")} if len(name) > 2 and name[0] in ("create", "generate") else _NONE
    for words in named:
        if tuple(words) in counted:
            # `guests` of a table for two are no recipients.
            continue
        parts = frozenset(words) - ({"statement"} if words[-1:] != ["statement"] else _NONE)
        # The code of `create_discount_code` is what it makes.
        code = parts & _LISTS["code"] and parts <= _LISTS["code"] | _LISTS["languages"] and not parts & made
        # Who only looks at code has it under its plain name.
        if parts & _LISTS["commands"] or (code and (not reads or parts & _LISTS["languages"])):
            found.add("runs")
        if (
            parts & _LISTS["recipients"]
            or (words == ["to"] and _is_recipient(schema))
            # `deliverTo`, `send_report_to`
            or (words[-1:] == ["to"] and any(_verb(word) == "sends" or word in _LISTS["gives_out"] for word in words))
        ):
            found.add("sends")
        # `channel_id` and `bucketName` are a channel and a bucket.
        head = words[:-1] if words[1:] and words[-1] in ("id", "ids", "name") else words
        if head and head[-1] in _LISTS["addresses"]:
            found.add("reaches")
        if not reads and parts & _LISTS["access"]:
            found.add("destroys")
        if gives_out and parts & _LISTS["places"]:
            found.add("sends")
    return found


def _counted(schema: object) -> frozenset[tuple[str, ...]]:
    """The arguments that take a number or a switch, each as the words of its name."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    given = properties.items() if isinstance(properties, Mapping) else ()
    plain = [name for name, one in given if isinstance(one, Mapping) and one.get("type") in ("integer", "number")]
    return frozenset(tuple(_words(name)) for name in plain)


def _is_recipient(schema: object) -> bool:
    """Whether `to` is whom something goes to, and not where a stretch of time or numbers ends."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    to = properties.get("to") if isinstance(properties, Mapping) else None
    if not isinstance(to, Mapping) or not isinstance(properties, Mapping):
        return False
    said = f"{to.get('description', '')} {to.get('format', '')} {to.get('title', '')}"
    return to.get("type") == "array" or "from" not in properties or _RECIPIENT.search(said) is not None


def _is_own(words: Iterable[str], named: Iterable[list[str]], text: object) -> bool:
    """Whether what a tool gives back is the user's own: by its name, else by its arguments; not where its text begins
    with a place that others have as well."""
    if isinstance(text, str) and not _LISTS["platforms"].isdisjoint(_words(_FIRST.split(text[:_CHARS], maxsplit=1)[0])):
        return False
    own, others = _LISTS["own"], _LISTS["others"]
    about = frozenset(words)
    if own.isdisjoint(about) and others.isdisjoint(about):
        about = frozenset(word for one in named for word in one)
    return not own.isdisjoint(about) and others.isdisjoint(about)


def _names(schema: object) -> Iterator[str]:
    """The names of the arguments, also of those within others; bounded."""
    left = [(schema, 0)]
    given = 0
    while left and given < _NAMES:
        part, depth = left.pop(0)
        if not isinstance(part, Mapping) or depth > _DEPTH:
            continue
        properties: Any = part.get("properties")
        if isinstance(properties, Mapping):
            for name, inner in properties.items():
                given += 1
                if isinstance(name, str):
                    yield name
                left.append((inner, depth + 1))
        left += [(part.get(key), depth + 1) for key in ("items", "additionalProperties")]
        for key in ("anyOf", "oneOf", "allOf"):
            several = part.get(key)
            left += [(one, depth + 1) for one in several[:_NAMES]] if isinstance(several, list) else []
