"""A list of tools between the lines: framed, encoded or labelled so that the gate sees none and some client sees one."""

import json
import re

import pytest

from support.gateway import serving
from support.hostile import answer, hostile_server, post
from support.pinning import PINNING
from support.raw_clients import Way, until
from support.shifting import tool
from support.table import rows

POISON = "exfiltrate_everything"
TOOL = {"name": "read", "description": POISON, "inputSchema": {"type": "object"}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
EVENTS = "text/event-stream"
NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'


def listing(rpc_id=1):
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "result": {"tools": [TOOL]}}).encode()


def good(rpc_id=1):
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": rpc_id, "result": {"tools": []}}).encode() + b"\n\n"


UTF_7 = b'data: {"jsonrpc":"2.0","id":1,"result":{"x":"+ACI-,+ACI-t+AG8-ols+ACI-:+AFsAew-+ACI-name+ACI-:+ACI-read+ACI-,'
UTF_7 += b'+ACI-description+ACI-:+ACI-exfiltrate+AF8-everything+ACI-,+ACI-inputSchema+ACI-:+AHsAfQB9AF0-,+ACI-y+ACI-:+ACI-"}}\n\n'

# What answers `tools/list`: the type, and the bytes.
ANSWERS = {
    "in utf-7": (f"{EVENTS}; charset=utf-7", UTF_7),
    "in utf-7, quoted": (f'{EVENTS};x=y; Charset="UTF-7"', UTF_7),
    "in utf-16": ("application/json; charset=utf-16", listing().decode().encode("utf-16")),
    "after a mark that some strip": (EVENTS, "\u00ef\u00bb\u00bf".encode() + b"data: " + listing() + b"\n\n" + good()),
    "after a second byte order mark": (EVENTS, b"\xef\xbb\xbf\xef\xbb\xbfdata: " + listing() + b"\n\n" + good()),
    "after a byte order mark later on": (EVENTS, b": hi\n\n\xef\xbb\xbfdata: " + listing() + b"\n\n" + good()),
    "after a byte order mark": (EVENTS, b"\xef\xbb\xbfdata: " + listing() + b"\n\n"),
    "in a field that nobody knows": (EVENTS, b"Data: " + listing() + b"\n\n" + good()),
    **{
        f"behind {mark!a} in {field.decode()!r}": (
            EVENTS,
            field
            + f"x{mark}data: ".encode()
            + listing()
            + f"{mark}{mark}".encode()
            + b"\ndata: "
            + NOTE
            + b"\n\n"
            + good(),
        )
        for mark in ("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e")
        for field in (b": ", b"id: ", b"event: ")
    },
    "in an array with bytes that are no text": (
        EVENTS,
        b"data: [" + listing().replace(b"exfil", b"\xff\\ud800 exfil") + b"]\n\n" + good(),
    ),
    "as data behind a line end of its own": (EVENTS, "data:\u2028data: ".encode() + listing() + b"\n\n" + good()),
    "behind a byte order mark of its own": (EVENTS, b"data: \xef\xbb\xbf" + listing() + b"\n\n" + good()),
}


def behave(kind, body, *, extra=(), on="tools/list"):
    def do(peer, request):
        if request.method == "GET":
            peer.send(answer(body if on == "GET" else b"", kind=kind, extra=extra))
            return
        method = (request.message or {}).get("method")
        if request.id is None:
            peer.send(answer(b"", status="202 Accepted"))
        elif method == "initialize":
            reply = json.dumps({"jsonrpc": "2.0", "id": request.id, "result": HELLO}).encode()
            peer.send(answer(reply, extra=["mcp-session-id: one"]))
        elif method == on:
            peer.send(answer(body, kind=kind, extra=extra))
        else:
            peer.send(answer(json.dumps({"jsonrpc": "2.0", "id": request.id, "result": {"tools": []}}).encode()))

    return do


@pytest.fixture(scope="module")
def server():
    with hostile_server() as made:
        yield made


@pytest.fixture(scope="module")
def port(server, tmp_path_factory):
    with serving(tmp_path_factory.mktemp("framing"), {"web": {"url": server.url}}, pinning=PINNING) as gateway:
        yield gateway.port


def asked(port, method="POST"):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
    return post(port, body if method == "POST" else b"", {"mcp-session-id": "one"}, method=method)


def readings(reply):
    """What readers of several kinds make of an answer."""
    charset = re.search(r'charset="?([\w-]+)', reply.fields.get("content-type", ""), re.IGNORECASE)
    return [reply.body.decode(name, "replace") for name in ("utf-8", charset[1] if charset else "utf-8")]


@rows("how", ANSWERS)
def test_no_reader_finds_a_list(server, port, how):
    server.behaviours[""] = behave(*ANSWERS[how])
    got = asked(port)
    assert not any(POISON in text for text in readings(got)), got


@rows("kinds", [("application/json", EVENTS), (EVENTS, "application/json"), (f"application/json, {EVENTS}",)])
def test_an_answer_of_two_types(server, port, kinds):
    """JSON to one reader, to the other a stream without an event."""
    server.behaviours[""] = behave(kinds[0], listing() + b"\n\n", extra=[f"content-type: {kind}" for kind in kinds[1:]])
    assert POISON.encode() not in asked(port).body


@rows("kind", ["application/json", "text/plain", "text/event-streams", f"x; {EVENTS}"])
def test_a_stream_that_is_not_called_one(server, port, kind):
    """Some clients read whatever answers their GET as events, and never look at its type."""
    server.behaviours[""] = behave(kind, b"data: " + listing() + b"\n\n", on="GET")
    got = asked(port, "GET")
    assert POISON.encode() not in got.body
    assert got.status == 502


def test_an_honest_stream_passes_as_it_came(server, port):
    body = b"\xef\xbb\xbf: hello\r\nretry: 5\r\n\r\nid: a\nevent: message\ndata: " + NOTE + b"\n\n" + good()
    server.behaviours[""] = behave(f"{EVENTS}; charset=UTF-8", body)
    assert asked(port).body.startswith(body[: body.index(b'"id"')])


def approved(pinned, way):
    pinned.server(way).fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    return visitor


@rows("upstream", ["web", "pipe"])
@rows("front", ["serve", "wrap"])
def test_a_list_in_what_is_a_request_to_us_and_a_reply_to_the_client(pinned, front, upstream):
    """Python's SDK takes the kind whose members fit: with such params it is no request, and so it is a response."""
    way = Way(front, "legacy", upstream)
    visitor = approved(pinned, way)
    both = {"jsonrpc": "2.0", "id": 1, "method": "x", "params": 5, "result": {"tools": [TOOL]}}
    with visitor.listening():
        mark = pinned.server(way).push(json.dumps(both), json.dumps({**both, "method": None}))
        until(lambda: mark in visitor.sent_here, "all of it came")
    assert POISON.encode() not in visitor.sent_here


@rows("upstream", ["web", "pipe"])
def test_a_list_between_two_carriage_returns(pinned, upstream):
    """A blank to JSON, the end of a line to some readers of pipes: between them stands a message of its own."""
    way = Way("wrap", "legacy", upstream)
    visitor = approved(pinned, way)
    inner = json.dumps({"jsonrpc": "2.0", "id": 99, "result": {"tools": [TOOL]}})
    pinned.server(way).be(answers={"ping": ['{"jsonrpc":"2.0","id":"$ID","result":{"x":\r' + inner + "\r}}"]})
    visitor.attempt("ping")
    assert all(str(read(line).get("id")) != "99" for line in re.split(rb"[\r\n]+", visitor.sent_here))


def read(line):
    try:
        return json.loads(line)
    except ValueError:
        return {}
