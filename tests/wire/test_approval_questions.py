"""Questions of the gateway's own to a client (`elicitation/create`), and whose answers are heard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.gateway import Gateway, serving
from support.persons import ApprovalSite, approval_site
from support.raw import ask, streaming
from support.sessions import Guest, until
from support.states import OPENS_URLS, modern_guest, reason, retry, state_for
from support.table import rows

both_servers = rows("server", ["web", "pipe"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    with approval_site(tmp_path_factory.mktemp("questions")) as running:
        yield running


class Stream:
    """The stream of a call, message by message."""

    def __init__(self, response) -> None:
        self._response = response

    def read(self) -> dict:
        for line in self._response:
            if line.startswith(b"data: "):
                return json.loads(line.removeprefix(b"data: "))
        raise AssertionError("the stream ended")


@contextmanager
def asked(client: Guest, identity: str) -> Iterator[tuple[Stream, dict]]:
    """A call that waits, and the question that its client got."""
    params = {"name": "wipe", "arguments": {"id": identity}}
    with streaming(client.url, client.body("tools/call", params), client.headers("tools/call", params)) as response:
        stream = Stream(response)
        question = stream.read()
        assert question["method"] == "elicitation/create"
        assert set(question["params"]) == {"mode", "message", "url", "elicitationId"}
        yield stream, question


def respond(client: Guest, rpc_id: object, url: str | None = None, **body: object) -> int:
    whole = json.dumps({"jsonrpc": "2.0", "id": rpc_id} | body).encode()
    return ask(url or client.url, whole, client.headers("", {})).status


def arrive(site: ApprovalSite, server: str) -> Guest:
    return Guest.arrive(site.gateway.url(server), "legacy", **OPENS_URLS)


DECLINED = {"result": {"action": "decline"}}


@both_servers
async def test_an_answer_of_another_session_is_not_heard(site, server):
    client, stranger = arrive(site, server), arrive(site, server)
    with asked(client, f"{server} stranger") as (stream, question):
        assert respond(stranger, question["id"], **DECLINED) == 202
        assert respond(stranger, question["id"], error={"code": -1, "message": "no"}) == 202
        request = await site.person.waiting_for(f"{server} stranger")
        await site.person.approve(request)
        cancelled, complete, answer = [await asyncio.to_thread(stream.read) for _ in range(3)]
    assert cancelled["params"] == {"requestId": question["id"]}
    assert complete["params"] == {"elicitationId": request.id}
    assert "result" in answer
    assert "response" not in site.vault(server).methods()


@both_servers
async def test_an_answer_that_comes_late_goes_nowhere(site, server):
    client = arrive(site, server)
    with asked(client, f"{server} late") as (stream, question):
        assert respond(client, question["id"], **DECLINED) == 202
        assert stream.read()["method"] == "notifications/elicitation/complete"
        assert reason(stream.read()) == "approval_refused"
    for body in (DECLINED, {"result": {"action": "accept"}}, {"error": {"code": -1, "message": "?"}}):
        assert respond(client, question["id"], **body) == 202
    assert "response" not in site.vault(server).methods()


@both_servers
def test_an_answer_to_a_question_of_the_servers_own_passes(site, server):
    client = arrive(site, server)
    for rpc_id in ("callgate-1234", 77, "callgate-00000000.e30.e30"):
        assert respond(client, rpc_id, result={}) == 202
        passed = {"jsonrpc": "2.0", "id": rpc_id, "result": {}}
        until(lambda passed=passed: site.vault(server).received[-1] == passed)


@both_servers
async def test_a_client_that_cannot_after_all_is_kept_waiting_like_others(site, server):
    client = arrive(site, server)
    with asked(client, f"{server} error") as (stream, question):
        assert respond(client, question["id"], error={"code": -32601, "message": "no such method"}) == 202
        await site.person.approve(await site.person.waiting_for(f"{server} error"))
        complete, answer = [await asyncio.to_thread(stream.read) for _ in range(2)]
    assert complete["method"] == "notifications/elicitation/complete"
    assert "result" in answer


@both_servers
def test_each_question_has_an_id_of_its_own_that_nobody_can_guess(site, server):
    client = arrive(site, server)
    ids = set()
    for _ in range(5):
        with asked(client, f"{server} ids") as (_stream, question):
            ids.add(question["id"])
    assert len(ids) == 5
    (some, *_) = ids
    assert len(some.split(".")[2]) == 43  # 32 bytes of seal


def test_an_answer_to_the_gateway_is_not_taken_in_a_batch(site):
    client = arrive(site, "web")
    with asked(client, "batched") as (stream, question):
        batch = [
            {"jsonrpc": "2.0", "id": question["id"], **DECLINED},
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        ]
        reply = ask(client.url, json.dumps(batch).encode(), client.headers("", {}))
        assert reply.status == 400
        assert respond(client, question["id"], **DECLINED) == 202
        assert stream.read()["method"] == "notifications/elicitation/complete"
    assert "notifications/roots/list_changed" not in site.vault("web").methods()


@contextmanager
def second(site: ApprovalSite, tmp_path: Path) -> Iterator[Gateway]:
    """Another gateway of the same deployment: the same store, the same keys."""
    tables = {"web": {"url": site.vault("web").url, "approval": {"tools": ["wipe*"]}}}
    store = {"url": f"sqlite:///{site.gateway.store}", "keys_dir": str(site.directory / "keys")}
    with serving(tmp_path, tables, store=store) as gateway:
        yield gateway


def test_an_answer_reaches_a_call_that_waits_in_another_process(site, tmp_path):
    client = arrive(site, "web")
    with second(site, tmp_path) as other, asked(client, "elsewhere") as (stream, question):
        assert respond(client, question["id"], other.url("web"), **DECLINED) == 202
        cancelled, complete, answer = stream.read(), stream.read(), stream.read()
    assert cancelled["method"] == "notifications/cancelled"
    assert complete["method"] == "notifications/elicitation/complete"
    assert reason(answer) == "approval_refused"


async def test_a_state_is_good_in_every_process_of_the_deployment(site, tmp_path):
    client = modern_guest(site)
    state = state_for(client, id="somewhere")
    await site.person.approve(await site.person.waiting_for("somewhere"))
    with second(site, tmp_path) as other:
        elsewhere = Guest(other.url("web"), OPENS_URLS)
        assert "content" in (await asyncio.to_thread(retry, elsewhere, state, id="somewhere"))["result"]
    assert reason(await asyncio.to_thread(retry, client, state, id="somewhere")) == "request_state_invalid"
