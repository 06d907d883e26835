"""Names, values and warnings of a server try to be something else in a session's picture: markup, scripts, invisible
letters, commands for a terminal."""

import html
import re
import unicodedata
from xml.etree import ElementTree as ET

import pytest

from callgate.approval.display import escape
from callgate.cli import run
from callgate.cli.common import open_log
from callgate.store import SqlTrust, Store
from callgate.trust.model import DataLabel
from support.agent_sessions import HANDLE, KEY, hold, step, trust_over, value, walk
from support.browser import PATIENCE_MS, chromium
from support.console import live_console
from support.memory import MemoryTrust
from support.table import rows

HIDDEN = "\u202e\u2066\u200b\u200d\u00ad\ufeff\u2028\u0085\u061c\U000e0041\u3164\x7f\x1b\x00\ufe0f"
MARKUP = (
    "</title></text></svg></a></script><script>alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)>"
    "<foreignObject><h1>Allowed by Callgate</h1></foreignObject>\"'&<!-- ]]> {{ 7 * 7 }} {% if session %}"
    "{{ session.csrf }}{% endif %} `callgate session declassify`"
)
ANSI = "\x1b[2J\x1b[31mred\x1b[0m\x9b1;31m\x1b]0;title\x07"
EVIL = f"{MARKUP}\n{ANSI}{HIDDEN}"


def evil_steps():
    label = DataLabel(
        open_world=True,
        malicious=True,
        sources=frozenset({EVIL}),
        sensitivity=frozenset({EVIL}),
        attribution=(EVIL, "javascript:alert(1)"),
        warnings=(EVIL, f"{EVIL}2"),
    )
    tool_label = {"destination": EVIL, "outcomes": [EVIL]}
    more = {"label": label, "tool_label": tool_label, "rule": EVIL, "why": f"{EVIL}\n{EVIL}"}
    return [
        step(EVIL, EVIL, value(EVIL, EVIL, "prompt", critical=True), verdict=EVIL, **more),
        step(EVIL, EVIL, value(EVIL, EVIL, "untrusted", 1), verdict="ask", **more),
        step(EVIL, EVIL, value(EVIL, EVIL, "own", 1), verdict="declassified", **more),
    ]


@pytest.fixture
async def shelf():
    made = MemoryTrust()
    await walk(made, KEY, *evil_steps(), agent=EVIL)
    await hold(made, HANDLE, EVIL, warning=EVIL)
    return made


@pytest.fixture
async def console(shelf):
    async with live_console(trust=trust_over(shelf)) as running:
        yield running


PAGES = ("/", "/sessions", f"/sessions/{KEY}", "/quarantine", f"/quarantine/{HANDLE}")


def assert_harmless(page):
    strange = {char for char in page if unicodedata.category(char) in ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp")}
    assert strange <= {"\n"}, strange
    assert not set(page) & set(HIDDEN)
    for tag in ("<script>", "<img", "<svg onload", "<h1>Allowed", "<!--", "<foreignObject", "]]>"):
        assert tag not in page
    assert " 49 " not in page


@rows("path", PAGES)
async def test_every_text_of_a_session_is_text_and_nothing_else(console, path):
    person = await console.sign_in()
    answer = await console.get(path, person)
    assert answer.status == 200
    assert_harmless(answer.text)
    targets = re.findall(r'(?:href|src|action)="([^"]*)"', answer.text)
    assert all(re.fullmatch(r"(/[a-z0-9./?=_-]*|#[a-z0-9-]+)?", target) for target in targets), targets
    assert person.csrf not in html.unescape(re.sub(r"<meta[^>]*>", "", answer.text))


async def test_the_drawing_is_well_formed_and_has_only_what_we_draw(console):
    person = await console.sign_in()
    text = (await console.get(f"/sessions/{KEY}", person)).text
    raw = text[text.index('<svg class="flow"') : text.rindex("</svg>", 0, text.index("session-steps")) + len("</svg>")]
    tree = ET.fromstring(raw)
    assert {one.tag for one in tree.iter()} == {"svg", "g", "a", "path", "rect", "text", "title"}
    members = {name for one in tree.iter() for name in one.attrib}
    assert not {name for name in members if name.startswith(("on", "style", "xlink"))}
    assert all(one.attrib["href"].startswith("#step-") for one in tree.iter("a"))


async def test_in_a_real_browser_nothing_runs_and_nothing_is_loaded(console):
    person = await console.sign_in()
    asked, said = [], []
    async with chromium() as browser:
        context = await browser.new_context()
        cookie = {"name": console.cookie, "value": person.cookie[console.cookie], "url": console.origin}
        await context.add_cookies([cookie])
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda told: said.append(told.text))
        for path in PAGES:
            await page.goto(f"{console.origin}{path}")
            await page.locator("h1").first.wait_for()
            assert await page.locator("h1").count() == 1
            assert await page.locator("iframe, object, embed, img, main script, foreignObject").count() == 0
    assert said == []
    assert all(url.startswith(console.origin) for url in asked), asked


@rows("words", [("session", "list"), ("session", "show", KEY), ("quarantine", "list"), ("quarantine", "show", HANDLE)])
def test_no_text_of_a_session_steers_a_terminal(tmp_path, monkeypatch, capsys, words):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    url = f"sqlite:///{tmp_path / 'store.db'}"
    _filled(url)
    assert run([*words, "--store", url]) == 0
    out = capsys.readouterr().out
    strange = {char for char in out if unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")}
    assert strange <= {"\n"}, strange
    if words[1] == "show":
        # A line break in a peer's text never begins a line of ours.
        assert not re.search(r"^\x1b|^red", out, re.MULTILINE)
        assert escape("\u202e") in out


def _filled(url):
    import asyncio

    with open_log(None, url, create=True):
        pass
    store = Store.open(url)

    async def fill():
        shelf = SqlTrust(store)
        await walk(shelf, KEY, *evil_steps(), agent=EVIL)
        await hold(shelf, HANDLE, EVIL, warning=EVIL)

    try:
        asyncio.run(fill())
    finally:
        store.close_sync()
