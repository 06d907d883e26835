"""A server that names a request by something no decoder takes: the message is dropped, its process is read on."""

import json

import pytest

from support.gateway import serving
from support.sessions import Session, events, modern, teller_argv
from support.table import rows

TOKENS = ['"\\ud800"', "1e999", "-1e999", "[[]]", "1.5", "true", "null", "{}"]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    command = teller_argv(tmp_path_factory.mktemp("teller"))
    with serving(tmp_path_factory.mktemp("gateway"), {"one": {"command": command}}) as gateway:
        yield gateway.url("one")


def naming(token: str) -> list[str]:
    meta = f'{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{token}}}}}'
    return [
        f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}',
        f'{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{meta}}}',
    ]


@rows("token", TOKENS)
def test_the_shared_process_goes_on(url, token):
    pid = json.loads(modern(url, "pid", 1).body)["result"]["pid"]
    got = events(modern(url, "emit", 2, before=naming(token)).body)
    assert got == [{"jsonrpc": "2.0", "id": 2, "result": {}}]
    assert json.loads(modern(url, "pid", 3).body)["result"]["pid"] == pid


@rows("token", TOKENS)
def test_a_session_goes_on(url, token):
    session = Session.start(url)
    assert session.call("emit", 2, before=naming(token)) == {}
    assert session.call("pid", 3)["pid"] == session.pid
    session.delete()
