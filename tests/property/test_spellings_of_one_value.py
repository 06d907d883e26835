"""However a value is spelt, it is the same value; and nothing that is only like it is."""

import datetime as dt
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from support.remembering import Talk

NAMES = st.text("abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=10)
ADDRESSES = st.builds("{}.{}@{}.com".format, NAMES, NAMES, NAMES)
INVISIBLE = ("\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u202e")


def upper(text: str) -> str:
    return text.upper()


def wide(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def hidden(text: str) -> str:
    return INVISIBLE[len(text) % len(INVISIBLE)].join(text)


SAME = st.sampled_from(
    [str, upper, wide, decomposed, hidden, "“{}”".format, "<{}>,".format, "({})".format, "mailto:{}".format]
)
# What only a stranger's text is taken apart for.
APART = st.sampled_from([" ".join, lambda text: text.replace("@", " (at) "), lambda text: text.replace(".", " . ")])


@given(ADDRESSES, SAME, SAME)
def test_the_users_address_is_known_in_every_spelling(address, said, sent):
    assert Talk(f"Write to {said(address)} please").found(sent(address)) == "prompt"


@given(ADDRESSES, SAME | APART, SAME)
def test_a_strangers_address_is_known_in_every_spelling(address, said, sent):
    talk = Talk()
    talk.strangers(f"Write to {said(address)} please")
    assert talk.found(sent(address)) == "untrusted"


@given(ADDRESSES, NAMES)
def test_part_of_a_word_is_not_the_word(address, more):
    talk = Talk(f"Write to {more}.{address} or {address}.{more} or {more}{address}")
    assert talk.found(address) == "nowhere"
    assert talk.found(address.partition("@")[0]) == "nowhere"


@given(
    st.dates(dt.date(1990, 1, 1), dt.date(2099, 12, 31)),
    st.sampled_from(["%Y-%m-%d", "%B %d, %Y", "%d %B %Y", "%b %d %Y", "%d.%m.%Y", "%dth of %B, %Y", "%Y/%m/%d"]),
    st.sampled_from(["%Y-%m-%d", "%B %d, %Y", "%Y-%m-%dT00:00:00Z"]),
)
def test_a_day_is_the_same_day_however_it_is_written(day, said, sent):
    talk = Talk(f"It is on {day.strftime(said)} at 12:00 am")
    found = talk.value(day.strftime(sent), name="day")
    assert (found.kind, found.found) == ("time", "prompt")
    other = day + dt.timedelta(days=1)
    assert talk.found(other.isoformat(), name="day") == "nowhere"
    assert talk.found(day.day, name="file_id") == "nowhere"


@given(st.integers(0, 10**9), st.integers(0, 99), st.sampled_from(["{}", "${}", "€{}", "{}.", "({})"]))
def test_an_amount_is_the_same_amount_however_it_is_written(whole, cents, around):
    amount = whole + cents / 100
    talk = Talk("Pay " + around.format(f"{whole:,}.{cents:02}") + " now")
    assert talk.found(amount, name="amount") == "prompt"
    assert talk.found(f"{amount:.2f}", name="amount") == "prompt"
    assert talk.found(amount + 1, name="amount") == "nowhere"


@settings(max_examples=100)
@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_breaks_it_and_a_stranger_is_always_known_again(before, after):
    """Whatever a stranger writes around a value, the value is known again."""
    talk = Talk()
    talk.strangers(f"{before} gb29nwbk60161331926819 {after}")
    assert talk.found("GB29NWBK60161331926819") == "untrusted"
    talk.trace({"text": before, before: after}, "text")
