"""What the gate need not change arrives as it was sent, byte for byte, in all four combinations of transports.

Over pipes a message is a line, so there a raw line end between two tokens becomes a blank; nothing else ever changes.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from support.gateway import serving, wrap_argv
from support.raw import RawServer, ask, json_answer, piped, raw_server, raw_stdio_argv, stream_answer, streaming
from support.registry import requirement
from support.table import rows

MESSAGES = {
    "order and blanks": b'{ "method" : "dev.example/odd",\t"id":1 ,"params":{"z":[ ],"a":{ }} , "jsonrpc":"2.0" }',
    "numbers": b'{"jsonrpc":"2.0","id":2,"method":"dev.example/n","params":[1.0,1e2,1E+2,-0,-0.0,0.10,12345678901234567890]}',
    "escapes": rb'{"jsonrpc":"2.0","id":"\u0069\/d","method":"x","params":{"\u0061":"\ud83d\udc4b \/ \u00FC \u2028 \""}}',
    "unicode": '{"jsonrpc":"2.0","id":3,"method":"grüße/👋","params":{"ключ":"值\u2028\u2029\u0085"}}'.encode(),
    "unknown members": b'{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"cursor":null,"x":{}},"trailer":[null]}',
    "a call": b'{"id":5,"params":{"arguments":{"b":1.50,"a":[1e2,-0.0,"\\u00fc"]},"_meta":{"x":0.0},"name":"t","more":{}},'
    b'"method":"tools/call","jsonrpc":"2.0","extra":true}',
    "twice the same key where the gate need not look": b'{"jsonrpc":"2.0","id":6,"method":"x","params":{"a":1,"a":2}}',
    "a notification": b'{"params":{"requestId":1.0e1},"method":"notifications/odd","jsonrpc":"2.0"}',
    "a response": b'{"result":{"action":"accept","n":1.00},"id":"s-1","jsonrpc":"2.0"}',
    "an error": b'{"error":{"message":"no","code":-1,"data":1e0},"id":77,"jsonrpc":"2.0"}',
}
LINES = {
    "pretty": b'{\n  "jsonrpc": "2.0",\r\n  "id": 1,\n\n  "method": "dev.example/pretty",\r  "params": {\n}\n}\n',
}
IDS = {"order and blanks": b"1", "numbers": b"2", "escapes": b'"i/d"', "unicode": b"3", "unknown members": b"4"} | {
    "a call": b"5",
    "twice the same key where the gate need not look": b"6",
}
# An answer to the request of that name, as oddly spelt as the request.
REPLY = (
    rb'{ "result" : {"z":1.0,"a":1e2,"n":-0,"u":"\u00fc\/%b","deep":[{ }]},	"id":%b ,"_x":null, "jsonrpc":"2.0" }'
)
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}'
)
INITIALIZED = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}}'


# The servers here say what they were told to, byte for byte, and the bytes of calls are compared.
OFF = {
    "pinning": "the servers answer everything with fixed bytes, also a request for their tools",
    "trust": "calls after the first would carry labels, and their bytes are compared",
}


def reply_to(name: str) -> bytes:
    return REPLY % ("ü👋".encode(), IDS[name])


def as_line(message: bytes) -> bytes:
    return message.replace(b"\r", b" ").replace(b"\n", b" ")


@pytest.fixture(scope="module")
def behind():
    with raw_server() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(behind: RawServer, tmp_path_factory):
    """Its server `web` is the raw HTTP server, once more as `trusted` with the client's Authorization let through."""
    own = {"X-Api-Key": "${RAW_KEY}", "X-Plain": "as it is", "User-Agent": "configured"}
    servers = {
        "web": {"url": behind.url, "headers": own},
        "trusted": {"url": behind.url + "?a=1%2F2&b", "forward_authorization": True},
        "own": {"url": behind.url, "headers": {"Authorization": "Bearer ${RAW_KEY}"}, "forward_authorization": True},
    }
    with serving(tmp_path_factory.mktemp("gateway"), servers, env={"RAW_KEY": "s3cret value"}, off=OFF) as running:
        yield running


# ---- HTTP in front of HTTP ----


@requirement("WB-028")
@rows("name", [*MESSAGES, *LINES])
def test_http_request_reaches_an_http_server_unchanged(gateway, behind, name):
    body = (MESSAGES | LINES)[name]
    behind.script = json_answer(reply_to(name) if name in IDS else b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert ask(gateway.url("web"), body).status == 200
    assert behind.requests[-1].body == body
    assert behind.requests[-1].line == b"POST /mcp HTTP/1.1"


@rows("name", IDS)
@rows("frame", [b"%b", b"\n \t%b\r\n\n"], ids=["bare", "blanks around"])
def test_http_answer_reaches_an_http_client_unchanged(gateway, behind, name, frame):
    answer = frame % reply_to(name)
    behind.script = json_answer(answer)
    reply = ask(gateway.url("web"), MESSAGES[name])
    assert reply.body == answer
    assert reply.header("content-type") == "application/json"


STREAM = (
    b": a comment\n\nid: 1\nretry: 50\ndata: \n\n",
    'event: message\r\nid: ü-2\r\ndata: {"jsonrpc":"2.0","method":"notifications/x","params":{"a":1.0}}\r\n\r\n'.encode(),
    b": alone\r\n\r\nunknown: field\ndata\nevent: other\ndata:no JSON at all\n\n",
    b'data: {"jsonrpc":"2.0",\r\ndata:  "id":1,\ndata:"result":{"z":1e2, "a":-0}}\nid\n\n',
    b": after the reply\n\n",
)


@rows("cut", [None, 1, 7], ids=["by events", "by bytes", "by sevens"])
def test_events_reach_an_http_client_unchanged(gateway, behind, cut):
    whole = b"".join(STREAM)
    chunks = STREAM if cut is None else [whole[at : at + cut] for at in range(0, len(whole), cut)]
    behind.script = stream_answer(*chunks)
    reply = ask(gateway.url("web"), MESSAGES["order and blanks"])
    assert reply.header("content-type") == "text/event-stream"
    assert reply.body == whole


def test_events_of_a_get_stream_reach_an_http_client_unchanged(gateway, behind):
    behind.script = stream_answer(*STREAM)
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "ev 7", "Mcp-Session-Id": "s-1"}
    assert ask(gateway.url("web"), None, headers, "GET").body == b"".join(STREAM)
    assert behind.requests[-1].line == b"GET /mcp HTTP/1.1"
    assert behind.requests[-1].header("last-event-id") == [b"ev 7"]
    assert behind.requests[-1].header("mcp-session-id") == [b"s-1"]


@rows("status", [b"404 Not Found", b"401 Unauthorized", b"500 Oops", b"429 Slow Down"])
def test_an_http_refusal_of_the_server_passes_as_it_is(gateway, behind, status):
    def script(_request, connection):
        head = b"Connection: close\r\nContent-Type: text/plain\r\nWWW-Authenticate: Bearer x\r\nRetry-After: 7\r\n"
        connection.sendall(b"HTTP/1.1 %b\r\n%bContent-Length: 4\r\n\r\nno\n\n" % (status, head))

    behind.script = script
    reply = ask(gateway.url("web"), MESSAGES["numbers"])
    assert (reply.status, reply.body) == (int(status[:3]), b"no\n\n")
    assert (reply.header("www-authenticate"), reply.header("retry-after")) == ("Bearer x", "7")


# ---- headers ----

CLIENT_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Authorization": "Bearer of-the-client",
    "Cookie": "session=1",
    "Connection": "keep-alive, X-Hop",
    "X-Hop": "ends here",
    "Keep-Alive": "timeout=5",
    "TE": "trailers",
    "Proxy-Authorization": "Basic eA==",
    "X-Api-Key": "of-the-client",
    "X-Custom": "travels on",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}


def headers_behind(gateway, behind, server: str) -> dict[str, list[bytes]]:
    behind.script = json_answer(reply_to("numbers"))
    assert ask(gateway.url(server), MESSAGES["numbers"], CLIENT_HEADERS).status == 200
    received = behind.requests[-1]
    return {name.decode().lower(): received.header(name.decode()) for name, _ in received.headers}


def test_the_clients_credentials_and_hop_by_hop_headers_end_at_the_gateway(gateway, behind):
    headers = headers_behind(gateway, behind, "web")
    gone = {"authorization", "cookie", "x-hop", "keep-alive", "te", "proxy-authorization", "upgrade"}
    assert not gone & headers.keys()
    assert headers["x-custom"] == [b"travels on"]
    assert headers["host"] == [f"127.0.0.1:{behind.port}".encode()]


def test_configured_headers_reach_the_server_with_the_environment_filled_in(gateway, behind):
    headers = headers_behind(gateway, behind, "web")
    assert headers["x-api-key"] == [b"s3cret value"]
    assert headers["x-plain"] == [b"as it is"]
    assert headers["user-agent"] == [b"configured"]


def test_the_clients_authorization_passes_where_that_is_configured(gateway, behind):
    headers = headers_behind(gateway, behind, "trusted")
    assert headers["authorization"] == [b"Bearer of-the-client"]
    assert "cookie" not in headers
    assert behind.requests[-1].line == b"POST /mcp?a=1%2F2&b HTTP/1.1"


def test_a_configured_authorization_replaces_the_clients(gateway, behind):
    assert headers_behind(gateway, behind, "own")["authorization"] == [b"Bearer s3cret value"]


def test_the_secret_of_a_configured_header_is_not_in_the_log(gateway, behind):
    headers_behind(gateway, behind, "web")
    assert not [line for line in gateway.lines if "s3cret" in line or "of-the-client" in line]


def test_hop_by_hop_headers_and_cookies_of_the_server_end_at_the_gateway(gateway, behind):
    extra = (b"Set-Cookie: a=1", b"Keep-Alive: timeout=9", b"Mcp-Session-Id: s-2", b"X-Custom: travels back")
    behind.script = json_answer(reply_to("numbers"), *extra)
    reply = ask(gateway.url("web"), MESSAGES["numbers"])
    assert reply.header("set-cookie") is None
    assert reply.header("keep-alive") is None
    assert (reply.header("mcp-session-id"), reply.header("x-custom")) == ("s-2", "travels back")


# ---- no buffering ----

EVENTS = [b'data: {"jsonrpc":"2.0","method":"n","params":{"n":%d}}\n\n' % number for number in range(4)] + [
    b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
]


class Turns:
    """Lets the server send event N only after the client has seen event N - 1."""

    def __init__(self) -> None:
        self._seen = 0
        self._news = threading.Condition()

    def saw_one(self) -> None:
        with self._news:
            self._seen += 1
            self._news.notify_all()

    def before(self, number: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self._seen >= number, 60)


@rows("method", ["POST", "GET"])
def test_events_pass_one_by_one_over_http(gateway, behind, method):
    turns = Turns()
    behind.script = stream_answer(*EVENTS, before=turns.before)
    body = MESSAGES["order and blanks"] if method == "POST" else None
    with streaming(gateway.url("web"), body, None, method) as response:
        for event in EVENTS:
            assert response.read1() == event
            turns.saw_one()
        assert response.read1() == b""


def test_events_pass_one_by_one_to_a_pipe(behind, tmp_path):
    turns = Turns()
    behind.script = stream_answer(*EVENTS, before=turns.before)
    with piped(wrap_argv(tmp_path, "web", url=behind.url, off=OFF)) as wrap:
        wrap.stdin.write(MESSAGES["order and blanks"] + b"\n")
        wrap.stdin.flush()
        for event in EVENTS:
            assert wrap.stdout.readline() == event[6:-1]
            turns.saw_one()


def test_messages_of_a_process_pass_one_by_one_over_http(tmp_path):
    said = [event[6:-2] for event in EVENTS]
    command = raw_stdio_argv(tmp_path / "raw", [INITIALIZED, b"\x1e".join(said)])
    with serving(tmp_path, {"pipe": {"command": command}}, off=OFF) as gateway:
        session = start_session(gateway.url("pipe"))
        with streaming(gateway.url("pipe"), MESSAGES["order and blanks"], session) as response:
            for number, message in enumerate(said, 1):
                assert response.read1() == b"event: message\ndata: " + message + b"\n\n"
                (tmp_path / "raw" / f"go-{number}").touch()
            assert response.read1() == b""


# ---- HTTP in front of stdio ----


def start_session(url: str) -> dict[str, str]:
    reply = ask(url, INITIALIZE)
    assert (reply.status, reply.body) == (200, INITIALIZED)
    session = reply.header("mcp-session-id")
    assert session is not None
    return {"Content-Type": "application/json", "Accept": "*/*", "Mcp-Session-Id": session}


def received_by(directory: Path) -> bytes:
    return (directory / "received").read_bytes()


@requirement("WB-028")
def test_http_messages_reach_a_process_and_its_answers_come_back_unchanged(tmp_path):
    messages = MESSAGES | LINES
    answers = [reply_to(name) if name in IDS else b"" for name in MESSAGES]
    answers.append(REPLY % (b"pretty", b"1"))
    command = raw_stdio_argv(tmp_path / "raw", [INITIALIZED, *answers])
    with serving(tmp_path, {"pipe": {"command": command}}, off=OFF) as gateway:
        session = start_session(gateway.url("pipe"))
        for message, answer in zip(messages.values(), answers, strict=True):
            reply = ask(gateway.url("pipe"), message, session)
            assert (reply.status, reply.body) == (200 if answer else 202, answer)
        expected = [INITIALIZE, *(as_line(message) for message in messages.values())]
        assert received_by(tmp_path / "raw") == b"".join(message + b"\n" for message in expected)


def modern(name: str) -> tuple[bytes, dict[str, str]]:
    envelope = (
        b'"_meta": {"io.modelcontextprotocol/protocolVersion":"2026-07-28", "progressToken" : "mine",'
        b' "io.modelcontextprotocol/clientCapabilities":{ }, "n":1.0}'
    )
    body = b'{"params":{"z":1e2, %b},"method":"%b" , "id" :\t"my id" ,"jsonrpc":"2.0","x":-0}' % (
        envelope,
        name.encode(),
    )
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": name}
    return body, headers | {"Content-Type": "application/json", "Accept": "*/*"}


def test_of_a_modern_message_to_a_shared_process_only_id_and_token_change(tmp_path):
    progress = b'{"method":"notifications/progress","params":{"progress":1.0, "progressToken" : 1 },"jsonrpc":"2.0"}'
    answer = b'{ "result":{"z":1.0,"_meta":{"q":1e0}} ,"id": 1 , "jsonrpc":"2.0"}'
    command = raw_stdio_argv(tmp_path / "raw", [progress + b"\x1e" + answer])
    (tmp_path / "raw" / "go-1").touch()
    with serving(tmp_path, {"pipe": {"command": command}}, off=OFF) as gateway:
        body, headers = modern("dev.example/odd")
        reply = ask(gateway.url("pipe"), body, headers)
        events = b"event: message\ndata: %b\n\n" * 2
        mine = (progress.replace(b": 1 }", b': "mine" }'), answer.replace(b'"id": 1 ,', b'"id": "my id" ,'))
        assert reply.body == events % mine
    ours = body.replace(b'"my id"', b"1").replace(b'"mine"', b"1")
    assert received_by(tmp_path / "raw") == ours + b"\n"


# ---- stdio in front ----


def test_lines_reach_a_process_and_its_lines_come_back_unchanged(tmp_path):
    answers = [reply_to(name) if name in IDS else b"" for name in MESSAGES]
    garbage = [b"no JSON", b"", b"\xff\xfe not text", b'{"jsonrpc":"2.0","method":"n","method":"n"}\r']
    command = raw_stdio_argv(tmp_path / "raw", [*answers, b"\x1e".join(garbage)])
    (tmp_path / "raw" / "go-1").touch()
    (tmp_path / "raw" / "go-2").touch()
    (tmp_path / "raw" / "go-3").touch()
    with piped(wrap_argv(tmp_path, "pipe", command, off=OFF)) as wrap:
        sent = b"".join(message + b"\n" for message in [*MESSAGES.values(), MESSAGES["a notification"] + b" \r"])
        wrap.stdin.write(sent)
        wrap.stdin.close()
        assert wrap.stdout.read() == b"".join(line + b"\n" for line in [*answers, *garbage] if line)
    assert received_by(tmp_path / "raw") == sent.replace(b"\r", b" ")


@requirement("WB-028")
def test_lines_reach_an_http_server_and_its_answers_come_back_on_a_line(behind, tmp_path):
    pretty = REPLY.replace(b" ,", b"\r\n ,\n").replace(b"{ }", b"{\n\t}")
    with piped(wrap_argv(tmp_path, "web", url=behind.url, off=OFF)) as wrap:
        for name, number in IDS.items():
            answer = pretty % (name.encode(), number)
            behind.script = json_answer(answer)
            wrap.stdin.write(MESSAGES[name] + b"\n")
            wrap.stdin.flush()
            assert wrap.stdout.readline() == as_line(answer) + b"\n"
            assert behind.requests[-1].body == MESSAGES[name]


def test_events_reach_a_pipe_as_the_lines_of_their_data(behind, tmp_path):
    behind.script = stream_answer(*STREAM)
    with piped(wrap_argv(tmp_path, "web", url=behind.url, off=OFF)) as wrap:
        wrap.stdin.write(MESSAGES["order and blanks"] + b"\n")
        wrap.stdin.close()
        assert wrap.stdout.read() == (
            b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1.0}}\n'
            # `data` without a colon is an empty line of data (WHATWG HTML §9.2.6): a blank on a pipe.
            b" no JSON at all\n"
            b'{"jsonrpc":"2.0",  "id":1, "result":{"z":1e2, "a":-0}}\n'
        )
