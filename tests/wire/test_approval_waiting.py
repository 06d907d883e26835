"""Calls that wait: what ends the wait, what is left of it, and whom it does not hold up."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from callgate.store import Block, set_block
from support.gateway import HARMLESS, serving, write_config
from support.hostile import hostile_server
from support.persons import MARK, ApprovalSite, approval_site, http_vault, person_at
from support.raw import SECONDS, ask, piped, streaming
from support.registry import requirement
from support.sessions import Guest, events, until
from support.states import modern_guest, retry
from support.table import rows

both_eras = rows("era", ["legacy", "modern"])
both_servers = rows("server", ["web", "pipe"])
each_once = rows(("server", "era"), [("web", "legacy"), ("pipe", "modern")])
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    """Waiting ends soon: what is left then is what these tests look at."""
    with approval_site(tmp_path_factory.mktemp("short"), approval={"park_seconds": 0.1}) as running:
        yield running


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    """Waiting does not end by itself. No test stops this one, and each calls with an id of its own."""
    with approval_site(tmp_path_factory.mktemp("patient")) as running:
        yield running


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    """Servers that answer with streams."""
    directory = tmp_path_factory.mktemp("talkative")
    with approval_site(directory, "events", servers_approval={"tools": ["grow"]}) as running:
        yield running


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSite]:
    """Nobody is asked about more than three calls of one caller."""
    approval = {"park_seconds": 0, "pending_per_user": 3}
    with approval_site(tmp_path_factory.mktemp("small"), approval=approval) as running:
        yield running


def fresh() -> str:
    return f"r{next(_numbers)}"


def arrivals(site: ApprovalSite, server: str, identity: str) -> int:
    """How many calls with this argument reached the server."""
    return sum(call["params"]["arguments"].get("id") == identity for call in site.vault(server).calls)


def reason(answer: dict) -> str:
    return answer["error"]["data"]["reason"]


def id_of(answer: dict) -> int:
    return answer["id"]


def ran(answer: dict) -> str:
    return json.loads(answer["result"]["content"][0]["text"])["ran"]


async def aside(work, *arguments, **named):
    return await asyncio.to_thread(lambda: work(*arguments, **named))


@requirement("VA-022", "VA-137", "VA-157")
@both_eras
@both_servers
async def test_the_error_names_the_page_and_an_approval_lets_the_same_call_through_once(site, server, era):
    client = Guest.arrive(site.gateway.url(server), era)
    vault = site.vault(server)
    before = len(vault.calls)
    identity = fresh()
    arguments = {"id": identity, "n": 1}
    told = await aside(client.call, "wipe", **arguments)
    assert told["error"]["code"] == -32001
    assert reason(told) == "missing_evidence"
    page = told["error"]["data"]["approval"]
    request = await site.person.waiting_for(identity)
    assert page["request"] == request.id
    assert page["url"] == f"http://localhost:{site.gateway.port}/approve/{request.id}"
    assert page["url"] in told["error"]["message"]
    assert "same call" in told["error"]["data"]["advice"]
    assert page["expiresAt"].endswith("Z")

    await site.person.approve(request)
    other = await aside(client.call, "wipe", **arguments | {"n": 2})
    assert reason(other) == "missing_evidence"
    assert other["error"]["data"]["approval"]["request"] != request.id
    assert len(vault.calls) == before
    # The same arguments in another order and spelling are the same call.
    spelt = {"n": 1.0, "id": arguments["id"]}
    assert ran(await aside(client.call, "wipe", **spelt)) == "wipe"
    assert len(vault.calls) == before + 1
    again = await aside(client.call, "wipe", **arguments)
    assert reason(again) == "missing_evidence"
    assert again["error"]["data"]["approval"]["request"] != request.id
    assert len(vault.calls) == before + 1


@both_servers
async def test_an_approval_is_for_the_session_that_asked(site, server):
    one, other = (Guest.arrive(site.gateway.url(server), "legacy") for _ in range(2))
    identity = fresh()
    assert reason(await aside(one.call, "wipe", id=identity)) == "missing_evidence"
    await site.person.approve(await site.person.waiting_for(identity))
    assert reason(await aside(other.call, "wipe", id=identity)) == "missing_evidence"
    assert arrivals(site, server, identity) == 0
    assert ran(await aside(one.call, "wipe", id=identity)) == "wipe"


async def test_a_modern_client_that_comes_back_too_early_is_asked_to_come_back(site):
    client = modern_guest(site)
    first = client.call("wipe", id="early")["result"]
    again = (await asyncio.to_thread(retry, client, first["requestState"], id="early"))["result"]
    assert set(again) == {"resultType", "requestState"}
    assert again["requestState"] != first["requestState"]
    await site.person.approve(await site.person.waiting_for("early"))
    assert "content" in (await asyncio.to_thread(retry, client, again["requestState"], id="early"))["result"]


@contextlib.contextmanager
def parked(client: Guest, identity: str, rpc_id: int = 1) -> Iterator[http.client.HTTPResponse]:
    """The stream of a call that waits for a person by now."""
    params = {"name": "wipe", "arguments": {"id": identity}}
    body, headers = client.body("tools/call", params, rpc_id), client.headers("tools/call", params)
    with streaming(client.url, body, headers) as response:
        assert response.status == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.read1() == b": waiting for a person\n\n"
        yield response


@both_eras
async def test_calls_that_wait_together_share_an_approval_that_lets_one_through(patient, era):
    client, identity = Guest.arrive(patient.gateway.url("web"), era), fresh()
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(parked(client, identity, number)) for number in range(5)]
        request = await patient.person.waiting_for(identity)
        assert [one.id for one in await patient.person.open_requests()] == [request.id]
        await patient.person.approve(request)
        answers = [events(await aside(one.read))[-1] for one in streams]
    assert sum("result" in answer for answer in answers) == 1
    assert {reason(answer) for answer in answers if "error" in answer} == {"approval_expired"}
    assert arrivals(patient, "web", identity) == 1


@both_eras
async def test_the_record_of_the_call_holds_the_approval(patient, era):
    client, identity = Guest.arrive(patient.gateway.url("web"), era), fresh()
    task = asyncio.create_task(aside(client.call, "wipe", id=identity))
    request = await patient.person.approve(await patient.person.waiting_for(identity))
    assert ran(await task) == "wipe"
    used = await patient.person.approvals.shelf.request(request.id)
    assert used.state == "used"
    (record,) = [one for one in patient.decisions if one["call"] == used.call]
    approval = record["extra"]["approval"]
    assert (record["verdict"], approval["request"], approval["user"]) == ("allow", request.id, "ann")
    assert approval["credential"] == (await patient.person.approvals.shelf.credentials("ann"))[0].id
    assert approval["assertion"]["signature"]


@both_eras
@both_servers
async def test_a_client_that_leaves_ends_the_wait_and_finds_its_request_again(patient, server, era):
    client, identity = Guest.arrive(patient.gateway.url(server), era), fresh()
    before = len(patient.decisions)
    with parked(client, identity):
        request = await patient.person.waiting_for(identity)
    until(lambda: len(patient.decisions) > before)
    assert patient.decisions[before]["verdict"] == "refuse"
    await patient.person.approve(request)
    assert ran(await aside(client.call, "wipe", id=identity)) == "wipe"
    assert arrivals(patient, server, identity) == 1


@both_servers
async def test_a_call_that_is_taken_back_gets_no_answer(patient, server):
    client, identity = Guest.arrive(patient.gateway.url(server), "legacy"), fresh()
    cancel = {"requestId": 7, "reason": "changed my mind"}
    with parked(client, identity, 7) as stream:
        await patient.person.waiting_for(identity)
        assert client.request("notifications/cancelled", cancel, None).status == 202
        assert events(await aside(stream.read)) == []
    assert cancel not in cancellations(patient, server)
    assert arrivals(patient, server, identity) == 0


@both_servers
async def test_nobody_takes_back_the_call_of_another(patient, server):
    client, identity = Guest.arrive(patient.gateway.url(server), "legacy"), fresh()
    with parked(client, identity, 8) as stream:
        request = await patient.person.waiting_for(identity)
        stranger = Guest.arrive(patient.gateway.url(server), "legacy")
        assert stranger.request("notifications/cancelled", {"requestId": 8}, None).status == 202
        # Nor is the text of a number that number.
        assert client.request("notifications/cancelled", {"requestId": "8"}, None).status == 202
        # They have been dealt with: both are at the server.
        until(lambda: {8, "8"} <= {one["requestId"] for one in cancellations(patient, server)})
        await patient.person.approve(request)
        assert ran(events(await aside(stream.read))[-1]) == "wipe"


def cancellations(site: ApprovalSite, server: str) -> list[dict]:
    return [one["params"] for one in site.vault(server).received if one.get("method") == "notifications/cancelled"]


@each_once
async def test_the_kill_switch_ends_every_wait(patient, server, era):
    client, identity = Guest.arrive(patient.gateway.url(server), era), fresh()
    task = asyncio.create_task(aside(client.call, "wipe", id=identity))
    request = await patient.person.waiting_for(identity)
    set_block(patient.store, Block(on=True, at=1, by="test"), None)
    try:
        assert reason(await task) == "blocked_by_policy"
        # What is approved while it is on stays unused.
        await patient.person.approve(request)
        assert reason(await aside(client.call, "wipe", id=identity)) == "blocked_by_policy"
        assert arrivals(patient, server, identity) == 0
    finally:
        set_block(patient.store, Block(on=False, at=2, by="test"), None)
    until(lambda: "result" in client.call("look"))
    assert ran(await aside(client.call, "wipe", id=identity)) == "wipe"


def test_a_gateway_that_stops_says_so_to_who_waits(tmp_path):
    with approval_site(tmp_path) as site:
        old, new = (Guest.arrive(site.gateway.url("web"), era) for era in ("legacy", "modern"))
        with parked(old, "x") as one, parked(new, "y") as two:
            assert site.gateway.stop() == 0
            assert [reason(events(stream.read())[-1]) for stream in (one, two)] == ["shutting_down"] * 2
        assert site.vault("web").calls == []


@both_eras
@both_servers
async def test_what_the_server_streams_follows_on_the_stream_that_is_open(talkative, server, era):
    client = Guest.arrive(talkative.gateway.url(server), era)
    params = {"name": "grow", "arguments": {}, "_meta": {"progressToken": 5}}
    task = asyncio.create_task(aside(client.request, "tools/call", params, 3))
    await talkative.person.approve()
    reply = await task
    progress, *rest = events(reply.body)
    assert progress["method"] == "notifications/progress"
    methods = [message.get("method") for message in rest if message.get("method") != "notifications/progress"]
    assert methods == ["notifications/tools/list_changed", None]
    assert (rest[-1]["id"], ran(rest[-1])) == (3, "grow")


async def test_an_answer_of_the_server_that_is_no_reply_becomes_an_error_on_the_open_stream(tmp_path):
    def page(peer, _request):
        peer.send(b"HTTP/1.1 503 Busy\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\nsorry!")

    with hostile_server({"wipe": page}) as upstream:
        async with person_at(tmp_path) as person:
            tables = {"one": {"url": upstream.url, "approval": {"tools": ["wipe"]}}}
            with serving(tmp_path, tables) as gateway:
                client = Guest(gateway.url("one"), {})
                task = asyncio.create_task(aside(client.request, "tools/call", {"name": "wipe", "arguments": {}}, 9))
                await person.approve()
                reply = await task
    assert reply.status == 200
    (answer,) = events(reply.body)
    assert (answer["id"], reason(answer)) == (9, "upstream_garbage")
    assert "503" in answer["error"]["message"]


@both_eras
async def test_a_client_that_takes_no_stream_is_answered_as_it_can_be(patient, era):
    client, identity = Guest.arrive(patient.gateway.url("pipe"), era), fresh()
    params = {"name": "wipe", "arguments": {"id": identity}}
    headers = client.headers("tools/call", params) | {"Accept": "application/json"}
    task = asyncio.create_task(aside(ask, client.url, client.body("tools/call", params), headers))
    await patient.person.approve(await patient.person.waiting_for(identity))
    reply = await task
    assert reply.header("content-type") == "application/json"
    assert ran(json.loads(reply.body)) == "wipe"


def test_nobody_to_ask_is_said_with_what_to_do(tmp_path):
    with http_vault(tmp_path / "web") as web:
        tables = {"web": {"url": web.url, "approval": {"tools": ["wipe"]}}}
        with serving(tmp_path, tables, approval={"user": "ann"}) as gateway:
            told = Guest(gateway.url("web"), {}).call("wipe", id="1")
            assert reason(told) == "approval_unavailable"
            assert "`callgate enroll ann`" in told["error"]["data"]["advice"]
            assert web.calls == []


async def test_with_several_people_one_has_to_be_named(tmp_path):
    with http_vault(tmp_path / "web") as web:
        table = {"url": web.url, "approval": {"tools": ["wipe"]}}
        async with person_at(tmp_path, "ann"), person_at(tmp_path, "ben") as ben:
            with serving(tmp_path, {"web": table}) as gateway:
                told = await aside(Guest(gateway.url("web"), {}).call, "wipe", id="1")
                assert reason(told) == "approval_unavailable"
                assert "ann, ben" in told["error"]["data"]["advice"]
            named = table | {"approval": {"tools": ["wipe"], "user": "ben"}}
            with serving(tmp_path, {"web": named}) as gateway:
                task = asyncio.create_task(aside(Guest(gateway.url("web"), {}).call, "wipe", id="1"))
                await ben.approve()
                assert ran(await task) == "wipe"


async def test_somebody_without_a_passkey_keeps_nobody_from_being_asked(tmp_path):
    with http_vault(tmp_path / "web") as web:
        tables = {"web": {"url": web.url, "approval": {"tools": ["wipe"]}}}
        async with person_at(tmp_path, "ben") as ben:
            await ben.approvals.add_user("ann", by="test")
            with serving(tmp_path, tables) as gateway:
                task = asyncio.create_task(aside(Guest(gateway.url("web"), {}).call, "wipe", id="1"))
                await ben.approve()
                assert ran(await task) == "wipe"


@requirement("VA-178")
@both_eras
async def test_nobody_is_asked_more_than_they_can_look_at(small, era):
    client = Guest.arrive(small.gateway.url("web"), era)
    told = [client.call("wipe", id=str(number)) for number in range(5)]
    assert [reason(one) for one in told] == ["missing_evidence"] * 3 + ["approval_limit"] * 2
    # The same call is the same request, and takes no further place.
    assert client.call("wipe", id="0")["error"]["data"]["approval"] == told[0]["error"]["data"]["approval"]
    assert small.vault("web").calls == []
    for request in await small.person.open_requests():
        await small.person.refuse(request=request)


def test_tools_that_a_reload_lists_need_a_person_from_then_on(tmp_path):
    with (
        http_vault(tmp_path / "web") as web,
        serving(tmp_path, {"web": {"url": web.url, "trust": HARMLESS}}) as gateway,
    ):
        client = Guest.arrive(gateway.url("web"), "legacy")
        assert ran(client.call("wipe")) == "wipe"
        write_config(tmp_path, {"web": {"url": web.url, "trust": HARMLESS, "approval": {"tools": ["wipe"]}}})
        until(lambda: "error" in client.call("wipe"))
        assert reason(client.call("wipe")) == "approval_unavailable"
        assert ran(client.call("look")) == "look"
        assert ask(f"{gateway.address}/", None, {}, "GET").status != 404
        write_config(tmp_path, {"web": {"url": web.url, "trust": HARMLESS}})
        until(lambda: "result" in client.call("wipe"))


@both_servers
def test_a_call_that_needs_a_person_is_not_taken_in_a_batch(site, server):
    client = Guest.arrive(site.gateway.url(server), "legacy")
    reached = len(site.vault(server).calls)
    one = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {}}}
    two = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wipe", "arguments": {}}}
    three = {"jsonrpc": "2.0", "id": 3, "method": "approval/challenge/create", "params": {"toolName": "wipe"}}
    for batch in ([one, two], [one, three]):
        reply = ask(client.url, json.dumps(batch).encode(), client.headers("", {}))
        answers = {answer["id"]: answer for answer in json.loads(reply.body)}
        assert {reason(answer) for answer in answers.values()} == {"batch_refused"}
        assert "alone" in answers[batch[1]["id"]]["error"]["data"]["advice"]
    assert len(site.vault(server).calls) == reached
    listing = {"jsonrpc": "2.0", "id": 5, "method": "tools/list"}
    reply = ask(client.url, json.dumps([one, listing]).encode(), client.headers("", {}))
    ran_one, listed = sorted(events(reply.body) if reply.body[:1] != b"[" else json.loads(reply.body), key=id_of)
    assert ran(ran_one) == "look"
    marked = {tool["name"] for tool in listed["result"]["tools"] if MARK in tool.get("_meta", {})}
    assert marked == {"wipe", "wipe_all", "quiz", "pay", "pay_here", "odd", "classy"}


# ---- stdio ----


class Pipe:
    """A client of `callgate wrap`, line by line."""

    def __init__(self, process) -> None:
        self._process = process
        self._ids = iter(range(100, 1000))

    def send(self, method: str, params: dict, rpc_id: int | str | None) -> None:
        whole = {"jsonrpc": "2.0", "method": method, "params": params}
        line = json.dumps(whole if rpc_id is None else whole | {"id": rpc_id})
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def call(self, tool: str, rpc_id: int, **arguments) -> None:
        self.send("tools/call", {"name": tool, "arguments": arguments}, rpc_id)

    def read(self) -> dict:
        return json.loads(self._process.stdout.readline())

    def greet(self) -> None:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw"}}
        self.send("initialize", hello, 0)
        self.send("notifications/initialized", {}, None)
        self.read()


@contextlib.contextmanager
def wrapping(site: ApprovalSite, server: str) -> Iterator[Pipe]:
    with piped(site.wrap_argv(server)) as process:
        pipe = Pipe(process)
        pipe.greet()
        yield pipe


@both_servers
async def test_over_stdio_a_waiting_call_holds_nobody_up(patient, server):
    identity = fresh()
    with wrapping(patient, server) as pipe:
        pipe.call("wipe", 1, id=identity)
        for number in range(2, 6):
            pipe.call("look", number)
        pipe.send("tools/list", {}, 6)
        answers = [await aside(pipe.read) for _ in range(5)]
        assert sorted(answer["id"] for answer in answers) == [2, 3, 4, 5, 6]
        await patient.person.approve(await patient.person.waiting_for(identity))
        answer = await aside(pipe.read)
        assert (answer["id"], ran(answer)) == (1, "wipe")


@both_servers
async def test_over_stdio_a_waiting_call_can_be_taken_back(patient, server):
    identity = fresh()
    before, passed = len(patient.decisions), len(cancellations(patient, server))
    with wrapping(patient, server) as pipe:
        pipe.call("wipe", 1, id=identity)
        # At once: it must not overtake what it cancels.
        pipe.send("notifications/cancelled", {"requestId": 1}, None)
        pipe.call("look", 2)
        assert (await aside(pipe.read))["id"] == 2
        until(lambda: any(one["verdict"] == "refuse" for one in patient.decisions[before:]))
        pipe.call("look", 3)
        assert (await aside(pipe.read))["id"] == 3
        # The id is free again, and the request is still there.
        pipe.call("wipe", 1, id=identity)
        await patient.person.approve(await patient.person.waiting_for(identity))
        answer = await aside(pipe.read)
        assert (answer["id"], ran(answer)) == (1, "wipe")
    assert len(cancellations(patient, server)) == passed


async def test_over_stdio_a_client_that_closes_its_end_is_told_of_the_page(patient):
    identity = fresh()
    with piped(patient.wrap_argv("pipe")) as process:
        pipe = Pipe(process)
        pipe.greet()
        pipe.call("wipe", 1, id=identity)
        await patient.person.waiting_for(identity)
        process.stdin.close()
        answer = await aside(pipe.read)
        assert reason(answer) == "missing_evidence"
        url = answer["error"]["data"]["approval"]["url"]
        assert url.startswith("http://localhost:")
    assert arrivals(patient, "pipe", identity) == 0


async def test_wrap_shows_the_page_on_a_port_of_its_own_to_this_machine_only(patient):
    identity = fresh()
    with wrapping(patient, "pipe") as pipe:
        params = {"name": "wipe", "arguments": {"id": identity}, "_meta": {"progressToken": "t"}}
        pipe.send("tools/call", params, 1)
        told = await aside(pipe.read)
        assert told["params"]["progressToken"] == "t"
        url = told["params"]["message"].rpartition(" ")[2]
        host = url.removeprefix("http://").partition("/")[0]
        assert host.startswith("localhost:")

        def look(name: str) -> tuple[int, str | None]:
            connection = http.client.HTTPConnection("127.0.0.1", int(host.rpartition(":")[2]), timeout=SECONDS)
            with contextlib.closing(connection):
                connection.request("GET", url.removeprefix(f"http://{host}"), headers={"Host": name})
                response = connection.getresponse()
                return response.status, response.headers["content-type"].partition(";")[0]

        # The page itself is for whoever signs in.
        assert await aside(look, host) == (401, "text/html")
        assert await aside(look, "evil.example") == (403, "application/json")
        await patient.person.approve(await patient.person.waiting_for(identity))
        while "result" not in (answer := await aside(pipe.read)):
            assert answer["method"] == "notifications/progress"
        assert ran(answer) == "wipe"


async def test_over_stdio_many_calls_wait_side_by_side(patient):
    with wrapping(patient, "pipe") as pipe:
        calls = [fresh() for _ in range(10)]
        for number, identity in enumerate(calls):
            pipe.call("wipe", number, id=identity)
        for identity in calls:
            await patient.person.approve(await patient.person.waiting_for(identity))
        answers = [await aside(pipe.read) for _ in range(10)]
        assert sorted(answer["id"] for answer in answers) == list(range(10))
        assert all(ran(answer) == "wipe" for answer in answers)


def test_a_parked_call_holds_only_the_bytes_that_it_has(tmp_path):
    """Sent without a length, it reserves as much as a message may have; not while it waits."""
    sections = {"limits": {"held_bytes": "40 MiB"}}
    with approval_site(tmp_path, **sections) as site, ThreadPoolExecutor(4) as pool:
        guests = [Guest.arrive(site.gateway.url("web"), "legacy") for _ in range(3)]

        def chunked(guest: Guest, number: int) -> bytes:
            params = {"name": "wipe", "arguments": {"id": str(number)}}
            host = guest.url.removeprefix("http://").partition("/")[0]
            connection = http.client.HTTPConnection(host, timeout=SECONDS)
            with contextlib.closing(connection):
                body = guest.body("tools/call", params)
                path = "/" + guest.url.removeprefix("http://").partition("/")[2]
                connection.request("POST", path, iter([body]), guest.headers("tools/call", params), encode_chunked=True)
                return connection.getresponse().read()

        waiting = []
        for number, guest in enumerate(guests):
            waiting.append(pool.submit(chunked, guest, number))
            asyncio.run(site.person.waiting_for(str(number)))
        for _ in guests:
            asyncio.run(site.person.approve())
        assert all(ran(events(one.result(SECONDS))[-1]) == "wipe" for one in waiting)
