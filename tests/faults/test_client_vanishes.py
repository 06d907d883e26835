"""A client that leaves in the middle: its call is cancelled upstream, recorded as such, and nobody else notices."""

from threading import Event

from support.hostile import (
    assert_works,
    call,
    call_message,
    connect,
    head,
    honest,
    read_all,
    read_until,
    status_of,
    until,
)
from support.records import calls_of

TOOLS = ("held", "streamed", "behind", "first", "flood", "never")
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
NOTE = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'


class Holding:
    """Answers nothing, or begins a stream, and remembers on which connection."""

    def __init__(self, begin=b""):
        self.begin = begin
        self.peers = []

    def __call__(self, peer, request):
        self.peers.append(peer)
        if self.begin:
            peer.send(self.begin)
        peer.wait_gone()


def ask(port, tool, rpc_id=1):
    body = call_message(tool, rpc_id=rpc_id)
    connection = connect(port)
    connection.sendall(head(len(body)) + body)
    return connection


def outcome_of(gateway, tool):
    calls = until(lambda: [one for one in calls_of(gateway, tool) if one["outcome"]], f"the outcome of {tool}")
    return [one["outcome"]["outcome"] for one in calls]


def test_leaving_before_the_answer_closes_the_call_upstream(gateway, upstream):
    upstream.behaviours["held"] = holding = Holding()
    connection = ask(gateway.port, "held")
    until(lambda: holding.peers, "the call arrived")
    connection.close()
    until(holding.peers[0].gone.is_set, "the server sees that the client left")
    assert outcome_of(gateway, "held") == ["cancelled"]
    assert_works(gateway.port)


def test_leaving_in_the_middle_of_a_stream_closes_it_upstream(gateway, upstream):
    upstream.behaviours["streamed"] = holding = Holding(STREAM + b"%x\r\n%b\r\n" % (len(NOTE), NOTE))
    connection = ask(gateway.port, "streamed")
    assert b"notifications/message" in read_until(connection, NOTE.strip())
    connection.close()
    until(holding.peers[0].gone.is_set, "the server sees that the client left")
    assert outcome_of(gateway, "streamed") == ["cancelled"]
    assert_works(gateway.port)


def test_leaving_a_stream_that_was_followed_by_another_request(gateway, upstream):
    """Pipelined behind the stream, the second request must not hide from the first that the client left."""
    upstream.behaviours["GET"] = holding = Holding(STREAM)
    connection = connect(gateway.port)
    connection.sendall(head(None, "accept: text/event-stream", method="GET"))
    assert b"text/event-stream" in read_until(connection, b"\r\n\r\n")
    body = call_message("behind")
    connection.sendall(head(len(body)) + body)
    connection.close()
    until(holding.peers[0].gone.is_set, "the server sees that the client left")
    assert "behind" not in upstream.tools
    assert_works(gateway.port)


def test_requests_pipelined_behind_a_call_are_left_to_be_asked_again(gateway, upstream):
    """The first is answered and the connection closed; none of the others runs, however many there are."""
    go_on = Event()

    def answers_later(peer, request):
        go_on.wait(60)
        honest(peer, request)

    upstream.behaviours["first"] = answers_later
    connection = ask(gateway.port, "first")
    until(lambda: "first" in upstream.tools, "the call arrived")
    body = call_message("flood")
    connection.sendall((head(len(body)) + body) * 100 + head(50)[:-9])
    go_on.set()
    got = read_all(connection)
    connection.close()
    assert status_of(got) == 200
    assert got.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in got
    assert "flood" not in upstream.tools
    assert_works(gateway.port)


def test_leaving_in_the_middle_of_the_body_reaches_nobody(gateway, upstream):
    for _ in range(20):
        connection = connect(gateway.port)
        body = call_message("never")
        connection.sendall(head(len(body)) + body[:-5])
        connection.close()
    assert_works(gateway.port)
    assert "never" not in upstream.tools
    assert calls_of(gateway, "never") == []


def test_leaving_at_once_many_times_leaves_nothing_behind(gateway, upstream):
    """The slots of in-flight requests and the descriptors come back."""
    upstream.behaviours["held"] = holding = Holding()
    for number in range(60):
        ask(gateway.port, "held", number).close()
    until(lambda: all(peer.gone.is_set() for peer in holding.peers), "every call is closed upstream")
    assert_works(gateway.port)
    assert "never" not in upstream.tools
    assert call(gateway.port, "good").status == 200
