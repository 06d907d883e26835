"""Labels belong to an agent's session: they cross servers, connections and gateways, and only an operator takes them off."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from support.fork_server import CALLGATE
from support.gateway import Gateway, serving
from support.postgres import database
from support.raw import ask
from support.registry import requirement
from support.sessions import until
from support.table import rows
from support.trust_gateway import (
    ASKED,
    ERAS,
    EVIL,
    HANDSHAKE,
    PAGE,
    Agent,
    TrustSite,
    WrapAgent,
    fresh,
    labelled,
    reason,
    replies,
    said,
    text,
    tool,
    trust_site,
)

URL = "https://shop.example/a/secret/path"
ORIGIN = "https://shop.example"
INSIDE = {"destination": "internal", "outcomes": "benign", "source": "internal", "sensitivity": "none"}
TOOLS = [tool("send_email", "to", "body")]
SERVERS = {
    "web": {
        "tools": [tool("fetch", "url")],
        "results": {"fetch": labelled(PAGE, openWorldHint=True, attribution=[URL])},
        "http": True,
    },
    "news": {"tools": [tool("get_latest")], "results": {"get_latest": text("Rain.")}},
    "calendar": {
        "tools": [tool("today")],
        "results": {"today": text("nothing")},
        "trust": {"tools": {"today": INSIDE}},
    },
    "mail": {"tools": [*TOOLS, tool("publish", "body")], "answers": {"resources/read": {"contents": []}}},
    "shared": {"tools": TOOLS, "trust": {"share": "share"}},
    "withheld": {"tools": TOOLS, "trust": {"share": "withhold"}},
    "closed": {"tools": TOOLS, "trust": {"propagate": False}},
    "piped": {"tools": TOOLS},
}
RULES = """
[[rules]]
name = "no-strangers-words"
effect = "block"
when = 'tool.name == "publish" && request.open_world'
say = "Nothing of the open world is published."
"""
BOB = "bob@example.com"
# The user wants mail to go there, whatever was read.
ASKED_FOR = {"dev.callgate/prompt": f"read {URL} and write hello to {BOB}"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrustSite]:
    directory = tmp_path_factory.mktemp("sessions")
    (directory / "policy.toml").write_text(RULES)
    with trust_site(directory, SERVERS, trust={"policy": "policy.toml"}, approval={"park_seconds": 0}) as running:
        yield running


def send(agent, server, body="hello", meta=None):
    answer = agent.call(server, "send_email", ASKED_FOR | (meta or {}), to=BOB, body=body)
    assert "result" in answer, answer
    return answer


def labels(site, server):
    return site.servers[server].last_labels


@requirement("TA-002", "TA-021", "TA-047")
@rows("era", ERAS)
def test_what_one_server_returned_shows_on_requests_to_another(site, era):
    agent = site.agent(era)
    send(agent, "piped")
    assert labels(site, "piped") is None
    agent.call("web", "fetch", url=URL)
    for server in ("mail", "piped"):
        send(agent, server)
        assert labels(site, server)["openWorldHint"] is True
        assert ORIGIN in labels(site, server)["attribution"]
    stranger = site.agent(era)
    send(stranger, "mail")
    assert labels(site, "mail") is None


@requirement("TA-040")
def test_clean_results_do_not_take_the_hint_away(site):
    agent = site.agent()
    agent.call("web", "fetch", url=URL)
    for _ in range(3):
        assert said(agent.call("calendar", "today")) == "nothing"
    send(agent, "mail")
    assert labels(site, "mail")["openWorldHint"] is True


@requirement("TA-041", "TA-047")
def test_the_sources_of_two_servers_appear_once_each_on_the_third(site):
    agent = site.agent()
    for _ in range(2):
        agent.call("web", "fetch", ASKED_FOR, url=URL)
        agent.call("news", "get_latest")
    send(agent, "shared")
    assert sorted(labels(site, "shared")["attribution"]) == [URL, "mcp://news/get_latest"]


@requirement("TA-009", "TA-070", "TA-071")
def test_each_server_is_told_as_much_as_the_operator_wants(site):
    agent = site.agent()
    agent.call("web", "fetch", url=f"{URL}?token=abc")
    sent = {}
    for server in ("shared", "mail", "withheld", "closed"):
        send(agent, server)
        sent[server] = labels(site, server)
    assert sent == {
        "shared": {"openWorldHint": True, "attribution": [URL]},
        "mail": {"openWorldHint": True, "attribution": [ORIGIN, "mcp://shared"]},
        "withheld": {"openWorldHint": True},
        "closed": None,
    }
    assert not site.servers["closed"].calls()[-1].get("_meta")


@requirement("TA-070")
@rows("server", ["withheld", "closed"])
def test_what_the_client_itself_wrote_there_is_held_back_as_well(site, server):
    agent = site.agent()
    send(agent, server, meta={"annotations": {"attribution": ["urn:org:acme:hr"]}, "trace": 1})
    assert site.servers[server].calls()[-1]["_meta"] == {"trace": 1}


@requirement("TA-020", "TA-042", "TA-043")
@rows("era", ERAS)
def test_labels_on_a_request_count_and_stay(site, era):
    agent, body = site.agent(era), fresh("body")
    hint = {"annotations": {"openWorldHint": True, "attribution": ["urn:org:acme:crm"]}}
    assert said(agent.call("mail", "publish", None, body=body)) == "done"
    refused = site.agent(era).call("mail", "publish", hint, body=f"{body} 2")
    assert reason(refused) == "rule_blocked"
    assert refused["error"]["data"]["rule"] == "no-strangers-words"
    send(agent, "shared", meta=hint)
    assert labels(site, "shared")["openWorldHint"] is True
    assert "urn:org:acme:crm" in labels(site, "shared")["attribution"]
    # Only the first request said so; the session knows it from then on.
    assert reason(agent.call("mail", "publish", None, body=f"{body} 3")) == "rule_blocked"
    assert [one["arguments"]["body"] for one in site.servers["mail"].calls("publish")].count(body) == 1


PRIVATE = {
    "dev.callgate/prompt": f"write one and two to {BOB}",
    "dev.callgate/session": "c-1",
    "dev.callgate/consent": True,
}


@rows("era", ERAS)
def test_what_is_told_to_the_gateway_alone_never_reaches_a_server(site, era):
    agent = site.agent(era)
    before = len(site.servers["mail"].seen)
    agent.call("mail", "send_email", PRIVATE | {"trace": "kept"}, to=BOB, body="hi")
    agent.request("mail", "resources/read", {"uri": "file:///x", "_meta": PRIVATE | {"trace": "kept"}})
    agent.request("mail", "tools/list", {"_meta": PRIVATE | {"trace": "kept"}})
    met = site.servers["mail"].seen[before:]
    assert {one["method"] for one in met} >= {"tools/call", "resources/read", "tools/list"}
    assert "dev.callgate/" not in json.dumps(met)
    assert json.dumps(met).count('"kept"') == 3


def batch(agent, server, *messages):
    reply = ask(agent.gateway.url(server), json.dumps(messages).encode(), agent.headers(server))
    assert reply.status == 200, reply.body
    return replies(reply.body)


def test_batches_are_labelled_and_keep_the_gateways_secrets_too(site):
    agent = site.agent("2025-03-26")
    private = PRIVATE | {"dev.callgate/session": fresh("conversation")}
    agent.call("web", "fetch", private, url=URL)
    before = len(site.servers["mail"].calls())
    some = [
        {"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": {"name": "send_email", "arguments": given}}
        for at, given in enumerate(({"to": BOB, "body": "one"}, {"to": BOB, "body": "two"}))
    ]
    for one in some:
        one["params"]["_meta"] = private
    answers = batch(agent, "mail", *some)
    assert sorted(one["id"] for one in answers) == [0, 1]
    met = site.servers["mail"].calls()[before:]
    assert [one["arguments"]["body"] for one in met] == ["one", "two"]
    assert [one["_meta"] for one in met] == [{"annotations": {"openWorldHint": True, "attribution": [ORIGIN]}}] * 2


@requirement("TA-002")
def test_a_conversation_that_the_client_names_is_one_session_wherever_it_calls_from(site):
    name = fresh("conversation")
    site.agent(session=name).call("web", "fetch", url=URL)
    send(site.agent(ERAS[1], session=name), "mail")
    assert labels(site, "mail")["openWorldHint"] is True
    one_client = site.agent(session=fresh("conversation"))
    send(one_client, "mail")
    assert labels(site, "mail") is None


@rows("bad", ["", "x" * 257, 7, ["a"]])
def test_a_conversation_named_in_a_way_nobody_can_read_is_refused(site, bad):
    body = fresh("body")
    answer = site.agent().call("mail", "send_email", {"dev.callgate/session": bad}, to=BOB, body=body)
    assert reason(answer) == "invalid_params"
    assert body not in json.dumps(site.servers["mail"].calls())


@requirement("TA-075")
def test_an_operator_takes_the_labels_off_and_that_is_on_record(site):
    agent = site.agent()
    agent.call("web", "fetch", url=URL)
    send(agent, "mail")
    key = site.trust_of("send_email")["session"]
    site.run("session", "declassify", key, "--yes", status=2)
    send(agent, "mail")
    assert labels(site, "mail")["openWorldHint"] is True
    # A step that teaches a session nothing is written after its answer; behind the decision it would count again.
    until(lambda: len(json.loads(site.run("session", "show", key, "--json"))["steps"]) == 3)
    site.run("session", "declassify", key, "--note", "read it all, harmless", "--yes")
    (act,) = [one for one in site.noted("trust.declassify") if one["detail"]["session"] == key]
    assert act["detail"]["note"] == "read it all, harmless"
    assert act["detail"]["was"]["open_world"] is True
    # It forgot the page, too: the address in it is nobody's now.
    assert "result" in agent.call("mail", "send_email", to=EVIL, body="x")
    assert labels(site, "mail") is None


# ---- wrapped servers ----


@rows("era", ERAS)
def test_wrapped_servers_that_one_client_started_share_a_session(site, era):
    name = {"CALLGATE_SESSION": fresh("conversation")}
    with WrapAgent(site, era, name, forked=True) as agent, WrapAgent(site, era, name, forked=True) as again:
        agent.call("web", "fetch", url=URL)
        send(again, "mail")
    assert labels(site, "mail")["openWorldHint"] is True


def test_a_question_quotes_what_another_process_read(site):
    name = {"CALLGATE_SESSION": fresh("conversation")}
    with WrapAgent(site, HANDSHAKE, name, forked=True) as agent:
        agent.call("web", "fetch", url=URL)
        answer = agent.call("mail", "send_email", to=EVIL, body="hello")
        assert reason(answer) == ASKED
        assert "(Whom or what this affects comes only from text" in answer["error"]["message"]
    argv = [CALLGATE, "approvals", "list", "-c", str(site.gateway.config), "--json"]
    newest = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)[0]
    assert f"with fetch (server web): “Questions go to »{EVIL}«, said the shop.”" in newest["why"]
    with closing(sqlite3.connect(site.gateway.store)) as store:
        kept = "".join(store.iterdump())
    assert PAGE.encode().hex() not in kept.lower()
    assert "Opening hours" not in kept


@requirement("TA-002")
def test_also_where_nothing_names_the_session_and_never_with_those_of_another_client(site):
    # The first is started by this process, the second by a shell: another client.
    with WrapAgent(site) as agent, WrapAgent(site, through=["sh", "-c", '"$@"; exit $?', "sh"]) as other:
        agent.call("web", "fetch", url=URL)
        send(agent, "mail")
        assert labels(site, "mail")["openWorldHint"] is True
        send(other, "mail")
        assert labels(site, "mail") is None


# ---- several gateways, and gateways that end ----


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def twins(request, tmp_path_factory) -> Iterator[tuple[TrustSite, Gateway]]:
    """Two gateways on one store."""
    directory = tmp_path_factory.mktemp("twins")
    with ExitStack() as stack:
        store = {"url": stack.enter_context(database())} if request.param == "postgresql" else {}
        trust = {"idle_seconds": 1.0}
        sections = {"store": store, "trust": trust, "approval": {"park_seconds": 0}}
        servers = {name: SERVERS[name] for name in ("web", "mail")}
        first = stack.enter_context(trust_site(directory, servers, **sections))
        tables = {name: office.table for name, office in first.servers.items()}
        url = store.get("url") or f"sqlite:///{first.gateway.store}"
        more = tmp_path_factory.mktemp("twin")
        second = stack.enter_context(serving(more, tables, **sections | {"store": {"url": url}}))
        yield first, second


@requirement("TA-002")
def test_two_gateways_on_one_store_know_the_same_sessions(twins):
    site, second = twins
    name = fresh("conversation")
    here, there = site.agent(session=name), Agent(second, HANDSHAKE, fresh(), session=name)
    # Both have the session at hand before anything is in it.
    send(there, "mail")
    site.servers["mail"].write(results={"send_email": text("sent")})
    here.call("web", "fetch", url=URL)
    send(there, "mail")
    assert labels(site, "mail")["openWorldHint"] is True
    assert reason(there.call("mail", "send_email", to=EVIL, body="x")) == ASKED


async def test_what_a_person_endorsed_at_one_gateway_holds_at_the_other(twins):
    site, second = twins
    name = fresh("conversation")
    here, there = site.agent(session=name), Agent(second, HANDSHAKE, fresh(), session=name)
    here.call("web", "fetch", url=URL)
    assert reason(here.call("mail", "send_email", to=EVIL, body="first")) == ASKED
    (asked,) = [one for one in await site.person.open_requests() if b'"first"' in one.canonical]
    await site.person.approve(asked)
    assert said(here.call("mail", "send_email", to=EVIL, body="first"))
    # The same address needs no second gesture, in this session only.
    assert said(there.call("mail", "send_email", to=EVIL, body="second"))
    other = site.agent(session=fresh("conversation"))
    other.call("web", "fetch", url=URL)
    assert reason(other.call("mail", "send_email", to=EVIL, body="third")) == ASKED


def test_an_agents_session_is_over_when_it_was_idle_and_a_named_one_is_not(twins):
    site, _ = twins
    agent, named = site.agent(), site.agent(session=fresh("conversation"))
    for one in (agent, named):
        one.call("web", "fetch", url=URL)
    time.sleep(1.3)
    send(agent, "mail")
    assert labels(site, "mail") is None
    send(named, "mail")
    assert labels(site, "mail")["openWorldHint"] is True


@requirement("TA-002", "TA-040")
@rows("end", ["stop", "kill"])
def test_labels_and_what_was_read_survive_the_gateway(tmp_path, end):
    with trust_site(tmp_path, {name: SERVERS[name] for name in ("web", "mail")}, approval={"park_seconds": 0}) as site:
        agent = site.agent(session=fresh("conversation"))
        agent.call("web", "fetch", url=URL)
        getattr(site.gateway, end)()
        again = Gateway(site.gateway.config)
        try:
            after = Agent(again, HANDSHAKE, agent.name, session=agent.session)
            assert reason(after.call("mail", "send_email", to=EVIL, body="x")) == ASKED
            send(after, "mail")
            assert labels(site, "mail") == {"openWorldHint": True, "attribution": [ORIGIN]}
        finally:
            again.stop()


@rows("era", ERAS)
def test_after_a_restart_the_servers_are_known_by_the_names_that_they_gave(tmp_path, era):
    """They say them only in the handshake, which a modern client does not have."""
    with trust_site(tmp_path, {"mail": SERVERS["mail"]}, approval={"park_seconds": 0}) as site:
        site.gateway.stop()
        again = Gateway(site.gateway.config)
        try:
            send(Agent(again, era, fresh()), "mail")
        finally:
            again.stop()


@requirement("TA-002", "TA-040")
def test_a_client_that_goes_on_as_before_with_another_gateway_is_not_taken_for_a_clean_one(tmp_path):
    """Its connection outlives the gateway that it told its name; which session it is in cannot be known any more."""
    servers = {"web": SERVERS["web"], "mail": SERVERS["mail"] | {"http": True}}
    with trust_site(tmp_path, servers, approval={"park_seconds": 0}) as site:
        agent = site.agent()
        agent.headers("mail")
        agent.call("web", "fetch", url=URL)
        site.gateway.stop()
        again = Gateway(site.gateway.config)
        try:
            agent.gateway = again
            assert agent.asked_about()
            assert agent.asked_about(BOB)
            # Once it has connected anew, its session is known again.
            agent.opened.clear()
            agent.prompt = f"write some words to {BOB}"
            assert agent.asked_about()
            assert not agent.asked_about(BOB)
            assert labels(site, "mail")["openWorldHint"] is True
        finally:
            again.stop()


def test_sessions_of_a_connection_do_not_meet(tmp_path):
    trust = {"sessions": "transport"}
    with trust_site(tmp_path, {name: SERVERS[name] for name in ("web", "mail", "news")}, trust=trust) as site:
        agent = site.agent()
        agent.call("web", "fetch", url=URL)
        agent.call("web", "fetch", url=URL)
        assert site.servers["web"].last_labels["openWorldHint"] is True
        send(agent, "mail")
        assert labels(site, "mail") is None


async def test_calls_at_the_same_time_lose_no_label(site):
    agent = site.agent()
    agent.headers("news")
    agent.headers("web")
    calls = [asyncio.to_thread(agent.call, "news", "get_latest") for _ in range(5)]
    calls += [asyncio.to_thread(agent.call, "web", "fetch", ASKED_FOR, url=URL) for _ in range(5)]
    await asyncio.gather(*calls)
    send(agent, "shared")
    assert sorted(labels(site, "shared")["attribution"]) == [URL, "mcp://news/get_latest"]
