"""The servers' pages: what is configured, what was met, how its tools stand, and what is wrong."""

import html
import re

import pytest
import pytest_asyncio

from support.audited import audited_console, now_of, story, write
from support.memory import MemoryPins
from support.reviewing import approve, meet, pins_over, tool
from support.table import rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

MAIL = "https://mail.example/mcp"
OLD = "https://old.example/mcp"
CONFIG = """
[servers.files]
command = ["notes-server", "--token", "${SECRET}", "<b>root</b>"]
[servers.mail]
url = "https://user:${SECRET}@mail.example/mcp"
[servers.mail.approval]
tools = ["send_*"]
user = "berta"
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory):
    shelf = MemoryPins()
    pins = pins_over(shelf)
    await meet(shelf, "mail", MAIL, [tool("send_mail"), tool("list_mail"), tool("drop")], reported="<i>mail</i> 2.0")
    await meet(shelf, "gone", OLD, [tool("read")], problem="the list of tools is <b>no list</b>")
    await approve(pins, MAIL, "list_mail")
    configured = {"files": "", "mail": ""}
    options = {"pins": pins, "configured": lambda: configured}
    folder = tmp_path_factory.mktemp("servers")
    config = CONFIG.replace("${SECRET}", "hush-hush")
    async with audited_console(folder, config, **options) as (console, rooms):
        write(rooms.log, story(now_of(console)))
        await console.sign_in("anna")
        yield console


def words(text):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


async def page(console, path, status=200):
    answer = await console.get(path, console.people["anna"])
    assert answer.status == status, words(answer.text)
    return answer.text


async def test_each_server_with_its_state(place):
    text = await page(place, "/servers")
    found = re.findall(r'<tr>\s*<th scope="row".*?</tr>', text, re.DOTALL)
    rows = {re.search(r'href="/servers/(\w+)"', row)[1]: row for row in found}
    assert list(rows) == ["files", "mail", "gone"]
    assert "Not met yet" in words(rows["files"])
    assert "12 calls" in words(rows["files"])
    mail = words(rows["mail"])
    for said in ("http", "1 approved", "2 waiting", "4 calls", "3 refused", "1 to look at"):
        assert said in mail
    assert 'href="/audit?server=mail&amp;since=24h"' in rows["mail"]
    assert "not configured" in words(rows["gone"])


async def test_secrets_of_the_configuration_stay_there(place):
    for path in ("/servers", "/servers/mail", "/servers/files"):
        text = await page(place, path)
        assert "hush-hush" not in text
        assert "<b>root" not in text
        assert "<i>mail" not in text
        assert "no list</b>" not in text


async def test_one_server_with_its_identity_and_what_holds_for_it(place):
    text = words(await page(place, "/servers/mail"))
    for said in (MAIL, "<i>mail</i> 2.0", "1 approved, 2 waiting, 0 blocked", "send_*", "berta", "Newest calls"):
        assert said in text
    assert "1 call of the last hour had no proper answer from it" in text
    gone = words(await page(place, "/servers/gone"))
    assert "not configured any more" in gone
    assert "the list of tools is <b>no list</b>" in gone


@rows("name", ["nobody", "%3Cscript%3E", "x" * 3000, "..%2faudit"])
async def test_an_unknown_server_is_not_there(place, name):
    assert "<script>" not in await page(place, f"/servers/{name}", 404)


async def test_the_overview_names_servers_in_trouble(place):
    troubled = (await page(place, "/")).split('id="troubled"')[1].split("</section>")[0]
    assert re.findall(r'href="/servers/(\w+)"', troubled) == ["mail", "gone"]
    assert "the list of tools is" in words(troubled)


async def test_servers_that_clients_start_need_no_configuration(tmp_path):
    shelf = MemoryPins()
    await meet(shelf, "notes", "npm:notes@1.0.0", [tool("read")], target="npx -y notes@1.0.0")
    async with audited_console(tmp_path, "", pins=pins_over(shelf), configured=lambda: None) as (console, _):
        await console.sign_in("anna")
        texts = [words(await page(console, path)) for path in ("/servers", "/servers/notes")]
        for text in texts:
            assert "npx -y notes@1.0.0" in text
            assert "configured" not in text
        assert "Your clients start them." in texts[0]
        assert "pinning.mode" in texts[1]
        assert "None of 1." in words(await page(console, "/"))
