"""The policy on its page: rules in force, why, what if, and other rules put in force."""

import contextlib
import html
import re

import pytest

from callgate.audit import reading
from callgate.console.pages.policy import MOST_BYTES, digest
from support.console import whole_console
from support.past_calls import NO_MAIL, RULES, remember
from support.table import rows

CONFIG = '[trust]\npolicy = "rules.toml"\n'
PROPOSED = RULES + NO_MAIL


@contextlib.asynccontextmanager
async def opened(folder, text=CONFIG, rules=RULES):
    if rules is not None:
        (folder / "rules.toml").write_text(rules)
    async with whole_console(folder, text) as console:
        await console.sign_in()
        yield console


@pytest.fixture
async def console(tmp_path):
    async with opened(tmp_path) as running:
        yield running


def words(page):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


async def page(console, path="/policy", status=200, who="anna"):
    answer = await console.get(path, console.people[who])
    assert answer.status == status, answer.text
    return answer.text


async def tried(console, text):
    answer = await console.post("/policy/try", {"text": text}, console.people["anna"])
    assert answer.status == 200, answer.text
    return answer.json["ok"], words(answer.json["html"]), answer.json["html"]


def body(text=PROPOSED, before=RULES):
    return {"text": text, "before": digest(before.encode())}


def records(console, action):
    with console.gateway.store.audit_reading() as tables:
        return [one.decode() for _, one in tables.bodies(reading.Filter()) if f'"{action}"'.encode() in one]


async def test_rules_are_listed_in_the_order_in_which_they_speak_with_how_often_each_decided(console, tmp_path):
    remember(console)
    text = words(await page(console))
    assert text.index("no-drafts block rules.toml, line 2 · decided 0 today") < text.index("stranger-decides ask")
    assert "Nothing is drafted here." in text
    assert 'tool.name == "draft"' in text
    assert "default policy · decided 3 today" in text
    assert str(tmp_path / "rules.toml") in text


async def test_why_a_call_was_decided_so(console):
    (call, *_) = remember(console)
    text = words(await page(console, f"/policy?call={call.call}"))
    assert "ask by stranger-decides" in text
    assert "It was decided so then." in text
    assert 'provenance.untrusted = ["to"]' in text
    assert re.search(r"stranger-decides ask holds · decides", text)
    assert "no-drafts block does not hold" in text
    # The log leads there.
    assert f'href="/policy?call={call.call}#why"' in await page(console, f"/audit/{call.call}")


async def test_a_call_under_other_rules_says_what_held_then(tmp_path):
    async with opened(tmp_path, rules=PROPOSED) as console:
        (call, *_) = remember(console)
        text = words(await page(console, f"/policy?call={call.call}"))
        assert "block by no-mail No mail today." in text
        assert "Then, under the rules of then: ask by stranger-decides ." in text


@rows(
    ("call", "said"),
    [("01nothere", "No call 01nothere is on record"), ("x" * 200, "no call's id"), ("a%00b", "no call's id")],
)
async def test_a_call_that_nobody_made(console, call, said):
    assert said in words(await page(console, f"/policy?call={call}", 404))


async def test_a_call_without_facts(console):
    (call,) = remember(console, 1, extra=None)
    assert "holds no facts for rules" in words(await page(console, f"/policy?call={call.call}", 404))


async def test_what_if_groups_the_calls_that_would_be_decided_otherwise(console):
    remember(console, 7)
    ok, text, markup = await tried(console, PROPOSED)
    assert ok
    assert "2 rules without a mistake. 7 of 7 decisions would differ." in text
    assert "ask → becomes block 7 calls by no-mail" in text
    assert "and 2 more" in text
    assert markup.count('href="/audit/01testcall') == 5
    ok, text, _ = await tried(console, RULES)
    assert (ok, "0 of 7 decisions would differ." in text) == (True, True)


async def test_mistakes_are_told_with_line_and_caret_and_escaped(console):
    wrong = (
        RULES.replace("tool.name", "tool.nmae")
        + '[[rules]]\nname = "<script>alert(1)</script>"\neffect = "blok\u202e"\n'
    )
    ok, text, markup = await tried(console, wrong)
    assert not ok
    assert "3 things to put right" in text
    assert "rules.toml:5: rules[0].when: there is no fact tool.nmae, perhaps tool.name" in text
    line, caret = re.search(r"[\n>]( +when = .*)\n( +)\^", html.unescape(markup)).groups()
    assert line[len(caret) :].startswith("tool.nmae")
    assert "<script>" not in markup
    assert "\u202e" not in markup


async def test_rules_that_are_put_in_force(console, tmp_path):
    answer = await console.act("/policy/save", body(), console.people["anna"])
    assert answer.json == {"hash": digest(PROPOSED.encode()), "backup": "rules.toml.bak"}
    assert (tmp_path / "rules.toml").read_text() == PROPOSED
    assert (tmp_path / "rules.toml.bak").read_text() == RULES
    (row,) = records(console, "policy.save")
    assert digest(RULES.encode()) in row
    assert digest(PROPOSED.encode()) in row
    assert '"anna"' in row
    assert "no-mail block" in words(await page(console))
    # Nothing else stays behind.
    assert sorted(one.name for one in tmp_path.iterdir() if "rules" in one.name) == ["rules.toml", "rules.toml.bak"]


async def test_a_second_save_keeps_the_file_of_before_it_and_its_rights(console, tmp_path):
    (tmp_path / "rules.toml").chmod(0o640)
    assert (await console.act("/policy/save", body(), console.people["anna"])).status == 200
    assert (await console.act("/policy/save", body(NO_MAIL, PROPOSED), console.people["anna"])).status == 200
    assert (tmp_path / "rules.toml.bak").read_text() == PROPOSED
    assert (tmp_path / "rules.toml").stat().st_mode & 0o777 == 0o640


async def test_without_a_file_the_page_says_how_to_name_one(tmp_path):
    async with opened(tmp_path, "", None) as console:
        text = words(await page(console))
        assert '[trust] policy = "rules.toml"' in text
        assert "Put in force with passkey" not in text
        assert (await tried(console, NO_MAIL))[0]
        answer = await console.act("/policy/save", body(), console.people["anna"])
        assert (answer.status, answer.reason) == (400, "invalid_request")


async def test_rules_on_disk_that_cannot_be_used_are_shown_with_what_is_wrong(tmp_path):
    async with opened(tmp_path, rules="rules = 3") as console:
        text = words(await page(console))
        assert "The rules cannot be used as they are written." in text
        assert "a list of rules is wanted" in text


async def test_a_large_file_is_left_to_an_editor(tmp_path):
    async with opened(tmp_path, rules=RULES + "# " + "x" * MOST_BYTES) as console:
        text = words(await page(console))
        assert "it is larger than 48,000 bytes" in text
        assert "no-drafts block" in text


async def test_where_only_past_calls_are_observed_the_page_says_so(tmp_path):
    async with opened(tmp_path, CONFIG + 'mode = "observe"\n') as console:
        assert "Observed only" in await page(console)


async def test_characters_that_nobody_sees_are_told_of_and_spelt_out(tmp_path):
    async with opened(tmp_path, rules=RULES.replace('"draft"', '"dr\u200baft"').replace("when", "\twhen")) as console:
        text = await page(console)
        assert 'id="unseen"' in text
        assert 'tool.name == "dr\\u200baft"' in words(text)


async def test_a_tab_is_nothing_to_be_told_of(tmp_path):
    async with opened(tmp_path, rules=RULES.replace("when", "\twhen")) as console:
        assert 'id="unseen"' not in await page(console)
