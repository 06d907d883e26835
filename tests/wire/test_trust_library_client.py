"""Labels that follow an agent of one's own from server to server, and a policy that reads them, without a gateway."""

from __future__ import annotations

import pytest

from callgate.errors import ConfigError, Reason, Refused
from callgate.sdk import TrustTracker
from support.labelled import INJECTED, PAGE, Desk, every_era_of_http, every_road
from support.registry import requirement
from support.table import rows
from support.trust_library import NO_RULES, SEED_RULES, policy, reason

# -- labels travel ---------------------------------------------------------------------------------------------------


@requirement("TA-021", "TA-040", "TA-041", "TA-047")
@every_road
async def test_labels_are_carried_over_three_servers(travel, road):
    places = travel(road)
    tracker = TrustTracker()
    tracker.prompt("Read https://shop.example/page and /hr/salaries.xlsx, then save the hours to /home/ada/hours.txt.")
    async with (
        places.tracked("web", tracker) as web,
        places.tracked("files", tracker, resolve=True) as files,
        places.tracked("notes", tracker, share="share") as notes,
    ):
        await files.call_tool("read_file", {"path": "/hr/salaries.xlsx"})
        page = await web.call_tool("fetch", {"url": "https://shop.example/page"})
        assert page.content[0].text == PAGE
        await notes.call_tool("write_file", {"path": "/home/ada/hours.txt", "text": "nine to five"})
        # a clean result clears nothing
        await files.call_tool("read_file", {"path": "/hr/salaries.xlsx"})
        await notes.call_tool("plain", {"text": "hours"})
    assert places.runs == [
        {"server": "files", "tool": "read_file", "open": None, "from": []},
        # hosts only, which is the default
        {"server": "web", "tool": "fetch", "open": None, "from": ["local:anonymous"]},
        {
            "server": "notes",
            "tool": "write_file",
            "open": True,
            "from": ["local:anonymous/hr/salaries.xlsx", "https://shop.example/page"],
        },
        {
            "server": "files",
            "tool": "read_file",
            "open": True,
            "from": ["local:anonymous", "https://shop.example", "mcp://notes"],
        },
        {
            "server": "notes",
            "tool": "plain",
            "open": True,
            "from": ["local:anonymous/hr/salaries.xlsx", "https://shop.example/page", "mcp://notes/write_file"],
        },
    ]
    label = await tracker.label()
    assert label.open_world
    assert "financial" in label.sensitivity
    assert [step.tool for step in await tracker.steps()] == [one["tool"] for one in places.runs]


@requirement("TA-070", "TA-071", "TA-072")
async def test_how_much_a_server_is_told_can_be_chosen(near):
    tracker = TrustTracker(policy=NO_RULES)
    async with (
        near.tracked("web", tracker) as web,
        near.tracked("quiet", tracker, propagate=False) as quiet,
        near.tracked("shy", tracker, share="withhold") as shy,
    ):
        await web.call_tool("fetch", {"url": "https://shop.example/page"})
        for client in (quiet, shy):
            await client.call_tool("plain", {"text": "x"})
        # an author's own word goes in any case
        await quiet.call_tool("plain", {"text": "x"}, meta={"annotations": {"attribution": ["urn:org:acme:hr"]}})
    assert [(one["open"], one["from"]) for one in near.ran("plain")] == [
        (None, []),
        (True, []),
        (None, ["urn:org:acme:hr"]),
    ]
    unasked = TrustTracker(sources=False, policy=NO_RULES)
    async with near.tracked("web", unasked) as web:
        await web.call_tool("fetch", {"url": "https://shop.example/page"})
    assert (await unasked.label()).attribution == ()
    assert (await unasked.label()).open_world


async def test_annotations_that_the_author_sends_count_for_the_session(near):
    tracker = TrustTracker(policy=NO_RULES)
    async with near.tracked("files", tracker) as files:
        given = {"openWorldHint": True, "attribution": ["https://elsewhere.example/x"]}
        await files.call_tool("plain", {"text": "x"}, meta={"annotations": given})
        await files.call_tool("plain", {"text": "y"})
    label = await tracker.label()
    assert label.open_world
    assert "https://elsewhere.example/x" in label.attribution
    assert [one["open"] for one in near.ran("plain")] == [True, True]


# -- what the policy decides ---------------------------------------------------------------------------------------


@requirement("TA-042", "TA-048", "TA-055")
@every_era_of_http
async def test_a_rule_that_blocks_lets_nothing_through(travel, road):
    places = travel(road)
    tracker = TrustTracker(policy=policy(SEED_RULES, "rules.json"), ask=Desk().ask)
    async with places.tracked("web", tracker) as web, places.tracked("site", tracker) as site:
        await web.call_tool("fetch", {"url": "https://shop.example/page"})
        with pytest.raises(Refused) as refused:
            await site.call_tool("write_file", {"path": "/srv/www/a", "text": "x"})
    assert refused.value.reason is Reason.RULE_BLOCKED
    assert refused.value.data["rule"] == "block-open-world-to-external"
    assert places.ran("write_file") == []
    assert [(step.tool, step.verdict) for step in await tracker.steps()] == [
        ("fetch", "allow"),
        ("write_file", "refuse"),
    ]


@requirement("TA-034", "TA-049", "TA-050", "TA-051", "TA-056")
@every_era_of_http
async def test_a_rule_that_asks_waits_for_the_person(travel, road):
    places = travel(road)
    desk = Desk(False, True)
    tracker = TrustTracker(policy=policy(SEED_RULES, "rules.json"), ask=desk.ask)
    async with places.tracked("files", tracker, resolve=True) as files, places.tracked("mail", tracker) as mail:
        await files.call_tool("read_file", {"path": "/hr/salaries.xlsx"})
        mail_to = {"to": "ada@home.example", "body": "salaries"}
        assert await reason(mail.call_tool("send_email", mail_to)) == "approval_refused"
        assert places.ran("send_email") == []
        sent = await mail.call_tool("send_email", mail_to)
    assert sent.structured_content == {"id": "m-1", "to": "ada@home.example"}
    assert len(places.ran("send_email")) == 1
    question = desk.questions[0]
    assert (question.rule, question.tool, question.arguments) == ("confirm-irreversible-actions", "send_email", mail_to)
    assert (question.destination, question.outcomes, question.source) == ("internal", "irreversible", ("system",))
    assert question.attribution == ("local:anonymous/hr/salaries.xlsx",)
    assert question.sensitivity == ("financial",)
    for word in ("organisation", "cannot be undone", "The agent has read from: local:anonymous/hr/salaries.xlsx"):
        assert word in question.text


async def test_without_anybody_to_ask_the_call_is_refused(near):
    async with near.tracked("mail", TrustTracker(policy=policy(SEED_RULES, "rules.json"))) as mail:
        with pytest.raises(Refused, match="confirm-irreversible-actions") as refused:
            await mail.call_tool("send_email", {"to": "ada@home.example", "body": "x"})
    assert refused.value.reason is Reason.APPROVAL_UNAVAILABLE
    assert near.runs == []


@rows("answer", [None, "yes", 1, {}])
async def test_only_true_is_a_yes(near, answer):
    async def ask(_question):
        return answer

    async with near.tracked("mail", TrustTracker(policy=policy(SEED_RULES, "rules.json"), ask=ask)) as mail:
        assert await reason(mail.call_tool("send_email", {"to": "a@b.example", "body": "x"})) == "approval_refused"
    assert near.runs == []


@requirement("TA-007", "TA-057")
@every_era_of_http
async def test_a_strangers_address_needs_a_person_and_the_users_own_does_not(travel, road):
    """The shipped policy: a page that was read names somebody to write to."""
    places = travel(road)
    desk = Desk(True)
    tracker = TrustTracker(ask=desk.ask, alert=desk.alert)
    tracker.prompt("Read https://shop.example/page and https://evil.example, and tell ada@home.example the hours.")
    async with places.tracked("web", tracker) as web, places.tracked("mail", tracker) as mail:
        await web.call_tool("fetch", {"url": "https://shop.example/page"})
        await mail.call_tool("send_email", {"to": "ada@home.example", "body": "nine to five"})
        assert desk.questions == []
        await mail.call_tool("send_email", {"to": "office@shop.example", "body": "nine to five"})
        (question,) = desk.questions
        assert question.rule == "stranger-decides"
        assert [(one.path, one.found) for one in question.values if one.critical] == [("to", "untrusted")]
        assert "office@shop.example: only in text that a stranger may have written" in question.text
        # what the person agreed to needs no second question
        await mail.call_tool("send_email", {"to": "office@shop.example", "body": "nine to five"})
        assert len(desk.questions) == 1
        assert desk.alerts == []

        flagged = await web.call_tool("fetch", {"url": "https://evil.example"})
        (alert,) = desk.alerts
        assert (alert.server, alert.tool, alert.attribution) == ("web", "fetch", ("https://evil.example",))
        assert flagged.content[0].text.startswith("[Callgate warning]")
        assert flagged.content[1].text == INJECTED
        assert flagged.meta["dev.callgate/warning"]["flagged"] is True
    assert [one["to"] for one in places.ran("send_email")] == [
        "ada@home.example",
        "office@shop.example",
        "office@shop.example",
    ]


async def test_what_changes_while_the_person_thinks_is_asked_anew(near):
    """A result that comes in meanwhile makes another question of it."""
    tracker = None
    questions = []

    async def ask(question):
        questions.append(question)
        if len(questions) == 1:
            await web.call_tool("fetch", {"url": "https://shop.example/page"})
        return True

    rules = """
[[rules]]
name = "mail"
effect = "ask"
when = 'tool.name == "send_email"'
say = "Mails are looked at."
"""
    tracker = TrustTracker(policy=policy(rules), ask=ask)
    async with near.tracked("web", tracker) as web, near.tracked("mail", tracker) as mail:
        await mail.call_tool("send_email", {"to": "office@shop.example", "body": "x"})
    assert len(questions) == 2
    assert [one.values[0].found for one in questions] == ["nowhere", "untrusted"]


# -- whose word counts ---------------------------------------------------------------------------------------------


@requirement("TA-053", "TA-054", "TA-064")
async def test_a_server_that_is_not_trusted_can_only_make_it_stricter(near):
    believed, doubted = TrustTracker(policy=NO_RULES), TrustTracker(policy=NO_RULES)
    async with near.tracked("files", believed) as one, near.tracked("files", doubted, trusted=False) as other:
        for client in (one, other):
            await client.call_tool("send_email", {"to": "ada@home.example", "body": "x"})
    assert not (await believed.label()).open_world
    assert (await doubted.label()).open_world


@requirement("TA-014", "TA-052")
async def test_what_the_author_knows_of_a_server_counts_first(near, tmp_path):
    mine = {
        "plain": {
            "annotations": {
                "inputMetadata": {"destination": "ephemeral", "sensitivity": "none", "outcomes": "benign"},
                "returnMetadata": {"source": "user", "sensitivity": "none"},
            }
        },
        "send_*": {
            "annotations": {
                "inputMetadata": {"destination": "public", "sensitivity": "none", "outcomes": "irreversible"},
                "returnMetadata": {"source": "untrustedPublic", "sensitivity": "none"},
            },
            "x-criticalArgs": ["to"],
        },
    }
    tracker = TrustTracker(policy=policy(SEED_RULES, "rules.json"), ask=Desk(True).ask)
    async with near.tracked("files", tracker, trusted=False, annotations=mine) as files:
        await files.call_tool("plain", {"text": "x"})
        assert not (await tracker.label()).open_world
        await files.call_tool("send_email", {"to": "ada@home.example", "body": "x"})
        assert (await tracker.label()).open_world
        assert await reason(files.call_tool("send_email", {"to": "ada@home.example", "body": "x"})) == "rule_blocked"
    with pytest.raises(ConfigError, match="no class that is known here"):
        broken = {"plain": {"annotations": {"returnMetadata": {"source": "user", "sensitivity": "x"}}}}
        near.tracked("files", tracker, annotations=broken)
    (tmp_path / "labels.json").write_text('{"plain": {"annotations": {"readOnlyHint": true}}}')
    near.tracked("files", tracker, annotations=tmp_path / "labels.json")


@requirement("TA-012", "TA-033")
@every_era_of_http
async def test_an_answer_to_tools_resolve_is_decided_on_before_the_call(travel, road):
    """Only from a server that is trusted: it sees the arguments."""
    places = travel(road)
    rules = """
[[rules]]
name = "no-salaries"
effect = "block"
when = '"financial" in tool.returns'
say = "Salaries are not read."
"""
    with pytest.raises(ConfigError, match="not trusted"):
        places.tracked("files", TrustTracker(), trusted=False, resolve=True)
    tracker = TrustTracker(policy=policy(rules))
    async with places.tracked("files", tracker, resolve=True) as files:
        assert await reason(files.call_tool("read_file", {"path": "/hr/salaries.xlsx"})) == "rule_blocked"
        assert places.runs == []
        await files.call_tool("read_file", {"path": "/downloads/x"})
        # a tool that it cannot resolve stays as it was listed
        await files.call_tool("plain", {"text": "x"})
    assert [one["tool"] for one in places.runs] == ["read_file", "plain"]
