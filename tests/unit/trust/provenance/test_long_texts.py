"""Long texts are decided by their beginning where that is enough, and never otherwise than as a whole."""

import re

from hypothesis import given
from hypothesis import strategies as st

from callgate.trust.model import DataLabel, ToolLabel
from callgate.trust.provenance import Fingerprints, Memory, normalise, trace
from support.table import rows

TOOL = ToolLabel(
    "mail",
    "send_mail",
    destinations=frozenset({"public"}),
    outcomes=frozenset({"irreversible"}),
    accepts=frozenset(),
    sources=frozenset({"untrustedPublic"}),
    returns=frozenset({"user"}),
    critical=("to",),
    critical_declared=True,
)
DATA = DataLabel(open_world=True, sources=TOOL.sources)
WORDS = [f"word{number:x}" for number in range(120)]
# As they were looked for before: everywhere.
EVERYWHERE = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{0,15}://|//(?=[\w-]+\.)|www\.)[^\s<>\"'`()\[\]{}|\\^]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    re.IGNORECASE,
)


def memory(*texts, prompt=""):
    made = Memory(Fingerprints(bytes(range(32))))
    if prompt:
        made.remember_prompt(prompt)
    for text in texts:
        made.remember_result(TOOL, DATA, None, (text,), {}, open_world=True)
    return made


def found(remembered, text):
    return trace(remembered, TOOL, {"body": text}).values[0].found


@rows("at", [0, 5, 30, 119])
def test_one_word_that_no_stranger_wrote_makes_it_new(at):
    words = [*WORDS[:at], "mine", *WORDS[at:]]
    assert found(memory(" ".join(WORDS)), " ".join(words)) == "nowhere"


def test_a_long_text_of_strangers_words_is_a_strangers():
    assert found(memory(" ".join(WORDS)), " ".join(reversed(WORDS))) == "untrusted"


def test_a_long_text_of_the_users_is_the_users():
    text = " ".join(WORDS)
    assert found(memory(text, prompt=f"Send this: {text}"), text) == "prompt"
    assert found(memory(text, prompt=f"Send this: {text}"), " ".join(reversed(WORDS))) == "untrusted"


@given(st.lists(st.sampled_from([*WORDS[:40], "May", "26th", "4", "pm", "GB29", "NWBK", "6016", "1331", "-", "x=1"])))
def test_a_beginning_is_how_the_whole_begins(words):
    text = " ".join(words)
    opening = normalise.opening(text)
    assert normalise.sequence(text)[: len(opening)] == opening


PARTS = st.sampled_from(
    [*"abW@.:/+-_ \n\t(<\"'İé", "www.", "WWW.", "https://", "HTTP://", "a@b.co", "a@b.c..d@e.fg", " x ", "\u2003"]
)


@given(st.lists(PARTS, max_size=40).map("".join))
def test_links_are_those_that_a_look_at_everything_finds(text):
    assert list(normalise.links(text)) == [match[0].rstrip(".,:;!?") for match in EVERYWHERE.finditer(text)]


def test_a_link_behind_a_long_run_of_letters_is_found():
    text = "a" * 60_000 + "@ " + "b" * 60_000 + " see ann@evil.example"
    assert list(normalise.links(text)) == ["ann@evil.example"]
