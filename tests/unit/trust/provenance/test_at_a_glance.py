"""What a quick look rules out is what a slow one does not find."""

import re
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callgate.trust.provenance import Fingerprints, Memory, normalise, packing
from callgate.trust.provenance.harvest import echoes, leaves
from callgate.trust.provenance.joining import Budget, joined
from callgate.trust.provenance.names import _DOTTED, _hosts, is_account, names
from support.remembering import Talk
from support.table import rows

MARKS = re.compile(r"[@\d]|//|\.[A-Za-z]")
SIGNS = [*"ab0149@./:-_ \n\t(|;,%W'\x00\x1f\x1c", "www.", "wWw._x", "http://", "eve@evil.example", "evil.example/x"]
SIGNS += [
    "GB29",
    " NWBK",
    " 6016",
    " 1331",
    " 9268",
    "2026-11-16",
    "12345678",
    "5/1234567890",
    " may ",
    "5 pm",
    "1,200.00",
]
SIGNS += ["é", "İ", "٣٤٥٦", "ｅ", "²", "日"]
TEXTS = st.lists(st.sampled_from(SIGNS), max_size=40).map("".join)


def slowly(text):
    """The names in a text, by a look at each of its words."""
    if text.isascii() and MARKS.search(text) is None:
        return {}
    plain = text if text.isascii() else normalise.fold(text)
    found = dict.fromkeys(normalise.links(plain))
    if _DOTTED.search(plain) is not None:
        found |= dict.fromkeys(_hosts(plain))
    folded = normalise.fold(text)
    if grouped(folded):
        words = [word for word in normalise.sequence(text) if len(word) >= 8 and not word.isalpha()]
    else:
        words = [word for word in folded.split() if len(word) >= 8 and sum(map(str.isdigit, word)) >= 4]
    for word in words:
        for part in re.split(r"[,;\n|]", word):
            core = part.strip("'.,:;!?-_/~#@&+=\\$€£%")
            if is_account(core):
                found[core] = None
    return found


def grouped(folded):
    if not folded.isascii():
        return True
    return re.search(r"[a-z]{2}[0-9]{2}[^a-z0-9]", folded) is not None


@given(TEXTS)
def test_names(text):
    assert list(names(text)) == list(slowly(text))


@given(TEXTS)
def test_account_numbers_in_groups(text):
    folded = normalise.fold(text)
    assert normalise.may_be_grouped(folded) == grouped(folded)


@pytest.mark.verify
@rows(
    "text",
    ["a" * 60_000 + "1" * 3, "1" * 60_000, "1a" * 30_000, "0aa" * 3 + "b" * 60_000, "." * 60_000, "w" * 60_000 + ".x"],
)
def test_no_text_is_slow_to_look_at(text):
    for _ in range(20):
        names(text)


PIECES = st.text("ab1é", min_size=1, max_size=8)


@given(st.lists(PIECES, max_size=6), PIECES, st.sampled_from([0, 3, 5, 1000]))
def test_what_can_be_joined(strange, piece, steps):
    memory = Memory(Fingerprints(bytes(range(32))))
    for one in strange:
        memory.strange.add_packed(memory.fingerprints.pieces[one], 1)
    quick, slow = Budget(), Budget()
    quick.steps = slow.steps = steps
    assert joined(memory, piece, quick) == joined_slowly(memory, piece, slow)
    assert quick.steps == slow.steps


def joined_slowly(memory, piece, budget):
    def known(part):
        return int.from_bytes(memory.fingerprints.pieces[part], sys.byteorder) in memory.strange

    if known(piece):
        return True
    if not 2 <= len(piece) <= 64:
        return False
    reached = {0}
    for start in range(len(piece)):
        if start in reached:
            if not budget.spend(len(piece) - start):
                return True
            reached |= {end for end in range(start + 1, len(piece) + 1) if known(piece[start:end])}
            if len(reached) == 1:
                return False
    return len(piece) in reached


VALUES = st.one_of(st.text(max_size=20), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.text()))


@given(st.dictionaries(st.sampled_from(["to", "limit", "a b", "é", "1"]), VALUES))
@example({"to": "", "limit": [""] * 62, "a b": ["", "0000", "1111"]})
def test_values_that_a_result_may_give_back(arguments):
    slow = [value if isinstance(value, str) else repr(value) for _, _, value in leaves(arguments)]
    if all(type(value) is str for value in arguments.values()):
        # Names are not looked for beside values that are all texts.
        slow = list(arguments.values())
    assert echoes(arguments) == [text for text in slow[:64] if 4 <= len(text) <= 16_384]


@given(TEXTS)
@example("GB29 NWBK 6016 1331")
@example("a GB29 NWBK 6016 1331 9268 12 may 5 pm")
def test_a_short_value_is_made_of_what_a_long_one_is(text):
    memory = Memory(Fingerprints(bytes(32)))
    short = text[:64]
    _, words, pieces, apart = memory.fingerprints.spellings[short]
    assert set(apart) == set(memory.pieces(short))
    assert words == memory.words(short)
    if not grouped(normalise.fold(short)):
        assert pieces is apart


@given(st.one_of(st.text("ab 1.-%\\@é", max_size=80), st.integers(-(10**30), 10**30), st.floats(allow_nan=False)))
def test_a_value_that_came_before_is_what_it_was(value):
    def once():
        return talk.trace({"recipient": value}, "recipient")

    talk = Talk("ab 1.1")
    talk.strangers("a b 1 -1.1 %61 é@ab.ab")
    first = once()
    assert once() == first
    text = value if isinstance(value, str) else normalise.number(value)
    fingerprints = talk.memory.fingerprints
    if len(text) <= 64:
        spelt = normalise.sequence(text)
        fingerprints.spellings.clear()
        assert once() == first
        kept, words, pieces, _ = fingerprints.spellings[text]
        assert list(kept) == spelt
        assert words == talk.memory.words(text)
        plain = text.isascii() and "%" not in text and "\\" not in text
        each = b"".join([fingerprints.pieces[word] for word in spelt])
        assert pieces == (packing.numbers(each) if plain else talk.memory.pieces(text))
