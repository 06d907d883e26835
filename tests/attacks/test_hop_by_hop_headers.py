"""The attacker names headers in Connection, which a relay has to drop, or sends ones meant for the relay itself."""

from support.gateway import serving
from support.hostile import answer, call, call_message, head, hostile_server, reply, status_of
from support.table import rows

CALL = call_message("ls")
HOP = [
    "te: trailers",
    "keep-alive: 5",
    "proxy-authorization: Basic eA==",
    "proxy-connection: x",
    "upgrade: x",
    "http2-settings: x",
]
ABOUT_US = ["forwarded: for=1.2.3.4", "x-forwarded-for: 1.2.3.4", "x-forwarded-host: evil", "x-real-ip: 1.2.3.4"]


def sent(target, *lines):
    before = len(target.upstream.requests)
    got, bodies = target.raw(head(len(CALL), *lines) + CALL)
    assert status_of(got) == 200, got
    assert bodies == [CALL]
    return target.upstream.requests[before]


@rows("line", HOP + ABOUT_US)
def test_what_is_for_the_relay_ends_there(target, line):
    assert line.partition(":")[0] not in sent(target, "connection: close", line).headers


@rows("connection", ["connection: close, x-a", "connection: X-A, close", "connection: x-a\r\nconnection: close"])
def test_what_connection_names_ends_there_too(target, connection):
    request = sent(target, connection, "x-a: 1", "x-b: 2")
    assert "x-a" not in request.headers
    assert request.headers["x-b"] == "2"
    assert "connection" not in request.headers


def test_connection_cannot_take_away_what_the_operator_configured(tmp_path):
    with hostile_server(tools=["ls"]) as upstream:
        table = {"url": upstream.url, "headers": {"Authorization": "Bearer configured"}}
        with serving(tmp_path, {"one": table}) as gateway:
            got = call(
                gateway.port, "ls", headers={"connection": "authorization, content-length, host, accept-encoding"}
            )
            assert "result" in got.json
        assert upstream.requests[-1].headers["authorization"] == "Bearer configured"
        assert upstream.requests[-1].headers["accept-encoding"] == "identity"
        assert upstream.requests[-1].tool == "ls"


def test_what_a_server_says_to_the_relay_ends_there(target):
    lines = [
        "connection: keep-alive, x-hop",
        "x-hop: 1",
        "keep-alive: timeout=5",
        "proxy-authenticate: Basic",
        "alt-svc: h3",
        "x-end: 1",
    ]
    target.upstream.behaviours["hops"] = lambda peer, request: peer.send(answer(reply(request.id), extra=lines))
    got = call(target.port, "hops")
    assert got.status == 200
    assert got.fields["x-end"] == "1"
    assert not {"x-hop", "keep-alive", "proxy-authenticate", "alt-svc"} & set(got.fields)


@rows("named", ["mcp-method", "MCP-Protocol-Version", "x, mcp-name", "content-type", "close, accept"])
def test_connection_cannot_take_away_what_the_request_was_judged_by(target, named):
    """Dropped on the way, the server would see a request of another era than the gate did."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert target.reasons(body, {"connection": named, "mcp-method": "ping"}) == (400, -32600, "invalid_request")
