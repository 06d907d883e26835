"""Arguments, names and notes that would look like something else on the page: bidi, invisible, control, HTML."""

import html
import re
import unicodedata

import pytest

from support.console import live_console
from support.registry import requirement

HIDDEN = "\u202e\u2066\u200b\u200d\u00ad\ufeff\u2028\u0085\u061c\U000e0041\u3164\x7f\x1b"
EVIL = f"a{HIDDEN}b\n  cascade: false<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


@pytest.fixture
async def console():
    async with live_console(describe_server=lambda _: EVIL) as running:
        yield running


def assert_harmless(page):
    """Nothing but plain white space is invisible anywhere in the page, and no text became a tag."""
    strange = {char for char in page if unicodedata.category(char) in ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp")}
    assert strange <= {"\n"}, strange
    assert not set(page) & set(HIDDEN)
    assert "<script>" not in page
    assert "<img" not in page


def shown(page, element):
    """The text of one element, as a browser would read it."""
    inside = re.search(rf'id="{element}"[^>]*>\n?(.*?)</(?:pre|code)>', page, re.DOTALL)[1]
    return html.unescape(re.sub(r"</?span[^>]*>", "", inside))


@requirement("VA-064")
async def test_arguments_are_shown_with_their_hidden_characters_spelt_out(console):
    person = await console.sign_in()
    asked = await console.ask({"path": EVIL, EVIL: [EVIL], "plain": "\\u202e"})
    page = (await console.get(f"/approve/{asked.id}", person)).text
    assert_harmless(page)
    text = shown(page, "display-text")
    assert text == asked.display_text
    for name in ("\\u202e", "\\u200b", "\\u2066", "\\u{e0041}", "\\n", "\\u001b", "\\u007f"):
        assert name in text
        assert name in shown(page, "canonical")
    # A text that only spells an escape is told from the character itself.
    assert '"\\\\u202e"' in text
    assert len(re.findall(r'class="line"', page)) == asked.display_text.count("\n") + 1


async def test_names_and_facts_of_others_are_shown_so_too(console):
    person = await console.sign_in()
    agent = {"client": EVIL, EVIL[:40]: EVIL}
    asked = await console.ask(server=EVIL, agent=agent, why=EVIL, tool="evil" + HIDDEN.replace("\x1b", ""))
    assert_harmless((await console.get(f"/approve/{asked.id}", person)).text)
    assert_harmless((await console.get("/", person)).text)
    await console.post(f"/approve/{asked.id}/refuse", {"note": EVIL}, person)
    page = (await console.get(f"/approve/{asked.id}", person)).text
    assert "You refused this call" in page
    assert_harmless(page)
    assert_harmless((await console.get("/", person)).text)


async def test_the_name_of_a_passkey(console):
    person = await console.sign_in()
    answer = await console.post(f"/passkeys/{person.credential.id}/rename", {"name": EVIL[:64]}, person)
    assert answer.status == 200
    assert_harmless((await console.get("/", person)).text)


async def test_a_description_by_the_author_of_the_tool(console):
    person = await console.sign_in()
    asked = await console.ask(describe=lambda arguments: f"Do it{HIDDEN}\nnow with {arguments}")
    page = (await console.get(f"/approve/{asked.id}", person)).text
    assert_harmless(page)
    assert shown(page, "display-text") == asked.display_text


@requirement("VA-173")
async def test_the_client_has_no_say_in_what_the_page_shows(console):
    """It claims to do something harmless wherever it can say anything; the page shows the stored text of the call."""
    person = await console.sign_in()
    claim = "reads one harmless file"
    asked = await console.ask(agent={"client": f"Helper, which only {claim}", "displayText": claim})
    page = (await console.get(f"/approve/{asked.id}?displayText={claim}", person)).text
    stored = (await console.stored(asked)).display_text
    assert shown(page, "display-text") == stored
    assert claim not in stored
    assert '"prod/customers-eu"' in stored
    assert shown(page, "canonical") == asked.canonical.decode()
    assert shown(page, "action-hash") == asked.action_hash.hex()


async def test_a_very_long_value_is_shown_whole(console):
    person = await console.sign_in()
    long = "".join(f"{number:06d}" for number in range(30_000))
    asked = await console.ask({"text": long})
    page = (await console.get(f"/approve/{asked.id}", person)).text
    assert long in shown(page, "display-text")
    assert long in shown(page, "canonical")


async def test_very_many_values_are_shown_whole_and_do_not_stall_the_page(console):
    person = await console.sign_in()
    asked = await console.ask({"list": list(range(40_000))})
    page = (await console.get(f"/approve/{asked.id}", person)).text
    assert shown(page, "canonical") == asked.canonical.decode()
    assert "[39999]: 39999" in shown(page, "display-text")
    assert page.count("<li") < 2_000
