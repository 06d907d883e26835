"""A server on stdio that answers with more than the gateway takes: whoever asked is told, whoever did not is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.fork_server import Forked
from support.gateway import approve_listed, serving, wrap_argv
from support.hostile import INTRODUCING
from support.raw import SECONDS
from support.records import calls_of
from support.sessions import Session, call, message, modern, until
from support.table import rows

LIMIT = 65536
BIG = "x" * (LIMIT + 10)
# As servers in use write them: the id before the result, after it, and where nobody can find it.
REPLIES = {
    "id_first": '{"jsonrpc":"2.0","id":%ID%,"result":{"text":"' + BIG + '"}}',
    "id_last": '{"result":{"text":"' + BIG + '"},"jsonrpc":"2.0","id":%ID%}',
    "id_hidden": '{"result":{"text":"' + BIG + '"},"id":%ID%,"more":{"text":"' + BIG + '"}}',
    "endless": '{"result":{"text":"' + 4 * BIG,
}
WRITER = """
from pathlib import Path
BIG, TOOLS = "x" * %d, %r
held = []
for line in sys.stdin:
    message = json.loads(line)
    name, number = (message.get("params") or {}).get("name", ""), json.dumps(message.get("id"))
    answer = %r.get(name, '{"jsonrpc":"2.0","id":%%ID%%,"result":{"serverInfo":{"pid":0}}}') + "\\n"
    if "id" not in message or introduced(message, *TOOLS):
        continue
    if name == "hold":
        held.append(answer.replace("%%ID%%", number))
        Path(sys.argv[1], "held").touch()
        continue
    if name == "let_go":
        sys.stdout.write(held.pop())
    answer = answer[:-1] if name == "endless" else answer
    sys.stdout.write(answer.replace("BIG", BIG).replace("%%ID%%", number))
    sys.stdout.flush()
"""


def writer_argv(directory: Path) -> list[str]:
    replies = {name: reply.replace(BIG, "BIG") for name, reply in REPLIES.items()}
    source = INTRODUCING + WRITER % (len(BIG), [*REPLIES, "hold", "let_go"], replies)
    return [sys.executable, "-I", "-S", "-c", source, str(directory)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("writer")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, directory):
    servers = {name: {"command": writer_argv(directory), "timeout_seconds": 60} for name in REPLIES}
    with serving(tmp_path_factory.mktemp("gateway"), servers, limits={"message_bytes": LIMIT}) as running:
        yield running


@rows("name", REPLIES)
def test_the_caller_is_told_in_both_eras(gateway, name):
    got = modern(gateway.url(name), name, "mine")
    body = json.loads(got.body)
    assert (got.status, body["error"]["data"]["reason"], body["id"]) == (502, "upstream_too_large", "mine")
    session = Session.start(gateway.url(name))
    got = session.post(call(name, 3))
    body = json.loads(got.body)
    assert (got.status, body["error"]["data"]["reason"], body["id"]) == (502, "upstream_too_large", 3)


@rows("name", ["id_first", "id_last"])
def test_the_record_says_that_the_reply_was_lost(gateway, name):
    modern(gateway.url(name), name, "mine")
    assert calls_of(gateway, name)
    until(lambda: all(one["outcome"] for one in calls_of(gateway, name)))
    assert {one["outcome"]["outcome"] for one in calls_of(gateway, name)} == {"lost"}


@rows("name", ["id_first", "id_last"])
def test_others_on_the_same_process_are_left_alone(gateway, directory, name):
    url = gateway.url(name)
    (directory / "held").unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(modern, url, "hold", 1)
        until((directory / "held").exists)
        assert modern(url, name, 2).status == 502
        assert modern(url, "let_go", 3).status == 200
        body = json.loads(held.result().body)
    assert (body["id"], body["result"]) == (1, {"serverInfo": {"pid": 0}})


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory):
    """What `callgate wrap` in front of the server answers to a line."""
    folder = tmp_path_factory.mktemp("wrapped")
    argv = wrap_argv(folder, "s", writer_argv(folder), limits={"message_bytes": LIMIT})

    def says(line):
        with Forked(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            out, _ = process.communicate(line + b"\n", timeout=SECONDS)
        (said,) = [json.loads(line) for line in out.splitlines()]
        return said

    assert says(message("tools/list", {}, 0))["result"]
    approve_listed(folder / "callgate.toml")
    return says


@rows("name", REPLIES)
def test_a_client_of_wrap_is_told(wrapped, name):
    said = wrapped(call(name, 1))
    assert (said["id"], said["error"]["data"]["reason"]) == (1, "upstream_too_large")
