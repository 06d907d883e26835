"""`callgate agents` for whoever runs a gateway."""

import asyncio
import json
import re

import pytest

from callgate.agents.apikeys import ApiKeys
from callgate.cli import run
from callgate.cli.common import operator
from callgate.errors import Reason
from callgate.sdk.agent_keys import AgentKey
from callgate.store import SqlAgents, Store
from support.registry import requirement
from support.table import rows

CONFIG = """
[store]
url = "sqlite:///store.db"
[agents.known.shop]
directory = "https://shop.example"
allow_tools = ["search", "get_*"]
deny_tools = ["get_secret"]
per_minute = 30
[agents.known.shut]
directory = "listed"
denied = true
[agents.known.shop.servers.till]
allow_tools = ["pay"]
[agents.default]
allow_tools = ["search"]
[agents.servers.till]
deny_tools = ["drop_*"]
[servers.till]
url = "https://till.example/mcp"
"""


@pytest.fixture
def agents(here, capsys):
    """The command line in a folder with this configuration."""
    (here / "callgate.toml").write_text(CONFIG)

    def typed(*words, code=0):
        found = run(["agents", *words])
        said = capsys.readouterr()
        assert found == code, said.err
        return said

    return typed


def listed(agents, *words):
    return json.loads(agents("list", "--json", *words).out)["agents"]


async def whose(url, text):
    store = Store.open(url, busy_seconds=60)
    try:
        return await ApiKeys(SqlAgents(store), lambda: 1).verify(text)
    finally:
        await store.close()


def test_an_api_key_is_printed_once_and_kept_as_a_digest(people):
    said = people("agents", "add", "reports", "--api-key", "--expires", "90d")
    text = said.out.strip()
    assert re.fullmatch(r"cgk_[0-9a-f]{12}_[\w-]{43}", text)
    assert "Authorization: Bearer" in said.err
    (row,) = people.json("agents", "list")["agents"]
    assert (row["agent"], row["by"], row["key"], row["added_by"]) == ("reports", "api-key", text[4:16], operator())
    assert row["expires_at"] - row["since"] == 90 * 86_400_000

    everything = people("agents", "list", "--all").out + people("agents", "show", "reports").out
    assert text[17:] not in everything
    assert ("agents.add", operator()) in [record[:2] for record in people.records()]
    assert text[17:] not in json.dumps([record[2] for record in people.records()])


def test_a_removed_agents_keys_are_revoked(people):
    people("agents", "add", "reports", "--api-key")
    people("agents", "add", "reports", "--api-key")
    first, second = (row["key"] for row in people.json("agents", "list")["agents"])
    assert "--yes" in people("agents", "remove", "reports", code=1).err
    people("agents", "remove", "reports", "--key", first, "--yes")
    assert [row["key"] for row in people.json("agents", "list")["agents"]] == [second]
    people("agents", "remove", "reports", "-y")
    assert people.json("agents", "list")["agents"] == []
    assert [row["revoked_at"] is not None for row in people.json("agents", "list", "--all")["agents"]] == [True, True]
    assert "not known here" in people("agents", "remove", "reports", "-y", code=1).err
    assert [record[0] for record in people.records()] == ["agents.add"] * 2 + ["agents.remove"] * 2


def test_a_key_of_the_command_is_one_that_counts(here, agents):
    text = agents("add", "reports", "--api-key").out.strip()
    caller = asyncio.run(whose(f"sqlite:///{here / 'store.db'}", text))
    assert (caller.id, caller.source) == ("reports", "api-key")


def test_agents_by_their_keys_and_by_their_directories(here, agents):
    key = AgentKey.generate()
    key.write(here / "agent.pem")
    agents("add", "bot", "--key", "agent.pem", "--title", "A bot")
    said = agents("add", "news", "--directory", "https://NEWS.example/")
    assert "every key of https://news.example/.well-known/http-message-signatures-directory" in said.out
    assert "callgate agents refresh" in said.err
    agents("add", "news", "--directory", "https://news.example", "--thumbprint", key.thumbprint)
    rows = {(row["agent"], row["key"]): row for row in listed(agents)}
    assert set(rows) == {("bot", key.thumbprint), ("news", ""), ("news", key.thumbprint), ("shop", "")}
    assert rows["bot", key.thumbprint]["directory"] == "static"
    assert rows["shop", ""]["source"] == "callgate.toml"
    agents("remove", "news", "--key", key.thumbprint, "-y")
    assert {(row["agent"], row["key"]) for row in listed(agents)} == {
        ("bot", key.thumbprint),
        ("news", ""),
        ("shop", ""),
    }
    assert "Edit callgate.toml" in agents("remove", "shop", "-y", code=1).err
    table = agents("list").out
    assert "every key there" in table
    assert "PRIVATE" not in table


@rows(
    ("words", "code"),
    [
        (("add", "a b", "--api-key"), 1),
        (("add", "bot"), 2),
        (("add", "bot", "--api-key", "--directory", "https://a.example"), 2),
        (("add", "bot", "--directory", "http://a.example"), 1),
        (("add", "bot", "--directory", "https://a.example", "--thumbprint", "short"), 1),
        (("add", "bot", "--api-key", "--thumbprint", "x" * 43), 2),
        (("add", "bot", "--directory", "https://a.example", "--expires", "1d"), 2),
        (("add", "bot", "--api-key", "--expires", "soon"), 2),
        (("add", "bot", "--key", "missing.pem"), 1),
        (("show", "nobody"), 1),
    ],
)
def test_mistakes_are_told_and_nothing_is_added(agents, words, code):
    assert agents(*words, code=code).err
    assert [row["agent"] for row in listed(agents)] == ["shop"]


def test_what_is_shown_of_an_agent(agents):
    said = agents("show", "shop").out
    assert "https://shop.example" in said
    assert "[agents.known.shop]  allows search, get_*; denies get_secret; 30 calls a minute" in said
    assert "[agents.known.shop.servers.till]  allows pay" in said
    assert "[agents.servers.till]  denies drop_*" in said
    shown = json.loads(agents("show", "https://shop.example", "--json").out)
    assert (shown["source"], shown["fetched_at"], shown["keys"]) == ("listed", 0, [])
    assert "callgate agents refresh" in agents("show", "https://shop.example").err


@requirement("WB-078", "WB-079")
@rows(
    ("words", "reason", "line"),
    [
        (("shop", "search"), "", "[agents.known.shop] allow_tools has 'search'"),
        (("shop", "get_price"), "", "[agents.known.shop] allow_tools has 'get_*'"),
        (("shop", "get_secret"), "tool_denied", "[agents.known.shop] deny_tools has 'get_secret'"),
        (("shop", "send"), "tool_denied", "[agents.known.shop] allow_tools does not have send"),
        (("shop", "pay", "--server", "till"), "", "[agents.known.shop.servers.till] allow_tools has 'pay'"),
        (("shop", "Drop_all", "--server", "till"), "tool_denied", "[agents.servers.till] deny_tools has 'drop_*'"),
        (("shut",), "agent_not_in_directory", "callgate agents add"),
        (("nobody",), "agent_not_in_directory", "callgate agents add"),
    ],
)
def test_why_names_the_line_that_decides(agents, words, reason, line):
    found = json.loads(agents("why", *words, "--json").out)
    assert found["reason"] == reason
    assert any(line in one for one in found["lines"]), found["lines"]
    said = agents("why", *words).out
    assert (f"Refused: {reason}." in said) if reason else ("may call" in said)
    assert not reason or reason in set(Reason)


def test_why_an_agent_is_shut_out(here, agents):
    AgentKey.generate().write(here / "agent.pem")
    agents("add", "shut", "--key", "agent.pem")
    found = json.loads(agents("why", "shut", "--json").out)
    assert found["reason"] == "agent_denied"
    assert "[agents.known.shut] denied = true: everything is refused" in found["lines"]


def test_why_a_key_is_not_known_and_whose_it_is(here, agents):
    key = AgentKey.generate()
    found = json.loads(agents("why", key.thumbprint, "--json").out)
    assert found["reason"] == "unknown_keyid"
    assert found["lookup"]["steps"]
    key.write(here / "agent.pem")
    agents("add", "bot", "--key", "agent.pem")
    found = json.loads(agents("why", key.thumbprint, "send", "--json").out)
    assert (found["agent"], found["reason"]) == ("bot", "tool_denied")
    assert "[agents.default] allow_tools does not have send" in found["lines"]


def test_an_expired_or_revoked_key_is_the_reason(agents):
    agents("add", "late", "--api-key")
    agents("remove", "late", "-y")
    found = json.loads(agents("why", "late", "search", "--json").out)
    assert any("(revoked)" in one for one in found["lines"])
    assert found["reason"] == "agent_not_in_directory"


def test_the_kill_switch_is_told(agents):
    assert run(["block-all", "on"]) == 0
    agents("list")
    found = json.loads(agents("why", "shop", "search", "--json").out)
    assert found["reason"] == "blocked_by_policy"


def test_a_directory_that_cannot_be_fetched_changes_nothing(agents):
    (found,) = json.loads(agents("refresh", "--json", code=1).out)
    assert (found["ok"], found["url"].startswith("https://shop.example/")) == (False, True)
    assert "what was held stays" in agents("refresh", "https://127.0.0.1:1", code=1).out
    assert "again before" in agents("refresh", "--flush").out


def test_thumbprints_that_begin_with_a_dash_can_be_typed(agents):
    dashed = "-" + "a" * 42
    assert json.loads(agents("why", dashed, "--json").out)["reason"] == "unknown_keyid"
