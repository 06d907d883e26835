"""A server puts line ends into a header, so that the client takes one answer for two, or for another's."""

from support.hostile import assert_works, call_message, reply, status_of, whole
from support.table import rows

CALL = call_message("split")
SECOND = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged"


@rows(
    "line",
    [
        b"x: a\r\r\n" + SECOND,
        b"x: a\n\n" + SECOND,
        b"x: a\rcontent-length: 0",
        b"x: a\ncontent-length: 0",
        b"x: a\x00b",
        b"x\x00y: 1",
        b"x y: 1",
        b": nameless",
        b" folded: 1",
        b"x: 1\r\n folded",
        b"nonsense",
    ],
)
def test_a_header_with_a_line_end_in_it(target, line):
    def splits(peer, request):
        body = reply(request.id)
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + line)
        peer.send(b"\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        peer.close()

    target.upstream.behaviours["split"] = splits
    got, _ = target.raw(whole(CALL))
    assert got.count(b"HTTP/1.1 ") == 1
    assert b"forged" not in got
    start, _, _ = got.partition(b"\r\n\r\n")
    assert b"\n" not in start.replace(b"\r\n", b"")
    assert start.lower().count(b"content-length") == 1
    assert_works(target.port)


def test_the_reason_phrase_of_the_server_is_not_repeated(target):
    def speaks(peer, request):
        body = reply(request.id)
        peer.send(
            b"HTTP/1.1 200 <script>\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (len(body), body)
        )

    target.upstream.behaviours["split"] = speaks
    got, _ = target.raw(whole(CALL))
    assert status_of(got) == 200
    assert b"<script>" not in got


def test_a_server_cannot_put_headers_behind_its_answer(target):
    """A trailer would come after the answer was judged by its head."""

    def trails(peer, request):
        body = reply(request.id)
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        peer.send(b"%x\r\n%b\r\n0\r\nmcp-session-id: forged\r\nset-cookie: a=b\r\n\r\n" % (len(body), body))

    target.upstream.behaviours["split"] = trails
    got, _ = target.raw(whole(CALL))
    assert status_of(got) == 200
    assert b"forged" not in got
    assert b"set-cookie" not in got.lower()
