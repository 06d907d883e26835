"""Agents on their pages: who is known, by what, what each may do and did; keys made and taken away."""

import contextlib
import html
import re
import time
from urllib.parse import unquote

import pytest

from callgate.agents.apikeys import ApiKeys
from callgate.agents.directories import Sources
from callgate.agents.storage import Listed
from callgate.audit import reading
from callgate.errors import Refused
from callgate.sdk.agent_keys import AgentKey
from support.agent_directories import world
from support.console import whole_console
from support.past_calls import remember

CONFIG = """
[agents.api_keys]
enabled = true
[agents.known.shop]
directory = "https://shop.example"
allow_tools = ["search", "get_*"]
per_minute = 60
[agents.known.shop.servers.till]
allow_tools = ["pay"]
[agents.known.ruled]
directory = "listed"
deny_tools = ["drop_*"]
[servers.till]
url = "https://till.example/mcp"
"""


@contextlib.asynccontextmanager
async def opened(folder, text=CONFIG):
    async with whole_console(folder, text) as console:
        await console.sign_in()
        yield console


@pytest.fixture
async def console(tmp_path):
    async with opened(tmp_path) as running:
        yield running


def words(page):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


async def page(console, path="/agents", status=200):
    answer = await console.get(path, console.people["anna"])
    assert answer.status == status, answer.text
    return answer.text


def records(console, action):
    with console.gateway.store.audit_reading() as tables:
        return [one.decode() for _, one in tables.bodies(reading.Filter()) if f'"{action}"'.encode() in one]


async def made(console, agent="reports", days=90):
    answer = await console.act("/agents/key", {"agent": agent, "days": days}, console.people["anna"])
    assert answer.status == 200, answer.text
    return answer.json


async def verified(console, key):
    return await ApiKeys(console.gateway.agents, lambda: int(console.clock() * 1000)).verify(key)


async def test_who_is_known_by_what_and_what_they_did_today(console):
    remember(console, 4)
    remember(console, 1, verdict="refuse", reason="tool_denied", call="01other")
    await made(console)
    text = words(await page(console))
    assert "others on this machine may call too" in text
    assert "reports API key 5 1 refused" in text
    assert "ruled nothing: it has rules and no key 0" in text
    assert "shop signature 0" in text
    assert "https://shop.example/.well-known/http-message-signatures-directory listed not fetched yet" in text


async def test_a_caller_whom_nobody_listed_is_told_of(console):
    remember(console, 2)
    text = await page(console)
    assert "Called today without being listed here: reports (2)." in words(text)
    assert "2 calls, 0 of them refused" in words(await page(console, "/agents/reports"))


async def test_one_agent_with_its_rules_and_why(console):
    text = words(await page(console, "/agents/shop?tool=send"))
    assert "[agents.known.shop] allows search, get_*; 60 calls a minute" in text
    assert "Refused tool_denied" in text
    assert "[agents.known.shop] allow_tools does not have send" in text
    text = words(await page(console, "/agents/shop?tool=pay&server=till"))
    assert "May call pay" in text
    assert "[agents.known.shop.servers.till] allow_tools has 'pay'" in text


async def test_a_key_is_shown_once_works_and_is_on_record(console):
    given = await made(console)
    assert (await verified(console, given["key"])).id == "reports"
    (row,) = records(console, "agents.add")
    assert given["id"] in row
    assert '"anna"' in row
    _prefix, key_id, secret = given["key"].split("_", 2)  # the secret may have "_" in it
    assert (key_id, len(secret)) == (given["id"], 43)
    for path in ("/agents", "/agents/reports"):
        assert secret not in await page(console, path)
    assert secret not in "".join(records(console, "agents.add"))


async def test_a_key_ends_when_it_was_said_to(console):
    short, long = await made(console, days=1), await made(console, days=0)
    console.clock.ahead += 2 * 86_400
    with pytest.raises(Refused):
        await verified(console, short["key"])
    assert (await verified(console, long["key"])).id == "reports"


async def test_one_key_revoked_and_the_others_left(console):
    first, second = await made(console), await made(console)
    answer = await console.act("/agents/revoke", {"agent": "reports", "key": first["id"]}, console.people["anna"])
    assert answer.json == {"left": True}
    with pytest.raises(Refused):
        await verified(console, first["key"])
    await verified(console, second["key"])
    (row,) = records(console, "agents.remove")
    assert first["id"] in row
    assert second["id"] not in row
    assert "API key revoked" in words(await page(console, "/agents/reports"))


async def test_an_agent_shut_out_with_everything_that_was_added_for_it(console):
    given = await made(console, "ruled")
    key = AgentKey.generate("ed25519")
    await console.gateway.agents.add_agent(Listed("ruled", key.thumbprint, "https://ruled.example", name="Ruled"))
    text = await page(console, "/agents/ruled")
    keys = [key.thumbprint, given["id"]]
    assert "Shut ruled out" in text
    answer = await console.act("/agents/remove", {"agent": "ruled", "keys": keys}, console.people["anna"])
    assert answer.json == {"left": False}
    with pytest.raises(Refused):
        await verified(console, given["key"])
    assert await console.gateway.agents.agents() == []
    (row,) = records(console, "agents.remove")
    assert all(one in row for one in keys)


async def test_what_the_configuration_says_cannot_be_taken_away_here(console):
    assert 'id="remove"' not in await page(console, "/agents/shop")
    answer = await console.act("/agents/remove", {"agent": "shop", "keys": [""]}, console.people["anna"])
    assert answer.reason == "page_outdated"


async def test_a_directory_that_cannot_be_fetched_is_said_to_stay(console):
    url = "https://shop.example/.well-known/http-message-signatures-directory"
    answer = await console.post("/agents/refresh", {"url": url}, console.people["anna"])
    assert answer.json["ok"] is False
    assert "what was held stays" in answer.json["text"]
    assert "not fetched yet" in words(await page(console))


async def test_a_directory_that_was_fetched_shows_its_keys(tmp_path):
    async with world() as made:
        made.clock.now = time.time()
        signer = made.signer()
        made.server.publish("a.example", signer)
        url = made.server.url("a.example")
        async with opened(tmp_path, f'[agents.known.shop]\ndirectory = "{url}"\n') as console:
            found = made.directories(Sources(agents=(Listed("shop", "", url),)), shelf=console.gateway.agents)
            assert (await found.refresh(url)).ok
            text = words(await page(console))
            assert "Fetched" in text
            (shown,) = await found.show()
            assert f"{shown.keys[0].thumbprint} ed25519" in text


async def test_many_agents_come_in_pages_and_are_searched(console):
    keys = ApiKeys(console.gateway.agents, lambda: int(console.clock() * 1000))
    for number in range(120):
        await keys.create(f"bot-{number:03}", by="anna")
    text = words(await page(console))
    assert "Page 1 of 3, 122 agents" in text
    assert "bot-049" in text
    assert "bot-050" not in text
    assert "ruled" in words(await page(console, "/agents?page=3"))
    assert "Page 3 of 3" in words(await page(console, "/agents?page=999999"))
    found = words(await page(console, "/agents?q=OT-11&page=x"))
    assert found.count("bot-11") == 20
    assert "No agent here has" in words(await page(console, "/agents?q=%3Cscript%3E"))


async def test_names_with_anything_in_them_have_a_page(console):
    for name in ("https://a.example/x?y#z", "key", "100%", "<b>&amp;"):
        await made(console, name)
        listed = await page(console)
        path = next(one for one in re.findall(r'href="(/agents/[^"]+)"', listed) if _named(one) == name)
        assert html.escape(name) in await page(console, html.unescape(path))
    await page(console, "/agents/nobody", 404)


def _named(path):
    return unquote(html.unescape(path).removeprefix("/agents/"))


async def test_nobody_is_known_and_nobody_is_asked(tmp_path):
    async with opened(tmp_path, '[agents]\nmode = "off"\n') as console:
        text = words(await page(console))
        assert "Nobody is asked who they are." in text
        assert "No agent is known here yet." in text
        assert "API keys are no way in here yet" in text
