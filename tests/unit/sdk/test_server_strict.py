"""Strict reading in front of the SDK: bodies and lines as they come, in pieces, too large, broken off."""

import io
import json

import anyio

from callgate.jsonrpc import Limits
from callgate.sdk.server.strict import READ, StrictBodies, StrictLines
from support.table import rows

GOOD = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}'
TWICE = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}'


class Wrapped:
    """An application that reads its whole body and notes what it got."""

    def __init__(self):
        self.bodies = []
        self.scopes = []

    async def __call__(self, scope, receive, send):
        body = b""
        while True:
            event = await receive()
            if event["type"] != "http.request":
                self.bodies.append("gone")
                return
            body += event["body"]
            if not event.get("more_body"):
                break
        self.bodies.append(body)
        self.scopes.append(scope)


async def post(app, *pieces, limit=1000, method="POST", ends=True):
    """Send a body in these pieces; the status and the JSON that came back, if the guard answered itself."""
    events = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if ends:
        events[-1]["more_body"] = False
    events.append({"type": "http.disconnect"})
    waiting, sent = iter(events), []

    async def receive():
        return next(waiting)

    async def send(event):
        sent.append(event)

    scope = {"type": "http", "method": method}
    await StrictBodies(app, Limits(bytes=limit))(scope, receive, send)
    if not sent:
        return None
    assert sent[0]["headers"][0] == (b"content-type", b"application/json")
    return sent[0]["status"], json.loads(sent[1]["body"])


async def test_a_good_body_reaches_the_application_as_it_was():
    app = Wrapped()
    assert await post(app, GOOD[:10], b"", GOOD[10:]) is None
    assert app.bodies == [GOOD]
    assert app.scopes[0][READ] is True


async def test_a_bad_body_is_answered_and_goes_no_further():
    app = Wrapped()
    status, body = await post(app, TWICE[:40], TWICE[40:])
    assert (status, body["id"], body["error"]["code"]) == (400, 1, -32602)
    assert body["error"]["data"]["reason"] == "duplicate_key"
    assert app.bodies == []


@rows(("body", "code"), [(b"", -32700), (b"{", -32700), (b"[]", -32600), (b"5", -32600), (b"\xff", -32700)])
async def test_what_is_no_message(body, code):
    app = Wrapped()
    _, answer = await post(app, body)
    assert answer["error"]["code"] == code
    assert app.bodies == []


async def test_a_body_that_is_too_large_is_left_to_the_sdk_unmarked():
    app = Wrapped()
    assert await post(app, TWICE, b" " * 2000) is None
    assert app.bodies == [TWICE + b" " * 2000]
    assert READ not in app.scopes[0]


async def test_a_body_that_breaks_off():
    app = Wrapped()
    assert await post(app, GOOD[:10], ends=False) is None
    assert app.bodies == ["gone"]


async def test_other_methods_are_none_of_its_business():
    app = Wrapped()
    assert await post(app, TWICE, method="DELETE") is None
    assert app.bodies == [TWICE]


class Replies:
    """The SDK's stream of answers."""

    def __init__(self):
        self.sent = []

    async def send(self, message):
        self.sent.append(message.message)


def in_pieces(raw, piece=1 << 16):
    source = io.BytesIO(raw)
    return lambda most: source.read(min(most, piece))


async def read(raw, limit=1000, piece=1 << 16):
    lines, replies = StrictLines(in_pieces(raw, piece), Limits(bytes=limit)), Replies()
    lines.answer_to(replies)
    return [line async for line in lines], replies.sent


@rows("piece", [1, 7, 1 << 16])
async def test_good_lines_pass_and_bad_ones_are_answered_in_their_place(piece):
    lines, replies = await read(GOOD + b"\n" + TWICE + b"\r\n\n  \n" + GOOD, piece=piece)
    assert lines == [GOOD.decode()] * 2
    (reply,) = replies
    assert (reply.id, reply.error.code, reply.error.data["reason"]) == (1, -32602, "duplicate_key")


@rows("piece", [1000, 1 << 16])
async def test_a_line_that_is_too_long_is_skipped_to_its_end(piece):
    lines, replies = await read(b"x" * 200_000 + b"\n" + GOOD + b"\n", limit=len(GOOD), piece=piece)
    assert lines == [GOOD.decode()]
    (reply,) = replies
    assert (reply.id, reply.error.data["reason"]) == (None, "message_too_large")


async def test_a_line_of_just_the_limit():
    lines, replies = await read(GOOD + b"\r\n" + GOOD + b" \n", limit=len(GOOD))
    assert lines == [GOOD.decode()] * 2
    assert replies == []


async def test_half_a_line_at_the_end():
    lines, replies = await read(GOOD + b"\n" + GOOD[:20])
    assert lines == [GOOD.decode()]
    assert [reply.error.code for reply in replies] == [-32700]


async def test_bytes_that_are_no_text():
    lines, replies = await read(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}\n' + GOOD + b"\n")
    assert lines == [GOOD.decode()]
    assert [reply.error.code for reply in replies] == [-32700]


async def test_an_answer_waits_until_somebody_takes_answers():
    lines, replies = StrictLines(in_pieces(TWICE + b"\n"), Limits()), Replies()
    found = []

    async def consume():
        found.extend([line async for line in lines])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consume)
        await anyio.wait_all_tasks_blocked()
        assert replies.sent == []
        lines.answer_to(replies)
    assert found == []
    assert len(replies.sent) == 1


async def test_nobody_is_there_any_more_to_be_answered():
    class Closed(Replies):
        async def send(self, message):
            raise anyio.ClosedResourceError

    lines = StrictLines(in_pieces(TWICE + b"\n" + GOOD + b"\n"), Limits())
    lines.answer_to(Closed())
    assert [line async for line in lines] == [GOOD.decode()]


async def test_a_line_without_end_that_is_too_long():
    lines, replies = await read(GOOD + b"\n" + b"x" * 5000, limit=100, piece=64)
    assert lines == [GOOD.decode()]
    assert [reply.error.data["reason"] for reply in replies] == ["message_too_large"]


async def test_a_pipe_that_breaks_ends():
    def broken(_most):
        raise OSError

    lines = StrictLines(broken, Limits())
    assert [line async for line in lines] == []
