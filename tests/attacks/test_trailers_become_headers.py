"""The attacker sends headers behind the body, where they were not yet there to be checked."""

from support.hostile import call_message, connect, head, read_all, status_of
from support.table import rows

CALL = call_message("ls")
LATE = (
    b"mcp-name: rm\r\nmcp-method: tools/list\r\ncontent-encoding: gzip\r\nauthorization: Bearer late\r\nx-late: 1\r\n"
)


@rows("apart", [True, False], ids=["in_two_pieces", "in_one_piece"])
def test_a_trailer_does_not_travel_on(target, apart):
    start = head(None, "connection: close", "transfer-encoding: chunked", "trailer: x-late, mcp-name")
    body = b"%x\r\n%b\r\n0\r\n" % (len(CALL), CALL)
    before = len(target.upstream.requests)
    with connect(target.port) as connection:
        if apart:
            # The gateway has answered `100 Continue`, so it has read and judged the head by now.
            connection.sendall(start.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n"))
            assert status_of(connection.recv(65536)) == 100
            connection.sendall(body + LATE + b"\r\n")
        else:
            connection.sendall(start + body + LATE + b"\r\n")
        assert status_of(read_all(connection)) == 200
    sent = target.upstream.requests[before]
    assert sent.unlabelled == CALL
    assert not {"mcp-name", "mcp-method", "content-encoding", "authorization", "x-late", "trailer"} & set(sent.headers)
