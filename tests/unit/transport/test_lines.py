"""Lines from pipes, cut anywhere."""

from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import Reason, Refused
from callgate.transport.lines import LineCutter, LineTooLarge, LostMessage, one_line
from support.table import rows


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


@rows(
    ("line", "named"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":"%b"}', LostMessage(True, 7)),
        (b' { "jsonrpc" : "2.0" , "id" : "a\\"b" , "error" : {"m":"%b"}}', LostMessage(True, 'a"b')),
        (b'{"result":{"id":1,"text":"%b"},"jsonrpc":"2.0","id":7}', LostMessage(True, 7)),
        (b'{"result":{"id":1,"text":"%b"},"id":"seven","jsonrpc":"2.0"} \r', LostMessage(True, "seven")),
        (b'{"result":{"text":"%b","id":1},"jsonrpc":"2.0"}', LostMessage(True)),
        (b'{"result":{"text":"%b\\"id\\":1}"}}', LostMessage(True)),
        (b'{"jsonrpc":"2.0","id":null,"error":{"message":"%b"}}', LostMessage(True)),
        (b'{"id":1e999,"error":{"message":"%b"}}', LostMessage(True)),
        (b'{"id":"\\ud800","error":{"message":"%b"}}', LostMessage(True)),
        (b'{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"t":"%b"}}', LostMessage(False)),
        (b'{"jsonrpc":"2.0","id":7,"params":{"t":"%b"},"method":"roots/list"}', LostMessage(False)),
        (b'{"method":"notifications/message","params":{"t":"%b"},"jsonrpc":"2.0"}', LostMessage(False)),
        (b'[{"jsonrpc":"2.0","id":7,"result":"%b"}]', LostMessage(True)),
        (b"%b", LostMessage(True)),
    ],
)
@rows("step", [1000, 100_000])
def test_a_line_over_the_limit_still_says_whom_it_answers(line, named, step):
    data = line % (b"x" * 30_000) + b"\n"
    cutter = LineCutter(20_000)
    (found,) = [one for at in range(0, len(data), step) for one in cutter.feed(data[at : at + step])]
    assert isinstance(found, LineTooLarge)
    assert found.names() == named


def test_a_line_without_an_end_is_refused_once():
    cutter = LineCutter(10)
    found = [one for _ in range(100) for one in cutter.feed(b"x" * 8)]
    assert [type(one) for one in found] == [LineTooLarge]
    assert cutter.feed(b"xx\nnext\n") == [b"next"]


def test_a_long_line_that_the_end_cuts_off_is_refused():
    cutter = LineCutter(10)
    assert cutter.feed(b"x" * 12) == []
    assert isinstance(cutter.rest(), LineTooLarge)
