"""An honest server that cuts a text in the middle of an emoji is still an honest server: its answer arrives as it is."""

import json

from support.gateway import serving, wrap_argv
from support.raw import ask, json_answer, piped, raw_server, raw_stdio_argv, stream_answer
from support.table import rows

CALL = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"cut","arguments":{}}}'
REPLY = rb'{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"half \\ud83d"}]}}'.replace(rb"\\", b"\\")
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}'
)
INITIALIZED = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}}'


def test_the_reply_is_what_it_says():
    assert json.loads(REPLY)["result"]["content"][0]["text"] == "half \ud83d"


TOOL = {"name": "cut", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
OFF = {
    "pinning": "the server says its lines one after the other, also to who asks for its tools",
    "trust": "it lets people be asked, and so asks the server for its tools before each first call",
}


def test_over_http_to_http(tmp_path):
    event = b"data: " + REPLY + b"\n\n"
    answers = {"json": json_answer(REPLY), "events": stream_answer(event)}
    forms = ["json", "events"]

    def script(request, connection):
        asked = json.loads(request.body)
        if asked["method"] == "tools/call":
            answers[forms[0]](request, connection)
            return
        result = {"tools": [TOOL]} if asked["method"] == "tools/list" else {}
        json_answer(json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result}).encode())(
            request, connection
        )

    with raw_server() as server:
        server.script = script
        with serving(tmp_path, {"web": {"url": server.url}}) as gateway:
            for body in (REPLY, event):
                reply = ask(gateway.url("web"), CALL)
                assert (reply.status, reply.body) == (200, body)
                forms.pop(0)


def test_over_http_to_a_command(tmp_path):
    servers = {"cmd": {"command": raw_stdio_argv(tmp_path, [INITIALIZED, REPLY])}}
    with serving(tmp_path, servers, off=OFF) as gateway:
        session = ask(gateway.url("cmd"), INITIALIZE).header("mcp-session-id")
        reply = ask(gateway.url("cmd"), CALL, {"Content-Type": "application/json", "Mcp-Session-Id": session})
        assert (reply.status, reply.body) == (200, REPLY)


@rows("behind", ["command", "url"])
def test_over_pipes(tmp_path, behind):
    with raw_server() as server:
        server.script = json_answer(REPLY)
        way = {"url": server.url} if behind == "url" else {"command": raw_stdio_argv(tmp_path, [REPLY])}
        with piped(wrap_argv(tmp_path, "x", off=OFF, **way)) as wrap:
            wrap.stdin.write(CALL + b"\n")
            wrap.stdin.flush()
            assert wrap.stdout.readline() == REPLY + b"\n"
