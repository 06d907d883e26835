"""The attacker sends a header twice: the gate would go by one of them, the server by the other."""

from support.hostile import call_message, head, status_of
from support.table import rows

CALL = call_message("rm")


@rows(
    "extra",
    [
        "host: evil.example",
        "content-type: text/plain",
        "Content-Type: application/json; charset=utf-16",
        "content-length: 2",
        f"content-length: {len(CALL)}",
        "mcp-session-id: a\r\nmcp-session-id: b",
        "origin: http://localhost\r\norigin: https://evil.example",
        "content-encoding: identity\r\ncontent-encoding: gzip",
        "mcp-method: tools/call\r\nmcp-method: tools/list",
        "mcp-name: rm\r\nMcp-Name: ls",
        "mcp-protocol-version: 2025-11-25\r\nmcp-protocol-version: 2026-07-28",
    ],
)
@rows("place", ["before", "after"])
def test_such_a_request_reaches_nobody(target, extra, place):
    if place == "after":
        raw = head(len(CALL), "connection: close", extra)
    else:
        start, _, rest = head(len(CALL), "connection: close").partition(b"\r\n")
        raw = start + b"\r\n" + extra.encode() + b"\r\n" + rest
    got, bodies = target.raw(raw + CALL)
    assert status_of(got) == 400
    assert bodies == []


def test_others_arrive_as_often_as_they_were_sent(target):
    _, bodies = target.raw(head(len(CALL), "connection: close", "x-a: 1", "x-a: 2") + CALL)
    assert bodies == [CALL]
    sent = [request for request in target.upstream.requests if request.unlabelled == CALL][-1]
    assert [pair for pair in sent.fields if pair[0] == "x-a"] == [("x-a", "1"), ("x-a", "2")]
