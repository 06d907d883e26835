"""Which tools need a person, who verifies it, and what clients are told of that."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.gateway import HARMLESS, Gateway, serving
from support.persons import MARK, ApprovalSite, VaultServer, approval_site, http_vault, vault_at
from support.raw import ask, json_answer, raw_server
from support.registry import requirement
from support.sessions import Guest, message
from support.table import rows
from support.vault import TOOLS

ERAS = ("legacy", "modern")
SERVERS = ("web", "pipe")
NAMES = ("verifiedApproval", MARK)

both_eras = rows("era", ERAS)
both_servers = rows("server", SERVERS)

# A client that does the ceremony is answered at once, so that nothing here has to wait for a person.
CEREMONY = {"extensions": {MARK: {}}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    with approval_site(tmp_path_factory.mktemp("marks")) as running:
        yield running


@pytest.fixture(scope="module")
def capable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    """Vaults that verify approvals by themselves."""
    with approval_site(tmp_path_factory.mktemp("capable"), "capable") as running:
        yield running


@dataclass(frozen=True)
class Vaults:
    """A gateway, and the vaults behind it."""

    gateway: Gateway
    vaults: dict[str, VaultServer]


def guest(site: ApprovalSite, server: str, era: str) -> Guest:
    return Guest.arrive(site.gateway.url(server), era, **CEREMONY)


def reason(answer: dict) -> str:
    return answer["error"]["data"]["reason"]


def greeting(site: ApprovalSite, server: str, era: str) -> dict:
    if era == "modern":
        return guest(site, server, era).answer("server/discover")["result"]
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw"}}
    return json.loads(ask(site.gateway.url(server), message("initialize", hello, 0)).body)["result"]


@requirement("VA-012", "VA-013", "VA-014")
@both_eras
@both_servers
def test_the_greeting_declares_the_capability_under_both_names(site, server, era):
    capabilities = greeting(site, server, era)["capabilities"]
    assert capabilities == {"tools": {"listChanged": True}, "extensions": {name: {} for name in NAMES}}


@requirement("VA-015")
@both_eras
@both_servers
def test_what_the_server_says_of_the_capability_stays(capable, server, era):
    extensions = greeting(capable, server, era)["capabilities"]["extensions"]
    assert extensions == {name: {"later": True} for name in NAMES}


@requirement("VA-004", "VA-005", "VA-010", "VA-165", "VA-166")
@both_eras
@both_servers
def test_the_list_marks_the_operators_tools_and_leaves_the_rest(site, server, era):
    listed = {tool["name"]: tool for tool in guest(site, server, era).answer("tools/list")["result"]["tools"]}
    for tool in TOOLS:
        if tool["name"] in ("wipe", "wipe_all", "quiz"):
            mark = {"required": "verified", "authenticatorClass": "platform"}
            assert listed[tool["name"]] == tool | {"_meta": tool.get("_meta", {}) | {MARK: mark}}
        else:
            assert listed[tool["name"]] == tool


@requirement("VA-001", "VA-009", "VA-165")
@both_eras
@both_servers
def test_hints_neither_ask_for_a_person_nor_spare_one(site, server, era):
    client = guest(site, server, era)
    assert json.loads(client.call("danger", id="1")["result"]["content"][0]["text"])["ran"] == "danger"
    assert json.loads(client.call("look", id="1")["result"]["content"][0]["text"])["ran"] == "look"
    assert reason(client.call("wipe", id="1")) == "missing_evidence"
    assert not [call for call in site.vault(server).calls if call["params"]["name"] == "wipe"]


@requirement("VA-022", "VA-162", "VA-167", "VA-168")
@both_eras
@both_servers
def test_a_tool_that_the_server_marks_needs_a_person(site, server, era):
    client = guest(site, server, era)
    for made_up in (None, True, {}, {"method": "webauthn", "challengeId": "x", "response": {}}):
        params = {"name": "pay", "arguments": {"id": "1"}, "_meta": {MARK: made_up}}
        answer = client.answer("tools/call", params)
        assert answer["error"]["code"] == -32001
        assert reason(answer) == "missing_evidence"
    assert not [call for call in site.vault(server).calls if call["params"]["name"] == "pay"]


@requirement("VA-006", "VA-008")
@rows(("tool", "what"), [("odd", "required"), ("classy", "authenticatorClass")])
@both_eras
@both_servers
def test_a_mark_that_nobody_can_read_closes_the_tool(site, server, era, tool, what):
    client = guest(site, server, era)
    for answer in (
        client.call(tool, id="1"),
        client.answer("approval/challenge/create", {"toolName": tool, "arguments": {"id": "1"}}),
    ):
        assert reason(answer) == "approval_unavailable"
        assert what in answer["error"]["message"]
    assert not [call for call in site.vault(server).calls if call["params"]["name"] == tool]


@requirement("VA-007", "VA-095", "VA-099")
@both_eras
async def test_a_mark_without_a_class_takes_what_works_from_another_device(site, era):
    approvals = site.person.approvals
    held = await approvals.shelf.credentials("ann")
    if all(one.transports != ("internal",) for one in held):
        built_in = SoftwareAuthenticator("http://localhost:8700", transports=("internal",))
        begun = await approvals.begin_enrolment(await approvals.ticket("ann", by="test"))
        await approvals.finish_enrolment(built_in.create(begun["options"]))
    client = guest(site, "web", era)
    for tool, taken in (("pay", {"usb"}), ("pay_here", {"usb", "internal"})):
        result = client.answer("approval/challenge/create", {"toolName": tool, "arguments": {}})["result"]
        allowed = result["requestOptions"]["allowCredentials"]
        assert {transport for one in allowed for transport in one["transports"]} == taken


@contextmanager
def both_vaults(directory: Path, *options: str, approval: dict, **sections: Any) -> Iterator[Vaults]:
    """A gateway in front of a vault over HTTP and one over stdio, without people."""
    with http_vault(directory / "web", *options) as web:
        pipe = vault_at(directory / "pipe", *options)
        tables = {
            "web": {"url": web.url, "trust": HARMLESS},
            "pipe": {"command": pipe.argv, "trust": HARMLESS},
            "taken": {"url": web.url, "trust": HARMLESS, "approval": {"verifier": "gateway"}},
        }
        with serving(directory, tables, approval=approval, **sections) as gateway:
            yield Vaults(gateway, {"web": web, "pipe": pipe, "taken": web})


@rows("options", [("paged", "spaced"), ("events",)])
def test_a_list_that_nobody_asked_for_is_asked_for_before_the_first_call(tmp_path, options):
    with both_vaults(tmp_path, *options, approval={"enabled": True}) as site:
        for server, era in itertools.product(SERVERS, ERAS):
            vault = site.vaults[server]
            before, reached = len(vault.received), len(vault.calls)
            client = Guest.arrive(site.gateway.url(server), era, **CEREMONY)
            assert reason(client.call("pay_here", id="1")) == "missing_evidence"
            assert "result" in client.call("look", id="1")
            assert reason(client.call("no such tool", id="1")) == "tool_unknown"
            assert [call["params"]["name"] for call in vault.calls[reached:]] == ["look"]
            if era == "legacy":
                # A session of its own, so that nothing that others were shown counts.
                asked = [one for one in vault.received[before:] if one.get("method") == "tools/list"]
                assert asked
                assert len(asked) % (len(TOOLS) if "paged" in options else 1) == 0


def test_a_list_that_has_changed_is_asked_for_again(tmp_path):
    with both_vaults(tmp_path, "events", approval={"enabled": True}) as site:
        for server, era in (("web", "legacy"), ("pipe", "modern")):
            client = Guest.arrive(site.gateway.url(server), era, **CEREMONY)
            assert "result" in client.call("look", id="1")
            assert "result" in client.call("grow")
            assert reason(client.call("look", id="1")) == "missing_evidence"
            assert reason(client.call("pay", id="1")) == "missing_evidence"


def test_a_server_that_does_not_say_what_it_has_is_not_called(tmp_path):
    limits = {"check_seconds": 1}
    with both_vaults(tmp_path, "mute", approval={"enabled": True}, limits=limits, reviewed=False) as site:
        for server in SERVERS:
            client = Guest.arrive(site.gateway.url(server), "legacy")
            assert reason(client.call("look", id="1")) == "check_timeout"
            assert site.vaults[server].calls == []


@requirement("VA-016")
def test_a_server_without_a_list_has_no_marked_tools(tmp_path):
    with both_vaults(tmp_path, "listless", approval={"enabled": True}, reviewed=False) as site:
        for server, era in itertools.product(SERVERS, ERAS):
            client = Guest.arrive(site.gateway.url(server), era)
            # What nobody could review is not called either.
            assert reason(client.call("look", id="1")) == "tool_unknown"
            answer = client.answer("approval/challenge/create", {"toolName": "look", "arguments": {}})
            assert answer["error"]["code"] == -32001
            assert reason(answer) == "tool_not_approved_required"


@requirement("VA-023")
def test_without_approval_everything_is_the_servers_business(tmp_path):
    with http_vault(tmp_path / "web") as web:
        pipe = vault_at(tmp_path / "pipe")
        tables = {"web": {"url": web.url}, "pipe": {"command": pipe.argv}}
        off = {"trust": "with it people may be asked, and the gateway answers these methods itself"}
        with serving(tmp_path, tables, off=off) as gateway:
            for server, era in itertools.product(SERVERS, ERAS):
                client = Guest.arrive(gateway.url(server), era)
                for method in ("approval/enroll/begin", "approval/enroll/finish", "approval/challenge/create"):
                    answer = client.answer(method, {"toolName": "pay", "arguments": {}})
                    assert answer["error"]["code"] == -32601
                evidence = {"name": "pay", "arguments": {}, "_meta": {MARK: {"method": "webauthn"}}}
                assert "result" in client.answer("tools/call", evidence)
                vault = {"web": web, "pipe": pipe}[server]
                assert vault.calls[-1]["params"]["_meta"][MARK] == {"method": "webauthn"}


@pytest.fixture(scope="module")
def verifying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vaults]:
    with both_vaults(tmp_path_factory.mktemp("verifying"), "capable", approval={"enabled": True}) as running:
        yield running


@requirement("VA-018")
@both_eras
@both_servers
def test_a_server_that_verifies_by_itself_gets_evidence_and_methods_untouched(verifying, server, era):
    client = Guest.arrive(verifying.gateway.url(server), era)
    vault = verifying.vaults[server]
    evidence = {"method": "webauthn", "challengeId": "theirs", "response": {"id": "x"}}
    params = {"name": "pay", "arguments": {"id": "1"}, "_meta": {MARK: evidence, "dev.example/mine": 1}}
    assert "result" in client.answer("tools/call", params)
    assert vault.calls[-1]["params"]["_meta"].items() >= params["_meta"].items()
    for method in ("approval/challenge/create", "approval/enroll/begin", "approval/enroll/finish"):
        assert client.answer(method, {"toolName": "pay", "arguments": {}})["error"]["code"] == -32601
        assert vault.methods()[-1] == method


@both_eras
def test_the_operator_can_take_the_verifying_from_a_server(verifying, era):
    client = Guest.arrive(verifying.gateway.url("taken"), era, **CEREMONY)
    params = {"name": "pay", "arguments": {}, "_meta": {MARK: {"method": "theirs"}}}
    assert reason(client.answer("tools/call", params)) == "missing_evidence"
    looked = {"name": "look", "arguments": {}, "_meta": {MARK: {"method": "theirs"}}}
    assert "result" in client.answer("tools/call", looked)
    assert MARK not in verifying.vaults["taken"].calls[-1]["params"].get("_meta", {})


@both_eras
@both_servers
def test_the_operators_tools_of_such_a_server_are_the_gateways_business(capable, server, era):
    client = guest(capable, server, era)
    vault = capable.vault(server)
    assert reason(client.call("wipe", id="1")) == "missing_evidence"
    issued = client.answer("approval/challenge/create", {"toolName": "wipe", "arguments": {"id": "1"}})["result"]
    evidence = capable.person.evidence(issued)
    params = {"name": "wipe", "arguments": {"id": "1"}, "_meta": {MARK: evidence, "dev.example/mine": 1}}
    assert "result" in client.answer("tools/call", params)
    assert {MARK, "dev.example/mine"}.isdisjoint(vault.calls[-1]["params"].get("_meta", {}))
    # What it marks itself is its own to verify.
    assert client.answer("approval/challenge/create", {"toolName": "pay", "arguments": {}})["error"]["code"] == -32601
    assert "result" in client.answer("tools/call", {"name": "pay", "arguments": {}, "_meta": {MARK: evidence}})
    assert vault.calls[-1]["params"]["_meta"][MARK] == evidence


@requirement("VA-176")
@rows("strict", [False, True])
def test_a_default_in_the_schema_of_a_gated_tool(tmp_path, strict):
    entry = {"name": "t", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}}
    with raw_server() as server:

        def script(request, connection):
            asked = json.loads(request.body)
            listed = asked["method"] == "tools/list"
            result = {"tools": [entry]} if listed else {"content": []}
            reply = {"jsonrpc": "2.0", "id": asked.get("id"), "result": result}
            json_answer(json.dumps(reply).encode())(request, connection)

        server.script = script
        tables = {"raw": {"url": server.url, "approval": {"tools": ["t"]}}}
        with serving(tmp_path, tables, approval={"strict_defaults": strict}) as gateway:
            answer = Guest(gateway.url("raw"), CEREMONY).call("t")
            assert reason(answer) == ("approval_unavailable" if strict else "missing_evidence")
            if strict:
                assert "default" in answer["error"]["message"]
            else:
                told = gateway.wait_for("approval of this tool may not work as meant")
                assert (told["server"], told["tool"]) == ("raw", "t")
