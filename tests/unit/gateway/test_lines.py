"""Lines from pipes, cut anywhere."""

from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import Reason, Refused
from callgate.gateway.lines import LineCutter, one_line


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_the_same_lines_wherever_the_chunks_end(data, places):
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    cutter = LineCutter(1000)
    lines = [line for a, b in zip(edges, edges[1:], strict=False) for line in cutter.feed(data[a:b])]
    assert [*lines, cutter.rest()] == data.split(b"\n")


def test_a_line_over_the_limit_is_refused_once_and_the_next_one_is_read():
    cutter = LineCutter(10)
    found = [line for piece in (b"x" * 8, b"x" * 8, b"x" * 8, b"x\nnext\n") for line in cutter.feed(piece)]
    assert isinstance(found[0], Refused)
    assert found[0].reason is Reason.MESSAGE_TOO_LARGE
    assert found[1:] == [b"next"]


def test_a_long_line_in_one_piece_is_refused():
    (found, after) = LineCutter(10).feed(b"x" * 50 + b"\nok\n")
    assert isinstance(found, Refused)
    assert after == b"ok"


def test_line_ends_between_tokens_become_blanks():
    assert one_line(b'{\r\n  "a": "b\\nc"\n}') == b'{    "a": "b\\nc" }\n'
