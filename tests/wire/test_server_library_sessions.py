"""Session authorisation and verified approval answer two questions; neither stands in for the other (§4.11)."""

import http.client
import json

import pytest

from support.approval_peer import ERAS, HttpPeer, refusal, signed, text_of
from support.approval_server import guarded, running
from support.registry import requirement
from support.sessions import CONTENT
from support.table import rows

A = {"resourceId": "a"}


@pytest.fixture(scope="module")
def library():
    with running(server=guarded()) as server:
        yield server


def bearer(library, token, era="modern", user="alice"):
    return HttpPeer(library.url, era, x_user=user, authorization=f"Bearer {token}")


@rows("era", ERAS)
@requirement("VA-161")
def test_good_evidence_without_a_token_gets_401(library, era):
    name = f"alice-{era}"
    inside = bearer(library, "app:tools", era, name)
    key = inside.enrol(library.ticket(name))
    challenge = inside.challenge("delete_resource", A)
    evidence = signed(challenge, key)
    before = len(library.executed)
    message = inside.message("tools/call", {"name": "delete_resource", "arguments": A})
    message["params"].setdefault("_meta", {})["io.modelcontextprotocol/verified-approval"] = evidence
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "delete_resource"}
    if era == "handshake":
        headers = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": inside._session}
    for extra in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Bearer "}):
        host, _, path = library.url.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(host, timeout=20)
        connection.request("POST", f"/{path}", json.dumps(message), CONTENT | headers | extra | {"X-User": name})
        response = connection.getresponse()
        response.read()
        connection.close()
        assert response.status == 401
    assert library.executed[before:] == []
    # It was good all along.
    assert text_of(inside.call("delete_resource", A, evidence)) == "deleted a"


@rows("era", ERAS)
@rows(
    "token",
    [
        pytest.param("app:tools", marks=requirement("VA-162")),
        pytest.param("app:tools+admin+delete_resource+approve", marks=requirement("VA-163")),
    ],
)
def test_a_token_without_evidence_is_no_approval(library, era, token):
    peer = bearer(library, token, era)
    before = len(library.executed)
    assert refusal(peer.call("delete_resource", A)) == (-32001, "missing_evidence")
    assert library.executed[before:] == []
    assert text_of(peer.call("break_glass", {"pane": "n"})) == "broke n"


def test_a_message_that_cannot_be_read_is_not_read_for_strangers(library):
    """Who may not connect learns nothing else."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}'
    host, _, path = library.url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=20)
    connection.request("POST", f"/{path}", body, CONTENT | {"MCP-Protocol-Version": "2026-07-28"})
    assert connection.getresponse().status == 401
    connection.close()
