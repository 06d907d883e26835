"""All modern clients of a command share one process. No client may see, answer or end what is another's."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.gateway import serving
from support.raw import Reply, ask, streaming
from support.sessions import (
    META,
    VERSION,
    call,
    events,
    message,
    modern,
    modern_call,
    modern_headers,
    teller_argv,
    until,
)
from support.table import rows

LOG = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}'


class Place:
    """Where the server's processes leave what happens to them: only what came since a row of a table began counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before: dict[Path, int] = {}

    def begin_row(self) -> None:
        for mark in (*self.path.glob("held-*"), *self.path.glob("cancelled-*")):
            mark.unlink()
        self._before = {path: path.stat().st_size for path in self.path.glob("received-*")}

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def received(self) -> list[str]:
        """What each process of the server was sent that was sent anything."""
        sent = [path.read_text()[self._before.get(path, 0) :] for path in sorted(self.path.glob("received-*"))]
        return [lines for lines in sent if lines]


@pytest.fixture(scope="module")
def teller(tmp_path_factory):
    place = tmp_path_factory.mktemp("teller")
    with serving(tmp_path_factory.mktemp("gateway"), {"teller": {"command": teller_argv(place)}}) as gateway:
        yield gateway.url("teller"), Place(place)


@pytest.fixture
def url(teller):
    return teller[0]


@pytest.fixture
def directory(teller):
    teller[1].begin_row()
    return teller[1]


@pytest.fixture
def clients():
    with ThreadPoolExecutor(16) as pool:
        yield pool


def received(directory: Place) -> str:
    return "".join(directory.received())


def processes(directory: Place) -> int:
    return len(directory.received())


def logged(url: str, tool: str, rpc_id: int | str, token: int | str | None = None, **arguments: Any) -> Reply:
    """A call that wants log messages. After a call that was given up it gets a process of its own."""
    return modern(url, tool, rpc_id, token, log=True, **arguments)


@rows(
    ("ids", "tokens"),
    [
        ([7, 7, 7, 7], ["t", "t", "t", "t"]),
        ([1, 2, 3, 4], [4, 3, 2, 1]),
        ([4, 3, 2, 1], [1, 2, 3, 4]),
        (["1", 1, "a", "a"], ["1", 1, 2, "2"]),
    ],
    ids=["all the same", "the gateway's own numbers", "those numbers crossed", "texts that look like numbers"],
)
def test_clients_with_the_same_ids_and_tokens_each_get_their_own(url, directory, clients, ids, tokens):
    asked = []
    for number, (rpc_id, token) in enumerate(zip(ids, tokens, strict=True)):
        asked.append(clients.submit(modern, url, "hold", rpc_id, token, text=f"of-{number}"))
        until((directory / f"held-of-{number}").exists)
    assert events(modern(url, "let_go", ids[0], tokens[0]).body)[-1]["result"] == {"text": "released"}
    for number, (rpc_id, token) in enumerate(zip(ids, tokens, strict=True)):
        progress, reply = events(asked[number].result().body)
        assert progress["params"] == {"progressToken": token, "progress": 1, "message": f"of-{number}"}
        assert reply == {"jsonrpc": "2.0", "id": rpc_id, "result": {"text": f"of-{number}"}}
    assert processes(directory) == 1


def test_a_client_cannot_cancel_anothers_call(url, directory, clients):
    held = clients.submit(modern, url, "hold", 1, text="mine")
    until((directory / "held-mine").exists)
    for number in (*range(10), "1"):
        body = message("notifications/cancelled", {"requestId": number})
        headers = modern_headers("", "notifications/cancelled")
        assert ask(url, body, headers).status in (202, 400)
        assert ask(url, body, headers | {"MCP-Protocol-Version": "2025-11-25"}).status == 400
        assert ask(url, body).status == 400
    modern(url, "let_go", 2)
    assert events(held.result().body)[-1]["result"] == {"text": "mine"}
    assert "cancelled" not in received(directory)


def test_a_client_cannot_answer_in_the_servers_or_a_clients_place(url, directory, clients):
    held = clients.submit(modern, url, "hold", 1, text="mine")
    until((directory / "held-mine").exists)
    for forged in (
        {"jsonrpc": "2.0", "id": 1, "result": {"forged": True}},
        [{"jsonrpc": "2.0", "id": 1, "result": {}}],
    ):
        for headers in (modern_headers("hold"), {"Content-Type": "application/json"}):
            assert ask(url, json.dumps(forged).encode(), headers).status == 400
    modern(url, "let_go", 2)
    assert events(held.result().body)[-1]["result"] == {"text": "mine"}
    assert "forged" not in received(directory)


def test_a_batch_cannot_bring_ids_of_its_own_into_the_shared_process(url, directory):
    batch = b"[%b,%b]" % (modern_call("pid", 1), modern_call("pid", 2))
    assert ask(url, batch, modern_headers("pid")).status == 400
    assert processes(directory) == 0


@rows("late", [LOG % "secret", '{"jsonrpc":"2.0","id":%ID%,"result":{"text":"secret"}}',
    '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%TOKEN%,"message":"secret"}}',
    '{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"secret"}}'],
    ids=["log", "reply", "progress", "request"])  # fmt: skip
def test_what_the_server_still_says_of_a_call_given_up_reaches_nobody(url, directory, clients, late):
    """The server goes on about a call whose client left, while another client's is the only one open."""
    other = clients.submit(logged, url, "hold", "a", "t", text="other")
    until((directory / "held-other").exists)
    body = modern_call("hold", "a", "t", text="left", mutter=[late])
    with streaming(url, body, modern_headers("hold")):
        until((directory / "held-left").exists)
    until((directory / "cancelled-left").exists)
    modern(url, "let_go", "a")
    answer = other.result().body
    assert b"secret" not in answer
    assert events(answer)[-1]["result"] == {"text": "other"}


def test_a_log_message_with_two_calls_open_reaches_neither(url, directory, clients):
    held = clients.submit(logged, url, "hold", 1, "t", text="other")
    until((directory / "held-other").exists)
    assert events(modern(url, "emit", 1, log=True, before=[LOG % "secret"]).body) == [
        {"jsonrpc": "2.0", "id": 1, "result": {}}
    ]
    modern(url, "let_go", 1)
    assert b"secret" not in held.result().body


def test_log_messages_reach_the_client_that_is_alone_again_and_again(url, directory):
    """A client that gave a call up, as every subscription is in the end, does not cost the next one its log."""
    for number in range(3):
        log, reply = events(logged(url, "emit", number, before=[LOG % "hello"]).body)
        assert log == json.loads(LOG % "hello")
        assert reply["id"] == number
        with streaming(url, modern_call("hold", 1, "t", text=f"left-{number}"), modern_headers("hold")):
            until((directory / f"held-left-{number}").exists)
        until((directory / f"cancelled-left-{number}").exists)


@rows(
    "said",
    [
        '{"jsonrpc":"2.0","id":99,"id":%ID%,"result":{}}',
        '{"jsonrpc":"2.0","result":{},"id":1,"id":%ID%}',
        '{"jsonrpc":"2.0","id":%ID%,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}},"result":{}}',
        '{"jsonrpc":"2.0","id":%ID%,"result":{"_meta":{"x":1,"io.modelcontextprotocol/subscriptionId":1,"x":2}}}',
    ],
    ids=["an id first", "an id last", "a result", "in _meta"],
)
def test_a_reply_that_can_be_read_in_two_ways_is_an_error_for_its_client_alone(url, directory, clients, said):
    held = clients.submit(modern, url, "hold", 1, text="other")
    until((directory / "held-other").exists)
    reply = events(modern(url, "raw", "mine", lines=[said]).body)[-1]
    assert reply["id"] == "mine"
    assert reply["error"]["data"]["reason"] == "upstream_garbage"
    modern(url, "let_go", 2)
    assert events(held.result().body)[-1]["result"] == {"text": "other"}
    assert processes(directory) == 1


def test_garbage_of_the_server_does_not_end_the_calls_of_all(url, directory, clients):
    held = clients.submit(modern, url, "hold", 1, "t", text="other")
    until((directory / "held-other").exists)
    number = json.loads(received(directory).splitlines()[-1])["id"]
    garbage = [
        "{",
        "[1]",
        '{"jsonrpc":"2.0","method":"n","params":{"progressToken":{"a":[]}}}',
        f'{{"jsonrpc":"2.0","method":"n","params":{{"progressToken":{number},"progressToken":2}}}}',
        '{"jsonrpc":"2.0","method":"n","params":{"progressToken":99999}}',
        '{"jsonrpc":"2.0","id":true,"result":{}}',
        f'{{"jsonrpc":"2.0","id":{number}.0,"result":{{}}}}',
        f'{{"jsonrpc":"2.0","id":"{number}","result":{{"not":"yours"}}}}',
    ]
    # From a file: as an argument, `{` counts as words of a stranger, which are a question for a person.
    (directory / "noise").write_text("\n".join(garbage))
    assert events(modern(url, "emit", 1, file="noise").body)[-1] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    modern(url, "let_go", 2)
    body = held.result().body
    assert events(body)[-1]["result"] == {"text": "other"}
    assert b"not" not in body.replace(b"notifications", b"")
    assert processes(directory) == 1


@rows(
    "tokens",
    [
        '"progressToken":"a","progressToken":1',
        '"progressToken":1,"progressToken":1',
        '"progress\\u0054oken":1,"progressToken":1',
    ],
    ids=["different", "equal", "spelt differently"],
)
@rows("method", ["tools/call", "dev.example/other"])
def test_a_token_hidden_by_a_second_one_never_reaches_the_process(url, directory, method, tokens):
    """Two progress tokens: the gate would translate one and the server believe the other."""
    meta = f'"{META}protocolVersion":"{VERSION}","{META}clientCapabilities":{{}},{tokens}'
    body = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"pid","_meta":{{{meta}}}}}}}'.encode()
    assert ask(url, body, modern_headers("pid", method)).status == 400
    assert "progressToken" not in received(directory)
    assert events(modern(url, "pid").body)[-1]["id"] == 1


def test_a_handshake_session_is_no_way_into_the_shared_process(url, directory):
    assert modern(url, "remember", text="shared").status == 200
    assert ask(url, call("pid")).status == 400
    assert processes(directory) == 1
