"""The whole ceremony against a server with verified approval: raw and by the official client, over HTTP and a pipe."""

import asyncio
import hashlib
import json
from datetime import datetime
from typing import Any

import psutil
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import Request
from pydantic import BaseModel, ConfigDict

from callgate.approval import ApprovalSettings
from callgate.approval.action import from_base64url
from callgate.canonical import canonical
from callgate.protocol import CHALLENGE_CREATE, ENROLL_BEGIN, ENROLL_FINISH, META, TICKET
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.approval_peer import ERAS, over_pipes, refusal, signed, text_of
from support.approval_server import argv, running, ticket
from support.registry import requirement
from support.table import rows

ABC = {"resourceId": "abc123"}


@pytest.fixture(scope="module")
def library():
    with running(server_id="https://files.example/mcp") as server:
        yield server


@pytest.fixture(scope="module", params=ERAS)
def alice(library, request):
    return library.join(f"alice-{request.param}", request.param)


@requirement("VA-003", "VA-072")
def test_a_signed_call_runs_once_and_gives_the_tools_own_result(library, alice):
    challenge = alice.challenge("delete_resource", ABC)
    evidence = alice.signs(challenge)
    consumed = []

    def look():
        stored = asyncio.run(library.shelf.challenge(challenge["challengeId"]))
        consumed.append(stored.consumed_at is not None)

    before = len(library.executed)
    library.runs.at_start = look
    try:
        answer = alice.call("delete_resource", ABC, evidence)
    finally:
        library.runs.at_start = lambda: None
    assert text_of(answer) == "deleted abc123"
    assert answer["result"]["structuredContent"] == {"result": "deleted abc123"}
    assert library.executed[before:] == [("delete_resource", "abc123")]
    # Verified and used up before the tool's first line.
    assert consumed == [True]


@requirement("VA-049", "VA-050", "VA-051", "VA-061")
def test_what_a_challenge_is_made_of(alice):
    before = datetime.now().astimezone()
    challenge = alice.challenge("delete_resource", ABC)
    assert challenge.keys() - {"resultType", "_meta"} == {"challengeId", "displayText", "expiresAt", "requestOptions"}
    options = challenge["requestOptions"]
    assert options.keys() == {"challenge", "rpId", "allowCredentials", "userVerification", "timeout"}
    assert (options["rpId"], options["userVerification"], options["timeout"]) == ("localhost", "required", 60000)
    assert len(from_base64url(challenge["challengeId"])) >= 16
    assert "abc123" not in challenge["challengeId"]
    ends = datetime.fromisoformat(challenge["expiresAt"])
    assert ends.tzinfo is not None
    assert ends > before


@requirement("VA-054", "VA-087")
def test_the_signed_bytes_are_a_nonce_and_the_action_hash(alice):
    for arguments in ({"resourceId": "abc123"}, {"resourceId": "ünï \U0001f600"}):
        text = alice.challenge("delete_resource", arguments)["requestOptions"]["challenge"]
        assert len(text) == 86
        raw = from_base64url(text)
        parts = (b"delete_resource", canonical(arguments), b"https://files.example/mcp")
        assert (len(raw), raw[32:]) == (64, hashlib.sha256(b"\0".join(parts)).digest())


@requirement("VA-056")
def test_no_nonce_comes_twice(library):
    asked = library.join("nonces")
    found = []
    for _ in range(100):
        challenge = asked.challenge("delete_resource", ABC)
        found.append(from_base64url(challenge["requestOptions"]["challenge"]))
        assert text_of(asked.call("delete_resource", ABC, asked.signs(challenge))) == "deleted abc123"
    assert len({raw[:32] for raw in found}) == 100
    assert len({raw[32:] for raw in found}) == 1


@requirement("VA-062")
def test_the_text_is_the_servers_and_follows_the_arguments(alice):
    texts = [alice.challenge("delete_resource", {"resourceId": one})["displayText"] for one in ("a1", "b2")]
    assert texts == ["Permanently delete resource a1", "Permanently delete resource b2"]
    params = {"toolName": "delete_resource", "arguments": ABC, "displayText": "Pet the cat", "describe": "nothing"}
    assert alice.peer.result(CHALLENGE_CREATE, params)["displayText"] == "Permanently delete resource abc123"


@requirement("VA-063")
def test_the_text_shows_every_leaf(alice):
    value = {"deep": [{"amount": 12345, "to": "carol"}, [True, None, 0.5]], "note": "für später"}
    text = alice.challenge("keep", {"value": value})["displayText"]
    for leaf in ("12345", "carol", "true", "null", "0.5", "für später", "deep", "amount", "note"):
        assert leaf in text, text
    assert text.startswith("Keep a value (keep)\n")


@requirement("VA-090")
def test_the_server_id_never_travels(library, alice):
    peer = alice.peer
    said = []
    send = peer.send

    def listen(message, method, name):
        answer = send(message, method, name)
        said.append(json.dumps(answer))
        return answer

    peer.send = listen
    try:
        alice.approves("delete_resource", ABC)
        alice.call("delete_resource", ABC)
        peer.ask("tools/list")
        peer.begin(library.ticket(alice.name))
        peer.begin("no ticket")
        peer.finish({})
        alice.refused("delete_resource", ABC, tamper_signature=True)
    finally:
        peer.send = send
    assert len(said) == 9
    assert not [text for text in said if "files.example" in text]


@requirement("VA-002", "VA-003")
def test_over_a_pipe_without_a_single_listening_socket(tmp_path):
    store = f"sqlite:///{tmp_path / 'approvals.db'}"
    with over_pipes(argv("stdio", store, tmp_path / "marks")) as peer:
        key = peer.enrol(ticket(store, "alice"))
        challenge = peer.challenge("delete_resource", ABC)
        assert text_of(peer.call("delete_resource", ABC, signed(challenge, key))) == "deleted abc123"
        # The wire is the protocol's alone: a tool neither reads from it nor writes to it.
        assert text_of(peer.call("overhear")) == "''"
        process = psutil.Process(peer.process.pid)
        family = [process, *process.children(recursive=True)]
        assert [one for each in family for one in each.net_connections() if one.status == psutil.CONN_LISTEN] == []
    assert (tmp_path / "marks").read_text() == '["delete_resource", "abc123"]\n'


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


async def ceremony(client: Client, key: SoftwareAuthenticator, allowed: str) -> Any:
    """With what the official client offers to anybody: its own requests, and `_meta`."""

    async def ask(method, params):
        answer = await client.session.send_request(Request[dict[str, Any], str](method=method, params=params), Anything)
        return answer.model_dump()

    begun = await ask(ENROLL_BEGIN, {"_meta": {TICKET: allowed}})
    await ask(ENROLL_FINISH, {"response": key.create(begun["options"])})
    challenge = await ask(CHALLENGE_CREATE, {"toolName": "delete_resource", "arguments": ABC})
    return await client.call_tool("delete_resource", ABC, meta={META: signed(challenge, key)})


@rows("mode", ["auto", "legacy"])
@requirement("VA-003", "VA-022")
async def test_the_official_client_over_http(library, mode):
    allowed = await library.approval.approvals.ticket("alice", by="operator")
    async with Client(library.url, mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("delete_resource", ABC)
        assert (caught.value.code, caught.value.data["reason"]) == (-32001, "missing_evidence")
        result = await ceremony(client, SoftwareAuthenticator(), allowed)
    assert result.content[0].text == "deleted abc123"


@requirement("VA-002")
async def test_the_official_client_over_a_pipe(tmp_path):
    store = f"sqlite:///{tmp_path / 'approvals.db'}"
    command, *words = argv("stdio", store, tmp_path / "marks")
    with (tmp_path / "errors").open("w") as errors:
        transport = stdio_client(StdioServerParameters(command=command, args=words), errlog=errors)
        async with Client(transport) as client:
            await client.list_tools()
            allowed = await asyncio.to_thread(ticket, store, "alice")
            result = await ceremony(client, SoftwareAuthenticator(), allowed)
    assert result.content[0].text == "deleted abc123"


@requirement("VA-133")
def test_a_tool_that_fails_is_a_tool_error_and_its_approval_is_gone(library, alice):
    challenge = alice.challenge("stumble", {"why": "no disk"})
    evidence = alice.signs(challenge)
    answer = alice.call("stumble", {"why": "no disk"}, evidence)
    assert answer["result"]["isError"] is True
    again = alice.call("stumble", {"why": "no disk"}, alice.signs(challenge))
    assert refusal(again) == (-32001, "challenge_consumed")
    assert [run for run in library.executed if run == ("stumble", "no disk")] != []


@requirement("VA-138", "VA-139", "VA-157")
def test_errors_have_the_shape_of_the_specification(alice):
    error = alice.call("delete_resource", ABC)["error"]
    assert error.keys() == {"code", "message", "data"}
    assert error["data"].keys() == {"reason", "advice"}
    assert (error["code"], error["data"]["reason"]) == (-32001, "missing_evidence")
    assert error["message"]


@requirement("VA-159", "VA-160")
def test_another_language_changes_the_message_and_nothing_else():
    def errors(locale):
        with running(settings=ApprovalSettings(locale=locale)) as server:
            peer = server.peer("nobody")
            asked = [
                peer.call("delete_resource", ABC),
                peer.ask(CHALLENGE_CREATE, {"toolName": "delete_resource", "arguments": ABC}),
                peer.ask(CHALLENGE_CREATE, {"toolName": "read_page", "arguments": {}}),
                peer.finish({}),
            ]
            return [one["error"] for one in asked]

    english, german = errors("en"), errors("de")
    assert [one["data"]["reason"] for one in english] == [
        "missing_evidence",
        "no_eligible_credential",
        "tool_not_approved_required",
        "verification_failed",
    ]
    for left, right in zip(english, german, strict=True):
        assert left["message"] != right["message"]
        assert (left["code"], left["data"]["reason"]) == (right["code"], right["data"]["reason"])
