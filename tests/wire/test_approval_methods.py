"""The three methods of SEP-2672 at the gateway, and calls with evidence: what goes over the wire, in both eras."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from callgate.approval.action import from_base64url
from callgate.protocol import CHALLENGE_CREATE, ENROLL_BEGIN, ENROLL_FINISH, TICKET
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.gateway import serving
from support.persons import MARK, ApprovalSite, approval_site, http_vault
from support.raw import ask
from support.registry import requirement
from support.sessions import Guest, events
from support.table import rows

ERAS = ("legacy", "modern")
SERVERS = ("web", "pipe")
both_eras = rows("era", ERAS)
both_servers = rows("server", SERVERS)
CEREMONY = {"extensions": {"verifiedApproval": {}}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    with approval_site(tmp_path_factory.mktemp("methods"), approval={"server_id": "urn:example:secret-id"}) as running:
        yield running


def guest(site: ApprovalSite, server: str, era: str) -> Guest:
    return Guest.arrive(site.gateway.url(server), era, **CEREMONY)


@pytest.fixture(scope="module")
def guests(site: ApprovalSite) -> dict[str, Guest]:
    """One client of each server, for calls that change nothing."""
    return {server: guest(site, server, "legacy") for server in SERVERS}


def reason(answer: dict) -> str:
    return answer["error"]["data"]["reason"]


def ran(answer: dict) -> str:
    return json.loads(answer["result"]["content"][0]["text"])["ran"]


@requirement("VA-017", "VA-048", "VA-049", "VA-051", "VA-054", "VA-058", "VA-059", "VA-061", "VA-063")
@both_eras
@both_servers
def test_a_challenge(site, server, era):
    client = guest(site, server, era)
    before = datetime.now(UTC)
    challenge = client.answer(CHALLENGE_CREATE, {"toolName": "wipe", "arguments": {"id": "abc", "n": 3}})["result"]
    assert set(challenge) == {"challengeId", "displayText", "expiresAt", "requestOptions"}
    assert "abc" in challenge["displayText"]
    assert "3" in challenge["displayText"]
    expires, second = datetime.fromisoformat(challenge["expiresAt"]), timedelta(seconds=1)
    assert before - second <= expires - timedelta(seconds=60) <= datetime.now(UTC) + second
    options = challenge["requestOptions"]
    assert len(from_base64url(options["challenge"])) == 64
    assert len(options["challenge"]) == 86
    assert (options["rpId"], options["userVerification"]) == ("localhost", "required")
    assert [one["type"] for one in options["allowCredentials"]] == ["public-key"]
    assert CHALLENGE_CREATE not in site.vault(server).methods()


@requirement("VA-048", "VA-075")
@both_eras
def test_no_arguments_are_an_empty_object(site, era):
    client = guest(site, "web", era)
    issued = client.answer(CHALLENGE_CREATE, {"toolName": "wipe"})["result"]
    params = {"name": "wipe", "arguments": {}, "_meta": {MARK: site.person.evidence(issued)}}
    assert ran(client.answer("tools/call", params)) == "wipe"
    issued = client.answer(CHALLENGE_CREATE, {"toolName": "wipe", "arguments": {}})["result"]
    assert ran(client.answer("tools/call", {"name": "wipe", "_meta": {MARK: site.person.evidence(issued)}})) == "wipe"


@requirement("VA-048", "VA-079", "VA-080", "VA-081", "VA-082", "VA-088")
@rows(
    "params",
    [
        b'{"toolName":"wipe","arguments":null}',
        b'{"toolName":"wipe","arguments":[]}',
        b'{"toolName":"wipe","arguments":"{}"}',
        b'{"toolName":"","arguments":{}}',
        b'{"toolName":7,"arguments":{}}',
        b'{"arguments":{}}',
        b"[]",
        b'{"toolName":"wipe","arguments":{"n":9007199254740992}}',
        b'{"toolName":"wipe","arguments":{"n":-9007199254740993}}',
        b'{"toolName":"wipe","arguments":{"n":NaN}}',
        b'{"toolName":"wipe","arguments":{"n":-Infinity}}',
        b'{"toolName":"wipe","arguments":{"n":1e999}}',
        b'{"toolName":"wipe","arguments":{"id":"a","id":"b"}}',
        b'{"toolName":"wipe","arguments":{"id":{"x":1,"\\u0078":2}}}',
        b'{"toolName":"wipe","arguments":{"id":"\\ud800"}}',
        b'{"toolName":"wipe","arguments":{"\\udc00":1}}',
        b'{"toolName":"wipe\\u0000x","arguments":{}}',
    ],
)
@both_servers
def test_what_cannot_be_signed_is_refused_before_it_is_hashed(guests, server, params):
    client = guests[server]
    body = b'{"jsonrpc":"2.0","id":4,"method":"approval/challenge/create","params":' + params + b"}"
    answer = json.loads(ask(client.url, body, client.headers("", {})).body)
    assert answer["error"]["code"] == -32602


@requirement("VA-052", "VA-138", "VA-152")
@rows("tool", ["look", "danger", "no such tool"])
@both_eras
@both_servers
def test_a_tool_that_needs_nobody_has_no_challenges(site, server, era, tool):
    answer = guest(site, server, era).answer(CHALLENGE_CREATE, {"toolName": tool, "arguments": {}})
    assert answer["error"]["code"] == -32001
    assert reason(answer) == "tool_not_approved_required"


@requirement("VA-053")
@both_eras
def test_arguments_that_the_schema_does_not_take_get_no_challenge(site, era):
    client = guest(site, "web", era)
    answer = client.answer(CHALLENGE_CREATE, {"toolName": "wipe", "arguments": {"id": 7}})
    assert answer["error"]["code"] == -32602
    assert reason(answer) == "arguments_invalid"


@requirement("VA-003", "VA-090", "VA-106", "VA-144")
@both_eras
@both_servers
def test_evidence_lets_one_call_through_and_never_reaches_the_server(site, server, era):
    client = guest(site, server, era)
    issued = client.answer(CHALLENGE_CREATE, {"toolName": "wipe", "arguments": {"id": f"{server}{era}"}})
    evidence = site.person.evidence(issued["result"])
    meta = {"dev.example/before": [1.50, "ü"], MARK: evidence, "dev.example/after": None}
    params = {"name": "wipe", "arguments": {"id": f"{server}{era}"}, "_meta": meta}
    answer = client.answer("tools/call", params)
    assert ran(answer) == "wipe"
    arrived = site.vault(server).calls[-1]["params"]
    assert arrived["arguments"] == params["arguments"]
    # Nor does what nobody saw or signed.
    assert {MARK, "dev.example/before", "dev.example/after"}.isdisjoint(arrived.get("_meta", {}))
    again = client.answer("tools/call", params)
    assert (again["error"]["code"], reason(again)) == (-32001, "challenge_consumed")
    assert "urn:example:secret-id" not in json.dumps([issued, answer, again])
    assert "urn:example:secret-id" not in json.dumps(site.vault(server).received)


@requirement("VA-128", "VA-151", "VA-169")
@both_eras
def test_changed_arguments_are_refused_and_burn_nothing(site, era):
    client = guest(site, "web", era)
    reached = len(site.vault("web").calls)
    issued = client.answer(CHALLENGE_CREATE, {"toolName": "wipe", "arguments": {"id": "mine"}})["result"]
    evidence = site.person.evidence(issued)
    changed = {"name": "wipe", "arguments": {"id": "yours"}, "_meta": {MARK: evidence}}
    assert reason(client.answer("tools/call", changed)) == "argument_hash_mismatch"
    other = {"name": "wipe_all", "arguments": {"id": "mine"}, "_meta": {MARK: evidence}}
    assert reason(client.answer("tools/call", other)) == "challenge_wrong_tool"
    assert len(site.vault("web").calls) == reached
    assert ran(client.answer("tools/call", changed | {"arguments": {"id": "mine"}})) == "wipe"


@requirement("VA-172")
@both_eras
def test_an_approval_for_one_server_is_none_for_another(site, era):
    web, pipe = guest(site, "web", era), guest(site, "pipe", era)
    issued = web.answer(CHALLENGE_CREATE, {"toolName": "wipe", "arguments": {"id": "1"}})["result"]
    params = {"name": "wipe", "arguments": {"id": "1"}, "_meta": {MARK: site.person.evidence(issued)}}
    assert reason(pipe.answer("tools/call", params)) == "argument_hash_mismatch"
    assert ran(web.answer("tools/call", params)) == "wipe"


@requirement("VA-024", "VA-025", "VA-026", "VA-036")
@both_eras
@both_servers
async def test_enrolling_over_the_wire_takes_a_ticket(site, server, era):
    client = guest(site, server, era)
    for params in ({}, {"user": "ann"}, {"_meta": {TICKET: "made up"}}, {"_meta": {TICKET: 7}}):
        refused = client.answer(ENROLL_BEGIN, params)
        assert (refused["error"]["code"], reason(refused)) == (-32602, "enrolment_not_authorised")
    name = f"new-{server}-{era}"
    ticket = await site.person.approvals.ticket(name, by="test")
    key = SoftwareAuthenticator("http://localhost:1")
    begun = client.answer(ENROLL_BEGIN, {"user": "ann", "options": 1, "_meta": {TICKET: ticket}})["result"]
    assert set(begun) == {"options"}
    assert begun["options"]["user"]["name"] == name
    again = client.answer(ENROLL_BEGIN, {"_meta": {TICKET: ticket}})
    assert reason(again) == "enrolment_not_authorised"
    response = key.create(begun["options"])
    done = client.answer(ENROLL_FINISH, {"response": response})["result"]
    assert set(done) == {"success", "credentialId", "createdAt"}
    assert done["success"] is True
    replay = client.answer(ENROLL_FINISH, {"response": response})
    assert (replay["error"]["code"], reason(replay)) == (-32001, "no_pending_enrollment")
    assert not [m for m in site.vault(server).methods() if m.startswith("approval/")]
    await site.person.approvals.shelf.remove_user(name)


@requirement("VA-029", "VA-153")
def test_first_use_lets_the_first_passkey_in_and_no_second(tmp_path):
    with http_vault(tmp_path / "web") as web:
        tables = {"web": {"url": web.url, "approval": {"tools": ["wipe"]}}}
        approval = {"first_use": True, "user": "ann"}
        with serving(tmp_path, tables, approval=approval) as gateway:
            client = Guest.arrive(gateway.url("web"), "legacy", **CEREMONY)
            nobody = client.answer(CHALLENGE_CREATE, {"toolName": "wipe"})
            assert (nobody["error"]["code"], reason(nobody)) == (-32001, "no_eligible_credential")
            key = SoftwareAuthenticator("http://localhost:1")
            begun = client.answer(ENROLL_BEGIN)["result"]
            assert begun["options"]["user"]["name"] == "ann"
            assert client.answer(ENROLL_FINISH, {"response": key.create(begun["options"])})["result"]["success"]
            assert reason(client.answer(ENROLL_BEGIN)) == "enrolment_not_authorised"
            issued = client.answer(CHALLENGE_CREATE, {"toolName": "wipe"})["result"]
            response = key.get(issued["requestOptions"])
            evidence = {"method": "webauthn", "challengeId": issued["challengeId"], "response": response}
            assert ran(client.answer("tools/call", {"name": "wipe", "_meta": {MARK: evidence}})) == "wipe"


@both_servers
def test_an_approval_method_without_an_id_goes_nowhere(site, server):
    client = guest(site, server, "legacy")
    body = b'{"jsonrpc":"2.0","method":"approval/enroll/begin"}'
    reply = ask(client.url, body, client.headers("", {}))
    assert events(reply.body)[0]["error"]["code"] == -32600
    assert ENROLL_BEGIN not in site.vault(server).methods()


@requirement("VA-091")
def test_a_challenge_outlives_a_restart(tmp_path):
    with approval_site(tmp_path) as site:
        signed = {}
        for era in ERAS:
            params = {"toolName": "wipe", "arguments": {"id": era}}
            issued = guest(site, "web", era).answer(CHALLENGE_CREATE, params)["result"]
            signed[era] = site.person.evidence(issued)
        site.gateway.stop()
        tables = {"web": {"url": site.vault("web").url, "approval": {"tools": ["wipe*"]}}}
        with serving(tmp_path, tables, reviewed=False) as gateway:
            for era in ERAS:
                later = Guest.arrive(gateway.url("web"), era, **CEREMONY)
                params = {"name": "wipe", "arguments": {"id": era}, "_meta": {MARK: signed[era]}}
                assert ran(later.answer("tools/call", params)) == "wipe"
