"""A reply that a glance takes for one without a list has nothing in it that any reader could take for `tools`."""

from hypothesis import example, given
from hypothesis import strategies as st

from callgate.pinning.stage import _has_no_list

PIECES = (
    "tools",
    "TOOLS",
    "ToOlS",
    "tool",
    "s",
    "\\",
    "\\u",
    "\\u0074ools",
    "\\\\u",
    "\\n",
    '"',
    "{",
    "é",
    "ſ",
    "\0",
    "u",
)


@given(st.lists(st.one_of(st.sampled_from(PIECES).map(str.encode), st.binary(max_size=4)), max_size=8).map(b"".join))
@example(b'{"result":{"t\\u006fols":[]}}')
@example(b'{"result":{"text":"\\n","\\U0074ools":[],"Tools":[]}}')
@example(b'{"result":{"text":"C:\\\\users"}}')
def test_the_glance_sees_what_a_search_of_everything_sees(raw):
    assert _has_no_list(raw) == (b"\\u" not in raw and b"tools" not in raw.lower())
