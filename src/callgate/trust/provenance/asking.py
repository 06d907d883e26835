"""What the user's words ask for. A question asks for nothing but an answer: "what is in order 12?" cancels no order."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from callgate.trust.proposing import verbs_of
from callgate.trust.provenance import normalise
from callgate.trust.word_lists import word_lists

_SENTENCES: Final = re.compile(r"[^.!?;\n]+[.!?;\n]?")
# A full stop within a name, a number or a link ends no sentence.
_INNER_STOP: Final = re.compile(r"(?<=\w)[.!?;](?=\w)")
# Paths, links, addresses and ids: nothing in them is asked for.
_NO_WORDS: Final = re.compile(r"(?<!\S)(?=\S*[/\\@\d])[^\s?!]+")
_WORDS: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_MOST: Final = 4_000
# `mándalo`, `dímelo`: what is done, and to what.
_HUNG: Final = re.compile(r"(\w{3,}?)(?:me|te|se|nos)?(?:l[oae]s?|li|gli)")
_FIELD_WORDS: Final = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
# Stands for: the user agrees to what the agent said it would do, which nobody hears.
AGREED: Final = "*"
# Stands for: the user wants more than to know something, whatever it is.
WANTS: Final = "+"
_ACTS: Final = ("changes", "sends", "meets", "destroys", "runs")


@cache
def _list(name: str) -> frozenset[str]:
    return frozenset(map(_plain, word_lists("asking_words")[name]))


def _plain(text: str) -> str:
    """A text without accents, which people leave out and verbs get with what is hung on them: `bórrala`."""
    letters = unicodedata.normalize("NFD", normalise.fold(text))
    return "".join(char for char in letters if unicodedata.category(char) != "Mn").strip()


def asked(text: str) -> list[str]:
    """The words of a prompt in which something is asked for, each once: all but those of questions, of what is told to
    the user alone ("tell me"), and of what is not to be done."""
    found: dict[str, None] = {}
    for sentence in _SENTENCES.findall(_INNER_STOP.sub(" ", _NO_WORDS.sub(" ", text))):
        question = sentence.rstrip().endswith("?")
        told = [_WORDS.findall(part) for part in _plain(sentence).split(",")]
        # "…, but refund it" is another clause; "And the invoice?" is a question all the same.
        parts = [
            enumerate(_clauses(words), int(place > 0 and bool(words) and words[0] in _list("joins")))
            for place, words in enumerate(told)
        ]
        negated = known = False
        for number, clause in (one for part in parts for one in part):
            # "Don't cancel, accept or share it": what is not to be done goes on until something joins another clause.
            negated = (negated and number == 0) or _is_negated(clause)
            known = (known and number == 0) or _only_wants_to_know(clause, question=question, first=number == 0)
            if negated or known:
                continue
            found |= dict.fromkeys(_told_to_others(clause))
            if not _only_looks(clause):
                found[WANTS] = None
            if any(f" {phrase} " in f" {' '.join(clause)} " for phrase in _list("agrees")):
                found[AGREED] = None
        if len(found) > _MOST:
            break
    return list(found)[:_MOST]


def _clauses(words: list[str]) -> Iterator[list[str]]:
    clause: list[str] = []
    for word in words:
        if word in _list("joins"):
            if clause:
                yield clause
            clause = []
        else:
            clause.append(word)
    if clause:
        yield clause


def _only_wants_to_know(clause: list[str], *, question: bool, first: bool) -> bool:
    start = next((word for word in clause if word not in _list("fillers")), "")
    if start in _list("requests") or not _list("pleas").isdisjoint(clause):
        return False
    if start in _list("questions"):
        return True
    return question and first and not any(start in _list(act) for act in _ACTS)


def _only_looks(clause: list[str]) -> bool:
    """Whether a clause wants to be told something, and nothing else: "could you please read it"."""
    start = _start(clause)
    if start in _list("tells") and start in clause:
        # "Tell me", and not "tell her".
        after = clause[clause.index(start) + 1 : clause.index(start) + 2]
        return start in _list("looks") and _list("oneself").issuperset(after)
    return start in _list("looks")


def _is_negated(clause: list[str]) -> bool:
    """Whether a negation stands before whatever a clause tells to do."""
    told = frozenset().union(*map(_list, _ACTS), _list("looks")) - _list("negations")
    return next((word for word in clause if word in _list("negations") or word in told), "") in _list("negations")


def _start(clause: list[str]) -> str:
    """The first word of a clause that is not there to be polite."""
    polite = (_list("fillers") | _list("pleas") | _list("requests") | _list("subjects")) - _list("negations")
    return next((word for word in clause if word not in polite), "read")


def _told_to_others(clause: list[str]) -> Iterator[str]:
    for at, word in enumerate(clause):
        if word in _list("negations"):
            return
        after = clause[at + 1] if at + 1 < len(clause) else ""
        if after in _list("oneself") and word in _list("tells"):
            # What follows is what the user wants to hear.
            return
        yield word
        if (hung := _HUNG.fullmatch(word)) is not None:
            yield hung[1]


def is_wanted(tool: str, asks: Callable[[str], bool], *, exactly: bool = False) -> bool:
    """Whether the user's words ask for what a tool does: with the verb of its name, or another word for the same.
    `asks` knows each word in which something is asked for. `exactly`: other words count only for what is deleted."""
    verbs, kinds = verbs_of(tool)
    if any(asks(form) for verb in verbs for form in forms_of(verb)):
        return True
    if exactly and kinds != {"destroys"}:
        return False
    lists = {"destroys": ("destroys",), "sends": ("sends", "meets"), "changes": ("changes", "sends"), "runs": ("runs",)}
    names = {name for kind in kinds for name in lists.get(kind, ())}
    if not kinds - {"reads"} or not verbs.isdisjoint(_list("interface")):
        # What a button does is not in the call.
        names = {*_ACTS}
    return any(asks(word) for name in names for word in _list(name))


def names_a_field(path: str, asks: Callable[[str], bool]) -> bool:
    """Whether the user's words ask for something about what an argument is called after: "give labels to these"."""
    if not asks_for("changes", asks):
        return False
    words = _FIELD_WORDS.findall(path.rpartition(".")[2])
    telling = [word.lower() for word in words if word.lower() not in _list("vague")]
    return any(asks(form) for word in telling for form in (word, f"{word}s", word.removesuffix("s")))


def asks_for(effect: str, asks: Callable[[str], bool]) -> bool:
    """Whether the user's words ask for something to be changed (`changes`), to go (`destroys`), to be run (`runs`), or
    for anything to be done (`any`)."""
    if effect == "any" and asks(AGREED):
        return True
    return any(asks(word) for act in (_ACTS if effect == "any" else (effect,)) for word in _list(act))


def forms_of(verb: str) -> Iterator[str]:
    stem = verb.removesuffix("e")
    yield from (verb, f"{verb}s", f"{verb}es", f"{stem}ed", f"{stem}ing", f"{verb}{verb[-1]}ed", f"{verb}{verb[-1]}ing")
