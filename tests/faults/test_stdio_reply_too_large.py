"""A server on stdio that answers with more than the gateway takes: whoever asked is told, whoever did not is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.gateway import CALLGATE, serving, wrap_argv
from support.raw import SECONDS
from support.sessions import Session, modern, teller_argv, until

LIMIT = 65536
BIG = "x" * (LIMIT + 10)
# As servers in use write them: the id before the result, after it, and where nobody can find it.
REPLIES = {
    "id_first": '{"jsonrpc":"2.0","id":%ID%,"result":{"text":"' + BIG + '"}}',
    "id_last": '{"result":{"text":"' + BIG + '"},"jsonrpc":"2.0","id":%ID%}',
    "id_hidden": '{"result":{"text":"' + BIG + '"},"id":%ID%,"more":{"text":"' + BIG + '"}}',
    "endless": '{"result":{"text":"' + 4 * BIG,
}
# The teller is told what to say, and what it is told has to fit.
WRITER = """
import json, sys
BIG = "x" * %d
for line in sys.stdin:
    message = json.loads(line)
    name, number = message["params"].get("name", ""), json.dumps(message.get("id"))
    answer = %r.get(name, '{"jsonrpc":"2.0","id":%%ID%%,"result":{"serverInfo":{"pid":0}}}')
    if name != "hold" and "id" in message:
        print(answer.replace("BIG", BIG).replace("%%ID%%", number), end="" if name == "endless" else "\\n", flush=True)
"""


def writer_argv() -> list[str]:
    source = WRITER % (len(BIG), {name: reply.replace(BIG, "BIG") for name, reply in REPLIES.items()})
    return [sys.executable, "-I", "-S", "-c", source]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    servers = {name: {"command": writer_argv(), "timeout_seconds": 5} for name in REPLIES}
    with serving(tmp_path_factory.mktemp("gateway"), servers, limits={"message_bytes": LIMIT}) as running:
        yield running


@pytest.mark.parametrize("name", REPLIES)
def test_the_caller_is_told_in_both_eras(gateway, name):
    got = modern(gateway.url(name), name, "mine")
    body = json.loads(got.body)
    assert (got.status, body["error"]["data"]["reason"], body["id"]) == (502, "upstream_too_large", "mine")
    session = Session.start(gateway.url(name))
    got = session.post(json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": name}}).encode())
    body = json.loads(got.body)
    assert (got.status, body["error"]["data"]["reason"], body["id"]) == (502, "upstream_too_large", 3)


@pytest.mark.parametrize("name", ["id_first", "id_last"])
def test_the_record_says_that_the_reply_was_lost(gateway, name):
    modern(gateway.url(name), name, "mine")
    argv = [CALLGATE, "audit", "list", "--server", name, "--json", "-c", str(gateway.config)]

    def outcomes():
        listed = subprocess.run(argv, capture_output=True, timeout=SECONDS, check=True)
        records = [json.loads(line) for line in listed.stdout.splitlines()]
        return {record["outcome"]["outcome"] if record["outcome"] else None for record in records}

    until(lambda: outcomes() == {"lost"})


@pytest.fixture(scope="module")
def teller(tmp_path_factory):
    directory = tmp_path_factory.mktemp("teller")
    limits = {"message_bytes": 1024}
    with serving(tmp_path_factory.mktemp("gateway"), {"one": {"command": teller_argv(directory)}}, limits=limits) as up:
        yield up.url("one"), directory


@pytest.mark.parametrize(
    "line", ['{"jsonrpc":"2.0","id":%ID%,"result":[LONG]}', '{"result":[LONG],"jsonrpc":"2.0","id":%ID%}']
)
def test_others_on_the_same_process_are_left_alone(teller, line):
    """The blanks are cut by the client's own spelling of the call: what the server writes is longer than it was told."""
    url, directory = teller
    name = str(len(line))
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(modern, url, "hold", 1, text=name)
        until((directory / f"held-{name}").exists)
        # Each %TOKEN% becomes the number that the gateway gave: what is said is longer than what was told to say.
        long = line.replace("LONG", ",".join(["%TOKEN%"] * 2))
        got = modern(url, "raw", 2, "t", lines=[long.replace("[", "[" + "\u00e9" * 0)])
        assert got.status in (200, 502)
        modern(url, "release", 3)
        assert json.loads(held.result().body)["result"] == {"text": name}


@pytest.mark.parametrize("name", REPLIES)
def test_a_client_of_wrap_is_told(tmp_path, name):
    calls = [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}]
    argv = wrap_argv(tmp_path, "s", writer_argv(), limits={"message_bytes": LIMIT})
    sent = b"".join(json.dumps(call).encode() + b"\n" for call in calls)
    done = subprocess.run(argv, input=sent, capture_output=True, timeout=SECONDS, check=False)
    (said,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (said["id"], said["error"]["data"]["reason"]) == (1, "upstream_too_large")
