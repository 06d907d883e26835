"""The proposal's enforcement examples from end to end: two servers, a session that carries what the first one said to
the second, and a person with a passkey."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import mcp_types as types
import pytest
from mcp import Client

from support.clients import PATIENCE
from support.pages import ROOT
from support.registry import requirement
from support.sessions import until
from support.table import rows
from support.trust_gateway import (
    ERAS,
    EVIL,
    HANDSHAKE,
    PAGE,
    TrustSite,
    WrapAgent,
    fresh,
    input_metadata,
    labelled,
    reason,
    return_metadata,
    said,
    text,
    tool,
    trust_site,
)

URL = "https://shop.example/hours"
FETCH = {"destination": "ephemeral", "outcomes": "benign", "source": "untrustedPublic", "sensitivity": "none"}
SEND = {"destination": "public", "outcomes": "consequential", "source": "system", "sensitivity": "none"}
NOTE = {"destination": "internal", "outcomes": "consequential", "source": "system", "sensitivity": "none"}
SHEET = {"destination": "ephemeral", "outcomes": "benign", "source": "internal", "sensitivity": "financial"}
SERVERS = {
    "web": {
        "tools": [tool("fetch", "url"), tool("fetch_bad", "url")],
        "results": {
            "fetch": labelled(PAGE, openWorldHint=True, attribution=[URL]),
            "fetch_bad": labelled("A page.", maliciousActivityHint=True, openWorldHint=True, attribution=[URL]),
        },
        "trust": {"tools": {"fetch*": FETCH}},
        "http": True,
    },
    "mail": {
        "tools": [tool("send_email", "to", "body"), tool("note", "body"), tool("erase", "folder")],
        "trust": {"tools": {"send_email": SEND, "note": NOTE, "erase": NOTE | {"outcomes": "irreversible"}}},
    },
    "files": {
        "tools": [tool("read_sheet", "path")],
        "results": {"read_sheet": text("Ann 84,000; Bob 79,000; Cem 91,500")},
        "trust": {"tools": {"read_sheet": SHEET}},
    },
    # Nobody labelled these.
    "bare": {"tools": [tool("launch", "code"), tool("either", "code", annotations={})]},
}
ASKING = """
[[rules]]
name = "strangers-words-leave"
effect = "ask"
when = 'request.open_world && tool.destination == "public"'
say = "Send open-world content to an external address?"

[[rules]]
name = "money-stays"
effect = "ask"
when = '"financial" in data.sensitivity && tool.destination == "public"'
say = "Financial data is about to leave."
"""
# What the user asks for: whatever is asked about here is so by a rule, and not because nobody wanted it.
WANTED = "Read it, mail it to accountant@external.example and press@paper.example, and make a note of it."
WAYS = (*ERAS, "wrap")


@pytest.fixture(scope="module")
def seed_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrustSite]:
    """The proposal's three rules, in its own form and unchanged."""
    rules = ROOT / "examples/policy/seed-rules.json"
    with trust_site(tmp_path_factory.mktemp("seed"), SERVERS, trust={"policy": str(rules)}) as site:
        yield site


@pytest.fixture(scope="module")
def asking_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrustSite]:
    directory = tmp_path_factory.mktemp("asking")
    (directory / "policy.toml").write_text(ASKING)
    with trust_site(directory, SERVERS, trust={"policy": "policy.toml"}) as site:
        yield site


class Caller:
    """An agent with a session of its own, over one of the ways."""

    def __init__(self, site: TrustSite, way: str, stack: ExitStack) -> None:
        self._meta = {"dev.callgate/session": fresh("conversation"), "dev.callgate/prompt": WANTED}
        self._agent = stack.enter_context(WrapAgent(site, forked=True)) if way == "wrap" else site.agent(way)

    def call(self, server, name, /, **arguments):
        return self._agent.call(server, name, self._meta, **arguments)

    async def calling(self, server, name, /, **arguments):
        return await asyncio.to_thread(self._agent.call, server, name, self._meta, **arguments)


@pytest.fixture
def caller(request):
    with ExitStack() as stack:
        yield lambda site, way: Caller(site, way, stack)


every_way = rows("way", WAYS)
both_eras = rows("way", ERAS)


def arrived(site, name, **arguments):
    return [one for one in site.servers["mail"].calls(name) if one["arguments"] == arguments]


@requirement("TA-043", "TA-048", "TA-055", "TA-058")
@every_way
def test_a_page_of_the_open_world_is_not_mailed_outside(seed_site, caller, way):
    agent, body = caller(seed_site, way), fresh("body")
    assert "error" not in agent.call("mail", "send_email", to="accountant@external.example", body=f"{body} before")
    assert said(agent.call("web", "fetch", url=URL)) == PAGE
    refused = agent.call("mail", "send_email", to="accountant@external.example", body=body)
    assert reason(refused) == "rule_blocked"
    assert refused["error"]["data"]["rule"] == "block-open-world-to-external"
    assert "block-open-world-to-external" in refused["error"]["message"]
    assert arrived(seed_site, "send_email", to="accountant@external.example", body=body) == []
    # Open-world data on its way to a place that is not public passes.
    assert "error" not in agent.call("mail", "note", body=body)


@requirement("TA-034", "TA-049", "TA-050", "TA-051", "TA-056")
@every_way
async def test_under_the_escalating_policy_the_mail_leaves_once_a_person_confirms(asking_site, caller, way):
    agent, body = caller(asking_site, way), fresh("body")
    await agent.calling("web", "fetch", url=URL)
    task = asyncio.create_task(agent.calling("mail", "send_email", to="accountant@external.example", body=body))
    asked = await asking_site.person.waiting("send_email")
    assert arrived(asking_site, "send_email", to="accountant@external.example", body=body) == []
    assert "Send open-world content to an external address?" in asked.why
    for told in (
        "anybody (public)",
        "it changes something, which can be undone (consequential)",
        "the server itself (system)",
    ):
        assert told in asked.why
    assert URL in asked.why
    await asking_site.person.approve(asked)
    assert said(await task) == "done"
    assert len(arrived(asking_site, "send_email", to="accountant@external.example", body=body)) == 1


@requirement("TA-056")
@both_eras
async def test_and_never_if_the_person_declines(asking_site, caller, way):
    agent, body = caller(asking_site, way), fresh("body")
    await agent.calling("web", "fetch", url=URL)
    task = asyncio.create_task(agent.calling("mail", "send_email", to="accountant@external.example", body=body))
    await asking_site.person.waiting("send_email")
    await asking_site.person.refuse("I do not know them")
    assert reason(await task) == "approval_refused"
    assert arrived(asking_site, "send_email", to="accountant@external.example", body=body) == []


@requirement("TA-056")
async def test_a_client_of_the_sdk_that_opens_the_page_gets_the_mail_through(asking_site):
    body, pages = fresh("body"), []

    async def elicit(_context, params):
        pages.append(params.url)
        return types.ElicitResult(action="accept")

    patience = {"read_timeout_seconds": PATIENCE}
    async with Client(asking_site.gateway.url("web"), **patience) as web:
        await web.call_tool("fetch", {"url": URL})
    async with Client(asking_site.gateway.url("mail"), elicitation_callback=elicit, **patience) as mail:
        task = asyncio.create_task(mail.call_tool("send_email", {"to": "boss@external.example", "body": body}))
        asked = await asking_site.person.waiting("send_email")
        await asking_site.person.approve(asked)
        result = await task
    assert result.content[0].text == "done"
    assert pages[0].endswith(f"/approve/{asked.id}")
    assert len(arrived(asking_site, "send_email", to="boss@external.example", body=body)) == 1


@requirement("TA-001")
async def test_the_salary_sheet_is_not_mailed_out_without_a_person(asking_site, caller):
    agent = caller(asking_site, HANDSHAKE)
    sheet = said(agent.call("files", "read_sheet", path="/hr/salaries.csv"))
    task = asyncio.create_task(agent.calling("mail", "send_email", to="press@paper.example", body=sheet))
    asked = await asking_site.person.waiting("send_email")
    assert "Financial data is about to leave. (rule: money-stays)" in asked.why
    assert "financial" in asked.why.splitlines()[-2]
    await asking_site.person.refuse()
    assert reason(await task) == "approval_refused"
    assert arrived(asking_site, "send_email", to="press@paper.example", body=sheet) == []
    # It may go where the company keeps it.
    assert "error" not in agent.call("mail", "note", body=sheet)


@requirement("TA-007", "TA-057")
@every_way
def test_what_a_server_flags_reaches_the_model_with_a_warning_and_raises_an_alert(asking_site, caller, way):
    site, agent = asking_site, caller(asking_site, way)
    before = len(site.noted("trust.flagged"))
    result = agent.call("web", "fetch_bad", url=URL)["result"]
    warning, page = result["content"]
    assert warning["text"].startswith("[Callgate warning]")
    assert "tell the user" in warning["text"]
    assert page["text"] == "A page."
    assert result["_meta"]["dev.callgate/warning"]["flagged"] is True
    assert result["_meta"]["annotations"]["maliciousActivityHint"] is True
    until(lambda: len(site.noted("trust.flagged")) > before)
    (alert,) = site.noted("trust.flagged")[before:]
    assert alert["detail"]["tool"] == "fetch_bad"
    assert "malicious" in alert["detail"]["warnings"][0]


@requirement("TA-057", "TA-059")
@both_eras
def test_where_flagged_results_escalate_a_person_reads_them_first(seed_site, caller, way):
    agent = caller(seed_site, way)
    result = agent.call("web", "fetch_bad", url=URL)["result"]
    assert "A page." not in str(result)
    handle = result["_meta"]["dev.callgate/quarantine"]["handle"]
    assert "still held back" in said(agent.call("web", "callgate_result", handle=handle))
    seed_site.run("quarantine", "release", handle, "--yes")
    warning, page = agent.call("web", "callgate_result", handle=handle)["result"]["content"]
    assert warning["text"].startswith("[Callgate warning]")
    assert page["text"] == "A page."
    # Nobody else gets it, whoever has seen the handle.
    assert "No result is held" in said(caller(seed_site, HANDSHAKE).call("web", "callgate_result", handle=handle))
    assert seed_site.servers["web"].calls("callgate_result") == []


@requirement("TA-059", "TA-068")
async def test_after_flagged_content_consequential_calls_go_to_a_person_and_nothing_is_dropped(asking_site, caller):
    agent, body = caller(asking_site, HANDSHAKE), fresh("body")
    await agent.calling("web", "fetch_bad", url=URL)
    task = asyncio.create_task(agent.calling("mail", "note", body=body))
    asked = await asking_site.person.waiting("note")
    assert "rule: after-malicious-content" in asked.why
    await asking_site.person.approve(asked)
    assert said(await task) == "done"


@requirement("TA-060")
@rows(("server", "name"), [("mail", "erase"), ("bare", "launch"), ("bare", "either")])
async def test_what_is_or_may_be_irreversible_waits_for_a_person(seed_site, caller, server, name):
    agent = caller(seed_site, HANDSHAKE)
    arguments = {"folder" if name == "erase" else "code": fresh("x")}
    task = asyncio.create_task(agent.calling(server, name, **arguments))
    asked = await seed_site.person.waiting(name)
    assert "rule: confirm-irreversible-actions" in asked.why
    assert seed_site.servers[server].calls(name) == []
    await seed_site.person.refuse()
    assert reason(await task) == "approval_refused"


@requirement("TA-061")
def test_the_three_rules_of_the_proposal_are_in_force_as_they_were_written(seed_site):
    rules = (ROOT / "examples/policy/seed-rules.json").read_text(encoding="utf-8")
    for name in ("block-open-world-to-external", "escalate-malicious", "confirm-irreversible-actions"):
        assert f'"name": "{name}"' in rules
    assert rules.count('"fact": "') == 4
    assert rules.count('"effect": "escalate"') == 2


DRAFTS = {
    "name": "read_drafts",
    "description": "Read the user's email drafts.",
    "inputSchema": {"type": "object", "additionalProperties": False},
    "annotations": {
        "inputMetadata": input_metadata("ephemeral", "none", "benign"),
        "returnMetadata": return_metadata("user", "pii"),
    },
}
INBOX = {
    "name": "list_inbox",
    "description": "List recent emails in the user's inbox.",
    "inputSchema": {
        "type": "object",
        "properties": {"limit": {"type": "number"}},
        "required": [],
        "additionalProperties": False,
    },
    "annotations": {
        "inputMetadata": input_metadata("ephemeral", "none", "benign"),
        "returnMetadata": return_metadata("untrustedPublic", ["pii", "user"]),
    },
}
MAILING = {
    "name": "send_email",
    "description": "Send an email on behalf of the user.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "to": {"type": "string", "format": "email"},
            "subject": {"type": "string"},
            "body": {"type": "string"},
        },
        "required": ["to", "subject", "body"],
        "additionalProperties": False,
    },
    "annotations": {
        "inputMetadata": input_metadata("public", ["pii", "user"], "irreversible"),
        "returnMetadata": return_metadata("system", "none"),
    },
}


@pytest.fixture(scope="module")
def post_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrustSite]:
    office = {
        "tools": [DRAFTS, INBOX, MAILING],
        "results": {"read_drafts": text("Dear Bob"), "list_inbox": text(f"From {EVIL}: write to me.")},
        "trust": {"trusted": True},
    }
    rules = ROOT / "examples/policy/seed-rules.json"
    with trust_site(tmp_path_factory.mktemp("post"), {"post": office}, trust={"policy": str(rules)}) as site:
        yield site


@requirement("TA-003", "TA-039", "TA-052")
async def test_the_mail_tools_of_the_proposal_get_the_decisions_it_expects(post_site):
    site, agent, other = post_site, post_site.agent(), post_site.agent()
    assert len(agent.list_tools("post")) >= 3
    assert said(agent.call("post", "read_drafts")) == "Dear Bob"
    assert site.trust_of("read_drafts")["taken"] == {}
    assert said(agent.call("post", "list_inbox", limit=3))
    # The drafts were the user's own: nothing of the open world was in the session when the inbox was read.
    assert site.trust_of("list_inbox")["taken"]["sensitivity"] == ["pii"]
    assert "open_world" not in site.trust_of("list_inbox")["taken"]
    mail = {"to": "bob@example.com", "subject": "Hi", "body": "Hi"}
    # Open-world and public: the block is stricter than the escalation.
    assert reason(agent.call("post", "send_email", **mail)) == "rule_blocked"
    task = asyncio.create_task(asyncio.to_thread(other.call, "post", "send_email", **mail))
    asked = await site.person.waiting("send_email")
    assert "rule: confirm-irreversible-actions" in asked.why
    await site.person.approve(asked)
    assert said(await task) == "done"
    assert len(site.servers["post"].calls("send_email")) == 1
